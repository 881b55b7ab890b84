"""Tests of `spdist.operators.expressions.pushdown` as SQL: true for at least the rows that the test holds for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, and_, bindparam, or_

from spdist.operators.expressions.pushdown import Compares, Every, IsNull, Some, Test
from spdist.stores.columns import Columns, storable, value_type

__all__ = ["asked", "parameter", "where"]

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda column, value: column == value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}


def where(test: Test, columns: Columns) -> ColumnElement[bool]:
    """Return a test on the columns of a table; its parameters are called as `parameter` says."""
    if isinstance(test, IsNull):
        is_null: ColumnElement[bool] = columns.table.c[columns.names[test.attribute]].is_(None)
        return is_null
    if isinstance(test, Compares):
        column = columns.table.c[columns.names[test.attribute]]
        compared: ColumnElement[bool] = _OPERATORS[test.op](column, parameter(columns, test.attribute, test.value))
        return compared
    if isinstance(test, Every):
        return and_(*(where(part, columns) for part in test.parts))
    assert isinstance(test, Some)
    return or_(*(where(part, columns) for part in test.parts))


def parameter(columns: Columns, attribute: int, number: int) -> BindParameter[Any]:
    """Return the parameter for value `number`, which an attribute is compared with."""
    return bindparam(f"v{number}", type_=value_type(columns.schema.types[attribute]))


def asked(values: tuple[Any, ...]) -> dict[str, Any]:
    """Return parameters for a search; a text that no database holds becomes null, which finds nothing."""
    return {
        f"v{number}": None if isinstance(value, str) and not storable(value) else value
        for number, value in enumerate(values)
    }
