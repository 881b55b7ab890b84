"""PlacedMatch matches of a program as those of the operators, and back: timestamps, events, and values that are read.

Of an event only the attributes are there that are still read, and of a counted element only the events that are; the
timestamp of an event behind the first one is that of the latest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy

from spdist.operators.patterns.absence import ABSENT
from spdist.program.parts import QueryText
from spdist.program.patterns.shape import Matched
from spdist.program.running.running import Running

__all__ = ["PlacedMatch", "load_nodes", "store_rows"]

#: Of an event: its timestamp and its row.
_Slot = tuple[int, tuple[Any, ...]]


class PlacedMatch:
    """A partial match: the key's number, at how many places it waits, and its events; of a counted element a list."""

    __slots__ = ("expired", "number", "places", "slots", "timestamp")

    def __init__(self, number: int, lists: Sequence[Any], timestamp: int, expired: bool, slots: Sequence[Any]) -> None:
        self.number = number
        self.timestamp = timestamp
        self.expired = expired
        # A counted element is the number of a list of events, which matches may share
        self.slots: list[Any] = [lists[held] if isinstance(held, int) else held for held in slots]
        self.places = 0

    def event(self, slot: int, index: int) -> _Slot | None:
        """Return an event of an element, given its index, from the end where that is negative; None where none is."""
        held = self.slots[slot]
        if isinstance(held, list):
            held = held[index] if -len(held) <= index < len(held) else None
        found: _Slot | None = held
        return found


def load_nodes(running: Running, query: QueryText, pattern: Matched, found: Sequence[PlacedMatch]) -> None:
    """Let partial matches be the nodes of a pattern, from number 0 on."""
    prefix, total = query.name, len(found)
    running.reserve(f"nodes {prefix}", total)
    arrays = running.arrays
    arrays[f"{prefix}_free"][:] = (-1, total)
    arrays[f"{prefix}_ts"][:total] = [one.timestamp for one in found]
    for n, step in enumerate(pattern.steps):
        if f"{prefix}_first{n or ''}" in arrays:
            firsts = [one.event(step.slot, 0) for one in found]
            arrays[f"{prefix}_first{n or ''}"][:total] = [0 if first is None else first[0] for first in firsts]
    if pattern.shares:
        for node, one in enumerate(found):
            arrays[f"{prefix}_refs"][node] = one.places
            arrays[f"{prefix}_expired"][node] = one.expired
            # A bit for each element that has an event in the match
            arrays[f"{prefix}_bits"][node] = sum(1 << n for n, held in enumerate(one.slots) if held is not None)
    for n, step in enumerate(pattern.steps):
        if step.counted:
            arrays[f"{prefix}_count{n}"][:total] = [len(one.slots[step.slot] or ()) for one in found]
    for place, type in enumerate(pattern.types):
        name = f"{prefix}_p_{place}"
        if name in arrays:
            element, index, attribute = pattern.named(place)
            events = [one.event(pattern.steps[element].slot, index) for one in found]
            values = [None if event is None else event[1][attribute] for event in events]
            arrays[name][:total], arrays[f"{name}_n"][:total] = running.values.taken(values, type)


def store_rows(
    running: Running,
    query: QueryText,
    n: int,
    states: Sequence[Any],
    known: Sequence[dict[int, int]],
    nodes: Sequence[int],
    ends: Sequence[int],
) -> Iterator[tuple[int, list[int]]]:
    """Add the partial matches that wait at element `n` to states; yield whose they are, and where they are there.

    Parameters
    ----------
    running, query
        The program, and the pattern.
    n : int
        The element; behind all where matches go on from state to state.
    states : sequence
        Of each key of the partition, by number.
    known : sequence of dict
        Where the rows of each key are, by their nodes: a match stands once in a state, however often it is met.
    nodes, ends
        The matches of all keys, one key after the other, and where those of each begin and end.
    """
    fresh: list[int] = []
    owners: list[int] = []
    bounds = [(number, begin, end) for number, (begin, end) in enumerate(pairwise(ends)) if end > begin]
    for number, begin, end in bounds:
        own = list(dict.fromkeys(node for node in nodes[begin:end] if node not in known[number]))
        first = len(states[number][0][1])
        known[number].update({node: first + place for place, node in enumerate(own)})
        fresh += own
        owners += [number] * len(own)
    # For all keys together: to ask for a column costs more than the matches of a key
    rows = _rows(running, query, n, numpy.array(fresh, numpy.int64), [states[number][0][0] for number in owners])
    for number, row in zip(owners, rows, strict=True):
        states[number][0][1].append(row)
    for number, begin, end in bounds:
        yield number, [known[number][node] for node in nodes[begin:end]]


def _rows(running: Running, query: QueryText, n: int, nodes: Any, lists: Sequence[list[Any]]) -> list[Any]:
    """Return partial matches that wait at element `n`; the events of counted elements of each are put into its list."""
    pattern, arrays, prefix = query.read, running.arrays, query.name
    assert isinstance(pattern, Matched)
    if not len(nodes):
        return []
    times = arrays[f"{prefix}_ts"][nodes].tolist()
    slots: list[list[Any]] = []
    for element in pattern.order:
        step = pattern.steps[element]
        if pattern.states is None and (step.waiting is not None or (not pattern.shares and element >= n)):
            slots.append([None] * len(nodes))
        elif step.counted:
            slots.append(_chains(running, query, pattern, element, nodes, lists))
        else:
            events = _events(running, query, pattern, element, nodes, pattern.bases[element])
            there = arrays[f"{prefix}_bits"][nodes] >> step.slot & 1 if pattern.shares else numpy.ones(len(nodes))
            events = [ABSENT if step.absent and event[0] == ABSENT[0] else event for event in events]
            slots.append([event if one else None for event, one in zip(events, there.tolist(), strict=True)])
    expired = arrays[f"{prefix}_expired"][nodes] != 0 if pattern.shares else numpy.zeros(len(nodes), bool)
    return [[time, gone, list(row)] for time, gone, *row in zip(times, expired.tolist(), *slots, strict=True)]


def _chains(
    running: Running, query: QueryText, pattern: Matched, element: int, nodes: Any, lists: Sequence[list[Any]]
) -> list[int | None]:
    """Return where in its list the events of a counted element are; of those that are not read all is null."""
    counts = running.arrays[f"{query.name}_count{element}"][nodes].tolist()
    first = running.arrays[f"{query.name}_first"][nodes].tolist()
    indexes = [(False, 0)] + [(from_last, index) for one, from_last, index in pattern.others if one == element]
    known = {}
    for from_last, index in ((True, 0), *indexes):
        place = pattern.known_place(element, from_last, index)
        if place is not None:
            known[-1 - index if from_last else index] = _events(running, query, pattern, element, nodes, place)
    nothing = (None,) * pattern.width(element)
    found: list[int | None] = []
    for node, count in enumerate(counts):
        if not count:
            found.append(None)
            continue
        time = known[-1][node][0]
        chain = [(time, nothing)] * count
        for index, events in known.items():
            if -count <= index < count:
                # An event may have several indexes, each with the attributes that are read by it.
                known_so = zip(chain[index][1], events[node][1], strict=True)
                chain[index] = time, tuple(b if a is None else a for a, b in known_so)
        if element == 0:
            chain[0] = first[node], chain[0][1]
        found.append(len(lists[node]))
        lists[node].append(chain)
    return found


def _events(running: Running, query: QueryText, pattern: Matched, element: int, nodes: Any, base: int) -> list[_Slot]:
    """Return the events of an element in partial matches, whose attributes have places from `base` on."""
    arrays, prefix = running.arrays, query.name
    columns: list[list[Any]] = []
    for place in range(base, base + pattern.width(element)):
        name = f"{prefix}_p_{place}"
        known = name in arrays
        columns.append(
            running.values.shown(arrays[name][nodes], arrays[f"{name}_n"][nodes], pattern.types[place])
            if known
            else [None] * len(nodes)
        )
    first = f"{prefix}_first{element or ''}"
    timed = element in pattern.starts or pattern.steps[element].absent
    times = arrays[first if timed and first in arrays else f"{prefix}_ts"][nodes].tolist()
    return list(zip(times, zip(*columns, strict=True), strict=True))
