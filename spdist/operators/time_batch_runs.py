"""Batches of a time from many events at once: the open one is columns, and whole ones are added up by numpy.

A run of events takes many periods from their beginning to their end. The timer that ends a period while no events come,
and whoever brings events one by one, find the open batch as the window would have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy

from spdist.mapping.read_rows import ReadRows
from spdist.operators.at_once import AtOnce
from spdist.operators.base import Timer, VirtualClock
from spdist.operators.batch_runs import FEWEST, BatchRuns
from spdist.operators.junction import StreamPart
from spdist.operators.selector import SelectorState, Sink
from spdist.operators.window_time import TimeBatchWindow

__all__ = ["TimeBatchRuns"]


class TimeBatchRuns(AtOnce):
    """Takes runs of events of a query with a ``timeBatch`` window.

    Parameters
    ----------
    batches : BatchRuns
        How batches are added up.
    stream : str
        What the query reads.
    window : TimeBatchWindow
        The window; its timer gives back what is open before it rings.
    totals : SelectorState
        The selector's totals, which begin anew with each batch.
    sink : Sink
        Where results go.
    clock : VirtualClock
        The app's.

    State
    -----
    The events of the open batch that came at once, behind those that the window has.
    """

    def __init__(
        self,
        batches: BatchRuns,
        stream: str,
        window: TimeBatchWindow,
        totals: SelectorState,
        sink: Sink,
        clock: VirtualClock,
    ) -> None:
        self._batches = batches
        self._stream = stream
        self._window = window
        self._totals = totals
        self._sink = sink
        self._clock = clock
        self._open: list[tuple[Any, ReadRows]] = []
        window.timer.wake = self.settled(window.timer.wake)

    @property
    def timer(self) -> Timer:
        """The timer of the window."""
        return self._window.timer

    def take(self, parts: Mapping[str, StreamPart]) -> bool:
        """Take events at once; see `spdist.operators.junction.TakesParts`."""
        part, target, end = parts[self._stream], self._sink.straight(), self._window.shared.get("end")
        pick = None if target is None else target.picker(by_timer=True)
        if pick is None or end is None or len(part.times) < FEWEST or self._clock.now >= end:
            return False
        own = self._batches.columns(part.rows)
        held = self._held()
        if own is None or held is None:
            return False
        stamps = part.times if part.stamps is None else part.stamps
        some = [*held, (stamps, own)]
        span = self._window.span
        periods = numpy.maximum(part.times - end, -span) // span + 1
        before = sum(len(times) for times, _ in held)
        begins = numpy.flatnonzero(periods[1:] != periods[:-1]) + 1
        if periods[0] and before:
            begins = numpy.append(0, begins)
        if not len(begins):
            # Nothing was open, or nothing ends.
            self._go_on(some, end + int(periods[-1]) * span)
            return True
        rows = ReadRows.following([rows for _, rows in some])
        found = self._batches.found(rows, numpy.append(0, before + begins))
        if found is None:
            return False
        last = int(begins[-1])
        self._go_on([(stamps[last:], own.cut(last, len(own)))], end + int(periods[-1]) * span)
        self._totals.groups.clear()
        bounds = numpy.append(0, found.ends)
        pick(found.rows, bounds, bounds[:0])
        return True

    def _held(self) -> list[tuple[Any, ReadRows]] | None:
        """Return the events of the open batch; None where those of the window are no columns."""
        batch = self._window.batch
        if not batch:
            return self._open
        times, rows = zip(*batch, strict=True)
        own = self._batches.columns(rows)
        return None if own is None else [(numpy.array(times, numpy.int64), own), *self._open]

    def _go_on(self, some: list[tuple[Any, ReadRows]], end: int) -> None:
        """Have these events open, in a period that ends then."""
        window = self._window
        self._open, self.ahead, window.batch, window.reset = some, True, [], None
        if end != window.shared["end"]:
            window.shared["end"] = end
            window.timer.cancel()
            window.timer.notify_at(end)

    def settle(self) -> None:
        """Give the window what is open."""
        if self._open:
            window = self._window
            came = chain.from_iterable(zip(times.tolist(), rows, strict=True) for times, rows in self._open)
            window.batch = [*window.batch, *came]
            window.reset = window.reset or window.batch[0]
            self._open, self.ahead = [], False

    @property
    def held_rows(self) -> int:
        """How many events are open."""
        return len(self._window.batch) + sum(len(times) for times, _ in self._open)

    def snapshot(self) -> None:
        """Give the window what is open: it has the state."""
        self.settle()

    def restore(self, _stored: dict[str, Any] | None) -> None:
        """Forget what is open."""
        self._open, self.ahead = [], False
