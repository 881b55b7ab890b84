"""The stream processor ``#reorder:kslack``: events that come out of order are held back and put in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import stream_processor
from spdist.language.ast import Expression
from spdist.language.types import Schema, Type
from spdist.operators.base import NOT_NOW, Event, Periodic
from spdist.operators.core.parameters import is_constant
from spdist.operators.core.processors import ProcessorSetting, StreamProcessor

__all__ = ["TICK_MS", "KSlack", "known_time"]

_HINT = "it is written as #reorder:kslack(timestamp[, timeout[, max.k[, discard.late.arrival]]])"
_NO_LIMIT = 2**63 - 1
TICK_MS = 1000


def _resolve(_schema: Schema, types: tuple[Type, ...], expressions: tuple[Expression, ...]) -> Schema:
    times = types[:-1] if types and types[-1] is Type.BOOL else types
    if not 1 <= len(times) <= 3 or len(types) > 4 or set(times) != {Type.LONG}:
        given = ", ".join(map(str, types))
        raise SiddhiTypeError(f"'reorder:kslack' does not take ({given})", hint=_HINT)
    if not all(map(is_constant, expressions[1:])):
        raise SiddhiTypeError("all arguments of 'reorder:kslack' but the first are constants", hint=_HINT)
    return Schema(())


def known_time(time: int | None) -> int:
    """Return the time of an event; one whose time is null is lost, before anything is held of it."""
    if time is None:
        raise TypeError("the time of an event to be put in order is null")
    return time


@stream_processor("reorder:kslack", _resolve)
class KSlack(StreamProcessor):
    """Hold each event back until one has come whose time is k later; k is the greatest disorder seen so far.

    Each event with a new greatest time raises k to the span of what came since the one before (at most ``max.k``), and
    releases what is at least k older, in the order of time, as one chunk. With a ``timeout`` the engine's clock
    releases, each second from there on, what was held at such an event. With ``discard.late.arrival`` events older than
    what was released last are dropped.

    State
    -----
    ``fresh``: events since the greatest time rose, ``held``: those before, by time: O(events in k ms); ``greatest``,
    ``sent``, ``k``: in ms; ``tick``: when the last wake-up was asked for; ``waits``: whether none is asked for.

    Notes
    -----
    Source: io.siddhi.extension.execution.reorder.KSlackExtension.
    """

    def __init__(self, setting: ProcessorSetting) -> None:
        super().__init__(setting)
        given = list(setting.constants[1:])
        self.discards = bool(given.pop()) if given and isinstance(given[-1], bool) else False
        self.timeout: int = given[0] if given else -1
        self.limit: int = given[1] if len(given) > 1 else _NO_LIMIT
        self.fresh: dict[int, list[Event]] = {}
        self.held: dict[int, list[Event]] = {}
        self.greatest = 0
        self.sent = -1
        self.k = 0
        self.tick = -1
        self.waits = False
        self.timer = setting.timer(self._wake)
        self.timer.rests = Periodic(self.timer, TICK_MS, self._calm_until, self._passed)

    def start(self) -> None:
        """Begin: the first wake-up is a timeout from now."""
        if self.timeout != -1 and self.tick < 0:
            self.tick = self.clock.now + self.timeout
            self.timer.notify_at(self.tick)

    def process_events(self, events: Sequence[Event]) -> None:
        """Hold the events; release what is old enough as one chunk."""
        going: list[Event] = []
        for event in events:
            time = known_time(self.arguments(event[1], event[2])[0])
            if self.discards and time < self.sent:
                continue
            self._wait_again()
            self.fresh.setdefault(time, []).append(event)
            if time > self.greatest:
                self.greatest = time
                self.k = max(self.k, min(time - min(self.fresh), self.limit))
                self._release(going)
        if going:
            self.emit(going)

    def _release(self, going: list[Event]) -> None:
        for time, events in self.fresh.items():
            self.held.setdefault(time, []).extend(events)
        self.fresh = {}
        for time in sorted(self.held):
            if time + self.k > self.greatest:
                break
            self.sent = time
            going += self.held.pop(time)

    def _wake(self, due: int) -> None:
        going: list[Event] = []
        for time in sorted(self.held):
            if time >= self.timeout + due:
                break
            going += self.held.pop(time)
        self._wait_on(bool(self.held))
        if going:
            self.emit(going)

    def _calm_until(self) -> int:
        first = self._first_woken
        # The first due time at which `_wake` finds time < timeout + due.
        return first - self.timeout + 1 if first is not None and self.tick == self.timer.due[0] else NOT_NOW

    @property
    def _first_woken(self) -> int | None:
        """The least time of the events that a wake-up may let go."""
        return min(self.held, default=None)

    def _passed(self, by_ms: int) -> None:
        self.tick += by_ms

    def _wait_again(self) -> None:
        """Ask for the next wake-up where the last one left nothing to wait for."""
        if self.waits:
            # Rounded up to the grid of the first wake-up, on which the others would have come.
            self.tick += -(-(self.clock.now - self.tick) // TICK_MS) * TICK_MS
            self.timer.notify_at(self.tick)
            self.waits = False

    def _wait_on(self, holds: bool) -> None:
        """Ask for another wake-up where something is still held."""
        if holds:
            self.tick += TICK_MS
            self.timer.notify_at(self.tick)
        self.waits = not holds

    def snapshot(self) -> Any:
        """Return the events held, the times, and the wake-ups asked for."""
        times = [self.greatest, self.sent, self.k, self.tick, self.waits]
        return [self.fresh, self.held, times, self.timer.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.fresh, self.held, times, due = state
        self.greatest, self.sent, self.k, self.tick, self.waits = times
        self.timer.restore(due)
