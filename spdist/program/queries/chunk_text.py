"""Results of a query in arrays, and what is done to those of one chunk before readers get them: order, limit, offset.

The meaning is that of `spdist.operators.selection.arrangement`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from spdist.language.checking.scope import Reference
from spdist.language.types import Type
from spdist.operators.selection.arrangement import constant, swallows_one, unselected
from spdist.program.expressions import FLAG, NUMBER, NotTyped, dtype_of
from spdist.program.joins.shape import Joined
from spdist.program.parts import QueryText, Whole, indent
from spdist.program.windows.kinds import Sliding

__all__ = ["Arrangement", "Buffers"]


@dataclass(frozen=True, slots=True)
class Buffers:
    """Arrays with a place for each result.

    Parameters
    ----------
    whole, query
        The text, and the query whose results they are.
    owner : str
        The prefix of the arrays.
    room : str
        What they have a place for (`spdist.program.arrays.Array`).
    more : tuple of str
        What they have besides attributes and timestamp, each a whole number.
    begin : str
        Source of the place of a chunk's first result.
    """

    whole: Whole
    query: QueryText
    owner: str
    room: str
    more: tuple[str, ...] = ()
    begin: str = "0"

    @classmethod
    def of_results(cls, whole: Whole, query: QueryText) -> Buffers:
        """Return what the results of a query's chunk stand in.

        Where they only go out, that is the arrays in which they do, behind the chunks before.
        ``kind`` is 1 of an event that leaves a window, 2 of a sign that totals begin anew, ``pass`` tells apart what
        each pass of an event through a join gives, ``w0``, ``w1``… are the words of its group's key.
        """
        select, rate = query.read.checked.query.select, query.read.checked.query.rate
        more = ["source"]
        if isinstance(query.read, Joined) and query.read.is_of_one:
            more.append("pass")
        cut = select.order_by or select.limit is not None or rate is not None
        if query.tells_kinds or (query.read.events == "all" and cut):
            more.append("kind")
        if rate is not None and rate.kind != "all" and query.grouped:
            more += [f"w{number}" for number in range(len(query.grouped) + 1)]
        # What is arranged, held back, or computed at the end of a batch is no chunk yet.
        final = rate is None and not (select.order_by or select.limit is not None or select.offset is not None)
        final = final and not query.read.renews
        outside = whole.outside(query.read.checked.target) if final else None
        owner, room = outside or (f"{query.name}_o", f"chunk {query.name}")
        return cls(whole, query, owner, room, tuple(more), f"{owner}_count[0]" if outside else "0")

    def declare(self) -> None:
        """Declare the arrays but those of attributes, which are declared where they are read."""
        for name in ("ts", *self.more):
            self.whole.arrays.declare(f"{self.owner}_{name}", NUMBER, self.room)

    def copied(self, place: str, into: Buffers, to: str) -> list[str]:
        """Return what copies a result from a place to one of other arrays, as far as those are read."""
        lines = [f"{into.owner}_{one}[{to}] = {self.owner}_{one}[{place}]" for one in ("ts", *into.more)]
        return [*lines, *self.moved(range(len(self.query.read.checked.output.types)), place, into, to)]

    def moved(self, attributes: Iterable[int], place: str, into: Buffers, to: str) -> list[str]:
        """Return what copies some attributes of a result; see `copied`."""
        lines, types = list[str](), self.query.read.checked.output.types
        for attribute in attributes:
            if (into.owner, attribute) in self.whole.needed:
                pairs = self.attribute(attribute, types[attribute]), into.attribute(attribute, types[attribute])
                lines += [f"{own}[{to}] = {mine}[{place}]" for mine, own in zip(*pairs, strict=True)]
        return lines

    def attribute(self, place: int, type: Type) -> tuple[str, str]:
        """Return the arrays of the values and nulls of an attribute, which is read."""
        return self.whole.attribute(self.owner, place, type, self.room)

    def unselected(self, number: int, type: Type) -> tuple[str, str]:
        """Return the arrays of the values and nulls of what results are ordered by and do not have."""
        name = self.whole.arrays.declare(f"{self.owner}_by{number}", dtype_of(type), self.room)
        return name, self.whole.arrays.declare(f"{name}_n", FLAG, self.room)


class Arrangement:
    """Writes what orders and limits the results of one chunk.

    Parameters
    ----------
    results : Buffers
        The results.
    count : str
        Source of how many there are.
    alone : bool
        Whether each chunk has one result at most.
    in_parts : bool
        Whether a chunk has several parts, each arranged by itself: those that stand there are the results of one.

    Notes
    -----
    Where the order stays, readers get a part of the results; else those that are put out are copied, in their order.
    """

    def __init__(self, results: Buffers, count: str, alone: bool, in_parts: bool = False) -> None:
        self._results = results
        self._count = count
        self._whole = results.whole
        self._select = results.query.read.checked.query.select
        self._events = results.query.read.events
        self._limit = constant(self._select.limit)
        # As in Siddhi a snapshot of groups is only limited.
        limited = results.query.shows_snapshots and bool(results.query.grouped)
        self._offset = 0 if limited else constant(self._select.offset) or 0
        #: Whether there is never a result.
        self.swallows = alone and swallows_one(self._select, limited)
        window = results.query.read.window
        # Where a sign that totals begin anew stands behind each event, each is ordered by itself.
        apart = isinstance(window, Sliding) and window.resets and not self._select.group_by
        #: Whether results are ordered: one by itself is.
        self._orders = bool(self._select.order_by) and not alone and not limited and not apart
        told = not alone and not limited and (self._orders or self._limit is not None)
        #: What they are ordered by and do not have.
        self.unselected = self._unselected() if self._orders else []
        #: Whether results have kinds, which are told apart: those that leave a window are never cut off.
        self.kinds = self._events == "all" and told
        cuts = not alone and bool(self._offset or self._limit is not None)
        #: Whether signs that totals begin anew stand among the results, which are no results themselves.
        self._resets = results.query.notes_resets and not in_parts
        moves = self._orders or (cuts and (self.kinds or in_parts or self._resets))
        #: What readers get.
        self.buffers = results
        if moves:
            self.buffers = replace(results, owner=f"{results.query.name}_r")
            self.buffers.declare()
        self.begin, self.end = results.begin, count
        #: Source of where the part begins among what readers get; empty where there is one.
        self.part = self._whole.name() if moves and in_parts else ""
        if cuts and not moves:
            self.begin, self.end = self._whole.name(), self._whole.name()
        elif moves:
            self.end = self._whole.name()

    def _unselected(self) -> list[Reference]:
        """Return what results are ordered by and do not have: a join may name what it reads."""
        read, checked = self._results.query.read, self._results.query.read.checked
        found = unselected(self._select, checked.scope.results(checked.target, checked.output))
        if found and not isinstance(read, Joined):
            raise NotTyped("an order by what is not selected", self._select.order_by[0].variable.span)
        return found

    @property
    def _cut(self) -> int | None:
        """How many of the results of one kind are put out at most; None where all are."""
        return None if self._events == "expired" else self._limit

    def lines(self) -> list[str]:
        """Return what arranges the results of a chunk."""
        if self.swallows:
            return [f"{self._count} = 0"]
        if self.buffers is self._results:
            if self.begin == self._results.begin:  # All go on where they stand
                return []
            last = self._count if self._cut is None else f"min({self._count}, {self._offset + self._cut})"
            return [f"{self.begin} = min({self._offset}, {self._count})", f"{self.end} = {last}"]
        order = self._ordered() if self._orders else []
        kept = [*self._results.copied("s", self.buffers, self.end), f"{self.end} += 1"]
        if self._resets:
            return [*order, *self._between_resets(f"{self._order}[k]" if order else "k", kept)]
        if self._cut is not None:
            kind = f"{self.kind}[s] != 0 or " if self.kinds else ""
            full = f"{self.part} + {self._cut}" if self.part else f"{self._cut}"
            kept = [f"if {kind}{self.end} < {full}:", *indent(kept)]
        place = f"{self._order}[k]" if order else "k"
        return [
            *order,
            f"{self.part} = {self.end}" if self.part else f"{self.end} = 0",
            f"for k in range({self._offset}, {self._count}):",
            *indent([f"s = {place}", *kept]),
        ]

    def _between_resets(self, place: str, kept: list[str]) -> list[str]:
        """Return what puts out the results at `place`, and all signs that totals begin anew, given what copies one."""
        passed, shown = self._whole.name(), self._whole.name()
        cut = [] if self._cut is None else [f"if {self.kind}[s] == 0 and {shown} >= {self._cut}:", "    continue"]
        counts = [f"if {passed} < {self._offset}:", f"    {passed} += 1", "    continue", *cut, f"{shown} += 1"]
        return [
            f"{self.end}, {passed}, {shown} = 0, 0, 0",
            f"for k in range({self._count}):",
            f"    s = {place}",
            f"    if {self.kind}[s] != 2:",
            *indent(indent(counts)),
            *indent(kept),
        ]

    # Order.

    @property
    def kind(self) -> str:
        """The array of the kinds of results."""
        return f"{self._results.owner}_kind"

    @property
    def _order(self) -> str:
        return f"{self._results.query.name}_order"

    def _ordered(self) -> list[str]:
        """Return what writes the places of the results into an array, in their order."""
        arrays, name, count = self._whole.arrays, self._results.query.name, self._count
        for array in ("order", "other"):
            arrays.declare(f"{name}_{array}", NUMBER, self._results.room)
        # `sort_places` is given them also where no texts are sorted.
        arrays.declare("text_starts", NUMBER, "1")
        arrays.declare("text_bytes", FLAG, "1")
        begin, end = (self._whole.name(), self._whole.name()) if self.kinds else ("0", count)
        sorts = []
        # The last key first: sorts are stable, so the first one decides where it can.
        for values, nulls, type, descending in reversed(self._keys()):
            text = 1 + descending if type is Type.STRING else 0
            self._whole.sorts_texts |= bool(text)
            if not text and (descending or type in (Type.FLOAT, Type.DOUBLE)):
                words = arrays.declare(f"{name}_words", NUMBER, self._results.room)
                word = f"real_place({values}[k])" if type in (Type.FLOAT, Type.DOUBLE) else f"{values}[k]"
                # `~` turns the order round, and unlike `-` leaves the range of no number.
                sorts += [f"for k in range({begin}, {end}):", f"    {words}[k] = {'~' if descending else ''}{word}"]
                values = words
            given = f"{name}_order, {name}_other"
            sorts.append(f"sort_places({given}, {values}, text_starts, text_bytes, {begin}, {end}, {text})")
            sorts.append(f"nulls_last({given}, {nulls}, {begin}, {end})")
        if self.kinds:
            kind = self.kind
            sorts = [
                f"{begin} = 0",
                f"while {begin} < {count}:",
                f"    {end} = {begin} + 1",
                f"    while {end} < {count} and {kind}[{end}] == {kind}[{begin}]:",
                f"        {end} += 1",
                *indent(sorts),
                f"    {begin} = {end}",
            ]
        return [
            f"for k in range({count}):",
            f"    {self._order}[k] = k",
            f"if {count} > 1:",
            *indent(sorts),
        ]

    def _keys(self) -> list[tuple[str, str, Type, bool]]:
        """Return by what results are ordered: values, nulls, their type, and whether the greatest is first."""
        checked = self._results.query.read.checked
        scope = checked.scope.results(checked.target, checked.output)
        found: list[tuple[str, str, Type, bool]] = []
        for by in self._select.order_by:
            reference = scope.resolve(by.variable)
            if reference.type is Type.OBJECT:
                raise NotTyped("'order by' an object", by.variable.span)
            if scope.is_output(reference):
                values, nulls = self._results.attribute(reference.attribute, reference.type)
            else:
                values, nulls = self._results.unselected(self.unselected.index(reference), reference.type)
            found.append((values, nulls, reference.type, by.descending))
        return found
