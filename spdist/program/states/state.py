"""The state of a program as that of the operators, and back: snapshots have one format, whoever runs the app.

The state of a query is what `spdist.operators.queries.query.SingleStreamQuery.snapshot` returns: totals by the key of
their group, what the window keeps, and nothing for rate limits and stream processors, of which a program has none. Of a
row in a window only the attributes are there that the query reads when it leaves; the others are null.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy

from spdist.functions.aggregators import distinct_key, distinct_real
from spdist.language.types import Type
from spdist.program.joins.shape import Joined
from spdist.program.joins.side_text import NamedText
from spdist.program.parts import Aggregate, QueryText
from spdist.program.patterns.shape import Matched
from spdist.program.running.running import Running
from spdist.program.shape import Query
from spdist.program.states.join import fresh_sides, load_index, load_sides, stored_sides
from spdist.program.states.key_words import key_numbers, real_values, words_of
from spdist.program.states.pattern import fresh_pattern, held_events, load_pattern, stored_patterns
from spdist.program.states.rate import fresh_limit, load_limits, stored_limits
from spdist.program.states.table import used_tables
from spdist.program.states.window import (
    fresh_window,
    group_keys,
    group_words,
    list_groups,
    load_window,
    stored_windows,
)
from spdist.program.tables.text import COUNT

__all__ = ["fresh_query", "held_rows", "load_query", "stored_query"]

_REALS = (Type.FLOAT, Type.DOUBLE)


def load_query(running: Running, query: QueryText, states: Sequence[tuple[int, Any]]) -> None:
    """Take over the states of a query: of each key of its partition, by number; or one, of number 0."""
    limit = 2
    if isinstance(query.read, Joined):
        load_sides(running, query, [(number, state[3:]) for number, state in states])
        limit = 1
    else:
        load = load_pattern if isinstance(query.read, Matched) else load_window
        load(running, query, [(number, state[1]) for number, state in states])
        if isinstance(query, NamedText):
            load_index(running, query)
    load_limits(running, query, [(number, state[limit]) for number, state in states])
    for number, state in states:
        if query.aggregates:
            _load_totals(running, query, number, state[0])
        for slots in state[0][2].values() if query.conditions else ():
            _unpack(running, query, query.conditions, number, slots)


def stored_query(running: Running, query: QueryText, count: int) -> list[Any]:
    """Return the states of a query: of so many keys of its partition, by number; or one."""
    totals = _stored_totals(running, query, count)
    limits = stored_limits(running, query, count)
    if isinstance(query.read, Joined):
        sides = stored_sides(running, query, count)
        return [[own, limit, [], *windows] for own, limit, windows in zip(totals, limits, sides, strict=True)]
    if isinstance(query.read, Matched):
        patterns = stored_patterns(running, query, count)
        return [list(state) for state in zip(totals, patterns, limits, strict=True)]
    windows = stored_windows(running, query, count)
    return [[*state, []] for state in zip(totals, windows, limits, strict=True)]


def fresh_query(read: Query) -> Any:
    """Return the state of a query that has seen nothing."""
    if isinstance(read, Joined):
        return [[{}, [], {}], fresh_limit(read), [], *fresh_sides(read)]
    if isinstance(read, Matched):
        return [[{}, [], {}], fresh_pattern(read), fresh_limit(read)]
    return [[{}, [], {}], fresh_window(read), fresh_limit(read), []]


def held_rows(running: Running) -> int:
    """Return how many events the windows hold, and for how many groups there are totals."""
    arrays = running.arrays
    held = sum(int(arrays[f"{table.name}_info"][COUNT]) for table in used_tables(running))
    for query in running.program.parts:
        if isinstance(query.read, Matched):
            held += held_events(running, query)
        held += sum(int(arrays[f"{query.name}_{name}_size"].sum()) for name in query.read.lists)
        if f"{query.name}_l_head_size" in arrays:
            held += int(arrays[f"{query.name}_l_head_size"].sum())
        if query.aggregates and query.grouped:
            held += int(arrays[f"{query.name}_k_meta"][2])
    return held


# Totals.


def _load_totals(running: Running, query: QueryText, number: int, state: Any) -> None:
    groups, totals, _ = state
    if not query.grouped:
        if totals:
            _unpack(running, query, query.aggregates, number, totals)
        return
    if not groups:
        return
    running.reserve(f"groups {query.name}", len(groups))
    words = group_words(running, query, number, list(groups))
    numbers = key_numbers(running, f"{query.name}_k", words)
    list_groups(running, query, numbers, [number] * len(numbers))
    for group, slots in zip(numbers.tolist(), groups.values(), strict=True):
        _unpack(running, query, query.aggregates, group, slots)


def _stored_totals(running: Running, query: QueryText, count: int) -> list[Any]:
    """Return groups, totals and those of ``having`` for each key of the partition."""
    states: list[Any] = [[{}, [], {}] for _ in range(count)]
    if query.conditions:
        for state, slots in zip(states, _packed(running, query.conditions, numpy.arange(count)), strict=True):
            state[2][None] = slots
    if not query.aggregates:
        return states
    if not query.grouped:
        for number, slots in enumerate(_packed(running, query.aggregates, numpy.arange(count))):
            states[number][1] = slots
        return states
    numbers, instances, keys = group_keys(running, query, f"{query.name}_k")
    for instance, key, slots in zip(instances, keys, _packed(running, query.aggregates, numbers), strict=True):
        states[instance][0][key] = slots
    return states


def _unpack(
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


def _packed(running: Running, aggregates: Sequence[Aggregate], numbers: Any) -> list[list[Any]]:
    """Return the slots of groups, as the operators have them."""
    slots: list[list[Any]] = [[] for _ in range(len(numbers))]
    for aggregate in aggregates:
        if aggregate.form.pairs:
            found = _pairs(running, aggregate)
            for own, group in zip(slots, numbers.tolist(), strict=True):
                own.append(found.get(group, {}))
            continue
        if aggregate.form.candidates:
            for own, values in zip(slots, _candidates(running, aggregate, numbers), strict=True):
                own.append(values)
            continue
        columns = [running.arrays[name][numbers].tolist() for name in aggregate.slots]
        for own, kept in zip(slots, zip(*columns, strict=True), strict=True):
            own += aggregate.form.pack(list(kept))
    return slots


def _load_candidates(running: Running, aggregate: Aggregate, group: int, values: Iterable[Any]) -> None:
    arrays, name = running.arrays, aggregate.prefix
    before, values = -1, list(values)
    for slot in aggregate.slots[: len(values)]:
        arrays[slot][group] = values[0]
    if len(values) > 1 and values[1] is None:  # what is the result, and no candidate
        values = values[2:]
    for value in values:
        node = int(arrays[f"{name}_free"][1])
        arrays[f"{name}_free"][1] += 1
        arrays[f"{name}_value"][node] = value
        arrays[f"{name}_before"][node], arrays[f"{name}_after"][node] = before, -1
        arrays[f"{name}_ends" if before < 0 else f"{name}_after"][2 * group if before < 0 else before] = node
        before = node
    arrays[f"{name}_ends"][2 * group + 1] = before


def _candidates(running: Running, aggregate: Aggregate, numbers: Any) -> list[deque[Any]]:
    arrays, name = running.arrays, aggregate.prefix
    nodes = int(arrays[f"{name}_free"][1])
    order = numpy.empty(nodes, numpy.int64)
    ends = numpy.zeros(len(numbers) + 1, numpy.int64)
    first = arrays[f"{name}_ends"][2 * numbers]
    running.compiled.kernels.walk(first, arrays[f"{name}_after"], len(numbers), order, ends)
    bounds = ends.tolist()
    values = arrays[f"{name}_value"][order[: bounds[-1]]].tolist()
    found = [deque(values[begin:end]) for begin, end in pairwise(bounds)]
    for slot in aggregate.slots:
        for own, result in zip(found, arrays[slot][numbers].tolist(), strict=True):
            if own and (own[0] < result or own[0] > result):
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
