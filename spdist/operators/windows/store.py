"""What a window holds, as something that conditions look into, with hash indexes that follow what it releases."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from spdist.language.types import Schema
from spdist.operators.base import CURRENT, EXPIRED, Arrival, Event, Row, Timer, Window, WindowSetting
from spdist.operators.tables.stores import Index

__all__ = ["WindowStore"]


class _HashIndex:
    """The rows of a window by the values of some attributes; rows where one of them is null are not in it.

    State
    -----
    None of its own: where it is not ``fresh`` it is made again from the window when it is next asked.
    """

    __slots__ = ("_key_of", "_single", "fresh", "rows", "window")

    def __init__(self, attributes: tuple[int, ...], window: Window) -> None:
        self.window = window
        self.rows: dict[Any, deque[Arrival]] = {}
        self.fresh = False
        self._key_of: Callable[[Row], Any] = itemgetter(*attributes)
        self._single = len(attributes) == 1

    def lookup(self, key: Any) -> Iterable[Arrival]:
        """Return the rows with this key, in the window's order."""
        if not self.fresh:
            self._make()
        return self.rows.get(key, ())

    def _make(self) -> None:
        rows = self.rows = {}
        for arrival in self.window.contents():
            key = self._key_of(arrival[1])
            if key is not None and (self._single or None not in key):
                held = rows.get(key)
                if held is None:
                    held = rows[key] = deque()
                held.append(arrival)
        self.fresh = True

    def follow(self, chunk: list[Event]) -> None:
        """Take in what a queue released: what enters is its last row, what leaves was its first."""
        rows, key_of = self.rows, self._key_of
        for kind, timestamp, row in chunk:
            key = key_of(row)
            if key is None or not (self._single or None not in key):
                continue
            if kind == CURRENT:
                held = rows.get(key)
                if held is None:
                    held = rows[key] = deque()
                held.append((timestamp, row))
            elif kind == EXPIRED:
                held = rows[key]
                held.popleft()
                if not held:
                    del rows[key]


class WindowStore:
    """A window and the indexes on it (`spdist.operators.tables.stores.Store`).

    Parameters
    ----------
    made : type of Window
        The window.
    setting : WindowSetting
        What it is made from; `emit` takes its chunks after the indexes have followed them.
    schema : Schema
        Of its rows.

    State
    -----
    That of the window. Indexes are made when they are first used. Where the window is a queue they are kept true event
    by event, at constant cost; of other windows they are made anew when the window has changed and is looked into.
    """

    def __init__(self, made: type[Window], setting: WindowSetting, schema: Schema) -> None:
        self.schema = schema
        self._emit = setting.emit
        self._indexes: dict[tuple[int, ...], _HashIndex] = {}
        self.window = made(replace(setting, emit=self._released, timer=self._timing(setting.timer)))
        #: Whether the window must be told when somebody looks into it.
        self.notes_looks = self.window.looked is not None
        self.contents: Callable[[], Iterable[Arrival]] = self._shown if self.notes_looks else self.window.contents

    def _timing(self, timer: Callable[[Callable[[int], None]], Timer]) -> Callable[[Callable[[int], None]], Timer]:
        """Return what makes timers that also tell that the window may have changed without releasing anything."""

        def make(wake: Callable[[int], None]) -> Timer:
            def woken(due: int) -> None:
                if not self.window.queues:
                    self._spoil()
                wake(due)

            return timer(woken)

        return make

    def note_lookup(self) -> None:
        """Note that somebody looks at everything the window holds now."""
        self.window.note_lookup()

    def _shown(self) -> Iterable[Arrival]:
        self.note_lookup()
        return self.window.contents()

    def index(self, attributes: tuple[int, ...]) -> Index | None:
        """Return an index on all of `attributes`."""
        known = self._indexes.get(attributes)
        if known is None:
            known = self._indexes[attributes] = _HashIndex(attributes, self.window)
        return Index(attributes, known.lookup)

    def receive(self, timestamp: int, row: Row) -> None:
        """Receive one event that arrives as a chunk of its own."""
        # Such a window may change without releasing anything.
        if self._indexes and not self.window.queues:
            self._spoil()
        try:
            self.window.process(timestamp, row)
        except BaseException:
            # It may have taken the event in without having released it.
            self._spoil()
            raise

    def receive_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Receive the events of one chunk."""
        if self._indexes and not self.window.queues:
            self._spoil()
        try:
            self.window.process_chunk(arrivals)
        except BaseException:
            self._spoil()
            raise

    def _released(self, chunk: list[Event]) -> None:
        for index in self._indexes.values():
            if index.fresh:
                if self.window.queues:
                    index.follow(chunk)
                else:
                    index.fresh = False
        self._emit(chunk)

    def _spoil(self) -> None:
        for index in self._indexes.values():
            index.fresh = False

    def snapshot(self) -> Any:
        """Return the window's state."""
        return self.window.snapshot()

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.window.restore(state)
        self._spoil()
