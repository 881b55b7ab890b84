"""What rate limits of a program hold back and have counted as the operators have it, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from spdist.language import ast
from spdist.operators.base import CURRENT, EXPIRED
from spdist.operators.core.state_columns import (
    Column,
    ListColumn,
    MapColumn,
    NumberColumn,
    StructColumn,
    ValueColumn,
    column_of,
    no_entries,
    numbers_of,
)
from spdist.program.parts import QueryText, ticks
from spdist.program.queries.snapshot_text import ContentWriter, GroupsWriter, shown_totals, snapshot_writer
from spdist.program.running.running import Running
from spdist.program.shape import Query
from spdist.program.states.dues import asked_again, load_dues, stored_dues
from spdist.program.states.key_words import key_numbers
from spdist.program.states.nodes import group_keys, group_words, link_lists, stored_values, walked
from spdist.program.states.window import note_numbers
from spdist.program.timer_text import RATE_LIMIT

__all__ = ["fresh_limit", "load_limits", "stored_limits"]

_NEVER = -(2**63)


def fresh_limit(read: Query) -> Any:
    """Return the state of a rate limit that has seen nothing."""
    rate = read.checked.query.rate
    if rate is None:
        return None
    held: Any = [] if rate.kind == "all" else {}
    if rate.kind == "snapshot" and snapshot_writer(QueryText(read, None)) is ContentWriter:
        held = [[], {}]
    if ticks(read):
        return [held, 0, []]
    return [0, held] if rate.kind == "last" else held


def load_limits(running: Running, query: QueryText, numbers: Any, held: Column) -> None:
    """Take over the states of a query's rate limit: of each key of its partition, by number; or one, of number 0."""
    rate, prefix = query.read.checked.query.rate, f"{query.name}_l"
    if rate is None:
        return
    if query.ticks:
        held, ticks_at, dues = held.parts(3)
        if f"{prefix}_tick" in running.arrays:
            running.arrays[f"{prefix}_tick"][numbers] = numbers_of(ticks_at)[0]
            load_dues(running, query, numbers, dues, RATE_LIMIT)
    elif query.holds_back and rate.kind == "last":
        # Without ticks the operator's state is how many results it has seen, and those held back
        seen, held = held.parts(2)
        note_numbers(running, query, "l_seen", numbers, seen)
    if query.holds_back:
        _load_held(running, query, numbers, _read_held(query, rate, held))
        return
    keys, counts = held.entries()
    groups = _groups(running, query, numpy.repeat(numbers, held.sizes()), keys)
    note_numbers(running, query, "l_seen" if rate.events is not None else "l_passed", groups, counts)


def stored_limits(running: Running, query: QueryText, count: int) -> Column:
    """Return the states of a query's rate limit: of so many keys of its partition, by number; or one."""
    prefix, arrays, rate = f"{query.name}_l", running.arrays, query.read.checked.query.rate
    if rate is None:
        return ValueColumn([None] * count)
    if _is_unread(running, query) or (query.holds_back and f"{prefix}_head" not in arrays):
        return column_of([fresh_limit(query.read) for _ in range(count)])
    if not query.holds_back:
        name = f"{prefix}_seen" if rate.events is not None else f"{prefix}_passed"
        return _stored_counted(running, query, arrays[name], count) if name in arrays else no_entries(count)
    held = _stored_held(running, query, count)
    own: Column = ListColumn(list, NumberColumn(held.sizes), held.results)
    if rate.kind == "last":
        own = MapColumn(NumberColumn(held.sizes), held.keys, held.results)
    elif rate.kind == "snapshot":
        own = _stored_snapshot(running, query, held)
    if query.ticks:
        return StructColumn(list, [own, *_ticking(running, query, count)])
    return StructColumn(list, [NumberColumn(arrays[f"{prefix}_seen"][:count]), own]) if rate.kind == "last" else own


def _is_unread(running: Running, query: QueryText) -> bool:
    """Tell whether nobody reads what a limit lets through, so that it counts nothing by group."""
    rate = query.read.checked.query.rate
    by_group = bool(query.grouped) and rate is not None and rate.kind not in ("all", "snapshot")
    return by_group and f"{query.name}_l_k" not in running.program.arrays.tables


# Groups.


def _groups(running: Running, query: QueryText, owners: Any, keys: Column) -> Any:
    """Return the numbers that groups get here, each of a key of the partition; without groups those of these keys."""
    if not query.grouped or not len(keys) or f"{query.name}_l_k" not in running.program.arrays.tables:
        return owners
    running.reserve(f"groups {query.name}_l", len(keys))
    return key_numbers(running, f"{query.name}_l_k", group_words(running, query, owners, keys))


def _stored_counted(running: Running, query: QueryText, counted: Any, count: int) -> MapColumn:
    """Return by group, or None where there are none, what is counted for so many keys of the partition."""
    if query.grouped:
        numbers, instances, keys = group_keys(running, query, f"{query.name}_l_k")
        order = numpy.argsort(instances, kind="stable")
        sizes = numpy.bincount(instances, minlength=count)
        return MapColumn(NumberColumn(sizes), keys.at(order), NumberColumn(counted[numbers[order]]))
    rate = query.read.checked.query.rate
    some = counted[:count] != (0 if rate is not None and rate.events is not None else _NEVER)
    keys, values = ValueColumn([None] * int(some.sum())), NumberColumn(counted[:count][some])
    return MapColumn(NumberColumn(some.astype(numpy.int64)), keys, values)


# What is held back.


@dataclass(frozen=True, slots=True)
class HeldResults:
    """What a rate limit holds back for so many keys of a partition.

    Parameters
    ----------
    sizes : numpy.ndarray
        How many results each of them has.
    results : Column
        All results, in order: (int, int, tuple), what they are, when, and the row.
    keys : Column
        The key of the group of each; null where a limit knows no groups.
    groups : numpy.ndarray, optional
        Its number; that of the key of the partition where a limit knows no groups. Not known of what is read.
    members : Column, optional
        How many events the group of each has, where that is counted.
    totals : MapColumn, optional
        The latest totals of each by group (None without groups).
    """

    sizes: Any
    results: Column
    keys: Column
    groups: Any = None
    members: Column | None = None
    totals: Column | None = None


def _read_held(query: QueryText, rate: ast.OutputRate, held: Column) -> HeldResults:
    """Return what operators' states say."""
    writer = snapshot_writer(query) if rate.kind == "snapshot" else None
    if writer is not ContentWriter and rate.kind != "all":
        sizes, (keys, results) = held.sizes(), held.entries()
        if writer is not GroupsWriter:
            return HeldResults(sizes, results, keys)
        members, results = results.parts(2)
        return HeldResults(sizes, results, keys, members=members)
    lists, totals = held.parts(2) if writer is ContentWriter else (held, None)
    results = lists.items_held()
    keys = ValueColumn([None] * len(results))
    if totals is not None and query.grouped and shown_totals(query.read):
        *_, keys = results.parts(4)
    return HeldResults(lists.sizes(), results, keys, totals=totals)


def _load_held(running: Running, query: QueryText, numbers: Any, held: HeldResults) -> None:
    prefix, types, total = f"{query.name}_l", query.read.checked.output.types, len(held.results)
    if f"{prefix}_head" not in running.arrays or not total:
        return
    running.reserve(f"nodes {prefix}", total)
    groups = _groups(running, query, numpy.repeat(numbers, held.sizes), held.keys)
    arrays, results = running.arrays, held.results
    if len(set(results.sizes().tolist())) > 1:
        # Only some have the key of their group, where operators went on from a state that says none
        results = column_of([result[:3] for result in results.values()])
    kinds, times, rows, *_ = results.parts(int(results.sizes()[0]))
    arrays[f"{prefix}_free"][:] = (-1, total)
    arrays[f"{prefix}_ts"][:total] = numbers_of(times)[0]
    arrays[f"{prefix}_next"][:total] = numpy.arange(1, total + 1)
    if f"{prefix}_kind" in arrays:
        arrays[f"{prefix}_kind"][:total] = numbers_of(kinds)[0]
    for place, (type, own) in enumerate(zip(types, rows.parts(len(types)), strict=True)):
        if f"{prefix}_{place}" in arrays:
            values, nulls = running.values.loaded(own, type)
            arrays[f"{prefix}_{place}"][:total], arrays[f"{prefix}_{place}_n"][:total] = values, nulls
    link_lists(arrays, prefix, "head", numbers, numpy.cumsum(held.sizes) - held.sizes, held.sizes)
    if f"{prefix}_of" in arrays:
        arrays[f"{prefix}_of"][:total] = groups
        if f"{prefix}_node" in arrays:
            arrays[f"{prefix}_node"][groups] = numpy.arange(total)
    if held.members is not None:
        note_numbers(running, query, "l_members", groups, held.members)
    elif f"{prefix}_members" in arrays:
        # `+=` with an array of places would count a group once that stands there several times
        numpy.add.at(arrays[f"{prefix}_members"], groups, 1)
    if held.totals is not None:
        _load_totals(running, query, numbers, held, groups)


def _load_totals(running: Running, query: QueryText, numbers: Any, held: HeldResults, groups: Any) -> None:
    """Take over the latest totals of groups that have results, or of keys of the partition."""
    assert held.totals is not None
    owners, (keys, totals) = numpy.repeat(numbers, held.totals.sizes()), held.totals.entries()
    if query.grouped and len(keys) != len(numpy.unique(groups)):
        # Operators still have those of groups of which nothing is held any more: these have no number here
        some = set(zip(numpy.repeat(numbers, held.sizes).tolist(), held.keys.values(), strict=True))
        known = [one in some for one in zip(owners.tolist(), keys.values(), strict=True)]
        places = numpy.flatnonzero(known)
        owners, keys, totals = owners[places], keys.at(places), totals.at(places)
    own, arrays, types = _groups(running, query, owners, keys), running.arrays, query.read.checked.output.types
    shown = shown_totals(query.read)
    for place, values in zip(shown, totals.parts(len(shown)) if len(totals) else (), strict=False):
        name = f"{query.name}_l_t_{place}"
        if name in arrays:
            arrays[name][own], arrays[f"{name}_n"][own] = running.values.loaded(values, types[place])


def _stored_held(running: Running, query: QueryText, count: int) -> HeldResults:
    """Return what is held back for so many keys."""
    prefix, arrays = f"{query.name}_l", running.arrays
    sizes, order = walked(running, arrays[f"{prefix}_head"][:count], arrays[f"{prefix}_next"])
    types = enumerate(query.read.checked.output.types)
    columns = [stored_values(running, f"{prefix}_{place}", order, type) for place, type in types]
    # Where results are all of one kind, nobody notes it
    kinds = numpy.full(len(order), EXPIRED if query.read.events == "expired" else CURRENT)
    if f"{prefix}_kind" in arrays:
        kinds = arrays[f"{prefix}_kind"][order]
    rows = StructColumn(tuple, columns)
    results = StructColumn(tuple, [NumberColumn(kinds), NumberColumn(arrays[f"{prefix}_ts"][order]), rows])
    if f"{prefix}_of" not in arrays:
        groups = numpy.repeat(numpy.arange(count), sizes)
        return HeldResults(sizes, results, ValueColumn([None] * len(order)), groups)
    numbers, _, keys = group_keys(running, query, f"{query.name}_l_k")
    groups = arrays[f"{prefix}_of"][order]
    return HeldResults(sizes, results, keys.at(numpy.searchsorted(numbers, groups)), groups)


def _ticking(running: Running, query: QueryText, count: int) -> tuple[Column, Column]:
    """Return when results of keys go on next, and their wake-ups; one that has nothing to let go on has asked for none.

    A snapshot that a result has let come early has asked for the next one, too.
    """
    rate = query.read.checked.query.rate
    assert rate is not None and rate.time is not None
    ticks_at, dues = running.arrays[f"{query.name}_l_tick"][:count], stored_dues(running, query, count, RATE_LIMIT)
    # Ticks that passed while it slept had nothing to let go on
    ticks_at, dues = asked_again(running, dues, ticks_at, dues.sizes() == 0, rate.time.milliseconds)
    return NumberColumn(ticks_at), dues


def _stored_snapshot(running: Running, query: QueryText, held: HeldResults) -> Column:
    """Return what a snapshot holds of so many keys, as operators have it."""
    writer, results, sizes = snapshot_writer(query), held.results, NumberColumn(held.sizes)
    if query.grouped:
        results = StructColumn(tuple, [*results.parts(3), held.keys])
    if writer is not ContentWriter:
        if writer is GroupsWriter:
            members = NumberColumn(running.arrays[f"{query.name}_l_members"][held.groups])
            results = StructColumn(list, [members, results])
        return MapColumn(sizes, held.keys, results)
    # A group has one entry, however many of its results are held
    firsts = numpy.sort(numpy.unique(held.groups, return_index=True)[1])
    owners = numpy.repeat(numpy.arange(len(held.sizes)), held.sizes)[firsts]
    known = NumberColumn(numpy.bincount(owners, minlength=len(held.sizes)))
    totals = MapColumn(known, held.keys.at(firsts), _stored_totals(running, query, held.groups[firsts]))
    return StructColumn(list, [ListColumn(list, sizes, results), totals])


def _stored_totals(running: Running, query: QueryText, groups: Any) -> Column:
    """Return the totals of groups."""
    types, shown = query.read.checked.output.types, shown_totals(query.read)
    columns = [stored_values(running, f"{query.name}_l_t_{place}", groups, types[place]) for place in shown]
    return StructColumn(tuple, columns) if columns else ValueColumn([()] * len(groups))
