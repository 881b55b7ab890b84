"""Between Python's values and events: frames and rows become what a stream takes, and results become a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from spdist.errors import MappingError
from spdist.functions.numbers import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, float32
from spdist.language.types import Schema, Type

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["to_events", "to_frame", "to_row"]

_RANGES = {Type.INT: (INT_MIN, INT_MAX), Type.LONG: (LONG_MIN, LONG_MAX)}
#: Python forms of the types; what is missing (NaN, NaT, None, NA) becomes null before.
_FORMS: dict[Type, Callable[[Any], Any]] = {
    Type.STRING: str,
    Type.INT: int,
    Type.LONG: int,
    Type.FLOAT: float,
    Type.DOUBLE: float,
    Type.BOOL: bool,
}


def to_events(frame: pd.DataFrame, schema: Schema, time: str = "timestamp") -> list[tuple[int, tuple[Any, ...]]]:
    """Return the rows of a frame as ``(timestamp ms, row)``, sorted by time; rows of one time keep their order.

    Parameters
    ----------
    frame : DataFrame
        Has a column for each attribute; others are left out.
    schema : Schema
        The stream's attributes.
    time : str
        The column with the time of each event: timestamps or ISO 8601 texts (UTC where they have no
        zone), or whole ms since 1970.

    Raises
    ------
    MappingError
        A column is missing, a time is missing, or a value is not of the attribute's type; names it.
    """
    missing = [name for name in (time, *schema.names) if name not in frame.columns]
    if missing:
        raise MappingError(
            f"the frame has no column {', '.join(map(repr, missing))}",
            hint=f"it has: {', '.join(map(str, frame.columns))}",
        )
    if frame[time].isna().any():
        raise MappingError(f"{int(frame[time].isna().sum())} rows have no {time}", hint="fill or drop them")
    ordered = frame.assign(**{time: _milliseconds(frame[time])}).sort_values(time, kind="stable")
    columns = [_values(ordered[name], name, kind) for name, kind in schema]
    return list(zip(ordered[time].tolist(), zip(*columns, strict=True), strict=True))


def _milliseconds(times: pd.Series[Any]) -> pd.Series[Any]:
    import pandas as pd

    if pd.api.types.is_integer_dtype(times.dtype):
        return times.astype("int64")
    try:
        instants = pd.to_datetime(times, utc=True, format="ISO8601")
    except (ValueError, TypeError) as error:
        raise MappingError(f"column {times.name!r} holds no times: {error}") from error
    return instants.dt.as_unit("ms").astype("int64")


def _values(column: pd.Series[Any], name: str, kind: Type) -> list[Any]:
    form = _FORMS.get(kind)
    given: list[Any] = column.astype(object).where(column.notna(), None).tolist()
    if form is None:
        return given
    try:
        made = [None if value is None else form(value) for value in given]
    except (ValueError, TypeError) as error:
        raise MappingError(f"column {name!r} does not fit the attribute's type {kind}: {error}") from error
    if kind in (Type.INT, Type.LONG):
        for value, whole in zip(given, made, strict=True):
            if value is not None and value != whole:
                raise MappingError(f"column {name!r} is of type {kind}, {value!r} is not a whole number")
    return made


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
            raise MappingError(f"'{stream}' is {schema}; this does not fit: {values!r}")
        values = [values[name] for name in schema.names]
    elif isinstance(values, str | bytes) or not isinstance(values, Sequence) or len(values) != len(schema):
        raise MappingError(f"'{stream}' is {schema}; this does not fit: {values!r}")
    return tuple(_value(value, kind, name) for value, (name, kind) in zip(values, schema, strict=True))


def _value(value: Any, kind: Type, name: str) -> Any:
    if value is None or kind is Type.OBJECT:
        return value
    if kind is Type.STRING or kind is Type.BOOL or isinstance(value, bool):
        if isinstance(value, {Type.STRING: str, Type.BOOL: bool}.get(kind, ())):
            return value
    elif isinstance(value, Real):
        if kind not in _RANGES:
            return float32(float(value)) if kind is Type.FLOAT else float(value)
        low, high = _RANGES[kind]
        if isinstance(value, Integral) and low <= int(value) <= high:
            return int(value)
    raise MappingError(f"'{name}' is {kind}, this is not: {value!r}")


def to_frame(events: Iterable[tuple[int, Sequence[Any]]], names: Schema | Sequence[str]) -> pd.DataFrame:
    """Return events as a frame: one column for each attribute, indexed by their times (UTC).

    Parameters
    ----------
    events : iterable of (timestamp ms, row)
        As `spdist.run` and `LocalCluster.read` return them.
    names : Schema or sequence of str
        The attributes.
    """
    import pandas as pd

    listed = list(events)
    columns = list(names.names if isinstance(names, Schema) else names)
    index = pd.to_datetime([ts for ts, _ in listed], unit="ms", utc=True).rename("time")
    return pd.DataFrame([row for _, row in listed], columns=columns, index=index)
