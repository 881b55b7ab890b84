"""The static types of expressions.

Rules: arithmetic is done in the widest type of its operands (double > float > long > int), and one of them must be a
number; ``==`` and ``!=`` compare numbers with numbers, strings with strings and bools with bools; ``<`` and its kin
compare numbers only; conditions are bools; objects are never compared.

Source: io.siddhi.core.util.parser.ExpressionParser, verified on the engine.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from spdist.errors import (
    AppValidationError,
    DuplicateDefinitionError,
    SiddhiAppError,
    SiddhiTypeError,
    Span,
    UndefinedNameError,
)
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.scope import Scope, undefined
from spdist.language.checking.unknown import unknown_extension
from spdist.language.format_expressions import format_expression
from spdist.language.types import Type

__all__ = [
    "MOST_ERRORS",
    "find_errors",
    "is_aggregator",
    "located",
    "resolve_call",
    "type_of",
    "uses_aggregator",
    "written_out",
]

#: After so many errors checking ends: nobody reads more, and each costs a search for similar names.
MOST_ERRORS = 100
#: Characters of an expression that a hint repeats.
_SHORT = 40
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_ARITHMETIC = ("+", "-", "*", "/", "%")
_WIDEST_FIRST = (Type.DOUBLE, Type.FLOAT, Type.LONG, Type.INT)


def type_of(expression: ast.Expression, scope: Scope, catalog: Catalog) -> Type:
    """Return the type of `expression`.

    Parameters
    ----------
    expression : Expression
        What is typed.
    scope : Scope
        What its names mean.
    catalog : Catalog
        The signatures of functions and aggregators.

    Raises
    ------
    SiddhiTypeError, UndefinedNameError
        The first thing that is wrong, with its span.
    """
    kind, errors = find_errors(expression, scope, catalog)
    if errors or kind is None:
        raise errors[0]
    return kind


def find_errors(
    expression: ast.Expression, scope: Scope, catalog: Catalog
) -> tuple[Type | None, Sequence[SiddhiAppError]]:
    """Return the type of `expression`, or None and everything that is wrong in it; see `type_of`."""
    typing = _Typing(scope, catalog)
    kind = typing.type(expression)
    return (None if typing.errors else kind), typing.errors


def is_aggregator(call: ast.FunctionCall, catalog: Catalog) -> bool:
    """Tell whether `call` is an aggregator; a function of the same name takes precedence."""
    return call.id in catalog.aggregators and call.id not in catalog.functions


def uses_aggregator(node: ast.Node, catalog: Catalog) -> bool:
    """Tell whether there is an aggregator in `node`."""
    return any(isinstance(part, ast.FunctionCall) and is_aggregator(part, catalog) for part in node.walk())


def resolve_call(
    call: ast.FunctionCall, scope: Scope, catalog: Catalog
) -> tuple[tuple[Type, ...] | None, tuple[ast.Expression, ...], Sequence[SiddhiAppError]]:
    """Return the types and expressions of a call's arguments (types None where one is wrong), and what is wrong.

    ``f(*)`` stands for all attributes of the scope.
    """
    typing = _Typing(scope, catalog)
    types, expressions = typing.arguments(call)
    return types, expressions, typing.errors


def written_out(call: ast.FunctionCall, scope: Scope) -> ast.FunctionCall:
    """Return `call` with the names of all attributes that are read in place of ``*``."""
    if not call.star:
        return call
    names = tuple(ast.Variable(scope.name_of(reference), span=call.span) for reference in scope.star())
    return dataclasses.replace(call, args=names, star=False)


class _Typing:
    """One walk over an expression that goes on after errors; a None type means that an error was found below."""

    def __init__(self, scope: Scope, catalog: Catalog) -> None:
        self._scope = scope
        self._catalog = catalog
        self.errors: list[SiddhiAppError] = []

    def type(self, expression: ast.Expression) -> Type | None:
        if len(self.errors) >= MOST_ERRORS:
            return None
        match expression:
            case ast.Literal():
                return expression.type
            case ast.TimeLiteral():
                return Type.LONG
            case ast.Variable():
                return self._variable(expression)
            case ast.FunctionCall():
                return self._call(expression)
            case ast.Binary():
                return self._binary(expression)
            case ast.Not():
                return self._condition(expression.operand, "not")
            case ast.IsNull():
                # Anything may be null: only what is wrong within it matters
                self.type(expression.operand)
                return Type.BOOL
            case ast.IsNullEvent():
                return self._event(expression)
            case ast.EventTime():
                return self._event_time(expression)
            case ast.In():
                return self._in(expression)
        raise AssertionError(f"no rule for {type(expression).__name__}")

    def arguments(self, call: ast.FunctionCall) -> tuple[tuple[Type, ...] | None, tuple[ast.Expression, ...]]:
        arguments = written_out(call, self._scope).args
        if call.star and len(set(arguments)) < len(arguments):
            message = f"'{call.id}(*)' stands for attributes of equal names"
            self.errors.append(DuplicateDefinitionError(message, span=call.span, hint="Write its arguments out."))
            return None, arguments
        types = [self.type(argument) for argument in arguments]
        known = tuple(kind for kind in types if kind is not None)
        return (known if len(known) == len(types) else None), arguments

    def _variable(self, variable: ast.Variable) -> Type | None:
        try:
            return self._scope.resolve(variable).type
        except SiddhiAppError as error:
            self.errors.append(error)
            return None

    def _event(self, node: ast.IsNullEvent) -> Type:
        try:
            self._scope.find(node.stream)
        except SiddhiAppError as error:
            self.errors.append(error)
        return Type.BOOL

    def _event_time(self, node: ast.EventTime) -> Type:
        if len(self._scope.sources) == 1 and self._scope.sources[0].kind in ("stream", "window"):
            hint = "Over one stream the time of the event is eventTimestamp()."
            message = f"There is no attribute '{node.stream.id}'"
            self.errors.append(UndefinedNameError(message, span=node.stream.span, hint=hint))
            return Type.LONG
        try:
            position = self._scope.find(node.stream)
        except SiddhiAppError as error:
            self.errors.append(error)
            return Type.LONG
        if self._scope.sources[position].kind == "table":
            hint = "Keep it in an attribute: select eventTimestamp() as at, and others, where rows are inserted."
            message = f"Rows of '{node.stream.id}' have no time"
            self.errors.append(SiddhiTypeError(message, span=node.stream.span, hint=hint))
        return Type.LONG

    def _call(self, call: ast.FunctionCall) -> Type | None:
        types, expressions = self.arguments(call)
        resolver = self._catalog.functions.get(call.id) or self._catalog.aggregators.get(call.id)
        if resolver is None:
            self.errors.append(unknown_extension("function or aggregator", call.id, call.span, self._catalog))
            return None
        if types is None:
            return None
        try:
            return resolver(types, expressions)
        except SiddhiAppError as error:
            if call.star and call.id == "count":
                error.hint = "In SiddhiQL this is written count()."
            self.errors.append(located(error, call.span))
            return None

    def _binary(self, node: ast.Binary) -> Type | None:
        if node.op in ("and", "or"):
            for operand in (node.left, node.right):
                self._condition(operand, node.op)
            return Type.BOOL
        left, right = self.type(node.left), self.type(node.right)
        if node.op in _ARITHMETIC:
            return None if left is None or right is None else self._arithmetic(node, left, right)
        if left is not None and right is not None:
            self._comparison(node, left, right)
        return Type.BOOL

    def _arithmetic(self, node: ast.Binary, left: Type, right: Type) -> Type | None:
        # One number is enough: Siddhi compiles a + 'x' and fails for each event
        for kind in _WIDEST_FIRST:
            if kind in (left, right):
                return kind
        hint = "Join strings with str:concat(a, b)." if left is right is Type.STRING else None
        self._fail(f"'{node.op}' needs numbers, not {left} and {right}", node.span, hint)
        return None

    def _comparison(self, node: ast.Binary, left: Type, right: Type) -> None:
        if left.numeric and right.numeric:
            return
        if node.op in ("==", "!=") and left is right and left is not Type.OBJECT:
            return
        hint = None
        if Type.OBJECT in (left, right):
            hint = (
                "Name its type first: cast(value, 'type'); of a counted element say which event: e1[0].a or e1[last].a."
            )
        elif left is right:
            hint = f"A {left} can only be compared with == and !=."
        elif Type.STRING in (left, right) and (left.numeric or right.numeric):
            hint = _text_hint(node, left, right)
        elif Type.BOOL in (left, right):
            hint = "A bool is compared with true or false, without quotes."
        self._fail(f"'{node.op}' does not compare {left} with {right}", node.span, hint)

    def _condition(self, operand: ast.Expression, what: str) -> Type:
        kind = self.type(operand)
        if kind is not None and kind is not Type.BOOL:
            hint = f"Compare it with something, such as {_compared(operand, kind)}."
            self._fail(f"'{what}' needs a bool, this is {_article(kind)}", operand.span, hint)
        return Type.BOOL

    def _in(self, node: ast.In) -> Type:
        table = next((table for table in self._scope.tables if table.name == node.table), None)
        if table is None:
            names = [table.name for table in self._scope.tables]
            self.errors.append(undefined("table", node.table, _end_of(node.span, node.table), names))
            return Type.BOOL
        outside = self._scope
        # Within `in` the table may be named, but a bare name is still the event's
        self._scope = dataclasses.replace(outside.with_table(table), missing=AppValidationError.code)
        self._condition(node.operand, "in")
        self._scope = outside
        return Type.BOOL

    def _fail(self, message: str, span: Span | None, hint: str | None = None) -> None:
        self.errors.append(SiddhiTypeError(message, span=span, hint=hint))


def located(error: SiddhiAppError, span: Span | None) -> SiddhiAppError:
    """Give `error` a place where it has none: signatures do not know where they are used."""
    if error.span is None:
        error.span = span
    return error


def _text_hint(node: ast.Binary, left: Type, right: Type) -> str:
    """Say how a text and a number are compared: by writing the one that stands there as the other, else converted."""
    text, number, kind = (node.left, node.right, right) if left is Type.STRING else (node.right, node.left, left)
    converted = f"convert({_short(text)}, '{kind}')"
    if isinstance(text, ast.Literal):
        written = str(text.value).strip()
        if _NUMBER.fullmatch(written):
            return f"Write {written} without quotes."
        return f"A number is compared with a number; convert({_short(number)}, 'string') is its text."
    if isinstance(number, ast.Literal) and node.op in ("==", "!="):
        return f"Write '{number.value}' in quotes to compare texts, or {converted} to compare numbers."
    return f"Compare numbers: {converted}."


def _compared(operand: ast.Expression, kind: Type) -> str:
    other = "'text'" if kind is Type.STRING else "0"
    return f"{_short(operand)} {'==' if kind is Type.STRING else '!='} {other}"


def _short(expression: ast.Expression) -> str:
    """Return an expression as SiddhiQL where that is short."""
    try:
        text = format_expression(expression)
    except SiddhiAppError:  # SiddhiQL has no way to write it
        return "a"
    return text if len(text) <= _SHORT else "a"


def _end_of(span: Span | None, name: str) -> Span | None:
    """Return the place of `name`, which `span` ends with."""
    if span is None or span.end_column <= len(name):
        return span
    start, column = span.end - len(name), span.end_column - len(name)
    return Span(span.end_line, column, span.end_line, span.end_column, start, span.end)


def _article(kind: Type) -> str:
    return f"an {kind}" if kind.value[0] in "aeiou" else f"a {kind}"
