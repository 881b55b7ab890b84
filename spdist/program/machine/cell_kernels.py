"""What the text of patterns calls: lists of partial matches that wait at a state, a cell for each place of one.

Everything here is compiled together with a program; this module is only imported where there is numba. No function
raises, none allocates: whoever calls has made room before.
"""

from __future__ import annotations

from spdist.program.machine.arithmetic import loop
from spdist.program.machine.kernels import allot, cell_stays, give_back

__all__ = [
    "cell_goes",
    "cell_joins",
    "cell_of",
    "cells",
    "cells_arrive",
    "cells_go",
    "node_goes",
]


@loop
def cell_joins(first, last, number, of, after, free, refs, node):  # type: ignore[no-untyped-def]
    """Put a node at the end of a list, in a cell of its own."""
    cell = allot(free, after)
    of[cell] = node
    refs[node] += 1
    cell_stays(first, last, number, after, cell)


@loop
def node_goes(node, refs, nodes, following):  # type: ignore[no-untyped-def]
    """Let a node go once; it is free where nobody has it."""
    refs[node] -= 1
    if refs[node] == 0:
        give_back(nodes, following, node)


@loop
def cell_goes(cell, of, after, free, refs, nodes, following):  # type: ignore[no-untyped-def]
    """Give a cell back, and let its node go."""
    give_back(free, after, cell)
    node_goes(of[cell], refs, nodes, following)


@loop
def cells_go(first, number, of, after, free, refs, nodes, following):  # type: ignore[no-untyped-def]
    """Give all cells of a list back."""
    cell = first[number]
    first[number] = -1
    while cell >= 0:
        behind = after[cell]
        cell_goes(cell, of, after, free, refs, nodes, following)
        cell = behind


@loop
def cells_arrive(first, last, new, number, of, after, times):  # type: ignore[no-untyped-def]
    """Put the cells of a list of new ones behind others, in the order of their nodes' times; those at -1 are last."""
    cell, end = new[number], last[number] if first[number] >= 0 else -1
    new[number] = -1
    while cell >= 0:
        behind, time = after[cell], times[of[cell]]
        before = last[number] if first[number] >= 0 else -1
        if before != end and not _stays_before(times, of[before], time):
            before = end
        place = first[number] if before < 0 else after[before]
        # From `end` on, so none comes in front of those that were there.
        while place >= 0 and _stays_before(times, of[place], time):
            before, place = place, after[place]
        after[cell] = place
        if before >= 0:
            after[before] = cell
        else:
            first[number] = cell
        if place < 0:
            last[number] = cell
        cell = behind


@loop
def _stays_before(times, node, time):  # type: ignore[no-untyped-def]
    """Tell whether a node stays in front of one that comes behind it, given the time of that."""
    return time == -1 or (times[node] != -1 and times[node] <= time)


@loop
def cell_of(first, last, number, of, after, node):  # type: ignore[no-untyped-def]
    """Take the first cell of a node out of a list and return it; -1 where there is none."""
    before, cell = -1, first[number]
    while cell >= 0 and of[cell] != node:
        before, cell = cell, after[cell]
    if cell >= 0:
        if before >= 0:
            after[before] = after[cell]
        else:
            first[number] = after[cell]
        if last[number] == cell:
            last[number] = before
    return cell


@loop
def cells(first, number, after):  # type: ignore[no-untyped-def]
    """Return how many cells a list has."""
    count, cell = 0, first[number]
    while cell >= 0:
        count, cell = count + 1, after[cell]
    return count
