"""Clocks: the steady reading never goes back, and a manual clock does what it is told."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.clock import ManualClock, SystemClock, written_ms


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


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999), st.integers(0, 999))
def test_a_written_time_is_its_ms_and_what_is_finer_is_cut_off(ms: int, finer: int) -> None:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms, microseconds=finer)
    assert (
        written_ms(str(ms))
        == written_ms(f" {ms}\n")
        == written_ms(at.isoformat())
        == written_ms(at.replace(tzinfo=None).isoformat())
        == ms
    )


@pytest.mark.parametrize("text", ["soon", "", "-", "--5", "1_000", "2004-13-01", "9" * 19, "9" * 5000, "\uff11\uff12"])
def test_what_is_no_written_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        written_ms(text)
