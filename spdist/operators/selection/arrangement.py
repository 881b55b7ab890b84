"""``order by``, ``limit`` and ``offset``: which of a chunk's results are put out, and in what order.

Source: io.siddhi.core.query.selector.QuerySelector, described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spdist.java.order import PlaceOfObject, place_of_real, place_of_text
from spdist.language import ast
from spdist.language.checking.scope import Reference, Scope
from spdist.language.types import Type
from spdist.operators.base import CURRENT, RESET, Event

__all__ = ["arrangement", "constant", "swallows_one"]

Arrange = Callable[[list[Event]], list[Event]]
#: A position in a row, what gives the place of a value there, and whether the last one comes first.
Key = tuple[int, Callable[[Any], Any], bool]


def arrangement(clause: ast.Selection, scope: Scope, snapshot: bool, resets: bool = False) -> Arrange | None:
    """Return what arranges the results of a chunk; None where they stay as they are.

    Parameters
    ----------
    clause : ast.Selection
        What the text says.
    scope : Scope
        See `spdist.language.checking.scope.Scope.results`.
    snapshot : bool
        Whether the results are those of all groups at a moment.
    resets : bool
        Whether the RESETs between results are put out, too.
    """
    limit, offset = constant(clause.limit), constant(clause.offset)
    if snapshot:
        # Siddhi arranges what is left over of the chunk, and only limits the results.
        return None if limit is None else lambda events: events[:limit]
    if not clause.order_by and limit is None and not offset:
        return None
    added = unselected(clause, scope)
    width = len(scope.sources[scope.output or 0].schema)
    references = [(scope.resolve(by.variable), by.descending) for by in clause.order_by]
    order = [(_position(one, scope, added, width), _place_of(one.type), last) for one, last in references]

    def arranged(events: list[Event]) -> list[Event]:
        if order:
            events = _ordered(events, order)
            events = events if resets else [event for event in events if event[0] != RESET]
        if added:
            events = [(event[0], event[1], event[2][:width], *event[3:]) for event in events]
        if offset:
            events = _behind(events, offset)
        return events if limit is None else _limited(events, limit)

    return arranged


def unselected(clause: ast.Selection, scope: Scope) -> list[Reference]:
    """Return what a clause orders by and does not put out: `arrangement` expects their values behind a row's own."""
    found = (scope.resolve(by.variable) for by in clause.order_by)
    return list(dict.fromkeys(reference for reference in found if not scope.is_output(reference)))


def _position(reference: Reference, scope: Scope, added: Sequence[Reference], width: int) -> int:
    return reference.attribute if scope.is_output(reference) else width + added.index(reference)


def constant(expression: ast.Expression | None) -> int | None:
    """Return the number that ``limit`` or ``offset`` says; None where there is none."""
    return int(expression.value) if isinstance(expression, ast.Literal) else None


def swallows_one(clause: ast.Selection, snapshot: bool) -> bool:
    """Tell whether ``limit 0`` or an ``offset`` swallows a single result; see `arrangement`."""
    offset = 0 if snapshot else constant(clause.offset) or 0
    return constant(clause.limit) == 0 or offset > 0


def _ordered(events: list[Event], order: Sequence[Key]) -> list[Event]:
    """Sort stably, nulls last either way; events of different kinds that alternate are sorted only among themselves."""
    runs: list[list[Event]] = []
    for event in events:
        if runs and runs[-1][0][0] == event[0]:
            runs[-1].append(event)
        else:
            runs.append([event])
    for run in runs:
        # Stable sorts from the last key to the first give the order of all.
        for position, place_of, descending in reversed(order) if run[0][0] != RESET else ():
            run.sort(key=_sort_key(position, place_of, descending), reverse=descending)
    return [event for run in runs for event in run]


def _place_of(type: Type) -> Callable[[Any], Any]:
    if type is Type.STRING:
        return place_of_text
    if type is Type.OBJECT:
        return PlaceOfObject
    return place_of_real if type in (Type.FLOAT, Type.DOUBLE) else lambda value: value


def _sort_key(position: int, place_of: Callable[[Any], Any], descending: bool) -> Callable[[Event], tuple[Any, ...]]:
    def key(event: Event) -> tuple[Any, ...]:
        value = event[2][position]
        # The first part puts null last also where the sort is reversed.
        return (not descending,) if value is None else (descending, place_of(value))

    return key


def _behind(events: list[Event], offset: int) -> list[Event]:
    """Leave the first `offset` events out; a RESET is none of them."""
    kept: list[Event] = []
    skipped = 0
    for event in events:
        if event[0] == RESET or skipped == offset:
            kept.append(event)
        else:
            skipped += 1
    return kept


def _limited(events: list[Event], limit: int) -> list[Event]:
    """Keep the first `limit` events; as in Siddhi expired ones count but are never cut."""
    kept: list[Event] = []
    counted = 0
    for event in events:
        if event[0] != CURRENT or counted < limit:
            kept.append(event)
            counted += event[0] != RESET
    return kept
