"""The window ``expressionBatch``: a batch ends where a condition over it no longer holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from spdist.extension import window
from spdist.operators.base import CURRENT, EXPIRED, Arrival, Event, WindowSetting
from spdist.operators.windows.expression import ConditionalWindow, resolver

__all__ = ["ExpressionBatchWindow"]


@window(
    "expressionBatch",
    resolver("expressionBatch", ("include.triggering.event", False), ("stream.current.event", True)),
)
class ExpressionBatchWindow(ConditionalWindow):
    """Collect events while ``expression`` holds over them; the event with which it does not releases the batch.

    That event opens the next batch, or with ``include.triggering.event`` ends this one; the condition's totals count it
    for the next batch either way. There is no RESET: totals fall by the batch before, which expires. What is released
    carries the time of the release. With ``stream.current.event`` events pass immediately and only the expiry waits.
    The text of the expression may come with each event; where it changes, the open batch is taken in anew.

    State
    -----
    ``batch``: the open batch; ``before``: the one released last, or with ``stream.current.event`` the open one;
    ``waiting``: what left while the text changed; the condition's totals.

    Notes
    -----
    Siddhi shares totals between the keys of a partition, and loses them when it is restored; here each key has its own.
    Source: io.siddhi.core.query.processor.stream.window.ExpressionBatchWindowProcessor.
    """

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.passes_current = len(setting.constants) > 2 and bool(setting.constants[2])
        self.batch: list[Arrival] = []
        self.before: list[Arrival] = []
        self.waiting: list[Event] = []
        self.looked = 0

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Take events one by one; each batch that ends is a chunk, released after the last event."""
        chunks: list[list[Event]] = []
        for arrival in arrivals:
            if self.condition.turn_to(self.arguments(*arrival)[0]):
                self._take_anew(chunks)
            if self.passes_current:
                chunks.append(self._pass(arrival))
            else:
                self._collect(arrival, chunks)
        for chunk in chunks:
            if chunk:
                self.emit(chunk)

    def _includes(self, arrival: Arrival) -> bool:
        """Tell whether the event that ends a batch belongs to it."""
        options = self.arguments(*arrival)[1:]
        return bool(options) and options[0] is True

    def _take_anew(self, chunks: list[list[Event]]) -> None:
        if self.passes_current:
            held, self.before = self.before, []
            for arrival in held:
                self._pass_again(arrival)
        else:
            held, self.batch, self.looked = self.batch, [], 0
            for arrival in held:
                self._collect(arrival, chunks)

    def _ends_with(self, arrival: Arrival, batch: list[Arrival]) -> bool:
        """Tell whether the condition no longer holds; its totals then start with this event."""
        first = batch[0] if batch else arrival
        if self.condition.holds(CURRENT, *arrival, *first, *arrival):
            return False
        self.condition.reset()
        # Called for the totals only, which count this event for the next batch.
        self.condition.holds(CURRENT, *arrival, *first, *arrival)
        return True

    def _expiring(self, arrivals: list[Arrival]) -> list[Event]:
        now = self.clock.now
        return [(EXPIRED, now, row) for _, row in arrivals]

    def _collect(self, arrival: Arrival, chunks: list[list[Event]]) -> None:
        if not self._ends_with(arrival, self.batch):
            self.batch.append(arrival)
            return
        now = self.clock.now
        chunk = self._expiring(self.before)
        self.before = []
        if not self.batch:
            # Even alone the event does not hold: it leaves, enters, and is not kept.
            chunks.append([*chunk, (EXPIRED, now, arrival[1]), (CURRENT, now, arrival[1])])
            return
        # Those that somebody has looked at keep their timestamps and never expire: Siddhi goes on with the pass over
        # its queue that the look began.
        seen, fresh = self.batch[: self.looked], self.batch[self.looked :]
        chunk += [(CURRENT, timestamp, row) for timestamp, row in seen] + [(CURRENT, now, row) for _, row in fresh]
        self.before, self.batch, self.looked = [(now, row) for _, row in fresh], [], 0
        if self._includes(arrival):
            chunk.append((CURRENT, *arrival))
            self.before.append((now, arrival[1]))
        else:
            self.batch.append(arrival)
        chunks.append(chunk)

    def _pass(self, arrival: Arrival) -> list[Event]:
        """Let an event pass, with what leaves because of it."""
        chunk, self.waiting = self.waiting, []
        timestamp, row = arrival
        if not self._ends_with(arrival, self.before):
            self.before.append(arrival)
            return [*chunk, (CURRENT, timestamp, row)]
        if not self.before:
            now = self.clock.now
            return [*chunk, (EXPIRED, now, row), (CURRENT, now, row)]
        leaving, self.before = self._expiring(self.before), []
        if self._includes(arrival):
            return [*chunk, (CURRENT, timestamp, row), *leaving, *self._expiring([arrival])]
        self.before.append(arrival)
        return [*chunk, *leaving, (CURRENT, timestamp, row)]

    def _pass_again(self, arrival: Arrival) -> None:
        """Take in anew an event that passed before; what leaves goes out with the next event."""
        if not self._ends_with(arrival, self.before):
            self.before.append(arrival)
            return
        if not self.before:
            self.waiting.append((EXPIRED, *arrival))
            return
        self.waiting += self._expiring(self.before)
        self.before = []
        if self._includes(arrival):
            self.waiting.append((EXPIRED, *arrival))
        else:
            self.before.append(arrival)

    def note_lookup(self) -> None:
        """Take note that the open batch was looked at."""
        self.looked = len(self.batch)

    def contents(self) -> Iterable[Arrival]:
        """Yield the open batch; nothing with ``stream.current.event``, where Siddhi looks for it among what waits."""
        return iter(self.batch)

    def snapshot(self) -> Any:
        """Return the batches and the condition's state."""
        return [self.batch, self.before, self.waiting, self.looked, self.condition.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.batch, self.before, self.waiting, self.looked, condition = state
        self.condition.restore(condition)
