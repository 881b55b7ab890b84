"""Joins where recorded cases do not reach: which form runs, what is looked at, what failures cost."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.engine.local.app import LocalApp
from spdist.errors import SiddhiAppError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.joins.join import JoinQuery
from spdist.operators.joins.lazy_expiry import LazyExpiryJoin, LazyExpiryJoinPlan
from spdist.operators.windows.time import TimeWindow

STREAMS = "define stream L (k string, v int); define stream R (k string, v int);"
TIMED = "from L#window.time(100) as x join R#window.time(100) as y on x.k == y.k select x.v as a, y.v as b"


def app(text: str, target: str = "Out") -> tuple[LocalApp, list[Any]]:
    made = LocalApp(check(parse(STREAMS + text), catalog(), STREAMS + text))
    seen: list[Any] = []
    made.subscribe(target, lambda ts, row: seen.append((ts, row)))
    return made, seen


def form(made: LocalApp, name: str = "q") -> object:
    return made._elements._queries[name]


@pytest.mark.parametrize(
    ("text", "lazy"),
    [
        (f"{TIMED} insert into Out;", True),
        (f"{TIMED} insert all events into Out;", False),  # what leaves is put out
        (f"{TIMED} having a > 1 insert into Out;", False),
        (f"{TIMED.replace('y.v as b', 'sum(y.v) as b')} insert into Out;", False),
        (f"{TIMED.replace('x.k == y.k', 'x.v > y.v')} insert into Out;", False),  # no key
        (f"{TIMED.replace('y.v as b', 'coalesce(y.v, 0) as b')} insert into Out;", False),  # a call may fail
        (f"{TIMED.replace('R#window.time(100)', 'R')} insert into Out;", True),
        (f"{TIMED.replace('R#window.time(100)', 'R#window.sort(2, v)')} insert into Out;", False),
    ],
)
def test_the_lazy_form_runs_where_what_leaves_shows_nothing(text: str, lazy: bool) -> None:
    made, _ = app(f"@info(name='q') {text}")
    assert isinstance(form(made), LazyExpiryJoin if lazy else JoinQuery)


@pytest.mark.parametrize(("source", "lazy"), [("kafka", True), ("http", True), ("inMemory", False)])
def test_sources_that_are_heard_inside_the_app_may_bring_events_between_two_timers(source: str, lazy: bool) -> None:
    left = f"@source(type='{source}', topic='l', topic.list='l', receiver.url='http://127.0.0.1:1/l', group.id='g', "
    left += "bootstrap.servers='127.0.0.1:1', threading.option='single.thread', @map(type='json'))"
    text = f"{left} {STREAMS} @info(name='q') {TIMED} insert into Out;"
    made = LocalApp(check(parse(text), catalog(), text))
    assert isinstance(form(made), LazyExpiryJoin if lazy else JoinQuery)


def test_the_lazy_form_needs_no_timers() -> None:
    made, seen = app(f"@info(name='q') {TIMED} insert into Out;")
    made.send("L", 1000, ("a", 1))
    made.send("R", 1099, ("a", 2))
    made.send("R", 1100, ("a", 3))
    assert seen == [(1099, (1, 2))]
    assert made.next_timer is None


def test_streams_that_the_app_writes_keep_their_timers() -> None:
    made, _ = app(f"from L select * insert into R; @info(name='q') {TIMED} insert into Out;")
    assert isinstance(form(made), JoinQuery)


def test_an_event_out_of_order_lets_the_plain_form_take_over() -> None:
    made, seen = app(f"@info(name='q') {TIMED} insert into Out;")
    made.send("L", 1000, ("a", 1))
    made.send("L", 990, ("a", 2))  # leaves with the one before, at 1100
    assert made.next_timer == 1100
    made.send("R", 1095, ("a", 3))
    made.send("R", 1100, ("a", 4))
    assert seen == [(1095, (1, 3)), (1095, (2, 3))]


def test_a_restored_join_is_lazy_again() -> None:
    made, _ = app(f"@info(name='q') {TIMED} insert into Out;")
    made.send("L", 1000, ("a", 1))
    again, seen = app(f"@info(name='q') {TIMED} insert into Out;")
    again.restore(made.snapshot())
    assert again.next_timer is None
    again.send("R", 1050, ("a", 2))
    assert seen == [(1050, (1, 2))]


def test_both_forms_have_the_same_state(monkeypatch: pytest.MonkeyPatch) -> None:
    def state() -> bytes:
        made, _ = app(f"@info(name='q') {TIMED} insert into Out;")
        made.send("L", 1000, ("a", 1))
        made.send("L", 1000, (None, 2))
        made.send("R", 1050, ("a", 3))
        made.send("L", 1120, ("b", 4))
        return made.snapshot()

    lazy = state()
    monkeypatch.setattr(LazyExpiryJoinPlan, "may_be_lazy", False)
    assert state() == lazy


def test_those_who_watch_a_lazy_join_see_its_chunks() -> None:
    made, seen = app(f"@info(name='q') {TIMED} insert into Out;")
    chunks: list[Any] = []
    made.subscribe_query("q", lambda *chunk: chunks.append(chunk))
    made.send("L", 1000, ("a", 1))
    made.send("L", 1001, ("a", 2))
    made.send("R", 1002, ("a", 3))
    assert chunks == [(1002, [(1002, (1, 3)), (1002, (2, 3))], [])]
    assert seen == chunks[0][1]


def test_equalities_look_at_the_rows_of_a_key_only(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = app(f"{TIMED.replace('100', '100000')} insert all events into Out;")
    for n in range(100):
        made.send("L", 1000 + n, (f"k{n}", n))
    made.send("R", 1200, ("k1", 0))  # makes the index
    looks: list[int] = []
    contents = TimeWindow.contents
    monkeypatch.setattr(TimeWindow, "contents", lambda self: looks.append(1) or contents(self))
    for n in range(100):
        made.send("R", 1300 + n, (f"k{n}", n))
    assert not looks


def test_what_fails_on_one_event_costs_that_event() -> None:
    text = TIMED.replace("y.v as b", "x.k + y.v as b")
    made, seen = app(f"{text} insert into Out; from R select v insert into Later;", "Later")
    made.send("L", 1000, ("a", 1))
    made.send("R", 1001, ("a", 2))
    made.send("R", 1002, ("b", 3))
    assert [row for _, row in seen] == [(3,)]
    assert made.failures.count == 1


def test_limit_counts_for_each_event() -> None:
    # Siddhi loses the results of the events behind one whose results the limit has cut.
    limited = TIMED.replace("time(100)", "length(5)")
    made, seen = app(f"{limited} limit 1 insert into Out;")
    made.send_chunk("L", [(1000, ("a", 1)), (1000, ("a", 2))])
    made.send_chunk("R", [(1001, ("a", 3)), (1001, ("a", 4))])
    assert [row for _, row in seen] == [(1, 3), (1, 4)]


@pytest.mark.parametrize(
    "text",
    [
        "define table A (k string); define table B (k string); from A join B on A.k == B.k select A.k insert into Out;",
        "from L as x join R as y on x.k == y.k select * insert into Out;",
        "from L as x join R as y on L.k == y.k select x.k insert into Out;",
        "from L[x.v > 1] as x join R as y on x.k == y.k select x.k insert into Out;",
    ],
)
def test_what_siddhi_refuses(text: str) -> None:
    whole = text if text.startswith("define") else STREAMS + text
    with pytest.raises(SiddhiAppError):
        check(parse(whole), catalog(), whole)


@pytest.mark.parametrize("on", ["on x.k == x.k", "on x.v > 0", ""])
def test_a_table_that_nobody_asks_by_key_needs_no_index(on: str) -> None:
    tables = "define table T (k string, v int); from R insert into T; "
    made, seen = app(f"{tables} from L as x join T as y unidirectional {on} select x.v as a, y.v as b insert into Out;")
    made.send("R", 1000, ("a", 1))
    made.send("L", 1001, ("a", 2))
    assert seen == []  # only a row that enters the table would find partners, and tables tell nobody
