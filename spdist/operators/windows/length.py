"""Windows that count events: ``length``, ``lengthBatch``, ``batch``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import window
from spdist.language import ast
from spdist.language.types import Type
from spdist.operators.base import (
    CURRENT,
    EXPIRED,
    RESET,
    Arrival,
    Event,
    Row,
    Window,
    WindowLoop,
    WindowSetting,
    expiring,
)
from spdist.operators.core.parameters import INTEGER, Parameter, constant_values, overloads

__all__ = ["BatchWindow", "LengthBatchWindow", "LengthWindow"]

_LENGTH = Parameter("window.length", INTEGER)
_STREAM_CURRENT = Parameter("stream.current.event", frozenset({Type.BOOL}))


@window("length", overloads("length", (_LENGTH,)))
class LengthWindow(Window):
    """Keep the last ``window.length`` events; an arrival beyond that expires the oldest one first.

    A length of 0 lets each event pass, expires it immediately and resets the totals.

    State
    -----
    ``held``: timestamps and rows, at most ``window.length``.

    Notes
    -----
    Source: io.siddhi.core.query.processor.stream.window.LengthWindowProcessor.
    """

    queues = True

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.length: int = setting.constants[0]
        self.held: deque[Arrival] = deque()

    @staticmethod
    def loop(constants: tuple[Any, ...]) -> WindowLoop | None:
        """Return how the window is written into a loop."""
        if constants[0] < 1:
            return None
        return WindowLoop(
            ("held = window.held", "length = window.length"),
            ("gone = (held.popleft(),) if len(held) >= length else ()", "held.append((at, new))"),
        )

    def process(self, timestamp: int, row: Row) -> None:
        """Release EXPIRED(oldest) where the window is full, then CURRENT(new), as one chunk."""
        held = self.held
        if len(held) < self.length:
            held.append((timestamp, row))
            self.emit([(CURRENT, timestamp, row)])
        elif held:
            oldest = held.popleft()[1]
            held.append((timestamp, row))
            self.emit([(EXPIRED, self.clock.now, oldest), (CURRENT, timestamp, row)])
        else:
            self.emit(self._pass(timestamp, row))

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Treat the events one by one; all that is released is one chunk."""
        held, now = self.held, self.clock.now
        chunk: list[Event] = []
        for timestamp, row in arrivals:
            if len(held) < self.length:
                chunk.append((CURRENT, timestamp, row))
            elif held:
                chunk += ((EXPIRED, now, held.popleft()[1]), (CURRENT, timestamp, row))
            else:
                chunk += self._pass(timestamp, row)
                continue
            held.append((timestamp, row))
        self.emit(chunk)

    @staticmethod
    def _pass(timestamp: int, row: Row) -> list[Event]:
        return [(CURRENT, timestamp, row), (EXPIRED, timestamp, row), (RESET, timestamp, row)]

    def contents(self) -> Iterable[Arrival]:
        """Yield the events held, oldest first."""
        return iter(self.held)

    def snapshot(self) -> Any:
        """Return the events held."""
        return self.held

    def restore(self, state: Any) -> None:
        """Take over the events of a snapshot."""
        self.held = state


@window("lengthBatch", overloads("lengthBatch", (_LENGTH,), (_LENGTH, _STREAM_CURRENT)))
class LengthBatchWindow(Window):
    """Collect ``window.length`` events, then release them together, with the batch before as EXPIRED and a RESET.

    With ``stream.current.event`` each event passes immediately, and the first one of the next batch expires the batch.

    State
    -----
    ``batch``: the open batch; ``before``: the one released last, kept where expired events are expected; where
    they are not but somebody looks into the window, all batches, for ever; ``reset``: the event that the next RESET
    copies; ``count``: events in the open batch where they pass immediately.

    Notes
    -----
    Source: io.siddhi.core.query.processor.stream.window.LengthBatchWindowProcessor.
    """

    slides = False

    @staticmethod
    def loop(constants: tuple[Any, ...]) -> WindowLoop | None:
        """Return how events are collected in a loop; the last one of a batch is given to `process`."""
        if constants[0] < 1 or any(constants[1:]):
            return None
        # The first event of a batch goes to `process` as well, which notes what the next RESET copies.
        collect = ("if 0 < len(batch) < room:", "    batch.append((at, new))")
        close = ("else:", "    window.process(at, new)", "    batch = window.batch")
        return WindowLoop(("batch, room = window.batch, window.length - 1",), (*collect, *close), releases=True)

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.length: int = setting.constants[0]
        self.passes_current = len(setting.constants) > 1 and bool(setting.constants[1])
        self.expects_expired = setting.expects_expired
        self.keeps = setting.expects_expired or setting.findable
        self.queues = self.keeps and self.length > 0
        self.batch: list[Arrival] = []
        self.before: list[Arrival] = []
        self.reset: Row | None = None
        self.count = 0
        self.looked = 0

    def process(self, timestamp: int, row: Row) -> None:
        """Add one event; a full batch is released as one chunk."""
        if self.length == 0:
            chunk = self._pass(timestamp, row)
        elif self.passes_current:
            chunk = self._stream(timestamp, row)
        else:
            chunk = self._collect(timestamp, row)
        if chunk:
            self.emit(chunk)

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Add the events one by one; every batch that fills is a chunk of its own, released after the last event."""
        chunks: list[list[Event]] = []
        # `process` releases into the list; put back also where an event fails, or nothing is released any more.
        emit, self.emit = self.emit, chunks.append
        try:
            for timestamp, row in arrivals:
                self.process(timestamp, row)
        finally:
            self.emit = emit
        for chunk in chunks:
            emit(chunk)

    def _pass(self, timestamp: int, row: Row) -> list[Event]:
        now = self.clock.now
        expired: list[Event] = [(EXPIRED, now, row)] if self.expects_expired else []
        return [(CURRENT, timestamp, row), *expired, (RESET, now, row)]

    def _collect(self, timestamp: int, row: Row) -> list[Event]:
        if self.length < 0:
            return []  # no batch is ever full, so its events need not be kept
        if self.reset is None:
            self.reset = row
        self.batch.append((timestamp, row))
        if len(self.batch) < self.length:
            return []
        chunk = self._closing()
        chunk += [(CURRENT, at, held) for at, held in self.batch]
        if self.keeps:
            # Siddhi takes nothing off where it expects no expired events: who looks into the window finds all batches.
            if self.expects_expired:
                self.before = self.batch
                self.looked = 0
            else:
                self.before += self.batch
        self.batch = []
        return chunk

    def _stream(self, timestamp: int, row: Row) -> list[Event]:
        if self.reset is None:
            self.reset = row
        self.count += 1
        chunk: list[Event] = []
        # What is beyond the batch closes it: the events of the batch went out when they came.
        if self.count == self.length + 1:
            chunk = self._closing()
            if self.expects_expired:
                self.before = []
                self.looked = 0
            self.count = 1
        chunk.append((CURRENT, timestamp, row))
        if self.keeps:
            self.before.append((timestamp, row))
        return chunk

    def _closing(self) -> list[Event]:
        """Return what stands before a new batch: the batch before as EXPIRED, where it is expected, and the RESET."""
        now = self.clock.now
        chunk = expiring(self.before, self.looked, now) if self.expects_expired else []
        if self.reset is not None:
            chunk.append((RESET, now, self.reset))
            self.reset = None
        return chunk

    def note_lookup(self) -> None:
        """Take note that the batch was looked at."""
        self.looked = len(self.before)

    def contents(self) -> Iterable[Arrival]:
        """Yield the batch released last."""
        return iter(self.before)

    def snapshot(self) -> Any:
        """Return the open batch, the one before, and the counters."""
        return [self.batch, self.before, self.reset, self.count, self.looked]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.batch, self.before, self.reset, self.count, self.looked = state


_one_length = overloads("batch", (), (_LENGTH,))


def _resolve_batch(types: tuple[Type, ...], expressions: tuple[ast.Expression, ...]) -> None:
    _one_length(types, expressions)
    if any(length < 0 for length in constant_values(expressions)):
        raise SiddhiTypeError("'window.length' of 'batch' is not negative", hint="batch() takes chunks as they come")


@window("batch", _resolve_batch)
class BatchWindow(Window):
    """Take each incoming chunk as a batch; the batch before expires when the next one comes.

    With ``window.length`` > 0 a chunk is cut into pieces of that length, each released as a chunk of its own. In a
    partition, where no expired events are expected, there is no RESET between chunks: totals go on, as in Siddhi.

    State
    -----
    ``before``: the last chunk, kept where expired events are expected; ``reset``: the event the next RESET copies.

    Notes
    -----
    Source: io.siddhi.core.query.processor.stream.window.BatchWindowProcessor.
    """

    slides = False

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.length: int = setting.constants[0] if setting.constants else 0
        self.expects_expired = setting.expects_expired
        # Without expired events nothing is held of what is released: no queue that indexes can follow.
        self.queues = self.keeps = setting.expects_expired
        self.forgets = setting.partitioned and not (self.keeps or setting.findable)
        self.looked = 0
        self.before: list[Arrival] = []
        self.reset: Arrival | None = None

    def process(self, timestamp: int, row: Row) -> None:
        """Process one event as a batch."""
        self.process_chunk([(timestamp, row)])

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Process the events as a batch, or as several where a length is given."""
        chunk: list[Event] = []
        if self.expects_expired and self.before:
            now = self.clock.now
            chunk = expiring(self.before, self.looked, now)
            chunk += self._resetting(None)
        self.before = list(arrivals) if self.keeps else []
        self.looked = 0
        # An empty chunk must not give `range` a step of 0.
        size = self.length or max(len(arrivals), 1)
        chunks = []
        for start in range(0, len(arrivals), size):
            piece = arrivals[start : start + size]
            chunk += self._resetting(piece[0])
            chunk += [(CURRENT, timestamp, row) for timestamp, row in piece]
            chunks.append(chunk)
            chunk = []
        # Siddhi drops the state of a key that holds nothing, and the pending RESET with it.
        if self.forgets:
            self.reset = None
        for released in chunks:
            self.emit(released)

    def _resetting(self, following: Arrival | None) -> list[Event]:
        """Return the RESET that is due, and remember the one that `following` makes due."""
        due: list[Event] = [] if self.reset is None else [(RESET, *self.reset)]
        self.reset = following
        return due

    def note_lookup(self) -> None:
        """Take note that the batch was looked at."""
        self.looked = len(self.before)

    def contents(self) -> Iterable[Arrival]:
        """Yield the batch released last."""
        return iter(self.before)

    def snapshot(self) -> Any:
        """Return the batch released last and the event the next RESET copies."""
        return [self.before, self.reset, self.looked]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.before, self.reset, self.looked = state
