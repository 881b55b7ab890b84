"""Events between groups as columns: what a payload holds, what the merge orders, and their exact order.

On one machine an event is processed depth first: what it causes, and what that causes, before the next event. A *path*
says where in this tree an event is: the number of an output among all that the same cause had in its group, then the
number of an output caused by that, and so on. Written so that comparing `sort_key` of paths as bytes gives that order:

- of two outputs of one cause the earlier comes first, together with everything it causes;
- an event comes after everything it causes: a query that reads both a stream and what another query makes of it stands
  behind that other query, so the other query's output reaches it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy

from spdist.mapping.columns import ColumnarRows, all_rows

__all__ = ["MAX_PATH_BYTES", "TIMER", "EventList", "Events", "child", "next_sibling", "sort_key"]

#: The order of an event that no event caused.
TIMER = -1
#: Paths grow by a byte or so per group on the way. Where groups form a circle they stop growing here.
MAX_PATH_BYTES = 64
#: Numbers below this are one byte; above, a byte that tells their length goes before them.
_SMALL = 0xF0
_END = b"\xff"
_SMALL_NUMBERS = tuple(bytes([number]) for number in range(_SMALL))

Row = tuple[Any, ...]


@dataclass(slots=True, eq=False)
class Events:
    """Events of one stream in the order in which they were put out: parallel columns that nobody changes.

    Parameters
    ----------
    at : numpy.ndarray
        When each was put out by its producer's clock, ms, int64.
    order : numpy.ndarray
        The number, given at the source, of the event that caused it, int64; `TIMER` where a timer did.
    path : Sequence of bytes
        Which outputs of which outputs of that cause it is, see `child`.
    chunk : numpy.ndarray
        Its place in the chunk that was put out together, int64.
    ts : numpy.ndarray
        The timestamps, ms, int64; the very object that `at` is, where that is known to be the same.
    rows : Sequence of tuple
        The values; `ColumnarRows` where they are Arrow columns.
    columns : pyarrow.RecordBatch, optional
        The very same events as the batch of a payload, where that is there already.
    """

    at: Any = ()
    order: Any = ()
    path: Sequence[bytes] = ()
    chunk: Any = ()
    ts: Any = ()
    rows: Sequence[Row] = ()
    columns: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Make arrays of lists."""
        same = self.ts is self.at
        self.at, self.order, self.chunk = map(_int64, (self.at, self.order, self.chunk))
        self.ts = self.at if same else _int64(self.ts)

    @classmethod
    def of(cls, events: Iterable[tuple[int, Row]], first_order: int = 0) -> Events:
        """Return ``(ts, row)`` pairs as events that each are a chunk of their own and are put out when they are due."""
        stamps, rows = [], []
        for ts, row in events:
            stamps.append(ts)
            rows.append(row)
        ts = _int64(stamps)
        at = numpy.maximum.accumulate(ts)
        count = len(rows)
        return cls(at, numpy.arange(first_order, first_order + count), [b""] * count, numpy.zeros(count, int), ts, rows)

    @classmethod
    def following(cls, parts: Sequence[Events]) -> Events:
        """Return the events of several, in order, as those of one; rows stay columns where most are."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls()
        at, order, chunk, ts = (
            numpy.concatenate([getattr(part, name) for part in parts]) for name in ("at", "order", "chunk", "ts")
        )
        path = list(chain.from_iterable(part.path for part in parts))
        return cls(at, order, path, chunk, ts, all_rows([part.rows for part in parts]))

    def __len__(self) -> int:
        return len(self.at)

    def __iter__(self) -> Iterator[tuple[int, int, bytes, int, int, Row]]:
        at, order, chunk, ts = (column.tolist() for column in (self.at, self.order, self.chunk, self.ts))
        return zip(at, order, self.path, chunk, ts, self.rows, strict=True)

    def __eq__(self, other: object) -> bool:
        """Tell whether these are the same events, however their values are kept."""
        if not isinstance(other, Events):
            return NotImplemented
        return len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def is_on_time(self) -> bool:
        """Whether all are put out at their timestamps."""
        return self.at is self.ts or bool((self.at == self.ts).all())

    @property
    def has_one_path(self) -> bool:
        """Whether all have the same path, or there are none."""
        return not self.path or self.path.count(self.path[0]) == len(self.path)

    def part(self, start: int, end: int) -> Events:
        """Return the events from `start` up to, not including, `end`."""
        at = self.at[start:end]
        return Events(
            at,
            self.order[start:end],
            self.path[start:end],
            self.chunk[start:end],
            at if self.at is self.ts else self.ts[start:end],
            self.rows[start:end],
            None if self.columns is None else self.columns.slice(start, end - start),
        )

    def picked(self, numbers: Any) -> Events:
        """Return the events with these numbers, in that order."""
        places = _int64(numbers)
        listed = places.tolist()
        rows = self.rows.at(places) if isinstance(self.rows, ColumnarRows) else [self.rows[n] for n in listed]
        return Events(
            self.at[places],
            self.order[places],
            [self.path[n] for n in listed],
            self.chunk[places],
            self.ts[places],
            rows,
        )


@dataclass(slots=True)
class EventList:
    """Events of one stream that come one by one; `events` makes columns of them.

    State
    -----
    The events since it was cleared.
    """

    at: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    path: list[bytes] = field(default_factory=list)
    chunk: list[int] = field(default_factory=list)
    ts: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def add(self, at: int, order: int, path: bytes, chunk: int, ts: int, row: Row) -> None:
        """Append one event."""
        self.at.append(at)
        self.order.append(order)
        self.path.append(path)
        self.chunk.append(chunk)
        self.ts.append(ts)
        self.rows.append(row)

    def __len__(self) -> int:
        return len(self.rows)

    def events(self) -> Events:
        """Return what was added."""
        return Events(self.at, self.order, [*self.path], self.chunk, self.ts, [*self.rows])

    def clear(self) -> None:
        """Forget all events."""
        for values in (self.at, self.order, self.path, self.chunk, self.ts, self.rows):
            values.clear()


def _int64(values: Any) -> Any:
    return numpy.asarray(values, numpy.int64)


def sort_key(path: bytes) -> bytes:
    """Return the bytes by which paths are compared."""
    return path + _END


def child(path: bytes, number: int) -> bytes:
    """Return the path of output `number`, from 0, that the event at `path` caused in one group."""
    if len(path) >= MAX_PATH_BYTES:
        return path
    return path + (_SMALL_NUMBERS[number] if number < _SMALL else _large(number))


def next_sibling(path: bytes) -> bytes:
    """Return the path of the output after the one at `path`, of the same cause; `path` is no source's event."""
    parent, last, position = 0, 0, 0
    while position < len(path):
        parent, last, width = position, path[position], path[position] - _SMALL
        position += 1
        if width > 0:
            last = int.from_bytes(path[position : position + width], "big")
            position += width
    return child(path[:parent], last + 1)


def _large(number: int) -> bytes:
    width = (number.bit_length() + 7) // 8
    return bytes([_SMALL + width]) + number.to_bytes(width, "big")
