"""Runs: many events of an island's only channel together, and what they cause, with the same ids as one by one.

Which event causes what is put out is not noted at each event: the iterator that the app's loop takes times from tells
how many are left when something comes out. Places, orders and paths become columns at the end of a run, or before a
timer fires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import length_hint
from typing import Any, Protocol, runtime_checkable

import numpy

from spdist.engine.island.publish import OutputEvents
from spdist.operators.base import Arrival, Row
from spdist.operators.core.junction import NO_TIMER, ReceiveColumns, StreamPart
from spdist.transports.events import TIMER, Events, child, sort_key

__all__ = ["NO_EVENTS", "Around", "Key", "Run", "RunsApp", "TimerOutputs", "as_run"]

#: Merge key: at, order, sort key of the path.
Key = tuple[int, int, bytes]
#: Told that events go in one by one: given their timestamps, ms, and what lets time pass until timers are due. Returns
#: the iterator that the timestamps are taken from, each just before its event, and what is to be called instead.
Around = Callable[[Sequence[int], Callable[[int], None]], tuple[Iterator[int], Callable[[int], None]]]
NO_EVENTS = Events()


@runtime_checkable
class RunsApp(Protocol):
    """An app that takes events one after the other faster than by single calls (`spdist.engine.island.island.App`)."""

    def deliver_parts(self, parts: Mapping[str, StreamPart], around: Around) -> object:
        """Let time pass until each event is due, then deliver it as a chunk of its own: the app decides in which form.

        Parameters
        ----------
        parts : Mapping of str to StreamPart
            The events, by stream; at least one.
        around : Callable
            Called where events go in one by one.
        """
        ...

    def runs(self, stream: str) -> bool:
        """Tell whether `deliver_parts` takes the events of a stream."""
        ...

    def subscribe_each(
        self,
        stream: str,
        receive: Callable[[int, Row], None],
        receive_chunk: Callable[[Sequence[Arrival]], None],
        receive_columns: ReceiveColumns | None = None,
    ) -> None:
        """Have `receive` called with each event that is put out alone, and `receive_chunk` with each other chunk.

        Chunks that are put out as columns go to `receive_columns`, many together, where it is given.
        """
        ...


def as_run(events: Events, high: Key) -> tuple[Events, Key] | None:
    """Return a run and the key that it reaches; None unless events are chunks of their own, due when they say.

    Those of a run have the times and orders of their merge keys: an event whose key is below `high`, or below one
    before it, is due with that one, and keeps its timestamp. None of them is caused by a timer.

    Parameters
    ----------
    events : Events
        At least one.
    high : Key
        What the channel has reached.
    """
    at, order, path = events.at, events.order, events.path
    if order.min() == TIMER or events.chunk.any() or not events.is_on_time:
        return None
    begins = (int(at[0]), int(order[0]), sort_key(path[0]))
    if begins >= high and events.has_one_path and _never_falls(at) and _never_falls(order):
        return events, (int(at[-1]), int(order[-1]), begins[2])
    own = zip(at.tolist(), order.tolist(), map(sort_key, path), strict=True)
    keys = list(accumulate(own, max, initial=high))[1:]
    numbers = [key[1] for key in keys]
    return None if TIMER in numbers else (replace(events, at=[key[0] for key in keys], order=numbers), keys[-1])


def _never_falls(values: Any) -> bool:
    return len(values) < 2 or bool((values[1:] >= values[:-1]).all())


class TimerOutputs:
    """When timers last put something out, and how much at that time: what they put out is numbered, however cut."""

    __slots__ = ("at", "count")

    def __init__(self, at: int, count: int) -> None:
        self.at = at
        self.count = count

    def note(self, at: int, count: int) -> None:
        """Take note that so much was put out at a time; that of several streams may be told in turn."""
        if (at, count) > (self.at, self.count):
            self.at, self.count = at, count


class _Put:
    """What has come out to one stream, event by event, since columns were made last."""

    __slots__ = ("collected", "left", "numbers", "rows", "stamps")

    def __init__(self, collected: OutputEvents) -> None:
        self.collected = collected
        self.stamps: list[int] = []
        self.rows: list[Row] = collected.empty_rows()
        self.left: list[int] = []
        self.numbers: list[int] = []


class Run:
    """Collects what the events of a run cause.

    Parameters
    ----------
    published : Sequence[OutputEvents]
        Where what is put out is gathered, for each stream.
    timers : TimerOutputs
        What timers have put out.

    State
    -----
    None between two runs.
    """

    def __init__(self, published: Sequence[OutputEvents], timers: TimerOutputs) -> None:
        self._timers = timers
        self._timers_before = timers.at, timers.count
        #: Whether an event of a run is being processed, and no timer.
        self.on = False
        self._puts = [_Put(collected) for collected in published]
        self._causes = NO_EVENTS
        self._times: Iterator[int] = iter(())
        self._since = 0
        self._left = -1
        self._number = 0

    def deliver(
        self,
        app: RunsApp,
        parts: Mapping[str, StreamPart],
        causes: Events,
        now: int,
        timers: Callable[[bool], None],
    ) -> None:
        """Deliver the events of a run.

        Parameters
        ----------
        app : RunsApp
            Takes them.
        parts : Mapping of str to StreamPart
            The events, by stream.
        causes : Events
            When each is due, its order, path and timestamp, by rank; of no use where nothing is published.
        now : int
            The app's clock, ms.
        timers : Callable[[bool], None]
            Told when timers begin to fire, and when they have, where events go in one by one.
        """
        self._causes, self._since, self._left = causes, now, -1
        self._timers_before = self._timers.at, self._timers.count

        def around(times: Sequence[int], move: Callable[[int], None]) -> tuple[Iterator[int], Callable[[int], None]]:
            def moved(time: int) -> None:
                self.make_columns()
                self.on = False
                timers(True)
                move(time)
                timers(False)
                self.on = True

            self._times, self.on = iter(times), True
            return self._times, moved

        try:
            app.deliver_parts(parts, around)
        finally:
            self.on = False
        self.make_columns()
        self._causes = NO_EVENTS

    def column_collector(self, position: int) -> ReceiveColumns:
        """Return what collects what the events of a run put out to a stream in columns."""
        into = self._puts[position].collected

        def receive_columns(
            rows: Sequence[Row], bounds: Any, causes: Any, stamps: Any, numbers: Any = None, due: Any = None
        ) -> None:
            counts = numpy.diff(bounds)
            places = numpy.arange(len(rows)) - numpy.repeat(bounds[:-1], counts)
            which = numpy.repeat(causes, counts)
            at, order = self._causes.at[which], self._causes.order[which]
            put = places if numbers is None else numbers
            path = self._paths(which, put)
            if due is not None:
                self._by_timers(numpy.repeat(due, counts), put, at, order, path)
            ts = self._causes.ts[which] if stamps is None else stamps
            into.extend(Events(numpy.maximum(at, self._since), order, path, places, ts, rows))

        return receive_columns

    def _paths(self, which: Any, numbers: Any) -> list[bytes]:
        """Return the paths of outputs, given which event has caused each, and which of its outputs each is."""
        paths = self._causes.path
        if self._causes.has_one_path:
            if not numbers.any():
                return [child(paths[0], 0)] * len(numbers)
            known, places = numpy.unique(numbers, return_inverse=True)
            made = [child(paths[0], number) for number in known.tolist()]
            return [made[place] for place in places.tolist()]
        return [child(paths[n], number) for n, number in zip(which.tolist(), numbers.tolist(), strict=True)]

    def _by_timers(self, due: Any, numbers: Any, at: Any, order: Any, path: list[bytes]) -> None:
        """Have what timers put out be theirs, given when, or `NO_TIMER`; all that they put out is counted."""
        last_at, last_count = self._timers_before
        for place in numpy.flatnonzero(due != NO_TIMER).tolist():
            time = int(due[place])
            number = int(numbers[place]) + (last_count if time == last_at else 0)
            at[place], order[place], path[place] = time, TIMER, child(b"", number)
            self._timers.note(time, number + 1)

    def event_collector(
        self, position: int, otherwise: Callable[[Sequence[Arrival]], None]
    ) -> Callable[[int, Row], None]:
        """Return what takes an event that is put out alone to a stream; `otherwise` does outside of a run."""
        put = self._puts[position]
        timestamps, rows, left_then, numbers = put.stamps, put.rows, put.left, put.numbers

        def alone(timestamp: int, row: Row) -> None:
            if self.on:
                left_then.append(length_hint(self._times))
                timestamps.append(timestamp)
                rows.append(row)
            else:
                otherwise(((timestamp, row),))

        def counted(timestamp: int, row: Row) -> None:
            if self.on:
                numbers.append(self._count(length_hint(self._times), 1))
            alone(timestamp, row)

        # Only where several streams are published, outputs of one cause must be counted as they come.
        return alone if len(self._puts) == 1 else counted

    def cause(self, count: int) -> tuple[int, bytes, int]:
        """Return order and path of the event that is processed, and the number of the first of `count` outputs."""
        left = length_hint(self._times)
        return int(self._causes.order[~left]), self._causes.path[~left], self._count(left, count)

    def _count(self, left: int, count: int) -> int:
        """Return the number of the first of `count` outputs of the event behind which so many are left."""
        number = self._number + 1 if left == self._left else 0
        self._left, self._number = left, number + count - 1
        return number

    def make_columns(self) -> None:
        """Make columns of what has come out."""
        for put in self._puts:
            if put.left:
                self._columns(put)

    def _columns(self, put: _Put) -> None:
        left = put.left
        numbers = numpy.array(put.numbers or self._numbered(left), numpy.int64)
        which = ~numpy.array(left, numpy.int64) + len(self._causes)
        at = numpy.maximum(self._causes.at[which], self._since)
        path = self._paths(which, numbers)
        none = numpy.zeros(len(left), numpy.int64)
        put.collected.extend(Events(at, self._causes.order[which], path, none, put.stamps, [*put.rows]))
        for values in (left, put.numbers, put.stamps, put.rows):
            values.clear()

    def _numbered(self, left: list[int]) -> list[int]:
        """Return for each output which one of its cause it is."""
        if left[0] != self._left and len(set(left)) == len(left):
            self._left, self._number = left[-1], 0
            return [0] * len(left)
        numbers = []
        for then in left:
            self._number = self._number + 1 if then == self._left else 0
            self._left = then
            numbers.append(self._number)
        return numbers
