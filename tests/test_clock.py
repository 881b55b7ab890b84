"""Clocks: the steady reading never goes back, and a manual clock does what it is told."""

from __future__ import annotations

import time

import pytest

from spdist.clock import ManualClock, SystemClock


def test_the_system_clock_reads_like_the_time_of_day() -> None:
    clock = SystemClock()
    now = time.time() * 1000
    assert abs(clock.now_ms() - now) < 5_000
    assert abs(clock.steady_ms() - now) < 5_000


def test_the_steady_reading_ignores_a_stepped_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    before = clock.steady_ms()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert clock.now_ms() == 0
    assert before <= clock.steady_ms() < before + 5_000


def test_a_manual_clock_is_wound_by_hand() -> None:
    clock = ManualClock(100)
    clock.advance(5)
    clock.step(-50)
    assert (clock.now_ms(), clock.steady_ms()) == (55, 105)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)
