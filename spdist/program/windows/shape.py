"""Which window of a query has a typed form: what its text says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from spdist.errors import SiddhiAppError, Span
from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.checked import CheckedQuery
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import Scope
from spdist.language.types import Schema, Type
from spdist.operators.windows.condition import parsed_condition
from spdist.program.expressions import NotTyped
from spdist.program.windows.kinds import (
    JOINED,
    NONE,
    Batched,
    Cron,
    Frequent,
    Kept,
    Sessions,
    Sliding,
    Unique,
    WindowBound,
)

__all__ = [
    "events_of",
    "filters_of",
    "is_listed",
    "is_queue",
    "shows_snapshots",
    "window_of",
]

_WHOLE = (Type.INT, Type.LONG)
_REALS = (Type.FLOAT, Type.DOUBLE)


def events_of(checked: CheckedQuery) -> str:
    """Return which results a query puts out that events can leave: a snapshot needs all, where nothing is said."""
    return checked.query.output.events or ("all" if shows_snapshots(checked) else "current")


def is_listed(window: Kept | None) -> bool:
    """Tell whether what a window holds, or has released last, is a list in the order of the operators."""
    return window is None or not (window.unique or isinstance(window, Sessions | Cron))


def is_queue(window: Kept | None) -> bool:
    """Tell whether events leave the list of a window in the order in which they came."""
    slides = window if isinstance(window, Sliding) else Sliding()
    return is_listed(window) and not (slides.orders or slides.delays or slides.gathers)


def shows_snapshots(checked: CheckedQuery) -> bool:
    """Tell whether a rate limit shows the results that stand, over and over."""
    rate = checked.query.rate
    return rate is not None and rate.kind == "snapshot"


def filters_of(handlers: Sequence[ast.Node], span: Span | None) -> tuple[ast.Expression, ...]:
    """Return the conditions that stand in front of a window; raises NotTyped where something else does."""
    filters = tuple(one.condition for one in handlers if isinstance(one, ast.Filter))
    if len(filters) < len(handlers):
        raise NotTyped("a stream function", span)
    return filters


def window_of(
    given: ast.SingleInput, schema: Schema, scope: Scope, selected: Sequence[ast.Variable] | None = None
) -> Kept | None:
    """Return the window of a query over a stream with these attributes, None without; raises NotTyped.

    `selected` are the attributes that the query selects as they are, where those are not all.
    """
    window = given.window
    if window is None:
        return None
    if window.namespace == "unique":
        return _unique(window, schema, scope)
    if window.id == "sort":
        return _sorted(window, schema)
    if window.id == "session":
        return _sessions(window, schema)
    if window.id == "cron" and isinstance(window.args[0], ast.Literal):
        return Cron(expression=str(window.args[0].value))
    if window.id in ("frequent", "lossyFrequent"):
        return _frequent(window, schema, scope, selected)
    if window.id in ("expression", "expressionBatch"):
        return Sliding(bound=_bound(window, scope))
    constants = tuple(map(_constant, window.args))
    time = schema.index(window.args[0].name) if window.args and isinstance(window.args[0], ast.Variable) else None
    found: Kept | None = None
    match window.id, constants:
        case "length", (int(length),):
            found = Sliding(length=_size(length), resets=length < 1)
        case "time", (int(span),) if span > 0:
            found = Sliding(span=span)
        case "timeLength", (int(span), int(length)) if span > 0:
            found = Sliding(length=_size(length), span=span)
        case "batch", () | (0,):
            found = Batched(passes=True, chunked=True)
        case "batch", (int(length),) if length > 0:
            found = Batched(length=length, passes=True, chunked=True)
        case "externalTime", (None, int(span)) if span > 0:
            found = Sliding(span=span, time=time)
        case "externalTimeBatch", (None, int(span), *_):
            found = _external(Batched(span=span, time=time), window.args[2:], schema)
        case "delay", (int(span),) if span > 0:
            found = Sliding(span=span, delays=True)
        case "lengthBatch", (int(length), *passes) if passes in ([], [False]) or (length >= 0 and passes == [True]):
            found = Batched(length=max(length, NONE), passes=length > 0 and passes == [True])
        case "timeBatch", (int(span), *options) if span > 0 and None not in options:
            starts = [one for one in options if isinstance(one, int) and not isinstance(one, bool)]
            found = Batched(span=span, start=starts[0] if starts else None, passes=options[-1:] == [True])
    if found is None:
        raise NotTyped(f"the window {window.id}", window.span)
    return found


def _unique(window: ast.FunctionCall, schema: Schema, scope: Scope) -> Kept:
    """Return a window with one event of each key."""
    key, *more = window.args
    constants = tuple(map(_constant, more))
    time = schema.index(more[0].name) if more and isinstance(more[0], ast.Variable) else None
    found: Kept | None = None
    match window.name, constants:
        case "ever" | "first", _:
            found = Sliding()
        case "length", (int(length),):
            found = Sliding(length=_size(length))
        case "time", (int(span),) if span > 0:
            found = Sliding(span=span)
        case "lengthBatch" | "firstLengthBatch", (int(length),) if length > 0:
            found = Batched(length=length)
        case "timeBatch" | "firstTimeBatch", (int(span), *start) if span > 0 and start != [None]:
            found = Batched(span=span, start=_start(start))
        case "timeLengthBatch", (int(span), *start, int(length)) if span > 0 and length > 0 and start != [None]:
            found = Batched(length=length, span=span, start=_start(start))
        case "externalTimeBatch", (None, int(span), *start) if span > 0 and start != [None] and len(start) < 2:
            found = Batched(span=span, start=_start(start), time=time)
    if found is None:
        raise NotTyped(f"the window {window.id}", window.span)
    first = window.name.startswith("first")
    as_text = first or not isinstance(found, Batched) or time is not None
    several = isinstance(found, Sliding) and not (found.length or found.span) and bool(more)
    # A real is looked for in a table by its text.
    real = first and isinstance(found, Batched) and type_of(key, scope, catalog(False)) in _REALS
    own = _keyed(window.args if several else (key,), window, schema, scope, joined=several or real)
    return replace(found, unique=replace(own, first=first, as_text=as_text))


def _keyed(
    keys: Sequence[ast.Expression], window: ast.FunctionCall, schema: Schema, scope: Scope, joined: bool
) -> Unique:
    """Return what makes events the only ones; where keys are `joined`, one text is made of them."""
    key = ast.FunctionCall(JOINED, tuple(keys), span=window.span) if joined else keys[0]
    type = Type.STRING if joined else type_of(key, scope, catalog(False))
    named = {node.name for node in key.walk() if isinstance(node, ast.Variable)}
    places = tuple(sorted(place for name in named if (place := schema.index(name)) is not None))
    return Unique(key, type, places)


def _frequent(
    window: ast.FunctionCall, schema: Schema, scope: Scope, selected: Sequence[ast.Variable] | None
) -> Frequent:
    """Return a window ``frequent`` or ``lossyFrequent``; for `selected` see `window_of`."""
    constants = [one.value for one in window.args if isinstance(one, ast.Literal)]
    given = [one for one in window.args if isinstance(one, ast.Variable)]
    keys = given or (list(map(ast.Variable, schema.names)) if selected is None else selected)
    types = {type_of(one, scope, catalog(False)) for one in keys}
    if not keys or Type.OBJECT in types:
        raise NotTyped(f"the window {window.id} of what is no text", window.span)
    unique = _keyed(keys, window, schema, scope, joined=len(keys) > 1 or bool(types.intersection(_REALS)))
    if window.id == "frequent":
        return Frequent(length=int(str(constants[0])), unique=unique)
    support, error = (float(str(one)) for one in constants)
    return Frequent(counts=True, share=support - error, width=ceil(1 / error) if error else 0, unique=unique)


def _external(window: Batched, given: Sequence[ast.Expression], schema: Schema) -> Batched | None:
    """Return a window ``externalTimeBatch`` with what is said of its start, timeout and times; None: not typed."""
    start, timeout, replaces = (*map(_constant, given), None, None, None)[:3]
    started = schema.index(given[0].name) if given and isinstance(given[0], ast.Variable) else None
    if given and start is None and started is None:
        return None
    return replace(
        window,
        start=start if isinstance(start, int) else None,
        started=started,
        timeout=max(timeout, 0) if isinstance(timeout, int) else 0,
        replaces=replaces is True,
    )


def _size(length: int) -> int:
    """Return how many events a window holds of which an app says how many."""
    return length if length > 0 else NONE


def _start(given: list[object]) -> int | None:
    """Return from when periods are counted, ms; None where nothing is said of that."""
    return given[0] if given and isinstance(given[0], int) else None


def _sorted(window: ast.FunctionCall, schema: Schema) -> Sliding:
    """Return a window ``sort``."""
    length, *by = window.args
    orders: list[tuple[int, bool]] = []
    for one in by:
        if isinstance(one, ast.Variable):
            place = schema.index(one.name)
            assert place is not None
            if schema.types[place] is Type.OBJECT:
                raise NotTyped("an order of objects", window.span)
            orders.append((place, False))
        elif isinstance(one, ast.Literal):
            orders[-1] = orders[-1][0], str(one.value).lower() == "desc"
    size = _constant(length)
    assert isinstance(size, int)
    return Sliding(length=_size(size), orders=tuple(orders) if size > 0 else ())


def _sessions(window: ast.FunctionCall, schema: Schema) -> Sessions:
    """Return a window ``session``."""
    gap, *more = window.args
    span = _constant(gap)
    if not isinstance(span, int) or span < 1 or (more[1:] and _constant(more[1]) != 0):
        raise NotTyped("the window session with a latency", window.span)
    return Sessions(span=span, key=schema.index(more[0].name) if more and isinstance(more[0], ast.Variable) else None)


def _bound(window: ast.FunctionCall, scope: Scope) -> WindowBound:
    """Return the condition of a window ``expression`` or ``expressionBatch``."""
    text, *options = window.args
    if not isinstance(text, ast.Literal):
        raise NotTyped(f"the window {window.id} by a text that events bring", window.span)
    try:
        condition, own = parsed_condition(str(text.value), scope.sources[0], catalog(False))
    except SiddhiAppError:  # it calls a function that the app defines
        raise NotTyped(f"the window {window.id} by what is no condition here", window.span) from None
    return WindowBound(
        str(text.value),
        condition,
        own,
        window.span,
        gathers=window.id == "expressionBatch",
        includes=options[0] if options else None,
        passes=len(options) > 1 and _constant(options[1]) is True,
    )


def _constant(value: ast.Expression) -> object:
    """Return the value of a literal that an argument of a window is; None where it is something else."""
    if isinstance(value, ast.TimeLiteral):
        return value.milliseconds
    return value.value if isinstance(value, ast.Literal) and value.type in (*_WHOLE, Type.BOOL) else None
