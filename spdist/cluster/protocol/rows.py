"""Values of events as JSON, both ways and exactly: what `POST` and `GET` of a stream's events carry. Pure.

A value of a plain type is the JSON value of that type; what JSON has no number for is one of the texts ``NaN``,
``Infinity`` and ``-Infinity``. An ``object`` is written as between groups (`spdist.transports.payloads.payload`): plain
values and lists as they are, others with a tag, such as ``{"d": [[key, value]]}`` for a dictionary.
"""

from __future__ import annotations

import json
import math
from typing import Any

from spdist.errors import MappingError
from spdist.language.types import Schema, Type

__all__ = ["from_json_event", "from_json_row", "schema_to_json", "to_json_row"]

_NO_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_REALS = (Type.FLOAT, Type.DOUBLE)


def to_json_row(row: tuple[Any, ...]) -> list[Any]:
    """Return the values of an event as JSON values."""
    return [_to_json(value) for value in row]


def from_json_row(schema: Schema, values: list[Any]) -> tuple[Any, ...]:
    """Return the row of JSON values; whether it fits its stream is not looked at.

    Raises
    ------
    MappingError
        An object has a tag that is none.
    """
    kinds = schema.types if len(schema) == len(values) else (Type.OBJECT,) * len(values)
    return tuple(_from_json(kind, value) for kind, value in zip(kinds, values, strict=True))


def from_json_event(schema: Schema, values: list[Any] | dict[str, Any]) -> tuple[Any, ...]:
    """Return the row of an event as outsiders write it: values in the stream's order, or by their names.

    Raises
    ------
    MappingError
        A name is missing or none of the stream's, or an object has a tag that is none.
    """
    if isinstance(values, dict):
        if values.keys() != set(schema.names):
            raise MappingError(f"it has the attributes ({', '.join(values)}), the stream has {schema}")
        values = [values[name] for name in schema.names]
    return from_json_row(schema, values)


def schema_to_json(schema: Schema) -> list[list[str]]:
    """Return the attributes as pairs of name and type; `Schema.of` reads them."""
    return [[name, kind.value] for name, kind in schema]


def _to_json(value: Any) -> Any:
    # The exact type: Java's Long and Float are subclasses of int and float here, and bear tags
    if value is None or isinstance(value, str | bool) or type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else _name(value)
    # What packs objects loads pandas, which a manager or a client does not need before it meets one.
    from spdist.transports.payloads.payload import pack_value

    return _numbered(json.loads(pack_value(value)))


def _numbered(value: Any) -> Any:
    """Return what `pack_value` has made with names for what is no number in JSON."""
    if isinstance(value, list):
        return [_numbered(one) for one in value]
    if isinstance(value, dict):
        return {tag: _numbered(one) for tag, one in value.items()}
    return {"n": _name(value)} if isinstance(value, float) and not math.isfinite(value) else value


def _name(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _from_json(kind: Type, value: Any) -> Any:
    if kind in _REALS and isinstance(value, str):
        return _NO_NUMBERS.get(value, value)
    if not isinstance(value, list | dict):
        return value
    from spdist.transports.payloads.payload import unpack_value

    try:
        return unpack_value(json.dumps(_real(value)))
    except (KeyError, ValueError, TypeError, RecursionError, AttributeError) as error:
        raise MappingError(
            f"{str(value)[:80]} is no value: {error!r}",
            hint="a dictionary is written {'d': [[key, value], …]}; lists and plain values as they are",
        ) from error


def _real(value: Any) -> Any:
    """Undo `_numbered`."""
    if isinstance(value, list):
        return [_real(one) for one in value]
    if isinstance(value, dict):
        return _NO_NUMBERS[value["n"]] if value.keys() == {"n"} else {tag: _real(one) for tag, one in value.items()}
    return value
