"""Aggregators of a program as the operators have them, and back: the slots of a group, one behind the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy

from spdist.functions.aggregators import distinct_key, distinct_real
from spdist.language.types import Type
from spdist.operators.core.state_columns import (
    Column,
    ListColumn,
    MapColumn,
    NumberColumn,
    StructColumn,
    ValueColumn,
    in_turn,
    nothing,
    numbers_of,
)
from spdist.program.parts import Aggregate, QueryText
from spdist.program.running.running import Running
from spdist.program.states.key_words import key_numbers, real_values, words_of
from spdist.program.states.nodes import walked

__all__ = ["first_or_copied", "load_copied", "packed", "stored_copies", "unpack"]


def unpack(running: Running, query: QueryText, aggregates: Sequence[Aggregate], groups: Any, slots: Column) -> None:
    """Write the slots of groups, as the operators have them, into the arrays.

    Parameters
    ----------
    running, query, aggregates
        The program, the query, and the aggregators whose slots they are.
    groups : numpy.ndarray
        The numbers of the groups.
    slots : Column
        Of each group the slots, or nothing where no event has come.
    """
    some = numpy.flatnonzero(slots.sizes())
    if len(some) < len(groups):
        groups, slots = groups[some], slots.at(some)
    if not len(groups):
        return
    columns, at = slots.parts(sum(aggregate.form.kept for aggregate in aggregates)), 0
    for aggregate in aggregates:
        kept = list(columns[at : at + aggregate.form.kept])
        at += aggregate.form.kept
        if aggregate.form.candidates:
            _load_candidates(running, query, aggregate, groups, kept[0])
        elif aggregate.form.pairs:
            _load_pairs(running, query, aggregate, groups, kept[0])
        else:
            for name, values in zip(aggregate.slots, aggregate.form.unpack(kept), strict=True):
                running.arrays[name][groups] = values


def packed(running: Running, aggregates: Sequence[Aggregate], numbers: Any) -> Column:
    """Return the slots of groups, as the operators have them."""
    slots: list[Column] = []
    for aggregate in aggregates:
        if aggregate.form.pairs:
            slots.append(_pairs(running, aggregate, numbers))
        elif aggregate.form.candidates:
            slots.append(_candidates(running, aggregate, numbers))
        else:
            slots += aggregate.form.pack([running.arrays[name][numbers] for name in aggregate.slots])
    return StructColumn(list, slots) if slots else nothing(len(numbers))


def _load_candidates(running: Running, query: QueryText, aggregate: Aggregate, groups: Any, lists: Column) -> None:
    """Take over the candidates of groups; in front of them may be a result that is none, with a null behind it."""
    sizes, (values, nulls) = lists.sizes(), numbers_of(lists.items_held())
    groups, sizes = groups[sizes > 0], sizes[sizes > 0]
    firsts = numpy.cumsum(sizes) - sizes
    for slot in aggregate.slots:
        running.arrays[slot][groups] = values[firsts]
    if nulls is not None:
        told = firsts[nulls[numpy.minimum(firsts + 1, len(nulls) - 1)] & (sizes > 1)]
        values = numpy.delete(values, numpy.concatenate([told, told + 1]))
        sizes = sizes - 2 * numpy.isin(firsts, told)
        groups, sizes = groups[sizes > 0], sizes[sizes > 0]
    running.reserve(f"nodes {query.name}", len(values))
    arrays, name = running.arrays, aggregate.prefix
    # When a state is taken over no node is free again, so they are taken from behind
    begin = int(arrays[f"{name}_free"][1])
    nodes = numpy.arange(begin, begin + len(values))
    lasts = begin + numpy.cumsum(sizes) - 1
    arrays[f"{name}_free"][1] += len(values)
    arrays[f"{name}_value"][nodes], arrays[f"{name}_before"][nodes] = values, nodes - 1
    arrays[f"{name}_after"][nodes], arrays[f"{name}_after"][lasts] = nodes + 1, -1
    arrays[f"{name}_before"][lasts - sizes + 1] = -1
    # Two places for each group: its first candidate and its last one
    arrays[f"{name}_ends"][2 * groups], arrays[f"{name}_ends"][2 * groups + 1] = lasts - sizes + 1, lasts


def _candidates(running: Running, aggregate: Aggregate, numbers: Any) -> ListColumn:
    """Return the candidates of groups, in front of them the result where it is none; a null behind it says so."""
    arrays, name = running.arrays, aggregate.prefix
    lengths, order = walked(running, arrays[f"{name}_ends"][2 * numbers], arrays[f"{name}_after"])
    values = arrays[f"{name}_value"][order]
    nulls = numpy.zeros(len(values), bool)
    for slot in aggregate.slots:
        some = numpy.flatnonzero(lengths)
        firsts = (numpy.cumsum(lengths) - lengths)[some]
        results, best = arrays[slot][numbers[some]], values[firsts]
        # Not `!=`: NaN is the same result as NaN
        told = (best < results) | (best > results)
        places, given = numpy.repeat(firsts[told], 2), numpy.repeat(results[told], 2)
        values = numpy.insert(values, places, given)
        nulls = numpy.insert(nulls, places, numpy.tile([False, True], int(told.sum())))
        lengths = lengths.copy()
        lengths[some[told]] += 2
    return ListColumn(deque, NumberColumn(lengths), NumberColumn(values, nulls if nulls.any() else None))


def _load_pairs(running: Running, query: QueryText, aggregate: Aggregate, groups: Any, counted: Column) -> None:
    """Take over how often groups have each value."""
    sizes, (values, counts) = counted.sizes(), counted.entries()
    groups, sizes = groups[sizes > 0], sizes[sizes > 0]
    if not len(values):
        return
    running.reserve(f"pairs {query.name}", len(values))
    type = aggregate.distinct
    if type is Type.DOUBLE:
        # NaN and -0.0 are texts to the operators, as Python's equality is not that of Double.equals
        values = ValueColumn(list(map(distinct_real, values.values())))
    numbers, missing = running.values.loaded(values, type)
    nulls = missing.astype(numpy.int64)
    words = numpy.stack([numpy.repeat(groups, sizes), words_of(numbers, nulls, type), nulls], axis=1)
    found = key_numbers(running, f"{aggregate.prefix}_d", words)
    running.arrays[f"{aggregate.prefix}_d_count"][found] = numbers_of(counts)[0]
    running.arrays[aggregate.slots[0]][groups] = sizes
    link = running.arrays.get(f"{aggregate.prefix}_d_link")
    if link is not None:
        # The values of a group are a list, through which a reset goes, from the last one on
        lasts = numpy.cumsum(sizes) - 1
        link[found] = numpy.append(-1, found[:-1])
        link[found[lasts - sizes + 1]] = -1
        running.arrays[f"{aggregate.prefix}_d_first"][groups] = found[lasts]


def _pairs(running: Running, aggregate: Aggregate, numbers: Any) -> MapColumn:
    """Return how often groups have each value."""
    arrays, name = running.arrays, f"{aggregate.prefix}_d"
    slots = arrays[f"{name}_slots"]
    pairs = numpy.sort(slots[slots >= 0])
    owners = arrays[f"{name}_keys"].reshape(-1, 3)[pairs, 0]
    # Where each group stands among those that are asked for; -1 where it does not
    ranks = numpy.full(max(numbers.max(initial=-1), owners.max(initial=-1)) + 1, -1)
    ranks[numbers] = numpy.arange(len(numbers))
    order = numpy.argsort(ranks[owners], kind="stable")
    order = order[ranks[owners[order]] >= 0]
    pairs, lengths = pairs[order], numpy.bincount(ranks[owners[order]], minlength=len(numbers))
    words = arrays[f"{name}_keys"].reshape(-1, 3)[pairs]
    if aggregate.distinct is Type.DOUBLE:
        shown = running.values.shown(real_values(words[:, 1]), words[:, 2], Type.DOUBLE)
        values: Column = ValueColumn(list(map(distinct_key, shown)))
    else:
        values = running.values.stored(words[:, 1], words[:, 2], aggregate.distinct)
    return MapColumn(NumberColumn(lengths), values, NumberColumn(arrays[f"{name}_count"][pairs]))


# The event that is copied for the sign that totals begin anew (`spdist.program.windows.batch_text.BatchWriter`).


def load_copied(running: Running, query: QueryText, numbers: Any, rows: Column) -> None:
    """Note what conditions behind a window look at, of the event that is copied for each of some keys; none is null."""
    arrays, types = running.arrays, query.read.types
    tested = [place for place in query.tested if f"{query.name}_c_{place}" in arrays]
    if not tested or not len(rows):
        return
    parts = rows.parts(int(rows.sizes()[0]))
    for place in tested:
        values, nulls = running.values.loaded(parts[place], types[place])
        arrays[f"{query.name}_c_{place}"][numbers], arrays[f"{query.name}_c_{place}_n"][numbers] = values, nulls


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
    lengths = batch.sizes()
    firsts = batch.held.at((numpy.cumsum(lengths) - lengths)[lengths > 0])
    turns = numpy.where(lengths > 0, 1, numpy.where(is_noted, 2, 0))
    none = ValueColumn([None] * int((turns == 0).sum()))
    return in_turn(turns, [none, firsts, noted.at(numpy.flatnonzero(turns == 2))])
