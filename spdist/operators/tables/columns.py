"""The rows of a table by primary key, as columns: what many events look up and change at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from spdist.language.types import Schema
from spdist.mapping.read_rows import ARROW, ReadRows
from spdist.operators.base import Row
from spdist.operators.core.group_keys import Keys, grown

__all__ = ["TableColumns", "Writes"]

_NONE = numpy.empty(0, numpy.int64)


class TableColumns:
    """Rows that have no nulls, each with the number of its key, in the order in which they were added.

    Parameters
    ----------
    schema : Schema
        The table's attributes.
    key : tuple of int
        Positions of those of the primary key.

    State
    -----
    O(rows): the keys, and an array for each other attribute, with room for as many rows again.
    """

    def __init__(self, schema: Schema, key: tuple[int, ...]) -> None:
        self._key = key
        self._types = schema.types
        self._keys = Keys(tuple(range(len(key))), [schema.types[position] for position in key])
        #: By position; what is behind the last row means nothing.
        self.values = {
            position: numpy.empty(0, ARROW[kind].to_pandas_dtype())
            for position, kind in enumerate(schema.types)
            if position not in key
        }

    @classmethod
    def of(cls, schema: Schema, key: tuple[int, ...], rows: Sequence[Row]) -> TableColumns | None:
        """Return the rows of a table as columns; None where there is a null, or a value not of its type."""
        if not set(schema.types) <= set(ARROW):
            return None
        made = cls(schema, key)
        if not rows:
            return made
        own = ReadRows.of(rows, schema.types, range(len(schema)))
        if own is None or own.has_nulls(range(len(schema))):
            return None
        made.add(own.selecting(key), {position: own.numbers(position, 0, len(own)) for position in made.values})
        return made

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self._keys)

    def rows(self) -> list[Row]:
        """Return the rows in the order in which they were added."""
        keys = self._keys.all()
        columns: dict[int, Sequence[Any]] = {at: own[: len(keys)].tolist() for at, own in self.values.items()}
        parts = [keys] if len(self._key) == 1 else list(zip(*keys, strict=True))
        columns.update(zip(self._key, parts, strict=False))
        return list(zip(*(columns[position] for position in range(len(self._types))), strict=True)) if keys else []

    def known(self, keys: ReadRows) -> Any:
        """Return the numbers of keys that have no nulls as an int64 array; -1 for those that no row has."""
        return self._keys.known(keys, len(keys)) if len(keys) else _NONE

    def add(self, keys: ReadRows, values: Mapping[int, Any]) -> tuple[Any, Any]:
        """Add the rows of events whose keys are new, of each key the first.

        Parameters
        ----------
        keys : ReadRows
            Of the events, at least one; without nulls.
        values : Mapping of int to numpy.ndarray
            Of each other attribute, by position.

        Returns
        -------
        tuple of numpy.ndarray
            Which row each event has, and which of the events were added.
        """
        before = len(self)
        numbers = self._keys.of(keys, len(keys))
        first = numpy.empty(len(self) - before, numpy.int64)
        places = numpy.flatnonzero(numbers >= before)[::-1]
        first[numbers[places] - before] = places
        for position, own in self.values.items():
            self.values[position] = own = grown(own, len(self))
            own[before : len(self)] = values[position][first]
        return numbers, first


class Writes:
    """What events of a run write into a table.

    Parameters
    ----------
    before : int
        How many rows there were.
    numbers : numpy.ndarray
        Which row each event writes.
    ranks : numpy.ndarray
        Which of all events of the run each is, ascending.
    values : Mapping of int to numpy.ndarray
        What they set, by position.
    """

    def __init__(self, before: int, numbers: Any = _NONE, ranks: Any = _NONE, values: Mapping[int, Any] | None = None):
        self._before = before
        self._ranks = ranks
        self._values = values or {}
        # By row, and then as they came.
        self._size = len(numbers) + 1
        self._ordered = numpy.sort(numbers * self._size + numpy.arange(len(numbers)))

    def latest(self, numbers: Any, ranks: Any) -> tuple[Any, Any]:
        """Return which events find the row they look for, and which write was the last to it before; -1 for none.

        Parameters
        ----------
        numbers, ranks : numpy.ndarray
            Of each event which row it looks for, -1 for one that is not there; and which of all events it is.
        """
        came = numpy.searchsorted(self._ranks, ranks)
        last = numpy.searchsorted(self._ordered, numbers * self._size + came) - 1
        found = self._ordered[last] if len(self._ordered) else last
        writes = numpy.where((last >= 0) & (found // self._size == numbers), found % self._size, -1)
        there = numpy.flatnonzero((numbers >= 0) & ((numbers < self._before) | (writes >= 0)))
        return there, writes[there]

    def values(self, table: TableColumns, position: int, numbers: Any, writes: Any) -> Any:
        """Return the values of an attribute in rows after the `writes` that `latest` has found."""
        held = table.values[position][numbers]
        if position in self._values:
            written = writes >= 0
            held[written] = self._values[position][writes[written]]
        return held

    def settle(self, table: TableColumns) -> None:
        """Have the table hold what was written last."""
        rows, writes = self._ordered // self._size, self._ordered % self._size
        last = numpy.append(rows[1:] != rows[:-1], True)[: len(rows)]
        for position, own in self._values.items():
            table.values[position][rows[last]] = own[writes[last]]
