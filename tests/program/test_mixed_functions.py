"""Functions of texts beside elements that are called: what is computed before the loop, and what the loop loses."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from spdist.extension import function, signature
from spdist.facade import explain
from spdist.language.types import Type
from spdist.program import text
from spdist.program.machine.compiler import interpreted
from spdist.program.running import forgetting, rooms
from spdist.program.running.mixed import MixedRunning
from spdist.program.shape import shape_of
from tests.program.drawn_apps import START_MS, STREAM
from tests.program.test_program_laws import alike
from tests.program.watched import Watched, checked_app

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in scalar")

#: A query that fails on texts, behind a called one and in front of others; new texts come back while the loop runs.
LOSING = f"""{STREAM}
define table T (sym string, price double);
from S[volume > 0] select sym, price update or insert into T on T.sym == sym;
from S[ok] select str:charAt(sym, 1) as second, price insert into Out1;
from S as X join T on X.sym == T.sym
select str:concat(X.sym, '-', convert(X.total, 'string')) as sym, T.price as price insert into Mid;
from Mid#window.length(2) select sym, sum(price) as p group by sym insert all events into Out2;
from S select convert(sym, 'int') as number, str:concat(kind, '!') as told, total insert into Up;
from Up#window.length(3) select told, count() as n group by told insert into Out3;
partition with (kind of S) begin from S select convert(sym, 'double') as d, total insert into Out4; end;
from Mid[str:contains(sym, 'b')] select sym insert into Out5;
"""


@function("laws:large", signature("laws:large", ((Type.STRING,), Type.INT)))
def large(given: str | None) -> int:
    return 1 << 40 if given == "large" else 1


def run_all() -> int:
    checked = checked_app(LOSING)
    return sum(alike(checked, Random(seed), interpreted, steps=20) for seed in range(6))


def test_an_app_with_functions_of_texts_does_the_same_with_calls() -> None:
    own = Watched(checked_app(LOSING), interpreted).app.programmed
    assert own is not None
    assert own.compile() is not None
    # Of what operators bring while the loop runs nothing was computed before it.
    told = explain(LOSING).compiled
    assert told.count("is compiled") == 5
    assert told.endswith("query_8 is called: the function str:contains() (line 11)")
    assert run_all() > 300


def test_texts_that_are_numbered_anew_are_computed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "_FEW", 4)
    assert run_all() > 300


def mutants() -> list[Any]:
    return [
        patch.object(text, "_unless", lambda failed, lines: lines),
        patch.object(rooms.Rooms, "forget_computed", lambda self: None),
    ]


@pytest.mark.parametrize("number", range(2))
def test_the_law_finds_what_is_not_lost_and_what_is_old(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "_FEW", 4)
    with mutants()[number], pytest.raises((AssertionError, IndexError)):
        run_all()


def test_failures_are_counted_as_with_operators() -> None:
    plain, other = Watched(checked_app(LOSING)), Watched(checked_app(LOSING), interpreted)
    for one in (plain, other):
        one.begin()
        one.app.start(START_MS)
        events = [
            (START_MS + n, (sym, "x", 1.0, 0.5, 1, n, True)) for n, sym in enumerate(["ab", "a", None, "", "abc"])
        ]
        one.run(events)
        one.chunk(events[:2], START_MS + 9)
    assert isinstance(other.app.programmed and other.app.programmed.running, MixedRunning)
    assert plain.chunks == other.chunks
    assert other.app._context.failures.count == plain.app._context.failures.count > 3
    assert sorted(other.app._context.failures.reasons) == sorted(plain.app._context.failures.reasons)


def test_what_is_not_of_its_type_brings_the_operators_back() -> None:
    app = f"{STREAM} from S select laws:large(sym) as n insert into Out;"
    plain, other = Watched(checked_app(app)), Watched(checked_app(app), interpreted)
    for one in (plain, other):
        one.begin()
        one.app.start(START_MS)
        for n, sym in enumerate(("a", "large", "b")):
            one.chunk([(START_MS + n, (sym, "x", 1.0, 0.5, 1, n, True))], START_MS + n)
    assert plain.chunks == other.chunks
    own = other.app.programmed
    assert own is not None
    assert (own.active, own.reason) == (False, "laws:large() gives what is not of its type")


def test_a_stream_that_sends_on_what_failed_is_told_by_the_operators_of_the_query() -> None:
    app = f"""@OnError(action='stream') {STREAM}
    define table T (sym string);
    from S select sym update or insert into T on T.sym == sym;
    from S select str:charAt(sym, 1) as second insert into Out1;
    from !S select sym insert into Out2;
    from S select sym insert into Out3;"""
    plain, other = Watched(checked_app(app)), Watched(checked_app(app), interpreted)
    for one in (plain, other):
        one.begin()
        one.app.start(START_MS)
        for n, sym in enumerate(("ab", "a", "abc", None)):
            one.chunk([(START_MS + n, (sym, "x", 1.0, 0.5, 1, n, True))], START_MS + n)
    assert plain.chunks == other.chunks
    assert [stream for stream, _ in other.chunks].count("Out2") == 2
    own = other.app.programmed
    assert own is not None and own.active


#: Queries in front of one that fails, and behind it; readers of what it has failed on; one that fails on that, too.
FAULTS = f"""@OnError(action='stream') {STREAM}
from S select sym, volume insert into Out1;
from S[str:charAt(sym, 0) != 'x'] select str:charAt(sym, 0) as first, str:concat(kind, sym) as both insert into Out2;
from S#window.time(60) select sym, sum(volume) as v insert all events into Out3;
from S select sym, str:charAt(kind, 0) as first insert into Mid;
from Mid#window.length(2) select first, count() as n insert all events into Out5;
from !S select sym, kind, volume insert into Out6;
from !S#window.length(2) select sym, count() as n, sum(total) as t insert all events into Out7;
from !S select str:charAt(sym, 0) as first insert into Out8;
from every e1=S -> e2=!S select e1.volume as a, e2.volume as b insert into Out9;
from S select str:charAt(coalesce(kind, sym), 1) as second insert into Out4;
from S select total insert into Out11;
partition with (kind of !S) begin from !S select kind, count() as n insert into Out10; end;
"""


@pytest.mark.parametrize("action", ["stream", "log"])
def test_events_that_queries_fail_on_go_where_the_stream_says(action: str) -> None:
    app = FAULTS
    if action == "log":
        kept = [line for line in FAULTS.splitlines(keepends=True) if "!S" not in line]
        app = "".join(kept).replace("action='stream'", "action='LOG'")
        shape_of(checked_app(app))
    checked = checked_app(app)
    out = sum(alike(checked, Random(seed), interpreted, steps=30) for seed in range(4))
    assert out > 300


@pytest.mark.parametrize(
    "query",
    [
        "from every e1=S -> e2=S select str:upper(e2.sym) as u insert into Out;",
        "from every e1=S -> e2=S[str:upper(e1.sym) == 'A'] select e2.sym insert into Out;",
        "from every (e1=S and e2=S[ok]) select str:upper(e1.sym) as u insert into Out;",
        "from S select coalesce(sym, kind) as sym group by sym having str:length(sym) > 1 insert into Out;",
        "from S#window.length(1) select sym insert all events into Mid; "
        "partition with (str:upper(sym) of Mid) begin from Mid select sym insert into Out; end;",
    ],
)
def test_what_a_pattern_holds_or_what_is_computed_is_not_looked_up(query: str) -> None:
    assert "the function str:" in explain(f"{STREAM} {query}").compiled
