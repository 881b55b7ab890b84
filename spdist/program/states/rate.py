"""What rate limits of a program hold back and have counted as the operators have it, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy

from spdist.language import ast
from spdist.operators.base import CURRENT, EXPIRED
from spdist.operators.core.state_columns import (
    Column,
    ListColumn,
    NumberColumn,
    ValueColumn,
    column_of,
    numbers_of,
)
from spdist.operators.selection.rates import Result
from spdist.program.parts import QueryText, ticks
from spdist.program.queries.snapshot_text import ContentWriter, GroupsWriter, shown_totals, snapshot_writer
from spdist.program.running.running import Running
from spdist.program.shape import Query
from spdist.program.states.dues import load_dues, stored_dues
from spdist.program.states.key_words import key_numbers
from spdist.program.states.nodes import group_keys, group_words, link_lists, walked
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
    if rate.kind == "snapshot":
        (held,) = stored_snapshots(None, QueryText(read, None), [[]])
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
        read = read_snapshots if rate.kind == "snapshot" else _read_held
        _load_held(running, query, numbers, read(query, held.values()))
        return
    keys, counts = held.entries()
    groups = _groups(running, query, numpy.repeat(numbers, held.sizes()), keys)
    note_numbers(running, query, "l_seen" if rate.events is not None else "l_passed", groups, counts)


def stored_limits(running: Running, query: QueryText, count: int) -> Column:
    """Return the states of a query's rate limit: of so many keys of its partition, by number; or one."""
    if query.read.checked.query.rate is None:
        return ValueColumn([None] * count)
    return column_of(_stored_limits(running, query, query.read.checked.query.rate, count))


def _stored_limits(running: Running, query: QueryText, rate: ast.OutputRate, count: int) -> list[Any]:
    prefix, arrays = f"{query.name}_l", running.arrays
    if _is_unread(running, query) or (query.holds_back and f"{prefix}_head" not in arrays):
        return [fresh_limit(query.read) for _ in range(count)]
    found: list[Any] = [{} for _ in range(count)]
    if not query.holds_back:
        name = f"{prefix}_seen" if rate.events is not None else f"{prefix}_passed"
        if name in arrays:
            _store_counted(running, query, arrays[name], found)
        return found
    ticking = _ticking(running, query, count) if query.ticks else []
    held = _stored_held(running, query, count)
    snapshots = stored_snapshots(running, query, held) if rate.kind == "snapshot" else []
    for number, results in enumerate(held):
        own: Any = [result for *_, result in results]
        if rate.kind == "last":
            own = {key: result for key, _, result in results}
        elif rate.kind == "snapshot":
            own = snapshots[number]
        if query.ticks:
            found[number] = [own, *ticking[number]]
        elif rate.kind == "last":
            found[number] = [int(arrays[f"{prefix}_seen"][number]), own]
        else:
            found[number] = own
    return found


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


def _store_counted(running: Running, query: QueryText, counted: Any, found: list[Any]) -> None:
    never = 0 if query.read.checked.query.rate.events is not None else _NEVER  # type: ignore[union-attr]
    if not query.grouped:
        for number, own in enumerate(found):
            if counted[number] != never:
                own[None] = int(counted[number])
        return
    numbers, instances, keys = group_keys(running, query, f"{query.name}_l_k")
    for group, instance, key in zip(numbers.tolist(), instances.tolist(), keys.values(), strict=True):
        found[instance][key] = int(counted[group])


# What is held back.


def _read_held(_query: QueryText, held: Sequence[Any]) -> list[SnapshotResults]:
    return [
        SnapshotResults(list(own.values()), list(own)) if isinstance(own, dict) else SnapshotResults(own, [])
        for own in held
    ]


def _load_held(running: Running, query: QueryText, numbers: Any, held: Sequence[SnapshotResults]) -> None:
    prefix, types = f"{query.name}_l", query.read.checked.output.types
    results: list[Result] = [result for own in held for result in own.results]
    if f"{prefix}_head" not in running.arrays or not results:
        return
    total = len(results)
    running.reserve(f"nodes {prefix}", total)
    sizes = numpy.array([len(own.results) for own in held])
    owners = numpy.repeat(numbers, sizes)
    groups = _groups(running, query, owners, column_of([key for own in held for key in own.keys]))
    arrays = running.arrays
    arrays[f"{prefix}_free"][:] = (-1, total)
    arrays[f"{prefix}_ts"][:total] = [result[1] for result in results]
    arrays[f"{prefix}_next"][:total] = numpy.arange(1, total + 1)
    if f"{prefix}_kind" in arrays:
        arrays[f"{prefix}_kind"][:total] = [result[0] for result in results]
    for place, type in enumerate(types):
        if f"{prefix}_{place}" in arrays:
            values, nulls = running.values.taken([result[2][place] for result in results], type)
            arrays[f"{prefix}_{place}"][:total], arrays[f"{prefix}_{place}_n"][:total] = values, nulls
    link_lists(arrays, prefix, "head", numbers, numpy.cumsum(sizes) - sizes, sizes)
    if f"{prefix}_of" in arrays:
        arrays[f"{prefix}_of"][:total] = groups
        if f"{prefix}_node" in arrays:
            arrays[f"{prefix}_node"][groups] = numpy.arange(total)
    load_snapshot(running, query, held, groups)


def _stored_held(running: Running, query: QueryText, count: int) -> list[list[tuple[Any, int, Result]]]:
    """Return what is held back for so many keys: the key of the group, its number, and the result."""
    prefix, arrays = f"{query.name}_l", running.arrays
    lengths, order = walked(running, arrays[f"{prefix}_head"][:count], arrays[f"{prefix}_next"])
    columns = []
    for place, type in enumerate(query.read.checked.output.types):
        name = f"{prefix}_{place}"
        values = [None] * len(order)
        if name in arrays:
            values = running.values.shown(arrays[name][order], arrays[f"{name}_n"][order], type)
        columns.append(values)
    # Where results are all of one kind, nobody notes it
    kinds = [EXPIRED if query.read.events == "expired" else CURRENT] * len(order)
    if f"{prefix}_kind" in arrays:
        kinds = arrays[f"{prefix}_kind"][order].tolist()
    rows = zip(*columns, strict=True)
    results = list(zip(kinds, arrays[f"{prefix}_ts"][order].tolist(), rows, strict=True))
    keys: list[Any] = [None] * len(results)
    groups = numpy.repeat(numpy.arange(count), lengths).tolist()
    if f"{prefix}_of" in arrays:
        numbers, _, known = group_keys(running, query, f"{query.name}_l_k")
        by_number = dict(zip(numbers.tolist(), known.values(), strict=True))
        groups = arrays[f"{prefix}_of"][order].tolist()
        keys = [by_number[group] for group in groups]
    found = list(zip(keys, groups, results, strict=True))
    return ListColumn(list, NumberColumn(lengths), ValueColumn(found)).values()


def _ticking(running: Running, query: QueryText, count: int) -> list[tuple[int, list[int]]]:
    """Return when results of a key go on next, and its wake-ups; one that has nothing to let go on has asked for none.

    A snapshot that a result has let come early has asked for the next one, too.
    """
    rate = query.read.checked.query.rate
    assert rate is not None and rate.time is not None
    span, until = rate.time.milliseconds, int(running.arrays["timers_until"][0])
    found = []
    ticks_at = running.arrays[f"{query.name}_l_tick"][:count].tolist()
    for tick, dues in zip(ticks_at, stored_dues(running, query, count, RATE_LIMIT).values(), strict=True):
        # Ticks that passed while it slept had nothing to let go on
        next_tick = tick if dues else tick + max(0, (until - tick) // span + 1) * span
        found.append((next_tick, dues or [next_tick]))
    return found


# What a snapshot's rate limit holds in a program as the operators have it, and back.


@dataclass(frozen=True, slots=True)
class SnapshotResults:
    """What a rate limit holds of one key of a partition.

    Parameters
    ----------
    results : list of Result
        In order.
    keys : list
        The key of the group of each, where a limit knows groups.
    members : list of int
        How many events the group of each has, where that is counted.
    totals : dict
        The latest totals by group (None without groups).
    """

    results: list[Result]
    keys: list[Any]
    members: list[int] = field(default_factory=list)
    totals: dict[Any, Sequence[Any]] = field(default_factory=dict)


def read_snapshots(query: QueryText, held: Sequence[Any]) -> list[SnapshotResults]:
    """Return what operators' states say."""
    writer = snapshot_writer(query)
    if writer is ContentWriter:
        by_group = bool(query.grouped) and bool(shown_totals(query.read))
        return [
            SnapshotResults(results, [one[3] if by_group else None for one in results], totals=totals)
            for results, totals in held
        ]
    if writer is GroupsWriter:
        return [
            SnapshotResults([one for _, one in own.values()], list(own), [count for count, _ in own.values()])
            for own in held
        ]
    return [SnapshotResults(list(own.values()), list(own)) for own in held]


def stored_snapshots(
    running: Running | None, query: QueryText, held: Sequence[Sequence[tuple[Any, int, Result]]]
) -> list[Any]:
    """Return operators' states, given of each result of each the key of its group, its number, and the result."""
    writer, grouped = snapshot_writer(query), bool(query.grouped)
    numbers = [number for own in held for _, number, _ in own]
    known: Iterator[Any] = iter(())
    if writer is ContentWriter:
        known = iter(_stored_totals(running, query, numbers))
    elif writer is GroupsWriter and running is not None:
        known = iter(running.arrays[f"{query.name}_l_members"][numbers].tolist())
    states: list[Any] = []
    for own in held:
        keys = [key for key, *_ in own]
        results = [(*result, key) if grouped else result for key, _, result in own]
        more = list(islice(known, len(own)))
        if writer is ContentWriter:
            states.append([results, dict(zip(keys, more, strict=True))])
        elif more:
            states.append({key: [count, one] for key, count, one in zip(keys, more, results, strict=True)})
        else:
            states.append(dict(zip(keys, results, strict=True)))
    return states


def load_snapshot(running: Running, query: QueryText, held: Sequence[SnapshotResults], groups: Any) -> None:
    """Take over what is known of the groups of results, by their numbers; of the key where there are none."""
    arrays, prefix, types = running.arrays, f"{query.name}_l", query.read.checked.output.types
    members = [count for own in held for count in own.members]
    totals = [own.totals[key] for own in held if own.totals for key in own.keys]
    if members:
        arrays[f"{prefix}_members"][groups] = members
    elif f"{prefix}_members" in arrays:
        # `+=` with an array of places would count a group once that stands there several times
        numpy.add.at(arrays[f"{prefix}_members"], groups, 1)
    for column, place in enumerate(shown_totals(query.read) if totals else ()):
        if f"{prefix}_t_{place}" in arrays:
            found, nulls = running.values.taken([own[column] for own in totals], types[place])
            arrays[f"{prefix}_t_{place}"][groups], arrays[f"{prefix}_t_{place}_n"][groups] = found, nulls


def _stored_totals(running: Running | None, query: QueryText, groups: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return the totals of groups."""
    columns, types = [], query.read.checked.output.types
    for place in shown_totals(query.read):
        name, values = f"{query.name}_l_t_{place}", [None] * len(groups)
        if running is not None and name in running.arrays:
            found, nulls = (running.arrays[one][groups] for one in (name, f"{name}_n"))
            values = running.values.shown(found, nulls, types[place])
        columns.append(values)
    return list(zip(*columns, strict=True)) if columns else [()] * len(groups)
