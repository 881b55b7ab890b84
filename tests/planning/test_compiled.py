"""A process parses and checks the text of an instance once, whoever asks for it."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from spdist.config.allowed import Allowed
from spdist.connectors.http.addresses import sources_at
from spdist.connectors.receiving import NodeContext
from spdist.engine.island.hosted import build_island
from spdist.engine.island.user_topics import mapped_topics
from spdist.engine.shards.shards import Router, ShardSettings
from spdist.engine.shards.state import Segment
from spdist.errors import SiddhiAppError
from spdist.extension import catalog, function, signature
from spdist.language.types import Type
from spdist.planning import compiled
from spdist.planning.compiled import TEXTS_KEPT, CompiledInstance, checked_text, tree_of
from spdist.planning.standalone import standalone_assignment
from spdist.planning.topology import Assignment
from spdist.runtime.command_topics import commanded
from spdist.runtime.kafka_inputs import user_sources
from spdist.runtime.realtime_checkpoints import planned
from spdist.runtime.sinks import check_sinks
from spdist.runtime.sources import Sources
from spdist.transports.log import LogTransport

TEXT = """@app:name('App')
@source(type='kafka', topic.list='in', bootstrap.servers='localhost:9', group.id='g', @map(type='json'))
@source(type='inMemory', topic='in', @map(type='passThrough'))
define stream S (k string, v int);
@sink(type='log') define stream Out (k string, v long);
partition with (k of S) begin from S#window.length(3) select k, sum(v) as v insert into Out; end;
"""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count how often a text is parsed and checked, in a process that knows none."""
    made: Counter[str] = Counter()

    def counted(name: str) -> Any:
        call = getattr(compiled, name)

        def count(*given: Any) -> Any:
            made[name] += 1
            return call(*given)

        return count

    for name in ("parse", "check"):
        monkeypatch.setattr(compiled, name, counted(name))
    tree_of.cache_clear()
    compiled._checked.cache_clear()
    yield made
    tree_of.cache_clear()
    compiled._checked.cache_clear()


def assignment() -> Assignment:
    return standalone_assignment(checked_text(TEXT, scripts=False), TEXT, shards=2)


def test_all_that_starts_an_instance_parses_and_checks_its_text_once(calls: Counter[str], tmp_path: Any) -> None:
    one = assignment()
    allowed, transport = Allowed(), LogTransport(tmp_path)
    check_sinks(one, allowed)
    assert sources_at(one, allowed) == []
    assert planned(one, "auto") is None
    assert user_sources(one)
    assert len(Sources(one, NodeContext(transport, tmp_path))) == 1
    commanded(one)
    reads = tuple(replace(source, into="S", number=0) for source in one.inputs)
    mapped_topics([replace(one, inputs=reads)], {source.topic: "in" for source in reads}, transport)
    opening = Segment(1, "me", 0, 0, {}, opening=True)
    Router([ShardSettings(one, n, 2, opening, "") for n in range(2)])
    for _ in range(2):
        build_island(one, 0)
    assert calls == {"parse": 1, "check": 1}


def test_instances_of_one_text_share_its_app() -> None:
    one = assignment()
    first, other = CompiledInstance.of(one), CompiledInstance.of(replace(one, name="App-2"))
    assert first.checked is other.checked
    assert (first.assignment.name, other.assignment.name) == (one.name, "App-2")
    assert first.catalog is catalog(scripts=None)


def test_what_is_registered_since_then_is_known(calls: Counter[str]) -> None:
    text = "define stream S (v int); from S select test:compiled(v) as v insert into Out;"
    kinds = {}
    for kind in (Type.INT, Type.STRING):
        function("test:compiled", signature("test:compiled", ((Type.INT,), kind)))(lambda v: v)
        kinds[kind] = checked_text(text).streams["Out"].types
    assert kinds == {Type.INT: (Type.INT,), Type.STRING: (Type.STRING,)}
    assert calls == {"parse": 1, "check": 2}


def test_scripts_that_one_may_run_another_may_not() -> None:
    text = "define function f[python] return int { return 1 }; define stream S (v int);"
    assert checked_text(text, scripts=True).scripts
    with pytest.raises(SiddhiAppError, match="not run unless that is allowed"):
        checked_text(text, scripts=False)


def test_few_texts_are_kept(calls: Counter[str]) -> None:
    texts = [f"define stream S{number} (v int);" for number in range(TEXTS_KEPT + 1)]
    for text in (*texts, texts[-1], texts[0]):
        checked_text(text)
    assert calls == {"parse": TEXTS_KEPT + 2, "check": TEXTS_KEPT + 2}


def test_what_crosses_to_a_task_is_no_compiled_app() -> None:
    one = assignment()
    before = len(pickle.dumps(one))
    CompiledInstance.of(one)
    assert len(pickle.dumps(one)) == before
