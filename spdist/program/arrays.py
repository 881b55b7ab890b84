"""The arrays that a program works on: which there are, and how much room each must have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy

from spdist.program.expressions import NUMBER

__all__ = ["ASKS", "FAILURES", "LINES", "TEXTS", "Array", "Arrays", "KeyTable"]

#: The room of what there is for each text, and for null.
TEXTS = "texts"
#: The room of the events that were lost, and what counts them.
FAILURES = "failures"
#: What counts the lines that are noted for the log.
LINES = "logged"
#: In the place of an element that is called: the one who asks for room first; the next ones are below it.
ASKS = -2


@dataclass(frozen=True, slots=True)
class Array:
    """One array of a program.

    Parameters
    ----------
    name : str
        As the text calls it.
    dtype : str
        Of its elements.
    fill : str
        What stands where nothing was written.
    room : str
        What it has a place for: the name of a count, such as ``nodes q0``; or a number of places.
    width : int
        Places for each.
    """

    name: str
    dtype: str
    fill: str
    room: str
    width: int = 1


@dataclass(frozen=True, slots=True)
class KeyTable:
    """A table of keys (`machine.hash_tables`): its name, the words of a key, and the room that its numbers have."""

    name: str
    width: int
    room: str


@dataclass(slots=True)
class Arrays:
    """All arrays of a program, in the order in which its text has them as parameters; which are of tables and lists.

    `asking` are those who ask for room while the loop runs (`spdist.program.joins.demand_text`), each with the room of
    its results.
    """

    declared: dict[str, Array] = field(default_factory=dict)
    tables: dict[str, KeyTable] = field(default_factory=dict)
    free_lists: set[str] = field(default_factory=set)
    asking: dict[str, str] = field(default_factory=dict)

    def asks(self, name: str, room: str) -> int:
        """Note who asks for room while the loop runs, and where its results stand; return what it calls."""
        self.asking.setdefault(name, room)
        return ASKS - list(self.asking).index(name)

    def declare(self, name: str, dtype: str, room: str, fill: str = "0", width: int = 1) -> str:
        """Declare an array, where it is not yet, and return its name."""
        self.declared.setdefault(name, Array(name, dtype, fill, room, width))
        return name

    def table(self, name: str, width: int, room: str) -> str:
        """Declare a table of keys, and return what a call of `find` is given in front of the word."""
        self.tables[name] = KeyTable(name, width, room)
        self.declare(f"{name}_slots", NUMBER, "slots", "-1")
        self.declare(f"{name}_keys", NUMBER, room, width=width)
        self.declare(f"{name}_meta", NUMBER, "5")
        self.declare(f"{name}_after", NUMBER, room)
        return f"{name}_slots, {name}_keys, {name}_meta, {name}_after"

    def free_list(self, name: str) -> str:
        """Declare what tells of free nodes: the first one (-1: none), and how many were ever used."""
        self.free_lists.add(name)
        return self.declare(name, NUMBER, "2")


def filled(array: Array, places: int) -> Any:
    """Return a new array."""
    # A double has each of these values exactly, also -2**63
    return numpy.full(places * array.width, float(array.fill), numpy.dtype(array.dtype))
