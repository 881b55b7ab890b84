"""One group instance as a value: records in, records and deliveries out. No Spark, no files, no clock of its own.

The same records in the same order within each channel, and the same ticks, give the same outputs with the same ids,
wherever batches are cut and however often they are replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from spdist.engine.island.intake import Intake
from spdist.engine.island.publish import Around, Publisher, Run, TimerOutputs
from spdist.engine.island.waiting import chunk_now
from spdist.engine.local.idle import passes_time
from spdist.engine.local.rows import HoldsRows
from spdist.errors import StateError
from spdist.language.checking.checked import ClockSetting
from spdist.language.types import Schema
from spdist.mapping.columns import TIMER, child
from spdist.operators.base import Arrival, Row
from spdist.operators.core.codec import decode, encode
from spdist.operators.core.junction import ReceiveColumns, StreamPart
from spdist.operators.tables.stores import StoreBatch
from spdist.planning.topology import Assignment
from spdist.transports.base import NO_CLOCK, Record
from spdist.transports.commands import COMMANDS
from spdist.transports.delivery import Outgoing

__all__ = ["ISLAND_FORMAT", "App", "Island", "Output"]

#: A record for a topic, or what a user's sink delivers.
Output = Record | Outgoing

#: Of snapshots.
ISLAND_FORMAT = 2


class App(Protocol):
    """What an island needs of a running app: virtual time, chunks in, chunks out (`engine.island.hosted.HostedApp`)."""

    @property
    def clock(self) -> int:
        """The app's time, ms."""
        ...

    @property
    def next_timer(self) -> int | None:
        """When the next timer is due, ms; None where none is."""
        ...

    def start(self, now_ms: int) -> None:
        """Begin at `now_ms`."""
        ...

    def advance(self, to_ms: int) -> None:
        """Let time pass; timers fire when they are due, those due at `to_ms` included."""
        ...

    def deliver(self, parts: Mapping[str, StreamPart], around: Around = ...) -> None:
        """Let time pass until each chunk is due, then deliver it: the app decides in which form.

        Parameters
        ----------
        parts : Mapping of str to StreamPart
            The chunks, by stream; at least one. Those of `COMMANDS` come alone, and no time passes before them.
        around : Callable, optional
            Called where chunks go in one by one.
        """
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

    def take_deliveries(self) -> Sequence[Outgoing]:
        """Return what the user's sinks have put out since the last call, of each sink in order."""
        ...

    def begin(self, batch: StoreBatch) -> None:
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


_CLOCK = ClockSetting()


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
    clock : ClockSetting, optional
        How the clock moves in playback.

    State
    -----
    That of the app; events that wait for their turn; one number per producer and partition read, one per partition
    published.
    """

    def __init__(
        self,
        assignment: Assignment,
        app: App,
        schemas: Mapping[str, Schema],
        *,
        merge_wait_ms: int,
        clock: ClockSetting = _CLOCK,
    ) -> None:
        self.app = app
        self.schemas = schemas
        self.live = not assignment.playback
        #: Whether time passes by itself, so that every batch matters.
        self.passes_time = passes_time(assignment)
        self._started = False
        # What causes that which is put out now: a timer here, or the input with this order and path; outputs so far.
        self._by_timer, self._order, self._path, self._number = True, TIMER, b"", 0
        #: When timers here last put something out, and how much at that time.
        self._timers = TimerOutputs(NO_CLOCK, 0)
        #: What sinks have put out before the running batch was whole.
        self._put_out: list[Outgoing] = []
        self.intake = Intake(assignment, schemas, merge_wait_ms=merge_wait_ms, clock=clock)
        self._merge = self.intake.merge
        #: Streams of which this group itself publishes events to a topic that it reads.
        self.echoed = {assigned.stream for assigned in assignment.inputs if assigned.own}
        #: The first rows of their chunks, by rank, while these are delivered: others have published them.
        self._handed: Sequence[Row | None] = ()
        self.publisher = Publisher(assignment.name, assignment.outputs, schemas)
        self._run = Run([self.publisher.collect(stream) for stream in self.publisher.streams], self._timers)
        for position, stream in enumerate(self.publisher.streams):
            put = self._collector(stream)
            alone, columns = self._run.event_collector(position, put), self._run.column_collector(position)
            if stream in self.echoed:
                alone, put = self._unless_handed(alone, put)
            app.subscribe_each(stream, alone, put, columns)

    @property
    def clock(self) -> int | None:
        """The app's time, ms; None before it has started."""
        return self.app.clock if self._started else None

    @property
    def events_in(self) -> int:
        """Number of events read, in all batches so far."""
        return self.intake.events_in

    @property
    def rejected(self) -> Mapping[str, int]:
        """How many messages of outsiders, and events of them, could not be read since this process began, by stream."""
        return self.intake.rejected

    @property
    def events_out(self) -> int:
        """Number of events published, in all batches so far."""
        return self.publisher.events_out

    @property
    def pending(self) -> int:
        """Number of events that wait for their turn."""
        return self._merge.pending

    def held_rows(self) -> int:
        """Return how many rows the state holds, those that wait for their turn included; of large ones an estimate."""
        return self.pending + (self.app.held_rows() if self._started and isinstance(self.app, HoldsRows) else 0)

    def goes_ahead(self, record: Record) -> bool:
        """Whether to process a record before its batch is whole comes to the same."""
        # Only the whole batch tells the time to start at, and of several channels another may bring what is due first
        return self._started and self.intake.goes_ahead(record) and self._merge.has_one_channel

    def process_ahead(self, record: Record, batch: StoreBatch | None = None) -> Record:
        """Process a record that `goes_ahead` before its batch is whole.

        Parameters
        ----------
        record, batch
            As for `process`.

        Returns
        -------
        Record
            What `process` is to be given in the place of `record`: the next call is for a record that follows, for the
            whole batch, or `give_up`.
        """
        try:
            # With the first record only: a batch is one transaction of outside stores
            if batch is not None and not self.intake.is_ahead:
                self.app.begin(batch)
            taken = self.intake.read_ahead(record)
            self._by_timer = False
            self._deliver()
            self._by_timer = True
            # Nothing may leave before the segment is durable
            self._put_out += self.app.take_deliveries()
        except BaseException:
            self.app.stop()
            raise
        return taken

    def give_up(self) -> None:
        """Undo outside what `process_ahead` has done; the island is of no use after that."""
        self.app.stop()

    def process(
        self, records: Iterable[Record], tick: int, batch: StoreBatch | None = None, closing: bool = False
    ) -> list[Output]:
        """Process one batch and return what it publishes.

        Parameters
        ----------
        records : iterable of Record
            Of each topic partition in the order of their offsets.
        tick : int
            The time of the batch, ms; live apps look at it, and those with ``idle.time``.
        batch : StoreBatch, optional
            Its name, for tables in databases: they change with it once, however often it is processed.
        closing : bool
            Whether nothing waits for its turn any more after it.

        Returns
        -------
        list of Record, Delivery and Deliveries
            Events and promises, in the order in which they are to be appended; then what the user's sinks deliver.
        """
        if batch is None:
            return self._process(records, tick, closing)
        try:
            if not self.intake.is_ahead:
                self.app.begin(batch)
            outputs = self._process(records, tick, closing)
            self.app.commit()
        except BaseException:
            self.app.stop()  # nobody else can change what this one has changed and not committed
            raise
        return outputs

    def _process(self, records: Iterable[Record], tick: int, closing: bool) -> list[Output]:
        self.intake.read(records, tick)
        frontier = self._merge.frontier(tick)
        if closing:
            frontier = self._merge.close()
        # There is no time to start the app at, but questions are answered
        if frontier == NO_CLOCK:
            self._do_commands()
            return list(self.publisher.flush(frontier))
        if not self._started:
            self._start(frontier)
        self._by_timer = False
        self._deliver()
        self._by_timer = True
        # Events first: timers that are due between them fire while they are delivered
        self.app.advance(frontier)
        self._do_commands()
        put_out, self._put_out = self._put_out, []
        return [*self.publisher.flush(frontier), *put_out, *self.app.take_deliveries()]

    def snapshot(self) -> bytes:
        """Return the whole state between two batches: typed, versioned, no pickle."""
        return encode(
            {
                "island": ISLAND_FORMAT,
                "started": self._started,
                "app": self.app.snapshot() if self._started else b"",
                **self.intake.snapshot(),
                "publisher": self.publisher.snapshot(),
                "timers": (self._timers.at, self._timers.count),
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
        if not isinstance(state, dict) or state.get("island") != ISLAND_FORMAT:
            raise StateError("these bytes are no snapshot of a group", hint="restore another revision")
        if state["started"]:
            self.app.restore(state["app"])
        self._started = state["started"]
        self.intake.restore(state)
        self.publisher.restore(state["publisher"])
        self._timers.at, self._timers.count = state["timers"]

    def _start(self, frontier: int) -> None:
        """Begin: a live app now, since it follows the clock on the wall; else with the first time heard of."""
        first = self._merge.first
        began = frontier if self.live or first is None else min(first, frontier)
        self._started = True
        self.publisher.begin(began)
        self.app.start(began)

    def _deliver(self) -> None:
        """Deliver what is due; the causes of chunks are asked for where something is published."""
        for due in self._merge.due():
            if not self.publisher.streams:
                self.app.deliver(due.parts)
                continue
            self._handed = due.first_rows(self.echoed) if self.echoed else ()
            self._run.deliver(partial(self.app.deliver, due.parts), due.causes(), self.app.clock, self._firing)

    def _do_commands(self) -> None:
        rows = self.intake.take_commands()
        if rows:
            self.app.deliver({COMMANDS: chunk_now([(self.app.clock, row) for row in rows], self.app.clock)})

    def _collector(self, stream: str) -> Callable[[Sequence[Arrival]], None]:
        events = self.publisher.collect(stream)

        def put(arrivals: Sequence[Arrival]) -> None:
            at = self.app.clock
            if self._run.on:
                # What came out as single events before this chunk has to stand in front of it
                self._run.make_columns()
                self._order, self._path, self._number = self._run.cause(len(arrivals))
            elif self._by_timer:
                self._caused_by_timer(at)
            for place, (ts, row) in enumerate(arrivals):
                events.add(at, self._order, child(self._path, self._number), place, ts, row)
                self._number += 1
            if self._by_timer:
                self._timers.at, self._timers.count = at, self._number

        return put

    def _unless_handed(
        self, alone: Callable[[int, Row], None], put: Callable[[Sequence[Arrival]], None]
    ) -> tuple[Callable[[int, Row], None], Callable[[Sequence[Arrival]], None]]:
        """Return what takes events, and chunks, of a stream as these do, but for what others have published of it."""

        def handed(row: Row) -> bool:
            # By identity: an equal row may be another event
            return self._run.on and row is self._handed[self._run.rank()]

        def alone_unless(timestamp: int, row: Row) -> None:
            if not handed(row):
                alone(timestamp, row)

        def put_unless(arrivals: Sequence[Arrival]) -> None:
            if not handed(arrivals[0][1]):
                put(arrivals)

        return alone_unless, put_unless

    def _firing(self, begins: bool) -> None:
        """Take note that timers fire in the middle of a run, or that they have."""
        self._by_timer = begins

    def _caused_by_timer(self, at: int) -> None:
        """Go on numbering what timers put out at the time `at`, however batches were cut."""
        number = self._timers.count if self._timers.at == at else 0
        self._order, self._path, self._number = TIMER, b"", number
