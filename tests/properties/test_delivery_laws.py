"""Whatever chunks an island gets go into its app in one way, and give what they give event by event."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.island.hosted import HostedApp
from spdist.engine.island.publish import Around
from spdist.mapping.columns import Events
from spdist.operators.core.junction import StreamPart
from spdist.planning.topology import Strategy
from spdist.transports.base import Record
from spdist.transports.commands import COMMANDS, SCHEMAS, commands_topic, text_row
from spdist.transports.payloads.payload import Payload
from tests.program.interpreted_programs import programs
from tests.properties.single_events import one_by_one
from tests.properties.test_run_laws import EVENTS, Steps, course, island, records

#: Streams that are read and published; what is refused, and told of; and tables, which are asked for.
_OTHERS = (
    ("from A[v == 2] select id, v + 1 as v insert into A; from A[v > 0] select id, v insert into Out;", "A"),
    ("from A[v > 2]#window.delay(5 millisec) select id, v - 1 as v insert into A; from A insert into Out;", "A"),
    ("from A[v == 3]#window.delay(2 millisec) insert into A; from A insert into Out;", "A"),
    ("from B select id, v insert into A; from A[v > 0] select id, v insert into Out;", "AB"),
    ("from B insert into A; from A[v > 0] select id, v insert into Out;", "AB"),
    ("from B#window.timeBatch(10) select id, v insert into A; from A#window.lengthBatch(2) insert into Out;", "AB"),
    ("from A#window.timeBatch(2) select id, v insert into Out;", "A"),
    ("from A select id, v insert into Out; from !A select id, v insert into Two;", "A"),
    ("from A#window.time(15) select id, v insert into Out; from !A select id, v insert into A;", "AB"),
    ("define table T (id string, v int); from A insert into T; from A[v > 1] delete T on T.id == id;", "A"),
    (
        "define table T (id string, v int); from A insert into T; "
        "from B join T on B.id == T.id select T.id as id, B.v as v insert into Out;",
        "AB",
    ),
)
_KINDS = ("", "late", "timer", "chunk", "far", "timer far", "chunk far")
_ASKED = ("from T select id, v", "select 'asked' as id, 7 as v insert into T", "from Nothing select v")


def commands(numbers: list[int]) -> list[Record]:
    """A command in each record."""
    rows = [text_row({"id": place, "query": _ASKED[number]}) for place, number in enumerate(numbers)]
    values = [Payload(SCHEMAS[COMMANDS]).encode(Events.of([(0, row)])) for row in rows]
    return [Record(commands_topic("App-g-1"), 0, value, 1, "asker", n) for n, value in enumerate(values)]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(_OTHERS), EVENTS, EVENTS, st.data())
def test_what_is_read_again_repeated_refused_or_asked_goes_the_same_way(
    chosen: tuple[str, str], left: Steps, right: Steps, data: st.DataObject
) -> None:
    app, reads = chosen
    size, together, cut = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 6)), data.draw(st.integers(0, 6))
    fed = [
        records(steps, size, data.draw(st.sampled_from(_KINDS)), f"App.{stream}", data.draw(st.integers(0, 3)))
        for stream, steps in zip(reads, (left, right), strict=False)
    ]
    if "define table" in app:
        fed.append(commands(data.draw(st.lists(st.integers(0, 2), max_size=4))))
    turns = data.draw(st.permutations([number for number, own in enumerate(fed) for _ in own]))
    queues = [iter(own) for own in fed]
    sent = [next(queues[number]) for number in turns]
    strategy = data.draw(st.sampled_from([Strategy.ROUND_ROBIN, Strategy.FIELD_GROUPING]))
    with one_by_one():
        expected = course(app, strategy, sent, together, cut, reads)
    assert course(app, strategy, sent, together, cut, reads) == expected


@pytest.mark.parametrize("kind", _KINDS)
def test_each_kind_of_chunks_goes_the_same_way_in_each_app(kind: str) -> None:
    random = Random(kind)
    for app, reads in _OTHERS:
        fed = []
        for stream in reads:
            gaps, ages = random.choices((0, 1, 2, 4), k=60), random.choices((0, 0, 0, 7, 30), k=60)
            steps: Steps = [
                (*both, 1, b"\0", "xy"[n % 2], n % 5) for n, both in enumerate(zip(gaps, ages, strict=True))
            ]
            fed.append(records(steps, 7, kind, f"App.{stream}", again=2))
        sent = [record for pair in zip(*fed, strict=True) for record in pair]
        with one_by_one():
            expected = course(app, Strategy.ROUND_ROBIN, sent, 3, 2, reads)
        assert course(app, Strategy.ROUND_ROBIN, sent, 3, 2, reads) == expected, app


def test_no_program_is_made_for_a_stream_that_is_read_and_published() -> None:
    for app, reads in _OTHERS:
        inside = island(app, Strategy.ROUND_ROBIN, reads=reads).app
        assert isinstance(inside, HostedApp)
        assert (inside.programmed is None) is ("into A;" in app)


@pytest.mark.parametrize(("kind", "refused"), [("far", 2), ("chunk far", 4 + 1)])
def test_what_may_be_refused_is_no_column_and_what_follows_is_again(kind: str, refused: int) -> None:
    app = "from A#window.length(3) select id, avg(v) as a, sum(v) as s group by id insert into Out;"
    steps: Steps = [(1, 30 if n in (13, 14) else 0, 1, b"\0", "x", n) for n in range(40)]
    sent = records(steps, 10, kind)
    alone: list[int] = []
    deliver = HostedApp.deliver_one_by_one

    def counted(app: HostedApp, parts: Mapping[str, StreamPart], around: Around) -> None:
        alone.append(sum(len(part.rows) for part in parts.values()))
        deliver(app, parts, around)

    with programs(), patch.object(HostedApp, "deliver_one_by_one", counted):
        found = course(app, Strategy.ROUND_ROBIN, sent, 1, 0)
    assert alone == [10]
    with one_by_one():
        assert course(app, Strategy.ROUND_ROBIN, sent, 1, 0)[:-1] == found[:-1]
    assert found[-2] == refused
