"""What an island reads, up to the merge: messages become records, records become events, and repeats fall away.

A run of messages of one partition of a topic that a user's own source reads becomes one record (`Mapped`): its payload
is that of a record between groups, its offset that of the last message. The events of a message are put out at the time
of the message, as chunks of their own, and their number at the source is the message's offset. So a record can be cut
at any message, and what happens to it after that is what happens to any record (`Intake`).

Values only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, groupby, islice, pairwise, repeat
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from spdist.engine.island.merge import ChannelKey, Merge
from spdist.engine.local.idle import IdleTime
from spdist.errors import MappingError
from spdist.language.checking.checked import ClockSetting
from spdist.language.types import Schema
from spdist.mapping.base import MapSetting
from spdist.mapping.bounds import shown
from spdist.mapping.columns import EventList, Events, child
from spdist.mapping.json_columns import ColumnReader
from spdist.mapping.rejected import RejectCounter
from spdist.operators.base import Row
from spdist.planning.topology import AssignedInput, Assignment
from spdist.transports.base import NO_CLOCK, Record, Repeats
from spdist.transports.commands import COMMANDS
from spdist.transports.payloads.external import is_marked
from spdist.transports.payloads.payload import Payload, payload_columns
from spdist.transports.rejects import Rejects
from spdist.transports.retracted import UndoneRecords
from spdist.transports.source_writer import NUMBERS_EACH

if TYPE_CHECKING:
    from spdist.transports.kafka.record_batches import FetchedMessages

__all__ = ["MOST_EVENTS", "Intake", "Mapped", "by_time", "within_reach"]

#: Beyond it, and below it without a sign, a time does not travel, ms.
_TIMES = 2**63
#: Events of a record that is made of messages; more where one message alone has more.
MOST_EVENTS = 20_000


class Mapped:
    """Makes records of the messages of one topic.

    Parameters
    ----------
    topic : str
        Our name of the topic.
    name : str
        What Kafka calls it, for ``trp:topic``.
    setting : MapSetting
        The stream that is fed, and the ``@map``.
    rejects : Rejects
        Takes what cannot be read.
    live : bool
        Whether the app follows the clock on the wall: then no message is later than the batch that brings it.

    State
    -----
    That of the mapping.
    """

    def __init__(self, topic: str, name: str, setting: MapSetting, rejects: Rejects, *, live: bool) -> None:
        self.live = live
        self.stream = setting.stream
        self._topic = topic
        self._name = name
        self._columns = ColumnReader(setting)
        self._mapper = self._columns.reader.mapper
        self._payload = Payload(setting.schema)
        self._rejects = rejects

    @property
    def rejected(self) -> int:
        """How many messages, and events of messages, could not be read."""
        return self._rejects.count

    def timely(self, messages: FetchedMessages, now: int) -> FetchedMessages:
        """Return messages, at least one, that are read at `now`, ms: none of them later where the app is live."""
        within = pc.min_max(messages.times)
        if within["min"].as_py() > 0 and not (self.live and within["max"].as_py() > now):
            return messages
        # Very old brokers tell no times, and a clock that goes ahead must not take the app with it.
        sent = messages.times.to_pylist()
        times = [now if time <= 0 or (self.live and time > now) else time for time in sent]
        return replace(messages, times=pa.array(times, pa.int64()))

    def records(self, partition: int, messages: FetchedMessages) -> Iterator[Record]:
        """Yield the records of some messages of a partition, in order; none where there is no event in them."""
        for start in range(0, len(messages), MOST_EVENTS):
            end = start + MOST_EVENTS
            events = self._events(partition, messages, start, end)
            for begin, stop in _parts(events.order):
                part = events if (begin, stop) == (0, len(events)) else events.part(begin, stop)
                yield from self._record(partition, part)

    def _events(self, partition: int, messages: FetchedMessages, start: int, end: int) -> Events:
        given = (messages.times, messages.offsets, messages.values)
        sent, numbers, values = (column.slice(start, end - start) for column in given)
        read = self._columns.read(values)
        times, offsets = sent.to_numpy(), numbers.to_numpy()
        if read.columns is not None or None not in read.rows:
            found = read.events(times, offsets)
            return found if read.columns is None else replace(found, columns=payload_columns(found, read.columns))
        events, rows = EventList(), iter(read.rows)
        counts = repeat(1) if read.counts is None else read.counts.tolist()
        for number, (time, offset, count) in enumerate(zip(times.tolist(), offsets.tolist(), counts, strict=False)):
            for place, row in enumerate(islice(rows, count)):
                if row is not None:
                    events.add(time, offset, child(b"", place) if count > 1 else b"", place, time, row)
                else:
                    self._read(partition, messages, start + number, events)
        return events.events()

    def _read(self, partition: int, messages: FetchedMessages, number: int, events: EventList) -> None:
        """Read one message with the mapping itself."""
        given = (messages.offsets, messages.times, messages.values)
        offset, sent, value = (column[number].as_py() for column in given)
        properties = {
            "topic": self._name,
            "partition": str(partition),
            "offset": str(offset),
            "record.timestamp": str(sent),
        }
        key = messages.keys[number] if messages.keys is not None else None
        if key is not None:
            properties["key"] = key.decode("utf-8", "replace")
        rejected = offset * NUMBERS_EACH

        def lost(error: Exception) -> None:
            nonlocal rejected
            self._reject(partition, value, error, sent, rejected)
            rejected += 1

        try:
            chunks = self._mapper.read(value, properties, sent, lost)
        except MappingError as error:
            lost(error)
            return
        alone = sum(map(len, chunks)) == 1
        made = 0
        for chunk in chunks:
            # In playback the time that an event bears itself moves the clock.
            at = sent if self.live or not chunk else chunk[-1][0]
            for place, (ts, row) in enumerate(chunk):
                if all(-_TIMES <= time < _TIMES for time in (at, ts)):
                    events.add(at, offset, b"" if alone else child(b"", made), place, ts, row)
                else:
                    self._stays(partition, offset, sent, row, f"its time is {ts}")
                made += 1

    def _reject(self, partition: int, value: bytes, error: Exception, sent: int, seq: int) -> None:
        # Numbered by their offsets: what is read again after a failure is known to have been rejected.
        self._rejects.reject(value, error, sent, f"{self._topic}-{partition}", seq)

    def _stays(self, partition: int, offset: int, at: int, row: Row, why: object) -> None:
        """Reject an event that cannot travel."""
        told = MappingError(f"an event cannot travel: {why}")
        self._reject(partition, shown(row).encode(), told, at, offset * NUMBERS_EACH + NUMBERS_EACH // 2)

    def _record(self, partition: int, events: Events) -> Iterator[Record]:
        try:
            value = self._payload.encode(events)
        except Exception as error:  # whatever a value is that others have sent
            if len(events) == 1:
                self._stays(partition, int(events.order[0]), int(events.at[0]), events.rows[0], error)
                return
            for number in range(len(events)):  # to lose only those that do not fit
                yield from self._record(partition, events.part(number, number + 1))
            return
        yield Record(
            self._topic,
            partition,
            value,
            len(events),
            clock=int(events.at.max()),
            offset=int(events.order[-1]),
            events=events,
        )


def _parts(order: Any) -> Iterator[tuple[int, int]]:
    """Yield from where to where the events of a record go, none of which holds a part of a message."""
    start = 0
    while start < len(order):
        end = min(start + MOST_EVENTS, len(order))
        if end < len(order) and order[end] == order[end - 1]:
            # End in front of the message that would be cut; one that fills a record alone is kept whole all the same
            before = int(numpy.searchsorted(order, order[end]))
            while end < len(order) and order[end] == order[end - 1]:
                end += 1
            end = before if before > start else end
        yield start, end
        start = end


class Intake:
    """Reads the records of an island.

    Parameters
    ----------
    assignment : Assignment
        What to read.
    schemas : mapping
        Attributes of each stream that is read.
    merge_wait_ms : int
        How long a live app waits for a producer that lags, in ms.
    clock : ClockSetting
        How the clock of an app moves that is not live.

    State
    -----
    ``merge`` with the events that wait for their turn; one number per producer and partition; commands that were not
    taken yet; what is undone of what is to come; `events_in`; since when nothing has come. `rejected` is no part of a
    snapshot.
    """

    def __init__(
        self, assignment: Assignment, schemas: Mapping[str, Schema], *, merge_wait_ms: int, clock: ClockSetting
    ) -> None:
        self.events_in = 0
        self._idle = IdleTime(assignment, clock)
        inputs = assignment.inputs
        #: Topics of commands: they have no place among the events, and nobody waits for them.
        self._asked = {assigned.topic for assigned in inputs if assigned.stream == COMMANDS}
        self._commands: list[Row] = []
        #: Topics of users' own sources, and the channels into which their events come.
        first = {one.topic: min(one.partitions) for one in inputs if not one.into}
        self._into = {one.topic: (one.into, first[one.into], "") for one in inputs if one.into}
        #: Whether one partition of one such topic is all that is read of them.
        self._one_place = sum(len(one.partitions) for one in inputs if one.into) == 1
        #: Records of the running batch whose events are in the merge before it is whole.
        self._early: list[Record] = []
        merged = [one for one in inputs if one.topic not in self._asked and not one.into]
        self.merge = Merge(merged, live=not assignment.playback, merge_wait_ms=merge_wait_ms)
        self._max_jump_ms = clock.max_jump_ms
        #: Until when sources of a topic partition tell times because of what lay too far ahead, see `within_reach`.
        self._refused: dict[tuple[str, int], int] = {}
        #: Of a live app: the time of the batch that it takes, ms. What it takes ahead comes no later: `Mapped.timely`.
        self._now: int | None = None
        self._repeats = Repeats()
        #: What is passed over since its producers went back to a revision, as this group did.
        self.undone = UndoneRecords()
        #: What outsiders have put into topics and cannot be read, by stream.
        self._rejected: dict[str, RejectCounter] = {}
        self._payloads = {
            one.topic: Payload(
                schemas[one.stream],
                self._rejects(one).add,
                adapts=bool(one.producers) or one.drains,
                foreign=not one.producers,
            )
            for one in inputs
        }
        self._streams = {assigned.topic: assigned.stream for assigned in inputs}
        #: What this group itself publishes to a topic that it reads: it has handed those events on already.
        self._own = {assigned.topic: frozenset(assigned.own) for assigned in inputs if assigned.own}
        self._fed = {assigned.topic for assigned in inputs if not assigned.producers}

    @property
    def rejected(self) -> dict[str, int]:
        """How many messages of outsiders, and events of them, could not be read, by stream."""
        return {stream: counter.count for stream, counter in self._rejected.items()}

    def _rejects(self, assigned: AssignedInput) -> RejectCounter:
        return self._rejected.setdefault(assigned.stream, RejectCounter(f"topic {assigned.topic}"))

    @property
    def is_ahead(self) -> bool:
        """Whether there are events of a batch that is not whole."""
        return bool(self._early)

    def goes_ahead(self, record: Record) -> bool:
        """Whether the events of a record need not wait for the rest of their batch.

        Those from one partition of a user's topic, where that is all that is read of such topics: of several places
        they go in the order of their times.
        """
        return self._one_place and record.topic in self._into

    def read_ahead(self, record: Record) -> Record:
        """Read a record that `goes_ahead` before the rest of its batch; return what `read` is to get in its place."""
        self._offer(self._into[record.topic], self._decoded(record), NO_CLOCK)
        self._early.append(replace(record, events=None))
        return self._early[-1]

    def read(self, records: Iterable[Record], tick: int) -> None:
        """Read the records of a batch, of each topic partition in the order of their offsets; `tick`: its time, ms."""
        self._now = tick if self.merge.live else None
        users: dict[ChannelKey, list[Record]] = {}
        others: list[Record] = []
        heard = False
        for record in records:
            heard = heard or (record.topic in self._fed and record.topic not in self._asked)
            into = self._into.get(record.topic)
            (others if into is None else users.setdefault(into, [])).append(record)
        # First, as some may have been taken already.
        for channel, own in users.items():
            self._read_messages(channel, own)
        self._early.clear()
        for outside, group in groupby(others, _outsiders_place):
            if outside is not None:
                self._read_outside(tuple(group))
            else:
                for record in group:
                    self._read(record)
        self._now = None
        self.merge.idle(self._idle.passes(tick, heard or self.merge.first is None))

    def take_commands(self) -> list[Row]:
        """Return the commands that have come since the last call."""
        commands, self._commands = self._commands, []
        return commands

    def snapshot(self) -> dict[str, Any]:
        """Return the state between two batches as plain data."""
        seen = [[*key, end] for key, end in self._repeats.seen.items()]
        return {
            "merge": self.merge.snapshot(),
            "seen": seen,
            "undone": self.undone.snapshot(),
            "events_in": self.events_in,
            "idle": self._idle.since,
            "refused": [[*place, until] for place, until in self._refused.items()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over the state of a snapshot."""
        self.merge.restore(state["merge"])
        self._repeats = Repeats({(topic, part, name): end for topic, part, name, end in state["seen"]})
        self.events_in = state["events_in"]
        self._idle.since = state.get("idle")
        self._refused = {(topic, partition): until for topic, partition, until in state.get("refused", ())}
        self.undone = UndoneRecords.restored(state.get("undone", ()))

    def _read(self, record: Record) -> None:
        if record.producer in self._own.get(record.topic, ()) or (self.undone and self.undone.covers(record)):
            return
        events = self._decoded(record, self._repeats.fresh(record))
        if record.topic in self._asked:
            self._commands += events.rows if events is not None else ()
            return
        channel = record.topic, record.partition, record.producer
        if record.topic in self._fed:
            # Who makes no promises is a source of the app; see `spdist.transports.source_writer`.
            self._offer(channel, events, record.clock, by_own_times=record.clock == NO_CLOCK)
        else:
            self.merge.offer(channel, events, record.clock)

    def _read_messages(self, channel: ChannelKey, records: Sequence[Record]) -> None:
        """Read what a batch brings from users' topics for one stream."""
        places: dict[tuple[str, int], list[Events]] = {}
        early = set(map(id, self._early))  # these stand for records whose events the merge has
        for record in records:
            events = self._decoded(record) if id(record) not in early else None
            if events is not None and len(events):
                places.setdefault((record.topic, record.partition), []).append(events)
        for events in by_time(list(places.values())):
            self._offer(channel, events, NO_CLOCK)
        # Also a shard that has got no event of the last ones learns how late it is.
        self.merge.offer(channel, None, max(record.clock for record in records))

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
                self._drop(record, error)
                return None
        self.events_in += len(events)
        return events

    def _read_outside(self, records: Sequence[Record]) -> None:
        """Read payloads of outsiders from one partition, as `_read` does one by one, only together."""
        topic, partition = records[0].topic, records[0].partition

        def failed(number: int, error: MappingError) -> None:
            if topic not in self._fed:
                raise error
            self._drop(records[number], error)

        events = self._payloads[topic].decode_outside([record.value for record in records], failed)
        self.events_in += len(events)
        self._offer((topic, partition, ""), events, NO_CLOCK)

    def _offer(self, channel: ChannelKey, events: Events | None, clock: int, *, by_own_times: bool = False) -> None:
        """Have the merge take what came from outside, of which nothing may move the clock too far."""
        if self._now is not None:
            clock = min(clock, self._now)
        if events is not None and len(events):
            if self._now is not None:
                events = _no_later(events, self._now)
            elif not self.merge.live:
                place, reached = channel[:2], self.merge.reached_in(channel)
                before = self._refused.pop(place, None)
                events, refused = within_reach(
                    events, reached, self._max_jump_ms, by_own_times=by_own_times, refused=before
                )
                if refused is not None:
                    self._refused[place] = refused
        self.merge.offer(channel, events, clock)

    def _drop(self, record: Record, error: MappingError) -> None:
        told = MappingError(f"offset {record.offset} of partition {record.partition}: {error.message}")
        self._rejected[self._streams[record.topic]].add(told)


def by_time(partitions: Sequence[Sequence[Events]]) -> Sequence[Events]:
    """Return the events of a batch, given by partition, in the order of their times; each partition's stay in order."""
    if len(partitions) < 2:
        return partitions[0] if partitions else ()
    together = Events.following([events for runs in partitions for events in runs])
    ends = list(accumulate(sum(map(len, runs)) for runs in partitions))
    reached = [numpy.maximum.accumulate(together.at[begin:end]) for begin, end in pairwise((0, *ends))]
    return [together.picked(numpy.lexsort((together.order, numpy.concatenate(reached))))]  # the last key counts first


def _outsiders_place(record: Record) -> tuple[str, int] | None:
    """Return topic and partition of a payload that an outsider put there with a client of its own; None for others."""
    outside = not record.producer and record.clock == NO_CLOCK and is_marked(record.value)
    return (record.topic, record.partition) if outside else None


def within_reach(
    events: Events, reached: int | None, most_ms: int, *, by_own_times: bool, refused: int | None = None
) -> tuple[Events, int | None]:
    """Return events of a channel; none of them is due further ahead than one event may move the clock.

    What lies too far ahead is due without delay and keeps its timestamp, by which the app refuses it
    (`spdist.engine.local.clock_jumps`). It does not depend on how batches are cut.

    Parameters
    ----------
    events : Events
        At least one, in order.
    reached : int, optional
        Up to when the channel has come, ms; None before its first event, which may lie anywhere.
    most_ms : int
        How far one event may move the clock.
    by_own_times : bool
        Whether what lies too far ahead is told by the last event of each chunk. Their source says when events are due,
        and may know of an order that own times do not tell; but it goes by all that it has seen, what is refused here
        included.
    refused : int, optional
        Until when the source has said so because of what was refused, ms: what it says up to then does not count.

    Returns
    -------
    Events
        With the times at which they are due.
    int, optional
        `refused` for what follows; None where the source has gone beyond it.
    """
    times = _said(events) if by_own_times else events.at
    high = int(times[0]) if reached is None else reached
    if refused is None and max(int(times.max()), int(events.at.max())) - high <= most_ms:
        return events, None
    due = []
    for time, said in zip(times.tolist(), events.at.tolist(), strict=True):
        if time - high > most_ms:
            refused = said if refused is None else max(refused, said)
        else:
            trusted = said - high <= most_ms and (refused is None or said > refused)
            high = max(high, said if trusted else time)
        due.append(high)
    if refused is not None and events.at[-1] > refused:
        refused = None
    return replace(events, at=due, columns=None), refused


def _no_later(events: Events, now: int) -> Events:
    """Return events of a live app, none of which is due after `now`, the time of the batch that brings them, in ms."""
    if int(events.at.max()) <= now:
        return events
    return replace(events, at=numpy.minimum(events.at, now), columns=None)  # those hold the old times


def _said(events: Events) -> Any:
    """Return the timestamp of the last event of the chunk of each, as an array."""
    last = numpy.append(numpy.flatnonzero(events.chunk[1:] == 0), len(events) - 1)
    return numpy.repeat(events.ts[last], numpy.diff(last, prepend=-1))
