"""Conditions over what a window holds: the expressions of the windows ``expression`` and ``expressionBatch``.

A text such as ``last.v - first.v < 10 and count() <= 20``: a bare name, or one of the stream, is the event that enters
or leaves, ``first`` and ``last`` are the ends of what is held, and aggregators run over it. ``eventTimestamp(first)``
gives a timestamp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeAlias

from spdist.errors import SiddhiAppError, SiddhiTypeError
from spdist.functions.forms import Code
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import AttributeSource, Scope
from spdist.language.parsing.parser import parse_expression
from spdist.language.types import Schema, Type
from spdist.operators.base import Row, VirtualClock
from spdist.operators.expressions.codegen import Bindings, Frame, build, indent
from spdist.operators.expressions.expression import ExpressionWriter, Reader
from spdist.operators.selection.aggregates import AggregateWriter, Slots

__all__ = ["WindowCondition", "compile_condition", "parsed_condition"]

#: Whether the condition holds: kind, timestamp and row of the event that enters or leaves, then timestamp and row of
#: the first and of the last event.
Holds: TypeAlias = Callable[[int, int, Row, int, Row, int, Row], bool]

_PARAMETERS = "ts, row, first_ts, first_row, last_ts, last_row"
_ROWS = ("row", "first_row", "last_row")
#: What conditions call the ends of what is held.
_ENDS = ("first", "last")
_TIMESTAMPS = ("ts", "first_ts", "last_ts")
#: What ``eventTimestamp(first)`` is rewritten to: an attribute behind those of the event, which no text can name.
_TIMESTAMP = "timestamp of"


class _WindowReader:
    """Reads the attributes of the event and of the ends of what is held."""

    def __init__(self, scope: Scope, catalog: Catalog, frame: Frame) -> None:
        self.scope = scope
        self.catalog = catalog
        self.frame = frame

    def variable(self, variable: ast.Variable) -> Code:
        reference = self.scope.resolve(variable)
        source, attribute = reference.source, reference.attribute
        if variable.name == _TIMESTAMP:
            return Code(_TIMESTAMPS[source], Type.LONG, nullable=False, atom=True)
        name = self.frame.local(f"{_ROWS[source]}[{attribute}]", f"{_ROWS[source]}{attribute}")
        return Code(name, reference.type, atom=True)

    def bare(self, variable: ast.Variable) -> str:
        return self.variable(variable).text

    def everything(self) -> str:
        return "row"

    def missing(self, node: ast.IsNullEvent) -> str:
        # The ends are there whenever a condition is tested.
        return "False"

    def timestamp(self) -> str:
        return "ts"

    def event_time(self, node: ast.EventTime) -> str:
        # The ends, which have a time, are attributes.
        raise AssertionError(node.stream.id)

    def type_of(self, call: ast.FunctionCall) -> Type:
        return type_of(call, self.scope, self.catalog)


def _rewritten(node: Any) -> Any:
    """Return an expression with each ``eventTimestamp(first)`` or ``(last)`` as an attribute of that event."""
    if isinstance(node, tuple):
        return tuple(_rewritten(part) for part in node)
    if not is_dataclass(node) or isinstance(node, type) or not isinstance(node, ast.Expression):
        return node
    if isinstance(node, ast.FunctionCall) and node.id == "eventTimestamp" and len(node.args) == 1:
        event = node.args[0]
        if isinstance(event, ast.Variable) and event.stream is None and event.name in _ENDS:
            return ast.Variable(_TIMESTAMP, ast.StreamRef(event.name), span=node.span)
    return replace(node, **{f.name: _rewritten(getattr(node, f.name)) for f in fields(node) if f.name != "span"})


@dataclass(frozen=True, slots=True)
class WindowCondition:
    """A compiled condition.

    Parameters
    ----------
    fresh : Callable[[], list]
        Gives the state of the aggregators over nothing.
    make : Callable
        Makes the test from such a state, which it keeps, and the app's clock.
    """

    fresh: Callable[[], list[Any]]
    make: Callable[[list[Any], VirtualClock], Holds]


def parsed_condition(text: str, source: AttributeSource, catalog: Catalog) -> tuple[ast.Expression, Scope]:
    """Return a condition as an expression, and what its names mean; for the parameters see `compile_condition`.

    The sources are the event, then the first and the last one held, which have their timestamp behind the attributes.

    Raises
    ------
    SiddhiTypeError
        The text is no condition over these events.
    """
    timed = Schema.of([*source.schema, (_TIMESTAMP, Type.LONG)])
    ends = tuple(AttributeSource(name, source.stream_id, timed) for name in _ENDS)
    # All three sources have the same attributes: a bare name would be ambiguous if it could be any of them.
    scope = Scope((source, *ends), unqualified=(0,))
    try:
        expression: ast.Expression = _rewritten(parse_expression(text))
        if type_of(expression, scope, catalog) is not Type.BOOL:
            raise SiddhiTypeError("it does not give a bool")
    except SiddhiAppError as error:
        raise _no_condition(text, error) from error
    return expression, scope


def _no_condition(text: str, error: SiddhiAppError) -> SiddhiTypeError:
    hint = "for example 'count() <= 20 and last.at - first.at < 1000'"
    return SiddhiTypeError(f"'{text}' is no condition: {error.message}", hint=hint)


def compile_condition(title: str, text: str, source: AttributeSource, catalog: Catalog) -> WindowCondition:
    """Compile the text of a condition.

    Parameters
    ----------
    title : str
        What the code is, for tracebacks.
    text : str
        The condition, in SiddhiQL.
    source : AttributeSource
        The events that the window holds.
    catalog : Catalog
        Signatures.

    Raises
    ------
    SiddhiTypeError
        The text is no condition over these events.
    """
    expression, scope = parsed_condition(text, source, catalog)
    frame, bindings = Frame(), Bindings()
    # Totals must go down again: what leaves is taken off them.
    slots = Slots(bindings, leaving=True, state="g", everywhere="")

    def reader(of: Frame) -> Reader:
        return _WindowReader(scope, catalog, of)

    try:
        aggregates = AggregateWriter(slots, reader, frame, "kind", _PARAMETERS)
        test = ExpressionWriter(reader(frame), frame, bindings, aggregates).condition(expression)
    except SiddhiAppError as error:
        raise _no_condition(text, error) from error
    body = [*frame.assignments(), *aggregates.updates(), f"return {test}"]
    lines = [
        "def fresh():",
        f"    return [{', '.join(slots.initial)}]",
        "def make(g, clock):",
        *indent(slots.functions),
        f"    def holds(kind, {_PARAMETERS}):",
        *indent(body, 2),
        "    return holds",
    ]
    made = build(f"{title} expression", lines, bindings.names)
    return WindowCondition(made["fresh"], made["make"])
