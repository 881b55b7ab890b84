"""Which records a topic holds already, where it is not known whether an append of them came through.

Who goes on after a failure appends again what may not have been appended, under the same ids. Readers of ours drop such
repeats; others would see them. A producer appends in the order of its numbers, so its newest record in a partition
tells how far it has come there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from spdist.engine.island.cuts import Cut
from spdist.errors import TransportError, TransportUnavailableError
from spdist.transports.base import Record, Transport

__all__ = ["not_appended"]

#: Records of the end of a partition that are read first, and the most that are: others may have appended meanwhile.
_FIRST, _MOST = 16, 4096

_Place = tuple[str, int, str]


def not_appended(transport: Transport, records: Sequence[Record], origins: Mapping[str, Cut]) -> list[Record]:
    """Return those of `records` that their topics do not hold, in order.

    Where that cannot be told a record counts as missing: a repeat does less harm than a loss. So it is where the newest
    record of its producer is not among the last 4,096 of the partition; and where the producer has put nothing into the
    partition since it went back to a revision: what is there under its numbers may be of before.

    Parameters
    ----------
    transport : Transport
        Of the topics, which exist.
    records : sequence of Record
        What may have been appended; of each producer and partition in the order of the numbers.
    origins : mapping of str to Cut
        Producer → where it last went back to; records of others are returned as they are.

    Raises
    ------
    TransportUnavailableError
        The topics cannot be read now.
    """
    first: dict[_Place, int] = {}
    for record in records:
        if record.producer in origins:
            first.setdefault(_place(record), record.seq)
    asked = {place for place, seq in first.items() if seq > origins[place[2]].number(place[0], place[1])}
    newest = _newest(transport, asked)
    return [record for record in records if not _is_there(record, newest.get(_place(record)))]


def _is_there(record: Record, newest: Record | None) -> bool:
    if newest is None:
        return False
    # A promise has no number of its own, so its time tells whether it is there
    return record.seq + record.count <= newest.seq + newest.count and (record.count > 0 or record.clock <= newest.clock)


def _newest(transport: Transport, asked: set[_Place]) -> dict[_Place, Record]:
    """Return the newest record of each producer in its partition, where it is found."""
    found: dict[_Place, Record] = {}
    for topic in {topic for topic, _, _ in asked}:
        ends = transport.end_offsets(topic)
        for partition in {partition for name, partition, _ in asked if name == topic}:
            missing = {place for place in asked if place[:2] == (topic, partition)}
            for record in _backwards(transport, topic, partition, ends[partition]):
                if (place := _place(record)) in missing:
                    found[place] = record
                    missing.remove(place)
                if not missing:
                    break
    return found


def _backwards(transport: Transport, topic: str, partition: int, end: int) -> Iterator[Record]:
    """Yield the last records of a partition, the newest first."""
    count, oldest = _FIRST, max(0, end - _MOST)
    while end > oldest:
        start = max(oldest, end - count)
        try:
            records = transport.read(topic, partition, start, end - start)
        except TransportUnavailableError:
            raise
        except TransportError:  # those have been deleted
            return
        yield from (record for record in reversed(records) if record.offset < end)
        end, count = start, 2 * count


def _place(record: Record) -> _Place:
    return record.topic, record.partition, record.producer
