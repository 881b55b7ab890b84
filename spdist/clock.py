"""What time it is, and as people write it: one protocol, the machine's clocks, and one that tests wind by hand.

Two readings, never to be mixed: `now_ms` may step (an operator or NTP sets it) and is for people and for event time;
`steady_ms` never steps and is what deadlines are measured on.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock", "iso_ms", "written_ms"]

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Where code that must not read the machine's clock itself gets the time from."""

    def now_ms(self) -> int:
        """Return the wall clock: ms since epoch. May step in both directions."""
        ...

    def steady_ms(self) -> int:
        """Return ms that never go back and never jump: for deadlines, leases and ages.

        It reads like ms since epoch (it starts at the wall clock's time), so it can be shown to people; it drifts
        from the wall clock by whatever that is corrected later.
        """
        ...


def _elapsed_ns() -> int:
    """Return a running count of ns that includes the time a machine was suspended, where the system has one.

    `time.monotonic` stands still while a Linux laptop sleeps: a leader waking up would believe in its old lease.
    """
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if boottime is None else time.clock_gettime_ns(boottime)


class SystemClock:
    """The clocks of this machine."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - _elapsed_ns()

    def now_ms(self) -> int:
        """Return the wall clock in ms since epoch."""
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        """Return the steady clock; see `Clock.steady_ms`."""
        return (self._offset_ns + _elapsed_ns()) // 1_000_000


class ManualClock:
    """A clock that stands still until it is told otherwise.

    Parameters
    ----------
    now_ms : int
        Where both readings start.
    """

    def __init__(self, now_ms: int = 0) -> None:
        self._wall = now_ms
        self._steady = now_ms

    def now_ms(self) -> int:
        """Return the wall clock in ms since epoch."""
        return self._wall

    def steady_ms(self) -> int:
        """Return the steady clock; see `Clock.steady_ms`."""
        return self._steady

    def advance(self, by_ms: int) -> None:
        """Let `by_ms` (>= 0) pass on both readings."""
        if by_ms < 0:
            raise ValueError(f"time does not go back: {by_ms} ms")
        self._wall += by_ms
        self._steady += by_ms

    def step(self, by_ms: int) -> None:
        """Set the wall clock forward or back by `by_ms`, as an operator would; the steady reading stays."""
        self._wall += by_ms


def iso_ms(text: str) -> int:
    """Return a time in ISO 8601, in UTC where it names no zone, as ms since epoch; what is finer is cut off.

    Raises
    ------
    ValueError
        It is none.
    """
    at = datetime.fromisoformat(text)
    # Whole numbers: as a float 1.001 s are 1000.99… ms.
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


def written_ms(text: str) -> int:
    """Return a time that a person writes as ms since epoch: such a number of at most 18 digits, or as `iso_ms` has it.

    Spaces around it do not matter. `spdist.frames.written_instant` takes these and more, and takes a second to load.

    Raises
    ------
    ValueError
        It is neither.
    """
    text = text.strip()
    return int(text) if _WHOLE.fullmatch(text) else iso_ms(text)
