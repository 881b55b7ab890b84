"""Joins in a program: the results are those of the operators, in the same order, and so is the state."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from spdist.facade import explain
from spdist.language.types import Type
from spdist.program.joins.pair_groups import PairGroups
from spdist.program.joins.shape import Joined
from spdist.program.joins.side_text import SideRows, SideText
from spdist.program.joins.text import JoinWriter
from spdist.program.joins.unique_side import BucketRows
from spdist.program.joins.window_text import BatchSideWriter
from spdist.program.machine.compiler import interpreted
from spdist.program.queries import group_text
from spdist.program.queries.chunk_text import Buffers
from spdist.program.running import orders, reserve
from spdist.program.states.dues import load_dues
from spdist.program.windows import unique
from spdist.program.windows.kinds import Batched, Found
from spdist.program.windows.session_text import Sessions
from spdist.program.windows.sort import SortedStates, SortedWriter
from spdist.program.windows.unique_text import UniqueBatchWriter
from tests.program.chosen_apps import SNAPSHOTS_OF_PAIRS
from tests.program.drawn_apps import START_MS, STREAM
from tests.program.drawn_joins import drawn_join_app
from tests.program.join_apps import (
    JOINS,
    JOINS_OF_BATCHES,
    JOINS_OF_FREQUENT,
    JOINS_OF_HELD,
    JOINS_OF_KEYS,
    JOINS_OF_LATE,
    JOINS_OF_NAMES,
    JOINS_OF_ONE,
    JOINS_OF_RELEASED_KEYS,
    JOINS_RENEWED,
    PAIRS_IN_TABLES,
    PAIRS_OF_MANY,
)
from tests.program.test_program_laws import alike
from tests.program.watched import Watched, checked_app

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in scalar")

#: Joins of what operators bring, and of which operators are given the pairs.
CALLED = f"""{STREAM}
define table T (sym string, price double);
from S[volume > 0] select sym, price update or insert into T on T.sym == sym;
from S[ok] as x join T on x.sym == T.sym select x.sym as sym, T.price as price, x.kind as kind insert into Found;
from Found#window.length(30) as l join S#window.time(900) as r on l.kind == r.kind
select l.sym as sym, r.price as price, r.volume as v insert all events into Mid;
from Mid[v > 1] select sym, price update or insert into T on T.sym == sym;
from Mid#window.length(40) select sym, price, count() as n group by sym, price insert into Out1;
from Mid select sym, v insert into Out2;
"""


@pytest.mark.parametrize("group", range(3))
def test_a_drawn_app_with_joins_does_the_same_with_its_program(group: int) -> None:
    out = 0
    for seed in range(15 * group, 15 * group + 15):
        random = Random(seed)
        text = drawn_join_app(random)
        checked = checked_app(text)
        own = Watched(checked, interpreted).app.programmed
        assert own is not None
        assert own.compile() is not None, (own.reason, text)
        assert own.program is not None
        assert not own.program.shape.is_mixed, text
        try:
            out += alike(checked, random, interpreted, steps=12, whole=bool(own.program.known))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{text}") from error
    assert out > 200


SUBJECTS = [JOINS, JOINS_OF_ONE, JOINS_OF_BATCHES, JOINS_OF_HELD, JOINS_OF_NAMES, JOINS_RENEWED, SNAPSHOTS_OF_PAIRS]
SUBJECTS += [CALLED, JOINS_OF_KEYS, JOINS_OF_FREQUENT, JOINS_OF_RELEASED_KEYS, JOINS_OF_LATE]


def same(app: str, *seeds: int, steps: int = 30) -> int:
    """Check an app with its program; returns how many events came out."""
    checked, whole = checked_app(app), app in (JOINS_OF_HELD, JOINS_OF_RELEASED_KEYS)
    return sum(alike(checked, Random(seed), interpreted, steps=steps, whole=whole) for seed in seeds)


@pytest.mark.parametrize("app", SUBJECTS)
def test_joins_of_one_subject_do_the_same_with_their_program(app: str) -> None:
    with patch.object(group_text, "MOST_WAITING", 2):
        assert same(app, *range(3)) > 300


_UNSELECTED = Buffers.unselected


def unselected_as_first(self: Buffers, number: int, type: Type) -> tuple[str, str]:
    """Return the right values, and the nulls of the first attribute: by other values the loop could leave arrays."""
    return _UNSELECTED(self, number, type)[0], self.attribute(0, type)[1]


def mutants() -> dict[str, Any]:
    """Return changes of what is written for the sides of joins, and for what is found there."""

    def nobody_missing(self: JoinWriter, node: Any) -> str:
        return "False"

    return {
        "who is missing": patch.object(JoinWriter, "_missing", nobody_missing),
        "what is not selected": patch.object(Buffers, "unselected", unselected_as_first),
        "totals begin anew": patch.object(PairGroups, "resets", lambda self: []),
        "what a batch drives out": patch.object(Batched, "replaces_released", False),
        "what keys are taken off": patch.object(Batched, "takes_off", False),
        "the order of buckets": patch.object(BucketRows, "found", SideRows.found),
        "the order of a map": patch.object(orders, "concurrent_order", list),
        "the first batch of keys": patch.object(UniqueBatchWriter, "_asks_for_first", False),
        "what waits": patch.object(BatchSideWriter, "_goes", lambda self: []),
        "a session is not found": patch.object(Sessions, "found", Found.LIST),
        "an event that is dropped": patch.object(JoinWriter, "_comes", looking_first),
        "whose timer": patch.object(unique, "load_dues", load_dues_of_one),
        "all batches": patch.object(SideText, "is_found", False),
        "what was looked at": patch.object(SideRows, "looks", lambda self: []),
        "what is pushed out": patch.object(SortedWriter, "pushes_out", lambda self, leaving: []),
        "who is in order": patch.object(SortedStates, "load_more", load_as_ordered),
        "no earlier value": patch.object(Joined, "falls_back", False),
    }


def looking_first(self: JoinWriter, side: Any, results: Any) -> list[str]:
    """Note that all of a batch was looked at, also by an event that is dropped."""
    return [*self._looks(side), *comes(self, side, results)]


comes = JoinWriter._comes


def load_dues_of_one(running: Any, query: Any, numbers: Any, dues: Any, _operator: int) -> None:
    """Take over the wake-ups of a window as those of a left side."""
    load_dues(running, query, numbers, dues)


def load_as_ordered(self: SortedStates, running: Any, query: Any, numbers: Any, states: Any, found: Any) -> None:
    """Take lists that are not full for ones in order."""
    load_order(self, running, query, numbers, states, found)
    running.arrays[f"{query.name}_ordered"][:] = 1


load_order = SortedStates.load_more


@pytest.mark.parametrize("name", list(mutants()))
def test_the_law_finds_a_mutant(name: str) -> None:
    failures = (AssertionError, TypeError, KeyError, IndexError)
    with mutants()[name], patch.object(group_text, "MOST_WAITING", 2), pytest.raises(failures):
        apps = [JOINS_OF_BATCHES, JOINS_OF_HELD, JOINS_OF_NAMES, JOINS_RENEWED, JOINS_OF_KEYS, JOINS_OF_FREQUENT]
        for seed, app in product(range(4), (*apps, JOINS_OF_RELEASED_KEYS, JOINS_OF_LATE)):
            same(app, seed)


@pytest.mark.parametrize("app", [PAIRS_OF_MANY, PAIRS_IN_TABLES])
def test_room_is_made_for_more_pairs_than_there_was_room_for(app: str) -> None:
    assert alike(checked_app(app), Random(1), interpreted, steps=12) > 50


def test_a_call_that_needs_more_room_than_there_is_fails_when_the_loop_has_ended() -> None:
    with patch.object(reserve, "_EACH", 1 << 16):
        app = Watched(checked_app(PAIRS_OF_MANY), interpreted)
        app.app.start(START_MS)
        app.begin()
        events = [(START_MS, (None, None, float(n), 0.5, n, n, None)) for n in range(150)]
        with pytest.raises(MemoryError, match="more than"):
            app.run(events)


def test_it_is_told_which_joins_are_compiled() -> None:
    app = """define stream A (sym string, price double); define stream B (sym string, price double);
    @info(name='found') from A#window.length(3) as a join B#window.time(1 sec) as b on a.sym == b.sym
    select a.sym as sym insert into Out;"""
    assert explain(app).compiled == "yes"
    counted = app.replace("select a.sym", "select count() as n, a.sym")
    windows = ("lengthBatch(3)", "lengthBatch(3, true)", "batch()", "sort(2, price)")
    sides = ("", *(f"#window.{window}" for window in windows))
    assert {explain(counted.replace("#window.length(3)", side)).compiled for side in sides} == {"yes"}
    late = app.replace("length(3)", "session(3 sec, sym, 1 sec)")
    assert explain(late).compiled == "yes"
    fired = app.replace("length(3)", "cron('* * * * * ?')")
    assert explain(fired).compiled == "no: a join with the window cron (line 2)"
    keyed = app.replace("length(3)", "unique:ever(sym, price)")
    assert explain(keyed).compiled == "no: unique keys that are no attributes of a source (line 2)"
