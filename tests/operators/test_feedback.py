"""Streams that feed themselves: what goes round without end is stopped with an error, and the next event goes on."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from spdist.engine.local.app import LocalApp
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.core.feedback import MOST_LEVELS, Rounds, circular_streams

_STREAM = "define stream S (k string, v int); define stream Other (v int); "
_STREAM += "define window W (k string, v int) length(3); from Other select v insert into O; "


def app_of(text: str) -> tuple[LocalApp, list[Any]]:
    app = LocalApp(check(parse(_STREAM + text), catalog(), text))
    out: list[Any] = []
    app.subscribe("O", lambda _ts, row: out.append(row[0]))
    return app, out


@pytest.mark.parametrize(
    "text",
    [
        "from S select k, v insert into P; from P select k, v insert into S;",
        "from S select k, v insert into S;",
        "from S insert into W; from W select k, v insert into S;",
        "from every e1=S select e1.k as k, e1.v as v insert into S;",
        "partition with (k of S) begin from S select k, v insert into #I; from #I select k, v insert into #I; end;",
        "partition with (k of S) begin from S#window.length(5) join S#window.length(5) as t on S.k == t.k "
        "select S.k as k, t.v as v insert into S; end;",
        "from S#window.length(5) select k, v insert all events into T; "
        "from T#window.length(5) select k, v insert all events into S;",
    ],
)
def test_a_circle_without_an_end_costs_one_event(text: str) -> None:
    app, out = app_of(text)
    limit = sys.getrecursionlimit()
    for number in range(3):
        app.send("S", 1000 + number, ("a", number))
        app.send("Other", 1000 + number, (number,))
    assert out == [0, 1, 2]
    assert app.failures.count >= 3
    assert "goes round" in str(app.failures.latest)
    assert sys.getrecursionlimit() == limit


def test_a_circle_that_ends_by_itself_goes_to_its_end() -> None:
    app, _ = app_of("from S[v > 0] select k, v - 1 as v insert into S;")
    seen: list[int] = []
    app.subscribe("S", lambda _ts, row: seen.append(row[1]))
    app.send("S", 1000, ("a", MOST_LEVELS - 1))
    assert sorted(seen) == list(range(MOST_LEVELS))
    app.send_chunk("S", [(1000, ("a", 0))] * 150_000)
    assert app.failures.count == 0


def test_what_goes_round_can_be_caught() -> None:
    text = (
        "@OnError(action='STREAM') define stream S (v int); from S select v insert into P;"
        "from P select v insert into S; from !S select v insert into O;"
    )
    app = LocalApp(check(parse(text), catalog(), text))
    out: list[Any] = []
    app.subscribe("O", lambda _ts, row: out.append(row[0]))
    app.send("S", 1000, (7,))
    assert (out, app.failures.count) == ([7], 0)


def test_only_streams_in_circles_are_counted() -> None:
    text = (
        "define stream A (v int); define table T (v int); from A select v insert into B; from B select v insert into C;"
        "from C select v insert into B; from C select v insert into D; from D select v insert into T;"
        "from A join T select T.v as v insert into A2;"
    )
    assert circular_streams(check(parse(text), catalog(), text)) == {"B", "C"}


def test_what_windows_keep_of_a_circle_does_not_grow_and_others_go_on() -> None:
    app, out = app_of(
        "from S#window.time(1 sec) select k, v insert all events into S; "
        "from Other[v > 0] select v - 1 as v insert into Other;"
    )
    app.send("S", 1000, ("a", 1))
    for second in range(2, 32):  # after five that were stopped the limit is the lowest
        app.send("Other", 1000 * second, (5,))
        assert app.held_rows() <= 30_000
    assert out == [5, 4, 3, 2, 1, 0] * 30


def test_circles_that_end_get_their_limit_back() -> None:
    app, _ = app_of("from S[v != 0] select k, v - 1 as v insert into S;")
    endless, deep = ("a", -1), ("a", 400)
    app.send("S", 1000, deep)
    assert app.failures.count == 0
    app.send("S", 1001, endless)
    app.send("S", 1002, deep)
    assert app.failures.count == 2
    copy, _ = app_of("from S[v != 0] select k, v - 1 as v insert into S;")
    copy.restore(app.snapshot())
    for one in (app, copy):
        failed = one.failures.count
        for number in range(3):
            one.send("S", 1003 + number, ("a", 5))
        one.send("S", 1010, deep)
        assert one.failures.count == failed


def test_apps_in_other_threads_keep_their_limit_of_frames() -> None:
    limit = sys.getrecursionlimit()
    slow, quick = Rounds(), Rounds()
    slow.enter(1)
    quick.enter(1)
    slow.leave()
    assert sys.getrecursionlimit() >= limit + MOST_LEVELS, "the other one is still on its way"
    quick.leave()
    assert sys.getrecursionlimit() == limit
