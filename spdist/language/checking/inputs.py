"""What stands behind ``from``: which streams are read, what their handlers add, and what may be named afterwards."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal

from spdist.errors import AppValidationError, ErrorKind, SiddhiAppError, SiddhiSyntaxError, SiddhiTypeError
from spdist.language import ast
from spdist.language.checking.expressions import located, resolve_call
from spdist.language.checking.names import Names
from spdist.language.checking.ranges import check_range
from spdist.language.checking.scope import AttributeSource, Scope, pattern_elements
from spdist.language.checking.unknown import unknown_extension
from spdist.language.types import Schema

__all__ = ["check_filters", "check_window", "input_scope"]


def input_scope(names: Names, query_input: ast.Input) -> Scope | None:
    """Return what the rest of a query may name, None where that is not known; reports what is wrong in its input."""
    match query_input:
        case ast.SingleInput():
            source = _stream(names, query_input, what="read by a query")
            return None if source is None else Scope((source,), tables=names.all_tables())
        case ast.JoinInput():
            return _join(names, query_input)
        case ast.PatternInput():
            return _pattern(names, query_input)
        case ast.AnonymousInput():
            hint = "Let the inner query insert into a stream, and read that."
            names.refuse(
                SiddhiAppError,
                "A query inside 'from (…)' is not run",
                query_input.span,
                hint,
                code=ErrorKind.UNSUPPORTED,
            )
            return None


# --- one stream ------------------------------------------------------------------------------------------------------


def _stream(names: Names, single: ast.SingleInput, *, what: str) -> AttributeSource | None:
    """Return a stream or named window with its handlers applied; None where it is not known or is neither."""
    source = _lookup(names, single.stream)
    if source is None:
        return None
    if source.kind == "table":
        hint = "A query reads it with a join: from Stream join Table on …"
        names.refuse(SiddhiTypeError, f"'{source.name}' is no stream and cannot be {what}", single.stream.span, hint)
        return None
    return _handled(names, single, source)


def _lookup(
    names: Names,
    stream: ast.StreamRef,
    alias: str | None = None,
    unknown: ErrorKind | None = None,
) -> AttributeSource | None:
    schema = names.require(stream, unknown)
    if schema is None:
        return None
    kind: Literal["stream", "table", "window"] = "stream"
    if stream.id in names.windows:
        kind = "window"
    elif stream.id in names.tables or stream.id in names.aggregations:
        kind = "table"
    return AttributeSource(alias or stream.id, stream.id, schema, kind)


def _handled(names: Names, single: ast.SingleInput, source: AttributeSource) -> AttributeSource | None:
    before = check_filters(names, single.before, source)
    if before is None:
        return None
    source = before
    if single.window is not None:
        if source.kind == "window":
            hint = "A named window has its window in its definition."
            names.refuse(SiddhiTypeError, f"'{source.name}' takes no window", single.window.span, hint)
        else:
            check_window(names, single.window, Scope((source,), tables=names.all_tables()))
    return check_filters(names, single.after, source)


def check_filters(
    names: Names,
    handlers: Sequence[ast.Handler],
    source: AttributeSource,
    scope_of: Callable[[AttributeSource], Scope] | None = None,
) -> AttributeSource | None:
    """Check filters and stream functions in turn; returns the source with the attributes that functions append.

    Returns None where a stream function is not understood, or not run: it is not known then which attributes there are.

    Parameters
    ----------
    names : Names
        What is defined.
    handlers : sequence of Handler
        In the order of the text.
    source : AttributeSource
        What they read.
    scope_of : callable, optional
        What may be named besides the source, for elements of patterns, which have no stream functions.
    """
    for handler in handlers:
        scope = scope_of(source) if scope_of else Scope((source,), tables=names.all_tables())
        if isinstance(handler, ast.Filter):
            names.condition(handler.condition, scope, "A filter")
            names.no_aggregator(handler.condition, "filters")
        elif scope_of:
            hint = "Call it in a query of its own, and let the pattern read the stream that this inserts into."
            names.unsupported("Stream functions in patterns", handler.span, hint)
            return None
        else:
            appended = _appended(names, handler.call, scope, source)
            if appended is None:
                return None
            source = appended
    return source


def _appended(names: Names, call: ast.FunctionCall, scope: Scope, source: AttributeSource) -> AttributeSource | None:
    resolver = names.catalog.stream_functions.get(call.id)
    if resolver is None:
        names.report(unknown_extension("stream function", call.id, call.span, names.catalog))
        return None
    call = names.with_arguments(call, Scope((source,)))
    types, expressions, errors = resolve_call(call, scope, names.catalog)
    names.report(*errors)
    if types is None:
        return None
    try:
        appended = resolver(source.schema, types, expressions)
    except SiddhiAppError as error:
        names.report(located(error, call.span))
        return None
    taken = [name for name in appended.names if source.schema.index(name) is not None]
    if taken:
        message = f"'{source.name}' already has an attribute '{taken[0]}', which '{call.id}' would append"
        names.refuse(SiddhiTypeError, message, call.span)
        return None
    return dataclasses.replace(source, schema=Schema(source.schema.fields + appended.fields))


def check_window(names: Names, call: ast.FunctionCall, scope: Scope) -> None:
    """Check the name and the arguments of a window over the attributes of `scope`."""
    resolver = names.catalog.windows.get(call.id)
    call = names.with_arguments(call, scope)
    types, expressions, errors = resolve_call(call, scope, names.catalog)
    names.report(*errors)
    if resolver is None:
        names.report(unknown_extension("window", call.id, call.span, names.catalog))
    elif types is not None:
        try:
            resolver(types, expressions)
        except SiddhiAppError as error:
            names.report(located(error, call.span))


# --- joins -----------------------------------------------------------------------------------------------------------


def _join(names: Names, join: ast.JoinInput) -> Scope | None:
    sides = [_side(names, side) for side in (join.left, join.right)]
    known = [side for side in sides if side is not None]
    if len(known) < 2:
        return None
    if all(side.kind == "table" for side in known):
        hint = "At least one side must be a stream, a named window or a trigger."
        names.refuse(SiddhiTypeError, "Two tables never cause a join", join.span, hint)
    scope = Scope(tuple(known), tables=names.all_tables(), missing=AppValidationError.code)
    if join.on is not None:
        names.condition(join.on, _bound(names, join, scope), "'on'")
        names.no_aggregator(join.on, "join conditions")
    if any(source.stream_id in names.aggregations for source in known):
        check_range(names, join.within, join.per, scope, join.span)
    elif join.within or join.per is not None:
        message = "Neither side is an aggregation that is read by a range of time"
        place = (join.per or join.within[0]).span
        names.refuse(SiddhiTypeError, message, place, "Leave out 'within' and 'per'.")
    return scope


def _bound(names: Names, join: ast.JoinInput, scope: Scope) -> Scope:
    """Return the scope of ``on``: where a table with a key or an index is looked into, bare names are the stream's.

    Siddhi binds them when it looks for what the key answers, and to the id of the stream: not where that has an alias.
    Of other tables it says, as of streams, that such a name is ambiguous.
    """
    for own, position in ((join.left, 0), (join.right, 1)):
        source, other = scope.sources[position], scope.sources[1 - position]
        if other.stream_id in names.searchable and source.kind != "table" and own.alias is None and join.on is not None:
            names.bind(join.on, source, own.input.stream)
            return dataclasses.replace(scope, output=position)
    return scope


def _side(names: Names, side: ast.JoinSide) -> AttributeSource | None:
    source = _lookup(names, side.input.stream, unknown=ErrorKind.UNDEFINED_SIDE)
    if source is None:
        return None
    handled = _handled(names, side.input, source)
    return None if handled is None else dataclasses.replace(handled, name=side.alias or handled.name)


# --- patterns and sequences ------------------------------------------------------------------------------------------


def _pattern(names: Names, pattern: ast.PatternInput) -> Scope | None:
    elements = list(pattern_elements(pattern.element))
    _check_logic(names, pattern.element)
    _check_waits(names, pattern.element)
    found = [_element(names, element, counted) for element, counted in elements]
    sources = [source for source in found if source is not None]
    if len(sources) < len(elements):
        return None
    partners = _partners(pattern.element)
    every = Scope(tuple(sources), tables=names.all_tables()).by_name()
    for position, (element, _) in enumerate(elements):
        # As defaults: the function is called while the loop's own variables go on
        def scope_of(source: AttributeSource, position: int = position, element: ast.StateElement = element) -> Scope:
            around = (*sources[:position], source, *sources[position + 1 :])
            absent = isinstance(element, ast.AbsentState)
            return dataclasses.replace(every, sources=around).of_element(position, partners[position], absent)

        if check_filters(names, element.input.before, sources[position], scope_of) is None:
            return None
    # Siddhi sets up the right side of `and` and `or` before the left one; `select *` shows it.
    order = tuple(i if partner is None else partner for i, partner in enumerate(partners))
    return dataclasses.replace(every, sources=tuple(sources), star_order=order, missing=AppValidationError.code)


def _check_logic(names: Names, element: ast.StateElement) -> None:
    """Refuse an absence without a time where it would never be over: next to ``or``, and next to another absence."""
    for part in element.walk():
        if isinstance(part, ast.LogicalState):
            sides = (part.left, part.right)
            endless = [side for side in sides if isinstance(side, ast.AbsentState) and side.waiting is None]
            if endless and (part.op == "or" or all(isinstance(side, ast.AbsentState) for side in sides)):
                hint = "Write 'not … for' and a time."
                message = f"Without a time, 'not' stands beside 'and' and an event, not beside '{part.op}'"
                if part.op == "and":
                    message = "Without a time, 'not' stands beside an event, not beside another 'not'"
                names.refuse(SiddhiSyntaxError, message, endless[0].span, hint)


def _check_waits(names: Names, pattern: ast.StateElement) -> None:
    """Refuse absences that end without delay and begin anew: time would never go on."""
    first = next(iter(pattern_elements(pattern)))[0]
    hint = "The shortest absence is 'for 1 millisec'."
    for repeated in (part for part in pattern.walk() if isinstance(part, ast.EveryState)):
        parts = [element for element, _ in pattern_elements(repeated.element)]
        if all(_takes_no_time(part) for part in parts):
            names.refuse(SiddhiTypeError, "An absence of 0 ms that repeats itself never ends", parts[0].span, hint)
            return
    # By identity: equal elements may stand inside and outside of `every`
    inside = {id(part) for one in pattern.walk() if isinstance(one, ast.EveryState) for part in one.walk()}
    for pair in (part for part in pattern.walk() if isinstance(part, ast.LogicalState)):
        begins = pair.op == "and" and first in (pair.left, pair.right)
        for side in (pair.left, pair.right):
            if _takes_no_time(side) and (begins or id(pair) in inside):
                names.refuse(SiddhiTypeError, "An absence of 0 ms that is waited for again never ends", side.span, hint)


def _takes_no_time(element: ast.StateElement) -> bool:
    return isinstance(element, ast.AbsentState) and element.waiting is not None and element.waiting.milliseconds < 1


def _element(names: Names, element: ast.StreamState | ast.AbsentState, counted: bool) -> AttributeSource | None:
    alias = element.alias if isinstance(element, ast.StreamState) else None
    source = _lookup(names, element.input.stream, alias)
    if source is not None and source.kind == "table":
        names.refuse(SiddhiTypeError, f"'{source.stream_id}' is no stream, a pattern cannot wait for it", element.span)
        return None
    return None if source is None else dataclasses.replace(source, kind="state", multiple=counted)


def _partners(element: ast.StateElement) -> list[int | None]:
    """Return for every element of a pattern the position of the other side of its ``and`` or ``or``, if it has one."""
    match element:
        case ast.LogicalState():
            return [1, 0]
        case ast.EveryState():
            return _partners(element.element)
        case ast.ChainState():
            found: list[int | None] = []
            for part in element.elements:
                before = len(found)
                found += [None if partner is None else partner + before for partner in _partners(part)]
            return found
    return [None]
