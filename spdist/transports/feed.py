"""How outsiders put events into a topic and take them out: what a notebook, a test or an adapter uses."""

from __future__ import annotations

import math
import sys
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from spdist.display import Shown, note_html, number_of, table_html, time_text
from spdist.errors import MappingError, TransportError
from spdist.java.numbers import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, float32
from spdist.language.checking.checked import ClockSetting
from spdist.language.types import Schema, Type
from spdist.mapping.columns import EventList, Events
from spdist.transports.base import NO_CLOCK, Record, Transport
from spdist.transports.payloads.payload import Payload
from spdist.transports.reading import OrderedEvent, ReadEvent, TopicReader
from spdist.transports.routing import key_partition, key_text

__all__ = ["Feed", "FeedPosition", "checked_row", "read_events"]


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """How far a feed has come: whoever knows it goes on where another one was, with the same numbers.

    Parameters
    ----------
    sent : int
        Number of events.
    clock : int
        What was promised, ms; `NO_CLOCK` before the first event.
    seq : tuple of int
        Number of the next event of each partition; 0 for those that are missing.
    """

    sent: int = 0
    clock: int = NO_CLOCK
    seq: tuple[int, ...] = ()


class Feed(Shown):
    """Publishes events of one stream as one producer, in event time.

    Events are numbered in the order in which they are sent, which fixes their order downstream where timestamps are
    equal. Each is a chunk of its own. Round robin over the partitions, event by event, or by key.

    Parameters
    ----------
    transport, topic
        Where to; the topic must exist.
    schema : Schema
        The stream's attributes.
    producer : str, optional
        Name of this producer; a new one if left out. A feed that was interrupted may be started again under the same
        name and send the same events in the same batches from the beginning: what had arrived is not counted twice.
        An empty name is nobody's: events are not numbered, nothing is promised, and readers need not remember it.
    key : str, optional
        The attribute whose value chooses the partition.
    max_jump_ms : int
        An event that lies further ahead of those before it does not make late what follows; an ``@app:playback`` app
        refuses it. Where that says more with ``@app:clock(max.jump='…')`` this must be as much.
    position : FeedPosition, optional
        Where another feed of this name has come to; the beginning if left out.

    State
    -----
    One number per partition.
    """

    def __init__(
        self,
        transport: Transport,
        topic: str,
        schema: Schema,
        producer: str | None = None,
        key: str | None = None,
        max_jump_ms: int = ClockSetting().max_jump_ms,
        position: FeedPosition | None = None,
    ) -> None:
        self.transport = transport
        self.topic = topic
        self.schema = schema
        self.producer = f"feed-{uuid.uuid4().hex}" if producer is None else producer
        position = position or FeedPosition()
        self.clock = position.clock
        self._max_jump_ms = max_jump_ms
        self._payload = Payload(schema)
        self._partitions = transport.partitions(topic)
        if not self._partitions:
            raise TransportError(
                f"there is no topic {topic!r}", hint="deploy the app that reads it, or create the topic"
            )
        self._key = None if key is None else schema.index(key)
        if key is not None and self._key is None:
            raise MappingError(f"the key {key!r} is no attribute of {schema}")
        self._text = str if self._key is None else key_text(schema.types[self._key])
        known = position.seq[: self._partitions]
        self._seq = [*known, *[0] * (self._partitions - len(known))]
        self._sent = position.sent

    def __repr__(self) -> str:
        events, partitions = number_of(self._sent, "event"), number_of(self._partitions, "partition")
        return f"Feed({self.topic} with {partitions}: {events} as {self.producer or 'nobody'})"

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        clock = "" if self.clock == NO_CLOCK else time_text(self.clock, "milliseconds")
        said = note_html(f"nothing older than {clock} (UTC) will follow") if clock else ""
        return table_html(("attribute", "type"), self.schema, caption=repr(self)) + said

    @property
    def position(self) -> FeedPosition:
        """How far it has come."""
        return FeedPosition(self._sent, self.clock, tuple(self._seq))

    def send(self, events: Iterable[tuple[int, tuple[Any, ...]]]) -> int:
        """Append ``(timestamp ms, row)`` events together, and promise their highest timestamp to every partition.

        An event that is older than one before it is put out late, when the time of that one has come.

        Returns
        -------
        int
            Number of events.

        Raises
        ------
        MappingError
            A row does not fit the stream; nothing was sent.
        """
        rows = [(ts, checked_row(self.schema, ts, row)) for ts, row in events]
        if not rows:
            return 0
        began = self._origin(rows[0][0])
        # What was promised holds for events that are older, too.
        high = rows[0][0] if self.clock == NO_CLOCK else self.clock
        shares = [EventList() for _ in range(self._partitions)]
        for number, (ts, row) in enumerate(rows, self._sent):
            # An event too far ahead does not move the promise: one wrong time would make all later events late.
            if ts - high <= self._max_jump_ms:
                high = max(high, ts)
            shares[self._partition(number, row)].add(high, number, b"", 0, ts, row)
        # A promise is a producer's: nobody is one, so nothing is promised.
        clock = high if self.producer else NO_CLOCK
        records = list(began)
        # A copy: after an append that failed the same events get the same numbers again.
        seq = list(self._seq)
        for partition, share in enumerate(shares):
            records.extend(self._records(partition, share.events(), seq, clock))
        self.transport.append(records)
        self._seq, self._sent, self.clock = seq, self._sent + len(rows), clock
        return len(rows)

    def advance(self, ts: int) -> None:
        """Promise that no event older than `ts` ms will follow, so that time passes downstream without events."""
        if ts > self.clock and self.producer:
            records = [*self._origin(ts), *(self._promise(partition, ts) for partition in range(self._partitions))]
            self.transport.append(records)
            self.clock = ts

    def _origin(self, ts: int) -> Iterator[Record]:
        """Tell every partition when this feed's time begins, so that all readers start with the same clock."""
        if self.clock == NO_CLOCK and self.producer:
            yield from (self._promise(partition, ts) for partition in range(self._partitions))

    def _partition(self, number: int, row: tuple[Any, ...]) -> int:
        if self._key is None:
            return number % self._partitions
        return key_partition(self._text(row[self._key]), self._partitions)

    def _promise(self, partition: int, clock: int) -> Record:
        return Record(self.topic, partition, b"", 0, self.producer, self._seq[partition], clock)

    def _records(self, partition: int, share: Events, seq: list[int], clock: int) -> Iterator[Record]:
        if not len(share):
            if self.producer:
                yield self._promise(partition, clock)
            return
        left = len(share)
        for count, value in self._payload.encode_within(share):
            left -= count
            # Only the last record of a share promises the new time: before it earlier events are still to come.
            promise = clock if not left else self.clock
            yield Record(self.topic, partition, value, count, self.producer, seq[partition], promise)
            seq[partition] += count


def read_events(transport: Transport, topic: str, schema: Schema) -> list[ReadEvent]:
    """Return all events of a topic so far as ``(timestamp, row)``, without repeats, in the order one machine gives.

    Each bears its id. Of each partition in the order in which they were put out; partitions are merged by the time of
    putting out, then by the order at the source.

    Raises
    ------
    TransportError, MappingError
        The topic is not there, or holds another stream.
    """
    transport.end_offsets(topic)  # raises where it is not there
    reader = TopicReader(transport, topic, Payload(schema))
    entries: list[OrderedEvent] = []
    ended = False
    while not ended:
        more, ended = reader.page(100_000)
        entries += more
    # Pages are sorted in themselves only, see `TopicReader`.
    entries.sort(key=lambda entry: entry.key)
    return [entry.event for entry in entries]


_RANGES = {Type.INT: (INT_MIN, INT_MAX), Type.LONG: (LONG_MIN, LONG_MAX)}
_REALS = (Type.FLOAT, Type.DOUBLE)
#: Whole numbers above have no real number near them.
_LARGEST = int(sys.float_info.max)


def checked_row(schema: Schema, ts: int, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return `row` with whole numbers as reals where the stream has reals; raise MappingError where it does not fit."""
    # The least long is `NO_CLOCK` and no time; a bool would be an int.
    if type(ts) is not int or not LONG_MIN < ts <= LONG_MAX:
        raise MappingError(f"{ts!r} is no timestamp", hint="timestamps are whole numbers of ms since 1970")
    if len(row) != len(schema):
        raise MappingError(f"the event {tuple(row)!r} has {len(row)} values, the stream has {len(schema)}: {schema}")
    return tuple(
        value if value is None else _value(name, kind, value) for (name, kind), value in zip(schema, row, strict=True)
    )


def _value(name: str, kind: Type, value: Any) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    fits: bool
    if kind in _RANGES:
        low, high = _RANGES[kind]
        fits = whole and low <= value <= high
    elif kind in _REALS:
        fits = isinstance(value, float) or (whole and abs(value) <= _LARGEST)
        value = _real(kind, value) if fits else value
    elif kind is Type.STRING:
        fits = isinstance(value, str)
    else:
        fits = kind is Type.OBJECT or isinstance(value, bool)
    if not fits:
        raise MappingError(f"the attribute {name} is of type {kind}, {value!r} is not")
    return value


def _real(kind: Type, value: float) -> float:
    real = float(value)
    return float32(real) if kind is Type.FLOAT and math.isfinite(real) else real
