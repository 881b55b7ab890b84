"""From what an island puts out to records of topics: which partition, which ids, which promise. Values only.

What many events of an only channel cause together has the same ids as one by one (`Run`). Which event causes what is
put out is not noted at each event: the iterator that the app's loop takes times from tells how many are left when
something comes out. Places, orders and paths become columns at the end of a run, or before a timer fires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import length_hint
from typing import Any

import numpy
import pyarrow as pa

from spdist.engine.island.cuts import Cut
from spdist.errors import PlanningError
from spdist.language.types import Schema, Type
from spdist.mapping.columns import TIMER, ColumnarRows, EventList, Events, child
from spdist.operators.base import Arrival, Row
from spdist.operators.core.junction import NO_TIMER, ReceiveColumns
from spdist.planning.topology import AssignedOutput, Publishing, Strategy
from spdist.transports.base import NO_CLOCK, Record
from spdist.transports.commands import ANSWERS
from spdist.transports.payloads.payload import Payload, pack_value, unpack_value
from spdist.transports.routing import key_partition, key_text

__all__ = ["Around", "Publisher", "Run", "TimerOutputs"]

#: Told that events go in one by one: given their timestamps, ms, and what lets time pass until timers are due. Returns
#: the iterator that the timestamps are taken from, each just before its event, and what is to be called instead.
Around = Callable[[Sequence[int], Callable[[int], None]], tuple[Iterator[int], Callable[[int], None]]]

#: Types whose values never change.
_FIXED = {type(None), bool, int, float, str, bytes}
#: Of so many keys the partition is remembered.
_KNOWN_KEYS = 100_000
_NONE = Events()


class _Route:
    """How one stream gets to one topic.

    State
    -----
    ``seq``: the number of the next event for each partition; ``sent``: events so far.
    """

    def __init__(self, publishing: Publishing, schema: Schema) -> None:
        self.topic = publishing.topic
        self.partitions = publishing.partitions
        self.seq = [0] * publishing.partitions
        self.sent = 0
        self._key: int | None = None
        self._text: Callable[[Any], str] = str
        # Where texts go that came before; other values may be equal and written in another way.
        self._places: dict[str, int] = {}
        if publishing.strategy is Strategy.FIELD_GROUPING:
            self._key = schema.index(publishing.key or "")
            if self._key is None:
                raise PlanningError(f"topic {self.topic} is keyed by {publishing.key!r}, which is not in {schema}")
            self._text = key_text(schema.types[self._key])

    def split(self, events: Events) -> list[Events]:
        """Return the share of each partition: by key, else in turn.

        In turn also for readers that want everything (ALL): each of them reads every partition.
        """
        if self.partitions == 1:
            self.sent += len(events)
            return [events]
        begun, count = self.sent, len(events)
        self.sent += count
        if self._key is None:
            return [
                # The turn goes on from event to event, wherever batches end
                events.picked(numpy.arange((own - begun) % self.partitions, count, self.partitions))
                for own in range(self.partitions)
            ]
        places = self._places_of(events.rows, self._key)
        return [events.picked(numpy.flatnonzero(places == own)) for own in range(self.partitions)]

    def _places_of(self, rows: Sequence[tuple[Any, ...]], key: int) -> Any:
        """Return the partition of each row, as an array."""
        column = rows.column(key) if isinstance(rows, ColumnarRows) else None
        if column is not None and pa.types.is_string(column.type):
            # Nulls get a code, too: they are a key like any other
            coded = column.dictionary_encode("encode")
            places = [self._place(value) for value in coded.dictionary.to_pylist()]
            return numpy.array(places, numpy.int64)[coded.indices.to_numpy()]
        return numpy.fromiter((self._place(row[key]) for row in rows), numpy.int64, len(rows))

    def _place(self, value: Any) -> int:
        try:
            return self._places[value]
        except (KeyError, TypeError):  # also of what has no hash, as lists
            place = key_partition(self._text(value), self.partitions)
            if type(value) is str and len(self._places) < _KNOWN_KEYS:
                self._places[value] = place
            return place


class _AsPutOut(list[tuple[Any, ...]]):
    """Rows that are kept as they are when they are put out: functions change lists and maps in place."""

    def append(self, row: tuple[Any, ...]) -> None:
        """Append a row, with copies of what could still change."""
        super().append(tuple(value if type(value) in _FIXED else unpack_value(pack_value(value)) for value in row))


class OutputEvents:
    """What is put out to one stream in a batch, in order: event by event, and as columns.

    Parameters
    ----------
    schema : Schema
        Its attributes.

    State
    -----
    The events since they were taken.
    """

    def __init__(self, schema: Schema) -> None:
        self._changes = Type.OBJECT in schema.types
        self._single = EventList(rows=self.empty_rows())
        self._parts: list[Events] = []

    def empty_rows(self) -> list[tuple[Any, ...]]:
        """Return a list for rows, which stay there as they are appended."""
        return _AsPutOut() if self._changes else []

    def add(self, at: int, order: int, path: bytes, chunk: int, ts: int, row: tuple[Any, ...]) -> None:
        """Append one event; see `EventList.add`."""
        self._single.add(at, order, path, chunk, ts, row)

    def extend(self, events: Events) -> None:
        """Append events."""
        self._close()
        self._parts.append(
            events if isinstance(events.rows, ColumnarRows | list) else replace(events, rows=[*events.rows])
        )

    def drain(self) -> Events:
        """Return the events in order, and forget them; rows stay columns where most are."""
        self._close()
        parts, self._parts = self._parts, []
        return Events.following(parts)

    def _close(self) -> None:
        if len(self._single):
            self._parts.append(self._single.events())
            self._single.clear()


class Publisher:
    """Collects what an island puts out and makes the records of a batch.

    Parameters
    ----------
    producer : str
        Name of the group instance; with the numbers of events per topic partition it makes their ids.
    outputs : sequence of AssignedOutput
        What is published where.
    schemas : mapping
        Attributes of each stream.

    State
    -----
    A number per partition of each topic, also of topics that another text of the group published to; and the number
    from which on a topic is numbered that it does not know. The same of where it last went back to.
    """

    def __init__(self, producer: str, outputs: Sequence[AssignedOutput], schemas: Mapping[str, Schema]) -> None:
        self.producer = producer
        self.promised = NO_CLOCK
        self.events_out = 0
        self._collected = {output.stream: OutputEvents(schemas[output.stream]) for output in outputs}
        self._payloads = {output.stream: Payload(schemas[output.stream]) for output in outputs}
        self._routes = {
            output.stream: [_Route(publishing, schemas[output.stream]) for publishing in output.publishing]
            for output in outputs
        }
        self._begun: list[Record] = []
        #: Where numbering ended in topics that are not published to now: it goes on there if they are again.
        self._others: dict[str, tuple[int, list[int]]] = {}
        self._above = 0
        #: Where it last went back to, below all numbers if it never did: what topics hold from there on may be undone.
        self.origin = Cut({}, -1, NO_CLOCK)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that are published."""
        return tuple(self._collected)

    def collect(self, stream: str) -> OutputEvents:
        """Return where the events that are put out to `stream` in this batch are gathered."""
        return self._collected[stream]

    def numbered(self, stream: str, topic: str, arrivals: Sequence[Arrival]) -> list[tuple[int, int]]:
        """Count some events of a stream as published to a topic, and return partition and number of each there."""
        route = next(one for one in self._routes[stream] if one.topic == topic)
        places = [(0, 0)] * len(arrivals)
        for partition, share in enumerate(route.split(Events.of(arrivals))):
            for number, order in enumerate(share.order.tolist(), route.seq[partition]):
                places[order] = partition, number
            route.seq[partition] += len(share)
        return places

    def begin(self, clock: int) -> None:
        """Tell all readers when this producer's time begins."""
        self._begun.extend(self._promises(clock))
        self.promised = clock

    def flush(self, clock: int) -> list[Record]:
        """Return the records of this batch and forget what was collected.

        The last record of each partition carries the promise `clock`; where it is news, partitions without events get a
        record that only promises.
        """
        records, self._begun = self._begun, []
        news = clock > self.promised
        for stream, routes in self._routes.items():
            events = self._collected[stream].drain()
            for route in routes:
                shares = route.split(events) if len(events) else [events] * route.partitions
                for partition, share in enumerate(shares):
                    if len(share):
                        records.extend(self._records(stream, route, partition, share, clock))
                    elif news and stream != ANSWERS:
                        records.append(self._promise(route, partition, clock))
            if len(events):
                self.events_out += len(events)
        self.promised = max(self.promised, clock)
        return records

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data; nothing may be collected and not flushed."""
        return {
            "promised": self.promised,
            "events_out": self.events_out,
            "above": self._above,
            "origin": self.origin.to_dict(),
            "routes": [
                *([r.topic, r.sent, r.seq] for routes in self._routes.values() for r in routes),
                *([topic, *numbers] for topic, numbers in self._others.items()),
            ],
        }

    def cut(self) -> Cut:
        """Return how far publishing is."""
        numbers = {route.topic: tuple(route.seq) for routes in self._routes.values() for route in routes}
        return Cut(numbers, self._above, self.promised)

    def restore(self, state: dict[str, Any]) -> None:
        """Take over the state of a snapshot."""
        self.promised, self.events_out, self._above = state["promised"], state["events_out"], state["above"]
        saved = {topic: (sent, seq) for topic, sent, seq in state["routes"]}
        for routes in self._routes.values():
            for route in routes:
                route.sent, seq = saved.get(route.topic, (0, []))
                # Another text may have published to what this state does not know: number above all of that
                route.seq = [*seq, *([self._above] * (route.partitions - len(seq)))]
        ours = {route.topic for routes in self._routes.values() for route in routes}
        self._others = {topic: numbers for topic, numbers in saved.items() if topic not in ours}
        # States of older versions do not tell it, and of several shards that went back.
        self.origin = Cut.from_dict(state["origin"]) if "origin" in state else self.cut()

    def went_back(self) -> None:
        """Note that the state as it is now is that of a revision: its numbers have been given before."""
        self.origin = self.cut()

    def _records(self, stream: str, route: _Route, partition: int, share: Events, clock: int) -> Iterator[Record]:
        left = len(share)
        for count, value in self._payloads[stream].encode_within(share):
            left -= count
            promise = self.promised if left else max(clock, self.promised)
            yield Record(route.topic, partition, value, count, self.producer, route.seq[partition], promise)
            route.seq[partition] += count

    def _promises(self, clock: int) -> Iterator[Record]:
        for stream, routes in self._routes.items():
            # Nobody merges answers with anything.
            for route in routes if stream != ANSWERS else ():
                for partition in range(route.partitions):
                    yield self._promise(route, partition, clock)

    def _promise(self, route: _Route, partition: int, clock: int) -> Record:
        return Record(route.topic, partition, b"", 0, self.producer, route.seq[partition], clock)


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
        self._causes = _NONE
        self._times: Iterator[int] = iter(())
        self._since = 0
        self._left = -1
        self._number = 0

    def deliver(
        self,
        deliver: Callable[[Around], object],
        causes: Events,
        now: int,
        timers: Callable[[bool], None],
    ) -> None:
        """Deliver the events of a run.

        Parameters
        ----------
        deliver : Callable
            Delivers them, given what it is to call where they go in one by one.
        causes : Events
            When each is due, its order, path and timestamp, by rank.
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
            deliver(around)
        finally:
            self.on = False
        self.make_columns()
        self._causes = _NONE

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

    def rank(self) -> int:
        """Return the rank of the chunk that is being processed, from the last one, which is -1."""
        return ~length_hint(self._times)

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
        # `left` events stood behind the cause, so its rank is len - 1 - left
        which = ~numpy.array(left, numpy.int64) + len(self._causes)
        at = numpy.maximum(self._causes.at[which], self._since)
        path = self._paths(which, numbers)
        none = numpy.zeros(len(left), numpy.int64)
        put.collected.extend(Events(at, self._causes.order[which], path, none, put.stamps, [*put.rows]))
        for values in (left, put.numbers, put.stamps, put.rows):
            values.clear()

    def _numbered(self, left: list[int]) -> list[int]:
        """Return for each output which one of its cause it is."""
        if left[0] != self._left and len(set(left)) == len(left):  # one output for each cause
            self._left, self._number = left[-1], 0
            return [0] * len(left)
        numbers = []
        for then in left:
            self._number = self._number + 1 if then == self._left else 0
            self._left = then
            numbers.append(self._number)
        return numbers
