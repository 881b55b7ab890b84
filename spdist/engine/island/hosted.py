"""An app of the local engine as an island hosts it: between topics, in exact order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal

import numpy

from spdist.config.allowed import Allowed
from spdist.engine.island.island import Island
from spdist.engine.island.publish import Around
from spdist.engine.island.scripted import ScriptedIsland
from spdist.engine.local.app import LocalApp
from spdist.engine.local.app_context import BEFORE_ALL_TIME
from spdist.engine.local.clock_jumps import Jumps
from spdist.engine.local.external_stores import external_stores
from spdist.engine.local.recorder import answer_of, error_of
from spdist.engine.programs.programmed import Programmed
from spdist.errors import MappingError
from spdist.language.checking.checked import CheckedApp
from spdist.operators.base import ALWAYS, Arrival, Row, VirtualClock
from spdist.operators.core.faults import ErrorStore
from spdist.operators.core.junction import ObserverFailed, ReceiveColumns, Receiver, StreamPart, guarded
from spdist.operators.tables.on_demand import Answer
from spdist.operators.tables.stores import OutsideStores, StoreBatch
from spdist.planning.compiled import CompiledInstance
from spdist.planning.topology import Assignment
from spdist.transports.commands import ANSWERS, COMMANDS, SCHEMAS, SCRIPT, read_command, text_row
from spdist.transports.delivery import KEPT_ERRORS, Outbox, Outgoing
from spdist.transports.errors import error_entry

__all__ = ["HostedApp", "build_island"]


def build_island(
    assignment: Assignment,
    merge_wait_ms: int,
    scripts: bool = False,
    allowed: Allowed | None = None,
) -> Island:
    """Return the island of a group instance, from its SiddhiQL text, without state.

    For `scripts` see `spdist.extension.catalog`, for `allowed` `external_stores`.

    Raises
    ------
    SiddhiAppError
        The text is wrong.
    """
    checked = CompiledInstance.of(assignment, scripts).checked
    if any(assigned.stream == SCRIPT for assigned in assignment.inputs):
        return ScriptedIsland(assignment, checked, lambda zone: HostedApp(checked, time_zone=zone, delivers=False))
    outside = external_stores(checked, allowed or Allowed())
    app = HostedApp(checked, assignment.name, stores=outside, live=not assignment.playback)
    schemas = {**checked.streams, **SCHEMAS}
    island = Island(assignment, app, schemas, merge_wait_ms=merge_wait_ms, clock=checked.clock)
    if not island.echoed:  # what comes in between its queries would bring the operators back
        app.compiles()
    return island


def _unwatched(times: Sequence[int], move: Callable[[int], None]) -> tuple[Iterator[int], Callable[[int], None]]:
    """Have nothing done when time passes."""
    return iter(times), move


class _ErrorsOut(ErrorStore):
    """The error store of an app whose process may end at any time: entries leave like what sinks put out."""

    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        self._outbox = outbox

    def add(
        self,
        clock: VirtualClock,
        app: str,
        stream: str,
        origin: Literal["stream", "sink", "source"],
        cause: BaseException,
        events: Sequence[Arrival] = (),
        payload: object = None,
    ) -> None:
        """Let an entry leave; see `ErrorStore.add`."""
        told = f"{type(cause).__name__}: {cause}"
        self._outbox.add((KEPT_ERRORS, -1, 0, stream), {}, error_entry(stream, origin, told, events, payload))


class HostedApp(LocalApp):
    """A local app between topics: chunks go in with the clock where it is, and come out whole.

    It may be asked while it runs: the command ``{"id": any, "query": text}`` of the stream `COMMANDS` is answered
    ``{"id", "rows", "schema"}``, or ``{"id", "error"}``, in the stream `ANSWERS`; a question never stops the app.

    Parameters
    ----------
    checked : CheckedApp
        The app with what its names mean.
    producer : str, optional
        In whose name its sinks deliver; by default the app's.
    time_zone : str
        See `LocalApp`.
    delivers : bool
        False where nothing leaves: then sinks put out as in a local app.
    stores : OutsideStores, optional
        Makes what has ``@Store``.
    live : bool
        Whether its clock is the one on the wall; see `spdist.engine.local.clock_jumps.Jumps`.
    keeps_events : bool
        Whether each `Delivery` of its sinks holds the events that it was made of.

    State
    -----
    That of the local app, and the deliveries of the running batch.
    """

    def __init__(
        self,
        checked: CheckedApp,
        producer: str | None = None,
        time_zone: str = "GMT",
        delivers: bool = True,
        stores: OutsideStores | None = None,
        live: bool = False,
        keeps_events: bool = False,
    ) -> None:
        self._outbox = Outbox(producer or checked.name, keeps_events)
        self._answer: Callable[[Sequence[Arrival]], None] | None = None
        super().__init__(
            checked,
            errors=_ErrorsOut(self._outbox) if delivers else None,
            time_zone=time_zone,
            outbox=self._outbox if delivers else None,
            stores=stores,
        )
        self.jumps = Jumps(checked, self._clock, self._context.junctions, live)
        self.jumps.began = True  # an island starts its app at the first event
        #: What may run the queries as a compiled program, where somebody has asked for it.
        self.programmed: Programmed | None = None

    def compiles(self) -> None:
        """Have the queries run as a compiled program, where they can; to be called when all have subscribed."""
        self.programmed = Programmed(self.checked, self._context, self._elements)
        self._parts.elsewhere = self.programmed

    def restore(self, data: bytes) -> None:
        """Replace the whole state; see `LocalApp.restore`."""
        if self.programmed is not None:
            self.programmed.forget()
        super().restore(data)

    def query(self, text: str) -> Answer:
        """Put a query to the running app; see `LocalApp.query`.

        A program lends the tables and windows that it names: O(their rows); of a table that it only reads those rows
        that meet its comparisons with constants.
        """
        if self.programmed is None:
            return super().query(text)
        return self._on_demand.answer(text, self.programmed.stores_lent)

    def held_rows(self) -> int:
        """Return how many rows are held; see `LocalApp.held_rows`."""
        return super().held_rows() + (0 if self.programmed is None else self.programmed.held_rows())

    @property
    def next_timer(self) -> int | None:
        """When the next timer is due; or when time must pass, as a program cannot let more of it pass in one step."""
        due, program = super().next_timer, self.programmed
        if program is None or not program.active or program.farthest == ALWAYS:
            return due
        latest = self.clock + program.farthest
        return latest if due is None else min(due, latest)

    def take_deliveries(self) -> list[Outgoing]:
        """Return what the sinks have put out since the last call, of each sink in order."""
        return self._outbox.drain()

    def approach(self, to_ms: int) -> None:
        """Let time come to `to_ms`; timers fire that are due before it, those due at `to_ms` do not."""
        if self.programmed is not None:
            guarded(self.programmed.approach, to_ms)
        # The clock must not be at `to_ms` yet when earlier timers look at it
        guarded(self._fire, to_ms - 1)
        self._clock.now = max(self._clock.now, to_ms)

    def _fire(self, to_ms: int) -> None:
        if self.programmed is not None:
            self.programmed.advance(to_ms)
        super()._fire(to_ms)

    def begin(self, batch: StoreBatch) -> None:
        """Begin a batch whose changes in outside stores are to be applied once, however often it is replayed."""
        if self._outside is not None:
            self._outside.begin(batch)

    def commit(self) -> None:
        """Make the changes of the batch in outside stores durable.

        Raises
        ------
        StoreError
            A database does not take them: load the state again, and repeat the batch.
        """
        if self._outside is not None:
            self._outside.commit()

    def deliver(self, parts: Mapping[str, StreamPart], around: Around = _unwatched) -> None:
        """Deliver chunks, each when it is due; see `spdist.engine.island.island.App.deliver`."""
        if COMMANDS in parts:
            self._answer_all(parts[COMMANDS].rows)
        elif not self.deliver_columns(parts):
            self.deliver_one_by_one(parts, around)

    def deliver_columns(self, parts: Mapping[str, StreamPart]) -> bool:
        """Deliver chunks to the program, as columns; tells whether it has taken them: if not, nothing has changed."""
        program = self.programmed
        # The operators start the app, with its first event.
        if program is None or self._timers.next_due == BEFORE_ALL_TIME or not program.begins():
            return False
        # What lies ahead of its time may be refused, each event by itself: that is not for columns
        last = max(int(part.times[-1]) for part in parts.values())
        if not (program.reads(parts) and program.takes_until(last)) or any(part.is_ahead for part in parts.values()):
            return False
        if not program.process_columns(parts):
            return False
        self._clock.now = max(self._clock.now, last)
        return True

    def deliver_one_by_one(self, parts: Mapping[str, StreamPart], around: Around = _unwatched) -> None:
        """Deliver chunks one after the other; see `deliver`."""
        self._saw(parts)
        (first, part), *others = parts.items()
        try:
            if not (others or part.bounds is not None or part.until is not None or part.is_ahead):
                self._in_a_loop(first, part, around)
            else:
                self._in_turn(parts, around)
        except ObserverFailed as failed:
            raise failed.cause from None

    def _in_a_loop(self, stream: str, part: StreamPart, around: Around) -> None:
        """Deliver the events of one stream, each a chunk, in the loop of its only reader, where there is one."""
        clock, heap, rows = self._clock, self._heap, part.rows
        late: Iterable[tuple[int, int]] = ()
        stamps = part.timestamps
        if part.stamps is not None:
            # Their own time does not bring the clock to where they are due
            numbers = numpy.flatnonzero(stamps < part.times)
            late = zip(numbers.tolist(), part.times[numbers].tolist(), strict=True)
        times, move = around(stamps.tolist(), self._move)
        loop = self._context.junction(stream).loop(clock, heap, move)
        done = 0
        for number, due in late:
            loop(islice(times, number - done), rows[done:number])
            done = number
            # The loop looks only at its timestamp.
            if due > clock.now or (heap and heap[0][0] <= due):
                move(due)
        loop(times, rows[done:] if done else rows)

    def _in_turn(self, parts: Mapping[str, StreamPart], around: Around) -> None:
        """Deliver the chunks of several streams, of several events, before timers, and with events of times to come."""
        clock, heap, count = self._clock, self._heap, sum(len(part.ranks) for part in parts.values())
        due, until = numpy.empty(count, numpy.int64), numpy.empty(count, numpy.int64)
        receivers: list[Any] = [None] * count
        given: list[tuple[Any, ...]] = [()] * count
        streams = [""] * count  # who looks whether a batch stands reads from the frame which one is at it
        for stream, part in parts.items():
            receiver = self._near(stream) if part.is_ahead else self._context.junction(stream)
            due[part.ranks], until[part.ranks] = part.times, part.times if part.until is None else part.until
            receive, receive_chunk = receiver.receive, receiver.receive_chunk
            for rank, chunk in zip(part.ranks.tolist(), part.chunks(), strict=True):
                streams[rank] = stream
                if len(chunk) == 1:
                    receivers[rank], given[rank] = receive, chunk[0]
                else:
                    receivers[rank], given[rank] = receive_chunk, (chunk,)
        times, move = around(due.tolist(), self._move)
        program = self.programmed if self.programmed is not None and self.programmed.active else None
        each = zip(streams, receivers, times, until.tolist(), given, strict=True)
        for stream, receive, at, last, arguments in each:  # noqa: B007
            if heap and heap[0][0] <= last:
                move(last)
            if program is not None:
                # What timers of another group put out at `at` comes before the program's own timers of that time
                (program.approach if last < at else program.advance)(at)
            if at > clock.now:
                clock.now = at
            receive(*arguments)

    def _near(self, stream: str) -> Receiver:
        """Return what receives the chunks of a stream but those that lie too far ahead of the clock."""
        junction, refuses = self._context.junction(stream), self.jumps.refuses

        def receive(timestamp: int, row: Row) -> None:
            if not refuses(stream, ((timestamp, row),)):
                junction.receive(timestamp, row)

        def receive_chunk(arrivals: Sequence[Arrival]) -> None:
            if not refuses(stream, arrivals):
                junction.receive_chunk(arrivals)

        return Receiver(receive, receive_chunk)

    def _saw(self, parts: Mapping[str, StreamPart]) -> None:
        if self.programmed is not None:
            self.programmed.saw(sum(len(part.rows) for part in parts.values()))

    def subscribe_each(
        self,
        stream: str,
        receive: Callable[[int, Row], None],
        receive_chunk: Callable[[Sequence[Arrival]], None],
        receive_columns: ReceiveColumns | None = None,
    ) -> None:
        """Call `receive` with each event that is put out alone, and `receive_chunk` with each other chunk.

        Where many chunks are put out together `receive_columns` is called, where there is one.
        """
        if stream == ANSWERS:
            self._answer = receive_chunk
            return

        def receive_rows(timestamp: int, rows: list[Row]) -> None:
            if len(rows) == 1:
                receive(timestamp, rows[0])
            else:
                receive_chunk([(timestamp, row) for row in rows])

        self._context.junction(stream).subscribe(
            Receiver(receive, receive_chunk, receive_rows=receive_rows, receive_columns=receive_columns)
        )

    def subscribe_chunks(self, stream_id: str, callback: Callable[[Sequence[Arrival]], None]) -> None:
        """Call `callback` with each chunk of a stream, after the stream's queries."""
        self._context.junction(stream_id).subscribe(Receiver(lambda ts, row: callback(((ts, row),)), callback))

    def _answer_all(self, commands: Sequence[Row]) -> None:
        for row in commands:
            if self._answer is not None:
                self._answer(((self.clock, text_row(self._answered(row))),))

    def _answered(self, row: Sequence[Any]) -> dict[str, Any]:
        # Known as soon as it was read, so that a refusal can name it
        id = None
        try:
            command = read_command(row)
            id = command.get("id")
            if not isinstance(command.get("query"), str):
                raise MappingError(f"there is no command {sorted(command)}, only a query")
        except MappingError as error:
            return {"id": id, "error": error_of(error)}
        return {"id": id, **answer_of(self, command["query"])}
