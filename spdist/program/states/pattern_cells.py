"""The partial matches of a pattern that go on from state to state as the operators' do: to and from those.

The state is what `spdist.operators.patterns.pattern.Automaton.snapshot` returns, and each list of a state is one here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from spdist.operators.core.state_columns import Column, NumberColumn, StructColumn
from spdist.operators.patterns.absence import AbsenceState, AbsentLogicalState
from spdist.operators.patterns.groups import CountingState
from spdist.operators.patterns.states import State
from spdist.program.parts import QueryText
from spdist.program.patterns.shape import Matched
from spdist.program.running.running import Running
from spdist.program.states.dues import load_dues, stored_dues
from spdist.program.states.nodes import walked
from spdist.program.states.partials import PlacedMatch, StoredMatches, constants, load_nodes

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


def load_cells(running: Running, query: QueryText, states: Sequence[tuple[int, Any]]) -> None:
    """Take over the partial matches: of each key of the partition, by number; or of the app, of number 0."""
    pattern = query.read
    assert isinstance(pattern, Matched)
    absences, found = [pattern.steps[n].slot for n in pattern.absences], list[PlacedMatch]()
    linked: list[tuple[str, str, int, int]] = []
    for number, ((lists, rows), places) in states:
        if f"{query.name}_ready" in running.arrays:
            running.arrays[f"{query.name}_ready"][number] = 1
        nodes: dict[int, int] = {}
        for state, (waiting, arrived, flags) in zip(_states(pattern), places, strict=True):
            for place, array in _flags(running, query, state):
                array[number] = flags[place]
            if state.slot in absences:
                load_dues(running, query, number, flags[5], absences.index(state.slot))
            n = state.slot
            for first, last, those in (("head", "tail", waiting), ("new", "newest", arrived)):
                for one in those:
                    if one not in nodes:
                        nodes[one] = len(found)
                        found.append(PlacedMatch(number, lists, *rows[one]))
                    found[nodes[one]].places += 1
                    linked.append((f"{query.name}_{first}{n}", f"{query.name}_{last}{n}", number, nodes[one]))
    if not found:
        return
    load_nodes(running, query, pattern, found)
    running.reserve(f"nodes {query.name}_c", len(linked))
    arrays, prefix, kernels = running.arrays, query.name, running.compiled.kernels
    for cell, (first, last, number, node) in enumerate(linked):
        arrays[f"{prefix}_c_of"][cell] = node
        kernels.cell_stays(arrays[first], arrays[last], number, arrays[f"{prefix}_c_next"], cell)
    arrays[f"{prefix}_c_free"][:] = (-1, len(linked))


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
