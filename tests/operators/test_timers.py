"""Timers: in the order of due times, then of the app; a queue for each operator; failures cost one wake-up."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.operators.base import Timer, Timers, VirtualClock

Woken = list[tuple[str, int, int]]


def timer(timers: Timers, woken: Woken, name: str, rank: tuple[int, int, int] = (0, 0, 0)) -> Timer:
    return Timer(timers, rank, lambda due: woken.append((name, due, timers.clock.now)))


@pytest.fixture
def timers() -> Timers:
    return Timers(VirtualClock(100))


def test_wake_ups_come_in_the_order_of_due_times_with_the_clock_there(timers: Timers) -> None:
    woken: Woken = []
    for name, due in (("late", 300), ("early", 150), ("middle", 200)):
        timer(timers, woken, name, (ord(name[0]), 0, 0)).notify_at(due)
    assert timers.next_due == 150
    timers.fire_until(250)
    assert woken == [("early", 150, 150), ("middle", 200, 200)]
    assert (timers.clock.now, timers.next_due) == (200, 300)


def test_of_those_due_together_rank_decides(timers: Timers) -> None:
    woken: Woken = []
    ranks = [(1, 0, 0), (0, 1, 1), (0, 1, 0), (0, 0, 5)]
    for rank in ranks:
        timer(timers, woken, str(rank), rank).notify_at(150)
    timers.fire_until(150)
    assert [name for name, *_ in woken] == [str(rank) for rank in sorted(ranks)]


def test_one_operator_is_woken_in_the_order_in_which_it_asked(timers: Timers) -> None:
    woken: Woken = []
    one = timer(timers, woken, "one")
    one.notify_at(300)
    one.notify_at(200)
    timers.fire_until(250)
    assert woken == []
    timers.fire_until(300)
    assert woken == [("one", 300, 300), ("one", 200, 300)]


def test_a_wake_up_asked_for_in_the_past_comes_with_the_next_step(timers: Timers) -> None:
    woken: Woken = []
    timer(timers, woken, "past").notify_at(50)
    timers.fire_until(120)
    assert woken == [("past", 50, 100)]


def test_wake_ups_asked_for_meanwhile_count(timers: Timers) -> None:
    woken: list[int] = []

    def wake(due: int) -> None:
        woken.append(due)
        if due < 400:
            again.notify_at(due + 100)

    again = Timer(timers, (0, 0, 0), wake)
    again.notify_at(150)
    timers.fire_until(360)
    assert woken == [150, 250, 350]
    assert timers.next_due == 450


def test_what_is_cancelled_does_not_come(timers: Timers) -> None:
    woken: Woken = []
    one, two = timer(timers, woken, "one"), timer(timers, woken, "two", (1, 0, 0))
    one.notify_at(150)
    two.notify_at(160)
    one.cancel()
    assert timers.next_due == 160
    timers.fire_until(200)
    assert woken == [("two", 160, 160)]


def test_an_operator_that_fails_loses_that_wake_up_only(timers: Timers, caplog: pytest.LogCaptureFixture) -> None:
    woken: list[int] = []

    def wake(due: int) -> None:
        woken.append(due)
        if due == 150:
            raise ValueError("cannot")

    failing = Timer(timers, (0, 0, 0), wake)
    failing.notify_at(150)
    failing.notify_at(250)
    with caplog.at_level(logging.ERROR):
        timers.fire_until(300)
    assert woken == [150, 250]
    assert "an operator failed" in caplog.text


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(100, 200)), max_size=30), st.integers(100, 200))
def test_a_restored_timer_goes_on(asked: list[tuple[int, int]], stop: int) -> None:
    def woken(restart: bool) -> Woken:
        seen: Woken = []
        timers = Timers(VirtualClock(100))
        made = [timer(timers, seen, str(rank), (rank, 0, 0)) for rank in range(4)]
        for rank, due in asked:
            made[rank].notify_at(due)
        timers.fire_until(stop)
        if restart:
            stored = [one.snapshot() for one in made]
            timers = Timers(VirtualClock(timers.clock.now))
            for rank, due_times in enumerate(stored):
                timer(timers, seen, str(rank), (rank, 0, 0)).restore(due_times)
        timers.fire_until(300)
        return seen

    assert woken(restart=True) == woken(restart=False)
