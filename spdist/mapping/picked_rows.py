"""Rows that are made of the values of other rows, which stay where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, overload

import numpy

__all__ = ["PickedRows"]

Row = tuple[Any, ...]


class PickedRows(Sequence[Row]):
    """Rows each value of which is one of a row of a source: what a join finds, without a tuple for each result.

    Parameters
    ----------
    sources : Sequence of Sequence of tuple
        The rows whose values these have; nobody changes them any more.
    places : Sequence of numpy.ndarray
        For each source which of its rows each row is made of: int64, all of the same length.
    columns : Sequence of (int, int)
        For each value its source, and its place in the rows of that.
    """

    def __init__(
        self, sources: Sequence[Sequence[Row]], places: Sequence[Any], columns: Sequence[tuple[int, int]]
    ) -> None:
        self._sources = sources
        self._places = places
        self._columns = columns

    @classmethod
    def following(cls, parts: Sequence[PickedRows]) -> PickedRows:
        """Return the rows of several, at least one, that have the same columns as those of one."""
        sources, places = [], []
        for number in range(len(parts[0]._sources)):
            sources.append(list(chain.from_iterable(part._sources[number] for part in parts)))
            starts = accumulate((len(part._sources[number]) for part in parts), initial=0)
            moved = [part._places[number] + start for part, start in zip(parts, starts, strict=False)]
            places.append(numpy.concatenate(moved))
        return cls(sources, places, parts[0]._columns)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._places[0])

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> PickedRows: ...
    def __getitem__(self, place: int | slice) -> Row | PickedRows:
        """Return a row, or some of them."""
        if isinstance(place, slice):
            return PickedRows(self._sources, [places[place] for places in self._places], self._columns)
        return tuple(self._sources[source][self._places[source][place]][value] for source, value in self._columns)

    def __iter__(self) -> Iterator[Row]:
        """Iterate over the rows."""
        picked = [
            [rows[place] for place in places.tolist()] for rows, places in zip(self._sources, self._places, strict=True)
        ]
        return zip(*([row[value] for row in picked[source]] for source, value in self._columns), strict=True)

    def column(self, number: int) -> tuple[list[Any], Any]:
        """Return values, and where among them those of a column are, as an int64 array; None where they are those.

        There are never more of them than rows.
        """
        source, value = self._columns[number]
        rows, places = self._sources[source], self._places[source]
        if not len(places):
            return [], None
        first, last = int(places.min()), int(places.max())
        if last - first < len(places):
            return [row[value] for row in rows[first : last + 1]], places - first
        return [rows[place][value] for place in places.tolist()], None
