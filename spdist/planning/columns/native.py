"""Which expressions Spark may compute as Columns, and why others stay with the engine's own code. Pure: no Spark here.

An expression is *native* only where Spark's result is the local engine's for every value: nulls, wrap-around, division
by zero, NaN, the sign of zero, characters beyond U+FFFF, and which events fail. The Spark forms stand in
`spdist.engine.native.functions` under the same keys; a test holds the two tables together and compares results bit by
bit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from spdist.errors import Span
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import Scope
from spdist.language.scripts import Script
from spdist.language.types import Type

__all__ = ["NATIVE", "Obstacle", "Rule", "obstacle"]

#: Types of a call's arguments and the arguments; why it is not native, or None.
Rule = Callable[[tuple[Type, ...], tuple[ast.Expression, ...]], str | None]

_REALS = (Type.FLOAT, Type.DOUBLE)
_OBJECTS = "works with objects, which Spark's columns do not hold"
_DRAWN = "takes its value from the app's clock, so that a replay gives the same"
_LETTERS = "knows upper and lower case letters from another version of Unicode than Spark"
_LAST_BIT = "may differ from Spark in the last bit: the two use different mathematical libraries"
_MATCHING = "matches in a way that no function of Spark has"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why something is not native.

    Parameters
    ----------
    what : str
        The expression or operator, as people know it.
    why : str
        Completes the sentence that begins with `what`.
    span : Span, optional
        Where it stands in the app's text.
    """

    what: str
    why: str
    span: Span | None = None

    def __str__(self) -> str:
        return f"{self.what} {self.why}"


def _always(_types: tuple[Type, ...], _arguments: tuple[ast.Expression, ...]) -> None:
    return None


def _same_type(types: tuple[Type, ...], arguments: tuple[ast.Expression, ...]) -> str | None:
    named = _named(arguments)
    if types[0] is named or (types[0] is Type.INT and named is Type.LONG):
        return None
    return "names a type that the value is not of: each use of it fails or not with the value"


def _convertible(types: tuple[Type, ...], _arguments: tuple[ast.Expression, ...]) -> str | None:
    return _OBJECTS if types[0] is Type.OBJECT else None


def _positions(types: tuple[Type, ...], _arguments: tuple[ast.Expression, ...]) -> str | None:
    return _MATCHING if Type.STRING in types[1:] else None


def _from_the_start(types: tuple[Type, ...], _arguments: tuple[ast.Expression, ...]) -> str | None:
    return None if len(types) == 2 else "begins at a position counted in UTF-16 units"


def _whole_numbers(types: tuple[Type, ...], _arguments: tuple[ast.Expression, ...]) -> str | None:
    return "writes fractions in base 16" if types[0] in _REALS else None


#: Regular expressions without anything in which Java's versions or flags play a part.
_PLAIN_REGEX = re.compile(
    r"(?:[A-Za-z0-9 _,;:@#%&=~<>/'\"!-]|\\[dswDSW.+*?()\[\]{}|^$\\]|[.+*?|()](?!\?)|\[|\]|\{|\})*"
)

#: A class of characters, or an escape, in a plain regular expression.
_CLASSES = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")
#: What is repeated and may itself take several ways: then they multiply, and Java recurses for each pass.
_NESTED = re.compile(r"\)[*+{?]")


def _plain_regex(_types: tuple[Type, ...], arguments: tuple[ast.Expression, ...]) -> str | None:
    regex = arguments[1]
    if not isinstance(regex, ast.Literal):
        return "has a regular expression that is not constant"
    if _PLAIN_REGEX.fullmatch(str(regex.value)) is None or "(?" in str(regex.value) or "&&" in str(regex.value):
        return "has a regular expression of more than the plain constructs"
    # Without classes and escapes, in which a bracket or a star repeats nothing
    if _NESTED.search(_CLASSES.sub("x", str(regex.value))):
        return "has a regular expression with repetitions within groups, which Java runs without a bound"
    return None


def _named(arguments: tuple[ast.Expression, ...]) -> Type:
    name = arguments[1]
    assert isinstance(name, ast.Literal)  # the checker has seen to it
    return Type(str(name.value).lower())


#: Function → when it is native.
NATIVE: dict[str, Rule] = {
    "cast": _same_type,
    "coalesce": _always,
    "convert": _convertible,
    "default": _always,
    "eventTimestamp": _always,
    "ifThenElse": _always,
    "maximum": _always,
    "minimum": _always,
    **{f"instanceOf{name}": _always for name in ("Boolean", "Double", "Float", "Integer", "Long", "String")},
    **{
        f"math:{name}": _always
        for name in (
            *("abs", "ceil", "e", "floor", "isInfinite", "isNan", "max", "min", "parseDouble", "parseFloat"),
            *("parseInt", "parseLong", "pi", "round", "signum", "sqrt", "toDegrees", "toRadians"),
        )
    },
    **{f"math:{name}": _whole_numbers for name in ("bin", "hex", "oct")},
    **{
        f"str:{name}": _always
        for name in ("charAt", "charFrequency", "coalesce", "concat", "contains", "length", "repeat", "reverse", "trim")
    },
    "str:locate": _from_the_start,
    "str:regexp": _plain_regex,
    "str:substr": _positions,
}

#: Why functions without a native form have none.
_ISLAND = {
    **dict.fromkeys(("UUID", "currentTimeMillis", "math:rand"), _DRAWN),
    **dict.fromkeys(("createSet", "sizeOfSet"), _OBJECTS),
    **dict.fromkeys(("str:equalsIgnoreCase", "str:lower", "str:upper"), _LETTERS),
    **dict.fromkeys(("str:replaceAll", "str:replaceFirst", "str:split", "str:strcmp", "str:fillTemplate"), _MATCHING),
    **{
        f"math:{name}": _LAST_BIT
        for name in (
            *("acos", "asin", "atan", "cbrt", "cos", "cosh", "exp", "ln", "log", "log10", "log2", "power"),
            *("sin", "sinh", "tan", "tanh"),
        )
    },
}
_NAMESPACES = {"json": _OBJECTS, "list": _OBJECTS, "map": _OBJECTS, "time": "reads and writes dates in Java's patterns"}


def obstacle(expression: ast.Expression, scope: Scope, catalog: Catalog) -> Obstacle | None:
    """Return the first thing in an expression that is not native, or None where all of it is.

    Parameters
    ----------
    expression : Expression
        Checked: its names are known and its types fit.
    scope : Scope
        What its names mean.
    catalog : Catalog
        The signatures of functions.
    """
    return _Rules(scope, catalog).obstacle(expression)


class _Rules:
    """One walk over an expression."""

    def __init__(self, scope: Scope, catalog: Catalog) -> None:
        self._scope = scope
        self._catalog = catalog

    def obstacle(self, node: ast.Expression) -> Obstacle | None:
        match node:
            case ast.Literal():
                return self._literal(node)
            case ast.TimeLiteral():
                return None
            case ast.Variable():
                return self._variable(node)
            case ast.Not() | ast.IsNull():
                return self.obstacle(node.operand)
            case ast.Binary():
                return self._binary(node)
            case ast.FunctionCall():
                return self._call(node)
            case ast.In():
                return Obstacle(f"'in {node.table}'", "looks into a table", node.span)
        return Obstacle("a pattern's element", "is matched by the engine", node.span)

    def _literal(self, node: ast.Literal) -> Obstacle | None:
        # Spark's strings are UTF-8, which cannot hold it
        if isinstance(node.value, str) and any("\ud800" <= c <= "\udfff" for c in node.value):
            return Obstacle("a text", "holds half of a character", node.span)
        return None

    def _variable(self, node: ast.Variable) -> Obstacle | None:
        if self._scope.resolve(node).type is Type.OBJECT:
            return Obstacle(f"'{node.name}'", "is an object, which Spark's columns do not hold", node.span)
        return None

    def _binary(self, node: ast.Binary) -> Obstacle | None:
        found = self._first((node.left, node.right))
        if found is None and node.op in ("+", "-", "*", "/", "%") and not self._numbers(node):
            return Obstacle(f"'{node.op}'", "has an operand that is no number, and fails for each event", node.span)
        return found

    def _numbers(self, node: ast.Binary) -> bool:
        return all(self._type(operand).numeric for operand in (node.left, node.right))

    def _call(self, node: ast.FunctionCall) -> Obstacle | None:
        what = f"{node.id}()"
        if isinstance(self._catalog.functions.get(node.id), Script):
            return Obstacle(what, "is defined by the app", node.span)
        if node.star or node.id not in self._catalog.functions:
            return Obstacle(what, "aggregates many events", node.span)
        rule = NATIVE.get(node.id)
        if rule is None:
            why = _ISLAND.get(node.id) or _NAMESPACES.get(node.namespace or "", "has no form in Spark")
            return Obstacle(what, why, node.span)
        found = self._first(node.args)
        if found is not None:
            return found
        against = rule(tuple(map(self._type, node.args)), node.args)
        return None if against is None else Obstacle(what, against, node.span)

    def _first(self, nodes: Iterable[ast.Expression]) -> Obstacle | None:
        return next((found for node in nodes if (found := self.obstacle(node)) is not None), None)

    def _type(self, node: ast.Expression) -> Type:
        return type_of(node, self._scope, self._catalog)
