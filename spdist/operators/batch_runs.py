"""Batches of many events at once: their totals by numpy.

Where a query does nothing but to add up batches of events, by group or all together, what whole batches put out follows
from columns of their rows (`spdist.operators.open_batches`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from spdist.mapping.read_rows import ReadRows
from spdist.operators.added_up import WHOLE, AddedUp, added_up
from spdist.operators.window_length import LengthBatchWindow
from spdist.operators.window_time import TimeBatchWindow

if TYPE_CHECKING:
    from spdist.operators.query import SingleStreamPlan

__all__ = ["BatchRuns", "Batches", "batch_runs"]

#: Sums of whole numbers below this are the same in doubles.
_EXACT = 2**53


@dataclass(frozen=True, slots=True)
class Batches:
    """What batches put out.

    Parameters
    ----------
    rows : ReadRows
        What comes out, in order.
    events : numpy.ndarray
        Which event each row is of, from the first one of the first batch on.
    ends : numpy.ndarray
        Where the rows of each batch end.
    """

    rows: ReadRows
    events: Any
    ends: Any


@dataclass(frozen=True, slots=True)
class BatchRuns(AddedUp):
    """How a query's batches are added up."""

    def found(self, rows: ReadRows, bounds: Any) -> Batches | None:
        """Return what whole batches put out; None where there is a null in them, or where sums may be rounded.

        Parameters
        ----------
        rows : ReadRows
            The events.
        bounds : numpy.ndarray
            At which of them each batch begins, and where the last one ends; none is empty.
        """
        begin, end = int(bounds[0]), int(bounds[-1])
        lengths = numpy.diff(bounds)
        total, count, longest = end - begin, len(lengths), int(lengths.max())
        coded = self._groups(rows, begin, end)
        if coded is None:
            return None
        groups, size = coded
        numbers, batches = numpy.arange(total), numpy.repeat(numpy.arange(count), lengths)
        groups, size = _fewer(groups + batches * size, count * size)
        counts = numpy.bincount(groups, minlength=size)
        first, last = numpy.empty(size, numpy.int64), numpy.empty(size, numpy.int64)
        first[groups[::-1]] = numbers[::-1]
        last[groups] = numbers
        present = numpy.flatnonzero(counts)
        order = present[first[present].argsort()]
        columns: list[Any] = []
        for aggregator, attribute in self.items:
            if not aggregator:
                columns.append(attribute)
                continue
            if aggregator == "count":
                columns.append(counts[order])
                continue
            values = rows.numbers(attribute, begin, end)
            whole = self.types[attribute] in WHOLE
            if values is None or (whole and max(int(values.max()), -int(values.min())) * longest >= _EXACT):
                return None
            # One value after the other, as they have come.
            totals = numpy.bincount(groups, values, size)[order]
            if aggregator == "avg":
                columns.append(totals / counts[order])
            else:
                columns.append(totals.astype(numpy.int64) if whole else totals)
        ends = numpy.searchsorted(batches[first[order]], numpy.arange(count), "right")
        return Batches(rows.at(begin + last[order]).selecting(columns), last[order], ends)

    def _groups(self, rows: ReadRows, begin: int, end: int) -> tuple[Any, int] | None:
        """Return numbers of the rows' groups, and how many there may be; None where a key has a null."""
        groups, size = numpy.zeros(end - begin, numpy.int64), 1
        for attribute in self.keys:
            coded = rows.codes(attribute, begin, end)
            if coded is None:
                return None
            own, known = coded
            groups, size = _fewer(groups * len(known) + own, size * len(known))
        return groups, size


def _fewer(groups: Any, size: int) -> tuple[Any, int]:
    """Return numbers of groups, and how many there may be, which are not many more than there are rows."""
    if size <= 4 * len(groups):
        return groups, size
    own, groups = numpy.unique(groups, return_inverse=True)
    return groups, len(own)


def batch_runs(plan: SingleStreamPlan) -> BatchRuns | None:
    """Return how many batches of a query are added up at once; None where they are not."""
    added = added_up(plan)
    if plan.window not in (LengthBatchWindow, TimeBatchWindow) or plan.checked.partition is not None or added is None:
        return None
    if not added.keys and not any(aggregator for aggregator, _ in added.items):
        return None  # every event comes out
    return BatchRuns(added.keys, added.items, added.types)
