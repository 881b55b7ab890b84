"""What a snapshot's rate limit holds in a program as the operators have it, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from spdist.operators.selection.rates import Result
from spdist.program.parts import QueryText
from spdist.program.queries.snapshot_text import ContentWriter, GroupsWriter, shown_totals, snapshot_writer
from spdist.program.running.running import Running

__all__ = ["SnapshotResults", "load_snapshot", "read_snapshot", "stored_snapshot"]


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


def read_snapshot(query: QueryText, held: Any) -> SnapshotResults:
    """Return what an operator's state says."""
    writer = snapshot_writer(query)
    if writer is ContentWriter:
        results, totals = held
        by_group = bool(query.grouped) and bool(shown_totals(query.read))
        return SnapshotResults(results, [one[3] if by_group else None for one in results], totals=totals)
    if writer is GroupsWriter:
        members, results = ([own[part] for own in held.values()] for part in (0, 1))
        return SnapshotResults(results, list(held), members)
    return SnapshotResults(list(held.values()), list(held))


def stored_snapshot(running: Running | None, query: QueryText, held: Sequence[tuple[Any, int, Result]]) -> Any:
    """Return an operator's state, given of each result the key of its group, its number, and the result."""
    writer, keys, numbers = snapshot_writer(query), [key for key, *_ in held], [number for _, number, _ in held]
    results = [(*result, key) if query.grouped else result for key, _, result in held]
    if writer is ContentWriter:
        return [results, dict(zip(keys, _stored_totals(running, query, numbers), strict=True))]
    if writer is GroupsWriter and running is not None:
        members = running.arrays[f"{query.name}_l_members"][numbers].tolist()
        return {key: [count, one] for key, count, one in zip(keys, members, results, strict=True)}
    return dict(zip(keys, results, strict=True))


def load_snapshot(running: Running, query: QueryText, held: SnapshotResults, groups: Sequence[int]) -> None:
    """Take over what is known of the groups of results, by their numbers; of the key where there are none."""
    arrays, prefix, types = running.arrays, f"{query.name}_l", query.read.checked.output.types
    if held.members:
        arrays[f"{prefix}_members"][groups] = held.members
    elif f"{prefix}_members" in arrays:
        numpy.add.at(arrays[f"{prefix}_members"], groups, 1)
    for column, place in enumerate(shown_totals(query.read) if held.totals else ()):
        if f"{prefix}_t_{place}" in arrays:
            found, nulls = running.values.taken([held.totals[key][column] for key in held.keys], types[place])
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
