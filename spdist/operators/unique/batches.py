"""Windows that collect one event for each key and release them together, such as ``unique:lengthBatch``.

The families ``first…`` keep the first event of a key, the others the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from spdist.extension import window
from spdist.java.objects import HashMap
from spdist.operators.base import (
    ALWAYS,
    CURRENT,
    EXPIRED,
    NOT_NOW,
    RESET,
    Arrival,
    Event,
    Periodic,
    Row,
    Window,
    WindowSetting,
)
from spdist.operators.core.parameters import INTEGER, PERIOD, TIME, Parameter, overloads
from spdist.operators.unique.keys import KEY, boxed_key, key_of, object_of

__all__ = [
    "UniqueFirstLengthBatchWindow",
    "UniqueFirstTimeBatchWindow",
    "UniqueLengthBatchWindow",
    "UniqueTimeBatchWindow",
    "UniqueTimeLengthBatchWindow",
]

_LENGTH = Parameter("window.length", INTEGER)
_START = Parameter("start.time", TIME)


class _UniqueBatch(Window):
    """What all these windows share.

    State
    -----
    ``batch``: the open batch by key; ``before``: the batch released last; ``reset``: the event that the next RESET
    copies.

    Notes
    -----
    What is released carries the time of the release, and the first batch comes without a RESET; keys are released in
    the order of their hashes in Java. Siddhi collects for all keys of a partition together; here each has a batch of
    its own.
    """

    prepare = staticmethod(boxed_key)
    first: ClassVar[bool] = False

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.key = key_of(setting) if self.first else object_of(setting)
        self.batch = HashMap()
        self.before: list[Row] = []
        self.released = 0
        self.reset: Arrival | None = None

    def process(self, timestamp: int, row: Row) -> None:
        """Process one event."""
        self.process_chunk(((timestamp, row),))

    def _add(self, arrival: Arrival) -> None:
        key = self.key(*arrival)
        if not self.first or not self.batch.has(key):
            self.batch.put(key, arrival[1])

    def _closing(self) -> list[Event]:
        now = self.clock.now
        chunk: list[Event] = [(EXPIRED, now, row) for row in self.before]
        self.before = [row for _, row in self.batch.items()]
        self.batch.clear()  # its table stays as large as it has become, and so does the order
        self.released = now
        if self.before:
            if self.reset is not None:
                chunk.append((RESET, *self.reset))
            self.reset = (now, self.before[0])
            chunk += [(CURRENT, now, row) for row in self.before]
        return chunk

    def contents(self) -> Iterable[Arrival]:
        """Yield the batch released last."""
        return ((self.released, row) for row in self.before)

    def snapshot(self) -> Any:
        """Return the batches."""
        return [self.batch, self.before, self.released, self.reset]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.batch, self.before, self.released, self.reset = state


@window("unique:lengthBatch", overloads("unique:lengthBatch", (KEY, _LENGTH)))
class UniqueLengthBatchWindow(_UniqueBatch):
    """Collect the last event of each key; release them when ``window.length`` keys have come.

    Notes
    -----
    Source: io.siddhi.extension.execution.unique.UniqueLengthBatchWindowProcessor.
    """

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.length: int = setting.constants[1]

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Take events one by one; what is released is one chunk for each batch."""
        chunks = []
        for arrival in arrivals:
            self._add(arrival)
            if len(self.batch) == self.length:
                chunks.append(self._closing())
        for chunk in chunks:
            self.emit(chunk)

    def contents(self) -> Iterable[Arrival]:
        """Yield the open batch."""
        return ((self.clock.now, row) for _, row in self.batch.items())


@window("unique:firstLengthBatch", overloads("unique:firstLengthBatch", (KEY, _LENGTH)))
class UniqueFirstLengthBatchWindow(UniqueLengthBatchWindow):
    """Collect the first event of each key; release them when ``window.length`` keys have come.

    Notes
    -----
    Source: io.siddhi.extension.execution.unique.UniqueFirstLengthBatchWindowProcessor.
    """

    first = True


@window("unique:timeBatch", overloads("unique:timeBatch", (KEY, PERIOD), (KEY, PERIOD, _START)))
class UniqueTimeBatchWindow(_UniqueBatch):
    """Collect the last event of each key in a period of ``window.time`` ms; release them when it ends.

    The first event opens the first period; with ``start.time`` the ends of the periods are those of periods counted
    from there. Periods then follow one another whether or not events come.

    State
    -----
    ``end``: of the open period, in ms.

    Notes
    -----
    Source: io.siddhi.extension.execution.unique.UniqueTimeBatchWindowProcessor.
    """

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.span: int = setting.constants[1]
        self.start: int | None = setting.constants[2] if len(setting.constants) > 2 else None
        self.end: int | None = None
        self.timer = setting.timer(lambda _due: self.process_chunk(()))
        self.timer.rests = Periodic(self.timer, self.span, self._calm_until, self._passed)

    def _calm_until(self) -> int:
        return NOT_NOW if self.batch or self.before else ALWAYS

    def _passed(self, by_ms: int) -> None:
        assert self.end is not None
        self.end += by_ms
        if by_ms:
            # As if woken at the last of the ends that were passed: looks show that time.
            self.released = self.end - self.span

    def _period_ends(self) -> bool:
        now = self.clock.now
        if self.end is None:
            self.end = now + self.span
            if self.start is not None:
                elapsed = now - self.start
                # Java's remainder: before the start time it is negative and puts the end one period further.
                self.end -= elapsed % self.span if elapsed >= 0 else -(-elapsed % self.span)
            self.timer.notify_at(self.end)
        if now < self.end:
            return False
        self.end += self.span
        self.timer.notify_at(self.end)
        return True

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Take events; where the period has ended, release it as one chunk."""
        ends = self._period_ends()
        for arrival in arrivals:
            self._add(arrival)
        chunk = self._closing() if ends else []
        if chunk:
            self.emit(chunk)

    def snapshot(self) -> Any:
        """Return the batches, the end of the period and the wake-ups asked for."""
        return [super().snapshot(), self.end, self.timer.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        batches, self.end, due = state
        super().restore(batches)
        self.timer.restore(due)


@window("unique:firstTimeBatch", overloads("unique:firstTimeBatch", (KEY, PERIOD), (KEY, PERIOD, _START)))
class UniqueFirstTimeBatchWindow(UniqueTimeBatchWindow):
    """Collect the first event of each key in a period of ``window.time`` ms; release them when it ends.

    Notes
    -----
    Source: io.siddhi.extension.execution.unique.UniqueFirstTimeBatchWindowProcessor.
    """

    first = True


@window(
    "unique:timeLengthBatch",
    overloads("unique:timeLengthBatch", (KEY, PERIOD, _LENGTH), (KEY, PERIOD, _START, _LENGTH)),
)
class UniqueTimeLengthBatchWindow(UniqueTimeBatchWindow):
    """Collect the last event of each key in a period; release them when it ends or ``window.length`` keys have come.

    What comes in a period after its release by length is dropped.

    State
    -----
    ``full``: whether the open period was released already.

    Notes
    -----
    Source: io.siddhi.extension.execution.unique.UniqueTimeLengthBatchWindowProcessor.
    """

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.length: int = setting.constants[-1]
        self.start = setting.constants[2] if len(setting.constants) > 3 else None
        self.full = False

    def _calm_until(self) -> int:
        return NOT_NOW if self.full else super()._calm_until()

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Take events; where the period has ended or is full, release it as one chunk."""
        ends = self._period_ends()
        if self.full:
            # The events that come with the end of a full period are dropped too.
            self.full = not ends
            return
        for arrival in arrivals:
            self._add(arrival)
            if len(self.batch) == self.length:
                self.full = True
                break
        chunk = self._closing() if ends or self.full else []
        if chunk:
            self.emit(chunk)

    def snapshot(self) -> Any:
        """Return the batches, the period and whether it is full."""
        return [super().snapshot(), self.full]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        period, self.full = state
        super().restore(period)
