"""The columns of a program: its events by rank, and what it puts out.

What goes out are values of its arrays, and rows of the columns that it was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy
import pyarrow as pa

from spdist.language.types import Type
from spdist.mapping.octets import bits
from spdist.mapping.read_rows import ARROW, ReadRows
from spdist.operators.base import Row
from spdist.operators.core.junction import StreamPart

__all__ = ["Ranks", "names_of", "nulls_of", "rows_of", "texts_of", "together", "values_of"]

#: Of types whose values are numbers, how Arrow has them.
_KINDS: dict[Type, Any] = {
    type: numpy.dtype(arrow.to_pandas_dtype()) for type, arrow in ARROW.items() if type is not Type.STRING
}
#: What of Arrow's types is gathered here, by its number: the rest is Arrow's.
_TEXTS, _NUMBERS = pa.string().id, {pa.int32().id, pa.int64().id, pa.float64().id}
_MOST_BYTES = 2**31 - 1


class Ranks:
    """The events of a batch, by rank.

    Parameters
    ----------
    sources : Sequence of str
        The streams that they may be of.

    State
    -----
    Numbers from 0 on, and of each source its own one: for two batches as large as the largest.
    """

    def __init__(self, sources: Sequence[str]) -> None:
        self._sources = sources
        self._numbers = numpy.arange(1)
        self._of_source: dict[str, Any] = {}

    def first(self, count: int) -> Any:
        """Return so many numbers from 0 on; nobody writes to them."""
        self._make(count)
        return self._numbers[:count]

    def _make(self, count: int) -> None:
        if count > len(self._numbers):
            self._numbers, self._of_source = numpy.arange(2 * count), {}

    def events(self, parts: Mapping[str, StreamPart]) -> tuple[Any, Any, Any]:
        """Return of all events their place among those of their source, when they are due, and the number of that.

        Nobody writes to what is returned: of one stream it is used again.
        """
        total = sum(len(part.times) for part in parts.values())
        self._make(total)
        if len(parts) == 1:
            ((stream, part),) = parts.items()
            which = self._of_source.get(stream)
            if which is None:
                which = self._of_source[stream] = numpy.full(
                    len(self._numbers), self._sources.index(stream), numpy.int16
                )
            at = numpy.ascontiguousarray(part.times, numpy.int64)
            return self._numbers[:total], at, which[:total]
        begins, at = (numpy.empty(total, numpy.int64) for _ in range(2))
        which = numpy.empty(total, numpy.int16)
        for stream, part in parts.items():
            begins[part.ranks] = self._numbers[: len(part.times)]
            at[part.ranks] = part.times
            which[part.ranks] = self._sources.index(stream)
        return begins, at, which


def values_of(values: Any, nulls: Any, type: Type) -> Any:
    """Return numbers, or bools, of a program as a column of its own: the loop writes over them."""
    made = bits(values != 0) if type is Type.BOOL else pa.py_buffer(values.astype(_KINDS[type]))
    return pa.Array.from_buffers(ARROW[type], len(values), [_validity(nulls), made])


def _validity(nulls: Any) -> Any:
    """Return which values there are, as Arrow's bits; None where all are."""
    return bits(nulls == 0) if numpy.count_nonzero(nulls) else None


def nulls_of(column: Any) -> Any:
    """Return which values of a column are null."""
    if isinstance(column, list):
        return [value is None for value in column]
    return column.is_null().to_numpy(zero_copy_only=False)


def names_of(types: Iterable[Type]) -> list[str] | None:
    """Return names of columns of these types; None where objects are among them, which are no column."""
    kinds = list(types)
    return None if Type.OBJECT in kinds else list(map(str, range(len(kinds))))


def together(columns: Sequence[Any], names: Sequence[str] | None) -> Sequence[Row]:
    """Return columns as rows, which are columns still where they have names (`names_of`)."""
    if names is None:
        return list(zip(*(one if isinstance(one, list) else one.to_pylist() for one in columns), strict=True))
    return ReadRows(pa.RecordBatch.from_arrays(columns, names), lambda: None)


def rows_of(column: Any, rows: Any, kernels: Any) -> Any:
    """Return some rows of a column.

    Parameters
    ----------
    column : pyarrow.Array or list
        The values; of objects a list.
    rows : numpy.ndarray
        Which ones, int64.
    kernels : module
        `spdist.program.machine.kernels`.
    """
    if isinstance(column, list):
        return [column[row] for row in rows.tolist()]
    arrow = column.type
    if not column.null_count and arrow.id in _NUMBERS:
        values = column.to_numpy(zero_copy_only=True).take(rows)
        return pa.Array.from_buffers(arrow, len(rows), [None, pa.py_buffer(values)])
    if column.null_count or arrow.id != _TEXTS:
        return column.take(pa.array(rows))
    _, offsets, data = column.buffers()
    begins = numpy.frombuffer(offsets, numpy.int32)[column.offset : column.offset + len(column) + 1]
    content = numpy.frombuffer(b"" if data is None else data, numpy.uint8)
    return texts_of(begins, content, rows, None, kernels)


def texts_of(begins: Any, content: Any, rows: Any, nulls: Any, kernels: Any) -> Any:
    """Return texts as a column of their own.

    Parameters
    ----------
    begins, content : numpy.ndarray
        Where each text begins, and the last one ends; the bytes.
    rows : numpy.ndarray
        Which ones, int64.
    nulls : numpy.ndarray, optional
        Where not 0, there is none.
    kernels : module
        `spdist.program.machine.kernels`.

    Raises
    ------
    IndexError
        There is no such row.
    OverflowError
        They have more bytes than a column of Arrow.
    """
    # The kernels are compiled for what is read only, as some of it is.
    begins, content = begins.view(), content.view()
    begins.flags.writeable = content.flags.writeable = False
    bounds = numpy.empty(len(rows) + 1, numpy.int32)
    size = kernels.bounds_gathered(begins, rows, bounds)
    if size < 0:
        raise IndexError(f"one of the rows is none of {len(begins) - 1}")
    if size > _MOST_BYTES:
        raise OverflowError(f"the texts of a batch have {size} bytes together")
    gathered = numpy.empty(size + kernels.SLACK, numpy.uint8)
    kernels.texts_gathered(begins, content, rows, bounds, gathered)
    valid = None if nulls is None else _validity(nulls)
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(bounds), pa.py_buffer(gathered), valid)
