"""Windows in a program (`spdist.program`) put out what operators do event by event, whatever lies between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import numpy
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.island.hosted import HostedApp
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.core.junction import StreamPart
from tests.engine.one_chunk import deliver_now
from tests.program.interpreted_programs import programs
from tests.properties.both_ways import both_ways, columns, put_out

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int32()), ("v", pa.float64()), ("w", pa.int64()), ("b", pa.bool_())])
STREAM = "define stream A (k string, n int, v double, w long, b bool); "
SINK = "@sink(type='kafka', bootstrap.servers='b:1', topic='t', @map(type='json')) define stream O ({}); "
BATCHES = ["timeBatch(1)", "timeBatch(20)", "timeBatch(300)", "timeBatch(50, 7)"]
BATCHES += ["lengthBatch(1)", "lengthBatch(3)", "lengthBatch(7)", "lengthBatch(2500)"]
WINDOWS = ["length(1)", "length(3)", "length(50)", "time(1)", "time(20)", "time(300)"]
SELECTIONS = [
    "select k, avg(v) as a, sum(w) as s, sum(v) as t group by k",
    "select sum(v) as s, count() as c, avg(n) as a, b",
    "select count() as c",
    "select n, b, avg(w) as a, sum(n) as s, count() as c group by n, b",
    "select w, k, count() as c, sum(v) as s group by k, b, n, w",
]
#: Those of partitions, and those that do more than to add up and count.
KEYED = ["select k, avg(v) as a, sum(w) as s, sum(v) as t", "select count() as c, sum(n) as s, b"]
OTHERS = [
    "select k, v",
    "select v, count() as c group by v",
    "select k, max(v) as m group by k",
    "select k, sum(v) + 1 as s",
    "select k, count(v) as c group by k",
    "select k, sum(v) as s group by k having s > 1.0",
    "select k, sum(v) as s group by k order by s limit 1",
]
_whole, _real = st.integers(-3, 3), st.sampled_from([0.1, 0.25, -0.0, 3.7, 1e300, -1e300, 1e-9])
_row = st.tuples(st.sampled_from("xyz"), _whole, _real, _whole, st.booleans())
_odd = st.tuples(
    st.none() | st.sampled_from(["x", "null", "\ud800", "long " * 20]),
    st.none() | st.just(-(2**31)),
    st.none() | st.just(float("inf")),
    st.none() | st.sampled_from([2**62, -(2**63), 2**51]),
    st.none() | st.booleans(),
)
_rows = st.lists(_row, min_size=1, max_size=30)
_step = st.one_of(
    st.tuples(st.just("run"), _rows),
    st.tuples(st.just("run"), _rows),
    st.tuples(st.just("rows"), _rows),
    st.tuples(st.just("rows"), st.lists(_row | _row | _odd, min_size=1, max_size=12)),
    st.tuples(st.just("chunk"), st.lists(_row | _odd, min_size=1, max_size=4)),
    st.tuples(st.just("one"), st.lists(_row | _odd, min_size=1, max_size=1)),
    st.tuples(st.just("late"), _rows),
    st.tuples(st.just("wait"), _rows),
    st.tuples(st.just("restart"), _rows),
)


def made(text: str) -> HostedApp:
    results = ", ".join(f"{name} {kind.value}" for name, kind in check(parse(STREAM + text), catalog()).streams["O"])
    whole = f"@app:playback {STREAM}{SINK.format(results)}{text}"
    app = HostedApp(check(parse(whole), catalog(), whole), "App-1")
    app.compiles()
    return app


def query(window: str, selection: str, partitioned: bool = False) -> str:
    inside = f"from A#window.{window} {selection} insert into O;"
    return f"partition with (k of A) begin {inside} end;" if partitioned else inside


class Course:
    """An app that goes through steps."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.app = made(text)
        self.app.start(900)
        self.now = 1000
        self.seen: list[Any] = []
        self.at_once = 0

    def step(self, kind: str, rows: Sequence[Any], gaps: Sequence[int]) -> None:
        times = [self.now + later for later in accumulate(gaps)]
        self.now = times[-1]
        if kind == "chunk":
            self.app.advance(self.now)
            deliver_now(self.app, "A", [(self.now, row) for row in rows])
        elif kind == "one":
            self.app.advance(self.now)
            deliver_now(self.app, "A", [(self.now - gaps[0], rows[0])])
        elif kind == "wait":
            self.app.advance(self.now)
        elif kind == "restart":
            state = self.app.snapshot()
            self.app = made(self.text)
            self.app.restore(state)
        else:
            own = columns(rows, SCHEMA) if kind == "run" else None
            stamps = [time - (30 if kind == "late" and number % 3 == 1 else 0) for number, time in enumerate(times)]
            late = numpy.array(stamps) if kind == "late" else None
            part = StreamPart(numpy.array(times), numpy.arange(len(rows)), rows if own is None else own, late)
            if self.app.deliver_columns({"A": part}):
                self.at_once += 1
            else:
                self.app.deliver_one_by_one({"A": part})
        self.seen.append((put_out(self.app), self.app.clock))


@contextmanager
def few(fewest: int) -> Iterator[None]:
    """Programs are there, but where more events than come are to go one by one."""
    with programs(there=fewest == 1):
        yield


def courses(text: str, steps: Sequence[tuple[str, Sequence[Any]]], gaps: Sequence[Sequence[int]]) -> Course:
    """Go through steps both ways; return the course of the program."""
    taken = [(kind, rows, own) for (kind, rows), own in zip(steps, gaps, strict=True)]
    return both_ways(lambda: Course(text), few, taken)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(WINDOWS),
    st.sampled_from([(one, False) for one in (*SELECTIONS, *SELECTIONS, *OTHERS)] + [(one, True) for one in KEYED * 3]),
    st.lists(_step, max_size=8),
    st.data(),
)
def test_events_at_once_give_what_single_events_give(
    window: str, selection: tuple[str, bool], steps: list[Any], data: st.DataObject
) -> None:
    gap = st.integers(0, 3) | st.integers(0, 40)
    gaps = [data.draw(st.lists(gap, min_size=len(rows), max_size=len(rows))) for _, rows in steps]
    courses(query(window, *selection), steps, gaps)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(BATCHES),
    st.sampled_from(SELECTIONS),
    st.lists(_step, max_size=8),
    st.data(),
)
def test_batches_at_once_are_those_of_single_events(
    window: str, selection: str, steps: list[Any], data: st.DataObject
) -> None:
    gap = st.integers(0, 3) | st.integers(0, 40) | st.just(200)
    gaps = [data.draw(st.lists(gap, min_size=len(rows), max_size=len(rows))) for _, rows in steps]
    courses(query(window, selection), steps, gaps)


ROWS = [(f"k{n * 7919 % 13}", n % 5, n / 8, n - 300, n % 2 == 0) for n in range(600)]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    ("selection", "partitioned"), [*((one, False) for one in SELECTIONS), *((one, True) for one in KEYED)]
)
def test_what_is_taken_at_once(window: str, selection: str, partitioned: bool) -> None:
    steps = [("run", ROWS), ("rows", ROWS[:50]), ("restart", ROWS[:1]), ("run", ROWS[:9]), ("late", ROWS[:99])]
    steps += [("one", ROWS[:1])]
    steps += [("run", ROWS), ("run", ROWS)]
    gaps = [[n % 3 for n in range(len(rows))] for _, rows in steps]
    assert courses(query(window, selection, partitioned), steps, gaps).at_once == 6


@pytest.mark.parametrize("window", BATCHES)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_batches_that_are_taken_at_once(window: str, selection: str) -> None:
    steps = [("one", ROWS[:1]), ("run", ROWS), ("rows", ROWS[:50]), ("run", ROWS), ("restart", ROWS[:1])]
    steps += [("run", ROWS), ("wait", ROWS[:9]), ("run", ROWS[:9]), ("chunk", ROWS[:2]), ("run", ROWS)]
    gaps = [[n % 3 for n in range(len(rows))] for _, rows in steps]
    assert courses(query(window, selection), steps, gaps).at_once == 6


ALSO = [
    query("timeBatch(20, true)", SELECTIONS[0]),
    query("lengthBatch(3, true)", SELECTIONS[0]),
    query("lengthBatch(3)", SELECTIONS[0]).replace("insert", "insert all events"),
    *(query("lengthBatch(3)", one) for one in OTHERS),
    query("timeBatch(20)", SELECTIONS[0]) + " from O select k insert into P;",
    query("time(3)", SELECTIONS[0]).replace("insert", "insert all events"),
    query("timeLength(3, 2)", SELECTIONS[0]).replace("insert", "insert expired events"),
    query("delay(3)", SELECTIONS[0]),
    query("length(0)", SELECTIONS[0]),
    query("lengthBatch(0)", SELECTIONS[0]),
]


@pytest.mark.parametrize("text", ALSO)
def test_what_else_is_taken_at_once(text: str) -> None:
    steps = [("run", ROWS), ("wait", ROWS[:1]), ("restart", ROWS[:1]), ("run", ROWS)]
    gaps = [[1] * len(rows) for _, rows in steps]
    assert courses(text, steps, gaps).at_once == 2


@pytest.mark.parametrize(
    "text",
    [
        query("time(0)", SELECTIONS[0]),
        "@purge(enable='true', interval='1 sec', idle.period='1 sec') " + query("timeBatch(50)", KEYED[0], True),
    ],
)
def test_what_goes_one_by_one(text: str) -> None:
    assert courses(text, [("run", ROWS)], [[1] * len(ROWS)]).at_once == 0


@pytest.mark.parametrize("window", ["timeBatch(50)", "lengthBatch(50)"])
@pytest.mark.parametrize("odd", [("x", 1, None, 1, True), (None, 1, 0.5, 1, True), ("x", 1, 0.5, 2**53, True)])
def test_batches_with_an_odd_event_are_taken_at_once(window: str, odd: Any) -> None:
    steps = [("run", ROWS), ("run", [*ROWS[:99], odd, *ROWS[:99]]), ("run", ROWS), ("run", ROWS)]
    gaps = [[1] * len(rows) for _, rows in steps]
    assert courses(query(window, SELECTIONS[0]), steps, gaps).at_once == 4
