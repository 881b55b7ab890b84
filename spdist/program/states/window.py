"""What windows of a program hold as the operators have it, and back.

Each window names who knows that (`spdist.program.windows.kinds.TypedWindow.states`); those that hold lists of events
are below `ListStates`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from spdist.operators.base import Arrival
from spdist.operators.core.state_columns import Column, ValueColumn, column_of, numbers_of
from spdist.program.parts import QueryText
from spdist.program.running.running import Running
from spdist.program.shape import Read
from spdist.program.states.dues import load_dues, window_dues
from spdist.program.states.nodes import load_list, stored_list
from spdist.program.windows.kinds import EARLIEST, FAR, Kept

__all__ = [
    "ListStates",
    "Lists",
    "Loaded",
    "Rest",
    "WindowStates",
    "fresh_window",
    "load_window",
    "note_numbers",
    "noted_numbers",
    "stored_windows",
]

#: The events of each list of a window (`spdist.program.shape.Read.lists`).
Lists = Mapping[str, Sequence[Arrival]]


def load_window(running: Running, query: QueryText, numbers: Any, states: Column) -> None:
    """Take over what the windows of a query hold: of each key of its partition, by number; or of one, of number 0."""
    window = query.read.window
    if window is not None:
        window.states.load(running, query, numbers, states)


def note_numbers(running: Running, query: QueryText, name: str, numbers: Any, noted: Column) -> None:
    """Take over one number of each key, of those that have one; a text declares only what it reads."""
    array = running.arrays.get(f"{query.name}_{name}")
    if array is not None:
        values, nulls = numbers_of(noted)
        known = slice(None) if nulls is None else ~nulls
        array[numbers[known]] = values[known]


def stored_windows(running: Running, query: QueryText, count: int) -> Column:
    """Return what the windows of a query hold: those of so many keys of its partition, by number; or one."""
    window = query.read.window
    if window is None:
        return ValueColumn([None] * count)
    found: Column = window.states.stored(running, query, count)
    return found


def noted_numbers(running: Running, query: QueryText, name: str, count: int, nothing_seen: int = 0) -> Any:
    """Return one number of each key, as an array; a text declares only what it reads, so it may not be there."""
    array = running.arrays.get(f"{query.name}_{name}")
    return numpy.full(count, nothing_seen) if array is None else array[:count]


def fresh_window(read: Read) -> Any:
    """Return the state of a window that has seen nothing."""
    return None if read.window is None else read.window.states.fresh(read)


class WindowStates:
    """The state of a window as operators have it: to and from the arrays of a program.

    Parameters
    ----------
    window : Sliding or Batched
        The window.
    """

    def __init__(self, window: Kept) -> None:
        self.window = window

    def load(self, running: Running, query: QueryText, numbers: Any, states: Column) -> None:
        """Take over the states of the keys of a partition, whose numbers are an array; or one, of number 0."""
        raise NotImplementedError

    def stored(self, running: Running, query: QueryText, count: int) -> Column:
        """Return the states of so many keys of a partition, by number; or one."""
        raise NotImplementedError

    def fresh(self, read: Read) -> Any:
        """Return the state of a window that has seen nothing."""
        raise NotImplementedError

    def looks_at_times(self, running: Running, query: QueryText) -> None:
        """Raise ValueError where a window on a time attribute has a time that is left to operators."""
        if self.window.time is None:
            return
        arrays, prefix = running.arrays, query.name
        held = [arrays[f"{prefix}_w_{self.window.time}"][: int(arrays[f"{prefix}_free"][1])]]
        held += [arrays[name] for one in ("begin", "ending", "reached") if (name := f"{prefix}_{one}") in arrays]
        for times in held:
            if ((times >= FAR) | ((times <= -FAR) & (times != EARLIEST))).any():
                raise ValueError("a time near the limits of a long")


@dataclass(slots=True)
class Rest:
    """What a window knows besides its lists.

    Parameters
    ----------
    noted : dict of str to int
        What stands in arrays of one number for each key (`ListStates.names`), as far as the program has these.
    due : list of int
        The wake-ups asked for.
    """

    noted: dict[str, int] = field(default_factory=dict)
    due: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The states of a window as columns: what a program takes over of so many keys.

    Parameters
    ----------
    lists : mapping of str to Column
        Of each list (`spdist.program.shape.Read.lists`) what each key has in it.
    noted : mapping of str to Column
        Of each array of one number for each key what it has; null where the first value stays.
    dues : Column, optional
        The wake-ups asked for.
    """

    lists: Mapping[str, Column]
    noted: Mapping[str, Column] = field(default_factory=dict)
    dues: Column | None = None


class ListStates(WindowStates):
    """The state of a window that holds lists of events (`spdist.program.shape.Read.lists`).

    Who says no more than the state of one key (`lists`, `noted`, `state`) has one made for each; where keys are many,
    `loaded`, `stored` and `fresh` in their place have the columns of all keys as they are.

    The last part of an operator's state is the wake-ups asked for, where there are timers.
    """

    #: The arrays of one number for each key, without the prefix of the query; some may not be there.
    names: tuple[str, ...] = ()

    def lists(self, state: Any) -> Lists:
        """Return the lists of an operator's state."""
        raise NotImplementedError

    def noted(self, state: Any) -> Mapping[str, int | None]:
        """Return the numbers of an operator's state, by `names`; None where the first value stays."""
        return {}

    def state(self, read: Read, lists: Lists, rest: Rest) -> Any:
        """Return an operator's state."""
        raise NotImplementedError

    def loaded(self, read: Read, states: Column) -> Loaded:
        """Return what the states of keys say."""
        values = states.values()
        held, noted = list(map(self.lists, values)), list(map(self.noted, values))
        names = dict.fromkeys(name for own in noted for name in own)
        return Loaded(
            {name: column_of([own[name] for own in held]) for name in read.lists},
            {name: ValueColumn([own.get(name) for own in noted]) for name in names},
            column_of([state[-1] for state in values]) if read.timed else None,
        )

    def load(self, running: Running, query: QueryText, numbers: Any, states: Column) -> None:
        """Take over the states of the keys of a partition, whose numbers are an array; or one, of number 0."""
        assert isinstance(query.read, Read)
        found = self.loaded(query.read, states)
        self.load_lists(running, query, found.lists, numbers, numbers)
        self.load_more(running, query, numbers, states, found)
        for name, noted in found.noted.items():
            note_numbers(running, query, name, numbers, noted)
        if query.read.timed and found.dues is not None:
            load_dues(running, query, numbers, found.dues, query.operator)
        self.looks_at_times(running, query)

    def load_lists(
        self, running: Running, query: QueryText, lists: Mapping[str, Column], numbers: Any, owners: Any
    ) -> None:
        """Take over lists of events, given their numbers, and those of their keys of the partition."""
        total = sum(int(held.sizes().sum()) for name, held in lists.items() if name in query.read.lists)
        # For all lists together: making room puts other arrays in place of those that were written to
        running.reserve(f"nodes {query.name}", total)
        first = 0
        for name in query.read.lists:
            first = load_list(running, query, name, first, numbers, owners, lists[name])
        if query.read.lists:
            # No node is free, and the first one that was never used is behind all that were loaded
            running.arrays[f"{query.name}_free"][:] = (-1, total)

    def load_more(self, running: Running, query: QueryText, numbers: Any, states: Column, found: Loaded) -> None:
        """Take over what else there is, once the lists are loaded."""

    def stored(self, running: Running, query: QueryText, count: int) -> Column:
        """Return the states of so many keys of a partition, by number; or one."""
        lists = {name: stored_list(running, query, name, count).values() for name in query.read.lists}
        rests = self.rests(running, query, count)
        by_key = [{name: held[number] for name, held in lists.items()} for number in range(count)]
        read = query.read
        assert isinstance(read, Read)
        return column_of([self.state(read, own, rest) for own, rest in zip(by_key, rests, strict=True)])

    def rests(self, running: Running, query: QueryText, count: int) -> list[Rest]:
        """Return what the windows of so many keys know besides their lists."""
        arrays = {name: running.arrays.get(f"{query.name}_{name}") for name in self.names}
        columns = {name: array[:count].tolist() for name, array in arrays.items() if array is not None}
        dues = window_dues(running, query, count).values()
        return [
            Rest({name: column[number] for name, column in columns.items()}, dues[number]) for number in range(count)
        ]

    def fresh(self, read: Read) -> Any:
        """Return the state of a window that has seen nothing."""
        return self.state(read, {name: [] for name in read.lists}, Rest())
