"""Quiet joins of many events at once: what each of them finds, as places in the rows of the other side, by numpy.

A run of events finds the same as one event after the other in `spdist.operators.joins.quiet`: the partners of an event
are those rows of the other side that have its key, came before it, and have not left. In an array of all rows of the
other side, sorted by key and then as they came, they follow one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy

from spdist.language import ast
from spdist.language.checking.scope import Scope
from spdist.mapping.picked_rows import PickedRows
from spdist.operators.base import Row, VirtualClock
from spdist.operators.core.junction import Straight, StreamPart
from spdist.operators.expressions.finding import Equality
from spdist.operators.joins.held import Held

if TYPE_CHECKING:
    from spdist.operators.joins.join import JoinPlan

__all__ = ["JoinRuns", "join_runs"]

#: Fewer events than this, or than are held, are taken one by one: looking at what is held would take longer.
FEWEST = 256
_NONE = numpy.empty(0, numpy.int64)
_NOTHING = StreamPart(_NONE, _NONE, ())


@dataclass(frozen=True, slots=True)
class _All:
    """The rows of a side that a run has to do with: those held before, then those of the run.

    Parameters
    ----------
    held : int
        How many were held.
    rows : list of tuple
        All of them, and at the end one for a partner that is not there.
    times, keys : numpy.ndarray
        Their timestamps, and numbers that stand for their keys; nulls of both sides have different ones.
    part : StreamPart
        Those of the run.
    """

    held: int
    rows: list[Row]
    times: Any
    keys: Any
    part: StreamPart

    def left(self, held: Held, now: Any, came: Any) -> Any:
        """Return how many have left the window at the times `now`, when so many have come."""
        if held.timed:
            return numpy.searchsorted(self.times, now - held.size, "right")
        return numpy.maximum(came - held.size, 0)


@dataclass(frozen=True, slots=True)
class _Found:
    """For each event of a side in a run: how many results it has, and where the first partner is in `partners`."""

    counts: Any
    first: Any
    partners: Any


class JoinRuns:
    """Takes runs of a quiet join's events.

    Parameters
    ----------
    plan : JoinPlan
        The join.
    held : Sequence of Held
        What the sides hold: it is changed.
    columns : Sequence of (int, int)
        Side and attribute of each value of a result.
    target : Straight
        Who takes the results.
    clock : VirtualClock
        The app's.
    off : list
        Holds something once the join is not quiet any more.

    State
    -----
    None of its own.
    """

    def __init__(
        self,
        plan: JoinPlan,
        held: Sequence[Held],
        columns: Sequence[tuple[int, int]],
        target: Straight,
        clock: VirtualClock,
        off: list[bool],
    ) -> None:
        self._sides = plan.sides
        self._nothing = plan.nothing
        self._observers = plan.observers
        self._held = held
        self._columns = columns
        self._target = target
        self._clock = clock
        self._off = off

    @property
    def timer(self) -> None:
        """There is none."""
        return

    def take(self, parts: Mapping[str, StreamPart]) -> bool:
        """Take events of both sides at once; see `spdist.operators.core.junction.TakesParts`."""
        pick = self._target.picker()
        own = [parts.get(side.source.stream_id, _NOTHING) for side in self._sides]
        count = sum(len(part.times) for part in own)
        late = any(part.stamps is not None for part in own)
        if (
            pick is None
            or self._off
            or self._observers
            or late
            or count < max(FEWEST, sum(len(h.events) for h in self._held))
        ):
            return False
        first = min(part.times[0] for part in own if len(part.times))
        if first < max(self._clock.now, *(held.latest[0] for held in self._held)):
            return False
        try:
            left, right = self._all(own)
        except TypeError:  # a value that can be no key: whoever looks for it fails, and nobody else
            return False
        found = (self._found(0, left, right), self._found(1, right, left))
        last = max(part.times[-1] for part in own if len(part.times))
        for held, all in zip(self._held, (left, right), strict=True):
            _hold(held, all, last)
        picked, bounds, causes = self._picked(count, (left, right), found)
        if len(picked):
            pick(picked, bounds, causes, None)
        return True

    def _all(self, parts: Sequence[StreamPart]) -> list[_All]:
        rows = [[*(row for _, row in held.events), *part.rows] for held, part in zip(self._held, parts, strict=True)]
        keys = _numbered([held.keys(some) for held, some in zip(self._held, rows, strict=True)])
        made = []
        for position, (held, part) in enumerate(zip(self._held, parts, strict=True)):
            times = numpy.append(numpy.array([time for time, _ in held.events], numpy.int64), part.times)
            rows[position].append(self._nothing[position])
            made.append(_All(len(held.events), rows[position], times, keys[position], part))
        return made

    def _found(self, position: int, own: _All, other: _All) -> _Found:
        """Return what the events of a side find."""
        side, part, size = self._sides[position], own.part, len(other.keys)
        if not side.triggers:
            return _Found(numpy.zeros(len(part.times), numpy.int64), _NONE, _NONE)
        came = other.held + part.ranks - numpy.arange(len(part.ranks))
        left = other.left(self._held[1 - position], part.times, came)
        # By key, and then as they came.
        ordered = numpy.sort(other.keys * (size + 1) + numpy.arange(size))
        begin = own.keys[own.held :] * (size + 1)
        first = numpy.searchsorted(ordered, begin + left)
        counts = numpy.searchsorted(ordered, begin + came) - first
        partners = numpy.append(ordered % (size + 1), size)
        if side.outer:
            alone = counts == 0
            first[alone], counts[alone] = size, 1
        return _Found(counts, first, partners)

    def _picked(self, count: int, sides: Sequence[_All], found: Sequence[_Found]) -> tuple[PickedRows, Any, Any]:
        """Return all results in the order of the events that cause them, where those of each begin, and which it is."""
        counts = numpy.zeros(count, numpy.int64)
        for own, one in zip(sides, found, strict=True):
            counts[own.part.ranks] = one.counts
        ends = counts.cumsum()
        total = int(ends[-1])
        places = [numpy.empty(total, numpy.int64), numpy.empty(total, numpy.int64)]
        for position, (own, one) in enumerate(zip(sides, found, strict=True)):
            within = numpy.arange(one.counts.sum()) - numpy.repeat(one.counts.cumsum() - one.counts, one.counts)
            into = within + numpy.repeat((ends - counts)[own.part.ranks], one.counts)
            places[position][into] = numpy.repeat(own.held + numpy.arange(len(one.counts)), one.counts)
            if len(within):
                places[1 - position][into] = one.partners[within + numpy.repeat(one.first, one.counts)]
        bounds, causes = numpy.append(0, ends[counts > 0]), numpy.flatnonzero(counts)
        return PickedRows([own.rows for own in sides], places, self._columns), bounds, causes


def join_runs(
    plan: JoinPlan,
    held: Sequence[Held | None],
    keys: Sequence[Sequence[Equality]],
    target: Straight,
    clock: VirtualClock,
    off: list[bool],
) -> JoinRuns | None:
    """Return what takes runs of a quiet join without tests beside its keys; None where events must come one by one.

    Parameters
    ----------
    plan, held, target, clock, off
        See `JoinRuns`.
    keys : Sequence of Sequence of Equality
        By what the events of each side look into the other one.
    """
    scope: Scope = plan.checked.scope
    items = [item.expression for item in plan.checked.query.select.items]
    variables = [item for item in items if isinstance(item, ast.Variable)]
    sides = [one for one in held if one is not None]
    if len(sides) < 2 or len(variables) < len(items) or any(side.handlers for side in plan.sides):
        return None
    for own, looked in zip(sides, keys, strict=True):
        asked = [scope.resolve(one.value) for one in looked if isinstance(one.value, ast.Variable)]
        if tuple(reference.attribute for reference in asked) != own.attributes:
            return None
    chosen = [(own.source, own.attribute) for own in map(scope.resolve, variables)]
    everything = [(position, place) for position, row in enumerate(plan.nothing) for place in range(len(row))]
    return JoinRuns(plan, sides, chosen or everything, target, clock, off)


def _numbered(keys: Sequence[Sequence[Any]]) -> list[Any]:
    """Return for the keys of both sides numbers that are equal where they are; a null equals nothing."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(chain.from_iterable(keys)))}
    made = [numpy.fromiter(map(numbers.__getitem__, own), numpy.int64, len(own)) for own in keys]
    if None in numbers:
        for position, own in enumerate(made):
            own[own == numbers[None]] = -1 - position
    return made


def _hold(held: Held, all: _All, now: int) -> None:
    """Hold what is in the window after the run, the last event of which came at `now`."""
    size = len(all.times)
    left = int(all.left(held, now, size))
    latest = held.latest[0]
    held.take(list(zip(all.times[left:].tolist(), all.rows[left:size], strict=True)))
    held.latest[0] = int(all.part.times[-1]) if held.timed and len(all.part.times) else latest
