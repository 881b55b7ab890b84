"""Apps of which some elements have a typed form, and others have none: those are called by the loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from spdist.language import ast
from spdist.language.checking.checked import CheckedAggregation, CheckedApp, CheckedPartition, CheckedQuery
from spdist.language.types import Schema
from spdist.program.aggregations.bucket_shape import bucketed
from spdist.program.called import Called
from spdist.program.expressions import NotTyped
from spdist.program.functions.changed_objects import are_not_changed, changed_streams
from spdist.program.read_shape import LoopWindow
from spdist.program.shape import (
    Element,
    Shape,
    element_of,
    finds_whole_batches,
    knows_its_input,
    not_circular,
    watched_streams,
)
from spdist.program.stores import LoopStores, stores_named, stores_of
from spdist.program.text import written

__all__ = ["mixed_shape_of"]


def mixed_shape_of(checked: CheckedApp) -> Shape:
    """Return the elements of an app: those that have a typed form as a program has them, the others to be called.

    Raises
    ------
    NotTyped
        No query has a typed form, or streams go round.
    """
    not_circular(checked)
    # Of a stream that others write, it is not known which attributes are those of a source.
    inner = frozenset(_written(checked, {query.target for query in _queries(checked)}))
    watched, clocked = (
        watched_streams(checked.app),
        frozenset(_triggers(checked)) - {q.target for q in _queries(checked)},
    )
    whole = Shape((), checked.streams, inner, watched=watched, triggers=clocked)
    stores = stores_of(checked)
    elements = _elements(checked, whole, stores, {})
    # Each round leaves fewer typed stores, so it ends
    while shared := _shared(checked, elements, stores):
        # Who is called looks into the tables and windows of the operators; so do all who use the same.
        stores = stores.without(shared)
        elements = _elements(checked, whole, stores, {one.names: one for one in elements if isinstance(one, Called)})
    called = [one for one in elements if isinstance(one, Called) and one.adds is None]
    if len(called) == len(elements):
        raise called[0].why if called else NotTyped("no query")
    fed = frozenset(_fed(checked, called))
    whole = replace(whole, elements=(*stores.windows.values(), *elements))
    shape = replace(whole, fed=fed, is_mixed=True, tables=stores.tables, changed=changed_streams(checked))
    knows_its_input(shape)
    finds_whole_batches(shape)
    _goes_down(checked, shape)
    return shape


def _elements(
    checked: CheckedApp, whole: Shape, stores: LoopStores, known: Mapping[tuple[str, ...], Called]
) -> list[Element | Called]:
    """Return the elements of an app.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    whole : Shape
        What is known of its streams.
    stores : LoopStores
        Its tables and named windows.
    known : mapping of tuple of str to Called
        Those that are known to be called, by the names of their queries.
    """
    elements: list[Element | Called] = [
        _aggregation(checked, one, number, whole.fed) for number, one in enumerate(checked.aggregated.values())
    ]
    count = keyed = 0
    for element in checked.elements:
        inside = element.queries if isinstance(element, CheckedPartition) else (element,)
        called = known.get(tuple(query.name for query in inside))
        try:
            if called is None:
                are_not_changed(checked, element)
                typed = element_of(element, count, keyed, checked.streams, stores)
                _is_typed(replace(whole, elements=(typed,), tables=stores.tables), stores.windows_of(element))
            elements.append(called or typed)
        except NotTyped as why:
            elements.append(_called(element, inside, checked.streams, why))
        count += len(inside)
        keyed += isinstance(element, CheckedPartition)
    return elements


def _shared(checked: CheckedApp, elements: Sequence[Element | Called], stores: LoopStores) -> dict[str, str]:
    """Return the typed tables and named windows that elements use which are called, and that in words."""
    found: dict[str, str] = {}
    every = (*checked.aggregated.values(), *checked.elements)
    for element, one in zip(every, elements, strict=True):
        if isinstance(one, Called):
            for id in sorted(stores_named((element,), stores.typed)):
                kind, why = ("table", "") if id in stores.tables else ("named window", f": {one.why.reason}")
                found[id] = f"the {kind} '{id}', which '{one.names[0]}' uses without a typed form{why}"
    return found


def _is_typed(shape: Shape, windows: tuple[LoopWindow, ...]) -> None:
    """Look whether the text of an element can be written, with all that it puts out, and the windows that it names."""
    targets: dict[str, None] = {}
    ids = {window.stream: window.schema for window in windows}
    for query in shape.queries:
        target = query.checked.target
        if target in shape.schemas:
            targets[target] = None
        elif not target.startswith("#") and target not in {*shape.tables, *ids}:
            raise NotTyped(f"an output to '{target}', which is no stream", query.checked.query.span)
    # Others insert into the windows, too: so what they release is read.
    schemas, fed = {**shape.schemas, **ids}, shape.fed | set(ids)
    written(replace(shape, elements=(*windows, *shape.elements), schemas=schemas, fed=fed), tuple(targets))


def _aggregation(checked: CheckedApp, aggregated: CheckedAggregation, number: int, inner: frozenset[str]) -> Called:
    streams = tuple(dict.fromkeys(source.stream_id for source in aggregated.scope.sources))
    why = NotTyped(f"an aggregation ('{aggregated.id}')", aggregated.definition.span)
    try:
        made = Called((aggregated.id,), streams, why, adds=bucketed(aggregated, number))
        written(Shape((made,), checked.streams, inner, is_mixed=True), ())
    except NotTyped as found:
        return Called((aggregated.id,), streams, found)
    return made


def _called(
    element: CheckedQuery | CheckedPartition,
    queries: Sequence[CheckedQuery],
    schemas: Mapping[str, Schema],
    why: NotTyped,
) -> Called:
    reads = dict.fromkeys(source.stream_id for query in queries for source in query.scope.sources)
    streams = tuple(stream for stream in reads if stream in schemas)
    names = tuple(query.name for query in queries)
    return Called(names, streams, why, _filters(element) if isinstance(element, CheckedQuery) else {})


def _filters(query: CheckedQuery) -> dict[str, tuple[ast.Expression, ...]]:
    """Return by stream the conditions that each of its events must meet before anything else is done with it."""
    given = query.query.input
    inputs: tuple[ast.SingleInput, ...] = (given,) if isinstance(given, ast.SingleInput) else ()
    if isinstance(given, ast.JoinInput):
        inputs = given.left.input, given.right.input
    found: dict[str, tuple[ast.Expression, ...]] = {}
    for source, one in zip(query.scope.sources, inputs, strict=False):
        # Only up to the first stream function: what stands behind may look at what that appends
        first = takewhile(lambda handler: isinstance(handler, ast.Filter), one.before)
        conditions = tuple(handler.condition for handler in first if isinstance(handler, ast.Filter))
        # Both sides of a join read the stream: an event may meet the conditions of either
        found[source.stream_id] = () if source.stream_id in found else conditions
    return found


def _queries(checked: CheckedApp) -> list[CheckedQuery]:
    return [*checked.queries, *(query for partition in checked.partitions for query in partition.queries)]


def _fed(checked: CheckedApp, called: Sequence[Called]) -> set[str]:
    """Return the streams that others than typed queries write."""
    names = {name for one in called for name in one.names}
    return _written(checked, {query.target for query in _queries(checked) if query.name in names})


def _written(checked: CheckedApp, targets: set[str]) -> set[str]:
    """Return the streams that queries with these targets write, triggers, or failures."""
    fed = targets | _triggers(checked)
    return {stream for stream in checked.streams if stream in fed or stream.startswith("!")}


def _triggers(checked: CheckedApp) -> set[str]:
    """Return the streams that the clock writes to."""
    return {one.name for one in checked.app.definitions if isinstance(one, ast.TriggerDefinition)}


def _goes_down(checked: CheckedApp, shape: Shape) -> None:
    """Look that no event leads to another one of its stream, also where a query fails on it."""
    # `!S` gets the events of S that a query fails on, so S leads to it
    below: dict[str, set[str]] = {stream[1:]: {stream} for stream in checked.streams if stream.startswith("!")}
    if not below:
        return
    for query in _queries(checked):
        for source in query.scope.sources:
            below.setdefault(source.stream_id, set()).add(query.target)
    for stream in shape.schemas:
        reached, left = set[str](), [stream]
        while left:
            following = below.get(left.pop(), set()) - reached
            reached |= following
            left += following
        if stream in reached:
            raise NotTyped(f"the stream {stream}, which reads what it has written itself")
