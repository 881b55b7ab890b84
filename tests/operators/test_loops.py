"""Batches go through generated loops; what comes out is what comes out of single events."""

from __future__ import annotations

import linecache
from typing import Any

import pytest

from spdist.engine.local.app import LocalApp
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse

S = "define stream S (k string, v int, w double);\n"
#: Names are their own, so that it can be told whether a loop was written for the query.
LOOPED = {
    "loop_filter": "from S[v > 2] select k, v * 2 as d insert into Out;",
    "loop_all": "from S insert into Out;",
    "loop_totals": "from S select k, sum(v) as s, count() as n group by k having n != 3 insert into Out;",
    "loop_length": "from S[v != 4]#window.length(3)[v != 6] select k, avg(w) as a, max(v) as m insert into Out;",
    "loop_length_groups": "from S#window.length(4) select k, sum(v) as s group by k insert into Out;",
    "loop_time": "from S#window.time(7) select k, sum(v) as s, eventTimestamp() as t group by k insert into Out;",
    "loop_fails": "from S#window.length(2) select sum(cast(k, 'double')) as s insert into Out;",
    "loop_batch": "from S[v > 1]#window.lengthBatch(3)[v != 5] select k, sum(v) as s group by k "
    "insert all events into Out;",
    "loop_period": "from S#window.timeBatch(20) select k, sum(v) as s insert into Out;",
    "loop_period_from": "from S#window.timeBatch(20, 3) select sum(v) as s having sum(s) > 0 "
    "insert expired events into Out;",
    "loop_limit": "from S#window.length(2) select k, sum(v) as s group by k limit 0 insert into Out;",
}
KEYED = {
    "called_purged": "from S#window.length(2) select k, sum(v) as s insert into Out;",
    "loop_keyed": "from S#window.length(2) select k, sum(v) as s insert into Out;",
    "loop_keyed_batch": "from S#window.lengthBatch(2) select k, sum(v) as s insert into #I; from #I insert into Out;",
    "loop_keyed_period": "from S#window.timeBatch(15) select k, sum(v) as s insert into Out;",
    "loop_inner": "from S[v > 0]#window.time(9) select k, sum(v) as s insert into #I; from #I insert into Out;",
}
CALLED = {
    "called_expired": "from S#window.length(2) select k insert expired events into Out;",
    "called_batch": "from S#window.lengthBatch(2, true) select k, sum(v) as s insert into Out;",
    "called_pass": "from S#window.timeBatch(9, true) select k, sum(v) as s insert into Out;",
    "called_having": "from S#window.length(2) select k, v having sum(v) > 5 insert into Out;",
    "called_nothing_held": "from S#window.length(0) select k insert into Out;",
}
EVENTS = [(1000 + n + n % 3 * 5, ("xyz"[n % 3] if n % 7 else None, n % 9 if n % 5 else None, n / 4)) for n in range(60)]


def text_of(name: str) -> str:
    query = {**LOOPED, **CALLED, **KEYED}[name].replace("from", f"@info(name='{name}') from", 1)
    if name in KEYED:
        query = f"partition with (k of S) begin {query} end;"
    if name == "called_purged":
        query = "@purge(enable='true', interval='5 millisec', idle.period='9 millisec') " + query
    return S + query


def made(name: str) -> tuple[LocalApp, list[Any]]:
    app = LocalApp(check(parse(text_of(name)), catalog()))
    out: list[Any] = []
    app.subscribe("Out", lambda ts, row: out.append((ts, row)))
    return app, out


@pytest.mark.parametrize("name", [*LOOPED, *KEYED, *CALLED])
def test_a_batch_gives_what_single_events_give(name: str) -> None:
    single, expected = made(name)
    for timestamp, row in EVENTS:
        single.send("S", timestamp, row)
    batched, out = made(name)
    times, rows = [ts for ts, _ in EVENTS], [row for _, row in EVENTS]
    batched.send_batch("S", times[:25], rows[:25])
    again, out_again = made(name)
    again.restore(batched.snapshot())
    again.send_batch("S", times[25:], rows[25:])
    assert out + out_again == expected
    assert again.snapshot() == single.snapshot()
    assert batched.failures.count + again.failures.count == single.failures.count
    assert any(f"{name} loop" in file for file in linecache.cache) is not name.startswith("called")


def test_an_event_that_fails_is_lost_alone() -> None:
    app, out = made("loop_fails")
    rows = [(key, 1, 1.0) for key in (None, "x", None)]
    app.send_batch("S", [1, 2, 3], rows)
    assert [ts for ts, _ in out] == [1, 3]
    assert app.failures.count == 1
    app.send_batch("S", [4, 5], rows[::2])
    assert [ts for ts, _ in out] == [1, 3, 5]
    assert app.failures.count == 2  # the window held the one that fails, and it fails again where it leaves


def test_an_error_of_the_only_observer_comes_out() -> None:
    app = LocalApp(check(parse(text_of("loop_all")), catalog()))
    app.subscribe("Out", lambda _ts, _row: 1 / 0)  # type: ignore[arg-type, return-value]
    with pytest.raises(ZeroDivisionError):
        app.send_batch("S", [1], [("x", 1, 1.0)])
    assert app.failures.count == 0


def test_who_comes_later_is_told_too() -> None:
    app, out = made("loop_all")
    app.send_batch("S", [1], [("x", 1, 1.0)])
    seen: list[Any] = []
    app.subscribe("Out", lambda ts, row: seen.append(ts))
    app.subscribe_query("loop_all", lambda ts, current, expired: seen.append((ts, len(current), len(expired))))
    app.subscribe("S", lambda ts, row: seen.append("in"))
    app.send_batch("S", [2, 3], [("x", 1, 1.0), ("y", 1, 1.0)])
    assert seen == [(2, 1, 0), 2, "in", (3, 1, 0), 3, "in"]
    assert len(out) == 3
