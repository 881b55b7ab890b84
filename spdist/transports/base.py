"""The contract of every transport: topics of partitions of records, read from an offset, appended atomically.

A *record* carries events of one producer as one payload. Its identity, its place in event time and the promise of its
producer travel next to the payload, so that a consumer can drop repeats and merge several producers without opening it:

- ``producer`` and ``seq``: events of a record have the ids ``(producer, seq) … (producer, seq + count - 1)``. A
  producer numbers its events of a topic partition without gaps, and produces the same ids again after a failure. A
  consumer that keeps the highest id per (topic, partition, producer) and drops the rest sees each event once.
- ``clock``: the producer's promise that its time has reached ``clock`` ms: no later record of it in this partition
  holds an event that was put out earlier than that, nor one that a timer put out at that time. (Put out, not stamped:
  what a batch window releases may bear older timestamps. A payload tells both, see
  `spdist.transports.payloads.payload`.) A record without events (``count`` 0) carries only the promise: the null
  messages of Chandy and Misra (1979). A producer's first record in a partition tells when its time began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from spdist.mapping.columns import Events

#: The producer's promise before it has made any.
NO_CLOCK = -(2**63)


@dataclass(frozen=True, slots=True)
class Record:
    """One payload of a topic partition.

    Parameters
    ----------
    topic, partition
        Where it stands, or shall stand.
    value : bytes
        The payload: an Arrow IPC stream of one batch between groups (`spdist.transports.payloads.payload`), empty for
        ``count`` 0.
    count : int
        Number of events in the payload.
    producer : str
        Who made it; empty for outsiders that number nothing.
    seq : int
        Number of the first event, per (topic, partition, producer), from 0.
    clock : int
        Promise in ms, see the module; `NO_CLOCK` where the producer makes none.
    offset : int
        Position in the partition, from 0, rising; -1 before it is appended. Of many messages of a user's topic that
        are one record here it is that of the last one.
    events : Events, optional
        What the payload holds, where that is known already; it does not travel.
    """

    topic: str
    partition: int
    value: bytes
    count: int
    producer: str = ""
    seq: int = 0
    clock: int = NO_CLOCK
    offset: int = -1
    events: Events | None = field(default=None, compare=False, repr=False)


@runtime_checkable
class Transport(Protocol):
    """Topics as a worker, a client or a test sees them. Methods block; they are safe to call from several processes.

    Order: within a partition, records are read in the order of their offsets, which is the order of their appends, and
    a record of an `append` call never appears without those before it in the call and in the partition. So what a
    failed call has left is completed by calling again with the same records: readers drop repeats by their ids.

    The embedded log keeps more: the records of a call to one topic appear together or not at all. On the servers of
    others somebody may delete records, or count what is none (Kafka's transactions): offsets rise, with holes there.
    """

    def ensure(self, topic: str, partitions: int, subjects: Sequence[str] = ()) -> int:
        """Create `topic`, or grow it to `partitions`; never shrink or delete. Return its number of partitions.

        `subjects` name the first partitions for outsiders, where a server knows other names than topics' (NATS).
        """
        ...

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of `topic`, 0 where it does not exist."""
        ...

    def append(self, records: Sequence[Record]) -> None:
        """Append `records` durably: when this returns, all are there.

        Raises TransportError for a topic or partition that is not there, with nothing appended, and
        TransportUnavailableError where nobody has confirmed: then a part may be there.
        """
        ...

    def read(self, topic: str, partition: int, offset: int, limit: int = 1000) -> list[Record]:
        """Return up to `limit` records from `offset` on; an empty list where there is nothing yet.

        Raises TransportError where records from `offset` on were deleted, 0 standing for the oldest that is kept; and
        where `offset` lies behind the end: what was read up to there is not in this topic.
        """
        ...

    def identity(self, topic: str) -> str:
        """Return a name of `topic` that it has as long as it is there: one that is made anew has another.

        Raises TransportError where it does not exist.
        """
        ...

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return for each partition the offset that the next record will get."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


class Repeats:
    """Drops events that were seen before, by their ids.

    State
    -----
    The next expected id for each (topic, partition, producer): O(producers).
    """

    def __init__(self, seen: Mapping[tuple[str, int, str], int] | None = None) -> None:
        self.seen = dict(seen or {})

    def fresh(self, record: Record) -> int:
        """Return how many leading events of `record` are repeats, and remember the rest as seen.

        Records without a producer are never repeats.
        """
        if not record.producer or not record.count:
            return 0
        key = (record.topic, record.partition, record.producer)
        expected = self.seen.get(key, 0)
        # Of what was cut in another way the second time a record may repeat only in part.
        end = record.seq + record.count
        if end > expected:
            self.seen[key] = end
        return min(record.count, max(0, expected - record.seq))
