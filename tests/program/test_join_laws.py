"""Joins in a program: the results are those of the operators, in the same order, and so is the state."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import pytest

from spdist.facade import explain
from spdist.program import reserve
from spdist.program.compiler import interpreted
from tests.program.chosen_apps import JOINS, PAIRS_OF_MANY
from tests.program.drawn_apps import START_MS
from tests.program.drawn_joins import drawn_join_app
from tests.program.test_program_laws import Watched, alike, checked_app

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in scalar")


@pytest.mark.parametrize("group", range(6))
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
            out += alike(checked, random, interpreted, steps=12)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{text}") from error
    assert out > 200


def test_joins_of_all_kinds_do_the_same_with_their_program() -> None:
    assert sum(alike(checked_app(JOINS), Random(seed), interpreted, steps=30) for seed in range(3)) > 300


def test_room_is_made_for_more_pairs_than_there_was_room_for() -> None:
    assert alike(checked_app(PAIRS_OF_MANY), Random(1), interpreted, steps=12) > 60


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
    told = explain(app.replace("select a.sym", "select count() as n, a.sym").replace("#window.length(3)", "")).compiled
    assert told == "no: totals of a join of which a side has no window (line 2)"
