"""The partial matches of a pattern that go on from state to state as the operators' do: to and from those.

The state is what `spdist.operators.patterns.pattern.Automaton.snapshot` returns, and each list of a state is one here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from spdist.operators.core.state_columns import Column, NumberColumn, StructColumn, numbers_of
from spdist.operators.patterns.absence import AbsenceState, AbsentLogicalState
from spdist.operators.patterns.groups import CountingState
from spdist.operators.patterns.states import State
from spdist.program.parts import QueryText
from spdist.program.patterns.shape import Matched
from spdist.program.running.running import Running
from spdist.program.states.dues import load_dues, stored_dues
from spdist.program.states.nodes import walked
from spdist.program.states.partials import LoadedMatches, StoredMatches, constants

__all__ = ["fresh_cells", "load_cells", "stored_cells"]


def fresh_cells(pattern: Matched) -> Any:
    """Return the state of a pattern that has seen nothing and has not begun."""
    return [[[], []], [[[], [], _fresh_flags(state)] for state in _states(pattern)]]


def _states(pattern: Matched) -> list[State]:
    assert pattern.states is not None
    return pattern.states.states


def _fresh_flags(state: State) -> list[Any]:
    if isinstance(state, AbsenceState | AbsentLogicalState):
        return [False, False, True, True, 0, []]
    return [False, False, *([False] if isinstance(state, CountingState) else [])]


def _flags(running: Running, query: QueryText, state: State) -> Iterator[tuple[int, Any]]:
    """Yield the arrays of the flags of a state, each with its place among these."""
    names = [(0, f"begun{state.slot}"), (1, f"said{state.slot}")]
    if isinstance(state, CountingState):
        names.append((2, f"over{state.slot}"))
    if isinstance(state, AbsenceState | AbsentLogicalState):
        assert isinstance(query.read, Matched)
        names += [(2, f"active{state.slot}"), (4, f"until{query.read.order[state.slot]}")]
    for place, name in names:
        array = running.arrays.get(f"{query.name}_{name}")
        if array is not None:
            yield place, array


def load_cells(running: Running, query: QueryText, numbers: Any, states: Column) -> None:
    """Take over the partial matches: of each key of the partition, by number; or of the app, of number 0."""
    pattern = query.read
    assert isinstance(pattern, Matched)
    absences, prefix = [pattern.steps[n].slot for n in pattern.absences], query.name
    if f"{prefix}_ready" in running.arrays:
        running.arrays[f"{prefix}_ready"][numbers] = 1
    matches, elements = states.parts(2)
    found, listed = LoadedMatches(running, query, numbers, matches), list[tuple[str, str, Any]]()
    for state, own in zip(_states(pattern), elements.parts(len(_states(pattern))), strict=True):
        waiting, arrived, given = own.parts(3)
        flags = given.parts(len(_fresh_flags(state)))
        for place, array in _flags(running, query, state):
            array[numbers] = numbers_of(flags[place])[0]
        if state.slot in absences:
            load_dues(running, query, numbers, flags[5], absences.index(state.slot))
        n = state.slot
        listed.append((f"{prefix}_head{n}", f"{prefix}_tail{n}", found.waiting(waiting)))
        listed.append((f"{prefix}_new{n}", f"{prefix}_newest{n}", found.waiting(arrived)))
    if not found.load():
        return
    count = sum(len(those) for *_, those in listed)
    running.reserve(f"nodes {prefix}_c", count)
    arrays, begin = running.arrays, 0
    for first, last, those in listed:
        nodes, owners = found.nodes(those)
        arrays[f"{prefix}_c_of"][begin : begin + len(nodes)] = nodes
        if len(nodes):
            running.compiled.kernels.cells_stay(arrays[first], arrays[last], owners, arrays[f"{prefix}_c_next"], begin)
        begin += len(nodes)
    arrays[f"{prefix}_c_free"][:] = (-1, count)


def stored_cells(running: Running, query: QueryText, count: int) -> Column:
    """Return the states of a pattern: of so many keys of its partition, by number; or one."""
    pattern = query.read
    assert isinstance(pattern, Matched)
    absences = [pattern.steps[n].slot for n in pattern.absences]
    matches, behind_all = StoredMatches(running, query, numpy.zeros(count, bool)), len(pattern.steps)
    slots = []
    for state in _states(pattern):
        flags = constants(_fresh_flags(state), count)
        for place, array in _flags(running, query, state):
            # Until when an absence waits is a time, ms; all other flags are bools
            flags[place] = NumberColumn(array[:count] if place == 4 else array[:count] != 0)
        if state.slot in absences:
            flags[5] = stored_dues(running, query, count, absences.index(state.slot))
        # A match may have several cells, but its row stands once in the state
        lists = [
            matches.places(behind_all, *_nodes(running, query, f"{query.name}_{name}{state.slot}", count))
            for name in ("head", "new")
        ]
        slots.append(StructColumn(list, [*lists, StructColumn(list, flags)]))
    return StructColumn(list, [matches.columns(), StructColumn(list, slots)])


def _nodes(running: Running, query: QueryText, name: str, count: int) -> tuple[Any, Any]:
    """Return how many nodes so many lists have, and the nodes, one list after the other."""
    arrays, prefix = running.arrays, query.name
    if name not in arrays:
        return numpy.zeros(count, numpy.int64), numpy.zeros(0, numpy.int64)
    lengths, cells = walked(running, arrays[name][:count], arrays[f"{prefix}_c_next"])
    return lengths, arrays[f"{prefix}_c_of"][cells]
