"""Runs: many events of an island's only channel at once, and what they cause, with the same ids as one by one.

Which event causes what is put out is not noted at each event: the iterator that the app's loop takes times from tells
how many are left when something comes out. Places, orders and paths become columns at the end of a run, or before a
timer fires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import length_hint
from typing import Any, Protocol, runtime_checkable

import numpy

from spdist.operators.base import Arrival, Row
from spdist.operators.junction import NO_TIMER, Pick, StreamPart
from spdist.transports.paths import child, sort_key
from spdist.transports.payload import TIMER, Events

__all__ = ["NO_EVENTS", "Around", "Key", "Run", "RunsApp", "TimerOutputs", "as_run"]

#: Merge key: at, order, sort key of the path.
Key = tuple[int, int, bytes]
#: Given what lets time pass until timers are due, returns what is to be called instead.
Around = Callable[[Callable[[int], None]], Callable[[int], None]]
NO_EVENTS = Events()


@runtime_checkable
class RunsApp(Protocol):
    """An app that takes events one after the other faster than by single calls (`spdist.engine.island.App`)."""

    def deliver_each(
        self,
        stream: str,
        times: Iterator[int],
        rows: Sequence[Row],
        late: Sequence[tuple[int, int]],
        around: Around,
    ) -> None:
        """Let time pass until each event is due, then deliver it as a chunk of its own.

        Parameters
        ----------
        stream : str
            The stream.
        times : iterator of int
            Timestamps, ms; taken one by one, each just before its event.
        rows : Sequence[Row]
            The events' values.
        late : Sequence of (int, int)
            Numbers of the events that are not due at their timestamps, but then, ms; in order.
        around : Callable
            Given what lets time pass until timers are due, returns what is to be called instead.
        """
        ...

    def deliver_mixed(
        self, streams: Sequence[str], times: Iterator[int], due: Sequence[int], rows: Sequence[Row], around: Around
    ) -> None:
        """Deliver events of several streams; as `deliver_each`, with the stream and the time of delivery of each."""
        ...

    def takes_parts(self, streams: Iterable[str]) -> bool:
        """Tell whether what reads these streams may take their events all at once."""
        ...

    def deliver_parts(self, parts: Mapping[str, StreamPart]) -> bool:
        """Deliver events of several streams, by stream, all at once, where what reads them takes them so.

        Tells whether it has: if not, nothing has changed.
        """
        ...

    def runs(self, stream: str) -> bool:
        """Tell whether `deliver_each` takes the events of a stream."""
        ...

    def subscribe_each(
        self,
        stream: str,
        one: Callable[[int, Row], None],
        many: Callable[[Sequence[Arrival]], None],
        pick: Pick | None = None,
    ) -> None:
        """Have `one` called with each event that is put out alone, `many` with each other chunk, or `pick` with many.

        That is where they are put out at once, for events of `deliver_parts`.
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
    if TIMER in order or any(events.chunk) or at != events.ts:
        return None
    begins = (at[0], order[0], sort_key(path[0]))
    alike = path.count(path[0]) == len(path)
    if begins >= high and alike and at == sorted(at) and order == sorted(order):
        return events, (at[-1], order[-1], begins[2])
    keys = list(accumulate(zip(at, order, map(sort_key, path), strict=True), max, initial=high))[1:]
    order = [key[1] for key in keys]
    return None if TIMER in order else (replace(events, at=[key[0] for key in keys], order=order), keys[-1])


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
    """What has come out to one stream since columns were made last."""

    __slots__ = ("events", "left", "numbers")

    def __init__(self, events: Events) -> None:
        self.events = events
        self.left: list[int] = []
        self.numbers: list[int] = []


class Run:
    """Collects what the events of a run cause.

    Parameters
    ----------
    published : Sequence[Events]
        Where what is put out is gathered, for each stream.
    timers : TimerOutputs
        What timers have put out.

    State
    -----
    None between two runs.
    """

    def __init__(self, published: Sequence[Events], timers: TimerOutputs) -> None:
        self._timers = timers
        self._timers_before = timers.at, timers.count
        #: Whether an event of a run is being processed, and no timer.
        self.on = False
        self._puts = [_Put(events) for events in published]
        self._causes = NO_EVENTS
        self._times: Iterator[int] = iter(())
        self._since = 0
        self._left = -1
        self._number = 0

    def through(self, app: RunsApp, stream: str, events: Events, now: int, timers: Callable[[bool], None]) -> None:
        """Deliver the events of a run.

        Parameters
        ----------
        app : RunsApp
            Takes them.
        stream : str
            Their stream.
        events : Events
            The run; see `as_run`.
        now : int
            The app's clock, ms.
        timers : Callable[[bool], None]
            Told when timers begin to fire, and when they have.
        """
        times = () if events.at == events.ts else enumerate(zip(events.ts, events.at, strict=True))
        late = [(number, due) for number, (ts, due) in times if ts < due]
        self._go(events, now, timers, lambda times, around: app.deliver_each(stream, times, events.rows, late, around))

    def through_mixed(
        self, app: RunsApp, streams: Sequence[str], events: Events, now: int, timers: Callable[[bool], None]
    ) -> None:
        """Deliver the events of a run that are of several streams, given for each; see `through`."""
        deliver = app.deliver_mixed
        self._go(events, now, timers, lambda times, around: deliver(streams, times, events.at, events.rows, around))

    def through_at_once(self, app: RunsApp, parts: Mapping[str, StreamPart], causes: Events, now: int) -> bool:
        """Deliver the events of a run at once, where that is the same; tells whether they were.

        Parameters
        ----------
        app : RunsApp
            Takes them.
        parts : Mapping of str to StreamPart
            The events.
        causes : Events
            When each is due, its order, path and timestamp.
        now : int
            The app's clock, ms.
        """
        self._causes, self._since = causes, now
        self._timers_before = self._timers.at, self._timers.count
        try:
            return app.deliver_parts(parts)
        finally:
            self._causes = NO_EVENTS

    def picker(self, position: int) -> Pick:
        """Return what takes what the events of a run put out at once to a stream."""
        into = self._puts[position].events

        def pick(
            rows: Sequence[Row], bounds: Any, causes: Any, stamps: Any, numbers: Any = None, due: Any = None
        ) -> None:
            counts = numpy.diff(bounds)
            places = numpy.arange(len(rows)) - numpy.repeat(bounds[:-1], counts)
            which = numpy.repeat(causes, counts).tolist()
            causing, since = self._causes, self._since
            times = [causing.at[number] for number in which]
            order = [causing.order[number] for number in which]
            put = (places if numbers is None else numbers).tolist()
            path = [child(causing.path[number], place) for number, place in zip(which, put, strict=True)]
            if due is not None:
                self._by_timers(numpy.repeat(due, counts).tolist(), put, times, order, path)
            into.columns = None
            into.at += times if times[0] >= since else [max(since, time) for time in times]
            into.order += order
            into.path += path
            into.chunk += places.tolist()
            into.ts += [causing.ts[number] for number in which] if stamps is None else stamps.tolist()
            into.rows += rows

        return pick

    def _by_timers(
        self, due: list[int], numbers: list[int], at: list[int], order: list[int], path: list[bytes]
    ) -> None:
        """Have what timers put out be theirs, given when, or `NO_TIMER`; all that they put out is counted."""
        last_at, last_count = self._timers_before
        for place, time in enumerate(due):
            if time != NO_TIMER:
                number = numbers[place] + (last_count if time == last_at else 0)
                at[place], order[place], path[place] = time, TIMER, child(b"", number)
                self._timers.note(time, number + 1)

    def _go(
        self, events: Events, now: int, timers: Callable[[bool], None], deliver: Callable[[Iterator[int], Around], None]
    ) -> None:
        self._causes, self._since, self._left = events, now, -1
        self._times = iter(events.ts)

        def around(move: Callable[[int], None]) -> Callable[[int], None]:
            def moved(time: int) -> None:
                self.settle()
                self.on = False
                timers(True)
                move(time)
                timers(False)
                self.on = True

            return moved

        self.on = True
        try:
            deliver(self._times, around)
        finally:
            self.on = False
        self.settle()
        self._causes = NO_EVENTS

    def collector(self, position: int, otherwise: Callable[[Sequence[Arrival]], None]) -> Callable[[int, Row], None]:
        """Return what takes an event that is put out alone to a stream; `otherwise` does outside of a run."""
        put = self._puts[position]
        timestamps, rows, left_then, numbers = put.events.ts, put.events.rows, put.left, put.numbers

        def alone(timestamp: int, row: Row) -> None:
            if self.on:
                left_then.append(length_hint(self._times))
                timestamps.append(timestamp)
                rows.append(row)
            else:
                otherwise(((timestamp, row),))

        def one(timestamp: int, row: Row) -> None:
            if self.on:
                numbers.append(self.cause(1)[-1])
            alone(timestamp, row)

        # Only where several streams are published, outputs of one cause must be counted as they come.
        return alone if len(self._puts) == 1 else one

    def cause(self, count: int) -> tuple[int, bytes, int]:
        """Return order and path of the event that is processed, and the number of the first of `count` outputs."""
        left = length_hint(self._times)
        number = self._number + 1 if left == self._left else 0
        self._left, self._number = left, number + count - 1
        return self._causes.order[~left], self._causes.path[~left], number

    def settle(self) -> None:
        """Make columns of what has come out."""
        for put in self._puts:
            if put.left:
                self._columns(put)

    def _columns(self, put: _Put) -> None:
        causes, events, left, since = self._causes, put.events, put.left, self._since
        numbers = put.numbers or self._numbered(left)
        if len(left) == len(causes) and not any(numbers):
            at, order = causes.at, causes.order
        else:
            at, order = [causes.at[~n] for n in left], [causes.order[~n] for n in left]
        events.at += at if at[0] >= since else [max(since, time) for time in at]
        events.order += order
        first = causes.path[0]
        if any(numbers) or causes.path.count(first) != len(causes.path):
            paths = causes.path
            events.path += [child(paths[~n], number) for n, number in zip(left, numbers, strict=True)]
        else:
            events.path += [child(first, 0)] * len(left)
        events.chunk += [0] * len(left)
        left.clear()
        put.numbers.clear()

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
