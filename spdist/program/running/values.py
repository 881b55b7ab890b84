"""The values of a program and those of Python and Arrow: numbers as they are, texts and objects by their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy
import pyarrow as pa

from spdist.language.types import Type
from spdist.mapping.columns import ARROW, ColumnarRows, bits, column_of, validity
from spdist.operators.base import Row
from spdist.program.running.texts import TextTable, numbers_of, texts_of

__all__ = ["ObjectTable", "ProgramValues", "names_of", "nulls_of", "rows_of", "together", "values_of"]

#: Of types whose values are numbers, how Arrow has them.
_KINDS: dict[Type, Any] = {
    type: numpy.dtype(arrow.to_pandas_dtype()) for type, arrow in ARROW.items() if type is not Type.STRING
}
#: What of Arrow's types is gathered here, by its number: the rest is Arrow's.
_TEXTS, _NUMBERS = pa.string().id, {pa.int32().id, pa.int64().id, pa.float64().id}


class ObjectTable:
    """Objects by number; null has number 0. Each time that an object comes it gets another number.

    State
    -----
    The objects that came since `keep` forgot those that nobody uses, and those that it kept.
    """

    def __init__(self) -> None:
        self._objects: list[Any] = [None]
        #: How many there were when some were forgotten last.
        self.kept = 0

    def __len__(self) -> int:
        """Return how many objects have a number."""
        return len(self._objects) - 1

    def number(self, value: Any) -> int:
        """Return the number of an object."""
        if value is None:
            return 0
        self._objects.append(value)
        return len(self._objects) - 1

    def numbers(self, values: Sequence[Any]) -> Any:
        """Return the numbers of objects as an int64 array."""
        known = numpy.fromiter((value is not None for value in values), bool, len(values))
        found = numpy.cumsum(known, dtype=numpy.int64) + len(self)
        found[~known] = 0
        self._objects += (value for value in values if value is not None)
        return found

    def object(self, number: int) -> Any:
        """Return the object with a number."""
        return self._objects[number]

    def objects(self, numbers: Any, nulls: Any) -> list[Any]:
        """Return the objects with these numbers, an array; where `nulls` is not 0, there is none."""
        objects = self._objects
        return [objects[number] for number in numpy.where(nulls, 0, numbers).tolist()]

    def keep(self, used: Any) -> Any:
        """Forget all objects but those with the numbers `used`.

        Returns
        -------
        numpy.ndarray
            The new number of each old one, int64; -1 of those that are forgotten.
        """
        kept = numpy.union1d(numpy.zeros(1, numpy.int64), used)
        fresh = numpy.full(len(self._objects), -1, numpy.int64)
        fresh[kept] = numpy.arange(len(kept))
        self._objects = [self._objects[number] for number in kept.tolist()]
        self.kept = len(self)
        return fresh


class ProgramValues:
    """What stands for the values of a program.

    Parameters
    ----------
    kernels : module
        `spdist.program.machine.kernels`.
    first : Sequence of str
        The texts that have the first numbers.

    State
    -----
    The texts and the objects, by number.
    """

    def __init__(self, kernels: Any, first: Sequence[str]) -> None:
        self.texts = TextTable(kernels, first)
        self.objects = ObjectTable()

    def numbers(self, column: Any, type: Type, into: Any = None) -> Any:
        """Return the values of a column as a program has them; those of texts in `into`, if that is given."""
        return self.objects.numbers(column) if type is Type.OBJECT else numbers_of(column, type, self.texts, into)

    def column(self, values: Any, nulls: Any, type: Type) -> Any:
        """Return values as a column of its own, as the loop writes over them: one of Arrow, of objects a list."""
        if type is Type.OBJECT:
            return self.objects.objects(values, nulls)
        return self.texts.texts(values, nulls) if type is Type.STRING else values_of(values, nulls, type)

    def taken(self, values: Sequence[Any], type: Type, exactly: bool = False) -> tuple[Any, Any]:
        """Return Python's values as a program has them, 0 where they are null, and which of them are.

        Raises
        ------
        TypeError, pyarrow.ArrowException, ValueError, OverflowError
            One is not of the type, or half a character, or too large; a whole number is a real, unless `exactly`.
        """
        column: Any = values
        if type is not Type.OBJECT:
            column = column_of(values, type) if exactly else pa.array(values, ARROW[type])
        numbers = self.numbers(column, type)
        nulls = numbers == 0 if type is Type.OBJECT else column.is_null().to_numpy(zero_copy_only=False)
        return numbers, nulls

    def shown(self, values: Any, nulls: Any, type: Type) -> list[Any]:
        """Return values of a program as Python has them; None where `nulls` is not 0."""
        column = self.column(values, nulls, type)
        made: list[Any] = column if type is Type.OBJECT else column.to_pylist()
        return made

    def number(self, value: Any, type: Type) -> Any:
        """Return one value of Python, which is not null, as a program has it."""
        if type is Type.STRING:
            return self.texts.number(str(value))
        return self.objects.number(value) if type is Type.OBJECT else value

    def single(self, value: Any, type: Type) -> Any:
        """Return one value of a program, which is not null, as Python has it."""
        if type is Type.STRING:
            return self.texts.text(value)
        if type is Type.OBJECT:
            return self.objects.object(value)
        return bool(value) if type is Type.BOOL else value


def values_of(values: Any, nulls: Any, type: Type) -> Any:
    """Return numbers, or bools, of a program as a column of its own: the loop writes over them."""
    made = bits(values != 0) if type is Type.BOOL else pa.py_buffer(values.astype(_KINDS[type]))
    return pa.Array.from_buffers(ARROW[type], len(values), [validity(nulls), made])


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
    return ColumnarRows(pa.RecordBatch.from_arrays(columns, names), lambda: None)


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
