"""Which joins have a typed form, and what is known of their sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from spdist.language import ast
from spdist.language.checking.checked import CheckedQuery
from spdist.language.checking.scope import Reference, Scope
from spdist.language.types import Schema, Type
from spdist.operators.expressions.lookup import conjuncts
from spdist.program.expressions import NotTyped
from spdist.program.functions.forms import CLOCKS
from spdist.program.read_shape import LoopWindow
from spdist.program.search import Search, search_of
from spdist.program.tables.shape import LoopTable, rows_of
from spdist.program.windows.kinds import Batched, Found, Kept, Sliding
from spdist.program.windows.shape import events_of, filters_of, is_queue, window_of

__all__ = ["Joined", "Side", "joined"]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a join.

    Parameters
    ----------
    position : int
        0 for the left one, 1 for the right one.
    stream, schema
        What it reads, and the attributes of that.
    filters : tuple of Expression
        Conditions in front of the window; they know the stream by its own name.
    window : Sliding or Batched, optional
        What it keeps; without, nothing.
    triggers : bool
        Whether its events look for partners.
    outer : bool
        Whether an event without partner comes out with nulls.
    search : Search
        How the events of the other side look into it.
    table : LoopTable, optional
        The table that it is.
    named : LoopWindow, optional
        The named window that it is: that keeps the events, and releases them with their kinds.
    """

    position: int
    stream: str
    schema: Schema
    filters: tuple[ast.Expression, ...]
    window: Kept | None
    triggers: bool
    outer: bool
    search: Search
    table: LoopTable | None = None
    named: LoopWindow | None = None

    @property
    def comes(self) -> bool:
        """Whether something is done with its events."""
        return self.table is None and (self.named is None or self.triggers)

    @property
    def releases(self) -> bool:
        """Whether its window lets events out later than they come: in batches, each a chunk, or one by one."""
        window = self.window
        return isinstance(window, Batched) or (isinstance(window, Sliding) and (window.gathers or window.delays))

    @property
    def passes(self) -> bool:
        """Whether each of its events leaves as soon as it has come, and all totals begin anew then."""
        return self.table is None and self.named is None and self.window is None

    @property
    def resets(self) -> bool:
        """Whether all totals begin anew from time to time, as its events leave together, or immediately."""
        window = self.window
        return self.passes or isinstance(window, Batched) or (isinstance(window, Sliding) and window.resets)


@dataclass(frozen=True, slots=True)
class Joined:
    """A query over a join. Its attributes have places: those of the left side, then those of the right one.

    Parameters
    ----------
    number : int
        Its place in the app.
    checked : CheckedQuery
        The query.
    sides : tuple of Side
        The left and the right one.
    events : str
        Which pairs are put out: those of events that come (``current``), that leave (``expired``), or ``all``.
    """

    number: int
    checked: CheckedQuery
    sides: tuple[Side, Side]
    events: str

    #: The windows are those of its sides.
    window = None
    renews = False
    batches = False
    lists: tuple[str, ...] = ()

    @property
    def falls_back(self) -> bool:
        """Whether ``min`` and ``max`` go back to an earlier value: not where only a named window lets events leave."""
        windows = (side.window for side in self.sides)
        return self.puts_out_expired or any(
            window.takes_off if isinstance(window, Batched) else window is not None for window in windows
        )

    @property
    def leaving(self) -> bool:
        """Whether pairs leave one by one, and not only all of them at a time."""
        return self.falls_back or any(side.named is not None for side in self.sides)

    @property
    def resets(self) -> bool:
        """Whether all totals begin anew from time to time."""
        return any(side.resets for side in self.sides if side.triggers)

    def holds(self, side: Side) -> bool:
        """Tell whether the window of a side holds what the other one finds: no chunk that nobody is shown leaving."""
        window, shown = side.window, self.puts_out_expired
        if side.named is not None:
            window, shown = side.named.window, side.named.puts_out_expired
        if isinstance(window, Sliding):
            return window.found is not Found.NOTHING and (window.opens or not window.gathers)
        return window is not None and (shown or not (isinstance(window, Batched) and window.chunked))

    @property
    def waits(self) -> bool:
        """Whether pairs are there later than the event that comes: those of a batch are."""
        return any(side.releases for side in self.sides)

    @property
    def is_of_one(self) -> bool:
        """Whether both sides read the same stream."""
        return self.sides[0].stream == self.sides[1].stream

    @property
    def with_table(self) -> bool:
        """Whether one side is a table: then all pairs are of events of the other one."""
        return any(side.table is not None for side in self.sides)

    @property
    def finds_one(self) -> bool:
        """Whether each event gives one pair at most: it looks a row up by the primary key, and no window holds it."""
        tables = (side for side in self.sides if side.table is not None and side.search.index == side.table.key)
        return any(self.sides[1 - side.position].window is None for side in tables if side.search.index)

    @property
    def streams(self) -> tuple[str, ...]:
        """What it reads, each once."""
        return tuple(dict.fromkeys(side.stream for side in self.sides if side.comes))

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the attributes, by place."""
        return tuple(type for side in self.sides for type in side.schema.types)

    @property
    def star(self) -> tuple[int, ...]:
        """The places of what ``select *`` means."""
        return tuple(range(len(self.types)))

    @property
    def width(self) -> int:
        """How many attributes the left side has."""
        return len(self.sides[0].schema)

    def place(self, reference: Reference) -> int:
        """Return the place of what a name means."""
        return reference.attribute + (self.width if reference.source else 0)

    @property
    def puts_out_current(self) -> bool:
        """Whether there are results for events that come."""
        return self.events != "expired"

    @property
    def puts_out_expired(self) -> bool:
        """Whether there are results for events that leave a window."""
        return self.events != "current"

    @property
    def is_even(self) -> bool:
        """Whether all pairs that come leave, and no others: else totals take off what is not there, or keep all."""
        if not self.leaving:
            return True
        windows = (side.window for side in self.sides if side.triggers and not side.outer)
        if sum(isinstance(window, Sliding) and window.is_left for window in windows) < len(self.sides):
            return False
        slides = [side.window for side in self.sides if isinstance(side.window, Sliding)]
        if any(window.leaves_early or window.found is Found.NOTHING for window in slides):
            return False
        tests = (part for side in self.sides for part in (*side.search.values, *side.search.rest))
        calls = (node.id for one in tests for node in one.walk() if isinstance(node, ast.FunctionCall))
        return not {*CLOCKS, "eventTimestamp"}.intersection(calls)

    @property
    def timed(self) -> bool:
        """Whether events leave a window when time passes: the other side must not find them any more."""
        return any(side.window.is_timed for side in self.sides if side.window is not None)


def joined(
    checked: CheckedQuery,
    given: ast.JoinInput,
    number: int,
    tables: Mapping[str, LoopTable],
    windows: Mapping[str, LoopWindow],
) -> Joined:
    """Return a query over a join, also with these tables and named windows; raises NotTyped."""
    span = checked.query.span
    if given.per is not None or given.within:
        raise NotTyped("a join with 'within'", span)
    named = [windows.get(source.stream_id) for source in checked.scope.sources]
    left, right = (_side(checked, given, position, tables, named[position]) for position in (0, 1))
    if right.named is not None and left.stream == right.stream:
        # Siddhi forgets the right side.
        right = replace(right, triggers=False, outer=False)
    if not (left.comes or right.comes) and checked.partition is not None:
        raise NotTyped("a join that no event causes, in a partition", span)
    return Joined(number, checked, (left, right), events_of(checked))


def _side(
    checked: CheckedQuery,
    given: ast.JoinInput,
    position: int,
    tables: Mapping[str, LoopTable],
    named: LoopWindow | None,
) -> Side:
    source, side = checked.scope.sources[position], (given.left, given.right)[position]
    table = tables.get(source.stream_id)
    if table is not None:
        # Siddhi drops what stands behind the name of a table.
        search = rows_of(given.on, checked.scope, position, table)
        return Side(position, table.id, table.schema, (), None, False, False, search, table)
    if source.kind != "stream" and named is None:
        raise NotTyped(f"a join with '{source.stream_id}', which is no stream", side.input.span)
    if side.input.after and named is None:
        raise NotTyped("what is behind a window", side.input.span)
    outer = {"left outer": (True, False), "right outer": (False, True), "full outer": (True, True)}
    one_way = given.left.unidirectional or given.right.unidirectional
    other = (given.right, given.left)[position]
    # Where one side is 'unidirectional' only its events look for partners.
    looked_into = other.unidirectional or not one_way
    selected = checked.selected(position)
    window = window_of(side.input, source.schema, Scope((source,)), selected) if named is None else None
    held = window if named is None else named.window
    looks = Search()
    # The list of a key lets its first event go: that is right where the oldest of all leaves first.
    if looked_into and is_queue(held):
        looks = search_of(given.on, checked.scope, position)
    elif looked_into:
        looks = Search(rest=tuple(conjuncts(given.on)))
    if held is not None and not held.is_joined:
        raise NotTyped("a join with the window cron", side.input.span)
    if named is not None and looks.index not in ((), named.index):
        raise NotTyped(f"a named window ('{named.stream}') that joins look into by several keys", side.input.span)
    silent = named is not None and checked.partition is not None  # there named windows cause nothing
    return Side(
        position=position,
        stream=source.stream_id if named is None else named.checked.target,
        schema=source.schema,
        # Siddhi drops what stands behind the name of a window.
        filters=filters_of(side.input.before, side.input.span) if named is None else (),
        window=window,
        triggers=(side.unidirectional or not one_way) and not silent,
        outer=outer.get(given.kind, (False, False))[position],
        search=looks,
        named=named,
    )
