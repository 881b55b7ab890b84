"""The events that lists of a program hold, as operators have them, and back: nodes, and the groups of these.

Of a row only the attributes are there that the query reads when it leaves; the others are null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy

from spdist.extension import catalog
from spdist.java.numbers import text_of
from spdist.language.types import Type
from spdist.operators.base import Arrival, Row, VirtualClock
from spdist.operators.core.handlers import FilterPlan, Flow
from spdist.operators.core.state_columns import (
    Column,
    ListColumn,
    NumberColumn,
    StructColumn,
    ValueColumn,
    nothing,
    numbers_of,
)
from spdist.program.parts import QueryText
from spdist.program.running.running import Running
from spdist.program.states.key_words import (
    key_numbers,
    key_owners,
    real_key,
    real_values,
    words_of,
    words_of_keys,
)
from spdist.program.windows.kinds import EARLIEST

__all__ = [
    "events_of_nodes",
    "fill_nodes",
    "group_keys",
    "group_words",
    "link_lists",
    "list_groups",
    "load_list",
    "rows_of",
    "runs",
    "stored_list",
    "stored_values",
    "times_of",
    "walked",
]

_REALS = (Type.FLOAT, Type.DOUBLE)


def load_list(
    running: Running, query: QueryText, name: str, first: int, numbers: Any, owners: Any, held: Column
) -> int:
    """Fill lists with nodes from `first` on; return the end.

    Parameters
    ----------
    running, query, name
        The program, the query, and which lists.
    first : int
        The first node.
    numbers, owners : numpy.ndarray
        Of each list its number, and that of its key of the partition.
    held : Column
        The events of each.
    """
    prefix, arrays, sizes = query.name, running.arrays, held.sizes()
    ends = first + numpy.cumsum(sizes)
    last = int(ends[-1]) if len(ends) else first
    arrays[f"{prefix}_next"][first:last] = numpy.arange(first + 1, last + 1)
    link_lists(arrays, prefix, name, numbers, ends - sizes, sizes)
    # Events of an open batch have not entered the totals yet, so they have no group
    total = name == "left" or not query.read.waits
    fill_nodes(running, query, first, held.items_held(), numpy.repeat(owners, sizes), total)
    return last


def link_lists(arrays: Mapping[str, Any], prefix: str, name: str, numbers: Any, begins: Any, sizes: Any) -> None:
    """Let nodes that follow one another, and are linked so, be lists, given of each its number, first node and size."""
    some = sizes > 0
    numbers, begins, sizes = numbers[some], begins[some], sizes[some]
    arrays[f"{prefix}_{name}"][numbers], arrays[f"{prefix}_{name}_end"][numbers] = begins, begins + sizes - 1
    arrays[f"{prefix}_{name}_size"][numbers] = sizes
    # Each is cut off the one behind it
    arrays[f"{prefix}_next"][begins + sizes - 1] = -1
    if f"{prefix}_before" in arrays:
        arrays[f"{prefix}_before"][begins] = -1


def runs(numbers: Any) -> tuple[Any, Any, Any, Any]:
    """Return a stable order of numbers; and in it which are the first and last of their run, and which have a next."""
    order = numpy.argsort(numbers, kind="stable")
    same = numbers[order][1:] == numbers[order][:-1]
    # Cut, as there may be none at all
    begins, ends = numpy.append(True, ~same)[: len(order)], numpy.append(~same, True)[: len(order)]
    return order, begins, ends, same


def fill_nodes(
    running: Running, query: QueryText, first: int, events: Column, instances: Any, total: bool = True
) -> None:
    """Write events into nodes from `first` on, given the number of the key of each; `total`: they are in totals."""
    if not len(events):
        return
    prefix, arrays, types = query.name, running.arrays, query.read.types
    times, rows = events.parts(2)
    last, parts = first + len(events), rows.parts(int(rows.sizes()[0]))
    arrays[f"{prefix}_ts"][first:last] = numbers_of(times)[0]
    columns: dict[int, tuple[Any, Any]] = {}
    for place in query.kept_attributes:
        values, nulls = running.values.loaded(parts[place], types[place])
        if place in query.known and nulls.any():
            raise ValueError("an aggregator fails on a null")
        columns[place] = values, nulls
        if f"{prefix}_w_{place}" in arrays:
            arrays[f"{prefix}_w_{place}"][first:last] = values
            arrays[f"{prefix}_w_{place}_n"][first:last] = nulls
    if f"{prefix}_g" in arrays and last > first and total:
        if query.grouped:
            running.reserve(f"groups {prefix}", last - first)
        instances = numpy.asarray(instances, numpy.int64)
        nodes = numpy.arange(first, last)
        if query.behind:
            # What a condition behind the window drops never enters the totals
            met = numpy.array(_meeting(query, rows.values()), numpy.int64)
            nodes, instances = nodes[met], instances[met]
            columns = {place: (values[met], nulls[met]) for place, (values, nulls) in columns.items()}
        groups = _groups(running, query, instances, columns)
        arrays[f"{prefix}_g"][nodes] = groups
        list_groups(running, query, groups, instances)


def _meeting(query: QueryText, rows: Sequence[Row]) -> list[int]:
    """Return the places of the rows that meet the conditions behind a window."""
    checked, met = query.read.checked, list[Arrival]()
    plan = FilterPlan(checked.name, query.behind, checked.scope, catalog(False))
    try:
        # The place stands where an event has its timestamp: so those that pass tell which they are
        plan.before(Flow(lambda *_: None, met.extend), VirtualClock()).process_chunk(list(enumerate(rows)))
    except Exception as error:
        raise ValueError("a filter fails on an event that a window holds") from error
    return [place for place, _ in met]


def list_groups(running: Running, query: QueryText, numbers: Any, instances: Any) -> None:
    """Have groups be among those of their key that have totals, where these can begin anew."""
    prefix, arrays = query.name, running.arrays
    if f"{prefix}_known" not in arrays:
        return
    for group, key in zip(numbers.tolist(), instances.tolist(), strict=True):
        if not arrays[f"{prefix}_known"][group]:
            arrays[f"{prefix}_known"][group] = 1
            first = int(arrays[f"{prefix}_groups"][key])
            arrays[f"{prefix}_others"][group], arrays[f"{prefix}_groups"][key] = first, group
            if f"{prefix}_earlier" in arrays:
                name, place = ("earlier", first) if first >= 0 else ("groups_end", key)
                arrays[f"{prefix}_{name}"][place] = group


def _groups(running: Running, query: QueryText, instances: Any, columns: dict[int, tuple[Any, Any]]) -> Any:
    """Return the numbers of the groups of events that a window holds, given their values by attribute."""
    if not query.grouped:
        return instances
    prefix, types = query.name, query.read.types
    words = [] if query.keyed is None else [instances]
    bits = numpy.zeros(len(instances), numpy.int64)
    for bit, place in enumerate(query.grouped):
        values, nulls = columns[place]
        # As a key a null text is the text of number 0, so only other nulls have a bit
        words.append(words_of(values, nulls, types[place]))
        if types[place] is not Type.STRING:
            bits += nulls.astype(numpy.int64) << bit
    groups = key_numbers(running, f"{prefix}_k", numpy.stack([*words, bits], axis=1))
    members = running.arrays.get(f"{prefix}_members")
    if members is not None:
        # A window may hold two lists: those of the other one count, too
        members += numpy.bincount(groups, minlength=len(members))
    return groups


def stored_list(running: Running, query: QueryText, name: str, count: int) -> ListColumn:
    """Return the events of the lists of so many keys; none where the program has no such list."""
    prefix, arrays = query.name, running.arrays
    if name not in query.read.lists:
        return nothing(count)
    lengths, order = walked(running, arrays[f"{prefix}_{name}"][:count], arrays[f"{prefix}_next"])
    return ListColumn(list, NumberColumn(lengths), events_of_nodes(running, query, order))


def times_of(held: ListColumn) -> tuple[Any, Any]:
    """Return the times of the events of lists, one list behind the other, and how many each has."""
    assert isinstance(held.held, StructColumn) and isinstance(held.lengths, NumberColumn)
    times, _ = held.held.columns
    assert isinstance(times, NumberColumn)
    return times.array, held.lengths.array


def rows_of(held: ListColumn) -> ListColumn:
    """Return the rows of the events of lists, as lists."""
    return replace(held, held=held.held.columns[1]) if isinstance(held.held, StructColumn) else held


def walked(running: Running, first: Any, behind: Any) -> tuple[Any, Any]:
    """Return how many nodes lists have, and the nodes of all lists in order.

    Parameters
    ----------
    running : Running
        The program.
    first, behind : numpy.ndarray
        The first node of each list, and the next one of each node; -1 where there is none.
    """
    ends, order = numpy.zeros(len(first) + 1, numpy.int64), numpy.empty(len(behind), numpy.int64)
    running.compiled.kernels.walk(first, behind, len(first), order, ends)
    return numpy.diff(ends), order[: ends[-1]]


def events_of_nodes(running: Running, query: QueryText, order: Any) -> StructColumn:
    """Return the events of nodes; that of -1, which is none, is as early as can be, and of nulls."""
    prefix, arrays, missing = query.name, running.arrays, order < 0
    columns: list[Column] = [ValueColumn([None] * len(order))] * len(query.read.types)
    for place in query.kept_attributes:
        stored = f"{prefix}_w_{place}"
        if stored in arrays:
            values, nulls = arrays[stored][order], arrays[f"{stored}_n"][order]
            columns[place] = running.values.stored(values, (nulls != 0) | missing, query.read.types[place])
    times = numpy.where(missing, EARLIEST, arrays[f"{prefix}_ts"][order])
    return StructColumn(tuple, [NumberColumn(times), StructColumn(tuple, columns)])


def stored_values(running: Running, name: str, places: Any, type: Type) -> Column:
    """Return the values of an array at some places; nulls where the program has no such array, as nobody reads it."""
    arrays = running.arrays
    if name not in arrays:
        return ValueColumn([None] * len(places))
    return running.values.stored(arrays[name][places], arrays[f"{name}_n"][places], type)


def group_words(running: Running, query: QueryText, instances: Any, keys: Column) -> Any:
    """Return the words of the keys of groups, given the number of the partition's key of each.

    A key is a value, or a tuple of several.
    """
    parts = [keys] if len(query.grouped) == 1 else keys.parts(len(query.grouped))
    words = [] if query.keyed is None else [instances]
    bits = numpy.zeros(len(keys), numpy.int64)
    for bit, (place, values) in enumerate(zip(query.grouped, parts, strict=True)):
        type = query.read.types[place]
        own = ValueColumn(list(map(real_key, values.values()))) if type in _REALS else values
        found, nulls = running.values.loaded(own, type)
        words.append(words_of(found, nulls, type))
        if type is not Type.STRING:
            bits += nulls.astype(numpy.int64) << bit
    return numpy.stack([*words, bits], axis=1)


def group_keys(running: Running, query: QueryText, table: str) -> tuple[Any, Any, Column]:
    """Return the numbers of all groups in a table, the number of the partition's key of each, and its own key."""
    numbers, owners = key_owners(running, query, table)
    words, first = words_of_keys(running, table, numbers), 0 if query.keyed is None else 1
    bits = words[:, -1]
    parts: list[Column] = []
    for bit, place in enumerate(query.grouped):
        type, values = query.read.types[place], words[:, first + bit]
        nulls = (bits >> bit) & 1
        if type in _REALS:
            parts.append(ValueColumn(list(map(text_of, running.values.shown(real_values(values), nulls, type)))))
        else:
            parts.append(running.values.stored(values, nulls, type))
    keys = parts[0] if len(parts) == 1 else StructColumn(tuple, parts)
    return numbers, owners, keys
