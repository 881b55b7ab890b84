"""Timers: in the order of due times, then of the app; a queue for each operator; failures cost one wake-up."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.operators import timers as timers_module
from spdist.operators.base import ALWAYS, NOT_NOW, Periodic, Timer, Timers, VirtualClock

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


def periodic(timers: Timers, woken: list[tuple[int, int]], number: int, period: int, calm: list[int]) -> Timer:
    """A timer that is woken each `period`; what `calm` says first is until when that does nothing."""

    def wake(due: int) -> None:
        woken.append((number, due))
        made.notify_at(due + period)

    made = Timer(timers, (number, 0, 0), wake)
    made.rests = Periodic(made, period, lambda: calm[0], lambda _by: None)
    made.notify_at(timers.clock.now + period)
    return made


def test_what_does_nothing_is_skipped_until_something_does_something(timers: Timers) -> None:
    woken: list[tuple[int, int]] = []
    calm = periodic(timers, woken, 0, 1, [ALWAYS])
    until = [1_000_000]
    awaited = periodic(timers, woken, 1, 10, until)
    for due in (500_003, 10_000_000_000):
        Timer(timers, (2, 0, 0), lambda due: woken.append((2, due))).notify_at(due)
    timers.fire_until(1_001_000)
    first, *others = [one for one in woken if one[0]]
    assert first == (2, 500_003)
    assert others == [(1, due) for due in range(1_000_000, 1_001_001, 10)]
    assert (calm.due[0], awaited.due[0]) == (1_001_001, 1_001_010)


def test_the_phase_of_a_period_is_kept(timers: Timers) -> None:
    calm = periodic(timers, [], 0, 7, [ALWAYS])
    timers.fire_until(10**15)
    assert 10**15 < calm.due[0] <= 10**15 + 7
    assert (calm.due[0] - 100) % 7 == 0


def test_one_step_of_the_clock_wakes_periodic_timers_only_so_often(
    timers: Timers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers_module, "MOST_FIRINGS", 5)
    woken: list[tuple[int, int]] = []
    loud = [periodic(timers, woken, number, 10, [NOT_NOW]) for number in (0, 1)]
    Timer(timers, (2, 0, 0), lambda due: woken.append((2, due))).notify_at(900)
    timers.fire_until(1000)
    assert woken == [(0, 110), (1, 110), (0, 120), (1, 120), (0, 130), (2, 900)]
    assert [one.due[0] for one in loud] == [1010, 1010]
    assert caplog.text.count("is left out") == 1
    timers.fire_until(1020)
    assert woken[6:] == [(0, 1010), (1, 1010), (0, 1020), (1, 1020)]


def test_one_that_is_due_since_long_ago_catches_up_in_few_steps(timers: Timers) -> None:
    woken: list[tuple[int, int]] = []
    late = periodic(timers, woken, 0, 1, [ALWAYS])
    timers.clock.now = 10**12
    timers.fire_until(10**12)
    assert len(woken) <= 2
    assert late.due[0] == 10**12 + 1


def test_one_that_is_woken_without_end_is_stopped_and_named(timers: Timers, caplog: pytest.LogCaptureFixture) -> None:
    class Endless:
        def wake(self, due: int) -> None:
            one.notify_at(due)

    one = Timer(timers, (3, 1, 0), Endless().wake)
    one.notify_at(150)
    timers.fire_until(200)
    assert timers.next_due is None
    assert "Endless" in caplog.text or "test_one_that_is_woken" in caplog.text
