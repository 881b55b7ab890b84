"""The values of written cases: read as the attribute's type or as one that is stated, written as JSON has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from decimal import Decimal
from typing import Any

from spdist.errors import MappingError
from spdist.java.numbers import float32, wrap32, wrap64
from spdist.java.objects import HashSet, Opaque, box_float, box_long
from spdist.language.types import Schema, Type

__all__ = ["read_row", "write_value"]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


_READERS: dict[Type, Callable[[Any], Any]] = {
    Type.INT: lambda value: wrap32(int(value)),
    Type.LONG: lambda value: wrap64(int(value)),
    Type.FLOAT: lambda value: float32(float(value)),
    Type.DOUBLE: float,
    # As the engine takes JSON for a bool: whatever is not true is false.
    Type.BOOL: lambda value: str(value).lower() == "true",
    Type.STRING: _text,
    # A copy, since functions change the lists and maps that they are given.
    Type.OBJECT: deepcopy,
}
_BOXERS: dict[str, Callable[[Any], Any]] = {"$long": box_long, "$float": box_float}


def read_row(data: Iterable[Any], schema: Schema) -> tuple[Any, ...]:
    """Return what a case sends as a row.

    Parameters
    ----------
    data : iterable
        JSON values; ``{"$int": 3}``, likewise ``$long``, ``$float``, ``$double``, ``$bool``, ``$string``, states
        a type.
    schema : Schema
        The stream's attributes.

    Raises
    ------
    MappingError
        There are too many or too few values, or one does not fit its attribute.
    """
    values = list(data)
    if len(values) != len(schema):
        raise MappingError(f"{len(values)} values for {len(schema)} attributes {schema}: {values}")
    return tuple(_read(value, kind, name) for value, (name, kind) in zip(values, schema, strict=True))


def _read(value: Any, kind: Type, name: str) -> Any:
    if value is None:
        return None
    if isinstance(value, Mapping) and len(value) == 1:
        ((stated, inner),) = value.items()
        if stated[:1] == "$" and stated[1:] in {known.value for known in Type}:
            plain = None if inner is None else _read(inner, Type(stated[1:]), name)
            # What states its type for an attribute of any type is an object of that type.
            return _BOXERS.get(stated, lambda value: value)(plain) if kind is Type.OBJECT else plain
    try:
        return _READERS[kind](value)
    except (TypeError, ValueError, OverflowError) as error:
        raise MappingError(f"'{name}' is {kind}, this is not: {value!r}") from error


def write_value(value: Any) -> Any:
    """Return a value as JSON has it: lists, sets and maps as such, decimals that JSON cannot write as ``$double``."""
    if isinstance(value, float):
        if math.isnan(value):
            return {"$double": "NaN"}
        return float(value) if math.isfinite(value) else {"$double": "Infinity" if value > 0 else "-Infinity"}
    # A bool before the ints, since to Python it is one.
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return int(value)
    if isinstance(value, list | tuple | HashSet):
        return [write_value(part) for part in value]
    if isinstance(value, set | frozenset):
        # A set of Python has no order of its own: by their texts it is the same each time.
        return sorted((write_value(part) for part in value), key=repr)
    if isinstance(value, Mapping):
        return {_key(key): write_value(part) for key, part in value.items()}
    return {"$object": _java_class(value), "text": str(value)}


def _java_class(value: Any) -> str:
    if isinstance(value, Opaque):
        return value.java_class
    named = {int: "java.math.BigInteger", Decimal: "java.math.BigDecimal"}
    return named.get(type(value), type(value).__name__)


def _key(key: Any) -> str:
    return "null" if key is None else _text(key)
