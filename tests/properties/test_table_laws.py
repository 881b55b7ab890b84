"""Who writes a table and who looks into it, many events at once: they find what they find one event after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any
from unittest.mock import patch

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
from spdist.operators.tables import table
from tests.properties.both_ways import both_ways, columns, put_out

KINDS = [("k", pa.string()), ("n", pa.int32()), ("v", pa.float64()), ("s", pa.string()), ("b", pa.bool_())]
SCHEMA = pa.schema(KINDS)
ATTRIBUTES = "k string, n int, v double, s string, b bool"
#: Their key, and for each stream what it looks for.
KEYS = {"'k'": "T.k == {0}k", "'n'": "{0}n == T.n", "'k', 'n'": "T.n == {0}n and T.k == {0}k"}
SETS = ["", " set T.v = v", " set T.s = s, T.b = b, T.v = v", " set T.s = k"]
#: Those that go one by one.
ODD_SETS = [" set T.v = v + 1.0", " set T.v = T.v", " set T.k = k, T.n = n"]
RESULTS = ["k string, v double, s string, b bool", "k string, n int, v double"]
SELECTIONS = [
    "select {0}.k as k, T.v as v, T.s as s, T.b as b",
    "select T.k as k, {0}.n as n, {0}.v as v",
    "select {0}.k as k, T.n as n, T.v as v",
]
SINK = "@sink(type='kafka', bootstrap.servers='b:1', topic='{0}', @map(type='json')) define stream {0} ({1}); "
STREAMS = "".join(f"define stream {name} ({ATTRIBUTES}); " for name in "ABCE") + "define stream D (k string); "


def app_of(key: str, write: str, sets: str, joins: Sequence[tuple[str, str]], more: str = "") -> str:
    """An app whose stream A writes, and whose streams B and C look up."""
    on = KEYS[key]
    text = f"@app:playback {STREAMS} @primaryKey({key}) define table T ({ATTRIBUTES}); "
    queries = ""
    for (join, selection), own in zip(joins, "BC", strict=False):
        text += SINK.format(f"{own}s", RESULTS[SELECTIONS.index(selection) > 0])
        left, right = (own, "T") if "right" not in join else ("T", own)
        queries += f"from {left} {join} {right} on {on.format(own + '.')} {selection.format(own)} insert into {own}s; "
    queries += f"from A {write} T{sets} on {on.format('')}; from D delete T on T.k == k; from E insert into T; "
    return f"{text}{queries}{more}"


_key, _number = st.sampled_from("wxyz"), st.integers(-2, 2)
_real = st.sampled_from([0.5, -0.0, 1e300, float("inf"), 2.0])
_row = st.tuples(_key, _number, _real, st.sampled_from(["", "ä", '"']), st.booleans())
_odd = st.tuples(
    st.none() | st.sampled_from(["x", "\ud800", "long " * 20]),
    st.none() | st.just(-(2**31)),
    st.none() | st.just(float("nan")),
    st.none() | st.just("\udfff"),
    st.none() | st.booleans(),
)
_event = st.tuples(st.sampled_from("AABBC"), _row)
_step = st.one_of(
    st.tuples(st.sampled_from(["run", "run", "rows", "late"]), st.lists(_event, min_size=1, max_size=30)),
    st.tuples(st.sampled_from(["run", "rows"]), st.lists(_event, min_size=1, max_size=30)),
    st.tuples(st.just("rows"), st.lists(st.tuples(st.sampled_from("AB"), _row | _row | _odd), min_size=1, max_size=9)),
    st.tuples(st.just("chunk"), st.lists(st.tuples(st.just("A"), _row | _odd), min_size=1, max_size=4)),
    st.tuples(st.just("chunk"), st.lists(st.tuples(st.just("B"), _row), min_size=1, max_size=4)),
    st.tuples(st.just("chunk"), st.lists(st.tuples(st.just("E"), _row), min_size=1, max_size=9)),
    st.tuples(st.sampled_from(["one", "delete", "restart", "ask"]), st.lists(_event, min_size=1, max_size=1)),
)


class Course:
    """An app that goes through steps."""

    def __init__(self, text: str) -> None:
        self.checked = check(parse(text), catalog(), text)
        self.app = HostedApp(self.checked, "App-1")
        self.app.start(900)
        self.now = count(1000)
        self.seen: list[Any] = []
        self.at_once = 0

    def step(self, kind: str, events: Sequence[tuple[str, Any]]) -> None:
        times = [next(self.now) for _ in events]
        if kind in ("chunk", "one"):
            self.app.advance(times[-1])
            self.app.deliver(events[0][0], [(times[-1], row) for _, row in events])
        elif kind == "delete":
            self.app.advance(times[-1])
            self.app.deliver("D", [(times[-1], events[0][1][:1])])
        elif kind == "restart":
            state = self.app.snapshot()
            self.app = HostedApp(self.checked, "App-1")
            self.app.restore(state)
        elif kind == "ask":
            self.seen.append(str(self.app.query("from T select *").rows))
        else:
            self._run(kind, events, times)
        self.seen.append((put_out(self.app), self.app.clock, self.app.held_rows()))

    def _run(self, kind: str, events: Sequence[tuple[str, Any]], times: Sequence[int]) -> None:
        parts = {}
        for stream in dict.fromkeys(stream for stream, _ in events):
            ranks = [number for number, (name, _) in enumerate(events) if name == stream]
            rows: Any = [events[number][1] for number in ranks]
            at = numpy.array([times[number] for number in ranks])
            if kind == "run":
                rows = columns(rows, SCHEMA)
            parts[stream] = StreamPart(at, numpy.array(ranks), rows, at - 5 if kind == "late" else None)
        if self.app.as_columns(parts):
            self.at_once += 1
        else:
            self.app.one_by_one(parts)


def courses(text: str, steps: Sequence[tuple[str, Sequence[tuple[str, Any]]]]) -> Course:
    """Go through steps both ways; return the course of many events at once."""
    return both_ways(
        lambda: Course(text), lambda fewest: patch.object(table, "FEWEST", fewest), [*steps, ("ask", [("A", ())])]
    )


_joins = st.lists(
    st.tuples(
        st.sampled_from(["join", "join", "left outer join", "right outer join", "full outer join"]),
        st.sampled_from(SELECTIONS),
    ),
    min_size=1,
    max_size=2,
)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from([*KEYS]),
    st.sampled_from(["update or insert into", "update or insert into", "update"]),
    st.sampled_from([*SETS, *SETS, *ODD_SETS]),
    _joins,
    st.lists(_step, max_size=8),
)
def test_events_at_once_find_what_single_events_find(
    key: str, write: str, sets: str, joins: list[tuple[str, str]], steps: list[Any]
) -> None:
    courses(app_of(key, write, sets, joins), steps)


ROWS = [(f"k{n * 7919 % 13}", n % 5, n / 8, f"s{n % 7}", n % 2 == 0) for n in range(600)]
EVENTS = [("ABAC"[n % 4], row) for n, row in enumerate(ROWS)]
STEPS = [
    ("chunk", [("E", row) for row in ROWS[:9]]),
    ("run", EVENTS),
    ("one", EVENTS[2:3]),
    ("ask", EVENTS[:1]),
    ("run", EVENTS[:150]),
    ("rows", EVENTS),
    ("run", EVENTS),
]
STEPS += [("restart", EVENTS[:1]), ("late", EVENTS[3:]), ("run", EVENTS[1::2]), ("run", EVENTS[::2])]
INNER = ("join", SELECTIONS[0])


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("sets", SETS)
@pytest.mark.parametrize("write", ["update or insert into", "update"])
def test_what_is_taken_at_once(key: str, sets: str, write: str) -> None:
    for joins in ([INNER, ("left outer join", SELECTIONS[0])], [("join", SELECTIONS[1]), ("join", SELECTIONS[2])]):
        assert courses(app_of(key, write, sets, joins), STEPS).at_once == 7


def test_a_table_is_joined_at_once_where_nothing_is_written() -> None:
    text = app_of("'k'", "update or insert into", "", [INNER])
    looks = [("run", [("B", row) for row in ROWS])]
    assert courses(text, [("rows", EVENTS[::2]), *looks, *looks]).at_once == 3


@pytest.mark.parametrize(
    "text",
    [
        *(app_of("'k'", "update or insert into", sets, [INNER]) for sets in ODD_SETS),
        app_of("'k'", "update", "", [INNER], "from A select k insert into P;"),
        app_of("'k'", "update", "", [INNER], "from B select k insert into P;"),
        app_of("'k'", "update", "", [INNER], "from Bs select k insert into P;"),
        app_of("'k'", "update or insert into", "", [INNER]).replace("from A ", "from A[n > 1] "),
        app_of("'k'", "update or insert into", "", [INNER]).replace(
            "from A ", "from A select k, n, v + 1.0 as v, s, b "
        ),
        app_of("'k'", "update or insert into", "", [INNER]).replace("T.k == B.k", "T.k == B.k and T.n == B.n"),
        app_of("'k'", "update or insert into", "", [INNER]).replace("T.k == B.k", "T.s == B.k"),
        app_of("'k'", "update or insert into", "", [INNER]).replace("T on T.k == k;", "T on T.k == s;", 1),
        app_of("'k'", "update or insert into", "", [INNER]).replace("T on T.k == k;", "T on T.k == k and T.n == n;", 1),
        app_of("'k'", "update or insert into", "", [INNER]).replace("@primaryKey('k')", ""),
        app_of("'k'", "update or insert into", "", [INNER]).replace("from B join", "from B#window.length(3) join"),
        app_of("'k'", "update or insert into", "", [("left outer join", SELECTIONS[1])]),
        app_of("'k'", "update or insert into", " set T.v = v", [INNER]).replace(
            "T set T.v = v on T.k == k;", "T set T.v = v on T.k == s;", 1
        ),
    ],
)
def test_what_goes_one_by_one(text: str) -> None:
    events = [(stream, row) for stream, row in EVENTS if stream != "C"]
    assert courses(text, [("rows", events)]).at_once == 0


def test_two_joins_into_one_stream_go_one_by_one() -> None:
    text = app_of("'k'", "update or insert into", "", [INNER, INNER]).replace("insert into Cs", "insert into Bs")
    assert courses(text, [("run", EVENTS), ("run", EVENTS[1::4])]).at_once == 1


def test_few_events_go_one_by_one_until_as_many_have_come_as_are_held() -> None:
    course = Course(app_of("'k'", "update or insert into", "", [INNER]))
    rows = [(f"k{n}", n, 0.5, "s", True) for n in range(1000)]
    for many, at_once in ((255, 0), (1000, 1), (1, 2)):
        course.step("rows", [("A", row) for row in rows[:many]])
        assert course.at_once == at_once
    course.step("ask", [("A", ())])
    for at_once in (2, 2, 2, 3, 4):
        course.step("rows", [("A", row) for row in rows[:256]])
        assert course.at_once == at_once
