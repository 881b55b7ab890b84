"""Joins take many events at once where they give the same as one by one, and leave all others alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pytest

from spdist.engine.island.hosted import HostedApp
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.core.junction import StreamPart
from spdist.transports.delivery import Deliveries

JOIN = "from A#window.time(1 sec) join B#window.length(20) on A.k == B.l"
SELECT = "select k, n, m insert into O;"
TEXT = """define stream A (k string, n int); define stream B (l string, m int);
@sink(type='kafka', bootstrap.servers='b:1', topic='t', @map(type='json'))
define stream O ({}); {}"""
NAMED = "k string, n int, m int"
COUNT = 1000
#: Stream, timestamp and row of each event.
EVENTS = [("AB"[n % 3 % 2], 1000 + n // 3, (f"k{n % 7}" if n % 11 else None, n % 10)) for n in range(COUNT)]


def hosted(results: str, queries: str) -> HostedApp:
    text = TEXT.format(results, queries)
    app = HostedApp(check(parse(text), catalog(), text), "App-1")
    app.start(0)
    return app


def parts(events: Sequence[tuple[str, int, tuple[Any, ...]]]) -> dict[str, StreamPart]:
    made = {}
    for name in "AB":
        own = [(time, rank, row) for rank, (stream, time, row) in enumerate(events) if stream == name]
        times, ranks, rows = zip(*own, strict=True)
        made[name] = StreamPart(numpy.array(times), numpy.array(ranks), rows)
    return made


def one_by_one(app: HostedApp, events: Sequence[tuple[str, int, tuple[Any, ...]]]) -> None:
    app.one_by_one(parts(events))


def put_out(app: HostedApp) -> list[Any]:
    return [payload for one in app.take_deliveries() if isinstance(one, Deliveries) for payload in one.payloads]


@pytest.mark.parametrize(
    ("results", "queries"),
    [
        (NAMED, f"{JOIN} {SELECT}"),
        ("k string, n int, l string, m int", f"{JOIN} select * insert into O;"),
        (NAMED, f"{JOIN.replace('join', 'left outer join')} {SELECT}"),
        ("m int, one int", f"{JOIN} and A.n == B.m select m, n as one insert into O;"),
    ],
)
def test_many_events_at_once(results: str, queries: str) -> None:
    alone, together = hosted(results, queries), hosted(results, queries)
    one_by_one(alone, EVENTS[:100])
    one_by_one(together, EVENTS[:100])
    one_by_one(alone, EVENTS[100:])
    assert together.as_columns(parts(EVENTS[100:]))
    assert put_out(together) == put_out(alone)
    assert together.snapshot() == alone.snapshot()
    assert together.clock == alone.clock == EVENTS[-1][1]
    later = [(stream, time + 500, row) for stream, time, row in EVENTS[:100]]
    for app in (alone, together):
        one_by_one(app, later)
    assert put_out(together) == put_out(alone) != []


@pytest.mark.parametrize(
    ("queries", "events"),
    [
        (f"{JOIN} {SELECT}", EVENTS[:100]),  # too few
        (f"{JOIN} {SELECT}", [("A", 0, ("k1", 0)), *EVENTS]),  # before the app's time
        (f"{JOIN} {SELECT}", [("A", 1000, (["no key"], 0)), *EVENTS]),
        (f"{JOIN} and A.n < B.m {SELECT}", EVENTS),
        (f"{JOIN.replace('A#', 'A[n > 3]#')} {SELECT}", EVENTS),
        (f"{JOIN} select k, n + 1 as n, m insert into O;", EVENTS),
        (f"{JOIN} select k, n, m insert into P; from P select k, n, m insert into O;", EVENTS),
        (f"{JOIN} {SELECT} from A select k, n, n as m insert into O;", EVENTS),
        (f"{JOIN} {SELECT} from O select count() as c insert into P;", EVENTS),
        (f"{JOIN.replace('length(20)', 'sort(20, m)')} {SELECT}", EVENTS),
        (f"define trigger T at every 100 milliseconds; {JOIN} {SELECT}", EVENTS),
    ],
)
def test_what_must_come_one_by_one_is_left_alone(queries: str, events: list[Any]) -> None:
    app = hosted(NAMED, queries)
    app.advance(500)
    before = app.snapshot()
    assert not app.as_columns(parts(events))
    assert app.snapshot() == before
    assert put_out(app) == []


def test_those_who_watch_see_each_event() -> None:
    for watched in "AO":
        app = hosted(NAMED, f"{JOIN} {SELECT}")
        app.subscribe(watched, lambda _ts, _row: None)
        assert not app.as_columns(parts(EVENTS))


def test_what_holds_more_than_comes_is_not_looked_through() -> None:
    app = hosted(NAMED, f"{JOIN.replace('1 sec', '1 hour')} {SELECT}")
    assert app.as_columns(parts(EVENTS))
    later = [(stream, time + 500, row) for stream, time, row in EVENTS]
    assert not app.as_columns(parts(later[:300]))
    assert app.as_columns(parts(later))
