"""The block of a join in a program: each event of a side passes its window, and looks for partners in the other one.

An event that comes gives current pairs, one that leaves its side's window expired pairs; the pairs of all events of a
chunk are one chunk. The meaning is that of `spdist.operators.joins.join`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from spdist.language import ast
from spdist.program.expressions import TypedWriter, Value, zero_of
from spdist.program.joins.pair_text import PairWriter
from spdist.program.joins.shape import Joined, Side
from spdist.program.joins.side_text import SideText, SideWriter, sides_of
from spdist.program.parts import Block, Event, Most, QueryText, Whole, asked, indent, tested
from spdist.program.queries.query_text import QueryWriter
from spdist.program.shape import Sliding
from spdist.program.tables.lookup_text import TableSide

__all__ = ["JoinWriter"]


class JoinWriter(QueryWriter):
    """Writes the block of a join, for the events of one stream that it reads.

    Parameters
    ----------
    whole, query, block, key
        As for `QueryWriter`.
    """

    def __init__(self, whole: Whole, query: QueryText, block: Block, key: str) -> None:
        super().__init__(whole, query, block, key)
        assert isinstance(query.read, Joined)
        self._join = query.read
        query.sides = sides_of(query)
        self._groups.begin = whole.name()
        #: The windows of the sides that have one.
        self._kept: list[SideWriter | None] = []
        for text in query.sides:
            assert isinstance(text, SideText)
            window = text.own.window
            kept = SideWriter(whole, text, window, key or "0", self._groups) if isinstance(window, Sliding) else None
            self._kept.append(kept)
        #: The side that is a table.
        self._table = next((TableSide(whole, side) for side in self._join.sides if side.table is not None), None)
        #: Which side has no event in a pair that is put out.
        self._absent: int | None = None

    @property
    def _can_lose(self) -> bool:
        return False

    def lines(self) -> list[str]:
        """Return the block, with those of its readers."""
        self._counts()
        results = self._results()
        sides = [one for one in self._join.sides if one.stream == self._block.stream]
        if len(sides) == 1:
            return results.hands_over(self._loop([*self._filtered(sides[0]), *self._comes(sides[0], results)]))
        # An event passes the left side, then the right one; readers get what both have given when all events have.
        results.number = number = self._whole.name()
        passes: list[str] = []
        for side in sides:
            passes += [f"{number} += 1", "for _ in range(1):"]
            passes += indent([*self._filtered(side), *self._comes(side, results)])
        return results.hands_over([f"{number} = 0", *self._loop(passes)])

    def _counts(self) -> None:
        """Take note of how much room the block can use."""
        whole, most, name = self._whole, self._block.most, self._query.name
        for side in self._query.sides:
            if side.read.streams == (self._block.stream,):
                whole.count(f"nodes {side.name}", most)
                whole.count(f"groups {side.name}", most)
                for room in (f"dues {side.name}", "timers") if side.read.timed else ():
                    whole.count(room, most + most)
        for room in ("nodes", "groups", "pairs"):  # candidates, groups and values of the totals
            whole.count(f"{room} {name}", most if self._join.finds_one else Most({asked(name): 1}))

    def timers(self) -> list[list[str]]:
        """Return, for each side, what is done when the timer of its window is due for a key."""
        timed = [text.read.timed for text in self._query.sides]
        sides = zip(self._join.sides, self._kept, timed, strict=True)
        return [[] if kept is None or not wakes else self._wakes_of(side, kept) for side, kept, wakes in sides]

    def _wakes_of(self, side: Side, kept: SideWriter) -> list[str]:
        results = self._results(silent=not self._join.puts_out_expired)
        return kept.wakes(results, self._leaves(side, kept, results))

    def expires(self) -> list[str]:
        """Return nothing: timers let events leave."""
        return []

    def _results(self, silent: bool = False) -> PairWriter:
        return PairWriter(self._whole, self._query, self._block, self._key, self._groups, self._writer, silent)

    # Events.

    def _filters(self) -> list[str]:
        return []

    def _filtered(self, side: Side) -> list[str]:
        """Return what passes over an event that does not meet the conditions in front of a side's window."""
        first: list[str] = []
        for condition in side.filters:
            writer = self._own_writer(side)
            test = writer.condition(condition)
            first += [*writer.lines, f"if not ({test}):", "    continue"]
        return first

    def _own_writer(self, side: Side) -> TypedWriter:
        """Return a writer of conditions that stand in front of a side's window."""
        text = self._query.sides[side.position]

        def variable(named: ast.Variable) -> Value:
            return self._attribute(text.resolved(named))

        return TypedWriter(variable, self._timestamp, self._whole.name, self._whole.text_number)

    def _comes(self, side: Side, results: PairWriter) -> list[str]:
        """Return what is done with an event of a side."""
        kept, lines = self._kept[side.position], list[str]()
        if kept is not None:
            lines = kept.enters(self._attribute, self._timestamp, self._leaves(side, kept, results))
        current, expired = results.selects
        if current:
            lines += self._pairs(side, self._attribute, self._timestamp, results, leaves=False)
        if expired and kept is None:
            lines += self._pairs(side, self._attribute, "now", results, leaves=True)
        return lines or ["pass"]

    def _leaves(self, side: Side, kept: SideWriter, results: PairWriter) -> list[str]:
        """Return what is done with an event that leaves the window of a side, as node ``d``."""
        return self._pairs(side, kept.kept, kept.left_at, results, leaves=True) if results.selects[1] else []

    # Pairs.

    def _pairs(
        self, side: Side, own: Callable[[int], Value], timestamp: str, results: PairWriter, *, leaves: bool
    ) -> list[str]:
        """Return what looks for the partners of an event, and selects from the pairs.

        Parameters
        ----------
        side : Side
            The side of the event.
        own : callable
            From the place of an attribute to its value in the event.
        timestamp : str
            Source of the timestamp of the pairs.
        results : PairWriter
            What is put out.
        leaves : bool
            Whether the event leaves its window.
        """
        if not side.triggers:
            return []
        other, row, found = self._join.sides[1 - side.position], self._whole.name(), self._whole.name()
        kept = self._kept[other.position] if other.table is None else self._table
        source = "0" if leaves else self._entering.source
        pairs: list[str] = []

        def made(partner: Callable[[int], Value]) -> Event:
            rows = (own, partner) if side.position == 0 else (partner, own)
            return Event(self._read_pair(rows), timestamp, self._groups.number, source)

        if kept is not None:
            event, search = made(lambda place: kept.value(place, row)), other.search
            given = self._writer(event.read, timestamp)
            keys = [given.kept(given.write(value)) for value in search.values]
            body = [*([f"{found} = True"] if side.outer else []), *results.of_pair(event, leaves)]
            test = partial(tested, search.rest, partial(self._writer, event.read, timestamp))
            pairs = [*given.lines, *kept.found(keys, row, results.asks, test, body)]
        if side.outer:
            nothing = made(lambda place: Value(zero_of(other.schema.types[place]), "True", other.schema.types[place]))
            self._absent = other.position
            alone = results.of_pair(nothing, leaves)
            self._absent = None
            asking = results.asks("1", [f"{found} = True"])
            asking = [f"if not {found}:", *indent(asking)] if asking else []
            pairs = [f"{found} = False", *pairs, *asking, f"if not {found}:", *indent(alone or ["pass"])]
        return results.of_event(pairs) if pairs else []

    def _read_pair(self, rows: tuple[Callable[[int], Value], Callable[[int], Value]]) -> Callable[[int], Value]:
        """Return what reads an attribute of a pair by its place, given what reads those of its events."""
        width = self._join.width
        return lambda place: rows[0](place) if place < width else rows[1](place - width)

    def _missing(self, node: ast.IsNullEvent) -> str:
        """Return source of whether a side has no event."""
        return str(self._join.checked.scope.find(node.stream) == self._absent)
