"""One group instance as a value: records in, records out. No Spark, no files, no clock of its own.

The same records in the same order within each channel, and the same ticks, give the same outputs with the same ids,
wherever batches are cut and however often they are replayed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from spdist.engine.merge import Merge
from spdist.engine.publish import Publisher
from spdist.errors import MappingError, StateError
from spdist.language.types import Schema
from spdist.operators.base import Arrival
from spdist.operators.codec import decode, encode
from spdist.planning.topology import Assignment
from spdist.transports.base import NO_CLOCK, Record, Repeats
from spdist.transports.paths import child
from spdist.transports.payload import TIMER, Payload

__all__ = ["App", "Island"]

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
        self.events_in = 0
        self._live = not assignment.playback
        self._started = False
        # What causes that which is put out now: a timer here, or the input with this order and path; outputs so far.
        self._by_timer = True
        self._order = TIMER
        self._path = b""
        self._number = 0
        #: When timers here last put something out, and how much at that time.
        self._timers = (NO_CLOCK, 0)
        self._merge = Merge(assignment.inputs, live=self._live, merge_wait_ms=merge_wait_ms)
        self._repeats = Repeats()
        self._payloads = {assigned.topic: Payload(schemas[assigned.stream]) for assigned in assignment.inputs}
        self._fed = {assigned.topic for assigned in assignment.inputs if not assigned.producers}
        self._publisher = Publisher(assignment.name, assignment.outputs, schemas)
        for stream in self._publisher.streams:
            app.subscribe_chunks(stream, self._collector(stream))

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

    def process(self, records: Iterable[Record], tick: int) -> list[Record]:
        """Process one batch and return what it publishes.

        Parameters
        ----------
        records : iterable of Record
            Of each topic partition in the order of their offsets.
        tick : int
            The time of the batch, ms; only live apps look at it.

        Returns
        -------
        list of Record
            Events and promises, in the order in which they are to be appended.
        """
        for record in records:
            self._take(record)
        frontier = self._merge.frontier(tick)
        if frontier == NO_CLOCK:
            return []
        if not self._started:
            self._start(frontier)
        self._deliver()
        self._by_timer = True
        self.app.advance(frontier)
        return self._publisher.flush(frontier)

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
        skip = self._repeats.fresh(record)
        events = None
        if skip < record.count:
            try:
                events = self._payloads[record.topic].decode(record.value).part(skip, record.count)
            except MappingError as error:
                if record.topic not in self._fed:
                    raise
                # What outsiders send must not stop the group for ever.
                log.warning("dropping offset %d of %s: %s", record.offset, record.topic, error)
            else:
                self.events_in += record.count - skip
        self._merge.offer((record.topic, record.partition, record.producer), events, record.clock)

    def _start(self, frontier: int) -> None:
        """Begin: a live app now, since it follows the clock on the wall; else with the first time heard of."""
        first = self._merge.first
        began = frontier if self._live or first is None else min(first, frontier)
        self._started = True
        self._publisher.begin(began)
        self.app.start(began)

    def _deliver(self) -> None:
        app = self.app
        for at, order, path, stream, arrivals in self._merge.release():
            self._by_timer = True
            if order == TIMER:
                # What a timer upstream put out at this time comes before what timers here do at it, as on one machine,
                # where the query upstream stands first.
                app.approach(at)
            else:
                app.advance(at)
            self._by_timer, self._order, self._path, self._number = False, order, path, 0
            app.deliver(stream, arrivals)

    def _collector(self, stream: str) -> Callable[[Sequence[Arrival]], None]:
        events = self._publisher.collect(stream)

        def put(arrivals: Sequence[Arrival]) -> None:
            at = self.app.clock
            if self._by_timer:
                self._caused_by_timer(at)
            for place, (ts, row) in enumerate(arrivals):
                events.add(at, self._order, child(self._path, self._number), place, ts, row)
                self._number += 1
            if self._by_timer:
                self._timers = (at, self._number)

        return put

    def _caused_by_timer(self, at: int) -> None:
        """Go on numbering what timers put out at the time `at`, however batches were cut."""
        before, number = self._timers
        self._order, self._path, self._number = TIMER, b"", number if before == at else 0
