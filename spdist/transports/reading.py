"""How outsiders take events out of a topic: each once, from a position on that anybody may go on from."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from spdist.errors import MappingError
from spdist.transports.base import NO_CLOCK, Record, Transport

if TYPE_CHECKING:
    from spdist.transports.payloads.payload import Payload

__all__ = ["OrderedEvent", "PartitionPosition", "Position", "ProducerState", "ReadEvent", "TopicReader", "event_id"]

#: Read together from a partition; a record has half a megabyte at most.
_READ_RECORDS = 8
_LOWEST = (NO_CLOCK, 0, b"")

#: When an event was put out (ms), the number of its cause, and the order among what that caused.
Key = tuple[int, int, bytes]


class OrderedEvent(NamedTuple):
    """An event, with what puts those of several producers and partitions in the order that one machine gives."""

    key: tuple[int, int, bytes, int]
    ts: int
    row: tuple[Any, ...]
    #: See `event_id`.
    id: str = ""

    @property
    def event(self) -> ReadEvent:
        """The event as it is given to those who read it."""
        return ReadEvent(self.ts, self.row, self.id)


class ReadEvent(tuple[int, tuple[Any, ...]]):
    """``(timestamp ms, row)`` of an event that was read from a topic, with the id under which one can ask for it.

    Parameters
    ----------
    timestamp : int
        Its time, ms.
    row : tuple
        Its values.
    id : str, optional
        See `event_id`; empty where nobody has numbered it.

    Examples
    --------
    >>> event = ReadEvent(1000, ("attic", 31.0), "Rooms-alert-1@Rooms.Alerts/0:17")
    >>> event == (1000, ("attic", 31.0)), event.id
    (True, 'Rooms-alert-1@Rooms.Alerts/0:17')
    """

    id: str

    def __new__(cls, timestamp: int, row: tuple[Any, ...], id: str = "") -> Self:
        """Return the pair, which bears its id besides."""
        made = super().__new__(cls, (timestamp, row))
        made.id = id
        return made

    def __getnewargs__(self) -> tuple[int, tuple[Any, ...], str]:
        """Return what a copy is made of."""
        return (*self, self.id)


def event_id(producer: str, topic: str, partition: int, number: int) -> str:
    """Return the id of an event in a topic: who has put it there, where, and its number there from that one.

    Who goes on after a failure gives the same id to the same event again. Empty where nobody has numbered it.

    Examples
    --------
    >>> event_id("Rooms-alert-1", "Rooms.Alerts", 0, 17)
    'Rooms-alert-1@Rooms.Alerts/0:17'
    """
    return f"{producer}@{topic}/{partition}:{number}" if producer else ""


@dataclass(frozen=True, slots=True)
class ProducerState:
    """What is known of a producer in a partition.

    Parameters
    ----------
    next : int
        Number of the first event that was not seen.
    high : tuple
        The highest key of those that were.
    """

    next: int = 0
    high: Key = _LOWEST


@dataclass(slots=True)
class PartitionPosition:
    """How far a partition was read.

    Parameters
    ----------
    offset : int
        Of the next record.
    skip : int
        How many of its events were read already.
    heard : dict of str to ProducerState
        The producers so far, to drop what they repeat.
    """

    offset: int = 0
    skip: int = 0
    heard: dict[str, ProducerState] = field(default_factory=dict)


#: By partition; those that are missing were not read.
Position = dict[int, PartitionPosition]


class TopicReader:
    """Reads the events of a topic, without repeats, as near to the order of one machine as what is there allows.

    Parameters
    ----------
    transport, topic
        Where; the topic must exist.
    payload : Payload
        Of its stream.
    position : dict of int to PartitionPosition, optional
        Where to begin; changed as events are read. By default at the beginning.
    unfit : callable, optional
        Told of records that hold no such events, which are left out; without it that is an error.

    State
    -----
    The position: one number per partition and producer. While a page is made, some records of each partition.

    Notes
    -----
    Partitions are merged by the keys of what they begin with, and a page is sorted. Pages that were asked for while
    events came in are not in order among themselves: that would mean to wait for all producers' promises. Who wants
    all events of a topic in order sorts them by their keys, see `spdist.transports.feed.read_events`.
    """

    def __init__(
        self,
        transport: Transport,
        topic: str,
        payload: Payload,
        position: Position | None = None,
        unfit: Callable[[Record, MappingError], None] | None = None,
    ) -> None:
        self.position: Position = {} if position is None else position
        self._partitions = [
            _Partition(transport, topic, number, payload, self.position.setdefault(number, PartitionPosition()), unfit)
            for number in range(transport.partitions(topic))
        ]

    def page(self, limit: int, max_bytes: int | None = None) -> tuple[list[OrderedEvent], bool]:
        """Return up to `limit` events in order, and whether those were all that there are now.

        No record is opened any more when those so far had `max_bytes` together.
        """
        heads = [(head.key, one) for one in self._partitions if (head := one.head()) is not None]
        heapq.heapify(heads)
        entries: list[OrderedEvent] = []
        while heads and len(entries) < limit:
            _, one = heads[0]
            entries.append(one.take())
            # Only between records: one that is opened is used up, so that the next page does not open it again.
            if not one.waiting and max_bytes is not None and sum(p.opened for p in self._partitions) >= max_bytes:
                break
            head = one.head()
            if head is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (head.key, one))
        # Where the loop ends by a limit some partition still has a head.
        ended = not heads
        entries.sort(key=lambda entry: entry.key)
        return entries, ended


class _Partition:
    """The next events of one partition."""

    def __init__(
        self,
        transport: Transport,
        topic: str,
        number: int,
        payload: Payload,
        position: PartitionPosition,
        unfit: Callable[[Record, MappingError], None] | None,
    ) -> None:
        self.number = number
        self.opened = 0
        self.waiting: deque[tuple[Key, int, tuple[Any, ...]]] = deque()
        self._transport = transport
        self._topic = topic
        self._payload = payload
        self._position = position
        self._unfit = unfit
        self._records: Iterator[Record] = iter(())
        self._record: Record | None = None

    def __lt__(self, other: _Partition) -> bool:
        return self.number < other.number

    def head(self) -> OrderedEvent | None:
        """Return the next event without taking it; None where there is none now."""
        while not self.waiting:
            record = next(self._records, None)
            if record is None:
                found = self._transport.read(self._topic, self.number, self._position.offset, _READ_RECORDS)
                if not found:
                    return None
                self._records = iter(found)
                continue
            self._open(record)
        assert self._record is not None
        key, ts, row = self.waiting[0]
        # Never before what this producer has put out already: keys of one producer do not fall.
        return OrderedEvent((*max(key, self._heard(self._record).high), self.number), ts, row)

    def take(self) -> OrderedEvent:
        """Return the next event and go on behind it; `head` has shown that there is one."""
        entry = self.head()
        assert entry is not None and self._record is not None
        position, record = self._position, self._record
        self.waiting.popleft()
        # After each event: whoever keeps the position may stop in the middle of a record.
        position.offset, position.skip = record.offset, position.skip + 1
        number = record.seq + position.skip - 1
        high: Key = entry.key[:3]
        position.heard[record.producer] = ProducerState(self._heard(record).next, high)
        if not self.waiting:
            self._pass(record)
        return entry._replace(id=event_id(record.producer, self._topic, self.number, number))

    def _open(self, record: Record) -> None:
        """Have the events of a record that are new wait."""
        from spdist.mapping.columns import sort_key  # managers come here, and load no Arrow

        position = self._position
        if record.offset != position.offset:
            position.offset, position.skip = record.offset, 0
        repeated = self._heard(record).next - record.seq if record.producer else 0
        start = max(0, repeated, position.skip)
        # Of an outsider's payload it is not known how many events it holds.
        if record.count and (not record.producer or start < record.count):
            self.opened += len(record.value)
            try:
                events = self._payload.decode(record.value, start)
            except MappingError as error:
                if self._unfit is None:
                    raise
                self._unfit(record, error)
            else:
                position.skip = start
                self._record = record
                self.waiting.extend(((at, order, sort_key(path)), ts, row) for at, order, path, _, ts, row in events)
        if not self.waiting:
            self._pass(record)

    def _pass(self, record: Record) -> None:
        """Go on behind a record."""
        position, heard = self._position, self._heard(record)
        position.offset, position.skip = record.offset + 1, 0
        if record.producer and record.count:
            # The greater one: a repeat may end before what is known of its producer.
            position.heard[record.producer] = ProducerState(max(heard.next, record.seq + record.count), heard.high)

    def _heard(self, record: Record) -> ProducerState:
        return self._position.heard.get(record.producer) or ProducerState()
