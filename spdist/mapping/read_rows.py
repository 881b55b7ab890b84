"""Rows that were read as columns, and become Python's objects when somebody looks at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import pyarrow as pa

__all__ = ["ReadRows"]

Row = tuple[Any, ...]


class ReadRows(Sequence[Row]):
    """Rows of Arrow columns: whoever looks at many values at once takes them from there.

    Parameters
    ----------
    columns : pyarrow.RecordBatch
        The values, at least one column.
    wanted : Callable
        Called when all rows are made because somebody looks at them one by one.

    State
    -----
    The rows, once they were made.
    """

    __slots__ = ("_columns", "_rows", "_wanted")

    def __init__(self, columns: Any, wanted: Callable[[], None]) -> None:
        self._columns = columns
        self._wanted = wanted
        self._rows: list[Row] | None = None

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
    def __getitem__(self, place: slice) -> list[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        """Return a row, or some of them."""
        if self._rows is None and isinstance(place, slice) and place.step in (None, 1):
            begin, end, _ = place.indices(len(self))
            return _rows(self._columns.slice(begin, max(end - begin, 0)))
        return self._made()[place]

    def __eq__(self, other: object) -> bool:
        """Tell whether these are the rows of another sequence."""
        return self._made() == (other._made() if isinstance(other, ReadRows) else other)

    __hash__ = None  # type: ignore[assignment]

    def picked(self, attribute: int, places: Any) -> list[Any]:
        """Return the values of an attribute in the rows at `places`, a `numpy.ndarray`."""
        values: list[Any] = self._columns.column(attribute).take(pa.array(places)).to_pylist()
        return values

    def numbers(self, attribute: int, begin: int, end: int) -> Any:
        """Return the numbers of an attribute in some rows as a `numpy.ndarray`; None where there is a null."""
        column = self._column(attribute, begin, end)
        return None if column.null_count else column.to_numpy()

    def codes(self, attribute: int, begin: int, end: int) -> tuple[Any, int] | None:
        """Return numbers from 0 on that tell an attribute's values apart, and how many; None where there is a null."""
        column = self._column(attribute, begin, end)
        if column.null_count:
            return None
        coded = column.dictionary_encode()
        return coded.indices.to_numpy(), len(coded.dictionary)

    def _column(self, attribute: int, begin: int, end: int) -> Any:
        return self._columns.column(attribute).slice(begin, end - begin)

    def _made(self) -> list[Row]:
        if self._rows is None:
            self._wanted()
            self.make()
        assert self._rows is not None
        return self._rows


def _rows(columns: Any) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in columns.columns), strict=True))
