"""Objects that functions change in place: there the operators' order is kept by having operators run what uses objects.

A program computes functions in front of its loop, and what it puts out is written once the loop has ended: of an object
that stays as it is nobody can tell. Functions of lists and maps change what they are given; that nobody sees either
where a call in their own expression has made it.
"""

from __future__ import annotations

from spdist.extension import extensions_of
from spdist.language import ast
from spdist.language.checking.checked import CheckedApp, CheckedPartition, CheckedQuery
from spdist.language.types import Schema, Type
from spdist.operators.selection.selector import is_aggregator
from spdist.program.expressions import NotTyped
from spdist.program.functions.computed import CHANGING, MAKING
from spdist.program.stores import stores_named

__all__ = ["are_not_changed", "changed_streams"]

#: Stream functions over an object, whose path may append to it.
_BY_PATH = frozenset({"json:tokenize", "json:tokenizeAsObject"})


def are_not_changed(checked: CheckedApp, element: CheckedQuery | CheckedPartition) -> None:
    """Raise NotTyped where an element has objects, and the app may change some in place."""
    where = _with_objects(checked, element)
    by = "" if where is None else _changed_by(checked)
    if where is not None and by:
        raise NotTyped(f"objects, which {by} may change in place", where.span)


def changed_streams(checked: CheckedApp) -> frozenset[str]:
    """Return the streams with objects, where the app may change some in place."""
    having = frozenset(id for id, schema in checked.streams.items() if _objects(schema))
    return having if having and _changed_by(checked) else frozenset()


def _changed_by(checked: CheckedApp) -> str:
    """Return what may change an object that others have; nothing where nothing does."""
    calls = (one for one in checked.app.walk() if isinstance(one, ast.FunctionCall) and _changes(one))
    return next((f"{one.id}()" for one in calls), "a script" if checked.scripts else "")


def _changes(call: ast.FunctionCall) -> bool:
    if any(one.kind == "aggregator" for one in extensions_of((call.id,))):
        return True  # what a user's gives may be its state
    if call.id in _BY_PATH:
        # Only a constant path can be seen not to append
        path = call.args[1] if len(call.args) > 1 else None
        return not (isinstance(path, ast.Literal) and "append" not in str(path.value))
    return call.id in CHANGING and not _is_new(call.args[0])


def _is_new(value: ast.Expression) -> bool:
    """Tell whether a value is an object that a call in it has made."""
    if not isinstance(value, ast.FunctionCall):
        return False
    made = value.id in MAKING or is_aggregator(value)
    return made or (value.id in CHANGING and _is_new(value.args[0]))


def _with_objects(checked: CheckedApp, element: CheckedQuery | CheckedPartition) -> ast.Node | None:
    """Return the query of an element, or the first one of a partition, that names or gives objects, or keeps them."""
    stores = {**checked.tables, **checked.windows}
    for query in element.queries if isinstance(element, CheckedPartition) else (element,):
        sources = (*query.scope.sources, *query.scope.tables)
        named = {name for source in sources for name in _objects(source.schema)}
        reads = any(isinstance(node, ast.Variable) and node.name in named for node in query.query.walk())
        kept = any(_objects(stores[id]) for id in stores_named((query,), set(stores)))
        if reads or kept or Type.OBJECT in query.output.types:
            return query.query
    return None


def _objects(schema: Schema) -> list[str]:
    """Return the attributes that are objects."""
    return [name for name, type in schema if type is Type.OBJECT]
