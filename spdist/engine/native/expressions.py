"""SiddhiQL expressions and stateless queries as Spark Columns, where `columns.native` finds nothing against it.

The rules are those of `spdist.operators.expressions.expression`: arithmetic with null is null; a comparison with null
is false, except ``!=``, which is true; ``and``, ``or``, ``not`` take null as false. Where the engine's functions fail
on an event, a Column says so in addition to the value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from spdist.engine.native.functions import FORMS, ONCE, Native, any_fails
from spdist.engine.native.values import (
    SPARK_TYPES,
    divided,
    is_false,
    is_true,
    let,
    remainder,
    widened,
    wrapped,
)
from spdist.errors import ErrorKind, SiddhiAppError
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import Scope
from spdist.language.types import Type, promote
from spdist.planning.columns.native import obstacle

__all__ = ["ExpressionPlace", "NativeWriter", "native_literal"]

_REALS = (Type.FLOAT, Type.DOUBLE)
_ORDERS = ("<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class ExpressionPlace:
    """Where an expression stands.

    Parameters
    ----------
    scope : Scope
        What its names mean: the attributes of one stream.
    attributes : sequence of Column
        The attributes' values, of the Spark types of `native_values.SPARK_TYPES`.
    timestamp : Column
        The event's timestamp, ms, a long.
    """

    scope: Scope
    attributes: Sequence[Column]
    timestamp: Column


def native_literal(value: Any, type: Type) -> Column:
    """Return a constant."""
    return F.lit(value).cast(SPARK_TYPES[type])


class NativeWriter:
    """Writes expressions as Columns.

    Parameters
    ----------
    place : ExpressionPlace
        Where they stand.
    catalog : Catalog
        The signatures of functions.
    """

    def __init__(self, place: ExpressionPlace, catalog: Catalog) -> None:
        self._place = place
        self._catalog = catalog

    def expression(self, expression: ast.Expression) -> Native:
        """Return an expression as Columns; raises SiddhiAppError where it is not native."""
        found = obstacle(expression, self._place.scope, self._catalog)
        if found is not None:
            told = f"{found.what} is not native: it {found.why}"
            raise SiddhiAppError(told, span=found.span, code=ErrorKind.UNSUPPORTED)
        return self._write(expression)

    def condition(self, expression: ast.Expression) -> Native:
        """Return a condition: true where it holds, false where it does not or is null."""
        native = self.expression(expression)
        return Native(is_true(native.value), Type.BOOL, native.fails)

    def _write(self, node: ast.Expression) -> Native:
        return _WRITERS[type(node)](self, node)

    # Leaves.

    def _literal(self, node: ast.Literal) -> Native:
        value = float(node.value) if node.type in _REALS else node.value
        return Native(native_literal(value, node.type), node.type, literal=node.value, atom=True)

    def _time(self, node: ast.TimeLiteral) -> Native:
        return Native(native_literal(node.milliseconds, Type.LONG), Type.LONG, literal=node.milliseconds, atom=True)

    def _variable(self, node: ast.Variable) -> Native:
        reference = self._place.scope.resolve(node)
        return Native(self._place.attributes[reference.attribute], reference.type, atom=True)

    # Logic.

    def _not(self, node: ast.Not) -> Native:
        operand = self._write(node.operand)
        return Native(is_false(operand.value), Type.BOOL, operand.fails)

    def _is_null(self, node: ast.IsNull) -> Native:
        operand = self._write(node.operand)
        return Native(operand.value.isNull(), Type.BOOL, operand.fails)

    def _logic(self, node: ast.Binary) -> Native:
        left, right = self._write(node.left), self._write(node.right)
        one, other = is_true(left.value), is_true(right.value)
        # The right side is computed, and may fail, only where the left one leaves it open.
        is_open = one if node.op == "and" else ~one
        late = None if right.fails is None else is_open & right.fails
        value = one & other if node.op == "and" else one | other
        return Native(value, Type.BOOL, any_fails(left.fails, late))

    # Operators.

    def _binary(self, node: ast.Binary) -> Native:
        if node.op in ("and", "or"):
            return self._logic(node)
        left, right = self._write(node.left), self._write(node.right)
        fails = any_fails(left.fails, right.fails)
        if node.op in ("==", "!=", *_ORDERS):
            return Native(_comparison(node.op, left, right), Type.BOOL, fails)
        kind = promote(left.type, right.type)
        assert kind is not None  # else it is not native

        def compute(one: Column, other: Column) -> Column:
            return _arithmetic(node.op, widened(one, left.type, kind), widened(other, right.type, kind), kind)

        if kind in _REALS:
            return Native(compute(left.value, right.value), kind, fails)
        return Native(_sharing((left, right), compute), kind, fails)

    # Calls.

    def _call(self, node: ast.FunctionCall) -> Native:
        arguments = tuple(map(self._write, node.args))
        kind = type_of(node, self._place.scope, self._catalog)
        form = FORMS[node.id]

        def part(position: int) -> Callable[..., Column]:
            def compute(*values: Column) -> Column:
                known = tuple(replace(one, value=value) for one, value in zip(arguments, values, strict=True))
                chosen = form(kind, self._place.timestamp, known)[position]
                assert chosen is not None
                return chosen

            return compute

        value, own = form(kind, self._place.timestamp, arguments)
        # A Column is an expression: what names an argument twice has Spark compute it twice, unless it is shared.
        if node.id not in ONCE:
            value = _sharing(arguments, part(0))
        if own is not None:
            own = _sharing(arguments, part(1))
        if node.id == "ifThenElse":
            inherited = _of_the_chosen(arguments)
        else:
            inherited = any_fails(*(argument.fails for argument in arguments))
        # As in the local engine a call that gives a bool gives false for null.
        return Native(is_true(value) if kind is Type.BOOL else value, kind, any_fails(inherited, own))


def _sharing(operands: tuple[Native, ...], compute: Callable[..., Column]) -> Column:
    """Return what is computed of operands, each of them computed once."""
    large = [operand.value for operand in operands if not operand.atom]

    def body(*known: Column) -> Column:
        given = iter(known)
        return compute(*(operand.value if operand.atom else next(given) for operand in operands))

    return let(large, body)


def _of_the_chosen(arguments: tuple[Native, ...]) -> Column | None:
    condition, then, otherwise = arguments
    holds = is_true(condition.value)
    return any_fails(
        condition.fails,
        None if then.fails is None else holds & then.fails,
        None if otherwise.fails is None else ~holds & otherwise.fails,
    )


def _arithmetic(op: str, left: Column, right: Column, type: Type) -> Column:
    if op == "/":
        return divided(left, right, type)
    if op == "%":
        return remainder(left, right, type)
    if type in (Type.INT, Type.LONG):
        return wrapped(op, left, right, type)
    exact = {"+": left + right, "-": left - right, "*": left * right}[op]
    return exact.cast(SPARK_TYPES[type])


def _comparison(op: str, left: Native, right: Native) -> Column:
    one, other = left.value, right.value
    pair = {left.type, right.type}
    real = bool(pair & set(_REALS))
    if left.type is not right.type:
        # As Java compares: an int meets a float as a float, a long only where order is asked.
        narrow = pair == {Type.INT, Type.FLOAT} or (pair == {Type.LONG, Type.FLOAT} and op in _ORDERS)
        common = Type.LONG if not real else Type.FLOAT if narrow else Type.DOUBLE
        one, other = widened(one, left.type, common), widened(other, right.type, common)
    if not real:
        return F.coalesce(_COMPARED[op](one, other), F.lit(op == "!="))
    # Spark has NaN equal to itself and above all numbers; in Java it is neither.
    if op in ("<", "<="):
        return is_true(_COMPARED[op](one, _unless_nan(other)))
    holds = is_true(_COMPARED["==" if op == "!=" else op](_unless_nan(one), other))
    return ~holds if op == "!=" else holds


def _unless_nan(value: Column) -> Column:
    return F.nanvl(value, F.lit(None).cast("double"))


_COMPARED: dict[str, Callable[[Column, Column], Column]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
_WRITERS: dict[type, Callable[[NativeWriter, Any], Native]] = {
    ast.Literal: NativeWriter._literal,
    ast.TimeLiteral: NativeWriter._time,
    ast.Variable: NativeWriter._variable,
    ast.Not: NativeWriter._not,
    ast.IsNull: NativeWriter._is_null,
    ast.Binary: NativeWriter._binary,
    ast.FunctionCall: NativeWriter._call,
}
