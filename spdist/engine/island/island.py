"""One group instance as a value: records in, records and deliveries out. No Spark, no files, no clock of its own.

The same records in the same order within each channel, and the same ticks, give the same outputs with the same ids,
wherever batches are cut and however often they are replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from spdist.engine.island.intake import Intake
from spdist.engine.island.merge import causes_of, part_of
from spdist.engine.island.publish import Around, Publisher, Run, TimerOutputs
from spdist.engine.island.waiting import Mixed
from spdist.engine.local.idle import passes_time
from spdist.engine.local.rows import HoldsRows
from spdist.errors import StateError
from spdist.language.checking.checked import ClockSetting
from spdist.language.types import Schema
from spdist.mapping.columns import TIMER, Events, child
from spdist.operators.base import Arrival, Row
from spdist.operators.core.codec import decode, encode
from spdist.operators.core.junction import ReceiveColumns, StreamPart
from spdist.operators.tables.stores import StoreBatch
from spdist.planning.topology import Assignment
from spdist.transports.base import NO_CLOCK, Record
from spdist.transports.commands import COMMANDS
from spdist.transports.delivery import Outgoing

__all__ = ["ISLAND_FORMAT", "App", "Island", "Output", "RunsApp"]

#: A record for a topic, or what a user's sink delivers.
Output = Record | Outgoing

#: Of snapshots.
ISLAND_FORMAT = 2


class App(Protocol):
    """What an island needs of a running app: virtual time, chunks in, chunks out (`engine.local.app.LocalApp`)."""

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


@runtime_checkable
class RunsApp(Protocol):
    """An app that takes events one after the other faster than by single calls."""

    def deliver_parts(self, parts: Mapping[str, StreamPart], around: Around = ...) -> object:
        """Let time pass until each chunk is due, then deliver it: the app decides in which form.

        Parameters
        ----------
        parts : Mapping of str to StreamPart
            The chunks, by stream; at least one.
        around : Callable, optional
            Called where chunks go in one by one.
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
        #: The same where it takes runs: to ask for that costs as much as some events.
        self._runs_app = app if isinstance(app, RunsApp) else None
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
        self._echoed = {assigned.stream for assigned in assignment.inputs if assigned.own}
        #: The event of such a stream that is being delivered, as its first row: others have published it.
        self._handed: object = None
        self.publisher = Publisher(assignment.name, assignment.outputs, schemas)
        self._run = Run([self.publisher.collect(stream) for stream in self.publisher.streams], self._timers)
        for position, stream in enumerate(self.publisher.streams):
            put = self._collector(stream)
            if self._runs_app is not None:
                one, pick = self._run.event_collector(position, put), self._run.column_collector(position)
                self._runs_app.subscribe_each(stream, one, put, pick)
            else:
                app.subscribe_chunks(stream, put)

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
        return self._started and self.intake.goes_ahead(record) and self._only is not None

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
            if batch is not None and not self.intake.is_ahead:
                self.app.begin(batch)
            taken = self.intake.read_ahead(record)
            self._by_timer = False
            self._deliver_runs()
            self._by_timer = True
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
        if frontier == NO_CLOCK:
            self._do_commands()
            return list(self.publisher.flush(frontier))
        if not self._started:
            self._start(frontier)
        self._by_timer = False
        self._deliver()
        self._by_timer = True
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
        app = self.app
        self._deliver_runs()
        if self._deliver_mixed():
            return
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

    def _deliver_runs(self) -> None:
        if (only := self._only) is not None:
            app, stream = only
            for events in self._merge.runs():
                self._deliver_parts(app, {stream: part_of(events)}, partial(causes_of, events))

    def _deliver_mixed(self) -> bool:
        """Deliver what is due of several channels as one run, where it is that."""
        app = self._runs_app
        if app is None or self._echoed:
            return False
        due = self._merge.due_runs()
        if due is None:
            return False
        if due:
            self._deliver_parts(app, (mixed := Mixed(due)).parts(), mixed.causes)
        return True

    def _deliver_parts(self, app: RunsApp, parts: Mapping[str, StreamPart], causes: Callable[[], Events]) -> None:
        """Deliver the chunks of a run; `causes`, by rank, are asked for where something is published."""
        if not self.publisher.streams:
            app.deliver_parts(parts)
        else:
            self._run.deliver(partial(app.deliver_parts, parts), causes(), self.app.clock, self._firing)

    @property
    def _only(self) -> tuple[RunsApp, str] | None:
        """The app and the stream of an only channel, where it takes the events of that as runs."""
        app, only = self._runs_app, self._merge.only_stream
        if only is None or only in self._echoed or app is None or not app.runs(only):
            return None
        return app, only

    def _do_commands(self) -> None:
        commands = self.intake.take_commands()
        if commands:
            self.app.deliver(COMMANDS, commands)

    def _collector(self, stream: str) -> Callable[[Sequence[Arrival]], None]:
        events = self.publisher.collect(stream)
        echoed = stream in self._echoed

        def put(arrivals: Sequence[Arrival]) -> None:
            if echoed and arrivals[0][1] is self._handed:
                return
            at = self.app.clock
            if self._run.on:
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

    def _firing(self, begins: bool) -> None:
        """Take note that timers fire in the middle of a run, or that they have."""
        self._by_timer = begins

    def _caused_by_timer(self, at: int) -> None:
        """Go on numbering what timers put out at the time `at`, however batches were cut."""
        number = self._timers.count if self._timers.at == at else 0
        self._order, self._path, self._number = TIMER, b"", number
