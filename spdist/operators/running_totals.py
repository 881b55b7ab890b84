"""Running totals of many groups at once, each value added in the order in which it comes.

Sums of real numbers depend on the order of what is added. So no group may be added up by halves: the steps of each are
one row of a table, and all rows of a table are run through together. Rows in one table have lengths that differ by a
factor of two at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

__all__ = ["Steps", "by_number", "ranges"]


@dataclass(frozen=True, slots=True)
class _Table:
    """Where the steps of some groups are: in a flat table, and among all steps by group."""

    shape: tuple[int, int]
    axis: int
    groups: Any
    begins: Any
    ends: Any
    cells: Any
    steps: Any


class Steps:
    """The steps that totals of groups take, in order.

    Parameters
    ----------
    groups : numpy.ndarray
        The number of the group of each step, from 0 on; at least one.
    """

    def __init__(self, groups: Any) -> None:
        self._order = by_number(groups)
        by_group = groups[self._order]
        begins = numpy.flatnonzero(numpy.append(True, by_group[1:] != by_group[:-1]))
        lengths = numpy.diff(numpy.append(begins, len(groups)))
        #: The groups that take steps, ascending.
        self.present = by_group[begins]
        self._tables = []
        sizes = numpy.frexp(lengths - 0.5)[1]  # of 1: 0, of 2: 1, of 3 and 4: 2, …
        for size in numpy.unique(sizes):
            members = numpy.flatnonzero(sizes == size)
            self._tables.append(_table(members, begins[members], lengths[members], (1 << int(size)) + 1))

    def run(self, start: Any, steps: Any) -> tuple[Any, Any]:
        """Return the total after each step, and the last one of each group that is `present`.

        Parameters
        ----------
        start : numpy.ndarray
            The total of each group that is `present`.
        steps : numpy.ndarray
            What is added, in order, of the same type.
        """
        by_group = steps[self._order]
        reached, last = numpy.empty_like(by_group), numpy.empty_like(start)
        for table in self._tables:
            flat = numpy.zeros(table.shape[0] * table.shape[1], start.dtype)
            flat[table.begins] = start[table.groups]
            flat[table.cells] = by_group[table.steps]
            whole = flat.reshape(table.shape)
            numpy.add.accumulate(whole, axis=table.axis, out=whole)
            reached[table.steps] = flat[table.cells]
            last[table.groups] = flat[table.ends]
        made = numpy.empty_like(reached)
        made[self._order] = reached
        return made, last


def _table(members: Any, begins: Any, lengths: Any, width: int) -> _Table:
    count = len(members)
    # Numpy goes through the longer axis inside.
    shape, axis, by_group, by_step = ((count, width), 1, width, 1) if width > count else ((width, count), 0, 1, count)
    heads = numpy.arange(count) * by_group
    within = numpy.arange(lengths.sum()) - numpy.repeat(lengths.cumsum() - lengths, lengths)
    cells = numpy.repeat(heads, lengths) + (within + 1) * by_step
    return _Table(shape, axis, members, heads, heads + lengths * by_step, cells, ranges(begins, lengths))


def ranges(begins: Any, lengths: Any) -> Any:
    """Return the numbers of several ranges, one range after the other."""
    ends = lengths.cumsum()
    return numpy.arange(int(ends[-1]) if len(ends) else 0) + numpy.repeat(begins - (ends - lengths), lengths)


def by_number(numbers: Any) -> Any:
    """Return in which order numbers, from 0 on and at least one, ascend; equal ones stay in order: in linear time."""
    order = numbers.astype(numpy.uint16).argsort(kind="stable")
    rest, greatest = numbers >> 16, int(numbers.max()) >> 16
    while greatest:
        order = order[rest[order].astype(numpy.uint16).argsort(kind="stable")]
        rest, greatest = rest >> 16, greatest >> 16
    return order
