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
    in_turn,
    nothing,
    numbers_of,
    ranges,
)
from spdist.operators.patterns.absence import ABSENT
from spdist.program.parts import QueryText
from spdist.program.patterns.shape import Matched
from spdist.program.running.running import Running
from spdist.program.states.nodes import stored_values

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
        slots, lists = list[Column](), _Lists(len(self._sizes))
        for element in pattern.order:
            there, step = real.copy(), pattern.steps[element]
            if pattern.states is None and step.waiting is not None:
                there[:] = False
            elif pattern.states is None and not pattern.shares:
                there &= element < waits_at
            if step.counted:
                counts = numpy.zeros(len(nodes), numpy.int64)
                counts[there] = arrays[f"{prefix}_count{element}"][nodes[there]]
                some = counts > 0
                chains = _chains(self._running, self._query, element, nodes[some], counts[some])
                places = numpy.zeros(len(nodes), numpy.int64)
                places[some] = lists.places(owners[some], chains)
                slots.append(NumberColumn(places, ~some))
            else:
                slots.append(self._events(element, nodes, there))
        rows = StructColumn(list, [NumberColumn(times), NumberColumn(gone), StructColumn(list, slots)])
        return StructColumn(list, [lists.column(), ListColumn(list, NumberColumn(self._sizes), rows)])

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


class _Lists:
    """The lists of events that the counted elements of all keys hold: of each key those of one element after another.

    Parameters
    ----------
    count : int
        How many keys there are.
    """

    def __init__(self, count: int) -> None:
        self._sizes = numpy.zeros(count, numpy.int64)
        self._owners: list[Any] = []
        self._chains: list[Column] = []

    def places(self, owners: Any, chains: Column) -> Any:
        """Return where lists of an element, in the order of their keys, are among those of their key."""
        counts = numpy.bincount(owners, minlength=len(self._sizes))
        found = self._sizes[owners] + ranges(numpy.zeros_like(counts), counts)
        self._sizes += counts
        self._owners.append(owners)
        self._chains.append(chains)
        return found

    def column(self) -> ListColumn:
        """Return the lists of each key."""
        if not self._chains:
            return nothing(len(self._sizes))
        elements = numpy.repeat(numpy.arange(len(self._chains)), list(map(len, self._chains)))
        order = numpy.argsort(numpy.concatenate(self._owners), kind="stable")
        return ListColumn(list, NumberColumn(self._sizes), in_turn(elements[order], self._chains))


def _chains(running: Running, query: QueryText, element: int, nodes: Any, counts: Any) -> ListColumn:
    """Return the events of a counted element, so many of each node; of those that are not read all is null."""
    pattern, arrays, prefix = query.read, running.arrays, query.name
    assert isinstance(pattern, Matched)
    begins, total = numpy.cumsum(counts) - counts, int(counts.sum())
    times = numpy.repeat(_times(running, query, element, nodes), counts)
    if element == 0:
        times[begins] = arrays[f"{prefix}_first"][nodes]
    # An event may have several indexes, each with the attributes that are read by it
    indexes = [(True, 0), (False, 0)] + [(last, index) for one, last, index in pattern.others if one == element]
    columns: list[Column] = []
    for attribute in range(pattern.width(element)):
        values, nulls = None, numpy.ones(total, bool)
        for from_last, index in dict.fromkeys(indexes):
            base = pattern.known_place(element, from_last, index)
            if base is None or (name := f"{prefix}_p_{base + attribute}") not in arrays:
                continue
            values = numpy.zeros(total, arrays[name].dtype) if values is None else values
            there = index < counts
            at, own = (begins + (counts - 1 - index if from_last else index))[there], nodes[there]
            fresh = nulls[at] & (arrays[f"{name}_n"][own] == 0)
            values[at[fresh]], nulls[at[fresh]] = arrays[name][own[fresh]], False
        type = pattern.types[pattern.bases[element] + attribute]
        none = ValueColumn([None] * total)
        columns.append(none if values is None else running.values.stored(values, nulls, type))
    return ListColumn(
        list, NumberColumn(counts), StructColumn(tuple, [NumberColumn(times), StructColumn(tuple, columns)])
    )


def _events(running: Running, query: QueryText, element: int, nodes: Any, base: int) -> tuple[Any, StructColumn]:
    """Return the events of an element in partial matches, whose attributes have places from `base` on."""
    pattern = query.read
    assert isinstance(pattern, Matched)
    places = range(base, base + pattern.width(element))
    columns = [stored_values(running, f"{query.name}_p_{place}", nodes, pattern.types[place]) for place in places]
    return _times(running, query, element, nodes), StructColumn(tuple, columns)


def _times(running: Running, query: QueryText, element: int, nodes: Any) -> Any:
    """Return when the events of an element came, in partial matches."""
    pattern, arrays, first = query.read, running.arrays, f"{query.name}_first{element or ''}"
    assert isinstance(pattern, Matched)
    timed = element in pattern.starts or pattern.steps[element].absent
    return arrays[first if timed and first in arrays else f"{query.name}_ts"][nodes]


def constants(values: Sequence[Any], count: int) -> list[Column]:
    """Return columns of so many of each value: numbers, bools, and empty lists."""
    return [nothing(count) if value == [] else NumberColumn(numpy.full(count, value)) for value in values]
