"""Columns of state from what they are packed as, looked at before anybody relies on them; and values from columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from spdist.operators.core.state_columns import (
    KINDS,
    Column,
    HashMapColumn,
    ListColumn,
    MapColumn,
    NumberColumn,
    StructColumn,
    TextColumn,
    UnionColumn,
    ValueColumn,
)

__all__ = ["plain", "unpacked"]


def unpacked(parts: Sequence[Any]) -> Column:
    """Return the column that `packed` gave the parts of.

    Raises
    ------
    ValueError, TypeError, IndexError
        They are no such parts.
    """
    form, *rest = parts
    if form == ValueColumn.form:
        return ValueColumn(list(*rest))
    if form == NumberColumn.form:
        return NumberColumn.unpacked(*rest)
    if form == TextColumn.form:
        numbers, texts = rest
        found = TextColumn(NumberColumn.unpacked(*numbers[1:]).array, texts)
        return _fits(found, not len(found) or (found.numbers.min() >= -1 and found.numbers.max() < len(texts)))
    if form == StructColumn.form:
        kind, columns = rest
        struct = StructColumn(KINDS[kind], [unpacked(column) for column in columns])
        return _fits(struct, {len(struct)} == set(map(len, struct.columns)))
    if form == ListColumn.form:
        kind, lengths, held = rest
        lists = ListColumn(KINDS[kind], unpacked(lengths), unpacked(held))
        return _fits(lists, (lists.sizes() >= 0).all() and lists.sizes().sum() == len(lists.held))
    if form in (MapColumn.form, HashMapColumn.form):
        maps = (MapColumn if form == MapColumn.form else HashMapColumn)(*map(unpacked, rest))
        known = len(maps.keys) == len(maps.held) == maps.sizes().sum()
        sized = not isinstance(maps, HashMapColumn) or len(maps.capacities) == len(maps)
        return _fits(maps, known and sized and (maps.sizes() >= 0).all())
    if form == UnionColumn.form:
        turns, columns = rest
        union = UnionColumn(turns, [unpacked(column) for column in columns])
        counts = numpy.bincount(numpy.frombuffer(turns, numpy.uint8), minlength=len(columns))
        return _fits(union, counts.tolist() == list(map(len, union.columns)))
    raise ValueError(f"a column of the unknown form {form}")


def _fits(column: Column, fits: bool) -> Column:
    """Return a column whose parts fit one another: who reads it may rely on that."""
    if not fits:
        raise ValueError("parts of a column that do not fit one another")
    return column


def plain(state: Any) -> Any:
    """Return state as operators have it: what a column of one value holds in its place, also within what is few."""
    if isinstance(state, Column):
        (value,) = state.values()
        return value
    if type(state) is dict:
        return {key: plain(held) if isinstance(held, _HOLDING) else held for key, held in state.items()}
    if type(state) is list:
        return [plain(held) if isinstance(held, _HOLDING) else held for held in state]
    return state


#: What may be a column, or have one within.
_HOLDING = (Column, dict, list)
