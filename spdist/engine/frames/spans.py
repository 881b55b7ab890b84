"""When events are, as far as an app's clock needs to know: values only.

All shards of an app have one clock. A shard sees the events of its keys alone, so it is told when those of the others
are: from when to when, and where in between there is a gap that no event may cross (`spdist.engine.local.clock_jumps`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy

__all__ = ["Intervals", "Spans", "covered", "reach"]

#: First and last time, ms, of events between which no gap is too long; in order, and apart.
Intervals = list[tuple[int, int]]


class Spans:
    """Collects the times of events, in any order.

    Parameters
    ----------
    most_ms : int
        How far ahead of the clock an event may lie, ms.

    State
    -----
    The intervals: one, and one more for each gap that is longer.
    """

    def __init__(self, most_ms: int) -> None:
        self._most = most_ms
        self.intervals: Intervals = []

    def add(self, times: Any) -> None:
        """Add times in ms, a `numpy.ndarray` of at least one."""
        first, last = int(times.min()), int(times.max())
        # Without room for a gap there is nothing to sort
        made = [(first, last)] if last - first <= self._most else self._apart(numpy.sort(times))
        joined: Intervals = []
        for begin, end in sorted([*self.intervals, *made]):
            if joined and begin - joined[-1][1] <= self._most:
                joined[-1] = joined[-1][0], max(joined[-1][1], end)
            else:
                joined.append((begin, end))
        self.intervals = joined

    def _apart(self, times: Any) -> Intervals:
        begins = [0, *(numpy.flatnonzero(numpy.diff(times) > self._most) + 1).tolist()]
        ends = [*(begin - 1 for begin in begins[1:]), len(times) - 1]
        return [(int(times[begin]), int(times[end])) for begin, end in zip(begins, ends, strict=True)]


def covered(begins: Iterable[int], ends: Iterable[int]) -> Intervals:
    """Return what intervals cover together, given when they begin and when they end."""
    made: Intervals = []
    began, depth = 0, 0
    # False sorts first: where one ends and another begins at the same time they are one
    for at, closes in sorted([*((at, False) for at in begins), *((at, True) for at in ends)]):
        if not depth:
            began = at
        depth += -1 if closes else 1
        if not depth:
            made.append((began, at))
    return made


def reach(intervals: Intervals, clock: int | None, most_ms: int) -> int | None:
    """Return the time of the last event that is not refused, ms; None where all are.

    What lies behind a gap that is too long does not move the clock. Where all events are late, this is older than the
    clock: the timers that are due until then fire, and no others, as where one shard has all events.

    Parameters
    ----------
    intervals : Intervals
        When they are.
    clock : int, optional
        Where it is, ms; None before the first event, which may lie anywhere.
    most_ms : int
        How far ahead of the clock an event may lie, ms.
    """
    last = None
    for begin, end in sorted(intervals):
        if clock is None:
            clock = begin
        if begin - clock > most_ms:
            break
        last, clock = end, max(clock, end)
    return last
