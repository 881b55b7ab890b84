"""Runs of events through an island give what the same events give one by one, ids and state included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import islice, zip_longest
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spdist.engine.island import intake
from spdist.engine.island.hosted import HostedApp, build_island
from spdist.engine.island.island import Island
from spdist.language.types import Schema
from spdist.mapping.columns import TIMER, EventList, child, next_sibling
from spdist.planning.compiled import CompiledInstance
from spdist.planning.topology import AssignedInput, AssignedOutput, Assignment, Publishing, Strategy
from spdist.runtime.command_topics import commanded
from spdist.transports.base import Record
from spdist.transports.delivery import Deliveries
from spdist.transports.payloads.external import mark
from spdist.transports.payloads.payload import Payload
from tests.program.interpreted_programs import programs
from tests.properties.single_events import one_by_one

SCHEMA = Schema.of([("id", "string"), ("v", "int")])
_TIMES = "from A#window.time(15) select id, v insert all events into Out;"
_BATCHES = "from A#window.lengthBatch(2) select id, v insert into Out;"
_APPS = (
    "from A[v > 0] select id, v insert into Out;",
    "from A#window.length(2) select id, convert(sum(v), 'int') as v group by id insert into Out;",
    _TIMES,
    "from A#window.delay(10 millisec) select id, v insert into Out;",
    "from A#window.session(10 millisec, id) select id, v insert all events into Out;",
    _BATCHES,
    "from A#window.timeBatch(10) select id, v insert into Out; from A[v > 1] insert into Two;",
    "from A[v > 0] select id, v insert into Out; from Out select id, v + 1 as v insert into Two; "
    "from A insert into Two;",
    "from A select id, cast(v, 'string') as v insert into S; from A[v > 0] select id, v insert into Out;",
    "from A select id, v insert into Out; from Out#window.length(1) select id, v insert all events into Two;",
    "from every e1=A[v > 1] -> e2=A[v > e1.v] within 30 millisec select e1.id as id, e2.v as v insert into Out;",
    "from every e1=A[v > 1], e2=A[v < e1.v] select e1.id as id, e2.v as v insert into Out;",
    "from every e1=A[v > 2] -> not A[v > 1] for 10 millisec select e1.id as id, e1.v as v insert into Out;",
    "partition with (id of A) begin from A#window.length(2) select id, sum(v) as s insert into #I; "
    "from #I select id, convert(s, 'int') as v insert into Out; end;",
)
_paths = st.sampled_from([b"", b"\0", b"\0", b"\1", b"\0\1"])
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 4, 20]),  # how much later it is put out
        st.sampled_from([0, 0, 0, 0, 0, 7, 30]),  # how old it is then
        st.sampled_from([1, 1, 1, 1, 1, 0, -1]),  # how much further on its cause was
        _paths,
        st.sampled_from(["x", "y", None]),
        st.integers(-1, 4) | st.none(),
    ),
    max_size=30,
)
UNUSUAL = st.sampled_from(["", "", "", *["late", "timer", "chunk", "far"] * 2, "paths", "timer far", "chunk far"])
#: How far ahead of the clock an event of an age lies, where some do: the last one too far.
_AHEAD = {7: 7, 30: 10_000}


def assigned(
    app: str, strategy: Strategy = Strategy.FIELD_GROUPING, producers: tuple[str, ...] = ("App-f-1",), reads: str = "A"
) -> Assignment:
    results = {"Out": "id string, a double, s long"} if "avg(" in app else {}
    if "list:" in app:
        results = dict.fromkeys(("Out", "Two"), "id string, o object")
    faults = {n: "@OnError(action='stream') " for n in reads if f"from !{n}" in app}
    streams = "".join(
        f"{faults.get(n, '')}define stream {n} ({results.get(n, 'id string, v int')}); " for n in (*reads, "Out", "Two")
    )
    key = "id" if strategy is Strategy.FIELD_GROUPING else None
    published = [name for name in ("Out", "Two", "A") if name == "Out" or f"into {name};" in app]
    outputs = tuple(AssignedOutput(name, (Publishing(strategy, 2, f"App.{name}", 2, key),)) for name in published)
    text = f"@app:playback @app:clock(max.jump='1 sec') {streams}{app}"
    own = {"A": ("App-g-1",)} if "A" in published else {}
    inputs = tuple(AssignedInput(name, f"App.{name}", (0,), producers, own.get(name, ())) for name in reads)
    return commanded(Assignment("App-g-1", "App", "App-g", text, True, inputs, outputs))


def island(app: str, strategy: Strategy, producers: tuple[str, ...] = ("App-f-1",), reads: str = "A") -> Island:
    return build_island(assigned(app, strategy, producers, reads), 100)


Steps = list[tuple[int, int, int, bytes, str | None, int | None]]


def records(steps: Steps, size: int, unusual: str, topic: str = "App.A", again: int = 0) -> list[Record]:
    """Records of so many events each; before those each repeats the last of the record before it, `again`."""
    events = EventList()
    at, order, same, place, chunks = 1000, 50, b"\0", 0, (1, 3, 4, 4, 2)
    for number, (gap, old, further, path, id, v) in enumerate(steps):
        at, order = at + gap, order + further
        by_timer = "timer" in unusual and number % 5 == 3
        if "chunk" in unusual:
            # What stands behind in a chunk comes from the same cause; of some the one in front went elsewhere.
            place = (place + 1) % chunks[number % len(chunks)] if number else 0
            at, order = (at, order) if place == 0 else (events.at[-1], events.order[-1] + (old == 7))
            before = events.path[-1] if place and (old < 30 or "far" in unusual) else b"\1"
            path = child(b"", 4 * number) if place == 0 else next_sibling(before)
        events.add(
            at - (old if unusual == "late" else 0),
            TIMER if by_timer else order,
            path if unusual == "paths" or "chunk" in unusual else same,
            place,
            at + _AHEAD.get(old, 0) if "far" in unusual else at - (old if unusual else 0),
            (id, v),
        )
    made, left = [], iter(range(len(events)))
    while numbers := list(islice(left, size)):
        numbers = [*range(max(0, numbers[0] - again), numbers[0]), *numbers]
        part = events.events().picked(numbers)
        clock = int(part.at.max()) + (3 if unusual == "late" else 0)
        made.append(Record(topic, 0, Payload(SCHEMA).encode(part), len(part), "App-f-1", numbers[0], clock))
    return made


def course(app: str, strategy: Strategy, sent: list[Record], together: int, cut: int, reads: str = "A") -> list[object]:
    def new() -> Island:
        return island(app, strategy, reads=reads)

    one = new()
    seen: list[object] = []
    left = iter([*(Record(f"App.{stream}", 0, b"", 0, "App-f-1", 0, 990) for stream in reads), *sent])
    number = 0
    while batch := list(islice(left, together)):
        seen += one.process(batch, 0)
        number += 1
        if number == cut:
            stored = one.snapshot()
            one = new()
            one.restore(stored)
    app_inside = one.app
    assert isinstance(app_inside, HostedApp)
    return [*seen, app_inside.failures.refused, one.snapshot()]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(_APPS),
    st.sampled_from([Strategy.ROUND_ROBIN, Strategy.FIELD_GROUPING]),
    EVENTS,
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(0, 6),
    UNUSUAL,
)
@example(_TIMES, Strategy.ROUND_ROBIN, [(0, 30, 1, b"", "x", 0), (0, 30, 1, b"", "x", None)], 2, 1, 0, "late")
@example(_BATCHES, Strategy.ROUND_ROBIN, [(0, 0, 1, b"", "x", None)] * 2, 1, 3, 0, "late")
def test_runs_give_what_single_events_give(
    app: str,
    strategy: Strategy,
    steps: Steps,
    size: int,
    together: int,
    cut: int,
    unusual: str,
) -> None:
    sent = records(steps, size, unusual)
    with one_by_one():
        expected = course(app, strategy, sent, together, cut)
    assert course(app, strategy, sent, together, cut) == expected


_PAIRS = (
    "from A select id, v insert into Out; from B select id, v + 1 as v insert into Out;",
    "from A[v > 0] select id, v insert into Out; from B#window.length(2) select id, v insert all events into Two;",
    "from A#window.time(15) as x join B#window.time(25) as y on x.id == y.id select x.id as id, y.v as v "
    "insert into Out;",
    "from A#window.time(15) as x join B#window.length(3) as y on x.id == y.id select x.id as id, y.v as v "
    "insert all events into Out;",
    "from every e1=A[v > 0] -> e2=B[v > e1.v] within 30 millisec select e1.id as id, e2.v as v insert into Out;",
    "from A#window.timeBatch(10) select id, v insert into Out; from B select id, v insert into Two;",
    "define table T (id string, v int); from A insert into T; "
    "from B join T on B.id == T.id select T.id as id, B.v as v insert into Out;",
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(_PAIRS), EVENTS, EVENTS, st.data())
def test_runs_of_two_streams_give_what_single_events_give(
    app: str, left: Steps, right: Steps, data: st.DataObject
) -> None:
    size, together, cut = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 4)), data.draw(st.integers(0, 6))
    kinds = data.draw(UNUSUAL), data.draw(UNUSUAL)
    fed = [
        records(steps, size, kind, f"App.{stream}")
        for stream, steps, kind in zip("AB", (left, right), kinds, strict=True)
    ]
    turns = data.draw(st.permutations([number for number, own in enumerate(fed) for _ in own]))
    queues = [iter(own) for own in fed]
    sent = [next(queues[number]) for number in turns]
    strategy = Strategy.FIELD_GROUPING
    with one_by_one():
        expected = course(app, strategy, sent, together, cut, "AB")
    assert course(app, strategy, sent, together, cut, "AB") == expected


_SINK = "@sink(type='kafka', bootstrap.servers='b:1', topic='t', @map(type='json')) "
_JOINS = (
    "from A#window.time(15) as x join B#window.time(25) as y on x.id == y.id select x.id as id, x.v as v, y.v as w ",
    "from A#window.length(3) as x join B#window.time(25) as y on x.id == y.id select y.v as v, x.id as id, 1 as one ",
    "from A#window.length(3) as x join B#window.length(4) as y on y.v == x.v and x.id == y.id select x.id as id ",
    "from A#window.time(15) as x left outer join B#window.time(25) as y on x.id == y.id select y.id as id, x.v as v ",
    "from A#window.time(9) as x full outer join B#window.length(2) as y on x.id == y.id select y.v as w, x.v as v ",
    "from A#window.time(25) as x unidirectional join B#window.time(15) as y on x.id == y.id select x.v as v, y.v as w ",
    "from A#window.time(25) as x right outer join B#window.time(15) as y on x.id == y.id select x.v as v, y.v as w ",
    "from A[v > 0]#window.time(25) as x join B#window.time(15) as y on x.id == y.id select x.v as v, y.v as w ",
    "from A#window.time(25) as x join B#window.time(15) as y on x.id == y.id and x.v < y.v select x.v as v, y.v as w ",
    "from A#window.time(25) as x join B#window.time(15) as y on x.v == y.v and x.v == y.v select x.id as a ",
)


def delivered(outputs: list[object]) -> list[object]:
    """What was put out, with what sinks deliver as single payloads."""
    put_out = (one for one in outputs if not isinstance(one, bytes))  # a program stores of a row what it reads later
    return [single for one in put_out for single in (one if isinstance(one, Deliveries) else [one])]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(_JOINS), EVENTS, EVENTS, st.booleans(), st.data())
def test_joins_of_many_events_in_programs_give_what_single_events_give(
    join: str, left: Steps, right: Steps, grouped: bool, data: st.DataObject
) -> None:
    size, together, cut = data.draw(st.integers(1, 12)), data.draw(st.integers(2, 6)), data.draw(st.integers(0, 6))
    late = data.draw(st.sampled_from(["", "", "late"]))
    fed = [records(own, size, late, f"App.{stream}") for stream, own in zip("AB", (left, right), strict=True)]
    sent = [record for pair in zip_longest(*fed) for record in pair if record is not None]
    sink = _SINK.replace("@map(", "@map(" if grouped else "@map(event.grouping.enabled='false', ")
    app = f"{join} insert into J;"
    joined = CompiledInstance.of(assigned(app, reads="AB")).checked.streams["J"]
    results = ", ".join(f"{name} {kind.value}" for name, kind in joined)
    app = f"{sink} define stream J ({results}); {app}"
    with programs(there=False):
        expected = delivered(course(app, Strategy.FIELD_GROUPING, sent, together, cut, "AB"))
    with programs():
        assert delivered(course(app, Strategy.FIELD_GROUPING, sent, together, cut, "AB")) == expected


_RESULTS = "id, avg(v) as a, sum(v) as s"
_TABLE = (
    "@primaryKey('id') define table T (id string, v int); from A update or insert into T on T.id == id; "
    "from B left outer join T on T.id == B.id select B.id as id, T.v as v insert into Out;"
)
_ADDED_UP = (
    f"from A#window.length(3) select {_RESULTS} group by id insert into Out;",
    f"from A#window.time(15) select {_RESULTS} group by id insert into Out;",
    f"partition with (id of A) begin from A#window.length(2) select {_RESULTS} insert into Out; end;",
    f"from A#window.lengthBatch(3) select {_RESULTS} group by id insert into Out;",
    f"from A#window.lengthBatch(4) select {_RESULTS} insert into Out;",
    f"partition with (id of A) begin from A#window.time(15) select {_RESULTS} insert into Out; end; "
    "from B select id, v insert into Two;",
)


_BOTH = (_PAIRS[2], _TABLE)
#: Programs that call what has no typed form: tables, joins that come back, timers of both, failures.
_MIXED = (
    "define table T (id string, v int); from A[v > 1] update or insert into T on T.id == id; "
    "from B as X join T on X.id == T.id select X.id as id, T.v as v insert into Out; "
    "from Out#window.time(15) select id, v insert all events into Two;",
    "from A#window.timeBatch(10) select id, v insert into M; from M select id, v output last every 10 millisec "
    "insert into Out; from B select id, v output all every 10 millisec insert into M2; "
    "from M2#window.timeBatch(10) select id, v insert into Two; from M2[v > 1] select id, v insert into Out;",
    "define trigger Tick at every 7 millisec; define window W (id string, v int) timeBatch(10); "
    "from A[v > 0] select id, v insert into W; from B[v > 0] select id, v insert into W; "
    "from W select id, v insert into Out; from Tick join W select W.id as id, W.v as v insert into M; "
    "from M#window.length(2) select id, v insert all events into Two;",
    "@OnError(action='stream') define stream M (id string, v int); from A select id, v insert into M; "
    "from B[v > 1] select id, v insert into M; from M[v > 0] select id, v insert into Out; "
    "from M select id, cast(id, 'int') as v insert into Out; from M[v > 1] select id, v insert into Two; "
    "from !M select id, v insert into Two;",
)
#: Objects; and a query that changes in place what others have put out before.
_WITH_OBJECTS = (
    "from A select id, list:create(id, v) as o insert into M; "
    "from M#window.length(2) select id, o insert all events into Out;",
    "from A select id, v, list:create(id) as o insert into M; from M select id, o insert into Out; "
    "from M select id, list:add(o, v) as o insert into Two; "
    "from A#window.length(2) select id, sum(v) as s insert into Mid;",
)


@contextmanager
def fewest(count: int) -> Iterator[None]:
    """Programs run what has one, where no number of events is too few."""
    with programs(there=count == 0):
        yield


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(
        [
            *((one, "A") for one in (*_ADDED_UP[:5], *_WITH_OBJECTS)),
            *((one, "AB") for one in (*_ADDED_UP[5:], *_BOTH, *_MIXED)),
        ]
    ),
    st.sampled_from([Strategy.ROUND_ROBIN, Strategy.FIELD_GROUPING]),
    EVENTS,
    EVENTS,
    st.data(),
)
def test_what_is_put_out_at_once_is_published_as_one_by_one(
    chosen: tuple[str, str], strategy: Strategy, left: Steps, right: Steps, data: st.DataObject
) -> None:
    app, reads = chosen
    size, together, cut = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 6)), data.draw(st.integers(0, 6))
    unusual = data.draw(UNUSUAL)
    fed = [records(own, size, unusual, f"App.{name}") for name, own in zip(reads, (left, right), strict=False)]
    sent = [record for pair in zip_longest(*fed) for record in pair if record is not None]
    with fewest(10**9):
        expected = course(app, strategy, sent, together, cut, reads)
    with fewest(0):
        assert course(app, strategy, sent, together, cut, reads)[:-1] == expected[:-1]


@pytest.mark.parametrize("app", _ADDED_UP[:5])
def test_what_late_events_put_out_at_once_keeps_their_timestamps(app: str) -> None:
    steps: Steps = [(1, 7 if n % 5 == 3 else 0, 1, b"\0", "xy"[n % 2], n % 4) for n in range(30)]
    sent = records(steps, 10, "late")
    with fewest(10**9):
        expected = course(app, Strategy.ROUND_ROBIN, sent, 1, 0)
    with fewest(0):
        assert course(app, Strategy.ROUND_ROBIN, sent, 1, 0)[:-1] == expected[:-1]


def test_what_two_sources_put_out_has_the_ids_of_its_events() -> None:
    app = "from A[v >= 0] select id, v insert into Out; from B select id, v insert into Two;"
    fed = [records([(1, 0, 1, b"\0", "x", n) for n in range(6)], 1, "", f"App.{stream}") for stream in "AB"]
    sent = [*fed[1][:2], *(record for pair in zip_longest(fed[0], fed[1][2:]) for record in pair if record)]
    with fewest(10**9):
        expected = course(app, Strategy.ROUND_ROBIN, sent, 3, 0, "AB")
    with fewest(0):
        assert course(app, Strategy.ROUND_ROBIN, sent, 3, 0, "AB")[:-1] == expected[:-1]


@pytest.mark.parametrize("app", _WITH_OBJECTS)
def test_objects_are_published_as_they_were_when_they_were_put_out(app: str) -> None:
    sent = records([(1, 0, 1, b"\0", "xyz"[n % 3], n) for n in range(30)], 10, "")
    with fewest(10**9):
        expected = course(app, Strategy.ROUND_ROBIN, sent, 2, 0)
    with fewest(0):
        assert course(app, Strategy.ROUND_ROBIN, sent, 2, 0)[:-1] == expected[:-1]


@pytest.mark.parametrize(("app", "count"), [(_ADDED_UP[0], 900), (_ADDED_UP[3], 900 // 3), (_TABLE, 899)])
def test_what_is_published_at_once(app: str, count: int) -> None:
    reads = "AB" if "from B" in app else "A"
    one = island(app, Strategy.ROUND_ROBIN, reads=reads)
    fed = [records([(1, 0, 1, b"", "x", n) for n in range(900)], 300, "", f"App.{stream}") for stream in reads]
    for stream in reads:
        one.process([Record(f"App.{stream}", 0, b"", 0, "App-f-1", 0, 990)], 0)
    with programs(), patch.object(HostedApp, "deliver_one_by_one", side_effect=AssertionError("one by one")):
        for sent in zip(*fed, strict=True):
            one.process(sent, 0)
    assert one.events_out == count


@pytest.mark.parametrize("app", [_ADDED_UP[0], _PAIRS[4]])
def test_an_app_that_gets_only_chunks_of_several_events_is_run_by_its_program(app: str) -> None:
    reads = "AB" if "B[" in app else "A"
    fed = [records([(1, 0, 1, b"", "x", n % 4) for n in range(900)], 300, "chunk", f"App.{stream}") for stream in reads]
    found = []
    for count in (10**9, 0):
        one = island(app, Strategy.ROUND_ROBIN, reads=reads)
        for stream in reads:
            one.process([Record(f"App.{stream}", 0, b"", 0, "App-f-1", 0, 990)], 0)
        alone = patch.object(HostedApp, "deliver_one_by_one", side_effect=AssertionError("one by one"))
        with fewest(count), alone if count == 0 else ExitStack():
            found.append([output for sent in zip(*fed, strict=True) for output in one.process(sent, 0)])
        assert one.events_out > 300
    assert found[0] == found[1]


@pytest.mark.parametrize("unusual", ["", "late"])
@pytest.mark.parametrize("app", [_ADDED_UP[0], _TABLE])
def test_two_partitions_of_a_topic_are_one_run(app: str, unusual: str) -> None:
    reads = "AB" if "from B" in app else "A"
    plan = assigned(app, Strategy.ROUND_ROBIN, reads=reads)
    plan = replace(plan, inputs=tuple(replace(one, partitions=(0, 1)) for one in plan.inputs))
    steps: Steps = [(1, 7 if n % 5 == 3 else 0, 1, b"\0", "xyz"[n % 3], n) for n in range(60)]
    sent = [
        replace(record, partition=partition)
        for stream in reads
        for partition in (0, 1)
        for record in records(steps[partition::2], 10, unusual, f"App.{stream}")
    ]
    found = []
    for count in (10**9, 0):
        with fewest(count):
            one = build_island(plan, 100)
            outputs = one.process(sent, 0)
            at_once = patch.object(HostedApp, "deliver_one_by_one", side_effect=AssertionError("one by one"))
            with at_once if count == 0 else ExitStack():
                outputs += one.process([], 0, closing=True)
        found.append(
            [(record.topic, record.partition, record.value) for record in outputs if isinstance(record, Record)]
        )
    assert found[0] == found[1]
    assert one.events_out > 50


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(_APPS), EVENTS, st.lists(st.integers(0, 1), min_size=30, max_size=30), st.integers(1, 20))
def test_a_chunk_that_was_spread_over_partitions_is_one_again(
    app: str, steps: Steps, places: list[int], size: int
) -> None:
    plan = assigned(app, Strategy.ROUND_ROBIN)
    plan = replace(plan, inputs=tuple(replace(one, partitions=(0, 1)) for one in plan.inputs))
    whole = [Payload(SCHEMA).decode(record.value) for record in records(steps, size, "chunk")]
    sent, numbers, at = [Record("App.A", own, b"", 0, "App-f-1", 0, 990) for own in (0, 1)], [0, 0], 0
    for events in whole:
        for own in (0, 1):
            share = events.picked([n for n in range(len(events)) if places[at + n] == own])
            if len(share):
                value, clock = Payload(SCHEMA).encode(share), int(events.at.max())
                sent.append(Record("App.A", own, value, len(share), "App-f-1", numbers[own], clock))
                numbers[own] += len(share)
        at += len(events)
    found = []
    for single in (True, False):
        with one_by_one() if single else ExitStack():
            one = build_island(plan, 100)
            found.append([*one.process(sent, 0), *one.process([], 0, closing=True), one.snapshot()])
    assert found[0] == found[1]


def test_what_timers_put_out_is_due_at_the_time_that_all_have_reached() -> None:
    one = island(_PAIRS[0], Strategy.ROUND_ROBIN, reads="AB")
    events = EventList()
    for order in (7, TIMER, TIMER, 7):
        events.add(1000 + len(events) // 2 * 5, order, b"\0", 0, 1000, ("x", 1))
    value = Payload(SCHEMA).encode(events.events())
    one.process([Record("App.A", 0, value, 4, "App-f-1", 0, 1005), Record("App.B", 0, b"", 0, "App-f-1", 0, 1005)], 0)
    assert (one.events_out, one.pending) == (3, 1)


def test_runs_of_two_streams_go_in_together() -> None:
    one = island(_PAIRS[0], Strategy.ROUND_ROBIN, reads="AB")
    fed = [records([(1, 0, 1, b"", "x", n) for n in range(20)], 5, "", f"App.{stream}") for stream in "AB"]
    with patch.object(one.app, "deliver", wraps=one.app.deliver) as deliver:
        for pair in zip(*fed, strict=True):
            one.process(pair, 0)
    assert deliver.call_count == len(fed[0])
    assert one.pending == 2  # what is put out at the same time as the last may follow
    assert one.events_out == 38


_typical = st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 4)).map(
    lambda values: json.dumps({"event": dict(zip(("id", "v"), values, strict=True))})
)
_others = st.sampled_from(
    [
        '[{"event":{"id":"x","v":1}},{"event":{"id":"y","v":3}}]',
        ' {"id":"y","v":2}',
        '\ufeff{"event":{"id":"x","v":2}}',
        "<events><event><id>x</id><v>3</v></event></events>",
        '{"event":{"id":"x"}}',
        '[{"event":{"id":"x"}},{"event":{"id":"y","v":3}}]',
        "[]",
        "no",
        "\ud8001",
    ]
)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(_APPS), st.lists(_typical | _typical | _others, max_size=20), st.integers(1, 20))
def test_payloads_of_outsiders_together_give_what_they_give_alone(app: str, texts: list[str], together: int) -> None:
    sent = [
        Record("App.A", 0, mark(text.encode("utf-8", "surrogatepass"), 1000 + n * 3, n), 1, offset=n)
        for n, text in enumerate(texts)
    ]

    def put_out() -> list[object]:
        one = island(app, Strategy.ROUND_ROBIN, ())
        seen: list[object] = []
        left = iter(sent)
        while batch := list(islice(left, together)):
            seen += one.process(batch, 0)
        return [*seen, one.snapshot(), one.events_in]

    with patch.object(intake, "_outsiders_place", return_value=None):
        expected = put_out()
    assert put_out() == expected
