"""The block of a join in a program: each event of a side passes its window, and looks for partners in the other one.

An event that comes gives current pairs, one that leaves its side's window expired pairs; the pairs of all events of a
chunk are one chunk. The meaning is that of `spdist.operators.joins.join`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import add

from spdist.language import ast
from spdist.language.checking.scope import Scope
from spdist.program.expressions import TypedWriter, Value, zero_of
from spdist.program.joins.pair_groups import PairGroups
from spdist.program.joins.pair_text import PairWriter
from spdist.program.joins.shape import Joined, Side
from spdist.program.joins.side_text import SideRows, SideText, named_text, sides_of
from spdist.program.joins.unique_side import found_rows
from spdist.program.joins.window_text import BatchSideWriter, ReleasedPairs, SideWriter, batch_side, sliding_side
from spdist.program.parts import Block, Event, Most, QueryText, Whole, asked, indent
from spdist.program.queries.filter_text import tested
from spdist.program.queries.places import count_keys, wakes_again
from spdist.program.queries.query_text import QueryWriter, by_kind
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

    groups_of = PairGroups

    def __init__(self, whole: Whole, query: QueryText, block: Block, key: str) -> None:
        super().__init__(whole, query, block, key)
        assert isinstance(query.read, Joined)
        self._join = query.read
        query.sides = query.sides or sides_of(query)
        self.groups.begin = whole.name()
        #: The windows that events leave one by one; and what is found on the sides that have a window.
        self._kept: list[SideWriter | None] = []
        self._rows: list[SideRows | TableSide | None] = []
        for side, text in zip(self._join.sides, query.sides, strict=True):
            assert isinstance(text, SideText)
            window = text.own.window
            kept: SideWriter | None = None
            if isinstance(window, Sliding) and not side.releases:
                kept = sliding_side(window.writer)(whole, text, window, key or "0")
                kept.asked = partial(self._key_writer_of, side)
            self._kept.append(kept)
            rows: SideRows | TableSide | None = None
            if side.table is not None:
                rows = TableSide(whole, side)
            elif self._join.holds(side):
                named = side.named is not None
                rows = found_rows(whole, named_text(side.named) if side.named else text, "0" if named else key or "0")
            self._rows.append(rows)
        #: Which side has no event in a pair that is put out.
        self._absent: int | None = None

    @property
    def _can_lose(self) -> bool:
        return False

    def lines(self) -> list[str]:
        """Return the block, with those of its readers."""
        self._counts()
        results = self._results()
        sides = [one for one in self._join.sides if one.comes and one.stream == self.block.stream]
        if not self._join.is_of_one:
            (side,) = sides
            filtered = self._filtered(side)

            def loop(body: list[str], place: str = "") -> list[str]:
                return self._loop([*filtered, *body], place)

            if side.releases:  # each batch that is released is a chunk
                return self._collects(side, results, loop)
            return results.hands_over([*loop(self._comes(side, results)), *self._ends_chunk(side, results)])
        # An event passes the left side, then the right one; readers get what both have given when all events have.
        results.number = number = self.whole.name()
        passes: list[str] = []
        for side in sides:
            # A loop of one turn, so that `continue` in conditions ends the pass of one side only.
            passes += [f"{number} += 1", "for _ in range(1):"]
            once = partial(add, self._filtered(side))
            released = side.releases
            own = self._collects(side, results, once, apart=False) if released else once(self._comes(side, results))
            passes += indent([*own, *self._ends_chunk(side, results)])
        return results.hands_over([f"{number} = 0", *self._loop(passes)])

    def _counts(self) -> None:
        """Take note of how much room the block can use."""
        whole, most, name = self.whole, self.block.most, self.query.name
        for side in self.query.sides:
            if side.read.streams == (self.block.stream,):
                whole.count(f"nodes {side.name}", most)
                whole.count(f"groups {side.name}", most)
                count_keys(whole, side, most)
                for room in (f"dues {side.name}", "timers") if side.read.timed else ():
                    whole.count(room, most + most + wakes_again(side))
        # How many pairs there are has no bound in the events, so room is counted by what is asked for.
        for room in ("nodes", "groups", "pairs"):  # candidates, groups and values of the totals
            whole.count(f"{room} {name}", most if self._join.finds_one else Most({asked(name): 1}))

    def timers(self) -> list[list[str]]:
        """Return, for each side, what is done when the timer of its window is due for a key."""
        sides = zip(self._join.sides, self.query.sides, strict=True)
        return [self._wakes_of(side) if text.read.timed else [] for side, text in sides]

    def _wakes_of(self, side: Side) -> list[str]:
        kept = self._kept[side.position]
        if kept is None:
            return self._releasing(side, self._results(), apart=True).wakes()
        results = self._results(silent=not self._join.puts_out_expired)
        return kept.wakes(results, self._leaves(side, kept, results))

    def expires(self) -> list[str]:
        """Return nothing: timers let events leave."""
        return []

    def _results(self, silent: bool = False) -> PairWriter:
        return PairWriter(self.whole, self.query, self.block, self.key, self.groups, self._writer, silent)

    # Events.

    def _filters(self) -> list[str]:
        return []

    def _filtered(self, side: Side) -> list[str]:
        """Return what passes over an event that does not meet the conditions in front of a side's window."""
        first: list[str] = []
        for condition in side.filters:
            writer = self._own_writer(self.query.sides[side.position].resolved)
            test = writer.condition(condition)
            first += [*writer.lines, f"if not ({test}):", "    continue"]
        return first

    def _key_writer_of(self, side: Side) -> TypedWriter:
        """Return a writer of the key that makes an event the only one of a side's window."""
        own = Scope((self._join.checked.scope.sources[side.position],))
        return self._own_writer(lambda named: own.resolve(named).attribute)

    def _own_writer(self, place_of: Callable[[ast.Variable], int]) -> TypedWriter:
        """Return a writer of expressions over an event of a side, given which attribute a name means."""

        def variable(named: ast.Variable) -> Value:
            return self.attribute(place_of(named))

        return TypedWriter(variable, self.timestamp, self.whole.name, self.whole.text_number)

    def _collects(
        self, side: Side, results: PairWriter, loop: Callable[..., list[str]], apart: bool = True
    ) -> list[str]:
        """Return what is done with a chunk of events of a side that releases batches.

        Parameters
        ----------
        side, results
            The side, and what is put out.
        loop : callable
            From what is done with an event to a loop over those that come to the window.
        apart : bool
            Whether what a batch gives is handed over by itself; else there is one event.
        """
        batch = self._releasing(side, results, apart)
        if batch.cuts and apart:
            place, end = self.whole.name(), self.block.end
            pieces = batch.pieces(self._entering, partial(loop, place=place), place, end)
            return [f"{place} = {self.block.begin}", *pieces]
        if batch.takes_chunks:
            return batch.block(self._entering, loop)
        lines = loop(batch.takes(self._entering))
        return results.hands_over(lines) if batch.goes_on and apart else lines

    def _releasing(self, side: Side, results: PairWriter, apart: bool) -> BatchSideWriter:
        """Return what writes the window of a side that releases batches."""

        def pairs(event: Event, leaves: bool = False) -> list[str]:
            found = self._pairs(side, event.read, event.timestamp, results, leaves=leaves)
            return [*self._looks(side), *(found if results.selects[leaves] else [])]

        def resets(timestamp: str) -> list[str]:
            return [*self._looks(side), *results.resets(timestamp)] if side.triggers else []

        text = self.query.sides[side.position]
        assert isinstance(text, SideText) and side.window is not None
        released = ReleasedPairs(results, pairs, resets, apart)
        batch = batch_side(side.window.writer)(self.whole, text, self.key or "0", released)
        batch.asked = partial(self._key_writer_of, side)
        return batch

    def _looks(self, side: Side) -> list[str]:
        """Return what notes that a side looks into the batch of the other one."""
        rows = self._rows[1 - side.position]
        return rows.looks() if isinstance(rows, SideRows) and side.triggers else []

    def _comes(self, side: Side, results: PairWriter) -> list[str]:
        """Return what is done with an event of a side."""
        kept, lines = self._kept[side.position], list[str]()
        if side.named is not None:
            return [*self._looks(side), *self._passes(side, results)] or ["pass"]
        if kept is not None:
            lines += kept.enters(self.attribute, self.timestamp, self._leaves(side, kept, results))
            lines += kept.changes()
        lines += self._looks(side)  # not where the event is dropped
        current, expired = results.selects
        if current:
            source = self._entering.source
            lines += self._pairs(side, self.attribute, self.timestamp, results, leaves=False, source=source)
        if kept is not None:
            return [*lines, *kept.pushes_out(self._leaves(side, kept, results))] or ["pass"]
        if expired and self._join.puts_out_expired:
            lines += self._pairs(side, self.attribute, "now", results, leaves=True)
        return [*lines, *(results.resets("now") if side.triggers else [])] or ["pass"]

    def _ends_chunk(self, side: Side, results: PairWriter) -> list[str]:
        """Return what is done behind a chunk of events of a side."""
        kept = self._kept[side.position]
        return [] if kept is None else kept.ends_chunk(self._leaves(side, kept, results))

    def _passes(self, side: Side, results: PairWriter) -> list[str]:
        """Return what is done with an event that a named window has released."""
        (current, expired), source = results.selects, self._entering.source
        pairs = partial(self._pairs, side, self.attribute, self.timestamp, results, source=source)
        leaves, enters = pairs(leaves=True) if expired else [], pairs(leaves=False) if current else []
        return by_kind(self.block, self._event, leaves, enters)

    def _leaves(self, side: Side, kept: SideWriter, results: PairWriter) -> list[str]:
        """Return what is done with an event that leaves the window of a side, as node ``d``."""
        pairs = self._pairs(side, kept.kept, kept.left_at, results, leaves=True) if results.selects[1] else []
        anew = results.resets(kept.left_at) if side.triggers and side.resets else []
        return [*self._looks(side), *pairs, *anew]

    # Pairs.

    def _pairs(
        self,
        side: Side,
        own: Callable[[int], Value],
        timestamp: str,
        results: PairWriter,
        *,
        leaves: bool,
        source: str = "0",
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
        source : str
            Source of the place of the event of a source that it comes from, where it has just come.
        """
        if not side.triggers:
            return []
        other, row, found = self._join.sides[1 - side.position], self.whole.name(), self.whole.name()
        rows, pairs = self._rows[other.position], list[str]()

        def made(partner: Callable[[int], Value]) -> Event:
            both = (own, partner) if side.position == 0 else (partner, own)
            return Event(self._read_pair(both), timestamp, self.groups.number, source)

        if rows is not None:
            event, search = made(lambda place: rows.value(place, row)), other.search
            given = self._writer(event.read, timestamp)
            # Computed once, in front of the loop over partners.
            keys = [given.kept(given.write(value)) for value in search.values]
            body = [*([f"{found} = True"] if side.outer else []), *results.of_pair(event, leaves)]
            test = partial(tested, search.rest, partial(self._writer, event.read, timestamp))
            pairs = [*given.lines, *rows.found(keys, row, results.asks, test, body)]
        if side.outer:
            nothing = made(lambda place: Value(zero_of(other.schema.types[place]), "True", other.schema.types[place]))
            # For `_missing`, which is asked while the pair with nothing is written.
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
