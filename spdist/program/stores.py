"""What an app keeps rows in, as far as it has a typed form: tables and named windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spdist.language import ast
from spdist.language.checking.checked import CheckedAggregation, CheckedApp, CheckedPartition, CheckedQuery
from spdist.language.checking.expressions import written_out
from spdist.language.checking.scope import AttributeSource, Scope
from spdist.program.expressions import NotTyped
from spdist.program.read_shape import WINDOWS, LoopWindow
from spdist.program.search import search_of
from spdist.program.tables.shape import LoopTable, tables_of
from spdist.program.windows.shape import is_queue, window_of

__all__ = ["LoopStores", "stores_named", "stores_of"]

_Element = CheckedQuery | CheckedPartition | CheckedAggregation


@dataclass(frozen=True)
class LoopStores:
    """The tables and named windows of an app.

    Parameters
    ----------
    tables : mapping of str to LoopTable
        The tables that have a typed form.
    windows : mapping of str to LoopWindow
        The named windows that have one.
    why : mapping of str to str
        Why the others have none.
    """

    tables: Mapping[str, LoopTable]
    windows: Mapping[str, LoopWindow]
    why: Mapping[str, str]

    @property
    def typed(self) -> set[str]:
        """The names of those that have a typed form."""
        return {*self.tables, *self.windows}

    def without(self, why: Mapping[str, str]) -> LoopStores:
        """Return them with some that have no typed form for these reasons."""
        tables = {id: table for id, table in self.tables.items() if id not in why}
        windows = {id: window for id, window in self.windows.items() if id not in why}
        return LoopStores(tables, windows, {**why, **self.why})

    def windows_of(self, element: _Element) -> tuple[LoopWindow, ...]:
        """Return the windows with a typed form that an element names."""
        named = stores_named((element,), set(self.windows))
        return tuple(window for id, window in self.windows.items() if id in named)


def stores_of(checked: CheckedApp) -> LoopStores:
    """Return the tables and named windows of an app that its queries name."""
    named = stores_named(checked.elements, {*checked.tables, *checked.windows})
    tables, no_table = tables_of(checked, named)
    windows, no_window = windows_of(checked, named)
    return LoopStores(tables, windows, {**no_table, **no_window})


def stores_named(elements: Iterable[_Element], stores: set[str]) -> set[str]:
    """Return those of some tables and named windows that elements write, read, join or look into."""
    found: set[str] = set()
    for element in elements:
        queries = element.queries if isinstance(element, CheckedPartition) else (element,)
        found |= {source.stream_id for one in queries for source in one.scope.sources}
        found |= {one.target for one in queries if isinstance(one, CheckedQuery)}
        found |= {node.table for node in _text(element).walk() if isinstance(node, ast.In)}
    return found & stores


def _text(element: _Element) -> ast.Node:
    if isinstance(element, CheckedPartition):
        return element.partition
    return element.query if isinstance(element, CheckedQuery) else element.definition


# Which named windows of an app have a typed form: each is a query of its own, over what is inserted into it.


def windows_of(checked: CheckedApp, named: set[str]) -> tuple[dict[str, LoopWindow], dict[str, str]]:
    """Return those of some named windows that have a typed form, in the order of the app, and why others have none."""
    typed: dict[str, LoopWindow] = {}
    why: dict[str, str] = {}
    for position, definition in enumerate(checked.app.definitions):
        if isinstance(definition, ast.WindowDefinition) and definition.name in named:
            try:
                typed[definition.name] = _window(checked, definition, position)
            except NotTyped as found:
                why[definition.name] = f"the named window '{definition.name}': {found.reason}"
    return typed, why


def _window(checked: CheckedApp, definition: ast.WindowDefinition, position: int) -> LoopWindow:
    """Return a named window, given its place among the definitions; raises NotTyped."""
    id, schema, call = definition.name, checked.windows[definition.name], definition.window
    written = [query.output.types for query in _queries(checked) if query.target == id]
    if any(tuple(types) != tuple(schema.types) for types in written):
        raise NotTyped("what is inserted into it has other types")
    if not written or call is None:
        raise NotTyped("no query inserts into it")
    scope = Scope((AttributeSource(id, id, schema),))
    given = ast.SingleInput(ast.StreamRef(id), window=written_out(call, scope))
    window = window_of(given, schema, scope)
    assert window is not None
    events = definition.output or "all"
    query = ast.Query(given, ast.InsertInto(ast.StreamRef(f">{id}"), events))
    own = CheckedQuery(id, query, scope, schema, f">{id}")
    # Only where events leave in order are those of a key a queue, too
    index = next((found for found in _searched(checked, id) if found), ()) if is_queue(window) else ()
    joined = id in checked.joined
    return LoopWindow(position - WINDOWS, own, id, schema, (), window, events, index=index, joined=joined)


def _queries(checked: CheckedApp) -> list[CheckedQuery]:
    return [*checked.queries, *(query for partition in checked.partitions for query in partition.queries)]


def _searched(checked: CheckedApp, id: str) -> list[tuple[int, ...]]:
    """Return by which attributes joins look into a named window."""
    joins = [(query, query.query.input) for query in _queries(checked)]
    return [
        search_of(given.on, query.scope, position).index
        for query, given in joins
        if isinstance(given, ast.JoinInput)
        for position, source in enumerate(query.scope.sources)
        if source.stream_id == id
    ]
