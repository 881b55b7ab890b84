"""Messages of topics that a user's own source reads: which topics, and how its ``@map`` makes events of many together.

A run of messages of one partition becomes one record: its payload is that of a record between groups, its offset that
of the last message. The events of a message are put out at the time of the message, as chunks of their own, and their
number at the source is the message's offset. So a record can be cut at any message, and what happens to it after that
is what happens to any record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from spdist.errors import MappingError
from spdist.language import ast
from spdist.language.checking.checked import CheckedApp
from spdist.mapping.base import TRANSPORT_PREFIX, MapSetting, mapped_attributes
from spdist.mapping.bounds import shown
from spdist.mapping.json_columns import ColumnReader
from spdist.operators.base import Row
from spdist.planning.compiled import CompiledInstance
from spdist.planning.topology import AssignedInput, Assignment
from spdist.transports.base import Record, Transport
from spdist.transports.events import EventList, Events, child
from spdist.transports.options import options_of
from spdist.transports.payloads.payload import Payload, payload_columns, since
from spdist.transports.rejects import Rejects
from spdist.transports.source_writer import NUMBERS_EACH

if TYPE_CHECKING:
    from spdist.transports.kafka.record_batches import FetchedMessages

__all__ = [
    "MOST_EVENTS",
    "Mapped",
    "by_time",
    "cut",
    "kafka_endpoints",
    "kafka_sources",
    "map_setting",
    "mapped_topics",
    "wants_keys",
]

#: Beyond it, and below it without a sign, a time does not travel, ms.
_TIMES = 2**63
#: Events of a record; more where one message alone has more.
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
        rows: Any
        rows, columns = self._columns.read(values)
        times, offsets = sent.to_numpy(), numbers.to_numpy()
        if columns is not None or None not in rows:
            columns = None if columns is None else payload_columns(sent, numbers, columns)
            count = len(rows)
            return Events(times, offsets, [b""] * count, numpy.zeros(count, numpy.int64), times, rows, columns)
        events = EventList()
        for number, (time, offset, row) in enumerate(zip(times.tolist(), offsets.tolist(), rows, strict=True)):
            if row is not None:
                events.add(time, offset, b"", 0, time, row)
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
            for number in range(len(events)):
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
            before = int(numpy.searchsorted(order, order[end]))
            while end < len(order) and order[end] == order[end - 1]:
                end += 1
            end = before if before > start else end
        yield start, end
        start = end


def cut(record: Record, position: int) -> Record:
    """Return what a record holds of the messages from offset `position` on."""
    if record.events is not None:
        start = int(numpy.searchsorted(record.events.order, position))
        if not start:
            return record
        events = record.events.part(start, len(record.events))
        return replace(record, value=since(record.value, position), count=len(events), events=events)
    value = since(record.value, position) if record.value else record.value
    return record if value is record.value else replace(record, value=value)


def by_time(partitions: Sequence[Sequence[Events]]) -> Sequence[Events]:
    """Return the events of a batch, given by partition, in the order of their times; each partition's stay in order."""
    if len(partitions) < 2:
        return partitions[0] if partitions else ()
    together = Events.following([events for runs in partitions for events in runs])
    ends = list(accumulate(sum(map(len, runs)) for runs in partitions))
    reached = [numpy.maximum.accumulate(together.at[begin:end]) for begin, end in pairwise((0, *ends))]
    return [together.picked(numpy.lexsort((together.order, numpy.concatenate(reached))))]


def kafka_sources(checked: CheckedApp) -> Mapping[str, tuple[ast.Annotation, ...]]:
    """Return the ``@source(type='kafka')`` of each stream that has some, in the order of the text."""
    found: dict[str, list[ast.Annotation]] = {}
    for stream, source in kafka_endpoints(checked, "source"):
        found.setdefault(stream, []).append(source)
    return {stream: tuple(sources) for stream, sources in found.items()}


def kafka_endpoints(checked: CheckedApp, kind: str) -> Iterator[tuple[str, ast.Annotation]]:
    """Yield each ``@source`` or ``@sink`` of type ``kafka`` with its stream, in the order of the text.

    `kind` is ``source`` or ``sink``.
    """
    for one in checked.app.definitions:
        if isinstance(one, ast.StreamDefinition):
            for annotation in ast.find_annotations(one.annotations, kind):
                if annotation.get("type") == "kafka":
                    yield one.name, annotation


def map_setting(checked: CheckedApp, stream: str, source: ast.Annotation) -> MapSetting:
    """Return the mapping of a source."""
    return MapSetting(stream, checked.streams[stream], next(iter(source.nested("map")), None))


def wants_keys(setting: MapSetting) -> bool:
    """Tell whether a mapping looks at the keys of messages."""
    return f"{TRANSPORT_PREFIX}key" in (mapped_attributes(setting) or ())


def mapped_topics(
    assignments: Iterable[Assignment], names: Mapping[str, str], transport: Transport, scripts: bool = False
) -> dict[str, Mapped]:
    """Return what reads the users' topics of some instances, by our names of the topics.

    Parameters
    ----------
    assignments : iterable of Assignment
        The instances.
    names : mapping of str to str
        From our names of topics to Kafka's.
    transport : Transport
        Of the embedded topics, for what cannot be read.
    scripts : bool
        Whether functions that apps define in Python are known.
    """
    found: dict[str, Mapped] = {}
    for assignment in assignments:
        users = [one for one in assignment.inputs if one.into and one.topic not in found]
        if users:
            instance = CompiledInstance.of(assignment, scripts)
            for one in users:
                found[one.topic] = _mapped(instance, one, names[one.topic], transport)
    return found


def _mapped(instance: CompiledInstance, assigned: AssignedInput, name: str, transport: Transport) -> Mapped:
    assignment, checked, stream = instance.assignment, instance.checked, assigned.stream
    source = kafka_sources(checked)[stream][assigned.number]
    rejects = Rejects(transport, assignment.app, stream, options_of(source, stream), checked.streams.get(f"!{stream}"))
    return Mapped(assigned.topic, name, map_setting(checked, stream, source), rejects, live=not assignment.playback)
