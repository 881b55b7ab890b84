"""From what people have to events: frames, tables, files, columns and rows, checked against the stream's schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from spdist.errors import MappingError
from spdist.frames.columns import NamedColumns
from spdist.frames.events import Event, Row, StreamEvents
from spdist.frames.sources import columns_of
from spdist.frames.times import TimeUnit, milliseconds, time_column
from spdist.frames.values import to_column
from spdist.language.checking.scope import suggestion, undefined
from spdist.language.types import Schema, Type
from spdist.mapping.bounds import shown

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_events", "read_streams", "to_events", "to_frame"]

_PAIR = "for example: (1700000000000, ('tea', 2.5)), with the time in ms since epoch"


def to_events(frame: Any, schema: Schema, time: str | None = None, *, time_unit: TimeUnit | None = None) -> list[Event]:
    """Return the rows of a frame as ``(timestamp ms, row)``, sorted by time; rows of one time keep their order.

    Parameters
    ----------
    frame : DataFrame or other events
        All forms that `spdist.run` takes. It has a column for each attribute; others are left out.
    schema : Schema
        The stream's attributes.
    time : str, optional
        The column with the time of each event; by default ``timestamp``, ``ts`` or ``time``, or an index of datetimes.
    time_unit : {'s', 'ms', 'us', 'ns'}, optional
        Of times that are numbers; by default ms.

    Raises
    ------
    MappingError
        A column is missing, a time is missing, or a value is not of the attribute's type; names it.

    Examples
    --------
    >>> to_events({"ts": ["2023-11-14T22:13:20Z"], "room": ["attic"]}, Schema.of([("room", "string")]))
    [(1700000000000, ('attic',))]
    """
    return list(read_events(frame, schema, time, time_unit))


def to_frame(events: Iterable[tuple[int, Sequence[Any]]], names: Schema | Sequence[str]) -> pd.DataFrame:
    """Return events as a frame: one column for each attribute, indexed by their times (UTC).

    Parameters
    ----------
    events : iterable of (timestamp ms, row)
        As `spdist.run` and `LocalCluster.read` return them.
    names : Schema or sequence of str
        The attributes; with a schema the columns have their types, see `spdist.frames.StreamEvents.to_pandas`.

    Raises
    ------
    MappingError
        A value is not of its attribute's type.
    """
    if isinstance(events, StreamEvents) and events.schema == names:
        return events.to_pandas()
    listed = list(events)
    times, rows = [ts for ts, _ in listed], [tuple(row) for _, row in listed]
    if isinstance(names, Schema):
        return StreamEvents(names, times, rows).to_pandas()
    import pandas as pd

    # As ms and not as ns, whose range ends in the year 2262.
    index = pd.DatetimeIndex(pd.array(times, "datetime64[ms]"), name="time").tz_localize("UTC")
    return pd.DataFrame(rows, columns=list(names), index=index)


def read_events(given: Any, schema: Schema, time: str | None = None, time_unit: TimeUnit | None = None) -> StreamEvents:
    """Return what is given as the events of a stream, in the order of their times; those of one time keep their order.

    Parameters
    ----------
    given
        A data frame of pandas or polars, a table, batch or reader of batches of Arrow, the path of a file, a mapping of
        columns, an iterable of dictionaries, or one of pairs ``(time, row)``, where a row is a sequence or a
        dictionary.
    schema : Schema
        The stream's attributes. NamedColumns that are none of them are left out.
    time, time_unit
        See `to_events`.

    Raises
    ------
    MappingError
        A column or a time is missing, or a value is not of its attribute's type; names it.
    """
    if isinstance(given, StreamEvents):
        if given.schema == schema:
            return given.in_order()
        # Its times are ms since 1970, whatever the caller says of other events.
        time_unit = "ms"
    columns = columns_of(given, schema)
    if columns is None:
        rows = list(given)
        if not rows or not isinstance(rows[0], Mapping):
            return _of_pairs(rows, schema, time_unit)
        columns = _of_dictionaries(rows)
    return _of_columns(columns, schema, time, time_unit)


def read_streams(
    given: Any,
    streams: Mapping[str, Schema],
    time: str | Mapping[str, str] | None = None,
    time_unit: TimeUnit | None = None,
) -> dict[str, StreamEvents]:
    """Return what is given by stream as events; see `read_events`.

    Parameters
    ----------
    given : mapping of str
        By stream.
    streams : mapping of str to Schema
        All streams of the app.
    time : str or mapping of str to str, optional
        The column with the times, for all or by stream.
    time_unit
        See `to_events`.

    Raises
    ------
    UndefinedNameError
        The app has no such stream.
    MappingError
        What is given does not fit; names the stream.
    """
    if not isinstance(given, Mapping):
        one = next(iter(streams), "S")
        raise MappingError(f"events are given by stream, not as {type(given).__name__}", hint=f"pass {{'{one}': …}}")
    by_stream = time if isinstance(time, Mapping) else dict.fromkeys(given, time)
    for stream in (*given, *by_stream):
        if stream not in streams:
            raise undefined("stream", stream, None, streams)
    made = {}
    for stream, events in given.items():
        try:
            made[stream] = read_events(events, streams[stream], by_stream.get(stream), time_unit)
        except MappingError as error:
            raise MappingError(f"stream '{stream}': {error.message}", hint=error.hint) from error
    return made


def _of_columns(columns: NamedColumns, schema: Schema, time: str | None, time_unit: TimeUnit | None) -> StreamEvents:
    if not columns.names:  # as of an empty file
        return StreamEvents(schema, [], [])
    name = time_column(columns.names, schema, time, columns.index)
    _check_names(columns.names, (name, *schema.names))
    times = milliseconds(columns.get(name), name, time_unit)
    made = []
    for attribute, kind in schema:
        values = columns.get(attribute)
        if (count := len(values)) != len(times):
            raise MappingError(f"there are {len(times)} values in '{name}', but {count} in '{attribute}'")
        made.append(_column(values, kind, attribute))
    return StreamEvents.of_columns(schema, times, made)


def _column(values: Any, kind: Type, name: str) -> Any:
    if kind is not Type.OBJECT:
        return to_column(values, kind, name)
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


def _check_names(names: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise an error unless there is one column of each name."""
    if missing := [name for name in wanted if name not in names]:
        near = suggestion(missing[0], map(str, names))
        listed = f"there are: {', '.join(map(str, names))}"
        raise MappingError(
            f"there is no column {', '.join(map(repr, missing))}", hint=f"{near} {listed}" if near else listed
        )
    for name in wanted:
        if list(names).count(name) > 1:
            raise MappingError(f"there are several columns '{name}'", hint="leave out or rename all but one of them")


def _of_dictionaries(rows: list[Any]) -> NamedColumns:
    """Return the columns of dictionaries; which there are is said by the first one."""

    def get(name: str) -> list[Any]:
        try:
            # One call for the column; which row has no such name is looked for only when that fails.
            return list(map(itemgetter(name), rows))
        except (LookupError, TypeError):
            for row, values in enumerate(rows):
                if not isinstance(values, Mapping) or name not in values:
                    hint = "write None where there is no value; rows count from 0"
                    raise MappingError(f"row {row} has no '{name}': {shown(values)}", hint=hint) from None
            raise

    return NamedColumns(list(rows[0]), get)


def _of_pairs(pairs: list[Any], schema: Schema, time_unit: TimeUnit | None) -> StreamEvents:
    for row, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise MappingError(f"row {row}: an event is a pair (time, row), this is not: {shown(pair)}", hint=_PAIR)
    times = milliseconds([time for time, _ in pairs], "time", time_unit)
    names = frozenset(schema.names)
    rows = [_in_order(row, values, schema, names) for row, (_, values) in enumerate(pairs)]
    columns: Iterable[Row] = zip(*rows, strict=True) if rows else ((),) * len(schema)
    made = [_column(list(values), kind, name) for values, (name, kind) in zip(columns, schema, strict=True)]
    return StreamEvents.of_columns(schema, times, made)


def _in_order(row: int, values: Any, schema: Schema, names: frozenset[str]) -> Sequence[Any]:
    """Return the values of an event in the order of the attributes."""
    # Tuples first, as most rows are: the check of an abstract class costs more.
    if type(values) is tuple or (isinstance(values, Sequence) and not isinstance(values, str | bytes)):
        if len(values) == len(schema):
            return values
    elif isinstance(values, Mapping) and values.keys() == names:
        return [values[name] for name in schema.names]
    raise MappingError(
        f"row {row}: the stream is {schema}, this does not fit: {shown(values)}", hint="rows count from 0"
    )
