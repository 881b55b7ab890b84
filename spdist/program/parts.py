"""What a program is made of: its text, and what is known of it besides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from spdist.language import ast
from spdist.language.checking.scope import Scope
from spdist.language.types import Type
from spdist.program.aggregators import TypedForm
from spdist.program.arrays import Arrays
from spdist.program.called import CallSite
from spdist.program.expressions import Value
from spdist.program.functions.arrays import FunctionArrays
from spdist.program.functions.computed import Computed, ComputedAttribute, TextFunction, computed
from spdist.program.joins.shape import Joined
from spdist.program.read_shape import WINDOWS, LoopWindow
from spdist.program.shape import Keyed, Query, Read, Shape
from spdist.program.tables.shape import LoopTable, outer_variables
from spdist.program.windows.kinds import CRON_RANK, CRON_WINDOWS, Unique
from spdist.program.windows.shape import shows_snapshots

__all__ = [
    "EACH",
    "NULL_TEXT",
    "Aggregate",
    "Block",
    "Event",
    "Most",
    "Origin",
    "Program",
    "QueryText",
    "Whole",
    "asked",
    "indent",
    "prefix_of",
    "ticks",
]

#: Texts that are null are, as the key of a group, this text; its number is 0.
NULL_TEXT = "null"
#: An attribute of a source, as (stream, attribute).
Origin = tuple[str, int]
#: How many there may be at most: so many for each event of a source, under `EACH`, and for each event that a query's
#: window holds before these come, by the query's name; for each result that the loop asks room for, under `asked`.
Most = Counter[str]
EACH = ""


def asked(name: str) -> str:
    """Return under what there is, in `Most`, so much for each result that somebody asks room for."""
    return f"+{name}"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregator of a query.

    Parameters
    ----------
    form : TypedForm
        How it is written.
    slots : tuple of str
        The arrays of its slots.
    prefix : str
        With what the names of its other arrays begin.
    argument : Type, optional
        The type of its argument.
    """

    form: TypedForm
    slots: tuple[str, ...]
    prefix: str
    argument: Type | None

    @property
    def text(self) -> bool:
        """Whether its argument is a text."""
        return self.argument is Type.STRING

    @property
    def distinct(self) -> Type:
        """The type that different values are counted as: those of a float as doubles, of an int as longs."""
        return self.argument if self.text and self.argument else Type.DOUBLE if self.real else Type.LONG

    @property
    def real(self) -> bool:
        """Whether its argument is a real."""
        return self.argument in (Type.FLOAT, Type.DOUBLE)

    def filled(self, text: str, group: str, value: str = "", null: str = "") -> str:
        """Return a statement or an expression of its form, given the group, and the value and its null."""
        slots = [f"{name}[{group}]" for name in self.slots]
        return text.format(*slots, v=value, n=null, g=group, a=self.prefix)


@dataclass(slots=True)
class QueryText:
    """What is known of a query once it was written.

    Parameters
    ----------
    read : Query
        The query.
    keyed : Keyed, optional
        The partition that it stands in.
    aggregates : list of Aggregate
        In the order of the text.
    kept : list of int
        The attributes that its window keeps of each event.
    conditions : list of Aggregate
        The aggregators of ``having``.
    bounding : list of Aggregate
        The aggregators of the condition that bounds its window, of which there is one for each key of the partition.
    failed : str
        Source of whether the block that was written last has lost its events; empty where it cannot.
    sides : list of QueryText
        The sides of a join (`spdist.program.joins.side_text.SideText`).
    fronts : list of QueryText
        The stream processor in front of it (`spdist.program.processors.text.ProcessorText`), where there is one.
    forgets : list of str
        What forgets all groups that wait for it.
    known : set of int
        The attributes that must not be null, since aggregators of operators fail where they are.
    computed : dict
        Functions of its attributes that are computed before the loop, by call and places of these. They have places
        behind the attributes.
    """

    read: Query
    keyed: Keyed | None
    aggregates: list[Aggregate] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    conditions: list[Aggregate] = field(default_factory=list)
    bounding: list[Aggregate] = field(default_factory=list)
    failed: str = ""
    sides: list[QueryText] = field(default_factory=list)
    fronts: list[QueryText] = field(default_factory=list)
    forgets: list[str] = field(default_factory=list)
    known: set[int] = field(default_factory=set)
    computed: dict[tuple[ast.FunctionCall, tuple[int, ...]], Computed] = field(default_factory=dict)

    def computes(self, call: ast.FunctionCall, scope: Scope, places: Mapping[ast.Variable, int]) -> Computed:
        """Return a function of attributes; for the parameters see `spdist.program.functions.computed.computed`."""
        key = call, tuple(places.values())
        if key not in self.computed:
            self.computed[key] = computed(call, scope, places, len(self.read.types) + len(self.computed))
        return self.computed[key]

    def computed_at(self, place: int) -> Computed | None:
        """Return the function with a place; None where that is one of an attribute."""
        return next((one for one in self.computed.values() if one.place == place), None)

    def type_at(self, place: int) -> Type:
        """Return the type of an attribute, or of a function's values."""
        function = self.computed_at(place)
        return self.read.types[place] if function is None else function.type

    def kept_with(self, wanted: Iterable[int], needed: frozenset[tuple[str, int]]) -> list[int]:
        """Return what its window keeps, given the attributes that it keeps anyhow, and what is read at all."""
        held = [one for one in self.computed.values() if (f"{self.name}_w", one.place) in needed]
        # With its arguments, of which a function is computed anew when a state is taken over
        return sorted({*wanted, *(place for one in held for place in (one.place, *one.arguments))})

    @property
    def kept_attributes(self) -> list[int]:
        """The attributes that its window keeps; functions of them are computed anew where they are brought in."""
        return [place for place in self.kept if place < len(self.read.types)]

    def resolved(self, variable: ast.Variable) -> int:
        """Return the place of the attribute that a variable names."""
        return self.read.place(self.read.checked.scope.resolve(variable))

    @property
    def grouped(self) -> tuple[int, ...]:
        """The attributes that are the key of a group."""
        return tuple(map(self.resolved, self.read.checked.query.select.group_by))

    @property
    def shown(self) -> list[int]:
        """The attributes that the query reads anywhere behind its filters."""
        select = self.read.checked.query.select
        if not select.items:
            return sorted(self.read.star)
        scope = self.read.checked.scope
        named = (one for item in select.items for one in outer_variables(item.expression, scope))
        return sorted({*self.grouped, *map(self.resolved, named)})

    @property
    def behind(self) -> tuple[ast.Expression, ...]:
        """The conditions behind its window."""
        return self.read.behind if isinstance(self.read, Read) else ()

    @property
    def tested(self) -> set[int]:
        """The attributes that conditions behind its window name."""
        named = (node for one in self.behind for node in one.walk() if isinstance(node, ast.Variable))
        return set(map(self.resolved, named))

    @property
    def holds_back(self) -> bool:
        """Whether a rate limit lets results go on later than they are there."""
        rate = self.read.checked.query.rate
        return rate is not None and rate.kind != "first"

    @property
    def ticks(self) -> bool:
        """Whether a rate limit lets results go on when time passes."""
        return ticks(self.read)

    @property
    def shows_snapshots(self) -> bool:
        """Whether a rate limit shows the results that stand, over and over: each event gives a result of its own."""
        return shows_snapshots(self.read.checked)

    @property
    def is_windowed(self) -> bool:
        """Whether results can leave."""
        return isinstance(self.read, Joined) or self.read.window is not None

    @property
    def notes_resets(self) -> bool:
        """Whether that totals begin anew is among the results: it empties a snapshot, unless there are groups."""
        return self.shows_snapshots and self.is_windowed and not self.grouped

    @property
    def instances(self) -> str:
        """The room of what there is once for each key of the partition, or once."""
        return "1" if self.keyed is None else f"keys {self.keyed.number}"

    @property
    def operator(self) -> int:
        """The place of its window's timer among those of the query."""
        return 0

    @property
    def timer(self) -> int:
        """Its place among all queries as timers of windows fire: cron comes later, named windows first also there."""
        number = self.read.number
        if self.read.window is None or not self.read.window.fires_last:
            return number
        return CRON_RANK + (number if number >= 0 else number + WINDOWS - CRON_WINDOWS)

    @property
    def unique(self) -> Unique | None:
        """What its window has one event of."""
        return None if self.read.window is None else self.read.window.unique

    @property
    def name(self) -> str:
        """The prefix of its arrays."""
        return prefix_of(self.read)

    @property
    def shows_expired(self) -> bool:
        """Whether something is done with what leaves its window: it is shown to somebody, or taken off totals."""
        return self.read.puts_out_expired or (isinstance(self.read, Read) and self.read.takes_off)

    @property
    def is_found(self) -> bool:
        """Whether joins look into what its window holds, or has released last."""
        return isinstance(self.read, LoopWindow) and self.read.joined

    @property
    def notes_looks(self) -> bool:
        """Whether it shows which events of a batch somebody has looked at: these leave otherwise."""
        return isinstance(self.read, Read) and self.read.shows_held

    @property
    def tells_kinds(self) -> bool:
        """Whether its readers are told which events enter, and which leave: those of a named window are."""
        return isinstance(self.read, LoopWindow) and self.read.events == "all"


@dataclass(frozen=True, slots=True)
class Program:
    """A program as text.

    Parameters
    ----------
    source : str
        A module of Python with two functions: ``run`` processes chunks, ``expire`` lets events leave windows.
    arrays : Arrays
        What both are given last, in that order.
    shape : Shape
        What it was written from.
    queries : tuple of QueryText
        In the order of the app.
    inputs : mapping of str to list of int
        The attributes of each source that are read, by stream.
    outputs : mapping of str to tuple
        For each stream that is put out, and each of its attributes: the attribute of a source that it is, as (stream,
        attribute), or None where it is computed.
    most : mapping of str to Most
        How many places of a room (`spdist.program.arrays.Array`) can be used.
    texts : tuple of str
        The texts of the app; their places are their numbers.
    sites : tuple of CallSite
        Where elements are called; their places are their numbers.
    text_functions : tuple of TextFunction
        What is computed of texts before the loop.
    computed : tuple of ComputedAttribute
        What is computed of events before the loop.
    known : mapping of str to set of int
        The attributes of each source that must not be null, by stream: the operators fail where they are.
    times : mapping of str to set of int
        Those that say what time it is.
    single : frozenset of str
        The streams that are put out whose chunks are noted only where one has several events (`Block.single`).
    """

    source: str
    arrays: Arrays
    shape: Shape
    queries: tuple[QueryText, ...]
    inputs: dict[str, list[int]]
    outputs: dict[str, tuple[Origin | None, ...]]
    most: dict[str, Most]
    texts: tuple[str, ...]
    sites: tuple[CallSite, ...] = ()
    text_functions: tuple[TextFunction, ...] = ()
    computed: tuple[ComputedAttribute, ...] = ()
    known: Mapping[str, set[int]] = field(default_factory=dict)
    times: Mapping[str, set[int]] = field(default_factory=dict)
    single: frozenset[str] = frozenset()

    @property
    def calls(self) -> bool:
        """Whether its text calls out of the loop."""
        return self.shape.is_mixed or bool(self.arrays.asking)

    @property
    def expanded(self) -> list[Read]:
        """The queries that read what stream functions make of the events of a source."""
        return [query for query in self.shape.queries if isinstance(query, Read) and query.expansion is not None]

    @property
    def parts(self) -> list[QueryText]:
        """All queries, each with the sides of its join and its stream processor behind it."""
        return [part for query in self.queries for part in (query, *query.sides, *query.fronts)]

    @property
    def keeps_timestamps(self) -> bool:
        """Whether all that is put out has the timestamp of the event that has caused it."""
        late = any(q.read.puts_out_expired or q.read.waits or q.holds_back or q.fronts for q in self.queries)
        return not (late or self.shape.is_mixed)


@dataclass(frozen=True, slots=True)
class Block:
    """The events of one chunk of a stream, as the text finds them.

    Parameters
    ----------
    stream : str
        Which stream it is.
    owner : str
        The prefix of the arrays that have its attributes.
    types : tuple of Type
        Of the attributes.
    begin, end : str
        Source of where in these arrays the chunk begins, and ends.
    source : str
        The array that has of each event the place of that of a source which it comes from; empty for a source.
    origins : tuple of Origin or None
        For each attribute that of a source which it is; None where it was computed.
    room : str
        What the arrays have a place for (`spdist.program.arrays.Array`).
    most : Most
        How many events all chunks of a call may have.
    guard : str
        The condition under which an event, ``{}``, is one of the chunk; empty where all are.
    leaves : str
        The condition under which an event, ``{}``, leaves the named window that has released it; empty where none does.
    single : bool
        Whether each of its events comes from one of a source that has caused it, and no other one of it does.
    """

    stream: str
    owner: str
    types: tuple[Type, ...]
    begin: str
    end: str
    source: str
    origins: tuple[Origin | None, ...]
    room: str
    most: Most = field(default_factory=lambda: Most({EACH: 1}))
    guard: str = ""
    leaves: str = ""
    single: bool = False

    @property
    def timestamp(self) -> str:
        """The array of the timestamps."""
        return f"{self.owner}_ts"


@dataclass(frozen=True, slots=True)
class Event:
    """An event for which there may be a result.

    Parameters
    ----------
    read : callable
        From an attribute's place to its value.
    timestamp, group : str
        Source of its timestamp, and of the number of its group.
    source : str
        Source of the place of the event of a source that it comes from.
    """

    read: Callable[[int], Value]
    timestamp: str
    group: str
    source: str = "0"


class Whole(Protocol):
    """The text that a query stands in (`spdist.program.text.Writer`)."""

    arrays: Arrays
    needed: frozenset[tuple[str, int]]
    #: Whether something is sorted by texts, which the loop has as they were at its beginning.
    sorts_texts: bool
    #: What is computed before the loop.
    functions: FunctionArrays

    def name(self) -> str:
        """Return a name of the text's own."""
        ...

    @property
    def cause(self) -> str:
        """Source of the rank of the event that is processed."""
        ...

    def can_lose(self, stream: str) -> bool:
        """Tell whether a query may fail on events of a stream."""
        ...

    def loses(self, query: QueryText, block: Block) -> list[str]:
        """Return what is done with the events of a source that a query has failed on."""
        ...

    def text_number(self, text: str) -> int:
        """Return the number of a text of the app."""
        ...

    def attribute(self, owner: str, place: int, type: Type, room: str) -> tuple[str, str]:
        """Return the arrays of an attribute's values and nulls."""
        ...

    def until(self, read: Query, operator: int = 0) -> str:
        """Return source of until when the timers of an operator of a query have fired."""
        ...

    def count(self, room: str, most: Most) -> None:
        """Take note that so many places of a room can be used."""
        ...

    def must_be_known(self, origin: Origin, is_time: bool = False) -> None:
        """Take note that an attribute of a source must not be null, and whether it says what time it is."""
        ...

    def table(self, id: str) -> LoopTable | None:
        """Return a table of the program."""
        ...

    def outside(self, stream: str) -> tuple[str, str] | None:
        """Return the prefix and the room of the arrays in which a stream goes out, where nobody else gets it."""
        ...

    def is_single(self, block: Block) -> bool:
        """Tell whether the stream of a block is put out in chunks of one event each where each event is a chunk."""
        ...

    def follows(self, query: QueryText, block: Block, key: str) -> list[str]:
        """Return what is done with the results of a query: the blocks of their readers, or changes of a table."""
        ...


def prefix_of(read: Query) -> str:
    """Return the prefix of the arrays of a query, or of a named window."""
    return f"q{read.number}" if read.number >= 0 else f"win{read.number + WINDOWS}"


def ticks(read: Query) -> bool:
    """Tell whether a query has a rate limit that lets results go on when time passes."""
    rate = read.checked.query.rate
    return rate is not None and rate.time is not None and rate.kind != "first"


def indent(lines: list[str]) -> list[str]:
    """Return lines one step further in."""
    return [f"    {line}" for line in lines]
