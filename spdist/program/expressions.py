"""Expressions as typed statements: each value with the condition under which it is null.

Whole numbers and truth values are int64, as are texts and objects, by number; reals are float64; a null value is 0
behind its condition. The meanings are those of `spdist.operators.expressions.expression`, which writes the same for
Python's objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from spdist.errors import Span
from spdist.language import ast
from spdist.language.types import Type, promote
from spdist.mapping.columns import PYTHON

__all__ = ["FLAG", "NUMBER", "REAL", "WRITERS", "NotTyped", "TypedWriter", "Value"]
__all__ += ["dtype_of", "either", "is_typed", "zero_of"]

NUMBER, REAL, FLAG = "int64", "float64", "uint8"
_REALS = (Type.FLOAT, Type.DOUBLE)
_WHOLE = (Type.INT, Type.LONG)
#: What does to longs what an operator does.
_WRAPPING = {"+": "wrapping_add", "-": "wrapping_sub", "*": "wrapping_mul"}


class NotTyped(Exception):
    """An element of an app that has no typed form, and why.

    Parameters
    ----------
    reason : str
        What it is, for people.
    span : Span, optional
        Where it stands in the text.
    """

    def __init__(self, reason: str, span: Span | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span


@dataclass(frozen=True, slots=True)
class Value:
    """Source of a value.

    Parameters
    ----------
    text : str
        The value, to be read as often as wanted; defined also where it is null.
    null : str
        The condition under which it is null; empty where it never is.
    type : Type
        Its type.
    literal : int or float or bool or str, optional
        The value of a constant.
    fails : str
        The condition under which the event is lost with it; empty where it never is.
    """

    text: str
    null: str
    type: Type
    literal: object = None
    fails: str = ""


def is_typed(value: Any, type: Type) -> bool:
    """Tell whether a value, which is not null, is of a type, and an array has a place for it."""
    return type is Type.OBJECT or (value.__class__ is PYTHON[type] and _fits(value, type))


def _fits(value: Any, type: Type) -> bool:
    if type is Type.STRING:
        # Half a character has no form in UTF-8, in which the loop has texts
        return value.isascii() or not any("\ud800" <= one <= "\udfff" for one in value)
    if type in (Type.INT, Type.LONG):
        bits = 31 if type is Type.INT else 63
        return bool(-(1 << bits) <= value < 1 << bits)
    return True


def dtype_of(type: Type) -> str:
    """Return the dtype of values of a type."""
    return REAL if type in _REALS else NUMBER


def zero_of(type: Type) -> str:
    """Return the value that stands where there is null."""
    return "0.0" if type in _REALS else "0"


def either(*conditions: str) -> str:
    """Return the condition under which one of several holds; empty ones never do."""
    return " or ".join(dict.fromkeys(one for one in conditions if one))


class TypedWriter:
    """Writes expressions as statements.

    Parameters
    ----------
    read : callable
        From a variable to its value.
    timestamp : str
        Source of the event's timestamp; the clock is ``now``.
    name : callable
        Returns a name that the text does not have yet.
    text_number : callable
        Returns the number of a text of the app.
    aggregate : callable, optional
        From a call to the value of the aggregator, None where the call is none.
    missing : callable, optional
        From ``e1 is null`` to source of whether it holds.
    text_function : callable, optional
        From a call of a function without a typed form to its value, None where it is no function of one text.
    """

    def __init__(
        self,
        read: Callable[[ast.Variable], Value],
        timestamp: str,
        name: Callable[[], str],
        text_number: Callable[[str], int],
        aggregate: Callable[[ast.FunctionCall], Value | None] = lambda call: None,
        missing: Callable[[ast.IsNullEvent], str] = lambda node: "False",
        text_function: Callable[[ast.FunctionCall], Value | None] = lambda call: None,
    ) -> None:
        self._read = read
        self.timestamp = timestamp
        self._name = name
        self._text_number = text_number
        self._aggregate = aggregate
        self.missing = missing
        self.text_function = text_function
        #: The statements so far.
        self.lines: list[str] = []
        #: From ``condition in table`` to its value; None: it has none here.
        self.contains: Callable[[ast.In], Value] | None = None
        #: What is done where a value fails.
        self.failing: tuple[str, ...] = ()
        self._failures = 0

    def condition(self, expression: ast.Expression) -> str:
        """Return source of whether the condition holds."""
        return self._truth(self.write(expression))

    def write(self, expression: ast.Expression) -> Value:
        """Write the statements of an expression, and return its value; raises NotTyped."""
        match expression:
            case ast.Literal():
                return self._literal(expression)
            case ast.TimeLiteral():
                return Value(str(expression.milliseconds), "", Type.LONG, expression.milliseconds)
            case ast.Variable():
                return self._read(expression)
            case ast.Not():
                return self.computed(f"not ({self._truth(self.write(expression.operand))})", "", Type.BOOL)
            case ast.IsNull():
                return self.computed(self.write(expression.operand).null or "False", "", Type.BOOL)
            case ast.IsNullEvent():
                return self.computed(self.missing(expression), "", Type.BOOL)
            case ast.Binary(op="and" | "or"):
                return self._logic(expression)
            case ast.Binary(op="==" | "!=" | "<" | "<=" | ">" | ">="):
                return self._comparison(expression)
            case ast.Binary():
                return self._arithmetic(expression)
            case ast.FunctionCall():
                return self._call(expression)
            case ast.In() if self.contains is not None:
                return self.contains(expression)
            case ast.In():
                raise NotTyped("'in' of a table here", expression.span)
        raise NotTyped(f"'{type(expression).__name__}' in an expression", expression.span)

    def name(self) -> str:
        """Return a name that the text does not have yet."""
        return self._name()

    def kept(self, value: Value) -> Value:
        """Return a value that is computed once."""
        if value.literal is not None or value.text.isidentifier():
            return value
        return self.computed(value.text, value.null, value.type)

    def computed(self, text: str, null: str, type: Type) -> Value:
        """Return a value that is computed once, where it is not null."""
        name = self._name()
        if not null:
            self.lines.append(f"{name} = {text}")
            return Value(name, "", type)
        self.lines += [
            f"{name}_n = {null}",
            # Where it is null the text is not executed: it may be a division by zero, for which the loop has no meaning
            f"{name} = {zero_of(type)}",
            f"if not {name}_n:",
            f"    {name} = {text}",
        ]
        return Value(name, f"{name}_n", type)

    def fails(self, condition: str) -> None:
        """Write what is done where computing a value fails."""
        self._failures += 1
        self.lines += [f"if {condition}:", *(f"    {line}" for line in self.failing)]

    def apart(self, expression: ast.Expression) -> tuple[Value, list[str]]:
        """Return a value, and its statements where they must only be executed if it is wanted: it may fail."""
        before, failures, self.lines = self.lines, self._failures, []
        value = self.write(expression)
        own, self.lines = self.lines, before
        if self._failures == failures:
            # What cannot fail is computed in front, without a branch
            self.lines += own
            own = []
        return value, own

    def _logic(self, node: ast.Binary) -> Value:
        left = self._truth(self.write(node.left))
        value, lines = self.apart(node.right)
        right = self._truth(value)
        if not lines:
            return self.computed(f"({left}) {node.op} ({right})", "", Type.BOOL)
        # What may fail is only computed where the left side leaves it open.
        name = self._name()
        lines = [*lines, f"{name} = {right}"]
        opened = name if node.op == "and" else f"not {name}"
        self.lines += [f"{name} = {left}", f"if {opened}:", *(f"    {line}" for line in lines)]
        return Value(name, "", Type.BOOL)

    def _truth(self, value: Value) -> str:
        if value.type is not Type.BOOL:
            raise NotTyped("a condition that is no bool")
        if value.literal is not None:
            return value.text
        return f"not ({value.null}) and {value.text} != 0" if value.null else f"{value.text} != 0"

    def _literal(self, node: ast.Literal) -> Value:
        value = node.value
        if node.type is Type.STRING:
            return Value(str(self._text_number(str(value))), "", Type.STRING, value)
        if node.type is Type.BOOL:
            return Value(str(value), "", Type.BOOL, value)
        if node.type is Type.FLOAT:
            return Value(f"f32({float(value)!r})", "", Type.FLOAT, float(value))
        if node.type is Type.DOUBLE:
            return Value(repr(float(value)), "", Type.DOUBLE, float(value))
        return Value(str(value), "", node.type, value)

    # Operators.

    def _arithmetic(self, node: ast.Binary) -> Value:
        left, right = self.write(node.left), self.write(node.right)
        type = promote(left.type, right.type)
        if type is None:
            raise NotTyped(f"'{node.op}' of what is no number", node.span)
        left, right = self._operand(left, type), self._operand(right, type)
        null = either(left.null, right.null)
        if node.op in ("/", "%"):
            # Division by zero is null.
            null = either(null, f"{right.text} == 0") if right.literal is None or not right.literal else null
            return self.computed(_quotient(node.op, type, left.text, right.text), null, type)
        if type is Type.LONG:
            return self.computed(f"{_WRAPPING[node.op]}({left.text}, {right.text})", null, type)
        # An int or a float gets back to its width after each operation
        text = f"{left.text} {node.op} {right.text}"
        wrapped = {Type.INT: "wrap32", Type.FLOAT: "f32"}.get(type)
        return self.computed(f"{wrapped}({text})" if wrapped else text, null, type)

    @staticmethod
    def _operand(value: Value, type: Type) -> Value:
        if type is Type.FLOAT and value.type in _WHOLE:
            return replace(value, text=f"f32({value.text})", type=type)
        if type is Type.DOUBLE and value.type in _WHOLE:
            return replace(value, text=f"float({value.text})", type=type)
        return value

    def _comparison(self, node: ast.Binary) -> Value:
        left, right = self.write(node.left), self.write(node.right)
        pair = {left.type, right.type}
        if pair & {Type.STRING, Type.BOOL, Type.OBJECT} and (len(pair) > 1 or node.op not in ("==", "!=")):
            raise NotTyped(f"'{node.op}' of {left.type} and {right.type}", node.span)
        left, right = (self._compared(value, pair, node.op) for value in (left, right))
        nulls, test = either(left.null, right.null), f"{left.text} {node.op} {right.text}"
        # With a null all comparisons are false but !=, which is true
        if nulls:
            test = f"{nulls} or {test}" if node.op == "!=" else f"not ({nulls}) and {test}"
        return self.computed(test, "", Type.BOOL)

    def _compared(self, value: Value, pair: set[Type], op: str) -> Value:
        if value.type not in _WHOLE:
            return value
        # An int is compared with a float as a float; a long only where an order is asked, else both as doubles
        if pair == {Type.INT, Type.FLOAT} or (pair == {Type.LONG, Type.FLOAT} and op not in ("==", "!=")):
            return replace(value, text=f"f32({value.text})")
        return replace(value, text=f"float({value.text})") if pair & set(_REALS) else value

    # Calls.

    def _call(self, node: ast.FunctionCall) -> Value:
        aggregate = self._aggregate(node)
        if aggregate is not None:
            return aggregate
        return WRITERS[ast.FunctionCall](self, node)


#: What writes calls; `functions.forms`, which writes expressions itself, adds it (`queries.result_text` imports it).
WRITERS: dict[type, Callable[[TypedWriter, Any], Value]] = {}


def _quotient(op: str, type: Type, left: str, right: str) -> str:
    if type in _REALS:
        text = f"{left} / {right}" if op == "/" else f"remainder_real({left}, {right})"
        return f"f32({text})" if type is Type.FLOAT else text
    text = f"{'divide' if op == '/' else 'remainder'}({left}, {right})"
    return f"wrap32({text})" if type is Type.INT else text
