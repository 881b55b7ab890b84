"""The state of a program as that of the operators, and back: snapshots have one format, whoever runs the app.

The state of a query is what `spdist.operators.queries.query.SingleStreamQuery.snapshot` returns: totals by the key of
their group, what the window keeps, and nothing for rate limits and stream processors, of which a program has none. Of a
row in a window only the attributes are there that the query reads when it leaves; the others are null.
"""

from __future__ import annotations

from typing import Any

import numpy

from spdist.operators.core.state_columns import (
    Column,
    MapColumn,
    NumberColumn,
    StructColumn,
    ValueColumn,
    no_entries,
    nothing,
)
from spdist.program.joins.shape import Joined
from spdist.program.joins.side_text import NamedText
from spdist.program.parts import QueryText
from spdist.program.patterns.shape import Matched
from spdist.program.running.running import Running
from spdist.program.shape import Query
from spdist.program.states.join import fresh_sides, load_index, load_sides, stored_sides
from spdist.program.states.key_words import key_numbers
from spdist.program.states.nodes import group_keys, group_words, list_groups
from spdist.program.states.pattern import fresh_pattern, held_events, load_pattern, stored_patterns
from spdist.program.states.processor import (
    fresh_processors,
    held_by_processors,
    load_processors,
    stored_processors,
)
from spdist.program.states.rate import fresh_limit, load_limits, stored_limits
from spdist.program.states.table import used_tables
from spdist.program.states.totals import packed, unpack
from spdist.program.states.window import fresh_window, load_window, stored_windows
from spdist.program.tables.text import COUNT

__all__ = ["fresh_query", "held_rows", "load_query", "stored_query"]


def load_query(running: Running, query: QueryText, states: Column, numbers: Any = None) -> None:
    """Take over the states of a query.

    Parameters
    ----------
    running, query : Running, QueryText
        The program, and the query.
    states : Column
        What the operators' query has, of each key of its partition; or of one, which has number 0.
    numbers : numpy.ndarray, optional
        Of the keys.
    """
    if not len(states):
        return
    numbers = numpy.zeros(1, numpy.int64) if numbers is None else numbers
    totals, *parts = states.parts(int(states.sizes()[0]))
    if isinstance(query.read, Joined):
        # Of a join the windows of both sides stand last, and no stream processor in front of it
        limits, _, *sides = parts
        load_sides(running, query, numbers, sides)
    else:
        windows, limits, *processors = parts
        load = load_pattern if isinstance(query.read, Matched) else load_window
        load(running, query, numbers, windows)
        if processors:
            load_processors(running, query, numbers, processors[0])
        if isinstance(query, NamedText):
            load_index(running, query)
    load_limits(running, query, numbers, limits)
    _load_totals(running, query, numbers, totals)


def stored_query(running: Running, query: QueryText, count: int) -> StructColumn:
    """Return the states of a query: of so many keys of its partition, by number; or one."""
    totals, limits = _stored_totals(running, query, count), stored_limits(running, query, count)
    if isinstance(query.read, Joined):
        return StructColumn(list, [totals, limits, nothing(count), *stored_sides(running, query, count)])
    if isinstance(query.read, Matched):
        return StructColumn(list, [totals, stored_patterns(running, query, count), limits])
    windows, processors = stored_windows(running, query, count), stored_processors(running, query, count)
    return StructColumn(list, [totals, windows, limits, processors])


def fresh_query(read: Query) -> Any:
    """Return the state of a query that has seen nothing."""
    if isinstance(read, Joined):
        return [[{}, [], {}], fresh_limit(read), [], *fresh_sides(read)]
    if isinstance(read, Matched):
        return [[{}, [], {}], fresh_pattern(read), fresh_limit(read)]
    return [[{}, [], {}], fresh_window(read), fresh_limit(read), fresh_processors(read)]


def held_rows(running: Running) -> int:
    """Return how many events the windows hold, and for how many groups there are totals."""
    arrays = running.arrays
    held = sum(int(arrays[f"{table.name}_info"][COUNT]) for table in used_tables(running.program))
    for query in running.program.parts:
        if isinstance(query.read, Matched):
            held += held_events(running, query)
        held += held_by_processors(running, query)
        held += sum(int(arrays[f"{query.name}_{name}_size"].sum()) for name in query.read.lists)
        if f"{query.name}_l_head_size" in arrays:
            held += int(arrays[f"{query.name}_l_head_size"].sum())
        if query.aggregates and query.grouped:
            held += int(arrays[f"{query.name}_k_meta"][2])
    return held


# Totals.


def _load_totals(running: Running, query: QueryText, numbers: Any, states: Column) -> None:
    """Take over groups, totals, and those of ``having`` of each key of the partition."""
    by_group, totals, having = states.parts(3)
    if query.conditions:
        _, slots = having.entries()
        unpack(running, query, query.conditions, numpy.repeat(numbers, having.sizes()), slots)
    if query.aggregates and not query.grouped:
        unpack(running, query, query.aggregates, numbers, totals)
        return
    keys, slots = by_group.entries()
    if not query.aggregates or not len(keys):
        return
    running.reserve(f"groups {query.name}", len(keys))
    owners = numpy.repeat(numbers, by_group.sizes())
    groups = key_numbers(running, f"{query.name}_k", group_words(running, query, owners, keys))
    list_groups(running, query, groups, owners)
    unpack(running, query, query.aggregates, groups, slots)


def _stored_totals(running: Running, query: QueryText, count: int) -> StructColumn:
    """Return groups, totals and those of ``having`` for each key of the partition."""
    everyone = numpy.arange(count)
    totals: Column = nothing(count)
    groups, having = no_entries(count), no_entries(count)
    if query.conditions:
        # `having` knows no groups, so its aggregators are those of the group None
        slots = packed(running, query.conditions, everyone)
        having = MapColumn(NumberColumn(numpy.ones(count, numpy.int8)), ValueColumn([None] * count), slots)
    if query.aggregates and not query.grouped:
        totals = packed(running, query.aggregates, everyone)
    elif query.aggregates:
        numbers, instances, keys = group_keys(running, query, f"{query.name}_k")
        order = numpy.argsort(instances, kind="stable")
        lengths = NumberColumn(numpy.bincount(instances, minlength=count))
        groups = MapColumn(lengths, keys.at(order), packed(running, query.aggregates, numbers[order]))
    return StructColumn(list, [groups, totals, having])
