"""Wrong passwords: who guesses is slowed down, and nobody else."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.transports.sockets import guesses as module
from spdist.transports.sockets.guesses import Guesses, GuessingQueue, TooManyGuesses


def test_a_few_are_free_and_then_each_costs_twice_as_long_up_to_a_minute() -> None:
    known, now = Guesses(), 1000.0
    waits = []
    for _ in range(15):
        known.wrong("admin", "10.0.0.1", now)
        waits.append(known.wait_s("admin", "10.0.0.1", now))
        now += waits[-1]
        assert known.wait_s("admin", "10.0.0.1", now) == 0
    assert waits == [0] * 5 + [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    assert known.wait_s("admin", "10.0.0.2", now) == known.wait_s("dev", "10.0.0.1", now) == 0
    assert known.wait_s("admin", "10.0.0.1", now + 600) == 0
    known.right("admin", "10.0.0.1")
    assert len(known) == 0


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.floats(0, 100)), max_size=60))
def test_nobody_waits_for_the_guesses_of_others(tried: list[tuple[str, str, float]]) -> None:
    known, now = Guesses(), 0.0
    for name, address, passed in tried:
        now += passed
        known.wrong(name, address, now)
    own = Guesses()
    now = 0.0
    for name, address, passed in tried:
        now += passed
        if (name, address) == ("a", "x"):
            own.wrong(name, address, now)
    assert known.wait_s("a", "x", now) == own.wait_s("a", "x", now)
    assert known.wait_s("c", "x", now) == known.wait_s("a", "z", now) == 0


def test_what_is_known_has_a_bound() -> None:
    known = Guesses()
    for number in range(10_500):
        known.wrong("x" * 30_000 if number % 500 == 0 else f"n{number}", "a", float(number))
    assert len(known) <= 10_000


def test_guesses_of_one_address_take_turns_and_others_pass_them() -> None:
    """Forty guesses from one address are at work; somebody else's first login takes one of the two places at once."""
    running: list[str] = []
    most: list[int] = []
    lock, go = threading.Lock(), threading.Event()

    def verify(who: str, granted: str | None) -> str | None:
        with lock:
            running.append(who)
            most.append(running.count("guesser"))
        if who == "guesser":
            go.wait(10)
        with lock:
            running.remove(who)
        return granted

    async def work() -> tuple[str | None, list[object]]:
        queue = GuessingQueue()
        wrong = [
            asyncio.create_task(queue.verified("admin", "1.1.1.1", lambda: verify("guesser", None))) for _ in range(40)
        ]
        await asyncio.to_thread(int)  # all of them wait
        right = await asyncio.wait_for(queue.verified("admin", "2.2.2.2", lambda: verify("user", "granted")), 10)
        go.set()
        return right, await asyncio.gather(*wrong, return_exceptions=True)

    right, wrong = asyncio.run(work())
    assert right == "granted"
    assert max(most) == 1
    assert wrong[:6] == [None] * 6
    assert all(isinstance(one, TooManyGuesses) and one.retry_after_s >= 1 for one in wrong[6:])


def test_a_crowd_from_one_address_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_WAITING", 3)

    async def work() -> list[object]:
        queue = GuessingQueue()
        looks = [queue.verified(f"n{number}", "1.1.1.1", lambda: "granted") for number in range(5)]
        found = await asyncio.gather(*looks, return_exceptions=True)
        assert not queue._turns
        return list(found)

    found = asyncio.run(work())
    assert found[:3] == ["granted"] * 3
    assert all(isinstance(one, TooManyGuesses) for one in found[3:])
