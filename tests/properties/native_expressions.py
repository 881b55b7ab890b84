"""Generators of expressions that Spark is to compute exactly as the engine does, and of rows for them."""

from __future__ import annotations

import math
import struct
from typing import Any

from hypothesis import strategies as st

from spdist.language import ast
from spdist.language.types import Type

ATTRIBUTES: dict[str, Type] = {
    "b": Type.BOOL,
    "c": Type.BOOL,
    "i": Type.INT,
    "j": Type.INT,
    "l": Type.LONG,
    "m": Type.LONG,
    "f": Type.FLOAT,
    "g": Type.FLOAT,
    "d": Type.DOUBLE,
    "e": Type.DOUBLE,
    "s": Type.STRING,
    "t": Type.STRING,
}
_NUMBERS = (Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE)


def _float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


_INTS = st.sampled_from([0, 1, -1, 2, 7, 2**31 - 1, -(2**31), 2**16]) | st.integers(-(2**31), 2**31 - 1)
_LONGS = (
    st.sampled_from([0, 1, -1, 2, 2**63 - 1, -(2**63), 2**53 + 1, 2**24 + 1, 2**31]) | st.integers(-9, 9)
) | st.integers(-(2**63), 2**63 - 1)
_EXTREMES = (0.0, -0.0, 0.5, -0.5, 1.0, 1.5, 2.5, -2.5, math.nan, math.inf, -math.inf, 1e300, 5e-324)
_EXTREMES += (2.0**31, 2.0**63, -(2.0**63), 2.0**52 + 0.5, 0.49999999999999994)
_DOUBLES = st.sampled_from(_EXTREMES) | st.floats(-100, 100) | st.floats()
_FLOATS = st.sampled_from([v for v in _EXTREMES if not 3.4e38 < abs(v) < math.inf]).map(_float32) | st.floats(width=32)
_WORDS = ["", " ", "true", "TRUE", "5", "-7", "+12", "2147483648", "1.5", " 2.5e3 ", "NaN", "-Infinity", "0x1p3", "1d"]
_WORDS += ["٣٤", "é", "ß", "😀", "a😀b", "\x00x\x1f", "\u2028", "a\nb", "null", "abcabc", "99999999999999999999", "1_0"]
_TEXTS = (
    st.sampled_from(_WORDS)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
    | st.text("ab1.-", max_size=4)
)
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    Type.BOOL: st.booleans(),
    Type.INT: _INTS,
    Type.LONG: _LONGS,
    Type.FLOAT: _FLOATS,
    Type.DOUBLE: _DOUBLES,
    Type.STRING: _TEXTS,
}
rows = st.tuples(*(st.none() | VALUES[kind] | VALUES[kind] for kind in ATTRIBUTES.values()))


def _call(id: str, *arguments: ast.Expression) -> ast.FunctionCall:
    namespace, _, name = id.rpartition(":")
    return ast.FunctionCall(name, arguments, namespace or None)


def _literal(draw: st.DrawFn, kind: Type) -> ast.Expression:
    value = draw(VALUES[kind])
    if isinstance(value, float) and not math.isfinite(value):
        value = 2.5
    if isinstance(value, str):
        value = "".join(c for c in value if c.isprintable() and c not in "\"'`$\\")
    # Literals carry no sign of their own in the grammar.
    return ast.Literal(abs(value) if kind in _NUMBERS and abs(value) < 2**63 and value != -(2**31) else value, kind)


@st.composite
def expressions(draw: st.DrawFn, kind: Type | None = None, depth: int = 3) -> ast.Expression:
    """An expression of a type, with numbers in it that meet others of any type."""
    kind = draw(st.sampled_from(list(VALUES))) if kind is None else kind
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        if draw(st.integers(0, 4)) == 0 and (literal := _literal(draw, kind)) is not None:
            return literal
        return ast.Variable(draw(st.sampled_from([name for name, type in ATTRIBUTES.items() if type is kind])))

    def inner(of: Type) -> ast.Expression:
        return draw(expressions(of, depth - 1))

    return draw(st.sampled_from(_MAKERS[kind]))(draw, inner)


def _number(draw: st.DrawFn) -> Type:
    return draw(st.sampled_from(_NUMBERS))


def _any(draw: st.DrawFn) -> Type:
    return draw(st.sampled_from(list(VALUES)))


def _arithmetic(kind: Type) -> Any:
    def make(draw: st.DrawFn, inner: Any) -> ast.Expression:
        narrower = _NUMBERS[: _NUMBERS.index(kind) + 1]
        pair = [inner(kind), inner(draw(st.sampled_from(narrower)))]
        if draw(st.booleans()):
            pair.reverse()
        return ast.Binary(draw(st.sampled_from(["+", "-", "*", "/", "%"])), *pair)

    return make


def _shared(kind: Type) -> list[Any]:
    """What there is for each type."""

    def convert(draw: st.DrawFn, inner: Any) -> ast.Expression:
        # How a fraction is written is another test's matter.
        sources = [t for t in VALUES if kind is not Type.STRING or t not in (Type.FLOAT, Type.DOUBLE)]
        return _call("convert", inner(draw(st.sampled_from(sources))), ast.Literal(kind.value, Type.STRING))

    return [
        convert,
        lambda draw, inner: _call("ifThenElse", inner(Type.BOOL), inner(kind), inner(kind)),
        lambda draw, inner: _call("coalesce", inner(kind), inner(kind)),
        lambda draw, inner: _call("str:coalesce", inner(kind), inner(kind), inner(kind)),
        lambda draw, inner: _call("default", inner(kind), _literal(draw, kind)),
        lambda draw, inner: _call("cast", inner(kind), ast.Literal(kind.value, Type.STRING)),
    ]


def _comparison(draw: st.DrawFn, inner: Any) -> ast.Expression:
    if draw(st.integers(0, 3)) == 0:
        kind = draw(st.sampled_from([Type.STRING, Type.BOOL]))
        return ast.Binary(draw(st.sampled_from(["==", "!="])), inner(kind), inner(kind))
    op = draw(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]))
    return ast.Binary(op, inner(_number(draw)), inner(_number(draw)))


def _of(id: str, *types: Any) -> Any:
    def make(draw: st.DrawFn, inner: Any) -> ast.Expression:
        return _call(id, *(inner(one if isinstance(one, Type) else draw(st.sampled_from(one))) for one in types))

    return make


_SOME = [f"math:{name}" for name in ("abs", "floor", "sqrt", "toDegrees", "toRadians")]
_FRACTIONS = (Type.FLOAT, Type.DOUBLE)
_S = Type.STRING
_MAKERS: dict[Type, list[Any]] = {
    Type.BOOL: [
        *_shared(Type.BOOL),
        *[_comparison] * 6,
        *[lambda draw, inner: ast.Binary(draw(st.sampled_from(["and", "or"])), inner(Type.BOOL), inner(Type.BOOL))] * 3,
        lambda draw, inner: ast.Not(inner(Type.BOOL)),
        lambda draw, inner: ast.IsNull(_call("coalesce", inner(kind := _any(draw)), inner(kind))),
        lambda draw, inner: _call(
            f"instanceOf{draw(st.sampled_from(['Boolean', 'Double', 'Float', 'Integer', 'Long', 'String']))}",
            inner(_any(draw)),
        ),
        _of("math:isNan", _FRACTIONS),
        _of("math:isInfinite", _FRACTIONS),
        _of("str:contains", _S, _S),
        lambda draw, inner: _call(
            "str:regexp", inner(_S), ast.Literal(draw(st.sampled_from(["[a-b]+", "a|b.*", ".", r"\d+", ""])), _S)
        ),
    ],
    Type.INT: [
        *_shared(Type.INT),
        *[_arithmetic(Type.INT)] * 5,
        _of("math:signum", _NUMBERS),
        _of("math:round", Type.FLOAT),
        _of("math:parseInt", _S),
        _of("maximum", Type.INT, Type.INT),
        _of("minimum", Type.INT, Type.INT),
        _of("str:length", _S),
        _of("str:locate", _S, _S),
    ],
    Type.LONG: [
        *_shared(Type.LONG),
        *[_arithmetic(Type.LONG)] * 5,
        _of("math:round", Type.DOUBLE),
        _of("math:parseLong", _S),
        _of("maximum", Type.LONG, Type.LONG),
        _of("minimum", Type.LONG, Type.LONG),
        _of("str:charFrequency", _S, _S),
        lambda draw, inner: _call("eventTimestamp"),
        lambda draw, inner: _call("cast", inner(Type.INT), ast.Literal("long", Type.STRING)),
    ],
    Type.FLOAT: [
        *_shared(Type.FLOAT),
        *[_arithmetic(Type.FLOAT)] * 5,
        _of("math:parseFloat", _S),
        _of("maximum", Type.FLOAT, Type.FLOAT),
        _of("minimum", Type.FLOAT, Type.FLOAT),
    ],
    Type.DOUBLE: [
        *_shared(Type.DOUBLE),
        *[_arithmetic(Type.DOUBLE)] * 5,
        lambda draw, inner: _call(draw(st.sampled_from(_SOME)), inner(_number(draw))),
        _of("math:ceil", _FRACTIONS),
        _of("math:max", _NUMBERS, _NUMBERS),
        _of("math:min", _NUMBERS, _NUMBERS),
        _of("math:parseDouble", _S),
        lambda draw, inner: _call(draw(st.sampled_from(["math:e", "math:pi"]))),
        _of("maximum", Type.DOUBLE, Type.DOUBLE, Type.DOUBLE),
        _of("minimum", Type.DOUBLE, Type.DOUBLE),
    ],
    Type.STRING: [
        *_shared(Type.STRING),
        *[_of("str:concat", _S, (Type.INT, Type.LONG, Type.BOOL, _S))] * 2,
        lambda draw, inner: _call(
            f"math:{draw(st.sampled_from(['bin', 'hex', 'oct']))}", inner(draw(st.sampled_from([Type.INT, Type.LONG])))
        ),
        _of("str:charAt", _S, Type.INT),
        _of("str:reverse", _S),
        lambda draw, inner: _call(
            "str:repeat", inner(_S), _call("ifThenElse", inner(Type.BOOL), *(ast.Literal(n, Type.INT) for n in (0, 3)))
        ),
        _of("str:trim", _S),
        _of("str:substr", _S, Type.INT),
        lambda draw, inner: _call(
            "str:substr", inner(_S), *(ast.Literal(draw(st.integers(0, 3)), Type.INT) for _ in range(2))
        ),
    ],
}
