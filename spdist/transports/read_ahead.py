"""Reads a little ahead, so that a reader can learn how large records are before it takes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from spdist.transports.base import Record, Transport
from spdist.transports.log import LogTransport

__all__ = ["ReadAhead", "SizedReader", "sized_reader"]

#: What is fetched at a time.
_RECORDS = 200
_NOTHING = (0, 0)


class SizedReader(Protocol):
    """What a reader that fills batches needs of a transport."""

    def sizes(self, topic: str, partition: int, offset: int, limit: int = 1000) -> list[tuple[int, int]]:
        """Return ``(events, bytes)`` of some records from `offset` on, up to `limit`; none where there are none yet."""
        ...

    def read(self, topic: str, partition: int, offset: int, limit: int = 1000) -> list[Record]:
        """Return the records with offsets from `offset` to ``offset + limit - 1``."""
        ...


def sized_reader(transport: Transport) -> SizedReader:
    """Return a reader of the topics of `transport`: itself where it knows sizes, else one that reads ahead."""
    return transport if isinstance(transport, LogTransport) else ReadAhead(transport)


class ReadAhead:
    """A reader of any transport that tells sizes first, as the embedded log does without reading.

    Both methods count offsets: where a record was deleted there is none, and its size is nothing.

    Parameters
    ----------
    transport : Transport
        Whose topics are read.

    State
    -----
    Of each partition the records between what was taken last and what was looked at: about a batch.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._windows: dict[tuple[str, int], _Window] = {}

    def sizes(self, topic: str, partition: int, offset: int, limit: int = 1000) -> list[tuple[int, int]]:
        """Return ``(events, bytes)`` of up to `limit` records from `offset` on."""
        window = self._windows.get((topic, partition))
        # The reader has gone somewhere else, for example back to its last checkpoint.
        if window is None or not window.start <= offset <= window.end:
            window = self._windows[topic, partition] = _Window(offset, offset)
        missing = offset + limit - window.end
        if missing > 0:
            found = self.transport.read(topic, partition, window.end, min(_RECORDS, missing))
            window.held.update((record.offset, record) for record in found)
            # By offsets and not by their number: where records were deleted there are fewer.
            window.end = found[-1].offset + 1 if found else window.end
        wanted = (window.held.get(number) for number in range(offset, min(window.end, offset + limit)))
        return [_NOTHING if record is None else (record.count, len(record.value)) for record in wanted]

    def read(self, topic: str, partition: int, offset: int, limit: int = 1000) -> list[Record]:
        """Return the records with offsets from `offset` to ``offset + limit - 1``, and forget those before them."""
        window = self._windows.get((topic, partition))
        if window is None or not window.start <= offset <= offset + limit <= window.end:
            found = self.transport.read(topic, partition, offset, limit)
            # A transport counts records and this method offsets: behind a hole it returns some that were not asked for.
            return [record for record in found if record.offset < offset + limit]
        for number in range(window.start, offset):
            window.held.pop(number, None)
        window.start = offset
        return [window.held[number] for number in range(offset, offset + limit) if number in window.held]


@dataclass(slots=True)
class _Window:
    """What is known of the offsets from `start` to `end`, exclusive."""

    start: int
    end: int
    held: dict[int, Record] = field(default_factory=dict)
