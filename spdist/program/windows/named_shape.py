"""Which named windows of an app have a typed form: each is a query of its own, over what is inserted into it."""

from __future__ import annotations

from spdist.language import ast
from spdist.language.checking.checked import CheckedApp, CheckedQuery
from spdist.language.checking.expressions import written_out
from spdist.language.checking.scope import Scope, Source
from spdist.program.expressions import NotTyped
from spdist.program.read_shape import WINDOWS, LoopWindow
from spdist.program.search import search_of
from spdist.program.windows.shape import is_queue, window_of

__all__ = ["windows_of"]


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
    scope = Scope((Source(id, id, schema),))
    given = ast.SingleInput(ast.StreamRef(id), window=written_out(call, scope))
    window = window_of(given, schema, scope)
    assert window is not None
    events = definition.output or "all"
    query = ast.Query(given, ast.InsertInto(ast.StreamRef(f">{id}"), events))
    own = CheckedQuery(id, query, scope, schema, f">{id}")
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
