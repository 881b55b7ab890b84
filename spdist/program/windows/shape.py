"""Which window of a query has a typed form: what its text says of it."""

from __future__ import annotations

from collections.abc import Sequence

from spdist.errors import Span
from spdist.language import ast
from spdist.language.checking.checked import CheckedQuery
from spdist.language.checking.scope import Scope
from spdist.language.types import Schema
from spdist.program.expressions import NotTyped
from spdist.program.registry import WINDOWS
from spdist.program.windows.kinds import Kept, WindowCall

__all__ = [
    "events_of",
    "filters_of",
    "is_queue",
    "shows_snapshots",
    "window_of",
]


def events_of(checked: CheckedQuery) -> str:
    """Return which results a query puts out that events can leave: a snapshot needs all, where nothing is said."""
    return checked.query.output.events or ("all" if shows_snapshots(checked) else "current")


def is_queue(window: Kept | None) -> bool:
    """Tell whether events leave the list of a window in the order in which they came."""
    return window is None or window.is_queue


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
    given: ast.SingleInput, schema: Schema, scope: Scope, selected: Sequence[int] | None = None
) -> Kept | None:
    """Return the window of a query over a stream with these attributes, None without; raises NotTyped.

    `selected` are the positions of the attributes that the query selects as they are; None: all, as no query selects.
    """
    window = given.window
    if window is None:
        return None
    described = WINDOWS.find(window.id)
    found = None if described is None else described.of(WindowCall(window, schema, scope, selected))
    if found is None:
        raise NotTyped(f"the window {window.id}", window.span)
    return found
