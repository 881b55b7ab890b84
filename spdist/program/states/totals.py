"""Aggregators of a program as the operators have them, and back: the slots of a group, one behind the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy

from spdist.functions.aggregators import distinct_key, distinct_real
from spdist.language.types import Type
from spdist.operators.base import Row
from spdist.operators.core.state_columns import (
    Column,
    ListColumn,
    NumberColumn,
    StructColumn,
    ValueColumn,
    column_of,
    in_turn,
    nothing,
)
from spdist.program.parts import Aggregate, QueryText
from spdist.program.running.running import Running
from spdist.program.states.key_words import key_numbers, real_values, words_of
from spdist.program.states.nodes import walked

__all__ = ["first_or_copied", "load_copied", "packed", "stored_copies", "unpack"]


def unpack(
    running: Running, query: QueryText, aggregates: Sequence[Aggregate], group: int, slots: Sequence[Any]
) -> None:
    """Write the slots of a group, as the operators have them, into the arrays."""
    at = 0
    for aggregate in aggregates if slots else ():
        width = aggregate.form.kept
        kept = list(slots[at : at + width])
        at += width
        if aggregate.form.candidates:
            running.reserve(f"nodes {query.name}", len(kept[0]))
            _load_candidates(running, aggregate, group, kept[0])
            continue
        if aggregate.form.pairs:
            _load_pairs(running, query, aggregate, group, kept[0])
            continue
        for name, value in zip(aggregate.slots, aggregate.form.unpack(kept), strict=True):
            running.arrays[name][group] = value


def packed(running: Running, aggregates: Sequence[Aggregate], numbers: Any) -> Column:
    """Return the slots of groups, as the operators have them."""
    slots: list[Column] = []
    for aggregate in aggregates:
        if aggregate.form.pairs:
            found = _pairs(running, aggregate)
            slots.append(column_of([found.get(group, {}) for group in numbers.tolist()]))
        elif aggregate.form.candidates:
            slots.append(column_of(_candidates(running, aggregate, numbers)))
        else:
            slots += aggregate.form.pack([running.arrays[name][numbers] for name in aggregate.slots])
    return StructColumn(list, slots) if slots else nothing(len(numbers))


def _load_candidates(running: Running, aggregate: Aggregate, group: int, values: Iterable[Any]) -> None:
    arrays, name = running.arrays, aggregate.prefix
    before, values = -1, list(values)
    for slot in aggregate.slots[: len(values)]:
        arrays[slot][group] = values[0]
    if len(values) > 1 and values[1] is None:  # what is the result, and no candidate
        values = values[2:]
    for value in values:
        # When a state is taken over no node is free again, so they are taken from behind
        node = int(arrays[f"{name}_free"][1])
        arrays[f"{name}_free"][1] += 1
        arrays[f"{name}_value"][node] = value
        arrays[f"{name}_before"][node], arrays[f"{name}_after"][node] = before, -1
        # Two places for each group: its first candidate and its last one
        arrays[f"{name}_ends" if before < 0 else f"{name}_after"][2 * group if before < 0 else before] = node
        before = node
    arrays[f"{name}_ends"][2 * group + 1] = before


def _candidates(running: Running, aggregate: Aggregate, numbers: Any) -> list[deque[Any]]:
    arrays, name = running.arrays, aggregate.prefix
    lengths, order = walked(running, arrays[f"{name}_ends"][2 * numbers], arrays[f"{name}_after"])
    found = ListColumn(deque, NumberColumn(lengths), NumberColumn(arrays[f"{name}_value"][order])).values()
    for slot in aggregate.slots:
        for own, result in zip(found, arrays[slot][numbers].tolist(), strict=True):
            # Not `!=`: NaN is the same result as NaN
            if own and (own[0] < result or own[0] > result):
                # `extendleft` turns them round: the result is first, and the null behind it says so
                own.extendleft((None, result))
    return found


def _load_pairs(
    running: Running, query: QueryText, aggregate: Aggregate, group: int, counts: Mapping[Any, int]
) -> None:
    """Take over how often a group has each value."""
    if not counts:
        return
    running.reserve(f"pairs {query.name}", len(counts))
    type = aggregate.distinct
    # NaN and -0.0 are texts to the operators, as Python's equality is not that of Double.equals
    values = list(map(distinct_real, counts) if type is Type.DOUBLE else counts)
    numbers, missing = running.values.taken(values, type)
    nulls = missing.astype(numpy.int64)
    words = words_of(numbers, nulls, type)
    found = key_numbers(
        running, f"{aggregate.prefix}_d", numpy.stack([numpy.full(len(words), group), words, nulls], axis=1)
    )
    running.arrays[f"{aggregate.prefix}_d_count"][found] = list(counts.values())
    running.arrays[aggregate.slots[0]][group] = len(counts)
    link = running.arrays.get(f"{aggregate.prefix}_d_link")
    if link is not None:
        # The values of a group are a list, through which a reset goes
        link[found] = [-1, *found[:-1]]
        running.arrays[f"{aggregate.prefix}_d_first"][group] = found[-1]


def _pairs(running: Running, aggregate: Aggregate) -> dict[int, dict[Any, int]]:
    """Return how often each group has each value."""
    name = f"{aggregate.prefix}_d"
    slots = running.arrays[f"{name}_slots"]
    numbers = numpy.sort(slots[slots >= 0])
    words = running.arrays[f"{name}_keys"].reshape(-1, 3)[numbers]
    type, keys = aggregate.distinct, words[:, 1]
    values = running.values.shown(real_values(keys) if type is Type.DOUBLE else keys, words[:, 2], type)
    if type is Type.DOUBLE:
        values = list(map(distinct_key, values))
    counts = running.arrays[f"{name}_count"][numbers].tolist()
    found: dict[int, dict[Any, int]] = {}
    for group, value, count in zip(words[:, 0].tolist(), values, counts, strict=True):
        found.setdefault(group, {})[value] = count
    return found


# The event that is copied for the sign that totals begin anew (`spdist.program.windows.batch_text.BatchWriter`).


def load_copied(running: Running, query: QueryText, number: int, row: Row | None) -> None:
    """Note what conditions behind a window look at, of the event that is copied for a key of the partition."""
    for place in query.tested if row else ():
        name = f"{query.name}_c_{place}"
        if row and name in running.arrays:
            values, nulls = running.values.taken([row[place]], query.read.types[place])
            running.arrays[name][number], running.arrays[f"{name}_n"][number] = values[0], nulls[0]


def stored_copies(running: Running, query: QueryText, count: int) -> StructColumn:
    """Return the events that are copied for so many keys of the partition, as far as somebody looks at them."""
    arrays, types = running.arrays, query.read.types
    columns: list[Column] = [ValueColumn([None] * count)] * len(types)
    for place in query.tested:
        name = f"{query.name}_c_{place}"
        if name in arrays:
            columns[place] = running.values.stored(arrays[name][:count], arrays[f"{name}_n"][:count], types[place])
    return StructColumn(tuple, columns)


def first_or_copied(is_noted: Any, noted: Column, batch: ListColumn) -> Column:
    """Return what a RESET copies of each key: of the open batch the first; else what is noted, where something is."""
    lengths = numpy.array(batch.lengths.values(), numpy.int64)
    firsts = batch.held.at((numpy.cumsum(lengths) - lengths)[lengths > 0])
    turns = numpy.where(lengths > 0, 1, numpy.where(is_noted, 2, 0))
    none = ValueColumn([None] * int((turns == 0).sum()))
    return in_turn(turns, [none, firsts, noted.at(numpy.flatnonzero(turns == 2))])
