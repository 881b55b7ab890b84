"""Windows with one event for each key, which leave one by one: ``unique:ever``, ``first``, ``length``, ``time``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from spdist.extension import window
from spdist.java.objects import concurrent_order, same
from spdist.operators.base import CURRENT, EXPIRED, Arrival, Event, Row, Window, WindowSetting
from spdist.operators.core.parameters import INTEGER, TIME, Parameter, overloads
from spdist.operators.unique.keys import KEY, key_arguments, key_of, key_only, keys_of

__all__ = ["UniqueEverWindow", "UniqueFirstWindow", "UniqueLengthWindow", "UniqueTimeWindow"]

_NEVER = -(2**63)


class _ByKey(Window):
    """Holds at most one event of each key, for ever.

    State
    -----
    ``held``: by key: O(keys).

    Notes
    -----
    Who looks into the window finds its events in the order of Siddhi's map of them.
    """

    prepare = staticmethod(key_arguments)

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.key = key_of(setting)
        self.held: dict[Any, Arrival] = {}
        self._order: list[Any] = []

    def process(self, timestamp: int, row: Row) -> None:
        """Treat one event as a chunk."""
        self.process_chunk(((timestamp, row),))

    def contents(self) -> Iterable[Arrival]:
        """Yield the event of each key."""
        if len(self._order) != len(self.held):  # a key that is there stays
            self._order = concurrent_order(self.held)
        return map(self.held.__getitem__, self._order)

    def snapshot(self) -> Any:
        """Return the events held."""
        return self.held

    def restore(self, state: Any) -> None:
        """Take over the events of a snapshot."""
        self.held, self._order = state, []


@window("unique:ever", keys_of("unique:ever"))
class UniqueEverWindow(_ByKey):
    """Keep the latest event of each key for ever; a new one expires the one before.

    State
    -----
    ``held``: the latest event by key: O(keys).

    Notes
    -----
    Source: io.siddhi.extension.execution.unique.UniqueEverWindowProcessor.
    """

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Release EXPIRED(the one before), then CURRENT(new), for each event; all that is released is one chunk."""
        chunk: list[Event] = []
        for timestamp, row in arrivals:
            key = self.key(timestamp, row)
            before = self.held.get(key)
            if before is not None:
                chunk.append((EXPIRED, self.clock.now, before[1]))
            self.held[key] = (timestamp, row)
            chunk.append((CURRENT, timestamp, row))
        self.emit(chunk)


@window("unique:first", keys_of("unique:first"))
class UniqueFirstWindow(_ByKey):
    """Let only the first event of each key pass, and keep it for ever.

    State
    -----
    ``held``: the first event by key: O(keys).

    Notes
    -----
    Source: io.siddhi.extension.execution.unique.UniqueFirstWindowProcessor.
    """

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Release CURRENT(new) for each event whose key is new; all that is released is one chunk."""
        chunk: list[Event] = []
        for timestamp, row in arrivals:
            key = self.key(timestamp, row)
            if key not in self.held:
                self.held[key] = (timestamp, row)
                chunk.append((CURRENT, timestamp, row))
        if chunk:
            self.emit(chunk)


#: Of `UniqueLengthWindow.passed`: before the first event, and behind an event that has left.
_START, _LOST = 0, -1


@window("unique:length", overloads("unique:length", (KEY, Parameter("window.length", INTEGER))))
class UniqueLengthWindow(Window):
    """Keep the latest events of ``window.length`` keys; an event expires the one of its key, else the oldest one.

    State
    -----
    ``held``: the events, each with a number, oldest first; ``latest``: the latest event of each key that ever came, as
    Siddhi keeps it: O(keys); ``passed``: the number of the event behind which the search for an old one goes on;
    ``torn``: whether new events are not held until all that are have left.

    Notes
    -----
    As in Siddhi an event that was pushed out expires once more when its key comes again, and the search for the event
    of a key goes on where the last one ended, so that it can miss an event, which then leaves later as the oldest one.
    Where the newest of several events was replaced, what comes next is not held until the window is empty.
    Source: io.siddhi.extension.execution.unique.UniqueLengthWindowProcessor.
    """

    prepare = staticmethod(key_only)

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.key = key_of(setting)
        self.length: int = setting.constants[1]
        self.held: list[tuple[int, int, Row]] = []
        self.latest: dict[Any, Arrival] = {}
        self.passed = _START
        self.number = _START
        self.torn = False

    def process(self, timestamp: int, row: Row) -> None:
        """Release what the event replaces or pushes out as EXPIRED, then CURRENT(new), as one chunk."""
        self.process_chunk(((timestamp, row),))

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Treat the events one by one; all that is released is one chunk."""
        chunk: list[Event] = []
        now = self.clock.now
        for timestamp, row in arrivals:
            key = self.key(timestamp, row)
            before = self.latest.get(key)
            self.latest[key] = (timestamp, row)
            if before is not None:
                self._remove(before)
                self._hold(timestamp, row)
                chunk.append((EXPIRED, now, before[1]))
            elif len(self.latest) <= self.length:
                self._hold(timestamp, row)
            elif self.held:
                chunk.append((EXPIRED, now, self._oldest()))
                self._hold(timestamp, row)
            else:
                chunk.append((EXPIRED, timestamp, row))
            chunk.append((CURRENT, timestamp, row))
        self.emit(chunk)

    def _hold(self, timestamp: int, row: Row) -> None:
        self.torn = self.torn and bool(self.held)
        self.number += 1
        if not self.torn:
            self.held.append((self.number, timestamp, row))

    def _oldest(self) -> Row:
        number, _, row = self.held.pop(0)
        if number == self.passed:
            self.passed = _LOST
        return row

    def _remove(self, old: Arrival) -> None:
        if self.passed == _LOST:
            return
        kept: list[tuple[int, int, Row]] = []
        for event in self.held:
            if event[0] > self.passed:
                if event[1] == old[0] and same(event[2], old[1]):
                    self.torn = self.torn or (event is self.held[-1] and bool(kept))
                    continue
                self.passed = event[0]
            kept.append(event)
        self.held = kept

    def contents(self) -> Iterable[Arrival]:
        """Yield the events held, oldest first."""
        return ((timestamp, row) for _, timestamp, row in self.held)

    def snapshot(self) -> Any:
        """Return the events held, and how far the search has come."""
        return [self.held, self.latest, self.passed, self.number, self.torn]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.held, latest, self.passed, self.number, self.torn = state
        self.latest = _linked(latest, [event[1:] for event in self.held])


@window("unique:time", overloads("unique:time", (KEY, Parameter("window.time", TIME))))
class UniqueTimeWindow(Window):
    """Keep the latest event of each key for ``window.time`` ms; a new one expires the one before.

    State
    -----
    ``held``: the events, oldest first; ``known``: the latest event of each key that ever came, as Siddhi keeps it:
    O(keys); ``youngest``: greatest timestamp that a wake-up was asked for.

    Notes
    -----
    Source: io.siddhi.extension.execution.unique.UniqueTimeWindowProcessor.
    """

    prepare = staticmethod(key_only)

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.key = key_of(setting)
        self.span: int = setting.constants[1]
        self.held: list[Arrival] = []
        self.known: dict[Any, Arrival] = {}
        self.youngest = _NEVER
        self.timer = setting.timer(self._wake)

    def process(self, timestamp: int, row: Row) -> None:
        """Release what the event replaces and what is due as EXPIRED, then CURRENT(new), as one chunk."""
        self.process_chunk(((timestamp, row),))

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Treat the events one by one; all that is released is one chunk."""
        chunk: list[Event] = []
        for timestamp, row in arrivals:
            key = self.key(timestamp, row)
            before = self.known.get(key)
            self.known[key] = (timestamp, row)
            self.held.append((timestamp, row))
            if self.youngest < timestamp:
                self.timer.notify_at(timestamp + self.span)
                self.youngest = timestamp
            self._expire(before, chunk)
            chunk.append((CURRENT, timestamp, row))
        self.emit(chunk)

    def _expire(self, before: Arrival | None, chunk: list[Event]) -> None:
        """Take out `before`, which is looked for first of all, and what is due behind it."""
        now, position = self.clock.now, 0
        while position < len(self.held):
            timestamp, row = self.held[position]
            if before is not None:
                if timestamp == before[0] and same(row, before[1]):
                    del self.held[position]
                    chunk.append((EXPIRED, now, row))
                    before = None
                else:
                    position += 1
            elif timestamp + self.span <= now:
                del self.held[position]
                chunk.append((EXPIRED, now, row))
                # From the head again: what is due may also stand in front of `before`.
                position = 0
            else:
                break

    def _wake(self, _due: int) -> None:
        chunk: list[Event] = []
        self._expire(None, chunk)
        if chunk:
            self.emit(chunk)

    def contents(self) -> Iterable[Arrival]:
        """Yield the events held, oldest first."""
        return iter(self.held)

    def snapshot(self) -> Any:
        """Return the events held, and the wake-ups asked for."""
        return [self.held, self.known, self.youngest, self.timer.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.held, known, self.youngest, due = state
        self.known = _linked(known, self.held)
        self.timer.restore(due)


def _linked(latest: dict[Any, Arrival], held: Iterable[Arrival]) -> dict[Any, Arrival]:
    """Return the latest events of keys, each with the row that is held: not a number equals itself only."""
    found = {repr(event): event for event in held}
    return {key: found.get(repr(event), event) for key, event in latest.items()}
