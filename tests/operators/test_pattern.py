"""Patterns where recorded cases do not reach: what is kept, the index, what cannot be run."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.engine.local.app import LocalApp, run
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse

STREAMS = "define stream A (id string, v int); define stream B (id string, v int);"


def app(pattern: str, select: str = "e1.v as a, e2.v as b") -> LocalApp:
    text = f"{STREAMS} from {pattern} select {select} insert into Out;"
    return LocalApp(check(parse(text), catalog(), text))


def state_size(made: LocalApp) -> int:
    return len(made.snapshot())


def test_within_bounds_what_is_kept() -> None:
    made = app("every e1=A -> e2=B within 50 millisec")
    sizes = []
    for number in range(300):
        made.send("A", 100_000 + 10 * number, ("x", 5))
        sizes.append(state_size(made))
    assert max(sizes[20:]) == min(sizes[20:])


def test_a_match_is_forgotten() -> None:
    made = app("every e1=A -> e2=B[id == e1.id]")
    empty = state_size(made)
    for number in range(50):
        made.send("A", 100_000, (f"{number:02}", 5))
    assert state_size(made) > empty + 500
    for number in range(50):
        made.send("B", 100_001, (f"{number:02}", 5))
    made.send("A", 100_002, ("00", 5))
    made.send("B", 100_003, ("00", 5))
    assert state_size(made) < empty + 50


def test_an_equality_is_looked_up_and_not_searched() -> None:
    compared: list[str] = []

    class Watched(str):
        """A key that tells when it is compared."""

        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            compared.append(str(other))
            return super().__eq__(other)

        def __ne__(self, other: object) -> bool:
            compared.append(str(other))
            return super().__ne__(other)

        __hash__ = str.__hash__

    made = app("every e1=A -> e2=B[id == e1.id and v > e1.v]")
    for number in range(500):
        made.send("A", 1000, (f"key {number}", 1))
    made.send("B", 1001, (Watched("key 7"), 5))
    made.send("B", 1002, (Watched("key 499"), 5))
    assert len(compared) < 10


@pytest.mark.parametrize("value", [None, "x"])
def test_null_equals_nothing_also_by_index(value: str | None) -> None:
    events = {"A": [(1000, (value, 1))], "B": [(1001, (value, 2))]}
    text = f"{STREAMS} from every e1=A -> e2=B[id == e1.id] select e2.v as v insert into Out;"
    assert run(text, events).get("Out", []) == ([] if value is None else [(1001, (2,))])


def test_matches_of_several_partials_come_in_the_order_of_their_beginnings() -> None:
    events = {"A": [(1000, ("x", 1)), (1001, ("y", 2)), (1002, ("x", 3))], "B": [(1010, ("x", 9))]}
    text = f"{STREAMS} from every e1=A -> e2=B[id == e1.id] select e1.v as a, e2.v as b insert into Out;"
    assert run(text, events)["Out"] == [(1010, (1, 9)), (1010, (3, 9))]


def test_a_condition_that_fails_costs_the_event_and_not_the_attempt() -> None:
    text = """define stream A (v int); define stream B (o object);
        from every e1=A -> e2=B[cast(o, 'int') > e1.v] select e1.v as a insert into Out;"""
    made = LocalApp(check(parse(text), catalog(), text))
    seen: list[Any] = []
    made.subscribe("Out", lambda ts, row: seen.append((ts, row)))
    made.send("A", 1000, (1,))
    made.send("B", 1001, ("text",))
    made.send("B", 1002, (5,))
    assert seen == [(1002, (1,))]
    assert made.failures.count == 1


def test_counted_events_are_reached_by_number_and_from_the_end() -> None:
    events = {"A": [(1000 + i, ("x", i)) for i in range(4)], "B": [(1010, ("x", 9))]}
    select = "e1[0].v as first, e1[3].v as fourth, e1[4].v as none, e1[last].v as la, e1[last - 1].v as before"
    text = f"{STREAMS} from e1=A<2:5> -> e2=B select {select} insert into Out;"
    assert run(text, events)["Out"] == [(1010, (0, 3, None, 3, 2))]


def test_waiting_begins_with_the_start_of_the_app() -> None:
    made = app("not A for 100 millisec -> e2=B", "e2.v as b")
    seen: list[Any] = []
    made.subscribe("Out", lambda ts, row: seen.append((ts, row)))
    made.start(5000)
    assert made.next_timer == 5100
    made.send("B", 5099, ("x", 1))
    made.send("B", 5101, ("x", 2))
    assert seen == [(5101, (2,))]


def test_two_absences_due_together_come_in_the_order_of_the_text() -> None:
    pattern = "every (not A for 100 millisec and not B for 100 millisec)"
    text = f"{STREAMS} from {pattern} select currentTimeMillis() as t insert into Out;"
    checked = check(parse(text), catalog(), text)
    outcomes = []
    for _ in range(5):
        made = LocalApp(checked)
        seen: list[Any] = []
        made.subscribe("Out", lambda ts, row, seen=seen: seen.append((ts, row)))  # type: ignore[misc]
        made.start(1000)
        made.advance(1500)
        outcomes.append(seen)
    assert outcomes[0]
    assert all(seen == outcomes[0] for seen in outcomes)
