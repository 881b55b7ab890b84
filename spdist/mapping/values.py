"""Single values between text and the types of SiddhiQL, as the mappings of Siddhi read and write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spdist.functions.core import parse_double, parse_int, parse_long
from spdist.java.numbers import float32, text_of, text_of_float32
from spdist.language.types import Type
from spdist.mapping.bounds import shown

__all__ = ["read_text", "reader_of", "write_text", "writer_of"]


def writer_of(type: Type) -> Callable[[Any], str]:
    """Return what writes the values of a type: numbers as Java does, null as ``null``."""
    return text_of_float32 if type is Type.FLOAT else text_of


def write_text(value: Any, type: Type) -> str:
    """Return a value as text; null is ``null``."""
    return writer_of(type)(value)


def _float(text: str) -> float | None:
    number = parse_double(text)
    return None if number is None else float32(number)


_READERS: dict[Type, Callable[[str], Any]] = {
    Type.INT: parse_int,
    Type.LONG: parse_long,
    Type.FLOAT: _float,
    Type.DOUBLE: parse_double,
    # Java's Boolean.parseBoolean: whatever is not "true" is false.
    Type.BOOL: lambda text: text.lower() == "true",
    Type.STRING: lambda text: text,
    Type.OBJECT: lambda text: text,
}


def reader_of(type: Type) -> Callable[[str], Any]:
    """Return what reads the values of a type; of a text that is none it makes None."""
    return _READERS[type]


def read_text(text: str, type: Type) -> Any:
    """Return the value that a text is; raises ValueError where it is none of that type."""
    # No reader makes null of a text: None means that it is no such value.
    value = reader_of(type)(text)
    if value is None:
        raise ValueError(f"{shown(text)} is no {type}")
    return value
