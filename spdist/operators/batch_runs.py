"""Length batches of many events at once: their totals by numpy.

Where a query does nothing but to add up batches of so many events, by group or all together, what whole batches put out
follows from columns of their rows. The batch that is open, and the last one that is full, go the plain way: after them
window and totals are as if all had. Both ways give the same results.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy

from spdist.language import ast
from spdist.language.types import Type
from spdist.mapping.read_rows import ReadRows
from spdist.operators.base import CURRENT, Row
from spdist.operators.junction import Drive, Loop
from spdist.operators.selector import Sink, is_aggregator
from spdist.operators.window_length import LengthBatchWindow

if TYPE_CHECKING:
    from spdist.operators.query import SingleStreamPlan

__all__ = ["BatchRuns", "batch_runs"]

#: Batches of fewer events go the plain way: a call of numpy costs as much as several of them.
FEWEST = 100
#: Sums of whole numbers below this are the same in doubles.
_EXACT = 2**53
_WHOLE = (Type.INT, Type.LONG)


@dataclass(frozen=True, slots=True)
class _Batches:
    """What the batches of the events from `begin` up to `end` put out.

    Parameters
    ----------
    begin, end : int
        Numbers of events.
    rows : list of tuple
        What comes out, in order.
    events : list of int
        Which event each row is of, from `begin` on.
    ends : list of int
        Where the rows of each batch end.
    """

    begin: int
    end: int
    rows: list[Row]
    events: list[int]
    ends: list[int]


@dataclass(frozen=True, slots=True)
class BatchRuns:
    """How a query's batches are added up.

    Parameters
    ----------
    keys : tuple of int
        The attributes that are the key of a group; none where all events are one.
    items : tuple of (str, int)
        What is selected: an aggregator, or an empty text for the attribute itself; and the attribute.
    types : tuple of Type
        Of the attributes.
    """

    keys: tuple[int, ...]
    items: tuple[tuple[str, int], ...]
    types: tuple[Type, ...]

    def around(self, plain: Loop, window: LengthBatchWindow, sink: Sink, drive: Drive) -> Loop:
        """Return a loop that takes whole batches at once, and all other events as `plain` does."""
        length = window.length
        target = sink.straight()
        # Who only gathers sets no timers, and does not fail.
        if length < FEWEST or window.keeps or window.passes_current or target is None or target.only_watched() is None:
            return plain

        def take(timestamps: Iterable[int], rows: Iterable[Row]) -> None:
            begin = length - len(window.batch) if window.batch else 0
            if not isinstance(rows, ReadRows) or drive.heap or (found := self._found(rows, begin, length)) is None:
                plain(timestamps, rows)
                return
            times = iter(timestamps)
            plain(islice(times, found.begin), rows[: found.begin])
            start = 0
            for number, stop in enumerate(found.ends):
                at = list(islice(times, length))
                drive.clock.now = max(drive.clock.now, max(at))
                shown = found.rows[start:stop]
                events = [
                    (CURRENT, at[n - number * length], row)
                    for n, row in zip(found.events[start:stop], shown, strict=True)
                ]
                start = stop
                if self.keys:
                    sink.many(events)
                else:
                    sink.one(*events[0])
            plain(times, rows[found.end :])

        return take

    def _found(self, rows: ReadRows, begin: int, length: int) -> _Batches | None:
        """Return what whole batches from `begin` on put out, up to the last but one.

        None where there is no such batch, or a null in them, or where sums may be rounded.
        """
        count = (len(rows) - begin) // length - 1
        end = begin + count * length
        if count < 1:
            return None
        total = end - begin
        coded = self._groups(rows, begin, end)
        if coded is None:
            return None
        groups, size = coded
        numbers = numpy.arange(total)
        groups, size = _fewer(groups + numbers // length * size, count * size)
        counts = numpy.bincount(groups, minlength=size)
        first, last = numpy.empty(size, numpy.int64), numpy.empty(size, numpy.int64)
        first[groups[::-1]] = numbers[::-1]
        last[groups] = numbers
        present = numpy.flatnonzero(counts)
        order = present[first[present].argsort()]
        events = last[order].tolist()
        columns: list[list[Any]] = []
        for aggregator, attribute in self.items:
            if not aggregator:
                columns.append(rows.picked(attribute, begin + last[order]))
                continue
            if aggregator == "count":
                columns.append(counts[order].tolist())
                continue
            values = rows.numbers(attribute, begin, end)
            whole = self.types[attribute] in _WHOLE
            if values is None or (whole and max(int(values.max()), -int(values.min())) * length >= _EXACT):
                return None
            # One value after the other, as they have come.
            totals = numpy.bincount(groups, values, size)[order]
            if aggregator == "avg":
                columns.append((totals / counts[order]).tolist())
            else:
                columns.append((totals.astype(numpy.int64) if whole else totals).tolist())
        ends = numpy.searchsorted(first[order] // length, numpy.arange(count), "right")
        return _Batches(begin, end, list(zip(*columns, strict=True)), events, ends.tolist())

    def _groups(self, rows: ReadRows, begin: int, end: int) -> tuple[Any, int] | None:
        """Return numbers of the rows' groups, and how many there may be; None where a key has a null."""
        groups, size = numpy.zeros(end - begin, numpy.int64), 1
        for attribute in self.keys:
            coded = rows.codes(attribute, begin, end)
            if coded is None:
                return None
            groups, size = _fewer(groups * coded[1] + coded[0], size * coded[1])
        return groups, size


def _fewer(groups: Any, size: int) -> tuple[Any, int]:
    """Return numbers of groups, and how many there may be, which are not many more than there are rows."""
    if size <= 4 * len(groups):
        return groups, size
    own, groups = numpy.unique(groups, return_inverse=True)
    return groups, len(own)


def batch_runs(plan: SingleStreamPlan) -> BatchRuns | None:
    """Return how many batches of a query are added up at once; None where they are not."""
    select, source = plan.checked.query.select, plan.scope.sources[0]
    if plan.window is not LengthBatchWindow or plan.before or plan.after or plan.chosen.filters or plan.reads_window:
        return None
    if plan.events != "current" or plan.rate is not None or plan.checked.partition is not None:
        return None
    if select.having or select.order_by or select.limit or select.offset or not select.items:
        return None
    types = source.schema.types
    items = []
    for item in select.items:
        expression = item.expression
        if isinstance(expression, ast.Variable):
            items.append(("", plan.scope.resolve(expression).attribute))
            continue
        if not (isinstance(expression, ast.FunctionCall) and is_aggregator(expression)):
            return None
        argument = expression.args[0] if len(expression.args) == 1 else None
        if expression.id == "count" and not expression.args:
            items.append(("count", 0))
        elif expression.id in ("sum", "avg") and isinstance(argument, ast.Variable):
            items.append((expression.id, plan.scope.resolve(argument).attribute))
        else:
            return None
    keys = tuple(plan.scope.resolve(variable).attribute for variable in select.group_by)
    if not keys and not any(aggregator for aggregator, _ in items):
        return None  # every event comes out
    if any(types[key] not in (Type.STRING, *_WHOLE, Type.BOOL) for key in keys):
        return None  # those are one group that are written alike
    return BatchRuns(keys, tuple(items), tuple(types))
