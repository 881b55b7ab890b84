"""Events as columns, with their exact order between groups; their values as Arrow's; and arrays of pieces of bytes.

Values become Python's objects, rows, when somebody looks at them. Pieces of bytes are what messages are read from, put
together as and sent in, without the GIL.

On one machine an event is processed depth first: what it causes, and what that causes, before the next event. A *path*
says where in this tree an event is: the number of an output among all that the same cause had in its group, then the
number of an output caused by that, and so on. Written so that comparing `sort_key` of paths as bytes gives that order:

- of two outputs of one cause the earlier comes first, together with everything it causes;
- an event comes after everything it causes: a query that reads both a stream and what another query makes of it stands
  behind that other query, so the other query's output reaches it first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, groupby
from typing import Any, overload

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from spdist.language.types import Type

__all__ = [
    "ARROW",
    "MAX_PATH_BYTES",
    "OCTETS",
    "PYTHON",
    "TIMER",
    "ColumnarRows",
    "EventList",
    "Events",
    "all_rows",
    "bits",
    "bounds",
    "child",
    "column_of",
    "joined",
    "next_sibling",
    "octets_of",
    "octets_within",
    "sort_key",
    "validity",
]

Row = tuple[Any, ...]

#: SiddhiQL type → how its values travel. A float travels with 64 bits: where a double was cast to float, Siddhi does
#: not round it, and the next group must not see another number.
ARROW: dict[Type, Any] = {
    Type.STRING: pa.string(),
    Type.INT: pa.int32(),
    Type.LONG: pa.int64(),
    Type.FLOAT: pa.float64(),
    Type.DOUBLE: pa.float64(),
    Type.BOOL: pa.bool_(),
}
#: SiddhiQL type → that of its values in Python.
PYTHON = {Type.STRING: str, Type.INT: int, Type.LONG: int, Type.FLOAT: float, Type.DOUBLE: float, Type.BOOL: bool}

_KINDS = {arrow: kind for kind, arrow in ARROW.items()}

#: The type of the arrays, with offsets of 64 bits: what a batch puts out may be more than 2 GiB.
OCTETS = pa.large_binary()
_NOTHING = pa.scalar(b"", OCTETS)

#: The order of an event that no event caused.
TIMER = -1
#: Paths grow by a byte or so per group on the way. Where groups form a circle they stop growing here.
MAX_PATH_BYTES = 64
#: Numbers below this are one byte; above, a byte that tells their length goes before them.
_SMALL = 0xF0
_END = b"\xff"  # above the first byte of any number: an event comes after what it causes
#: Of so many paths it is remembered which one follows.
_MOST_SIBLINGS = 1 << 16
_SMALL_NUMBERS = tuple(bytes([number]) for number in range(_SMALL))


class ColumnarRows(Sequence[Row]):
    """Rows of Arrow columns: whoever looks at many values together takes them from there.

    Parameters
    ----------
    columns : pyarrow.RecordBatch
        The values, at least one column.
    wanted : Callable
        Called when somebody looks at the rows one by one, whether they are made then or were before.

    State
    -----
    The rows, once they were made, and whether somebody has looked at them.
    """

    __slots__ = ("_columns", "_rows", "_told", "_wanted")

    def __init__(self, columns: Any, wanted: Callable[[], None]) -> None:
        self._columns = columns
        self._wanted = wanted
        self._rows: list[Row] | None = None
        self._told = False

    @classmethod
    def of(cls, rows: Sequence[Row], kinds: Sequence[Type], attributes: Collection[int]) -> ColumnarRows | None:
        """Return some attributes of rows as columns, the others as nulls; None where a value is not of its type.

        Rows that are columns already are returned as they are.

        Parameters
        ----------
        rows : Sequence of tuple
            At least one.
        kinds : Sequence of Type
            Of all attributes.
        attributes : collection of int
            Those that are wanted.
        """
        if isinstance(rows, cls):
            return rows
        columns = []
        for number, kind in enumerate(kinds):
            arrow = ARROW.get(kind, pa.null())
            if number not in attributes:
                columns.append(pa.nulls(len(rows), arrow))
                continue
            try:
                columns.append(column_of([row[number] for row in rows], kind))
            except (TypeError, pa.ArrowException, ValueError, OverflowError):  # also half a character, or too large
                return None
        return cls(_batch(columns), lambda: None)

    @classmethod
    def following(cls, parts: Sequence[ColumnarRows]) -> ColumnarRows:
        """Return the rows of several, at least one, that have columns of the same types, as those of one."""
        chunks = zip(*(part._columns.columns for part in parts), strict=True)
        made = cls(_batch([pa.concat_arrays(column) for column in chunks]), parts[0]._wanted)
        lists = [part._rows for part in parts if part._rows is not None]
        if len(lists) == len(parts):  # else rows would be made that nobody may look at
            made._rows = list(chain.from_iterable(lists))
        return made

    def alike(self, rows: Sequence[Row]) -> ColumnarRows | None:
        """Return other rows as columns of the types of these; None where a value is of another type.

        Rows that are columns already are returned as they are; others stay the same objects.
        """
        kinds = [_KINDS.get(type, Type.OBJECT) for type in self.types]
        made = ColumnarRows.of(rows, kinds, range(len(kinds)))
        if made is not None and made is not rows:
            made._wanted, made._rows = self._wanted, [*rows]
        return made

    def cut(self, begin: int, end: int) -> ColumnarRows:
        """Return rows that follow one another, as columns; those that are made stay the same objects."""
        made = None if self._rows is None else self._rows[begin:end]
        return self._some(self._columns.slice(begin, end - begin), made)

    def at(self, places: Any) -> ColumnarRows:
        """Return the rows at `places`, a `numpy.ndarray`; those that are made stay the same objects."""
        made = None if self._rows is None else [self._rows[place] for place in places.tolist()]
        return self._some(self._columns.take(pa.array(places)), made)

    def _some(self, columns: Any, made: list[Row] | None) -> ColumnarRows:
        """Return some of the rows; of those that are made only who looks at them wants the next ones made, too."""
        found = ColumnarRows(columns, (lambda: None) if made is None else self._wanted)
        found._rows = made
        return found

    def make(self) -> None:
        """Make all rows now: where it is known that they are wanted."""
        self._rows = _rows(self._columns)

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self._columns.num_rows)

    def __iter__(self) -> Iterator[Row]:
        """Iterate over the rows."""
        return iter(self._made())

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | Sequence[Row]:
        """Return a row, or some of them; nobody is told when only those are made."""
        if isinstance(place, slice) and place.step in (None, 1):
            begin, end, _ = place.indices(len(self))
            return self.cut(begin, max(begin, end))
        return self._made()[place]

    def single(self, place: int) -> Row:
        """Return one row, where others are not wanted."""
        if self._rows is not None:
            return self._rows[place]
        return tuple(column[place].as_py() for column in self._columns.columns)

    @property
    def types(self) -> tuple[Any, ...]:
        """The Arrow types of the columns."""
        return tuple(column.type for column in self._columns.columns)

    @property
    def width(self) -> int:
        """Number of values in each row."""
        return int(self._columns.num_columns)

    def __repr__(self) -> str:
        return repr(self._made())

    def __eq__(self, other: object) -> bool:
        """Tell whether these are the rows of another sequence."""
        return self._made() == (other._made() if isinstance(other, ColumnarRows) else other)

    __hash__ = None  # type: ignore[assignment]

    def column(self, number: int) -> Any:
        """Return the values of an attribute as an Arrow array."""
        return self._columns.column(number)

    def named(self, schema: Any) -> Any:
        """Return the columns as a `pyarrow.RecordBatch` of a schema."""
        return pa.RecordBatch.from_arrays(self._columns.columns, schema=schema)

    def _made(self) -> list[Row]:
        if not self._told:
            self._told = True
            self._wanted()
        if self._rows is None:
            self.make()
        assert self._rows is not None
        return self._rows


def all_rows(parts: Sequence[Sequence[Row]]) -> Sequence[Row]:
    """Return the rows of several sequences, at least one, as one; columns stay columns, and fewer rows become some."""
    if len(parts) == 1:
        return parts[0]
    read = [part for part in parts if isinstance(part, ColumnarRows)]
    if len({part.types for part in read}) == 1 and 2 * sum(map(len, read)) >= sum(map(len, parts)):
        alike = [made for part in parts if (made := read[0].alike(part)) is not None]
        if len(alike) == len(parts):
            return ColumnarRows.following(alike)
    return list(chain.from_iterable(parts))


def _batch(columns: Sequence[Any]) -> Any:
    return pa.RecordBatch.from_arrays(columns, list(map(str, range(len(columns)))))


def _rows(columns: Any) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in columns.columns), strict=True))


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
        same = self.ts is self.at  # asked before arrays are made of them, which would be two
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
        return Events(self.at, self.order, [*self.path], self.chunk, self.ts, [*self.rows])  # `clear` empties lists

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


@lru_cache(_MOST_SIBLINGS)
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


def column_of(values: Sequence[Any], kind: Type) -> Any:
    """Return values as an Arrow array.

    Raises
    ------
    TypeError
        One is not of the type, or Arrow has none for it.
    pyarrow.ArrowException, ValueError, OverflowError
        One is half a character, or too large.
    """
    if kind not in PYTHON or not set(map(type, values)) <= {PYTHON[kind], type(None)}:
        raise TypeError(f"a value is no {kind}")
    return pa.array(values, ARROW[kind])


def octets_of(texts: Sequence[str]) -> Any:
    """Return texts in UTF-8; half a character is a question mark, as in Java."""
    try:
        return pa.array(texts, pa.large_string()).cast(OCTETS)
    except UnicodeEncodeError:
        return pa.array([text.encode(errors="replace") for text in texts], OCTETS)


def octets_within(bounds: Any, values: Any) -> Any:
    """Return what lies between `bounds`, an int64 array with one more than there are pieces, in a buffer of bytes."""
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(values)]
    return pa.LargeBinaryArray.from_buffers(OCTETS, len(bounds) - 1, buffers)


def bits(flags: Any) -> Any:
    """Return flags, an array of bools, as a buffer of bits: which values there are, or bools as values."""
    return pa.py_buffer(numpy.packbits(flags, bitorder="little"))


def validity(nulls: Any) -> Any:
    """Return which values there are, as Arrow's bits: those where an array is 0; None where all are."""
    return bits(nulls == 0) if numpy.count_nonzero(nulls) else None


def bounds(octets: Any) -> Any:
    """Return where the pieces of an array of octets begin in its buffer of values, and where all end."""
    return numpy.frombuffer(octets.buffers()[1], numpy.int64)[octets.offset : octets.offset + len(octets) + 1]


def joined(*pieces: Any) -> Any:
    """Return pieces joined row by row: arrays, at least one, and bytes that are the same in each row.

    The rows of the array that is returned follow one another in its buffer of values.
    """
    parts: list[Any] = []
    for same, some in groupby(pieces, lambda piece: isinstance(piece, bytes)):
        run = list(some)
        parts += [pa.scalar(b"".join(run), OCTETS)] if same else run
    return pc.binary_join_element_wise(*parts, _NOTHING)
