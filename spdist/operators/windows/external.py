"""Windows on a time attribute of the events: ``externalTime``, ``externalTimeBatch``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from spdist.extension import window
from spdist.language.ast import FunctionCall
from spdist.language.catalog import Catalog
from spdist.language.checking.scope import Scope
from spdist.language.types import Type
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
from spdist.operators.core.arguments import MakeArguments, compile_arguments
from spdist.operators.core.parameters import PERIOD, TIME, Parameter, overloads

__all__ = ["ExternalTimeBatchWindow", "ExternalTimeWindow"]

_LONG = frozenset({Type.LONG})
_TIMESTAMP = Parameter("timestamp", _LONG, "attribute")
_TIME = Parameter("window.time", TIME)


@window("externalTime", overloads("externalTime", (_TIMESTAMP, _TIME)))
class ExternalTimeWindow(Window):
    """Keep the events whose time attribute is less than ``window.time`` ms older than that of the newest arrival.

    Only arrivals make others expire, and only the oldest arrival is looked at. What expires carries the time attribute
    of the arriving event as its timestamp.

    State
    -----
    ``held``: the events of the last ``window.time`` ms.

    Notes
    -----
    Source: io.siddhi.core.query.processor.stream.window.ExternalTimeWindowProcessor.
    """

    queues = True

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        assert setting.attributes[0] is not None
        self.position: int = setting.attributes[0]
        self.span: int = setting.constants[1]
        self.held: deque[Arrival] = deque()

    def process(self, timestamp: int, row: Row) -> None:
        """Release what is due as EXPIRED, then CURRENT(new), as one chunk."""
        self.process_chunk(((timestamp, row),))

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Treat the events one by one; all that is released is one chunk."""
        held, position = self.held, self.position
        chunk: list[Event] = []
        for timestamp, row in arrivals:
            now = row[position]
            over = now - self.span
            while held and held[0][1][position] <= over:
                chunk.append((EXPIRED, now, held.popleft()[1]))
            held.append((timestamp, row))
            chunk.append((CURRENT, timestamp, row))
        self.emit(chunk)

    def contents(self) -> Iterable[Arrival]:
        """Yield the events held, oldest arrival first."""
        return iter(self.held)

    def snapshot(self) -> Any:
        """Return the events held."""
        return self.held

    def restore(self, state: Any) -> None:
        """Take over the events of a snapshot."""
        self.held = state


_START = Parameter("start.time", TIME, "either", changing=frozenset({Type.LONG}))
_TIMEOUT = Parameter("timeout", TIME)
_REPLACE = Parameter("replace.with.batchtime", frozenset({Type.BOOL}))


@window(
    "externalTimeBatch",
    overloads(
        "externalTimeBatch",
        (_TIMESTAMP, PERIOD),
        (_TIMESTAMP, PERIOD, _START),
        (_TIMESTAMP, PERIOD, _START, _TIMEOUT),
        (_TIMESTAMP, PERIOD, _START, _TIMEOUT, _REPLACE),
    ),
)
class ExternalTimeBatchWindow(Window):
    """Collect the events of one period of a time attribute; an event beyond its end releases it and opens the next.

    Late events join the open period. With a ``timeout`` the engine's clock releases an open period where no event opens
    a new one for so long; events that then still come for it release all of it once more. With
    ``replace.with.batchtime`` the time attribute is overwritten by the end of the period.

    State
    -----
    ``batch``: the open period; ``before``: the one released last, kept where expired events or a timeout are;
    ``reset``: the event that the next RESET copies; ``end``, ``start``, ``newest``: the period's end, the start of the
    periods and the newest time attribute, ms; ``awaited``: when the timeout is over; ``flushed``: it was.

    Notes
    -----
    Source: io.siddhi.core.query.processor.stream.window.ExternalTimeBatchWindowProcessor.
    """

    slides = False

    @staticmethod
    def prepare(title: str, call: FunctionCall, scope: Scope, catalog: Catalog) -> MakeArguments:
        """Compile the start time; see `spdist.operators.base.Window.prepare`."""
        return compile_arguments(f"{title} {call.id}", call.args[2:3], scope, catalog)

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        constants, attributes = setting.constants, setting.attributes
        assert attributes[0] is not None
        self.position: int = attributes[0]
        self.span: int = constants[1]
        self.aligned = len(constants) > 2
        # Where it is no constant it is computed from the first event.
        self.start_of = setting.prepared(setting.clock) if self.aligned and constants[2] is None else None
        self.timeout: int = constants[3] if len(constants) > 3 else 0
        self.replaces = len(constants) > 4 and bool(constants[4])
        self.expects_expired = setting.expects_expired
        # A timeout may have to release the period once more.
        self.keeps = setting.expects_expired or setting.findable or self.timeout > 0
        self.batch: list[Arrival] = []
        self.before: list[Arrival] = []
        self.reset: Row | None = None
        self.start: int = (constants[2] or 0) if self.aligned else 0
        self.end: int | None = None
        self.newest = 0
        self.awaited = 0
        self.flushed = False
        self.timer = setting.timer(self._wake)
        if self.timeout > 0:
            self.timer.rests = Periodic(self.timer, self.timeout, self._calm_until, self._passed)

    def _calm_until(self) -> int:
        # A wake-up that comes before `awaited` asks for no other, so only the awaited one is periodic.
        return ALWAYS if self.flushed and not self.batch and self.awaited == self.timer.due[0] else NOT_NOW

    def _passed(self, by_ms: int) -> None:
        self.awaited += by_ms

    def process(self, timestamp: int, row: Row) -> None:
        """Add one event; where it lies beyond the open period, release that one first."""
        self.process_chunk(((timestamp, row),))

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Add events one by one; each period that ends is a chunk, released after the last event."""
        if self.end is None:
            self.end = self._first_end(*arrivals[0])
        chunks: list[list[Event]] = []
        for timestamp, row in arrivals:
            time = row[self.position]
            self.newest = max(self.newest, time)
            if time < self.end:
                self._append(timestamp, row)
                continue
            chunks.append(self._closing(again=self.flushed))
            self.flushed = False
            self.end = self._end_after(self.newest)
            self._append(timestamp, row)
            self._await()
        self._release(chunks)

    def _first_end(self, timestamp: int, row: Row) -> int:
        time: int = row[self.position]
        self._await()
        if self.aligned and self.start_of is None:
            return self._end_after(time)
        self.start = time if self.start_of is None else self.start_of(timestamp, row)[0]
        return self.start + self.span

    def _end_after(self, time: int) -> int:
        elapsed = time - self.start
        # Java's remainder: before the start it is negative and puts the end one period further.
        return time + self.span - (elapsed % self.span if elapsed >= 0 else -(-elapsed % self.span))

    def _await(self) -> None:
        if self.timeout > 0:
            self.awaited = self.clock.now + self.timeout
            self.timer.notify_at(self.awaited)

    def _append(self, timestamp: int, row: Row) -> None:
        if self.reset is None:
            self.reset = row
        if self.replaces:
            row = (*row[: self.position], self.end, *row[self.position + 1 :])
        self.batch.append((timestamp, row))

    def _wake(self, due: int) -> None:
        if self.awaited > due:  # a new period was opened since
            return
        chunk = self._closing(again=self.flushed)
        self.flushed = True
        self._await()
        self._release([chunk])

    def _release(self, chunks: list[list[Event]]) -> None:
        for chunk in chunks:
            if chunk:
                self.emit(chunk)

    def _closing(self, *, again: bool) -> list[Event]:
        """Return the chunk that ends the open period; `again` where part of it was released by a timeout already."""
        if again and not self.batch:
            return []
        now = self.newest
        chunk: list[Event] = [(EXPIRED, now, row) for _, row in self.before] if self.expects_expired else []
        released = self.before if again else []
        self.before = list(released)
        if self.batch:
            if self.reset is not None:
                chunk.append((RESET, now, self.reset))
            if not again:
                # Siddhi keeps the RESET of a period that is released again, so its totals start anew each time.
                self.reset = None
            chunk += [(CURRENT, timestamp, row) for timestamp, row in (*released, *self.batch)]
            if self.keeps:
                self.before += self.batch
            self.batch = []
        return chunk

    def contents(self) -> Iterable[Arrival]:
        """Yield the period released last."""
        return iter(self.before)

    def snapshot(self) -> Any:
        """Return the periods and their times, and the wake-ups asked for."""
        times = [self.start, self.end, self.newest, self.awaited, self.flushed]
        return [self.batch, self.before, self.reset, times, self.timer.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.batch, self.before, self.reset, times, due = state
        self.start, self.end, self.newest, self.awaited, self.flushed = times
        self.timer.restore(due)
