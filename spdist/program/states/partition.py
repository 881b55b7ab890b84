"""The state of a partition as the operators have it, and back; and what is done with what keys have left that are gone.

A partition's state is what `spdist.operators.partitions.partition.PartitionRuntime.snapshot` returns: for each key its
number, when it got its last event, and the states of its queries; then when keys are looked for that were idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from spdist.operators.core.state_columns import (
    Column,
    MapColumn,
    NumberColumn,
    StructColumn,
    ValueColumn,
    column_of,
    numbers_of,
)
from spdist.program.partition_text import purge_rank
from spdist.program.parts import Program, QueryText
from spdist.program.running.running import Running
from spdist.program.shape import Keyed
from spdist.program.states.key_words import key_numbers, key_texts, keys_of_texts
from spdist.program.states.state import load_query, stored_query
from spdist.program.timer_text import PROCESSOR, RATE_LIMIT, rank
from spdist.program.windows.kinds import CRON_RANK

__all__ = ["forget_keys", "fresh_partition", "load_partition", "stored_partition"]

#: So few keys that are gone are never worth to be cleaned up behind.
_FEW = 1000


def fresh_partition(keyed: Keyed, state: Any) -> Any:
    """Return the state of a partition that has no keys, given what it was."""
    _, created, looks, due = state
    return [{}, created, looks if keyed.purge is None else {}, due if keyed.purge is None else []]


def load_partition(running: Running, keyed: Keyed, state: Column) -> None:
    """Take over the state of a partition, a column of one value.

    Raises
    ------
    ValueError, TypeError, OverflowError
        It has what a program cannot have.
    """
    by_key, _, *purging = state.parts(4)
    keys, states = by_key.entries()
    number, arrays = keyed.number, running.arrays
    running.reserve(f"keys {number}", len(keys))
    words = keys_of_texts(running, keys.values(), keyed.type).reshape(-1, 1)
    numbers = key_numbers(running, f"p{number}", words)
    _, used_at, of_queries = states.parts(3)
    queries = _queries(running.program, keyed)
    for query, own in zip(queries, of_queries.parts(len(queries)), strict=True):
        load_query(running, query, own, numbers)
    if keyed.purge is None:
        return
    (looks,), (due,) = (part.values() for part in purging)
    running.reserve(f"ends p{number}", len(keys))
    running.reserve("timers", 1)
    ends, used = arrays[f"p{number}_ends"].reshape(-1, 3), numbers_of(used_at)[0].astype(numpy.int64)
    arrays[f"p{number}_used"][numbers] = used
    # What is in order is a heap: the ends of keys, by when they were used last
    order = numpy.argsort(used, kind="stable")
    ends[0, 0] = len(keys)
    ends[1 : len(keys) + 1, 0], ends[1 : len(keys) + 1, 1] = used[order], numbers[order]
    arrays[f"p{number}_looks"][: 2 * len(looks) + 1] = [
        len(looks),
        *(one for series in looks.items() for one in series),
    ]
    for asked in due:
        arrays[f"p{number}_due"][0] = asked
        running.compiled.kernels.timer_set(arrays["timers"], asked, purge_rank(keyed), 0)


def stored_partition(running: Running, keyed: Keyed, state: Any) -> Column:
    """Return the state of a partition, a column of one value, given that of its operators meanwhile."""
    arrays, name = running.arrays, f"p{keyed.number}"
    created = int(arrays[f"{name}_meta"][0])
    # Keys keep their numbers for ever, also those that are gone: so all below the next number
    keys = ValueColumn(key_texts(running, arrays[f"{name}_keys"][:created], keyed.type))
    queries = StructColumn(list, [stored_query(running, query, created) for query in _queries(running.program, keyed)])
    used = numpy.zeros(created, numpy.int64) if keyed.purge is None else arrays[f"{name}_used"][:created]
    states: Column = StructColumn(list, [NumberColumn(numpy.arange(created)), NumberColumn(used), queries])
    _, _, looks, due = state
    here = created
    if keyed.purge is not None:
        begun = arrays[f"{name}_looks"][1 : 2 * int(arrays[f"{name}_looks"][0]) + 1]
        looks = dict(begun.reshape(-1, 2).tolist())
        gone = arrays[f"{name}_gone"][:created] != 0
        here = created - int(gone.sum())
        due = [int(arrays[f"{name}_due"][0])] if here else []
        if here < created:
            places = numpy.flatnonzero(~gone)
            keys, states = keys.at(places), states.at(places)
    by_key = MapColumn(NumberColumn(numpy.array([here])), keys, states)
    return StructColumn(list, [by_key, ValueColumn([created]), column_of([looks]), column_of([due])])


def forget_keys(running: Running) -> None:
    """Let go what keys have left that are gone, where there are more of those than of others.

    It costs as much as looking at all of the partition, and is done when as many keys have gone as are there.
    """
    for keyed in running.program.shape.purging:
        name = f"p{keyed.number}"
        created, _, here = running.arrays[f"{name}_meta"][:3].tolist()
        if created - here > max(_FEW, here):
            state = stored_partition(running, keyed, [{}, 0, {}, []])
            _empty(running, keyed)
            load_partition(running, keyed, state)
            running.compute_held()


def _empty(running: Running, keyed: Keyed) -> None:
    """Let the arrays of a partition and its queries be as if nothing had come, and forget its timers."""
    arrays, declared = running.arrays, running.program.arrays
    owners = (f"p{keyed.number}", *(query.name for query in _queries(running.program, keyed)))
    for name, array in declared.declared.items():
        if name.startswith(tuple(f"{owner}_" for owner in owners)):
            # The seed of a table's hash stays, and how many slots it has.
            places = (
                slice(3) if name.endswith("_meta") and name.removesuffix("_meta") in declared.tables else slice(None)
            )
            arrays[name][places] = float(array.fill)
            if name in declared.free_lists:
                arrays[name][0] = -1
            elif places.stop:
                # Of a table of keys this is the first free number: there is none
                arrays[name][1] = -1
    timers, numbers = arrays.get("timers"), {query.number for query in keyed.queries}
    if timers is None:
        return
    asked = timers[3 : 3 * int(timers[0]) + 3].reshape(-1, 3)
    operators = range(PROCESSOR, RATE_LIMIT + 1)
    ranks = {purge_rank(keyed), *(rank(CRON_RANK + number) for number in numbers)}
    ranks |= {rank(number, operator) for number in numbers for operator in operators}
    left = asked[~numpy.isin(asked[:, 1], list(ranks))]
    # Rows in order are a heap again: by time, rank and key, of which `lexsort` wants the first one last
    left = left[numpy.lexsort(left.T[::-1])]
    timers[0] = len(left)
    timers[3 : 3 * len(left) + 3] = left.reshape(-1)


def _queries(program: Program, keyed: Keyed) -> Sequence[QueryText]:
    """Return the queries of a partition."""
    return [query for query in program.queries if query.keyed is not None and query.keyed.number == keyed.number]
