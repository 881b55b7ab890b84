"""Windows that release batches, many events at once: the open batch is columns, and whole ones are added up by numpy.

A run of events takes many batches from their beginning to their end. The timer that ends a batch while no events come,
and whoever brings events one by one, find the open batch as the window would have it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy

from spdist.mapping.read_rows import ReadRows
from spdist.operators.at_once import Settling
from spdist.operators.base import NOT_NOW, Periodic, Timer, VirtualClock
from spdist.operators.batch_runs import BatchRuns
from spdist.operators.junction import Pick, StreamPart
from spdist.operators.selector import SelectorState, Sink
from spdist.operators.window_length import LengthBatchWindow
from spdist.operators.window_time import TimeBatchWindow

__all__ = ["OpenBatch", "open_batch"]

#: Fewer events go one by one: a call of numpy costs as much as several of them.
FEWEST = 100


class OpenBatch(Settling):
    """Takes runs of events of a query whose window releases batches.

    Parameters
    ----------
    batches : BatchRuns
        How batches are added up.
    stream : str
        What the query reads.
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

    _window: LengthBatchWindow | TimeBatchWindow

    def __init__(self, batches: BatchRuns, stream: str, totals: SelectorState, sink: Sink, clock: VirtualClock) -> None:
        self._batches = batches
        self._stream = stream
        self._totals = totals
        self._sink = sink
        self._clock = clock
        self._open: list[tuple[Any, ReadRows]] = []

    @property
    @abstractmethod
    def timer(self) -> Timer | None:
        """The timer of the window."""

    @property
    @abstractmethod
    def _pick(self) -> Pick | None:
        """What takes batches; None where they must be put out one by one."""

    @abstractmethod
    def _begins(self, part: StreamPart, before: int) -> tuple[Any, Any]:
        """Return where the next batches begin, and which events of the run end the batches before those.

        Parameters
        ----------
        part : StreamPart
            The run.
        before : int
            How many events are open: they are counted, too.
        """

    @abstractmethod
    def _went_on(self, part: StreamPart) -> None:
        """Have the window go on where it is after the run."""

    def take(self, parts: Mapping[str, StreamPart]) -> bool:
        """Take events at once; see `spdist.operators.junction.TakesParts`."""
        part = parts[self._stream]
        pick = self._pick if len(part.times) >= FEWEST else None
        own = None if pick is None else self._batches.columns(part.rows)
        held = None if own is None else self._held()
        if pick is None or own is None or held is None:
            return False
        some = [*held, (part.times if part.stamps is None else part.stamps, own)]
        begins, causes = self._begins(part, sum(len(stamps) for stamps, _ in held))
        if not len(begins):
            self._keep(part, some)
            return True
        stamps = numpy.concatenate([stamps for stamps, _ in some])
        rows = ReadRows.following([rows for _, rows in some])
        found = self._batches.found(rows, numpy.append(0, begins))
        if found is None:
            return False
        last = int(begins[-1])
        self._keep(part, [(stamps[last:], rows.cut(last, len(rows)))] if last < len(rows) else [])
        self._totals.groups.clear()
        pick(found.rows, numpy.append(0, found.ends), causes, stamps[found.events])
        return True

    def _held(self) -> list[tuple[Any, ReadRows]] | None:
        """Return the events of the open batch; None where those of the window are no columns."""
        batch = self._window.batch
        if not batch:
            return self._open
        stamps, rows = zip(*batch, strict=True)
        own = self._batches.columns(rows)
        return None if own is None else [(numpy.array(stamps, numpy.int64), own), *self._open]

    def _keep(self, part: StreamPart, some: list[tuple[Any, ReadRows]]) -> None:
        """Have these events open after the run."""
        self._open, self.ahead = some, True
        self._window.batch, self._window.reset = [], None
        self._went_on(part)

    def settle(self) -> None:
        """Give the window what is open."""
        if self._open:
            came = chain.from_iterable(zip(stamps.tolist(), rows, strict=True) for stamps, rows in self._open)
            self._window.take_back(list(came))
        self._open, self.ahead = [], False

    @property
    def held_rows(self) -> int:
        """How many events are open."""
        return len(self._window.batch) + sum(len(stamps) for stamps, _ in self._open)

    def forget(self) -> None:
        """Forget what is open: the window gets another state."""
        self._open, self.ahead = [], False


class _OfLength(OpenBatch):
    """Batches of so many events."""

    def __init__(self, window: LengthBatchWindow, *common: Any) -> None:
        super().__init__(*common)
        self._window: LengthBatchWindow = window

    @property
    def timer(self) -> None:
        """There is none."""
        return

    @property
    def _pick(self) -> Pick | None:
        target = self._sink.straight()
        return None if target is None else target.picker()

    def _begins(self, part: StreamPart, before: int) -> tuple[Any, Any]:
        length = self._window.length
        begins = length * numpy.arange(1, (before + len(part.times)) // length + 1)
        return begins, part.ranks[begins - 1 - before]

    def _went_on(self, part: StreamPart) -> None:
        pass


class _OfTime(OpenBatch):
    """Batches of a time; the timer gives back what is open before it rings."""

    def __init__(self, window: TimeBatchWindow, *common: Any) -> None:
        super().__init__(*common)
        self._window: TimeBatchWindow = window
        window.timer.wake = self.settled(window.timer.wake)
        window.timer.rests = Periodic(window.timer, window.span, self._calm_until, window.passed)

    def _calm_until(self) -> int:
        return NOT_NOW if self._open else self._window.calm_until()

    @property
    def timer(self) -> Timer:
        """The timer of the window."""
        return self._window.timer

    @property
    def _pick(self) -> Pick | None:
        target, end = self._sink.straight(), self._window.shared.get("end")
        if target is None or end is None or self._clock.now >= end:
            return None
        return target.picker(by_timer=True)

    def _periods(self, part: StreamPart) -> Any:
        """Return how many periods end before each event of a run."""
        span = self._window.span
        return numpy.maximum(part.times - self._window.shared["end"], -span) // span + 1

    def _begins(self, part: StreamPart, before: int) -> tuple[Any, Any]:
        periods = self._periods(part)
        begins = before + numpy.flatnonzero(periods[1:] != periods[:-1]) + 1
        if periods[0] and before:
            begins = numpy.append(before, begins)
        return begins, begins[:0]

    def _went_on(self, part: StreamPart) -> None:
        passed = int(self._periods(part)[-1])
        if passed:
            window = self._window
            window.shared["end"] += passed * window.span
            window.timer.cancel()
            window.timer.notify_at(window.shared["end"])


def open_batch(
    batches: BatchRuns,
    stream: str,
    window: LengthBatchWindow | TimeBatchWindow,
    totals: SelectorState,
    sink: Sink,
    clock: VirtualClock,
) -> OpenBatch | None:
    """Return what takes runs of events for a window; None where it shows each event as it comes, or keeps batches."""
    if window.passes_current or window.keeps:
        return None
    if isinstance(window, TimeBatchWindow):
        return _OfTime(window, batches, stream, totals, sink, clock)
    return _OfLength(window, batches, stream, totals, sink, clock) if window.length > 0 else None
