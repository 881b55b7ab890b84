"""Times of events in any usual form, as ms since 1970, and which column holds them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Literal, SupportsIndex

import numpy
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from spdist.clock import iso_ms, written_ms
from spdist.errors import MappingError
from spdist.frames.values import as_arrow, decoded, is_text
from spdist.language.checking.scope import suggestion
from spdist.language.types import Schema
from spdist.mapping.bounds import shown

__all__ = ["TIME_COLUMNS", "TimeUnit", "instant", "milliseconds", "time_column", "written_instant"]

TimeUnit = Literal["s", "ms", "us", "ns"]

#: What a column of times is called where nobody says so, the likeliest first; results use the first that is free.
TIME_COLUMNS = ("timestamp", "ts", "time", "event_time")
_PER_MS: dict[str, float] = {"s": 0.001, "ms": 1, "us": 1_000, "ns": 1_000_000}
#: Between which bounds numbers are of a unit, as they would lie in the first months of 1970 as ms, or after 5138.
_SURELY: dict[str, tuple[float, float, str]] = {
    "s": (1e8, 1e10, "in the first months of 1970"),
    "us": (1e14, 1e17, "after the year 5138"),
    "ns": (1e17, 1e19, "millions of years ahead"),
}
_HINT = (
    "times are datetimes, texts such as 2023-11-14T22:13:20Z (UTC where they have no zone), or numbers since 1970: "
    "ms, or what time_unit says"
)


def time_column(names: Sequence[str], schema: Schema, wanted: str | None, index: str | None = None) -> str:
    """Return the name of the column with the times of events.

    Parameters
    ----------
    names : sequence of str
        All columns.
    schema : Schema
        The attributes of the stream: an attribute called ``timestamp`` holds times only where nothing else does.
    wanted : str, optional
        What the caller has said.
    index : str, optional
        A column that holds times for sure.

    Raises
    ------
    MappingError
        There is no such column; lists those that there are.
    """
    listed = f"there are: {', '.join(map(str, names))}"
    if wanted is not None:
        if wanted in names:
            return wanted
        near = suggestion(wanted, map(str, names))
        raise MappingError(f"there is no column '{wanted}'", hint=f"{near} {listed}" if near else listed)
    usual = [name for name in TIME_COLUMNS if name in names]
    own = [name for name in usual if name not in schema.names]
    # What is no attribute comes first: an attribute called `time` may mean something else.
    for found in (*own, index, *usual):
        if found is not None:
            return found
    raise MappingError(
        f"no column holds the times of the events: none is called {', '.join(TIME_COLUMNS[:-1])}",
        hint=f"pass time='…' with the name of that column; {listed}",
    )


def instant(value: SupportsIndex | str | date) -> int:
    """Return a point in time as ms since 1970: such a number, a datetime, or ISO 8601 text.

    Raises
    ------
    MappingError
        It is none of these.
    """
    if isinstance(value, SupportsIndex):
        return int(value)
    try:
        return int(milliseconds([value], "until")[0])
    except MappingError:
        raise MappingError(f"{shown(value)} is no time", hint=_HINT) from None


def written_instant(text: str) -> int:
    """Return a point in time as a person writes it in a command: ms since 1970, or ISO 8601 text.

    A number is ms, also one of four digits: no year.

    Raises
    ------
    MappingError
        It is neither.
    """
    try:
        return written_ms(text)
    except ValueError:
        return instant(text)


def milliseconds(values: Any, name: str, unit: TimeUnit | None = None) -> Any:
    """Return times as ms since 1970, an int64 array; what is finer is cut off.

    Parameters
    ----------
    values : array or sequence
        Datetimes with or without zone (UTC), dates, ISO 8601 texts, or numbers.
    name : str
        What they are called, for the error.
    unit : {'s', 'ms', 'us', 'ns'}, optional
        Of numbers; by default ms, unless they can only be something else: then that is an error.

    Raises
    ------
    MappingError
        One is missing or no time, which names its row; or the unit has to be said.
    """
    column = as_arrow(values)
    if column is None:
        raise MappingError(f"'{name}' holds no times, or several kinds of them: {shown(list(values)[:3])}", hint=_HINT)
    column = decoded(column)
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise MappingError(
            f"{column.null_count} rows have no '{name}', the first is row {row}", hint="drop them, or fill in a time"
        )
    kind = column.type
    if types.is_timestamp(kind):
        ticks = _numpy(column.cast(pa.int64()))
        # Floored and not cut towards zero, so that times before 1970 stay in their ms.
        return ticks * 1000 if kind.unit == "s" else ticks // int(_PER_MS[kind.unit])
    if types.is_date(kind):
        return _of_dates(values, column, name)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _of_numbers(column, name, unit)
    if is_text(kind):
        return _of_texts(column, name)
    if types.is_null(kind):
        return numpy.empty(0, numpy.int64)
    raise MappingError(f"'{name}' holds no times, but {kind}: {shown(column[0].as_py())}", hint=_HINT)


def _numpy(column: Any) -> Any:
    return column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)


def _of_dates(values: Any, column: Any, name: str) -> Any:
    # Arrow takes datetimes for dates where they follow a date.
    if isinstance(values, Sequence) and any(isinstance(value, datetime) for value in values):
        raise MappingError(f"'{name}' holds dates and datetimes", hint="make datetimes of all of them")
    return _numpy(column.cast(pa.timestamp("ms")).cast(pa.int64()))


def _of_numbers(column: Any, name: str, unit: TimeUnit | None) -> Any:
    whole = types.is_integer(column.type)
    numbers = _numpy(column if whole else column.cast(pa.float64(), safe=False))
    if unit is None and len(numbers):
        _check_unit(numbers, name)
    per_ms = _PER_MS[unit or "ms"]
    far = ~(numpy.abs(numbers.astype(numpy.float64)) / per_ms < 2.0**63)  # NaN is not less, either
    if far.any():
        row = int(far.argmax())
        raise MappingError(f"row {row}: {numbers[row]} in '{name}' is no time", hint=f"{_HINT}; rows count from 0")
    if not whole:
        # Rounded: seconds such as 1.001 are no exact double, and would lose a ms.
        return numpy.rint(numbers / per_ms).astype(numpy.int64)
    # Whole numbers stay whole: ns since 1970 have more digits than a double.
    numbers = numbers.astype(numpy.int64)
    return numbers * 1000 if unit == "s" else numbers // int(per_ms)


def _check_unit(numbers: Any, name: str) -> None:
    least, most = float(numbers.min()), float(numbers.max())
    for unit, (low, high, there) in _SURELY.items():
        if low <= least and most <= high:
            said = {"s": "seconds", "us": "microseconds", "ns": "nanoseconds"}[unit]
            raise MappingError(
                f"the times in '{name}' look like {said}: as ms, {numbers[0]} lies {there}",
                hint=f"pass time_unit='{unit}', or time_unit='ms' where that is meant",
            )


def _of_texts(column: Any, name: str) -> Any:
    import pandas as pd

    column = column.cast(pa.string())
    # Pandas would take `now` for a time.
    dated = pc.if_else(pc.match_substring_regex(column, r"^\s*\d{4}"), column, None)
    found = pd.to_datetime(dated.to_pandas(), utc=True, format="ISO8601", errors="coerce")
    made = found.dt.as_unit("ms").to_numpy("datetime64[ms]").astype(numpy.int64)
    for row in numpy.flatnonzero(found.isna()).tolist():  # or they are far from our days
        text = column[row].as_py()
        try:
            made[row] = iso_ms(text.strip())
        except ValueError:
            hint = f"{_HINT}; rows count from 0"
            raise MappingError(f"row {row}: {shown(text)} in '{name}' is no time", hint=hint) from None
    return made
