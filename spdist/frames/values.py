"""Values of attributes, checked against their types: a column of them as Arrow, or one row.

A column is converted as a whole; its values are looked at one by one only to name the first that does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import pyarrow as pa
from pyarrow import types

from spdist.errors import MappingError
from spdist.java.numbers import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, float32
from spdist.language.types import Schema, Type
from spdist.mapping.bounds import shown
from spdist.mapping.columns import ARROW

__all__ = ["as_arrow", "decoded", "is_text", "to_column", "to_row"]

_RANGES = {Type.INT: (INT_MIN, INT_MAX), Type.LONG: (LONG_MIN, LONG_MAX)}
_HINTS = {
    Type.STRING: "a string is text",
    Type.INT: f"an int is a whole number from {INT_MIN} to {INT_MAX}; a long may be larger",
    Type.LONG: f"a long is a whole number from {LONG_MIN} to {LONG_MAX}",
    Type.FLOAT: "a float is a number",
    Type.DOUBLE: "a double is a number",
    Type.BOOL: "a bool is True or False",
}


def as_arrow(values: Any) -> Any:
    """Return values as an Arrow array, chunked or not; None where they have no Arrow type in common."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        if hasattr(values, "to_arrow"):  # of polars
            return values.to_arrow()
        # Arrow's own interface spares a copy.
        return pa.chunked_array(values) if hasattr(values, "__arrow_c_stream__") else pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def is_text(kind: Any) -> bool:
    """Tell whether an Arrow type is one of those of text."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def decoded(column: Any) -> Any:
    """Return an Arrow column without a dictionary."""
    if not types.is_dictionary(column.type):
        return column
    # Not every text that a dictionary may hold can be looked up by Arrow.
    values = pa.string() if is_text(column.type.value_type) else column.type.value_type
    return column.cast(pa.dictionary(pa.int64(), values)).cast(values)


def to_column(values: Any, kind: Type, name: str) -> Any:
    """Return the values of an attribute as an Arrow array of `spdist.mapping.columns.ARROW`, nulls included.

    Numbers become those of the attribute: whole ones fit a double, and 2.0 fits an int. A float is rounded to 32 bits.

    Parameters
    ----------
    values : array or sequence
        Arrow's, numpy's or pandas' array, or a list.
    kind : Type
        The attribute's type, not ``object``.
    name : str
        Its name, for the error.

    Raises
    ------
    MappingError
        A value is not of the type, or out of its range; names the row, from 0, and the value.
    """
    column = as_arrow(values)
    if column is not None:
        try:
            column = decoded(column)
            if _is_alike(column.type, kind):
                return _cast(column, kind)
        except pa.ArrowException:  # a value may be out of range, or no whole number
            pass
    listed = list(values) if column is None else column.to_pylist()
    fitting = []
    for row, value in enumerate(listed):
        try:
            fitting.append(_value(value, kind, name))
        except MappingError as error:
            raise MappingError(f"row {row}: {error.message}", hint=f"{error.hint}; rows count from 0") from None
    try:
        return pa.array(fitting, ARROW[kind])
    except UnicodeEncodeError as error:
        raise MappingError(f"'{name}' holds half a character: {shown(error.object)}") from error


def _is_alike(found: Any, kind: Type) -> bool:
    """Tell whether a column of an Arrow type may become one of an attribute's type, as far as values are in range."""
    if types.is_null(found):
        return True
    if kind is Type.STRING:
        return is_text(found)
    if kind is Type.BOOL:
        return bool(types.is_boolean(found))
    return bool(types.is_integer(found) or types.is_floating(found) or types.is_decimal(found))


def _cast(column: Any, kind: Type) -> Any:
    real = kind is Type.FLOAT or kind is Type.DOUBLE
    # Whole numbers are checked, so that 2.5 is no int; a real may lose digits, as in Java.
    made = column.cast(ARROW[kind], safe=not real)
    if kind is Type.FLOAT:
        # Rounded to 32 bits and carried with 64, as all floats are.
        made = made.cast(pa.float32(), safe=False).cast(ARROW[kind])
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


def to_row(values: Sequence[Any] | Mapping[str, Any], schema: Schema, stream: str) -> tuple[Any, ...]:
    """Return the values of an event as a row of its stream: of the attributes' types, or null.

    Parameters
    ----------
    values : sequence or mapping
        In the order of the attributes, or by their names. Numbers of numpy are numbers.
    schema : Schema
        The stream's attributes.
    stream : str
        Its name, for the error.

    Raises
    ------
    MappingError
        There are too few or too many values, or one is not of its attribute's type; names it.
    """
    if isinstance(values, Mapping):
        if set(values) != set(schema.names):
            raise MappingError(f"'{stream}' is {schema}; this does not fit: {shown(values)}")
        values = [values[name] for name in schema.names]
    elif isinstance(values, str | bytes) or not isinstance(values, Sequence) or len(values) != len(schema):
        raise MappingError(f"'{stream}' is {schema}; this does not fit: {shown(values)}")
    return tuple(_value(value, kind, name) for value, (name, kind) in zip(values, schema, strict=True))


def _value(value: Any, kind: Type, name: str) -> Any:
    if value is None or kind is Type.OBJECT:
        return value
    # A scalar of numpy is no int to Python.
    plain: Any = value.item() if hasattr(value, "dtype") and hasattr(value, "item") else value
    is_number = isinstance(plain, Real | Decimal) and not isinstance(plain, bool)
    if kind in _RANGES:
        low, high = _RANGES[kind]
        # The range first: int() raises for infinities and NaN, which no range has.
        if is_number and low <= plain <= high and plain == int(plain):
            return int(plain)
    elif kind is Type.FLOAT or kind is Type.DOUBLE:
        if is_number:
            return float32(float(plain)) if kind is Type.FLOAT else float(plain)
    elif isinstance(plain, str if kind is Type.STRING else bool):
        return plain
    raise MappingError(f"'{name}' is {kind}, this is not: {shown(value)}", hint=_HINTS[kind])
