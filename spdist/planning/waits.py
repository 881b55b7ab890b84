"""What the queries of an app wait for: events that must not come for a time, and windows of time. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from spdist.language import ast
from spdist.language.checking.checked import CheckedApp, CheckedQuery
from spdist.language.checking.scope import pattern_elements
from spdist.language.format import format_node
from spdist.language.format_expressions import format_call
from spdist.planning.pictures.graph import QUERY

__all__ = ["Wait", "waits"]

#: Windows whose first argument says how long an event stays in them.
_BY_TIME = ("time", "timeBatch", "timeLength", "delay")


@dataclass(frozen=True, slots=True)
class Wait:
    """An absence that a query waits for, or a window of time that it looks back over.

    Parameters
    ----------
    query : str
        The query's name; of a defined window that of the window.
    kind : str
        ``absence`` or ``window``.
    text : str
        What it is, as written: ``Trend[avgDelay < 30.0]`` or ``time(10 min)``.
    length_ms : int, optional
        How long it lasts; None where an absence lasts until something else comes.
    to_the_end : bool
        Whether it is over at the very moment at which the query puts something out.
    """

    query: str
    kind: Literal["absence", "window"]
    text: str
    length_ms: int | None
    to_the_end: bool


def waits(checked: CheckedApp, among: Collection[str]) -> tuple[Wait, ...]:
    """Return the waits of some queries and defined windows, those of windows first, then in the order of the text.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    among : collection of str
        Nodes of its graph (`spdist.planning.pictures.graph.AppGraph.upstream`).
    """
    inside = [query for partition in checked.partitions for query in partition.queries]
    found = [
        wait
        for definition in checked.app.definitions
        if isinstance(definition, ast.WindowDefinition) and definition.name in among
        for wait in _of_window(definition.name, definition.window)
    ]
    return (
        *found,
        *(w for query in (*checked.queries, *inside) if f"{QUERY}{query.name}" in among for w in _of(query)),
    )


def _of(query: CheckedQuery) -> Iterator[Wait]:
    source = query.query.input
    if isinstance(source, ast.PatternInput):
        # An absence at the end makes the pattern put out when it is over; another one lies further back
        last = _last(source.element)
        for element, _ in pattern_elements(source.element):
            if isinstance(element, ast.AbsentState):
                length = None if element.waiting is None else element.waiting.milliseconds
                yield Wait(query.name, "absence", format_node(element.input), length, element is last)
        return
    for node in source.walk():
        if isinstance(node, ast.SingleInput):
            yield from _of_window(query.name, node.window)


def _of_window(owner: str, window: ast.FunctionCall | None) -> Iterator[Wait]:
    if window is None or window.id not in _BY_TIME or not window.args:
        return
    match window.args[0]:
        case ast.TimeLiteral() as length:
            yield Wait(owner, "window", format_call(window), length.milliseconds, True)
        case ast.Literal(value=int() as length):
            yield Wait(owner, "window", format_call(window), length, True)


def _last(element: ast.StateElement) -> ast.StateElement:
    match element:
        case ast.EveryState():
            return _last(element.element)
        case ast.ChainState():
            return _last(element.elements[-1])
    return element
