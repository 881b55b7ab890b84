"""What a shard of a group was given since a snapshot of it, read from its stored state: a log that can be replayed.

Values only: the running group is neither asked nor touched. Records become events, repeats fall away and events of
several topics are put in order as in the island that has processed them (`spdist.engine.island.island`), by the same
intake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from spdist.engine.island.hosted import HostedApp
from spdist.engine.island.intake import Intake
from spdist.engine.island.island import ISLAND_FORMAT
from spdist.engine.island.publish import Publisher
from spdist.engine.island.waiting import chunk_now
from spdist.engine.local.app import LocalApp
from spdist.engine.local.state_transfer import read_state
from spdist.engine.replay.evidence import EventPlace
from spdist.engine.replay.input_log import GivenEvent, InputLog, OnDemandWrite, Step, chunks, detached
from spdist.engine.shards.state import Segment
from spdist.errors import MappingError, SpdistError, StateError
from spdist.history import clock_text
from spdist.language.checking.checked import CheckedApp
from spdist.language.parsing.parser import parse_on_demand
from spdist.mapping.columns import TIMER, Events
from spdist.operators.base import Row
from spdist.operators.core.codec import decode
from spdist.planning.topology import AssignedInput, AssignedOutput, Assignment
from spdist.transports.base import NO_CLOCK, Record
from spdist.transports.commands import SCHEMAS, read_command
from spdist.transports.payloads.payload import PLACE

__all__ = ["ShardLog", "shard_log"]


@dataclass(frozen=True)
class ShardLog(InputLog):
    """What a shard of a group instance was given since a snapshot, in the order in which it has processed that.

    Parameters
    ----------
    checked, steps, start, end, base
        As of `InputLog`; `base` is the state of the app in the snapshot, `start` the time of that.
    live : bool
        Whether the app follows the clock on the wall.
    places : mapping of (str, int) to EventPlace
        Where each event stands, by its stream and position. What waited for its turn in the snapshot is left out.
    between : frozenset of str
        The topics among them that groups put out.
    outputs : tuple of AssignedOutput
        What the shard publishes.
    echoed : frozenset of str
        Streams of which it reads what it publishes itself: what others have published of them it does not again.
    numbers : mapping, optional
        Of `Publisher`, where the log begins; none where it begins with the shard.
    alone : bool
        Whether each chunk is processed as if there were no others.
    limit : str
        Why nothing before it is known.
    """

    live: bool = False
    places: Mapping[tuple[str, int], EventPlace] = field(default_factory=dict)
    between: frozenset[str] = frozenset()
    outputs: tuple[AssignedOutput, ...] = ()
    echoed: frozenset[str] = frozenset()
    numbers: Mapping[str, Any] | None = None
    alone: bool = False
    limit: str = ""

    @property
    def since(self) -> str:
        """From when on it tells what came in."""
        return self.limit or f"inputs are kept since {clock_text(self.start)}"

    def part(self, stream: str, number: int) -> tuple[ShardLog, int]:
        """Return the part of the log that is enough for an event to come out, and its number in there."""
        if not self.alone:
            return self, number
        app, came = self.app(), 0

        def count(timestamp: int, row: Row) -> None:
            nonlocal came
            came += 1

        app.subscribe(stream, count)
        self.begin(app)
        for chunk in chunks(self.steps):
            before = came
            self.deliver(app, chunk)
            if came > number:
                clock = chunk[0].clock
                return replace(self, steps=tuple(chunk), start=clock, end=clock), number - before
        return self, number

    def app(self) -> HostedApp:
        """Return a new app as an island hosts it, without sinks and with all tables in memory."""
        app = HostedApp(self._detached, delivers=False, live=self.live)
        app.failures.count = 1
        return app

    def sending_app(self, producer: str) -> HostedApp:
        """Return the same app with its sinks: what they put out is numbered as the producer's, and goes nowhere."""
        app = HostedApp(detached(self.checked, sinks=True), producer, live=self.live, keeps_events=True)
        app.failures.count = 1
        return app

    def publisher(self, producer: str, stream: str, topic: str) -> Publisher | None:
        """Return what numbers the events of a stream for a topic from here on; None where it is not published there."""
        outputs = [one for one in self.outputs if one.stream == stream]
        if not any(publishing.topic == topic for one in outputs for publishing in one.publishing):
            return None
        made = Publisher(producer, outputs, self.checked.streams)
        if self.numbers is not None:
            made.restore(dict(self.numbers))
        return made

    def reach(self, app: LocalApp, step: Step) -> None:
        """Let time pass until a step is due; timers due at that time fire, unless the step comes before them."""
        if isinstance(app, HostedApp) and isinstance(step, GivenEvent) and step.before_timers:
            app.approach(step.clock)
        else:
            app.advance(step.clock)

    def deliver(self, app: LocalApp, chunk: Sequence[Step]) -> None:
        """Let time pass until a chunk is due, and give it to the app with the clock where that is."""
        first = chunk[0]
        self.reach(app, first)
        if isinstance(first, OnDemandWrite):
            with suppress(SpdistError):  # who asked was told, and nothing has changed
                app.query(first.text)
        elif isinstance(app, HostedApp):
            arrivals = [(one.timestamp, one.row) for one in chunk if isinstance(one, GivenEvent)]
            app.deliver({first.stream: chunk_now(arrivals, app.clock)})

    def place(self, one: GivenEvent) -> EventPlace | None:
        """Return where one of its events stands in a topic; None for what waited for its turn in the snapshot."""
        return self.places.get((one.stream, one.position))

    def producer(self, place: EventPlace | None) -> str:
        """Return the group instance, or shard of one, that has put out what stands there; empty for what came in."""
        return place.producer if place is not None and place.topic in self.between else ""


def shard_log(
    assignment: Assignment, checked: CheckedApp, snapshot: bytes, segments: Iterable[Segment], merge_wait_ms: int
) -> ShardLog:
    """Return what a shard was given, from what is stored of it.

    Parameters
    ----------
    assignment : Assignment
        What has processed the segments; kept with them.
    checked : CheckedApp
        The app in it.
    snapshot : bytes
        What `Island.snapshot` gave; empty where the shard began with the first segment.
    segments : iterable of Segment
        All that followed.
    merge_wait_ms : int
        How long the shard has waited for a producer that lags, ms.

    Raises
    ------
    StateError
        The bytes are no snapshot of a group, or one that this version cannot read.
    """
    listed = list(segments)
    reader = _SegmentReader(_with_user_topics(assignment, listed), checked, merge_wait_ms)
    if snapshot:
        reader.restore(snapshot)
    for segment in listed:
        reader.read(segment)
    return reader.log()


class _SegmentReader:
    """Puts the events of segments in order, as an island does, and processes none."""

    def __init__(self, assignment: Assignment, checked: CheckedApp, merge_wait_ms: int) -> None:
        self._checked = checked
        self._live = not assignment.playback
        self._assignment = assignment
        self._numbers: Mapping[str, Any] | None = None
        schemas = {**checked.streams, **SCHEMAS}
        self._intake = _PlacingIntake(assignment, schemas, merge_wait_ms=merge_wait_ms, clock=checked.clock)
        self._base: bytes | None = None
        self._start: int | None = None
        #: Up to when time has passed, by the batches before, and by what has come in this one.
        self._reached = self._end = NO_CLOCK
        self._chunks = 0
        self._steps: list[Step] = []
        self._positions: dict[str, int] = {}
        self._places: dict[tuple[str, int], EventPlace] = {}

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot of the island."""
        state = decode(snapshot)
        if not isinstance(state, dict) or state.get("island") != ISLAND_FORMAT:
            raise StateError("these bytes are no snapshot of a group that this version can read")
        self._intake.restore(state)
        self._numbers = state["publisher"]
        # Before its first time an island has no app that has begun, and none in its snapshot.
        if state["started"]:
            self._base = state["app"]
            self._start = self._end = self._reached = read_state(state["app"])["clock"]

    def read(self, segment: Segment) -> None:
        """Put the events of the next segment in order; see `Island.process`."""
        if not segment.opening:
            self._process(segment)
        self._intake.undone.add(segment.undone)

    def _process(self, segment: Segment) -> None:
        merge = self._intake.merge
        self._intake.read(segment.records, segment.tick)
        frontier = merge.frontier(segment.tick)
        if segment.closing:
            frontier = merge.close()
        if frontier != NO_CLOCK:
            if self._start is None:
                first = merge.first
                self._start = frontier if self._live or first is None else min(first, frontier)
            # What timers of another group put out comes before timers due then, unless time has passed up to there
            # with the batches before: then they have fired.
            for at, order, _, stream, arrivals in chain.from_iterable(due.chunks() for due in merge.due()):
                for timestamp, row in arrivals:
                    self._add(stream, timestamp, row, at, order == TIMER and at > self._reached)
                self._chunks += 1
            self._reached = self._end = max(self._end, frontier)
        for row in self._intake.take_commands():
            self._write(row)

    def _add(self, stream: str, timestamp: int, row: Row, at: int, before_timers: bool) -> None:
        # The clock never goes back: what is due before it is delivered with the clock where that is.
        clock = self._end = max(self._end, at)
        position = self._positions.get(stream, 0)
        self._positions[stream] = position + 1
        self._steps.append(GivenEvent(stream, timestamp, row, clock, self._chunks, position, before_timers))
        place = self._intake.places.pop(id(row), None)
        if place is not None:
            self._places[stream, position] = place[1]

    def _write(self, command: Row) -> None:
        """Note a query on demand, where it changes a table."""
        with suppress(SpdistError):
            text = read_command(command).get("query")
            if isinstance(text, str) and parse_on_demand(text).output is not None:
                self._steps.append(OnDemandWrite(text, self._end, self._chunks))
                self._chunks += 1

    def log(self) -> ShardLog:
        """Return what was read."""
        start = self._end if self._start is None else self._start
        given = (self._checked, tuple(self._steps), start, self._end, self._base)
        inputs = self._assignment.inputs
        return ShardLog(
            *given,
            live=self._live,
            places=self._places,
            between=frozenset(one.topic for one in inputs if one.producers),
            outputs=self._assignment.outputs,
            echoed=frozenset(one.stream for one in inputs if one.own),
            numbers=self._numbers,
        )


class _PlacingIntake(Intake):
    """Remembers where the events stand that wait for their turn.

    State
    -----
    That of the intake; ``places`` by the identity of a row, with the row, which so stays that one.
    """

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.places: dict[int, tuple[Row, EventPlace]] = {}

    def _decoded(self, record: Record, skip: int = 0) -> Events | None:
        events = super()._decoded(record, skip)
        if events is not None:
            into = record.topic in self._into
            # Our name of a user's topic says first into which of ours it comes.
            topic = record.topic.partition("@")[2].partition(":")[2] if into else record.topic
            numbers = self._numbers(record, skip, len(events))
            for order, number, row in zip(events.order.tolist(), numbers, events.rows, strict=True):
                offset = order if into else record.offset
                place = EventPlace(topic, record.partition, offset, record.producer, number)
                self.places[id(row)] = row, place
        return events

    def _read_outside(self, records: Sequence[Record]) -> None:
        for record in records:  # together they come to the same, but nobody knows which is whose
            self._read(record)

    def _numbers(self, record: Record, skip: int, count: int) -> Iterable[int]:
        """Return the numbers of a record's events among those of its producer."""
        if not record.producer:
            return [-1] * count
        with suppress(MappingError):
            batch = self._payloads[record.topic].read(record.value)
            if PLACE in batch.schema.names:  # it is a shard's share of a record
                return [record.seq + number for number in batch.column(PLACE).to_pylist() if number >= skip]
        return range(record.seq + skip, record.seq + skip + count)


def _with_user_topics(assignment: Assignment, segments: Iterable[Segment]) -> Assignment:
    """Return an assignment with the users' topics that were read, which no plan names; see `UserSource.alias`."""
    known = {one.topic for one in assignment.inputs}
    found: dict[str, set[int]] = {}
    for segment in segments:
        for record in segment.records:
            if record.topic not in known:
                found.setdefault(record.topic, set()).add(record.partition)
    more = [
        AssignedInput(one.stream, topic, tuple(sorted(partitions)), transport="kafka", into=one.topic)
        for topic, partitions in found.items()
        for one in assignment.inputs
        if topic.startswith(f"{one.topic}@")
    ]
    return replace(assignment, inputs=(*assignment.inputs, *more))
