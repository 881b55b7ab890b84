"""Many payloads of JSON as Arrow columns, without the GIL.

What the mapping makes of payloads in the form that WSO2's json mapping writes, objects and arrays of them, is made here
by a compiled loop, all together and without Python's objects; the columns are those in which events travel between
groups. What the loop is not sure of (an escape, a value in a value, another attribute …) is read by Arrow, as are all
objects until the loop is compiled, and without numba; arrays are left to the mapping then. Arrow's reader takes less
than JSON allows in places, which is refused, and more in few, which is doubted: what is refused or doubted is read by
`BatchReader`, whose result holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import compress
from math import copysign
from typing import Any, NamedTuple

import numpy
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from spdist.language.types import Schema, Type
from spdist.mapping.base import MapSetting
from spdist.mapping.columns import ARROW, OCTETS, ColumnarRows, Events, bits, bounds, child, joined
from spdist.mapping.json_payloads import ENVELOPE
from spdist.mapping.kernels import Kernels
from spdist.mapping.payload_reader import SURELY_REAL, BatchReader, Row

__all__ = [
    "BOOL",
    "DOUBLE",
    "FEW",
    "FLOAT",
    "INT",
    "KINDS",
    "LONG",
    "MISSING",
    "TEXT",
    "THERE",
    "WRITTEN",
    "ColumnReader",
    "JsonLoop",
    "ReadPayloads",
]

#: Kinds of attributes, as numbers.
TEXT, INT, LONG, FLOAT, DOUBLE, BOOL = range(6)
KINDS = {
    Type.STRING: TEXT,
    Type.INT: INT,
    Type.LONG: LONG,
    Type.FLOAT: FLOAT,
    Type.DOUBLE: DOUBLE,
    Type.BOOL: BOOL,
}
#: What the loop knows of a value: nothing, as it is null; itself; its text.
MISSING, THERE, WRITTEN = range(3)

_KERNELS = Kernels(partial(import_module, "spdist.mapping.json_kernels"), "JSON is read by Arrow")
#: What texts may be copied into, bytes; memory that holds no text is not touched.
_MOST_BYTES = 1 << 30

#: Of fewer payloads a call of Arrow costs more than it saves.
FEW = 512
#: Bytes that Arrow parses at a time; what is longer than that by itself is refused.
_BLOCK = 1 << 20
_REALS = (Type.FLOAT, Type.DOUBLE)
#: So many times rows are made that nobody looks at; those are more than are read ahead.
_PATIENCE = 8
#: So many times Arrow reads alone, after the loop was sure of less than half of the payloads.
_PAUSE = 16


class ReadPayloads(NamedTuple):
    """What payloads hold.

    Parameters
    ----------
    rows : Sequence of tuple or None
        The events of the payloads one behind the other; None for a payload that the mapping is to be asked about.
    columns : pyarrow.RecordBatch, optional
        The attributes, where they hold the same.
    counts : numpy.ndarray, optional
        How many rows each payload has, int64; None where each has one.
    """

    rows: Sequence[Row | None]
    columns: Any = None
    counts: Any = None

    def events(self, times: Any, orders: Any) -> Events:
        """Return the events, of each payload at least one; those of a payload are one chunk.

        Parameters
        ----------
        times, orders : numpy.ndarray
            Of each payload, when it was sent, ms, and what numbers its events.
        """
        rows: Any = self.rows
        count, counts = len(rows), self.counts
        if counts is None:
            return Events(times, orders, [b""] * count, numpy.zeros(count, numpy.int64), times, rows)
        times, orders, sizes = (numpy.repeat(values, counts) for values in (times, orders, counts))
        places = numpy.arange(count) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
        most = int(counts.max())
        # Each path is one object: to compare two of them costs less.
        # Events that are alone in their payload have no path, as where a source reads payloads one by one.
        paths = [*(child(b"", place) for place in range(most)), b""]
        path = [paths[place] for place in numpy.where(sizes > 1, places, most).tolist()]
        return Events(times, orders, path, places, times, rows)


class ColumnReader:
    """Reads many payloads of one source, which come as an Arrow array of bytes without nulls.

    Parameters
    ----------
    setting : MapSetting
        The mapping.

    State
    -----
    That of the mapping: ``reader.mapper``; and for speed alone which form the last payloads had, how many times
    something was read since somebody has looked at rows one by one, and how many times more the loop is left out.
    """

    def __init__(self, setting: MapSetting) -> None:
        self.reader = BatchReader(setting)
        self._kinds = setting.schema.types
        self._largest = setting.max_bytes
        self._forms: list[tuple[Any, bool]] = []
        self._unwanted = _PATIENCE
        self._paused = 0
        self._loop: JsonLoop | None = None
        if self.reader.plain:
            self._loop = JsonLoop(setting.schema, self._largest)
            self._schema = pa.schema([pa.field(name, ARROW[kind]) for name, kind in setting.schema])
            within = pa.schema([pa.field(ENVELOPE, pa.struct(list(self._schema)))])
            self._forms = [(within, True), (self._schema, False)]
            doubles = "|".join(re.escape(name) for name, kind in setting.schema if kind is Type.DOUBLE)
            self._odd = rf'\\|"({doubles})"[ \t\r]*:[ \t\r]*-?[0-9]+[ \t\r]*[,}}]'

    def read(self, payloads: Any) -> ReadPayloads:
        """Return the rows, as `BatchReader.rows` does, those of arrays too.

        Parameters
        ----------
        payloads : pyarrow.BinaryArray
            What the transport received.
        """
        if self._paused:
            self._paused -= 1
        elif self._loop is not None and len(payloads) >= FEW:
            with suppress(pa.ArrowException):  # they are no text: Arrow's reader, or the mapping, says which
                found = self._loop.read(payloads)
                if found is not None:
                    return self._completed(payloads, *found)
        return ReadPayloads(*self._by_arrow(payloads))

    def _completed(self, payloads: Any, batch: Any, doubts: Any, counts: Any) -> ReadPayloads:
        """Return what the loop has read, after payloads with `doubts` are read otherwise."""
        # A payload in doubt keeps one place; its rows are replaced by the one that is read again.
        rest = numpy.where(doubts, 1, counts)
        several = None if rest.max() == 1 else rest
        doubtful = numpy.flatnonzero(doubts)
        if not len(doubtful):
            return ReadPayloads(self._rows(batch), batch, several)
        # Where most payloads are read twice, the loop only costs; it is tried again later, as payloads may change.
        self._paused = _PAUSE if 2 * len(doubtful) > len(payloads) else 0
        again, columns = self._by_arrow(payloads.take(pa.array(doubtful)))
        if columns is None and None not in again:
            read = ColumnarRows.of(again, self._kinds, range(len(self._kinds)))  # type: ignore[arg-type]
            columns = None if read is None else read.named(self._schema)
        # Where each row comes from: the loop's batch, or behind its end what was read again.
        places = numpy.arange(batch.num_rows)
        begins = numpy.cumsum(counts) - counts
        places[begins[doubtful]] = len(places) + numpy.arange(len(doubtful))
        lost = numpy.repeat(doubts, counts)
        # The first row of a payload in doubt stays as its place; the others that the loop has counted go.
        lost[begins[doubtful]] = False
        places = places[~lost]
        if columns is None:
            rows = [*_listed(batch), *again]
            return ReadPayloads([rows[place] for place in places.tolist()], None, several)
        batch = pa.Table.from_batches([batch, columns]).take(pa.array(places)).combine_chunks().to_batches()[0]
        return ReadPayloads(self._rows(batch), batch, several)

    def _by_arrow(self, payloads: Any) -> tuple[Sequence[Row | None], Any]:
        """Read payloads of one event each as `read` does, by Arrow or one by one."""
        try:
            batch = self._parsed(payloads)
            if batch is not None:
                return self._sure(payloads, batch)
        except Exception:  # they are read one by one, and the mapping says which of them cannot be read
            pass
        return self.reader.rows(payloads.to_pylist()), None

    def _parsed(self, payloads: Any) -> Any:
        """Return the columns of payloads that are one object each, all of the same form; None where it is not sure."""
        lines = _lines(payloads, self._largest) if self._forms and len(payloads) >= FEW else None
        if lines is None:
            return None
        for form in tuple(self._forms):
            schema, enveloped = form
            try:
                table = _table(lines, schema)
            except (pa.ArrowException, OverflowError):
                continue
            # Where a line holds two objects, rows and payloads do not belong together.
            if table.num_rows != len(payloads) or table.schema != schema:
                return None
            # The form that has fitted is tried first the next time: a try that fails costs a parse.
            if form is not self._forms[0]:
                self._forms.reverse()
            columns = [column.combine_chunks() for column in table.columns]
            return pa.RecordBatch.from_arrays(columns[0].flatten() if enveloped else columns, schema=self._schema)
        return None

    def _sure(self, payloads: Any, batch: Any) -> tuple[Sequence[Row | None], Any]:
        """Return rows and columns, after a second look at each payload that the mapping may read otherwise."""
        columns = list(map(_narrowed, self._kinds, batch.columns))
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        # Its parser takes any bytes for text, and rows are made where nobody could go back.
        batch.validate(full=True)
        doubtful: set[int] = set()
        whole = False
        for kind, column in zip(self._kinds, columns, strict=True):
            # Nulls are no numbers here.
            numbers: Any = column.to_numpy(zero_copy_only=False) if kind in _REALS else None
            if column.null_count or not _surely_alike(kind, numbers):
                doubtful.update(_doubtful(kind, column.to_pylist()))
            whole = whole or (kind is Type.DOUBLE and bool((numbers == numpy.floor(numbers)).any()))
        if whole:
            doubtful.update(self._perhaps_whole(payloads))
        if doubtful:
            rows = _listed(batch)
            again = self.reader.rows(payloads.take(pa.array(doubtful, pa.int64())).to_pylist())
            unlike = {number: row for number, row in zip(doubtful, again, strict=True) if row != rows[number]}
            if unlike:
                return [unlike.get(number, row) for number, row in enumerate(rows)], None
        return self._rows(batch), batch

    def _rows(self, batch: Any) -> ColumnarRows:
        """Return the rows of a batch; made here, concurrently with those who look at them, where that was done lately.

        An app looks at rows until its program is compiled.
        """
        rows = ColumnarRows(batch, self._want_rows)
        if self._unwanted < _PATIENCE:
            self._unwanted += 1
            rows.make()
        return rows

    def _want_rows(self) -> None:
        self._unwanted = 0

    def _perhaps_whole(self, payloads: Any) -> Iterator[int]:
        """Yield where a double may be written as a whole number, which the mapping does not take.

        Without a backslash there is but one way to write an attribute's name. A text may look like a whole number, too.
        """
        return compress(range(len(payloads)), pc.match_substring_regex(payloads, self._odd).to_pylist())


class JsonLoop:
    """Reads many payloads of attributes of plain types, once the loop is compiled.

    Parameters
    ----------
    schema : Schema
        The attributes, at least one.
    largest : int
        How large a payload may be, bytes.
    """

    def __init__(self, schema: Schema, largest: int) -> None:
        self._types = schema.types
        self._kinds = numpy.array([KINDS[type] for type in schema.types], numpy.int64)
        self._arrow = pa.schema([pa.field(name, ARROW[kind]) for name, kind in schema])
        self._largest = largest
        names = [f'"{name}"' for name in (*schema.names, ENVELOPE)]
        #: The loop knows no escapes.
        self._usable = all(json.dumps(name[1:-1], ensure_ascii=False) == name for name in names)
        words = [name.encode("utf-8", "replace") for name in names]
        self._words = numpy.frombuffer(b"".join(words), numpy.uint8)
        self._word_ends = numpy.cumsum([0, *map(len, words)], dtype=numpy.int64)

    def read(self, payloads: Any) -> tuple[Any, Any, Any] | None:
        """Return the attributes' columns; and of each payload whether it is to be read otherwise, and how many rows.

        The rows of one that is to be read otherwise mean nothing. None where the loop cannot be used, or not yet.

        Parameters
        ----------
        payloads : pyarrow.BinaryArray
            At least one, without nulls.

        Raises
        ------
        pyarrow.ArrowInvalid
            A text is not in UTF-8.
        """
        _KERNELS.load_later()
        loops, count, width = _KERNELS.loops, len(payloads), len(self._kinds)
        _, places, octets = payloads.buffers()
        bounds = numpy.frombuffer(places, numpy.int32)[payloads.offset : payloads.offset + count + 1]
        size = int(bounds[-1] - bounds[0])
        if loops is None or not self._usable or octets is None or size * width > _MOST_BYTES:
            return None
        data = numpy.frombuffer(octets, numpy.uint8)
        own = data[bounds[0] : bounds[-1]]
        # Of events in arrays there are no more than braces.
        is_array = size > 0 and bool((own.take(bounds[:-1] - bounds[0], mode="clip") == ord("[")).any())
        rows = count + (int(numpy.count_nonzero(own == ord("{"))) if is_array else 0)
        # `size` for each attribute: the texts of one attribute are at most all bytes of the payloads.
        values = _Written(count, rows, width, size)
        values.fill(loops, data, bounds, self._largest, self._words, self._word_ends, self._kinds)
        columns = [values.column(number, kind) for number, kind in enumerate(self._types)]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._arrow)
        # The loop copies bytes without a look at whether they are UTF-8.
        batch.validate(full=True)
        return batch, values.doubts, values.counts


class _Written:
    """What the loop writes: a row of each array for each attribute."""

    def __init__(self, count: int, rows: int, width: int, size: int) -> None:
        self.numbers = numpy.empty((width, rows), numpy.int64)
        self.reals = self.numbers.view(numpy.float64)
        self.known = numpy.empty((width, rows), numpy.uint8)
        self.texts = numpy.empty((width, size), numpy.uint8)
        self.ends = numpy.zeros((width, rows + 1), numpy.int32)
        self.doubts = numpy.empty(count, numpy.bool_)
        self.counts = numpy.empty(count, numpy.int64)

    def fill(self, loops: Any, *given: Any) -> None:
        """Have the loop write what it is given, and keep the rows that there are."""
        own = (self.numbers, self.reals, self.known, self.texts, self.ends, self.doubts, self.counts)
        loops.columns(*given, *own)
        rows = int(self.counts.sum())
        self.numbers, self.reals, self.known = self.numbers[:, :rows], self.reals[:, :rows], self.known[:, :rows]
        self.ends = self.ends[:, : rows + 1]

    def column(self, number: int, kind: Type) -> Any:
        """Return the values of an attribute as an Arrow array."""
        known = self.known[number] != MISSING
        # Arrow reads a missing buffer of bits as all valid.
        valid = None if known.all() else bits(known)
        if kind is Type.STRING:
            return self._texts(number, valid)
        if kind is Type.BOOL:
            values = bits(self.numbers[number] != 0)
        elif kind in (Type.INT, Type.LONG):
            values = pa.py_buffer(self.numbers[number].astype(numpy.int32 if kind is Type.INT else numpy.int64))
        else:
            self._read_written(number, kind)
            values = pa.py_buffer(self.reals[number])
        return pa.Array.from_buffers(ARROW[kind], len(known), [valid, values])

    def _texts(self, number: int, valid: Any = None) -> Any:
        ends = self.ends[number]
        # There is room for all payloads, once for each attribute: who keeps a column is not to keep that.
        buffers = [valid, pa.py_buffer(ends), pa.py_buffer(self.texts[number, : ends[-1]].copy())]
        return pa.Array.from_buffers(pa.string(), len(ends) - 1, buffers)

    def _read_written(self, number: int, kind: Type) -> None:
        """Read the real numbers of which the loop has found the text: those of many digits, or of large exponents."""
        places = numpy.flatnonzero(self.known[number] == WRITTEN)
        if not len(places):
            return
        values = self._texts(number).take(pa.array(places)).cast(pa.float64()).to_numpy()
        # A text such as 1e400 is infinite here: what the mapping makes of it, it says itself.
        sure = numpy.isfinite(values)
        if kind is Type.FLOAT:
            # Also of what is too small for a float nothing but a sign is left.
            with numpy.errstate(over="ignore", under="ignore"):
                values = values.astype(numpy.float32).astype(numpy.float64)
            sure &= (numpy.abs(values) < SURELY_REAL) & (values != 0)
        self.reals[number, places] = values
        if not sure.all():
            # From a row to its payload: the first one whose rows end behind it.
            self.doubts[numpy.searchsorted(numpy.cumsum(self.counts), places[~sure], side="right")] = True


def _listed(batch: Any) -> list[Row | None]:
    return list(ColumnarRows(batch, lambda: None))


def _lines(payloads: Any, largest: int) -> Any:
    """Return payloads as lines; None where one does not begin and end with braces, holds a newline or is too large.

    A newline is in no text of JSON, and between a closing brace and an opening one there is one only between values
    that are in nothing. So each line holds one value or more, and one where there are as many values as lines.
    """
    lines = joined(payloads.cast(OCTETS), b"\n")
    places = bounds(lines)
    data = numpy.frombuffer(lines.buffers()[2], numpy.uint8, places[-1])
    begins, ends = places[:-1], places[1:] - 1
    if (ends - begins).max() > largest:
        return None
    if (ends - begins < len("{}")).any() or (data[begins] != ord("{")).any() or (data[ends - 1] != ord("}")).any():
        return None
    return data if numpy.count_nonzero(data == ord("\n")) == len(payloads) else None


def _table(lines: Any, schema: Any) -> Any:
    return pyarrow.json.read_json(
        pa.BufferReader(pa.py_buffer(lines)),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=_BLOCK),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )


def _narrowed(kind: Type, column: Any) -> Any:
    # Rounded to 32 bits as the mapping does, and carried with 64 as all floats are.
    return column.cast(pa.float32()).cast(pa.float64()) if kind is Type.FLOAT else column


def _surely_alike(kind: Type, numbers: Any) -> bool:
    """Tell, quickly, whether no value is one of those that `_doubtful` yields; `numbers` is an array for reals."""
    if kind not in _REALS:
        return True
    signed = kind is Type.FLOAT and numpy.signbit(numbers[numbers == 0]).any()
    # NaN is not less than anything: a column with one is looked at value by value.
    return bool(numpy.abs(numbers).max() < SURELY_REAL and not signed)


def _doubtful(kind: Type, values: list[Any]) -> Iterator[int]:
    """Yield where the mapping may read something else, whole doubles aside.

    What is missing looks like a null, NaN is no number of JSON, and a float -0 is a zero without a sign.
    """
    for number, value in enumerate(values):
        signed = kind is Type.FLOAT and value == 0 and copysign(1.0, value) < 0
        if value is None or signed or (kind in _REALS and not abs(value) < SURELY_REAL):
            yield number
