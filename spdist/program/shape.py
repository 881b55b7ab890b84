"""Which queries an app consists of, as far as they have a typed form: what a program is written from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from spdist.errors import Span
from spdist.language import ast
from spdist.language.checking.checked import CheckedApp, CheckedPartition, CheckedQuery
from spdist.language.types import Schema, Type
from spdist.operators.core.feedback import circular_streams
from spdist.operators.partitions.purging import purging_of
from spdist.program.called import Called
from spdist.program.expressions import NotTyped
from spdist.program.functions.changed_objects import are_not_changed
from spdist.program.joins.shape import Joined, Side, joined
from spdist.program.partition_key import computed_type
from spdist.program.patterns.shape import Matched, matched
from spdist.program.processors.kinds import Processor
from spdist.program.read_shape import LoopWindow, Read, read
from spdist.program.stores import LoopStores, stores_named, stores_of
from spdist.program.tables.shape import LoopTable
from spdist.program.windows.kinds import Batched, Kept, Sliding, Unique

__all__ = [
    "Batched",
    "Element",
    "Keyed",
    "Query",
    "Read",
    "Shape",
    "Sliding",
    "Unique",
    "element_of",
    "finds_whole_batches",
    "knows_its_input",
    "not_circular",
    "shape_of",
    "streams_of",
    "watched_streams",
]

_WHOLE = (Type.INT, Type.LONG)
#: What a key is converted to where a partition has keys of several types.
_TEXT = ast.Literal("string", Type.STRING)


#: A query, of whatever it reads.
Query = Read | Matched | Joined


@dataclass(frozen=True, slots=True)
class Keyed:
    """A partition: its place among the partitions, and its queries.

    Parameters
    ----------
    number : int
        Its place.
    keys : mapping of str to int
        The attribute that is the key of each stream, where one is.
    type : Type
        Of the keys.
    queries : tuple of Query
        Its queries.
    computed : mapping of str to PartitionKey
        The keys of streams that are computed, or are ranges.
    purge : tuple of int, optional
        How often keys are looked for that were idle, and for how long they must have been, in ms; None: they stay.
    schemas : mapping of str to Schema
        The attributes of the streams whose keys are computed.
    """

    number: int
    keys: Mapping[str, int]
    type: Type
    queries: tuple[Query, ...]
    computed: Mapping[str, ast.PartitionKey] = field(default_factory=dict)
    purge: tuple[int, int] | None = None
    schemas: Mapping[str, Schema] = field(default_factory=dict)

    @property
    def text(self) -> bool:
        """Whether the keys are texts."""
        return self.type is Type.STRING


Element = Read | Matched | Joined | Keyed


@dataclass(frozen=True)
class Shape:
    """What a program is written from.

    Parameters
    ----------
    elements : tuple of Read, Matched, Joined, Keyed or Called
        In the order of the app, named windows first.
    schemas : mapping of str to Schema
        The attributes of all streams but inner ones.
    fed : frozenset of str
        The streams that others than typed queries write: elements that are called, triggers, failures.
    is_mixed : bool
        Whether operators run, too: elements are called, or there may be timers of theirs.
    watched : frozenset of str
        The streams of which ``@OnError`` keeps the events that a query fails on, or sends them on.
    tables : mapping of str to LoopTable
        The tables that typed queries write or look into.
    triggers : frozenset of str
        The streams that the clock writes to, and no query.
    changed : frozenset of str
        The streams with objects that operators may change in place.
    """

    elements: tuple[Element | Called, ...]
    schemas: Mapping[str, Schema]
    fed: frozenset[str] = frozenset()
    is_mixed: bool = False
    watched: frozenset[str] = frozenset()
    tables: Mapping[str, LoopTable] = field(default_factory=dict)
    triggers: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()

    @cached_property
    def typed(self) -> tuple[Element, ...]:
        """The elements that have a typed form."""
        return tuple(one for one in self.elements if not isinstance(one, Called))

    @cached_property
    def adding(self) -> tuple[Called, ...]:
        """The aggregations whose events the loop adds."""
        return tuple(one for one in self.elements if isinstance(one, Called) and one.adds is not None)

    @cached_property
    def looped(self) -> tuple[Element | Called, ...]:
        """The elements that stand in the loop, in part at least."""
        return (*self.adding, *self.typed)

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        """All queries, in the order of the app."""
        return tuple(q for one in self.typed for q in (one.queries if isinstance(one, Keyed) else (one,)))

    @cached_property
    def partitions(self) -> tuple[Keyed, ...]:
        """The partitions that have a typed form."""
        return tuple(one for one in self.typed if isinstance(one, Keyed))

    @cached_property
    def purging(self) -> tuple[Keyed, ...]:
        """The partitions of which keys go that were idle."""
        return tuple(one for one in self.partitions if one.purge is not None)

    def leads_back(self, keyed: Keyed, stream: str) -> bool:
        """Tell whether events of a stream may come while queries of a partition are at work."""
        if stream in self.fed:
            # The clock writes between events, when no query is at work
            return stream not in self.triggers
        reached, left = set[str](), [query.checked.target for query in keyed.queries]
        while left:
            at = left.pop()
            # Several queries may lead to one stream, which is followed a single time
            following = {query.checked.target for query in self.queries if at in query.streams} - reached
            reached |= following
            left += following
        return stream in reached or stream in {query.checked.target for query in keyed.queries}

    @cached_property
    def downwards(self) -> list[int]:
        """The numbers of the queries, each behind those that write what it reads."""
        left: list[tuple[int, Query]] = []
        for place, element in enumerate(self.typed):
            left += [(place, read) for read in (element.queries if isinstance(element, Keyed) else (element,))]

        def named(place: int, stream: str) -> str:
            # Inner streams of two partitions may have one name
            return f"{place}{stream}" if stream.startswith("#") else stream

        found: list[int] = []
        while left:
            to_come = {named(place, read.checked.target) for place, read in left}
            waits = [any(named(place, stream) in to_come for stream in read.streams) for place, read in left]
            found += [read.number for (_, read), behind in zip(left, waits, strict=True) if not behind]
            left = [one for one, behind in zip(left, waits, strict=True) if behind]
        return found

    @cached_property
    def known(self) -> dict[str, set[int]]:
        """The attributes that must not be null, by stream: the operators fail where they are.

        Those of a named window are known when it is known where they come from.
        """
        found: dict[str, set[int]] = {}
        for stream, window in self._windows:
            if window.known:
                found.setdefault(stream, set()).update(window.known)
        return found

    @cached_property
    def times(self) -> dict[str, set[int]]:
        """The attributes that say what time it is, by stream."""
        found: dict[str, set[int]] = {}
        for stream, window in self._windows:
            if window.times:
                found.setdefault(stream, set()).update(window.times)
        return found

    @property
    def _windows(self) -> list[tuple[str, Kept | Processor]]:
        """The windows and stream processors of queries, and windows of sides of joins, each with its stream."""
        found: list[Read | Side] = []
        for query in self.queries:
            if isinstance(query, Joined):
                found += query.sides
            elif isinstance(query, Read) and not isinstance(query, LoopWindow):
                found.append(query)
        held = [(one.stream, one.window) for one in found if one.window is not None]
        reads = [query for query in self.queries if isinstance(query, Read)]
        return [*held, *((read.stream, read.processor) for read in reads if read.processor is not None)]

    @cached_property
    def reorders(self) -> bool:
        """Whether events are held back and put in order."""
        reads = (query.processor for query in self.queries if isinstance(query, Read))
        return any(processor is not None and processor.reorders for processor in reads)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The streams that queries read and none writes, in the order in which they are read."""
        written = {query.checked.target for query in self.queries} | self.fed
        reads = (stream for element in self.elements for stream in streams_of(element))
        return tuple(dict.fromkeys(stream for stream in reads if stream not in written))

    @cached_property
    def returned(self) -> tuple[str, ...]:
        """The streams that the loop reads, and operators write."""
        reads = dict.fromkeys(stream for element in self.looped for stream in streams_of(element))
        return tuple(stream for stream in reads if stream in self.fed)


def streams_of(element: Element | Called) -> tuple[str, ...]:
    """Return the streams that an element reads, each once; of partitions inner ones, too."""
    if not isinstance(element, Keyed):
        return element.streams
    return tuple(dict.fromkeys(stream for query in element.queries for stream in query.streams))


def shape_of(checked: CheckedApp) -> Shape:
    """Return the queries of an app as a program has them.

    Raises
    ------
    NotTyped
        Something of the app has no typed form (yet).
    """
    _no_stores(checked)
    schemas, stores = checked.streams, stores_of(checked)
    elements: list[Element] = [*stores.windows.values()]
    count = keyed = 0
    for element in checked.elements:
        are_not_changed(checked, element)
        elements.append(element_of(element, count, keyed, schemas, stores))
        count += len(element.queries) if isinstance(element, CheckedPartition) else 1
        keyed += isinstance(element, CheckedPartition)
    not_circular(checked)
    shape = Shape(tuple(elements), schemas, watched=watched_streams(checked.app), tables=stores.tables)
    knows_its_input(shape)
    finds_whole_batches(shape)
    return shape


def element_of(
    element: CheckedQuery | CheckedPartition, count: int, keyed: int, schemas: Mapping[str, Schema], stores: LoopStores
) -> Element:
    """Return an element as a program has it, given how many queries and how many partitions stand before it.

    Raises
    ------
    NotTyped
        Something in it has no typed form (yet).
    """
    if isinstance(element, CheckedQuery):
        _has_stores(element, stores, element.query.span)
        return _query(element, count, schemas, stores)
    _has_stores(element, stores, element.partition.span)
    reads = tuple(_query(query, count + place, {}, stores) for place, query in enumerate(element.queries))
    return _keyed(element, keyed, reads, schemas, stores.windows)


def _has_stores(element: CheckedQuery | CheckedPartition, stores: LoopStores, span: Span | None) -> None:
    """Raise NotTyped where an element uses a table or named window that has no typed form."""
    for id in sorted(stores_named((element,), set(stores.why))):
        raise NotTyped(stores.why[id], span)


def not_circular(checked: CheckedApp) -> None:
    """Raise NotTyped where a stream feeds itself."""
    if circular_streams(checked):
        raise NotTyped("streams that read what they have written themselves")


def knows_its_input(shape: Shape) -> None:
    """Raise NotTyped where a window's attribute, which must not be null, is not one of a source."""
    for stream in shape.known:
        if stream not in shape.sources:
            raise NotTyped(f"a window whose attribute may be null ('{stream}')")


def finds_whole_batches(shape: Shape) -> None:
    """Raise NotTyped where a join looks into a named window while that goes on releasing batches of one chunk.

    Operators have released them all by then.
    """
    below: dict[str, set[str]] = {}
    for query in shape.queries:
        for stream in query.streams:
            below.setdefault(stream, set()).add(query.checked.target)
    for query in (one for one in shape.queries if isinstance(one, Joined)):
        for side in query.sides:
            window = None if side.named is None else side.named.window
            batched = isinstance(window, Batched) and (window.length or window.time is not None)
            if side.named is None or not (batched or (isinstance(window, Sliding) and window.opens)):
                continue
            reached, left = set[str](), [side.named.checked.target]
            while left:
                stream = left.pop()
                if stream not in reached:
                    reached.add(stream)
                    left += below.get(stream, ())
            if query.sides[1 - side.position].stream in reached:
                raise NotTyped(f"a join with the named window '{side.named.stream}', which leads to it")


def watched_streams(app: ast.SiddhiApp) -> frozenset[str]:
    """Return the streams of which ``@OnError`` keeps the events that a query fails on, or sends them on."""
    streams = (one for one in app.definitions if isinstance(one, ast.StreamDefinition))
    return frozenset(one.name for one in streams if any(map(_keeps, ast.find_annotations(one.annotations, "OnError"))))


def _keeps(handler: ast.Annotation) -> bool:
    return (handler.get("action") or "").upper() != "LOG"


def _no_stores(checked: CheckedApp) -> None:
    for what, found in (
        ("an aggregation", checked.aggregations),
        ("a function in a script", checked.scripts),
    ):
        if found:
            raise NotTyped(f"{what} ('{next(iter(found))}')")
    for definition in checked.app.definitions:
        if isinstance(definition, ast.TriggerDefinition):
            raise NotTyped(f"a trigger ('{definition.name}')", definition.span)
    if any(id.startswith("!") for id in checked.streams):
        raise NotTyped("a fault stream")


def _query(checked: CheckedQuery, number: int, schemas: Mapping[str, Schema], stores: LoopStores) -> Query:
    query, given = checked.query, checked.query.input
    if isinstance(given, ast.PatternInput):
        if any(isinstance(node, ast.In) for node in query.walk()):
            raise NotTyped("'in' of a table in a pattern", query.span)
        if schemas and any(source.stream_id not in {*schemas, *stores.windows} for source in checked.scope.sources):
            raise NotTyped("what is not read from a stream", query.span)
        _selects(checked)
        return matched(checked, given, number, stores.windows)
    if isinstance(given, ast.JoinInput):
        _selects(checked)
        return joined(checked, given, number, stores.tables, stores.windows)
    assert isinstance(given, ast.SingleInput)
    _selects(checked)
    schema = schemas.get(checked.scope.sources[0].stream_id)
    return read(checked, given, number, stores.windows, None if schema is None else len(schema))


def _selects(checked: CheckedQuery) -> None:
    """Look at what stands behind a query's input."""
    query = checked.query
    if isinstance(query.output, ast.Return):
        raise NotTyped("an output that is returned", query.span)
    for named in query.select.group_by:
        if checked.scope.resolve(named).type is Type.OBJECT:
            raise NotTyped("'group by' an object", named.span)


def _keyed(
    element: CheckedPartition,
    number: int,
    reads: tuple[Query, ...],
    schemas: Mapping[str, Schema],
    windows: Mapping[str, LoopWindow],
) -> Keyed:
    span = element.partition.span
    interval, idle = purging_of(element.partition)
    if idle is not None and any(map(_shares_period, reads)):
        raise NotTyped("a window whose period is one for all keys, in a partition with @purge", span)
    # What a named window releases is a stream; as a side of a join it causes nothing here, nor does its key then.
    inside = {stream for read in reads for stream in read.streams}
    released = {id: window.checked.target for id, window in windows.items() if window.checked.target in inside}
    schemas = {**schemas, **{stream: windows[id].schema for id, stream in released.items()}}
    named = {released.get(id, id): key for id, key in element.keys.items()}
    given = {stream: key for stream, key in named.items() if stream in schemas}
    types = {stream: computed_type(key, schemas[stream]) for stream, key in given.items()}
    several = set(types.values())
    # An int and a long of one value are one key, since Java writes them alike; else texts are compared
    type = Type.LONG if several == set(_WHOLE) else several.pop() if len(several) == 1 else Type.STRING
    if type is Type.OBJECT:
        raise NotTyped("a partition by an object", span)
    keys: dict[str, int] = {}
    computed: dict[str, ast.PartitionKey] = {}
    for stream, key in given.items():
        value = key.value
        # Keys of several types are one where Java writes them alike.
        if value is not None and type is Type.STRING and types[stream] is not type:
            computed[stream] = replace(key, value=ast.FunctionCall("convert", (value, _TEXT)))
        elif isinstance(value, ast.Variable):
            keys[stream] = schemas[stream].names.index(value.name)
        else:
            computed[stream] = key
    purge = None if idle is None else (interval, idle)
    return Keyed(number, keys, type, reads, computed, purge, {stream: schemas[stream] for stream in computed})


def _shares_period(query: Query) -> bool:
    """Tell whether a query has a window whose open period ends for all keys of a partition at the same time."""
    windows = [side.window for side in query.sides] if isinstance(query, Joined) else [query.window]
    return any(window is not None and window.shares_period for window in windows)
