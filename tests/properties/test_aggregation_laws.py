"""Aggregations that a program adds to hold and show what they do by operators, whatever lies between."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.island.hosted import HostedApp
from spdist.engine.local.rows import count_rows
from spdist.errors import OnDemandQueryError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.aggregations import columns as aggregation_columns
from spdist.operators.aggregations.aggregation import Aggregation
from spdist.operators.aggregations.columns import GroupColumns, plain
from spdist.operators.core.junction import StreamPart
from spdist.program.running.mixed import MixedRunning
from spdist.program.states import bucket
from tests.engine.one_chunk import deliver_now
from tests.program.interpreted_programs import programs
from tests.properties.both_ways import both_ways, columns

T = 1_699_920_000_000  # 2023-11-14 00:00:00 GMT
TYPES = [("k", pa.string()), ("n", pa.int32()), ("v", pa.float64()), ("w", pa.int64()), ("b", pa.bool_())]
SCHEMA = pa.schema([*TYPES, ("at", pa.int64())])
STREAMS = "define stream S (k string, n int, v double, w long, b bool, at long); define stream Q (k string); "
DEFINITIONS = [
    "select k, avg(v) as a, sum(w) as s group by k aggregate by at every sec...hour",
    "select sum(v) as s, count() as c, avg(n) as a aggregate by at every sec...hour",
    "select k, n, sum(w) as s, avg(w) as a, sum(n) as t group by k, n aggregate every sec...day",
    "select sum(v) as s, b, min(w) as lo, max(n) as hi group by b, k aggregate by at every min",
    "select k, min(v) as lo, max(v) as hi, count() as c group by k aggregate every min",
    "select avg(v) as a, n, sum(v) * 2 + count() as m group by n aggregate by at every sec, hour",
    "select * group by k aggregate by at every sec...min",
    "select w, sum(v) as s group by w aggregate by at every hour...year",
    "select sum(v) as s aggregate every sec",
]
PURGED = "@purge(enable='true', interval='90 sec', @retentionPeriod(sec='2 min', min='2 hours', hours='all')) "
ALONE = [
    "select k, v, sum(w) as s group by k aggregate by at every sec...min",
    "select v, sum(w) as s group by v aggregate by at every sec",
    "select distinctCount(k) as c aggregate every sec",
    "select sum(v) as s, n + 1 as m group by n aggregate by at every sec",
]
READ = "from A within 0L, 9999999999999L per '{}' select *"

_whole, _real = st.integers(-3, 3), st.sampled_from([0.1, 0.25, 3.7, -2.5, 1e300, -1e300, 1e-9])
_zero = st.sampled_from([-0.0, 0.0, -0.0, float("nan"), 1.5])
_long = _whole | st.sampled_from([2**62, 2**63 - 1, -(2**63)])
#: How late or early events are by their own time.
_off = st.sampled_from(
    [0, 0, 0, 0, 0, 1, -1, -700, -1500, 900, -60_000, 61_000, -3_600_000, 90_000_000, -40_000_000_000]
)
_row = st.tuples(st.sampled_from(["x", "y", "z", "null", "ö"]), _whole, _real, _long, st.booleans(), _off)
_alike = st.tuples(st.sampled_from(["x", "y"]), _whole, _zero, _whole, st.booleans(), st.just(0))
_odd = st.tuples(
    st.none() | st.sampled_from(["x", "null", "\ud800", "long " * 20]),
    st.none() | st.just(-(2**31)),
    st.none() | st.sampled_from([float("inf"), float("nan"), 0.0, -0.0]),
    st.none() | _long,
    st.none() | st.booleans(),
    st.none() | _off | st.just(2**62),
)
_rows = st.lists(_row, min_size=1, max_size=30) | st.lists(_alike, min_size=1, max_size=5)
_step = st.one_of(
    *(
        st.tuples(st.just(kind), _rows)
        for kind in ("run", "run", "run", "rows", "late", "back", "wait", "restart", "read")
    ),
    st.tuples(st.just("rows"), st.lists(_row | _row | _odd, min_size=1, max_size=12)),
    st.tuples(st.sampled_from(["chunk", "one"]), st.lists(_row | _odd, min_size=1, max_size=4)),
    st.tuples(st.just("look"), st.lists(_row, min_size=1, max_size=6)),
)
_gap = st.integers(0, 3) | st.integers(0, 400) | st.sampled_from([0, 1, 1000, 2500, 61_000, 4_000_000])


def made(definition: str) -> HostedApp:
    purge, _, rest = definition.rpartition(") select") if definition.startswith("@") else ("", "", definition)
    annotation, selection = (f"{purge}) ", f"select{rest}") if purge else ("", rest)
    text = f"@app:playback {STREAMS}{annotation}define aggregation A from S {selection};"
    zone = "America/New_York" if "year" in definition else "GMT"
    app = HostedApp(check(parse(text), catalog(), text), "App-1", time_zone=zone, delivers=False)
    app.compiles()
    return app


def shown(groups: dict[Any, list[Any]]) -> list[Any]:
    """Groups in their order; a set has none that counts."""
    return [
        (key, [sorted(map(repr, slot)) if isinstance(slot, set) else slot for slot in slots])
        for key, slots in groups.items()
    ]


class Course:
    """An app that goes through steps."""

    def __init__(self, definition: str) -> None:
        self.definition = definition
        self.app = made(definition)
        self.app.start(T - 100)
        self.now = T
        self.seen: list[Any] = []
        self.runs = self.at_once = 0

    @property
    def aggregation(self) -> Aggregation:
        (found,) = (store for store in self.app._stores.values() if isinstance(store, Aggregation))
        return found

    @property
    def held(self) -> str:
        """All that is kept, in its order."""
        of = self.aggregation
        self.app.held_rows()  # has the operators know all that was added
        states = ([[(at, shown(plain(one))) for at, one in level.items()] for level in of.open + of.closed],)
        return repr((states, of.starts, of.ends, of.purge.snapshot(), self.app.clock, self.app.failures.count))

    def step(self, kind: str, rows: Sequence[Any], gaps: Sequence[int]) -> None:
        times = [self.now + later for later in itertools.accumulate(gaps)]
        self.now = times[-1]
        rows = [(*row[:5], None if row[5] is None else at + row[5]) for row, at in zip(rows, times, strict=True)]
        if kind == "chunk":
            self.app.advance(self.now)
            deliver_now(self.app, "S", [(self.now, row) for row in rows])
        elif kind == "one":
            self.app.advance(self.now)
            deliver_now(self.app, "S", [(self.now - gaps[0], rows[0])])
        elif kind == "wait":
            self.app.advance(self.now)
        elif kind == "restart":
            state = self.app.snapshot()
            self.app = made(self.definition)
            self.app.restore(state)
        elif kind == "read":
            self.seen += map(repr, self.read(""))
        elif kind == "look":
            self.seen += [repr(self.read(f" on k == '{row[0]}'")) for row in rows if "select k" in self.definition]
        else:
            self.run(kind, rows, times)
        self.seen.append(self.held)

    def read(self, on: str) -> list[Any]:
        found: list[Any] = []
        for per in self.aggregation.durations:
            try:
                found.append(self.app.query(READ.format(per).replace("A ", f"A{on} ", 1)).rows)
            except OnDemandQueryError as error:  # there is no calendar
                found.append(error)
        return found

    def run(self, kind: str, rows: Sequence[Any], times: Sequence[int]) -> None:
        self.runs += 1
        if kind == "back":  # the clock is further than when events are due
            times = [time - 1500 for time in times]
        own = columns(rows, SCHEMA) if kind == "run" else None
        stamps = [time - (30 if kind == "late" and number % 3 == 1 else 0) for number, time in enumerate(times)]
        late = numpy.array(stamps) if kind == "late" else None
        part = StreamPart(numpy.array(times), numpy.arange(len(rows)), rows if own is None else own, late)
        if self.app.deliver_columns({"S": part}):
            self.at_once += 1
        else:
            self.app.deliver_one_by_one({"S": part})


@contextmanager
def few(fewest: int) -> Iterator[None]:
    """The program runs the app, where so few events suffice; keys are forgotten early, and single ones found late."""
    with (
        programs(fewest == 1),
        patch.object(bucket, "_FEW_KEYS", 2),
        patch.object(aggregation_columns, "_FEW", 2),
        patch.object(aggregation_columns, "_OFTEN", 2),
    ):
        yield


def courses(definition: str, steps: Sequence[tuple[str, Sequence[Any]]], gaps: Sequence[Sequence[int]]) -> Course:
    """Go through steps both ways; return the course of many events at once."""
    taken = [(kind, rows, own) for (kind, rows), own in zip(steps, gaps, strict=True)]
    return both_ways(lambda: Course(definition), few, [*taken, ("read", ROWS[:1], (1,))])


def test_events_at_once_are_held_and_shown_as_single_events_are() -> None:
    runs = at_once = 0

    @settings(max_examples=150, deadline=None)
    @given(
        st.sampled_from([*DEFINITIONS, *DEFINITIONS, PURGED + DEFINITIONS[0], *ALONE]),
        st.lists(_step, max_size=9),
        st.data(),
    )
    def law(definition: str, steps: list[Any], data: st.DataObject) -> None:
        nonlocal runs, at_once
        gaps = [data.draw(st.lists(_gap, min_size=len(rows), max_size=len(rows))) for _, rows in steps]
        course = courses(definition, steps, gaps)
        runs, at_once = runs + course.runs, at_once + course.at_once

    law()
    assert at_once > runs / 3


ROWS = [(f"k{n * 7919 % 13}", n % 5, n / 8 + 1, n - 300, n % 2 == 0, -(n % 7) * 150) for n in range(600)]


@pytest.mark.parametrize("definition", [*DEFINITIONS, *ALONE, PURGED + DEFINITIONS[0]])
def test_what_is_taken_at_once(definition: str) -> None:
    steps = [("run", ROWS), ("rows", ROWS[:150]), ("look", ROWS[:1]), ("restart", ROWS[:1]), ("read", ROWS[:1])]
    steps += [("run", ROWS[:59]), ("late", ROWS), ("one", ROWS[:1]), ("run", ROWS), ("wait", ROWS[:9]), ("run", ROWS)]
    gaps = [[n % 9 for n in range(len(rows))] for _, rows in steps]
    assert courses(definition, steps, gaps).at_once >= 5


@pytest.mark.parametrize("definition", [DEFINITIONS[0], DEFINITIONS[4]])
def test_reals_that_have_no_order_and_zeros(definition: str) -> None:
    nan, inf = float("nan"), float("inf")
    for values in itertools.permutations([nan, 0.0, -0.0, 1.5, inf, -inf], 2):
        steps = [("run", [("x", 1, value, 1, True, 0) for value in some]) for some in (values, values[:1], values[1:])]
        courses(definition, [*steps, ("rows", [("x", 1, 2.5, 1, True, 0)])], [[0] * 2, [70_000], [0], [0]])


@pytest.mark.parametrize(
    "definition", [DEFINITIONS[0], DEFINITIONS[3], DEFINITIONS[5], "select v, " + DEFINITIONS[2][7:]]
)
def test_nulls_go_one_by_one_and_stay_what_they_are(definition: str) -> None:
    for place in range(6):
        odd = ("null", *ROWS[0][1:5], 0)
        odd = (*odd[:place], None, *odd[place + 1 :])
        steps = [
            ("run", ROWS[:20]),
            ("one", [odd]),
            ("run", ROWS[:20]),
            ("run", ROWS),
            ("run", [("null", *ROWS[0][1:])]),
        ]
        courses(definition, [*steps, ("run", [*ROWS[:9], odd])], [[0] * len(rows) for _, rows in steps] + [[1] * 10])


@pytest.mark.parametrize("definition", [DEFINITIONS[0].replace("hour", "month"), DEFINITIONS[7]])
@pytest.mark.parametrize("kind", ["run", "one"])
def test_times_beyond_all_calendars_go_one_by_one(definition: str, kind: str) -> None:
    beyond = (*ROWS[0][:5], 2**62)
    steps = [("run", ROWS[:20]), (kind, [beyond]), ("run", ROWS[:99]), ("wait", [beyond]), ("run", ROWS[:9])]
    gaps = [[1] * 20, [1], [1] * 99, [400 * 86_400_000], [1] * 9]
    courses(definition, steps, gaps)


def test_events_of_very_many_times_are_added() -> None:
    rows = [(*row[:5], n * 1000) for n, row in enumerate(ROWS)]
    courses(DEFINITIONS[0], [("run", rows), ("run", ROWS)], [[0] * len(rows), [9] * len(rows)])


def test_who_looks_for_groups_again_and_again_finds_them_plain() -> None:
    with few(1):
        course = Course(DEFINITIONS[0])
        course.step("run", ROWS, [5] * len(ROWS))
        closed = course.aggregation.closed[0]
        assert len(closed) > 1
        for number in range(4):
            rows = [course.app.query("from A on k == 'k3' within 0L, 9999999999999L per 'sec' select a, s").rows]
            rows += [course.app.query("from A within 0L, 9999999999999L per 'sec' select k, a, s").rows]
            assert rows[0] == [(a, s) for k, a, s in rows[1] if k == "k3"] != []
            assert all(isinstance(groups, GroupColumns) == (number < 2) for groups in closed.values())


def test_who_joins_finds_what_is_in_columns() -> None:
    join = "from Q as q join A as a on q.k == a.k within 0L, 9999999999999L per 'sec' select a.k, a.s insert into O"
    found: list[list[Any]] = []
    for fewest in (10**9, 1):
        with few(fewest):
            course = Course(f"{DEFINITIONS[0]}; {join}")
            found.append([])
            course.app.subscribe("O", lambda _, row: found[-1].append(row))
            for number in range(8):
                course.step("run", ROWS, [1] * len(ROWS))
                for row in ROWS[: number % 3]:
                    course.app.send("Q", course.now, (row[0],))
    assert found[0] == found[1] != []


def test_who_counts_groups_finds_those_in_columns() -> None:
    for definition in DEFINITIONS[:6]:
        with few(1):
            course = Course(definition)
            course.step("run", ROWS, [3] * len(ROWS))
        assert course.at_once == 1
        held = course.app.held_rows()
        of = course.aggregation
        for level in of.closed + of.open:
            level.update({start: plain(groups) for start, groups in level.items()})
        assert held == course.app.held_rows() == count_rows(of.snapshot()) > 0


def test_keys_of_which_nothing_is_open_are_forgotten() -> None:
    with programs():
        course = Course(DEFINITIONS[0].replace("sec...hour", "sec...min"))
        for begin in range(30):
            rows = [(f"k{begin}-{n}", 1, 1.0, 1, True, 0) for n in range(300)]
            course.step("run", rows, [20] * 300)
    assert course.at_once == 30
    program = course.app.programmed
    assert program is not None and isinstance(program.running, MixedRunning)
    (added,) = program.running.added.values()
    assert len(added._numbered) < 8_000


def test_a_snapshot_of_columns_is_small() -> None:
    sizes = []
    for fewest in (10**9, 1):
        with few(fewest):
            course = Course(DEFINITIONS[0])
            course.step("run", [(f"key {n}", *row[1:]) for n, row in enumerate(ROWS)], [25] * len(ROWS))
            sizes.append(len(course.app.snapshot()))
    assert sizes[1] < sizes[0]
