"""Expressions as SiddhiQL, with as few parentheses as are needed to read them."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable

from spdist.errors import SiddhiAppError
from spdist.language import ast
from spdist.language.types import Type

__all__ = ["format_call", "format_expression", "format_stream", "format_time", "list_of", "name", "string", "unit"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")
#: Where one of these words and a name can both stand, the grammar takes the word.
_WORDS_FIRST = frozenset({"every", "false", "from", "not", "or", "true", "window"})
_CONTROL = re.compile(r"[\x00-\x1f]")

_OR, _AND, _IN, _EQUALITY, _RELATION, _SUM, _PRODUCT, _NOT, _OPERAND = range(1, 10)
_STRENGTH = {
    "or": _OR,
    "and": _AND,
    **dict.fromkeys(("==", "!="), _EQUALITY),
    **dict.fromkeys(("<", "<=", ">", ">="), _RELATION),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
}


def format_expression(expression: ast.Expression) -> str:
    """Return `expression` as SiddhiQL.

    Raises
    ------
    SiddhiAppError
        SiddhiQL has no way to write it: ``(a + b) is null``, or a string with all kinds of quotes.
    """
    return _write(expression)[0]


def _write(expression: ast.Expression) -> tuple[str, int]:
    """Return the text, and how strongly its outermost operator binds."""
    match expression:
        case ast.Literal():
            return _literal(expression), _OPERAND
        case ast.TimeLiteral():
            return format_time(expression), _OPERAND
        case ast.Variable():
            return _variable(expression), _OPERAND
        case ast.FunctionCall():
            return format_call(expression), _OPERAND
        case ast.Binary():
            return _binary(expression), _STRENGTH[expression.op]
        case ast.Not():
            return f"not {_within(expression.operand, _NOT)}", _NOT
        case ast.IsNull():
            return _is_null(expression), _OPERAND
        case ast.IsNullEvent():
            return f"{format_stream(expression.stream)}{_index(expression.index)} is null", _OPERAND
        case ast.EventTime():
            return f"eventTimestamp({format_stream(expression.stream)})", _OPERAND
        case ast.In():
            return f"{_within(expression.operand, _OPERAND)} in {name(expression.table)}", _IN
    raise AssertionError(f"no text for {type(expression).__name__}")


def _within(expression: ast.Expression, strength: int) -> str:
    text, own = _write(expression)
    return text if own >= strength else f"({text})"


def _binary(expression: ast.Binary) -> str:
    strength = _STRENGTH[expression.op]
    # `not a == b` means `(not a) == b`, which few people expect: say it.
    explicit = isinstance(expression.left, ast.Not) and strength > _AND
    left = f"({_write(expression.left)[0]})" if explicit else _within(expression.left, strength)
    explicit = isinstance(expression.right, ast.Not) and strength > _AND
    # All operators bind from the left: an equally strong one on the right needs its parentheses
    right = f"({_write(expression.right)[0]})" if explicit else _within(expression.right, strength + 1)
    return f"{left} {expression.op} {right}"


def _is_null(expression: ast.IsNull) -> str:
    if not isinstance(expression.operand, ast.Variable | ast.FunctionCall | ast.EventTime):
        raise SiddhiAppError("SiddhiQL has 'is null' for attributes and functions only", span=expression.span)
    return f"{_write(expression.operand)[0]} is null"


# --- names -----------------------------------------------------------------------------------------------------------


def name(text: str) -> str:
    """Return a name, in backticks where it would be read as something else."""
    if _IDENTIFIER.match(text) and text.lower() not in _WORDS_FIRST:
        return text
    if not text or re.search(r"[`\r\n]", text):
        raise SiddhiAppError(f"{text!r} cannot be a name in SiddhiQL")
    return f"`{text}`"


def format_stream(stream: ast.StreamRef) -> str:
    """Return ``S``, ``#S`` or ``!S``."""
    return ("#" if stream.inner else "!" if stream.fault else "") + name(stream.name)


def _variable(variable: ast.Variable) -> str:
    if variable.stream is None:
        return name(variable.name)
    return f"{format_stream(variable.stream)}{_index(variable.index)}.{name(variable.name)}"


def _index(index: ast.EventIndex | None) -> str:
    if index is None:
        return ""
    if not index.from_last:
        return f"[{index.position}]"
    return f"[last - {index.position}]" if index.position else "[last]"


def format_call(call: ast.FunctionCall) -> str:
    """Return ``ns:name(arguments)``."""
    arguments = "*" if call.star else list_of(format_expression(argument) for argument in call.args)
    namespace = "" if call.namespace is None else f"{name(call.namespace)}:"
    return f"{namespace}{name(call.name)}({arguments})"


def list_of(texts: Iterable[str]) -> str:
    """Return the texts with commas between them."""
    return ", ".join(texts)


# --- constants -------------------------------------------------------------------------------------------------------


def string(text: str) -> str:
    """Return a string in the quotes that it allows; there are no escapes."""
    # Only three quotes may hold control characters and line ends
    if not _CONTROL.search(text):
        if "'" not in text and '"' not in text:
            return f"'{text}'"
        if '"' not in text:
            return f'"{text}"'
    if '"""' in text or text.endswith('"'):
        raise SiddhiAppError(f"SiddhiQL has no quotes for this text: {text!r}")
    return f'"""{text}"""'


def format_time(time: ast.TimeLiteral) -> str:
    """Return a time as it was written, with short units: ``1 hour 30 min``."""
    return " ".join(f"{amount} {unit(length)}" for amount, length in time.parts)


def unit(canonical: str) -> str:
    """Return a unit as it is usually written."""
    return {"minute": "min", "second": "sec", "millisecond": "millisec"}.get(canonical, canonical)


def _literal(literal: ast.Literal) -> str:
    value = literal.value
    match literal.type:
        case Type.BOOL:
            return "true" if value else "false"
        case Type.STRING:
            return string(str(value))
        case Type.INT:
            return str(value)
        case Type.LONG:
            return f"{value}L"
        case Type.FLOAT:
            return f"{_shortest_float(float(value))}f"
    return _infinite(float(value)) or repr(float(value))


def _shortest_float(value: float) -> str:
    """Return the shortest text that is read as this 32-bit number."""
    for digits in range(1, 9):
        text = f"{value:.{digits}g}"
        if not math.isinf(value) and struct.pack("f", float(text)) == struct.pack("f", value):
            return text
    return _infinite(value) or f"{value:.9g}"


def _infinite(value: float) -> str | None:
    # A number too large to hold is how infinity is written.
    return ("1e999" if value > 0 else "-1e999") if math.isinf(value) else None
