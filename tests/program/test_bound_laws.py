"""Windows that a condition bounds, in programs: what they hold, let leave and count is what operators do."""

from __future__ import annotations

import math
from itertools import product
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from spdist.facade import explain
from spdist.program.joins.side_text import SideRows
from spdist.program.machine.compiler import interpreted
from spdist.program.queries import group_text
from spdist.program.running import forgetting
from spdist.program.windows.condition_text import AskedWriter, ConditionText
from spdist.program.windows.expression import BoundBatchWriter, BoundStates, BoundWriter
from tests.program.bound_apps import BOUND, BOUND_BATCHES, BOUND_SIDES, BOUND_TOTALS
from tests.program.drawn_apps import START_MS, STREAM, drawn_condition
from tests.program.drawn_bounds import drawn_bound
from tests.program.test_program_laws import alike
from tests.program.watched import Watched, checked_app

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in scalar")

APPS = [BOUND, BOUND_BATCHES, BOUND_TOTALS, BOUND_SIDES]
#: Questions to the named windows.
ASKED = ["from W select sym, total", "from V select kind, volume", "from U select sym"]


def same(app: str, *seeds: int, steps: int = 30) -> int:
    """Check an app with its program, which has all of it; returns how many events came out."""
    checked = checked_app(app)
    own = Watched(checked, interpreted).app.programmed
    assert own is not None
    assert own.compile() is not None, own.reason
    assert own.program is not None
    assert not own.program.sites, [site.element.why.reason for site in own.program.sites]
    asks = ASKED if app is BOUND_SIDES else []
    return sum(alike(checked, Random(seed), interpreted, steps=steps, asks=asks) for seed in seeds)


@pytest.mark.parametrize("app", APPS)
def test_windows_of_one_subject_do_the_same_with_their_program(app: str) -> None:
    with patch.object(group_text, "MOST_WAITING", 2), patch.object(forgetting, "_FEW", 4):
        assert same(app, *range(4)) > 1000


@pytest.mark.parametrize("group", range(3))
def test_a_drawn_window_does_the_same_with_its_program(group: int) -> None:
    out = 0
    for seed in range(20 * group, 20 * group + 20):
        random = Random(seed)
        text = drawn_bound_app(random)
        try:
            out += same(text, seed, steps=15)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{text}") from error
    assert out > 400


def drawn_bound_app(random: Random) -> str:
    """Return an app of a window that a condition bounds, in front of another one."""
    before, behind = (f"[{drawn_condition(random)}]" if random.random() < 0.3 else "" for _ in range(2))
    totals = random.sample(("count()", "sum(volume)", "avg(price)", "max(rate)", "min(total)", "stdDev(volume)"), 2)
    items = ["sym", *(f"{one} as a{n}" for n, one in enumerate(totals[: random.randint(0, 2)]))]
    group, having = (
        random.choice(("", "", " group by kind", " group by sym, ok")),
        random.choice(("", "", " having a0 > 1")),
    )
    having = having if len(items) > 1 else " having not (sym is null)"
    order = random.choice(("", "", " order by sym limit 2", " output last every 2 events"))
    events = random.choice(("", "all events ", "all events ", "expired events "))
    query = f"from S{before}#window.{drawn_bound(random)}{behind} select {', '.join(items)}{group}{having}{order}"
    moved = f"from S#window.{drawn_bound(random)} select * insert {random.choice(('', 'all events '))}into M;"
    next = f"from M#window.{drawn_bound(random)} select kind, count() as n insert all events into Out2;"
    if random.random() < 0.3:
        return f"{STREAM}\npartition with (kind of S) begin {query} insert {events}into Out1; end;\n{moved}\n{next}"
    return f"{STREAM}\n{query} insert {events}into Out1;\n{moved}\n{next}"


def mutants() -> dict[str, Any]:
    """Return changes of what is written for windows that a condition bounds."""
    holds, written = ConditionText.holds, AskedWriter.write

    def enters(self: ConditionText, seen: Any, enters: bool) -> Any:
        return holds(self, seen, True)

    def own_first(self: ConditionText, seen: Any, enters: bool) -> Any:
        return holds(self, (seen[0], seen[0], seen[2]), enters)

    def own_last(self: ConditionText, seen: Any, enters: bool) -> Any:
        return holds(self, (seen[0], seen[1], seen[0]), enters)

    def always(self: AskedWriter, expression: Any) -> Any:
        return written(self, expression), []

    def later(self: BoundWriter, leaving: list[str]) -> list[str]:
        return BoundWriter.changes(self)

    return {
        "what leaves": patch.object(ConditionText, "holds", enters),
        "the first event": patch.object(ConditionText, "holds", own_first),
        "the last event": patch.object(ConditionText, "holds", own_last),
        "what is asked for": patch.object(AskedWriter, "apart", always),
        "totals of a batch": patch.object(ConditionText, "begins_anew", lambda self: []),
        "what ends a batch": patch.object(ConditionText, "includes", lambda self, came: ([], "False")),
        "what was looked at": patch.object(BoundBatchWriter, "_looks", lambda self, at: ([], [], [])),
        "who looks": patch.object(SideRows, "looks", lambda self: []),
        "who leaves a batch": patch.object(BoundBatchWriter, "_gone", lambda self: []),
        "groups of a batch": patch.object(BoundBatchWriter, "_joins", lambda self, read: []),
        "totals of a state": patch.object(BoundStates, "load_more", lambda self, running, query, states, held: None),
        "attributes that are compared": patch.object(BoundWriter, "_seen", lambda self, node: self._came),
    }


@pytest.mark.parametrize("name", list(mutants()))
def test_the_law_finds_a_mutant(name: str) -> None:
    failures = (AssertionError, TypeError, KeyError, IndexError, ValueError)
    with mutants()[name], pytest.raises(failures):
        for seed, app in product(range(3), APPS):
            same(app, seed, steps=20)


def test_what_a_value_leaves_that_comes_after_it_has_left_stays_with_its_group() -> None:
    text = f"""{STREAM} define window W {STREAM[STREAM.index("(") : -1]} expression('last.volume < 3');
    from S select * insert into W;
    from W select sym, stdDev(volume) as d group by sym insert expired events into Out;"""
    apps = Watched(checked_app(text)), Watched(checked_app(text), interpreted)
    with patch.object(group_text, "MOST_WAITING", 0):
        for one in apps:
            one.app.start(START_MS)
            one.begin()
            for number, (sym, volume) in enumerate((("a", 1), ("a", 9), ("b", 5), ("a", 7))):
                one.run([(START_MS + number, (sym, None, None, None, volume, None, None))])
    assert repr(apps[0].chunks) == repr(apps[1].chunks)
    assert [row for _, chunk in apps[1].chunks for _, row in chunk][1:] == [("b", 0.0), ("a", math.sqrt(18))]


def test_it_is_told_which_windows_have_no_typed_form() -> None:
    plain = "from S select sym insert into Plain;\n"

    def told(window: str, selected: str = "sym", defined: str = "") -> str:
        query = f"@info(name='q') from S#window.{window} select {selected} insert into Out;"
        return explain(f"{STREAM}\n{defined}{plain}{query}").compiled

    assert told("expression('count() < 3')") == "yes"
    assert "by a text that events bring" in told("expression(kind)")
    assert "the aggregator distinctCount() in the condition" in told("expression('distinctCount(sym) < 3')")
    assert "the function str:length()" in told("expression('str:length(sym) < 3')")
    assert "asked for some events only" in told("expression('ok and coalesce(sum(volume), 1L) < 3')")
    assert "the aggregator and() of what may be null" in told("expressionBatch('and(ok)')")
    assert "the function str:length()" in told("expressionBatch('count() < 3', str:length(sym) > 2)")
    for window in ("expression('ok')", "unique:length(sym, 3)", "unique:time(sym, 9)"):
        assert "distinctCount() of what may leave before it comes" in told(window, "distinctCount(sym) as n")
    assert told("unique:ever(sym)", "distinctCount(sym) as n") == "yes"
    script = "define function f[python] return bool { return True };\n"
    assert "by what is no condition here" in told("expression('f(ok)')", defined=script)
