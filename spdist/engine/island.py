"""One group instance as a value: records in, records and deliveries out. No Spark, no files, no clock of its own.

The same records in the same order within each channel, and the same ticks, give the same outputs with the same ids,
wherever batches are cut and however often they are replayed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Protocol

from spdist.engine.merge import ChannelKey, Merge
from spdist.engine.packing import by_time
from spdist.engine.publish import Publisher
from spdist.engine.rows import HoldsRows
from spdist.engine.straight import Run, RunsApp
from spdist.errors import MappingError, StateError
from spdist.language.types import Schema
from spdist.operators.base import Arrival
from spdist.operators.codec import decode, encode
from spdist.operators.stores import Batch
from spdist.planning.topology import Assignment
from spdist.transports.base import NO_CLOCK, Record, Repeats
from spdist.transports.commands import COMMANDS
from spdist.transports.delivery import Outgoing
from spdist.transports.outside import is_marked
from spdist.transports.paths import child
from spdist.transports.payload import TIMER, Events, Payload

__all__ = ["App", "Island", "Output"]

#: A record for a topic, or what a user's sink delivers.
Output = Record | Outgoing

log = logging.getLogger(__name__)

_FORMAT = 1


class App(Protocol):
    """What an island needs of a running app: virtual time, chunks in, chunks out (`spdist.engine.local.LocalApp`)."""

    @property
    def clock(self) -> int:
        """The app's time, ms."""
        ...

    def start(self, now_ms: int) -> None:
        """Begin at `now_ms`."""
        ...

    def advance(self, to_ms: int) -> None:
        """Let time pass; timers fire when they are due, those due at `to_ms` included."""
        ...

    def approach(self, to_ms: int) -> None:
        """Let time come to `to_ms`; timers fire that are due before it, those due at `to_ms` do not."""
        ...

    def deliver(self, stream: str, arrivals: Sequence[Arrival]) -> None:
        """Deliver the events of one chunk with the clock where it is, whatever their timestamps are."""
        ...

    def subscribe_chunks(self, stream_id: str, callback: Callable[[Sequence[Arrival]], None]) -> None:
        """Have `callback` called with each chunk that is put out to a stream."""
        ...

    def take_deliveries(self) -> Sequence[Outgoing]:
        """Return what the user's sinks have put out since the last call, of each sink in order."""
        ...

    def begin(self, batch: Batch) -> None:
        """Begin a batch, for what the app keeps outside of its state."""
        ...

    def commit(self) -> None:
        """Make durable what the batch has changed there."""
        ...

    def stop(self) -> None:
        """Undo what was not committed there, and let go of everything outside."""
        ...

    def snapshot(self) -> bytes:
        """Return the state."""
        ...

    def restore(self, data: bytes) -> None:
        """Take over a state, that of having started included."""
        ...


class Island:
    """The operators of a group instance between its input and its output topics.

    Parameters
    ----------
    assignment : Assignment
        What to read and where to publish.
    app : App
        The operators, not yet started.
    schemas : mapping
        Attributes of each stream that is read or published.
    merge_wait_ms : int
        How long a live app waits for a producer that lags, in ms.

    State
    -----
    That of the app; events that wait for their turn; one number per producer and partition read, one per partition
    published.
    """

    def __init__(self, assignment: Assignment, app: App, schemas: Mapping[str, Schema], *, merge_wait_ms: int) -> None:
        self.app = app
        self.schemas = schemas
        self.events_in = 0
        #: Whether time passes by itself, so that every batch matters.
        self.live = not assignment.playback
        self._started = False
        # What causes that which is put out now: a timer here, or the input with this order and path; outputs so far.
        self._by_timer = True
        self._order = TIMER
        self._path = b""
        self._number = 0
        #: When timers here last put something out, and how much at that time.
        self._timers = (NO_CLOCK, 0)
        #: Topics of commands: they have no place among the events, and nobody waits for them.
        self._asked = {assigned.topic for assigned in assignment.inputs if assigned.stream == COMMANDS}
        self._commands: list[Arrival] = []
        #: Topics of users' own sources, and the channels into which their events come.
        first = {one.topic: min(one.partitions) for one in assignment.inputs if not one.into}
        self._into = {one.topic: (one.into, first[one.into], "") for one in assignment.inputs if one.into}
        merged = [one for one in assignment.inputs if one.topic not in self._asked and not one.into]
        self._merge = Merge(merged, live=self.live, merge_wait_ms=merge_wait_ms)
        self._repeats = Repeats()
        self._payloads = {assigned.topic: Payload(schemas[assigned.stream]) for assigned in assignment.inputs}
        #: What this group itself publishes to a topic that it reads: it has handed those events on already.
        self._own = {assigned.topic: frozenset(assigned.own) for assigned in assignment.inputs if assigned.own}
        self._echoed = {assigned.stream for assigned in assignment.inputs if assigned.own}
        #: The event of such a stream that is being delivered, as its first row: others have published it.
        self._handed: object = None
        self._fed = {assigned.topic for assigned in assignment.inputs if not assigned.producers}
        self._publisher = Publisher(assignment.name, assignment.outputs, schemas)
        self._run = Run([self._publisher.collect(stream) for stream in self._publisher.streams])
        for position, stream in enumerate(self._publisher.streams):
            put = self._collector(stream)
            if isinstance(app, RunsApp):
                app.subscribe_each(stream, self._run.collector(position, put), put)
            else:
                app.subscribe_chunks(stream, put)

    @property
    def clock(self) -> int | None:
        """The app's time, ms; None before it has started."""
        return self.app.clock if self._started else None

    @property
    def events_out(self) -> int:
        """Number of events published, in all batches so far."""
        return self._publisher.events_out

    @property
    def pending(self) -> int:
        """Number of events that wait for their turn."""
        return self._merge.pending

    def held_rows(self) -> int:
        """Return how many rows the state holds, those that wait for their turn included; of large ones an estimate."""
        return self.pending + (self.app.held_rows() if self._started and isinstance(self.app, HoldsRows) else 0)

    def process(self, records: Iterable[Record], tick: int, batch: Batch | None = None) -> list[Output]:
        """Process one batch and return what it publishes.

        Parameters
        ----------
        records : iterable of Record
            Of each topic partition in the order of their offsets.
        tick : int
            The time of the batch, ms; only live apps look at it.
        batch : Batch, optional
            Its name, for tables in databases: they change with it once, however often it is processed.

        Returns
        -------
        list of Record, Delivery and Deliveries
            Events and promises, in the order in which they are to be appended; then what the user's sinks deliver.
        """
        if batch is None:
            return self._process(records, tick)
        try:
            self.app.begin(batch)
            outputs = self._process(records, tick)
            self.app.commit()
        except BaseException:
            self.app.stop()  # nobody else can change what this one has changed and not committed
            raise
        return outputs

    def _process(self, records: Iterable[Record], tick: int) -> list[Output]:
        users: dict[ChannelKey, list[Record]] = {}
        for outside, group in groupby(records, _outsiders_place):
            if outside is not None:
                self._take_outside(tuple(group))
                continue
            for record in group:
                if record.topic not in self._into:
                    self._take(record)
                else:
                    users.setdefault(self._into[record.topic], []).append(record)
        for channel, own in users.items():
            self._take_messages(channel, own)
        frontier = self._merge.frontier(tick)
        if frontier == NO_CLOCK:
            self._do_commands()
            return list(self._publisher.flush(frontier))
        if not self._started:
            self._start(frontier)
        self._by_timer = False
        self._deliver()
        self._by_timer = True
        self.app.advance(frontier)
        self._do_commands()
        return [*self._publisher.flush(frontier), *self.app.take_deliveries()]

    def snapshot(self) -> bytes:
        """Return the whole state between two batches: typed, versioned, no pickle."""
        return encode(
            {
                "island": _FORMAT,
                "started": self._started,
                "app": self.app.snapshot() if self._started else b"",
                "merge": self._merge.snapshot(),
                "seen": [[*key, end] for key, end in self._repeats.seen.items()],
                "publisher": self._publisher.snapshot(),
                "timers": self._timers,
                "events_in": self.events_in,
            }
        )

    def restore(self, data: bytes) -> None:
        """Take over the state of a snapshot; call it once, on an island that has processed nothing.

        Raises
        ------
        StateError
            The bytes are no snapshot of an island, or one that this version cannot read.
        """
        state = decode(data)
        if not isinstance(state, dict) or state.get("island") != _FORMAT:
            raise StateError("these bytes are no snapshot of a group", hint="restore another revision")
        if state["started"]:
            self.app.restore(state["app"])
        self._started = state["started"]
        self._merge.restore(state["merge"])
        self._repeats = Repeats({(topic, part, name): end for topic, part, name, end in state["seen"]})
        self._publisher.restore(state["publisher"])
        self._timers = state["timers"]
        self.events_in = state["events_in"]

    def _take(self, record: Record) -> None:
        if record.producer in self._own.get(record.topic, ()):
            return
        events = self._decoded(record, self._repeats.fresh(record))
        if record.topic in self._asked:
            self._commands += zip(events.ts, events.rows, strict=True) if events is not None else ()
            return
        self._merge.offer((record.topic, record.partition, record.producer), events, record.clock)

    def _take_messages(self, channel: ChannelKey, records: Sequence[Record]) -> None:
        """Take what a batch brings from users' topics for one stream."""
        places: dict[tuple[str, int], list[Events]] = {}
        for record in records:
            events = self._decoded(record)
            if events is not None and len(events):
                places.setdefault((record.topic, record.partition), []).append(events)
        for events in by_time(list(places.values())):
            self._merge.offer(channel, events, NO_CLOCK)
        # Also a shard that has got no event of the last ones learns how late it is.
        self._merge.offer(channel, None, max(record.clock for record in records))

    def _decoded(self, record: Record, skip: int = 0) -> Events | None:
        """Return the events of a record but the first `skip`; None where there are none."""
        # A shard's share of a record may be empty.
        if skip >= record.count or not record.value:
            return None
        events = record.events
        if events is None:
            try:
                events = self._payloads[record.topic].decode(record.value, skip)
            except MappingError as error:
                if record.topic not in self._fed:
                    raise
                # What outsiders send must not stop the group for ever.
                log.warning("dropping offset %d of %s: %s", record.offset, record.topic, error)
                return None
        self.events_in += len(events)
        return events

    def _take_outside(self, records: Sequence[Record]) -> None:
        """Take payloads of outsiders from one partition, as `_take` does one by one, only together."""
        topic, partition = records[0].topic, records[0].partition

        def failed(number: int, error: MappingError) -> None:
            if topic not in self._fed:
                raise error
            log.warning("dropping offset %d of %s: %s", records[number].offset, topic, error)

        events = self._payloads[topic].decode_outside([record.value for record in records], failed)
        self.events_in += len(events)
        self._merge.offer((topic, partition, ""), events, NO_CLOCK)

    def _start(self, frontier: int) -> None:
        """Begin: a live app now, since it follows the clock on the wall; else with the first time heard of."""
        first = self._merge.first
        began = frontier if self.live or first is None else min(first, frontier)
        self._started = True
        self._publisher.begin(began)
        self.app.start(began)

    def _deliver(self) -> None:
        app = self.app
        only = self._merge.only_stream
        if only is not None and only not in self._echoed and isinstance(app, RunsApp) and app.runs(only):
            for events in self._merge.runs():
                self._run.through(app, only, events, app.clock, self._firing)
        for at, order, path, stream, arrivals in self._merge.release():
            self._by_timer = True
            if order == TIMER:
                # What a timer upstream put out at this time comes before what timers here do at it, as on one machine,
                # where the query upstream stands first.
                app.approach(at)
            else:
                app.advance(at)
            self._by_timer, self._order, self._path, self._number = False, order, path, 0
            self._handed = arrivals[0][1] if stream in self._echoed else None
            app.deliver(stream, arrivals)
        self._handed = None

    def _do_commands(self) -> None:
        commands, self._commands = self._commands, []
        if commands:
            self.app.deliver(COMMANDS, commands)

    def _collector(self, stream: str) -> Callable[[Sequence[Arrival]], None]:
        events = self._publisher.collect(stream)
        echoed = stream in self._echoed

        def put(arrivals: Sequence[Arrival]) -> None:
            if echoed and arrivals[0][1] is self._handed:
                return
            at = self.app.clock
            if self._run.on:
                self._run.settle()
                self._order, self._path, self._number = self._run.cause(len(arrivals))
            elif self._by_timer:
                self._caused_by_timer(at)
            for place, (ts, row) in enumerate(arrivals):
                events.add(at, self._order, child(self._path, self._number), place, ts, row)
                self._number += 1
            if self._by_timer:
                self._timers = (at, self._number)

        return put

    def _firing(self, begins: bool) -> None:
        """Take note that timers fire in the middle of a run, or that they have."""
        self._by_timer = begins

    def _caused_by_timer(self, at: int) -> None:
        """Go on numbering what timers put out at the time `at`, however batches were cut."""
        before, number = self._timers
        self._order, self._path, self._number = TIMER, b"", number if before == at else 0


def _outsiders_place(record: Record) -> tuple[str, int] | None:
    """Return topic and partition of a payload that an outsider put there with a client of its own; None for others."""
    outside = not record.producer and record.clock == NO_CLOCK and is_marked(record.value)
    return (record.topic, record.partition) if outside else None
