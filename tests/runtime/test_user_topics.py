"""What ``@source(type='kafka')`` reads: which partitions, from where, and what is said where it cannot be."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spdist.config.sections import Log, ScriptSettings, Transports
from spdist.connectors.kafka import link as kafka_link
from spdist.connectors.kafka.source import UserTopics
from spdist.engine.shards.shards import ShardSettings
from spdist.engine.shards.state import Positions, StateStore
from spdist.engine.spark.query import QuerySettings
from spdist.errors import AppValidationError, TransportError, TransportUnavailableError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.planning.standalone import standalone_assignment
from spdist.planning.topology import Assignment
from spdist.runtime.kafka_inputs import KafkaReads, ReadsFinder, UserReader, kafka_inputs
from spdist.runtime.progress import is_away
from spdist.runtime.shard_states import InstanceState, between
from spdist.services.process import free_port
from spdist.transports.kafka.extents import KafkaExtents
from spdist.transports.kafka.options import KafkaSettings
from spdist.transports.log import LogTransport
from spdist.transports.options import Options

ALIAS = "App.S@0:orders"
NOWHERE = Transports(log=Log(Path("unused")))
#: Of each partition the first message and the end.
Extents = dict[str, dict[int, tuple[int, int]]]


def assignment(options: str = "") -> Assignment:
    text = f"""@app:name('App') @source(type='kafka', bootstrap.servers='nowhere:1', topic.list='orders', {options}
        @map(type='json')) define stream S (k string, v long); from S select k insert into Out;"""
    return standalone_assignment(check(parse(text), catalog(), text), text)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Extents:
    """What the brokers have; nothing else is asked."""
    extents: Extents = {"orders": {0: (10, 40), 1: (0, 0), 2: (5, 5)}}

    class Known:
        def __init__(self, access: Any) -> None:
            assert access.servers == ("nowhere:1",)

        def extents(self, topics: Sequence[str]) -> Extents:
            return {topic: extents.get(topic, {}) for topic in topics}

        def messages(self, topic: str, partition: int, offset: int) -> list[tuple[int, int, bytes | None, bytes]]:
            texts = {10: b'{"event": {"k": "a", "v": 1}}', 11: b"nonsense", 12: b'{"event": {"k": "b", "v": 2}}'}
            return [(at, 7, None, text) for at, text in texts.items() if at >= offset][:2]

        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(kafka_link, "KafkaTopics", Known)
    return extents


def read(one: Assignment, known: Positions | None = None, shares: int = 1) -> KafkaReads:
    return kafka_inputs([one], NOWHERE, lambda _topic: shares, {"App": known or {}})


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        ("", {0: 10, 1: 0, 2: 5}),
        ("optional.configuration='auto.offset.reset:latest',", {0: 40, 1: 0, 2: 5}),
        ("topic.offsets.map='orders=20',", {0: 21, 1: 21, 2: 21}),
        ("partition.no.list='2,0',", {0: 10, 2: 5}),
    ],
)
def test_reading_begins_where_the_source_says(there: Extents, options: str, begins: dict[int, int]) -> None:
    found = read(assignment(options))
    assert found.first == {"App": {ALIAS: begins}}
    embedded, users = found.assignment("App").inputs
    assert (embedded.topic, users.topic, users.into, sorted(users.partitions)) == ("App.S", ALIAS, "App.S", [*begins])
    assert found.inputs[ALIAS].name == "orders"
    assert "auto.offset.reset" not in found.inputs[ALIAS].settings.properties


def test_a_state_goes_on_where_it_is_and_a_new_partition_begins_at_its_start(
    there: Extents, caplog: pytest.LogCaptureFixture
) -> None:
    late = assignment("optional.configuration='auto.offset.reset:latest',")
    assert read(late, {ALIAS: {0: 12, 1: 0}}).first["App"][ALIAS] == {0: 12, 1: 0, 2: 5}
    with caplog.at_level(logging.WARNING):
        assert read(late, {ALIAS: {0: 4, 1: 0}}).first["App"][ALIAS][0] == 10
    assert "messages 4 to 9 were deleted" in caplog.text
    with pytest.raises(TransportError, match="'orders' was made anew: it ends with message 39, and 49 was read"):
        read(late, {ALIAS: {0: 50}})


def test_instances_share_the_partitions(there: Extents) -> None:
    first = assignment()
    second = replace(first, inputs=tuple(replace(one, partitions=(1,)) for one in first.inputs))
    shares = [read(one, shares=2).first["App"][ALIAS] for one in (first, second)]
    assert shares == [{0: 10, 2: 5}, {1: 0}]
    there["orders"] = {0: (0, 1)}
    none = read(second, shares=2)
    assert (none.first, none.inputs, len(none.assignment("App").inputs)) == ({}, {}, 1)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("partition.no.list='0,7',", "topic 'orders' at nowhere:1 has no partition 7"),
        ("partition.no.list='0,x',", "holds whole numbers with commas between them"),
        (f"partition.no.list='0,{'9' * 5_000}',", "holds whole numbers with commas between them"),
        ("partition.no.list='\u0661',", "holds whole numbers with commas between them"),
        (f"topic.offsets.map='orders={'9' * 5_000}',", "has 'orders=9"),
        ("topic.offsets.map='others=3',", "has 'others=3'"),
        ("topic.offsets.map='orders=x',", "has 'orders=x'"),
        ("optional.configuration='auto.offset.reset:middle',", "has auto.offset.reset:middle"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(there: Extents, options: str, told: str) -> None:
    with pytest.raises((TransportError, AppValidationError), match=told) as error:
        read(assignment(options))
    assert error.value.span is not None
    there.clear()
    with pytest.raises(TransportError, match="there is no topic 'orders' at nowhere:1"):
        read(assignment())


def test_options_are_needed() -> None:
    with pytest.raises(AppValidationError, match=r"'topic\.list' of it is missing"):
        UserTopics.of(Options({"bootstrap.servers": "nowhere:1"}, "it"))


def test_brokers_that_do_not_answer_are_waited_for(
    there: Extents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SimpleNamespace(transports=NOWHERE, script=ScriptSettings())
    finder = ReadsFinder("App", [InstanceState(assignment(), tmp_path)], settings, lambda _topic: 1)
    problems: list[str | None] = []

    def away(self: Any, topics: Sequence[str]) -> Extents:
        problems.append(finder.problem)
        if len(problems) < 3:
            raise TransportUnavailableError("nobody answers")
        return there

    monkeypatch.setattr(kafka_link.KafkaTopics, "extents", away)
    assert finder.find(threading.Event()) is not None
    assert (problems, finder.problem) == ([None, "nobody answers", "nobody answers"], None)
    problems.clear()
    ending = threading.Event()
    ending.set()
    assert finder.find(ending) is None


def test_shards_at_different_messages_are_brought_together(there: Extents, tmp_path: Path) -> None:
    found = read(assignment())
    one = found.assignment("App")
    opening = StateStore(tmp_path / "state").open("me", found.first["App"])
    shard = ShardSettings(one, 0, 1, opening, str(tmp_path / "state"))
    settings = QuerySettings(
        "App", (shard,), str(tmp_path / "topics"), "unused", "unused", 0, 100, 100, kafka=found.inputs
    )
    reader = UserReader(settings, LogTransport(tmp_path / "topics"))
    positions, records = between([{ALIAS: {0: 10}}, {ALIAS: {0: 13}}], reader.read)
    assert positions == {ALIAS: {0: 13}}
    assert [(record.offset, record.count) for record in records] == [(10, 1), (11, 0), (12, 1)]
    assert [record.events.rows for record in records if record.events] == [[("a", 1)], [("b", 2)]]


def test_a_query_without_brokers_is_told_from_one_that_failed() -> None:
    failed = RuntimeError("[STREAM_FAILED] Query terminated with exception: [PYTHON_ERROR]")
    assert not is_away(failed)
    with pytest.raises(TransportUnavailableError) as told:
        KafkaExtents(KafkaSettings(f"127.0.0.1:{free_port()}", patience_ms=600)).ends([("Orders", 0)])
    trace = f"spdist.errors.{type(told.value).__name__}: {told.value}"
    failed._cause = SimpleNamespace(_stackTrace=trace)  # type: ignore[attr-defined]
    assert is_away(failed)
