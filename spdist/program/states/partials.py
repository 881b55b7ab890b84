"""Partial matches of a program as those of the operators, and back: timestamps, events, and values that are read.

Of an event only the attributes are there that are still read, and of a counted element only the events that are; the
timestamp of an event behind the first one is that of the latest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from spdist.language.types import Type
from spdist.operators.core.state_columns import (
    Column,
    ListColumn,
    NumberColumn,
    StructColumn,
    ValueColumn,
    column_of,
    in_turn,
    nothing,
    numbers_of,
)
from spdist.operators.patterns.absence import ABSENT
from spdist.program.parts import QueryText
from spdist.program.patterns.shape import Matched
from spdist.program.running.running import Running

__all__ = ["LoadedMatches", "StoredMatches", "constants"]


class LoadedMatches:
    """The partial matches of all keys of a partition, from state: those that wait somewhere become nodes.

    Parameters
    ----------
    running, query
        The program, and the pattern.
    numbers : numpy.ndarray
        Of the keys.
    matches : Column
        Of each the lists that counted elements hold, and its partial matches.

    State
    -----
    Whose each match is, at how many places it waits, and which node it is, once `load` has been called.
    """

    def __init__(self, running: Running, query: QueryText, numbers: Any, matches: Column) -> None:
        assert isinstance(query.read, Matched)
        self._running = running
        self._query = query
        self._pattern = query.read
        lists, rows = matches.parts(2)
        sizes, counts = rows.sizes(), lists.sizes()
        self._owners = numpy.repeat(numbers, sizes)
        self._begins = numpy.cumsum(sizes) - sizes
        self._rows = rows.items_held()
        # Counted elements are the numbers of lists of events, which the matches of a key may share
        self._lists = lists.items_held()
        self._of_lists = numpy.repeat(numpy.cumsum(counts) - counts, sizes)
        self._places = numpy.zeros(len(self._owners), numpy.int64)
        self._slots: Sequence[Column] = ()
        self._events: dict[tuple[int, int], tuple[Any, Column]] = {}

    def waiting(self, places: Column) -> Any:
        """Return the matches that wait somewhere, as numbers of all, given a list of places for each key."""
        found = numpy.repeat(self._begins, places.sizes()) + numbers_of(places.items_held())[0]
        self._places += numpy.bincount(found, minlength=len(self._places))
        return found

    def load(self) -> int:
        """Let those that wait be the nodes of the pattern, from number 0 on; return how many they are."""
        found = numpy.flatnonzero(self._places)
        refs, total = self._places[found], len(found)
        self._places[:] = -1
        self._places[found] = numpy.arange(total)
        times, expired, slots = self._rows.at(found).parts(3)
        self._slots = slots.parts(int(slots.sizes()[0])) if total else ()
        self._of_lists = self._of_lists[found]
        self._running.reserve(f"nodes {self._query.name}", total)
        if total:
            self._load(total, numbers_of(times)[0], numbers_of(expired)[0], refs)
        return total

    def nodes(self, found: Any) -> tuple[Any, Any]:
        """Return the nodes of matches, given as `waiting` returns them, and the numbers of their keys."""
        return self._places[found], self._owners[found]

    def came(self, slot: int) -> Any:
        """Return which nodes have an event of an element."""
        return self._slots[slot].known()

    def _load(self, total: int, times: Any, expired: Any, refs: Any) -> None:
        prefix, arrays, pattern = self._query.name, self._running.arrays, self._pattern
        arrays[f"{prefix}_free"][:] = (-1, total)
        arrays[f"{prefix}_ts"][:total] = times
        if pattern.shares:
            arrays[f"{prefix}_refs"][:total], arrays[f"{prefix}_expired"][:total] = refs, expired
            # A bit for each element that has an event in the match
            bits = (self.came(slot).astype(numpy.int64) << slot for slot in range(len(self._slots)))
            arrays[f"{prefix}_bits"][:total] = sum(bits)
        for n, step in enumerate(pattern.steps):
            if f"{prefix}_first{n or ''}" in arrays:
                known, events = self._event(n, 0)
                firsts = numpy.zeros(total, numpy.int64)
                firsts[known] = numbers_of(events.parts(2)[0])[0]
                arrays[f"{prefix}_first{n or ''}"][:total] = firsts
            if step.counted:
                _, sizes = self._chain(step.slot)
                arrays[f"{prefix}_count{n}"][:total] = sizes
        for place, type in enumerate(pattern.types):
            if f"{prefix}_p_{place}" in arrays:
                self._load_attribute(f"{prefix}_p_{place}", total, type, *pattern.named(place))

    def _load_attribute(self, name: str, total: int, type: Type, element: int, index: int, attribute: int) -> None:
        """Take over what an event of an element, by its index, has as an attribute; null where it has not come."""
        arrays = self._running.arrays
        known, events = self._event(element, index)
        arrays[name][:total], arrays[f"{name}_n"][:total] = 0, 1
        if len(events):
            rows = events.parts(2)[1]
            values, nulls = self._running.values.loaded(rows.parts(int(rows.sizes()[0]))[attribute], type)
            arrays[name][known], arrays[f"{name}_n"][known] = values, nulls

    def _chain(self, slot: int) -> tuple[Any, Any]:
        """Return where the lists of a counted element begin among the events of all, and how many events they have."""
        numbers, nulls = numbers_of(self._slots[slot])
        sizes = self._lists.sizes()
        # One more, without events, for those that have none
        begins, sizes = numpy.append(numpy.cumsum(sizes) - sizes, 0), numpy.append(sizes, 0)
        lists = self._of_lists + numbers
        lists = lists if nulls is None else numpy.where(nulls, -1, lists)
        return begins[lists], sizes[lists]

    def _event(self, element: int, index: int) -> tuple[Any, Column]:
        """Return the nodes with an event of an element, by its index, from the end where negative; and the events."""
        step = self._pattern.steps[element]
        if not step.counted:
            index = 0
        if (element, index) not in self._events:
            if step.counted:
                begins, sizes = self._chain(step.slot)
                nodes = numpy.flatnonzero((-sizes <= index) & (index < sizes))
                at = (begins + index + (sizes if index < 0 else 0))[nodes]
                self._events[element, index] = nodes, self._lists.items_held().at(at)
            else:
                nodes = numpy.flatnonzero(self.came(step.slot))
                self._events[element, index] = nodes, self._slots[step.slot].at(nodes)
        return self._events[element, index]


class StoredMatches:
    """The partial matches of all keys of a partition as state: each once in that of its key, however often it is met.

    Parameters
    ----------
    running, query
        The program, and the pattern.
    empty : numpy.ndarray of bool
        Which keys have the operators' empty match, which waits for a first event, in front of all others.

    State
    -----
    Where the rows of nodes are in the states of their keys, and whose each is.
    """

    def __init__(self, running: Running, query: QueryText, empty: Any) -> None:
        assert isinstance(query.read, Matched)
        self._running = running
        self._query = query
        self._pattern = query.read
        self._sizes = empty.astype(numpy.int64)
        self._places = numpy.full(int(running.arrays[f"{query.name}_free"][1]), -1)
        owners = numpy.flatnonzero(empty)
        #: Whose rows there are, their nodes (-1: the empty match), and at which element they wait.
        self._rows = [(owners, numpy.full(len(owners), -1), numpy.zeros(len(owners), numpy.int64))]

    def places(self, n: int, lengths: Any, nodes: Any) -> ListColumn:
        """Return where the partial matches that wait at element `n` are in the states of their keys.

        Parameters
        ----------
        n : int
            The element; behind all where matches go on from state to state.
        lengths, nodes : numpy.ndarray
            How many each key has, and the nodes of all keys, one key after the other.
        """
        owners, fresh = numpy.repeat(numpy.arange(len(lengths)), lengths), numpy.zeros(len(nodes), bool)
        fresh[numpy.unique(nodes, return_index=True)[1]] = True
        fresh &= self._places[nodes] < 0
        owners, new = owners[fresh], nodes[fresh]
        counts = numpy.bincount(owners, minlength=len(lengths))
        first = self._sizes - (numpy.cumsum(counts) - counts)
        self._places[new] = first[owners] + numpy.arange(len(new))
        self._sizes += counts
        self._rows.append((owners, new, numpy.full(len(new), n)))
        return ListColumn(list, NumberColumn(lengths), NumberColumn(self._places[nodes]))

    def columns(self) -> StructColumn:
        """Return the lists that counted elements hold, and the rows, of each key."""
        arrays, prefix, pattern = self._running.arrays, self._query.name, self._pattern
        owners, nodes, waits_at = (numpy.concatenate(parts) for parts in zip(*self._rows, strict=True))
        order = numpy.argsort(owners, kind="stable")
        owners, nodes, waits_at = owners[order], nodes[order], waits_at[order]
        real, times, gone = nodes >= 0, numpy.full(len(nodes), -1), numpy.zeros(len(nodes), bool)
        times[real] = arrays[f"{prefix}_ts"][nodes[real]]
        if pattern.shares:
            gone[real] = arrays[f"{prefix}_expired"][nodes[real]] != 0
        lists: list[list[Any]] = [[] for _ in self._sizes] if any(step.counted for step in pattern.steps) else []
        slots = []
        for element in pattern.order:
            there, step = real.copy(), pattern.steps[element]
            if pattern.states is None and step.waiting is not None:
                there[:] = False
            elif pattern.states is None and not pattern.shares:
                there &= element < waits_at
            slots.append(
                _chains(self._running, self._query, element, nodes, there, owners, lists)
                if step.counted
                else self._events(element, nodes, there)
            )
        rows = StructColumn(list, [NumberColumn(times), NumberColumn(gone), StructColumn(list, slots)])
        held = column_of(lists) if lists else nothing(len(self._sizes))
        return StructColumn(list, [held, ListColumn(list, NumberColumn(self._sizes), rows)])

    def _events(self, element: int, nodes: Any, there: Any) -> Column:
        """Return the events of an element; None where it has none."""
        pattern, step = self._pattern, self._pattern.steps[element]
        if pattern.shares:
            bits = self._running.arrays[f"{self._query.name}_bits"]
            there[there] = (bits[nodes[there]] >> step.slot & 1) != 0
        times, rows = _events(self._running, self._query, element, nodes[there], pattern.bases[element])
        turns = there.astype(numpy.uint8)
        came = numpy.ones(len(times), bool)
        if step.absent:
            came = times != ABSENT[0]
            turns[there] = numpy.where(came, 1, 2)
        none, absent = numpy.count_nonzero(turns == 0), numpy.count_nonzero(turns == 2)
        events = StructColumn(tuple, [NumberColumn(times), rows]).at(numpy.flatnonzero(came))
        return in_turn(turns, [ValueColumn([None] * none), events, ValueColumn([ABSENT] * absent)])


def _chains(
    running: Running, query: QueryText, element: int, nodes: Any, there: Any, owners: Any, lists: Sequence[list[Any]]
) -> ValueColumn:
    """Return where in the list of its key the events of a counted element are; of those not read all is null."""
    pattern = query.read
    assert isinstance(pattern, Matched)
    places, nodes = numpy.flatnonzero(there).tolist(), nodes[there]
    found: list[int | None] = [None] * len(there)
    counts = running.arrays[f"{query.name}_count{element}"][nodes].tolist()
    first = running.arrays[f"{query.name}_first"][nodes].tolist()
    indexes = [(False, 0)] + [(from_last, index) for one, from_last, index in pattern.others if one == element]
    known = {}
    for from_last, index in ((True, 0), *indexes):
        place = pattern.known_place(element, from_last, index)
        if place is not None:
            times, rows = _events(running, query, element, nodes, place)
            known[-1 - index if from_last else index] = list(zip(times.tolist(), rows.values(), strict=True))
    nothing_read = (None,) * pattern.width(element)
    for row, (place, owner, count) in enumerate(zip(places, owners[there].tolist(), counts, strict=True)):
        if not count:
            continue
        time = known[-1][row][0]
        chain = [(time, nothing_read)] * count
        for index, events in known.items():
            if -count <= index < count:
                # An event may have several indexes, each with the attributes that are read by it.
                known_so = zip(chain[index][1], events[row][1], strict=True)
                chain[index] = time, tuple(b if a is None else a for a, b in known_so)
        if element == 0:
            chain[0] = first[row], chain[0][1]
        found[place] = len(lists[owner])
        lists[owner].append(chain)
    return ValueColumn(found)


def _events(running: Running, query: QueryText, element: int, nodes: Any, base: int) -> tuple[Any, StructColumn]:
    """Return the events of an element in partial matches, whose attributes have places from `base` on."""
    pattern, arrays, prefix = query.read, running.arrays, query.name
    assert isinstance(pattern, Matched)
    columns: list[Column] = []
    for place in range(base, base + pattern.width(element)):
        name = f"{prefix}_p_{place}"
        columns.append(
            running.values.stored(arrays[name][nodes], arrays[f"{name}_n"][nodes], pattern.types[place])
            if name in arrays
            else ValueColumn([None] * len(nodes))
        )
    first = f"{prefix}_first{element or ''}"
    timed = element in pattern.starts or pattern.steps[element].absent
    times = arrays[first if timed and first in arrays else f"{prefix}_ts"][nodes]
    return times, StructColumn(tuple, columns)


def constants(values: Sequence[Any], count: int) -> list[Column]:
    """Return columns of so many of each value: numbers, bools, and empty lists."""
    return [nothing(count) if value == [] else NumberColumn(numpy.full(count, value)) for value in values]
