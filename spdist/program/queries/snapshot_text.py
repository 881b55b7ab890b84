"""Rate limits of a program that show what stands: ``output snapshot every t``.

At each tick all that is held goes on, and stays. The meaning is that of `spdist.operators.selection.snapshot`. How much
goes on has no bound in the events of a call, so the loop asks for room (`spdist.program.joins.demand_text`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spdist.language.types import Type
from spdist.operators import timers
from spdist.operators.selection.selector import is_aggregator
from spdist.program.expressions import NUMBER, NotTyped
from spdist.program.joins.demand_text import Demand
from spdist.program.key_text import seeks
from spdist.program.parts import Most, QueryText, asked, indent
from spdist.program.queries.rate_text import RateWriter
from spdist.program.shape import Query

__all__ = ["ContentWriter", "GroupsWriter", "LastWriter", "SnapshotWriter", "shown_totals", "snapshot_writer"]

_REALS = (Type.FLOAT, Type.DOUBLE)


def shown_totals(read: Query) -> tuple[int, ...]:
    """Return the places of the attributes that are totals, and nothing but totals."""
    items = read.checked.query.select.items
    return tuple(place for place, item in enumerate(items) if is_aggregator(item.expression))


class SnapshotWriter(RateWriter):
    """Writes what all snapshots share: a result that is not before the next tick lets that one come first.

    Parameters
    ----------
    whole, query, results, key
        As for `RateWriter`.

    Notes
    -----
    ``ticked`` is how often snapshots have gone on in a step of the clock, and until when that goes; see
    `spdist.operators.timers.MOST_FIRINGS`.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._demand = Demand(self._whole.arrays, self._prefix, self.buffers.room)

    def going(self, most: Most) -> Most:
        """Return how many results go on: as many as room is asked for."""
        return Most({asked(self._prefix): 1})

    def limits(self, begin: str, end: str) -> list[str]:
        """Return what is done with a chunk of results; what goes on is in the buffers then."""
        first = [f"if {self._results.owner}_ts[k] >= {self._tick}:", *indent(self._ticks())]
        return [f"{self.count} = 0", *self._awake(begin, end, self._each(begin, end, [*first, *self._takes()]))]

    def wakes(self, readers: list[str]) -> list[str]:
        """Return what is done at a tick of a key, given the blocks of who reads what goes on."""
        assert self._timer is not None
        step = self._whole.arrays.declare("ticked", NUMBER, "2")
        going = [
            f"{self.count} = 0",
            f"if {step}[0] != at[c]:",
            f"    {step}[0], {step}[1] = at[c], 0",
            f"{step}[1] += 1",
            f"if {step}[1] <= {timers.MOST_FIRINGS}:",
            *indent(self._ticks()),
            "else:",
            f"    {self._tick} += ((at[c] - {self._tick}) // {self._span} + 1) * {self._span}",
            f"    {self._timer.asks(self._tick)}",
            f"if {self.count} > 0:",
            *indent(readers or ["pass"]),
        ]
        # A tick that a result has let come before is over; one that shows nothing is the last one until there is more.
        return self._timer.wakes([f"if due >= {self._tick} and {self._head} >= 0:", *indent(going)])

    def _ticks(self) -> list[str]:
        """Return what is done at a tick."""
        assert self._timer is not None
        return [*self._shows(), f"{self._tick} += {self._span}", self._timer.asks(self._tick)]

    def _takes(self) -> list[str]:
        """Return what is done with the result at ``k``."""
        raise NotImplementedError

    def _shows(self) -> list[str]:
        """Return what puts all that is held into the buffers."""
        left = self._whole.name()
        return [
            f"{left} = {self._prefix}_head_size[{self._key}]",
            *self._demand.asks(left, self.count, [f"{left} = 0"]),
            f"d = {self._head}",
            f"while d >= 0 and {left} > 0:",
            *indent([*self._shown(), f"{left} -= 1", f"d = {self._prefix}_next[d]"]),
        ]

    def _shown(self) -> list[str]:
        """Return what puts what is held as node ``d`` into the buffers."""
        return [*self._held.copied("d", self.buffers, self.count), f"{self.count} += 1"]

    # What is held.

    @property
    def _tick(self) -> str:
        return f"{self._prefix}_tick[{self._key}]"

    @property
    def _head(self) -> str:
        return f"{self._prefix}_head[{self._key}]"

    @property
    def _kind_at(self) -> str:
        """Source of the kind of the result at ``k``."""
        return f"{self._results.owner}_kind[k]"

    def _clears(self) -> list[str]:
        """Return what forgets all that is held."""
        prefix, key = self._prefix, self._key
        return [
            f"if {self._head} >= 0:",
            # The list is linked as free nodes are, so it goes in front of them as a whole.
            f"    {prefix}_next[{prefix}_head_end[{key}]] = {prefix}_free[0]",
            f"    {prefix}_free[0] = {self._head}",
            f"    {self._head}, {prefix}_head_size[{key}] = -1, 0",
        ]

    def _forgets(self, before: str) -> list[str]:
        """Return what forgets node ``d``, which stands behind the node `before`; -1 where it is the first one."""
        prefix, key = self._prefix, self._key
        return [
            f"if {before} < 0:",
            f"    {self._head} = {prefix}_next[d]",
            "else:",
            f"    {prefix}_next[{before}] = {prefix}_next[d]",
            f"if {prefix}_next[d] < 0:",
            f"    {prefix}_head_end[{key}] = {before}",
            f"{prefix}_head_size[{key}] -= 1",
            f"give_back({prefix}_free, {prefix}_next, d)",
        ]


class LastWriter(SnapshotWriter):
    """Writes a snapshot of the last result, or of that of each group, or of totals until an event leaves."""

    @property
    def _told(self) -> bool:
        """Whether results are told apart by their kinds."""
        return "kind" in self._results.more

    def _takes(self) -> list[str]:
        if not self._query.is_windowed:  # of a named window only what enters is shown
            return [f"if {self._kind_at} == 0:", *indent(self._holds())] if self._told else self._holds()
        return [f"if {self._kind_at} == 0:", *indent(self._holds()), "else:", *indent(self._clears())]


class GroupsWriter(SnapshotWriter):
    """Writes a snapshot of the totals of each group that has events: ``q_l_members`` is how many."""

    @property
    def _members(self) -> str:
        return self._whole.arrays.declare(f"{self._prefix}_members", NUMBER, f"groups {self._prefix}")

    def _takes(self) -> list[str]:
        return [*self._holds(), f"{self._members}[{self._group}] += 1 - 2 * {self._kind_at}"]

    def _shows(self) -> list[str]:
        prefix, before, after = self._prefix, self._whole.name(), self._whole.name()
        of = f"{prefix}_of[d]"
        # A group's number is given to others with 0 members again.
        forgets = [
            f"{prefix}_node[{of}], {self._members}[{of}] = -1, 0",
            f"release({self._table}, {of}, {self._width})",
            *self._forgets(before),
        ]
        return [
            f"d, {before} = {self._head}, -1",
            "while d >= 0:",
            f"    {after} = {prefix}_next[d]",
            f"    if {self._members}[{of}] <= 0:",
            *indent(indent(forgets)),
            "    else:",
            f"        {before} = d",
            f"    d = {after}",
            *super()._shows(),
        ]


class ContentWriter(SnapshotWriter):
    """Writes a snapshot of the results of the events in a window, with totals as they are.

    Notes
    -----
    An event that leaves takes the oldest result away that is equal but for totals. ``q_l_t`` has the latest totals, of
    each group where there are some: then the oldest result of each is shown, which ``q_l_shown`` notes, and
    ``q_l_members`` is how many results a group has.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        types = self._query.read.checked.output.types
        self._positions = shown_totals(self._query.read)
        self._told_apart_by = {place: type for place, type in enumerate(types) if place not in self._positions}
        if Type.OBJECT in self._told_apart_by.values():
            raise NotTyped("a snapshot that tells objects apart", self._query.read.checked.query.span)
        room = f"groups {self._prefix}" if self._grouped else self._query.instances
        self._totals = replace(self.buffers, owner=f"{self._prefix}_t", room=room, more=())

    @property
    def _by_group(self) -> bool:
        return bool(shown_totals(self._query.read))

    def _declare_groups(self, room: str) -> None:
        for name in ("members", "shown"):
            self._whole.arrays.declare(f"{self._prefix}_{name}", NUMBER, room)

    def _takes(self) -> list[str]:
        kind = self._kind_at
        lines = [f"if {kind} == 0:", *indent(self._enters()), f"elif {kind} == 1:", *indent(self._leaves())]
        return [*lines, *(["else:", *indent(self._clears())] if self._query.notes_resets else [])]

    def _enters(self) -> list[str]:
        """Return what lets the result at ``k`` be among those that are held."""
        prefix, grouped = self._prefix, [f"{self._prefix}_of[d] = {self._group}"]
        grouped.append(f"{prefix}_members[{self._group}] += 1")
        return [
            *self._finds(),
            *self._appends(),
            f"{prefix}_ts[d] = {self._results.owner}_ts[k]",
            *self._results.moved(self._told_apart_by, "k", self._held, "d"),
            *(grouped if self._grouped else []),
            *self._results.moved(self._positions, "k", self._totals, self._group),
        ]

    def _leaves(self) -> list[str]:
        """Return what takes away the oldest result that is like the one at ``k``."""
        prefix, before = self._prefix, self._whole.name()
        totals = self._results.moved(self._positions, "k", self._totals, self._group)
        gone = self._forgets(before)
        if self._grouped:
            of, room = f"{prefix}_of[d]", f"groups {prefix}"
            empty = [f"if {prefix}_members[{of}] == 0:", f"    release({self._table}, {of}, {self._width})"]
            gone = [f"{prefix}_members[{of}] -= 1", *empty, *gone]
            # The group that is told of need not be the one of the result that goes.
            found = seeks(self._whole.arrays, f"{prefix}_k", room, self._words, self._group)
            totals = [*found, f"if {self._group} >= 0:", *indent(totals or ["pass"])]
        return [
            f"{before}, d = -1, {self._head}",
            f"while d >= 0 and not ({' and '.join(self._alike())}):",
            f"    {before}, d = d, {prefix}_next[d]",
            "if d >= 0:",
            *indent([*gone, *totals]),
        ]

    def _alike(self) -> list[str]:
        """Return the conditions under which what is held as node ``d`` is like the result at ``k``."""
        found = []
        for place, type in self._told_apart_by.items():
            (values, nulls), (held, none) = (of.attribute(place, type) for of in (self._results, self._held))
            same = f"{held}[d] == {values}[k]"
            if type in _REALS:
                # As `Double.equals`: NaN is itself, and 0.0 is not -0.0.
                same = f"key_bits({held}[d]) == key_bits({values}[k])"
            found += [f"{none}[d] == {nulls}[k]", f"({none}[d] != 0 or {same})"]
        return found

    def _shows(self) -> list[str]:
        if not self._grouped:
            return super()._shows()
        # With a mark of its own for each tick no group must be told when it is over.
        return ["mark = marks[0] + 1", "marks[0] = mark", *super()._shows()]

    def _shown(self) -> list[str]:
        buffers, of = self.buffers, f"{self._prefix}_of[d]" if self._grouped else self._key
        lines = [
            f"{buffers.owner}_ts[{self.count}] = {self._prefix}_ts[d]",
            *self._held.moved(self._told_apart_by, "d", buffers, self.count),
            *self._totals.moved(self._positions, of, buffers, self.count),
            f"{self.count} += 1",
        ]
        if not self._grouped:
            return lines
        shown = f"{self._prefix}_shown[{of}]"
        return [f"if {shown} != mark:", *indent([f"{shown} = mark", *lines])]


def snapshot_writer(query: QueryText) -> type[SnapshotWriter]:
    """Return what writes the snapshots of a query."""
    width = len(query.read.checked.output.types)
    if query.is_windowed and len(shown_totals(query.read)) < width:
        return ContentWriter
    return GroupsWriter if query.is_windowed and query.grouped else LastWriter
