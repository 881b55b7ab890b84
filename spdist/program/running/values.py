"""The values of a program and those of Python and Arrow: numbers as they are, texts and objects by their numbers.

Texts stand in one open table over the bytes of Arrow's columns.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import numpy
import pyarrow as pa

from spdist.language.types import Type
from spdist.mapping.columns import ARROW, ColumnarRows, bits, column_of, validity
from spdist.operators.base import Row
from spdist.operators.core.state_columns import Column, NumberColumn, TextColumn, ValueColumn

__all__ = ["ObjectTable", "ProgramValues", "TextTable", "names_of", "nulls_of", "rows_of", "together", "values_of"]

#: Of types whose values are numbers, how Arrow has them.
_KINDS: dict[Type, Any] = {
    type: numpy.dtype(arrow.to_pandas_dtype()) for type, arrow in ARROW.items() if type is not Type.STRING
}
#: Of which kind arrays with values of a type are.
_ARRAYS = {Type.INT: "i", Type.LONG: "i", Type.FLOAT: "f", Type.DOUBLE: "f", Type.BOOL: "b"}
#: What of Arrow's types is gathered here, by its number: the rest is Arrow's.
_TEXTS, _NUMBERS = pa.string().id, {pa.int32().id, pa.int64().id, pa.float64().id}
_FIRST = 64
_MOST_KNOWN = 10_000
#: What a column of Arrow with offsets of 32 bits may hold.
_MOST_BYTES = 2**31 - 1


class TextTable:
    """Texts by number, from 0 on in the order in which they first came.

    Parameters
    ----------
    hash_tables : module
        `spdist.program.machine.hash_tables`.
    first : Sequence of str
        Those that have the first numbers.

    State
    -----
    Each text once, and 4 to 8 words for each; `keep` forgets those that nobody uses. `starts` has where each text, and
    the one behind all, begins in `arena`.
    """

    def __init__(self, hash_tables: Any, first: Sequence[str]) -> None:
        self._hash_tables = hash_tables
        self._first = tuple(first)
        #: How many there were when some were forgotten last.
        self.kept = 0
        self._reset()

    def _reset(self) -> None:
        #: Of some texts, for those who ask for one.
        self._known: dict[str, int] = {}
        self._shown: dict[int, str] = {}
        self._slots = numpy.full(2 * _FIRST, -1, numpy.int64)
        self.starts = numpy.zeros(_FIRST, numpy.int64)
        self._hashes = numpy.zeros(_FIRST, numpy.uint64)
        self.arena = numpy.zeros(16 * _FIRST, numpy.uint8)
        # Whoever chooses texts does not know which of them meet in the table.
        self._meta = numpy.array([0, secrets.randbits(62)], numpy.int64)
        if self._first:
            self.numbers(pa.array(self._first, pa.string()))

    def __len__(self) -> int:
        """Return how many texts have a number."""
        return int(self._meta[0])

    def numbers(self, texts: Any, into: Any = None) -> Any:
        """Return the numbers of texts as an int64 array; new ones get one.

        Parameters
        ----------
        texts : pyarrow.StringArray
            Nulls are counted as empty texts: who reads them looks at the validity first.
        into : numpy.ndarray, optional
            Gets the numbers, and is returned.
        """
        count = len(texts)
        found = numpy.empty(count, numpy.int64) if into is None else into
        if not count:
            return found
        _, offsets, data = texts.buffers()
        begins = numpy.frombuffer(offsets, numpy.int32)[texts.offset : texts.offset + count + 1]
        content = numpy.frombuffer(b"" if data is None else data, numpy.uint8)
        # The kernel is compiled for what is read only, as some of it is.
        begins.flags.writeable = content.flags.writeable = False
        done = 0
        while done < count:
            done += self._hash_tables.number_texts(
                begins[done:], content, self._slots, self.starts, self.arena, self._hashes, self._meta, found[done:]
            )
            if done < count:
                self._grow(int(begins[done + 1] - begins[done]))
        return found

    def number(self, text: str) -> int:
        """Return the number of one text; a new one gets one."""
        found = self._known.get(text)
        if found is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            found = self._known[text] = int(self.numbers(pa.array([text], pa.string()))[0])
        return found

    def text(self, number: int) -> str:
        """Return the text with a number."""
        found = self._shown.get(number)
        if found is None:
            if len(self._shown) > _MOST_KNOWN:
                self._shown.clear()
            found = bytes(self.arena[self.starts[number] : self.starts[number + 1]]).decode()
            self._shown[number] = found
        return found

    def _grow(self, length: int) -> None:
        """Make room for at least one more text of so many bytes."""
        count = len(self)
        if count + 2 >= len(self.starts):
            self.starts = numpy.concatenate([self.starts, numpy.zeros(len(self.starts), numpy.int64)])
            self._hashes = numpy.concatenate([self._hashes, numpy.zeros(len(self._hashes), numpy.uint64)])
        if int(self.starts[count]) + length > len(self.arena):
            more = max(len(self.arena), length)
            self.arena = numpy.concatenate([self.arena, numpy.zeros(more, numpy.uint8)])
        if 2 * (count + 1) > len(self._slots):
            size = 2 * len(self._slots)
            self._slots = numpy.full(size, -1, numpy.int64)
            self._hash_tables.refill_texts(self._slots, self._hashes, count)

    def texts(self, numbers: Any, nulls: Any = None) -> Any:
        """Return the texts with these numbers, an array, as an Arrow array; where `nulls` is not 0, there is none."""
        rows = numpy.ascontiguousarray(numbers, numpy.int64)
        # Of a value that is null the number may be 0 where there is no text yet.
        return _texts_of(self.starts[: max(1, len(self)) + 1], self.arena, rows, nulls, self._hash_tables)

    def keep(self, used: Any) -> Any:
        """Forget all texts but those with the numbers `used`, and the first ones.

        Returns
        -------
        numpy.ndarray
            The new number of each old one, int64; -1 of those that are forgotten.
        """
        kept = numpy.union1d(numpy.arange(len(self._first)), used)
        # Bytes of their own: what begins anew is the table that they stand in.
        texts = self.texts(kept)
        fresh = numpy.full(len(self), -1, numpy.int64)
        self._reset()
        fresh[kept] = self.numbers(texts)
        self.kept = len(self)
        return fresh


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
        # The sum counts from 1, and number 0 is null: so these follow those that were given out.
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
    hash_tables : module
        `spdist.program.machine.hash_tables`.
    first : Sequence of str
        The texts that have the first numbers.

    State
    -----
    The texts and the objects, by number.
    """

    def __init__(self, hash_tables: Any, first: Sequence[str]) -> None:
        self.texts = TextTable(hash_tables, first)
        self.objects = ObjectTable()

    def numbers(self, column: Any, type: Type, into: Any = None) -> Any:
        """Return the values of a column as a program has them; those of texts in `into`, if that is given."""
        return self.objects.numbers(column) if type is Type.OBJECT else _numbers_of(column, type, self.texts, into)

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

    def loaded(self, column: Column, type: Type, exactly: bool = False) -> tuple[Any, Any]:
        """Return a column of state as a program has it, 0 where there is null, and where that is; see `taken`."""
        if isinstance(column, TextColumn) and type is Type.STRING:
            # Behind all the one that nulls have: they are number -1 of the column
            numbers = numpy.append(self.texts.numbers(pa.array(column.texts, pa.string())), 0)
            return numbers[column.numbers], column.numbers < 0
        if isinstance(column, NumberColumn) and column.array.dtype.kind == _ARRAYS.get(type):
            arrow = pa.array(column.array, mask=column.nulls).cast(ARROW[type])
            nulls = numpy.zeros(len(arrow), bool) if column.nulls is None else column.nulls
            return self.numbers(arrow, type), nulls
        return self.taken(column.values(), type, exactly)

    def shown(self, values: Any, nulls: Any, type: Type) -> list[Any]:
        """Return values of a program as Python has them; None where `nulls` is not 0."""
        column = self.column(values, nulls, type)
        made: list[Any] = column if type is Type.OBJECT else column.to_pylist()
        return made

    def stored(self, values: Any, nulls: Any, type: Type) -> Column:
        """Return values of a program as a column of state; None where `nulls` is not 0."""
        if type is Type.OBJECT:
            return ValueColumn(self.objects.objects(values, nulls))
        missing = numpy.asarray(nulls) != 0
        if type is not Type.STRING:
            return NumberColumn(values != 0 if type is Type.BOOL else values, missing if missing.any() else None)
        # Each text once: where it stands among those that are used
        used = numpy.zeros(len(self.texts), bool)
        used[values[~missing]] = True
        places = numpy.cumsum(used) - 1
        texts: list[str] = self.texts.texts(numpy.flatnonzero(used)).to_pylist()
        return TextColumn(numpy.where(missing, -1, places[numpy.where(missing, 0, values)]), texts)

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


def _numbers_of(column: Any, type: Type, texts: TextTable, into: Any = None) -> Any:
    """Return the values of an Arrow column as a program has them: 0 where they are null.

    Parameters
    ----------
    column : pyarrow.Array
        The values.
    type : Type
        Theirs.
    texts : TextTable
        Gives texts their numbers.
    into : numpy.ndarray, optional
        Gets the numbers of texts, and is returned then.
    """
    if type is Type.STRING:
        found = texts.numbers(column, into)
        if column.null_count:
            found[column.is_null().to_numpy(zero_copy_only=False)] = 0
        return found
    if column.null_count:
        column = column.fill_null(False if type is Type.BOOL else 0)
    return column.to_numpy(zero_copy_only=False)


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
    # Rows are only made of them where somebody looks at rows.
    return ColumnarRows(pa.RecordBatch.from_arrays(columns, names), lambda: None)


def rows_of(column: Any, rows: Any, hash_tables: Any) -> Any:
    """Return some rows of a column.

    Parameters
    ----------
    column : pyarrow.Array or list
        The values; of objects a list.
    rows : numpy.ndarray
        Which ones, int64.
    hash_tables : module
        `spdist.program.machine.hash_tables`.
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
    return _texts_of(begins, content, rows, None, hash_tables)


def _texts_of(begins: Any, content: Any, rows: Any, nulls: Any, hash_tables: Any) -> Any:
    """Return texts as a column of their own.

    Parameters
    ----------
    begins, content : numpy.ndarray
        Where each text begins, and the last one ends; the bytes.
    rows : numpy.ndarray
        Which ones, int64.
    nulls : numpy.ndarray, optional
        Where not 0, there is none.
    hash_tables : module
        `spdist.program.machine.hash_tables`.

    Raises
    ------
    IndexError
        There is no such row.
    OverflowError
        They have more bytes than a column of Arrow.
    """
    # They are compiled for what is read only, as some of it is.
    begins, content = begins.view(), content.view()
    begins.flags.writeable = content.flags.writeable = False
    bounds = numpy.empty(len(rows) + 1, numpy.int32)
    size = hash_tables.bounds_gathered(begins, rows, bounds)
    if size < 0:
        raise IndexError(f"one of the rows is none of {len(begins) - 1}")
    if size > _MOST_BYTES:
        raise OverflowError(f"the texts of a batch have {size} bytes together")
    gathered = numpy.empty(size + hash_tables.SLACK, numpy.uint8)
    hash_tables.texts_gathered(begins, content, rows, bounds, gathered)
    valid = None if nulls is None else validity(nulls)
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(bounds), pa.py_buffer(gathered), valid)
