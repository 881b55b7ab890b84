"""Queries: what they select, and where it goes."""

from __future__ import annotations

import dataclasses

from spdist.errors import DuplicateDefinitionError, ErrorKind, SiddhiAppError, SiddhiTypeError
from spdist.language import ast
from spdist.language.checking.changes import check_change, refuse_schema
from spdist.language.checking.checked import CheckedQuery
from spdist.language.checking.inputs import input_scope
from spdist.language.checking.names import Names
from spdist.language.checking.scope import Scope
from spdist.language.types import Schema, Type

__all__ = ["check_items", "check_query"]


def check_query(names: Names, query: ast.Query, name: str, partition: int | None) -> CheckedQuery | None:
    """Check a query and make the stream it writes to known; returns None where its meaning is not known.

    Parameters
    ----------
    names : Names
        What is defined before it; takes the errors.
    query : Query
        The query.
    name : str
        Its name.
    partition : int, optional
        Position of the partition it stands in.
    """
    _check_rate(names, query)
    if isinstance(query.output, ast.Return) or query.output.target is None:
        hint = "Write 'insert into' and the name of a stream."
        names.refuse(
            SiddhiAppError, "'return' is not run in an app", query.output.span, hint, code=ErrorKind.UNSUPPORTED
        )
        return None
    target = _written(query.output.target)
    scope = input_scope(names, query.input)
    output = None if scope is None else _selection(names, query.select, scope, target.id)
    if scope is None or output is None:
        if names.schema(target) is None:
            # Those who read it would only repeat the error
            names.unknown.add(target.id)
        return None
    _check_output(names, query.output, target, output)
    return CheckedQuery(name, names.written_out(query), scope, output, target.id, partition)


def _check_rate(names: Names, query: ast.Query) -> None:
    rate = query.rate
    if rate is None:
        return
    if rate.events == 0 or (rate.time is not None and rate.time.milliseconds == 0):
        names.refuse(SiddhiTypeError, "An output rate of 0", rate.span, "The smallest rate is 'every 1 events'.")
    if rate.kind == "snapshot" and query.output.events in ("current", "expired"):
        message = f"A snapshot puts out all events, not only {query.output.events} ones"
        names.refuse(SiddhiTypeError, message, query.output.span, "Write 'insert into' or 'insert all events into'.")


# --- selection -------------------------------------------------------------------------------------------------------


def _selection(names: Names, select: ast.Selection, scope: Scope, target: str) -> Schema | None:
    """Return what a query puts out; None where that is not known."""
    for variable in select.group_by:
        names.type_of(variable, scope)
    for limit, word in ((select.limit, "limit"), (select.offset, "offset")):
        if isinstance(limit, ast.Literal) and isinstance(limit.value, int) and limit.value < 0:
            names.refuse(SiddhiTypeError, f"'{word}' cannot be negative", limit.span)
    output = check_items(names, select.items, scope) if select.items else _star(names, select, scope)
    if output is None:
        return None
    result = scope.results(target, output)
    if isinstance(select.having, ast.Variable) and names.type_of(select.having, result) is Type.BOOL:
        hint = f"Write {select.having.name} == true"
        names.refuse(SiddhiTypeError, "'having' takes a condition, not an attribute alone", select.having.span, hint)
    elif select.having is not None:
        names.condition(select.having, result, "'having'")
    for order in select.order_by:
        names.type_of(order.variable, result)
    return output


def check_items(names: Names, items: tuple[ast.SelectItem, ...], scope: Scope) -> Schema | None:
    """Return the attributes that the items of a ``select`` make; None where one has no type."""
    fields: list[tuple[str, Type]] = []
    seen: set[str] = set()
    complete = True
    for item in items:
        kind = names.type_of(item.expression, scope)
        if item.name in seen:
            hint = "Give one of them another name with 'as'."
            names.refuse(DuplicateDefinitionError, f"'{item.name}' is selected twice", item.span, hint)
        seen.add(item.name)
        if kind is None:
            complete = False
        else:
            fields.append((item.name, kind))
    return Schema(tuple(fields)) if complete else None


def _star(names: Names, select: ast.Selection, scope: Scope) -> Schema | None:
    fields = tuple((scope.name_of(reference), reference.type) for reference in scope.star())
    seen: set[str] = set()
    clashing = sorted({name for name, _ in fields if name in seen or seen.add(name)})  # type: ignore[func-returns-value]
    if clashing:
        shown = ", ".join(f"'{name}'" for name in clashing)
        hint = f"Select them by name: {scope.sources[0].name}.{clashing[0]} as …"
        names.refuse(DuplicateDefinitionError, f"'select *' has more than one {shown}", select.span, hint)
        return None
    return Schema(fields)


# --- output ----------------------------------------------------------------------------------------------------------


def _check_output(names: Names, output: ast.Output, target: ast.StreamRef, schema: Schema) -> None:
    match output:
        case ast.InsertInto():
            _insert(names, target, schema)
        case ast.Delete() | ast.Update():
            check_change(names, output, target, schema)


def _insert(names: Names, target: ast.StreamRef, schema: Schema) -> None:
    if target.id in names.aggregations:
        hint = "Insert into the stream that it reads."
        names.refuse(SiddhiTypeError, f"The aggregation '{target.id}' cannot be written to", target.span, hint)
        return
    known = names.schema(target)
    if known is None:
        # A stream whose first writer is wrong is not defined by the next one, which may differ
        if target.id not in names.unknown:
            names.streams_of(target)[target.id] = schema
    elif known != schema:
        refuse_schema(names, target, schema, known)


def _written(target: ast.StreamRef) -> ast.StreamRef:
    """Return what an output writes to: Siddhi takes ``insert into !S`` for ``insert into S``."""
    return dataclasses.replace(target, fault=False)
