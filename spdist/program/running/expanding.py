"""The events that stream functions make of those of a source, computed in front of the loop."""

from __future__ import annotations

from itertools import chain
from typing import Any, Protocol

import numpy

from spdist.language.types import Type
from spdist.program.parts import Program
from spdist.program.read_shape import Read
from spdist.program.running.function_values import ProgramArrays

__all__ = ["Expanding"]


class _GrowingArrays(ProgramArrays, Protocol):
    """Who has the arrays, and lets them grow."""

    def make_room(self, count: int) -> None:
        """Make room for so many events."""
        ...


class Expanding:
    """Computes what stream functions make of events.

    Parameters
    ----------
    program : Program
        Its text.
    rooms : Rooms
        Who has its arrays.
    """

    def __init__(self, program: Program, rooms: _GrowingArrays) -> None:
        self._program = program
        self._rooms = rooms
        self._reads = program.expanded

    def fill(self, stream: str, count: int) -> str:
        """Compute what so many events of a source become; returns why the loop cannot go on with that, or nothing."""
        for read in self._reads:
            if read.stream == stream and f"{read.expanded}_begin" in self._rooms.arrays:
                try:
                    self._fill(read, count)
                except Exception:  # the operators say what it is
                    return "a stream function fails, or gives what is not of its type"
        return ""

    def _fill(self, read: Read, count: int) -> None:
        expansion, prefix = read.expansion, read.expanded
        assert expansion is not None
        own = f"i{list(self._program.inputs).index(read.stream)}"
        given = [self._given(f"{own}_{place}", count, read.types[place]) for place in expansion.arguments]
        made = list(map(expansion.compute, *given)) if given else [expansion.compute() for _ in range(count)]
        sizes = numpy.fromiter(map(len, made), numpy.int64, count)
        ends, total = numpy.cumsum(sizes), int(sizes.sum())
        source = numpy.repeat(numpy.arange(count), sizes)
        rows = list(chain.from_iterable(made))
        added = list(zip(*rows, strict=True)) if rows else [()] * (len(read.types) - expansion.width)
        # There is room for the source's events; what they become may be more.
        self._rooms.make_room(max(total, count))
        arrays = self._rooms.arrays
        arrays[f"{prefix}_begin"][:count], arrays[f"{prefix}_end"][:count] = ends - sizes, ends
        arrays[f"{prefix}_source"][:total], arrays[f"{prefix}_ts"][:total] = source, arrays[f"{own}_ts"][source]
        for place, type in enumerate(read.types):
            name = f"{prefix}_{place}"
            if name not in arrays:
                continue
            if place < expansion.width:
                values, nulls = arrays[f"{own}_{place}"][source], arrays[f"{own}_{place}_n"][source]
            else:
                values, nulls = self._rooms.values.taken(added[place - expansion.width], type, exactly=True)
            arrays[name][:total], arrays[f"{name}_n"][:total] = values, nulls

    def _given(self, name: str, count: int, type: Type) -> list[Any]:
        """Return the values of an attribute of a source."""
        arrays = self._rooms.arrays
        return self._rooms.values.shown(arrays[name][:count], arrays[f"{name}_n"][:count], type)
