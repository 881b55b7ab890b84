"""Conditions for stores that look for rows themselves: the part of a condition that a database may answer.

What is handed over is a *test* that holds for at least the rows that meet the condition: without ``not`` and ``!=``,
whose meaning for null is SiddhiQL's own, without calls and arithmetic. The condition itself is asked again of every row
that the store finds, so a store may find too much, and never too little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import Scope
from spdist.language.types import Type

__all__ = ["Compares", "Every", "NullTest", "Pushed", "Some", "Test", "conjuncts", "names_store", "never_fail", "push"]

_MIRRORED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WHOLE = (Type.INT, Type.LONG)
_REAL = (Type.FLOAT, Type.DOUBLE)


@dataclass(frozen=True, slots=True)
class Compares:
    """``attribute op value``; `value` is a position among the values that the search is given; null meets nothing."""

    attribute: int
    op: str
    value: int


@dataclass(frozen=True, slots=True)
class NullTest:
    """``attribute is null``."""

    attribute: int


@dataclass(frozen=True, slots=True)
class Every:
    """All of `parts`."""

    parts: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one of `parts`."""

    parts: tuple[Test, ...]


Test = Compares | NullTest | Every | Some


@dataclass(frozen=True, slots=True)
class Pushed:
    """A test, and the expressions whose values it is given; they name anything but the store."""

    test: Test
    values: tuple[ast.Expression, ...]


def conjuncts(condition: ast.Expression | None) -> Iterator[ast.Expression]:
    """Yield the conditions that ``and`` joins; a condition without ``and`` is the only one."""
    if isinstance(condition, ast.Binary) and condition.op == "and":
        yield from conjuncts(condition.left)
        yield from conjuncts(condition.right)
    elif condition is not None:
        yield condition


def never_fail(parts: Sequence[ast.Expression]) -> list[ast.Expression]:
    """Return the conditions in front of the first call: a call may fail, and nothing behind it is tested before it."""
    may_fail = ast.FunctionCall | ast.EventTime
    return list(takewhile(lambda part: not any(isinstance(node, may_fail) for node in part.walk()), parts))


def names_store(expression: ast.Expression, scope: Scope, position: int) -> bool:
    """Tell whether an expression names the source at `position`, or could not be moved in front of a loop over it."""
    return any(
        isinstance(node, ast.IsNullEvent | ast.EventTime | ast.In)
        or (isinstance(node, ast.Variable) and scope.resolve(node).source == position)
        for node in expression.walk()
    )


def push(condition: ast.Expression | None, scope: Scope, position: int, catalog: Catalog) -> Pushed | None:
    """Return the test that stands for a condition in the store at `position`; None where nothing of it can be asked.

    Parameters
    ----------
    condition : Expression, optional
        The whole condition.
    scope : Scope
        What it may name.
    position : int
        The store, among the sources of `scope`.
    catalog : Catalog
        Signatures, for the types of expressions.
    """
    pushing = _Pushing(scope, position, catalog)
    parts = [test for part in never_fail(list(conjuncts(condition))) if (test := pushing.test(part)) is not None]
    if not parts:
        return None
    return Pushed(parts[0] if len(parts) == 1 else Every(tuple(parts)), tuple(pushing.values))


class _Pushing:
    def __init__(self, scope: Scope, position: int, catalog: Catalog) -> None:
        self._scope = scope
        self._position = position
        self._catalog = catalog
        self.values: list[ast.Expression] = []

    def test(self, node: ast.Expression) -> Test | None:
        if isinstance(node, ast.IsNull):
            attribute = self._attribute(node.operand)
            return None if attribute is None else NullTest(attribute[0])
        if not isinstance(node, ast.Binary):
            return None
        if node.op == "and":
            # A part is enough: the store then finds more, and the whole condition is asked again.
            parts = [test for part in (node.left, node.right) if (test := self.test(part)) is not None]
            return None if not parts else parts[0] if len(parts) == 1 else Every(tuple(parts))
        if node.op == "or":
            left, right = self.test(node.left), self.test(node.right)
            # With half of an `or` the store would find too little.
            return None if left is None or right is None else Some((left, right))
        return self._compares(node) if node.op in _MIRRORED else None

    def _compares(self, node: ast.Binary) -> Test | None:
        for stored, value, op in ((node.left, node.right, node.op), (node.right, node.left, _MIRRORED[node.op])):
            attribute = self._attribute(stored)
            if attribute is None or names_store(value, self._scope, self._position):
                continue
            if _comparable(attribute[1], type_of(value, self._scope, self._catalog), op):
                self.values.append(value)
                return Compares(attribute[0], op, len(self.values) - 1)
        return None

    def _attribute(self, node: ast.Expression) -> tuple[int, Type] | None:
        if not isinstance(node, ast.Variable):
            return None
        reference = self._scope.resolve(node)
        return (reference.attribute, reference.type) if reference.source == self._position else None


def _comparable(stored: Type, value: Type, op: str) -> bool:
    """Tell whether databases compare two types as SiddhiQL does: whole numbers and reals are not mixed."""
    if stored in _WHOLE:
        return value in _WHOLE
    if stored in _REAL:
        return value in _REAL
    return op == "==" and stored is value and stored in (Type.STRING, Type.BOOL)
