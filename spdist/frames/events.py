"""Events of one stream: pairs of time and row to Python, columns to Arrow, pandas and polars."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from spdist.display import Shown, number_of, table_html, time_text
from spdist.errors import SpdistError
from spdist.frames.files import write_file
from spdist.frames.times import TIME_COLUMNS
from spdist.frames.values import to_column
from spdist.java.json.text import text_of_object
from spdist.java.objects import unbox
from spdist.language.types import Schema, Type
from spdist.mapping.columns import ColumnarRows

if TYPE_CHECKING:
    import os

    import pandas as pd
    import polars

__all__ = ["Event", "Row", "StreamEvents", "arrow_table"]

Row = tuple[Any, ...]
Event = tuple[int, Row]

#: Events that are shown one by one; of more, so many from each end.
_SHOWN, _ENDS = 20, 5


class StreamEvents(Sequence[Event], Shown):
    """Events of one stream: a sequence of ``(timestamp ms, row)`` that compares as a list, and a table.

    Parameters
    ----------
    schema : Schema
        The stream's attributes.
    times : sequence of int
        Ms since epoch.
    rows : sequence of tuple
        The values, one row for each time.

    State
    -----
    The events, and as columns once somebody wanted them: O(events).

    Examples
    --------
    >>> events = StreamEvents(Schema.of([("room", "string")]), [0, 1500], [("attic",), ("cellar",)])
    >>> events[1]
    (1500, ('cellar',))
    >>> events == [(0, ("attic",)), (1500, ("cellar",))]
    True
    >>> events.to_pandas().loc["1970-01-01 00:00:01":, "room"].tolist()
    ['cellar']
    """

    __slots__ = ("_table", "rows", "schema", "times")

    def __init__(self, schema: Schema, times: Sequence[int], rows: Sequence[Row]) -> None:
        self.schema = schema
        self.times = times
        self.rows = rows
        self._table: Any = None

    @classmethod
    def of_columns(cls, schema: Schema, times: Any, columns: Sequence[Any]) -> StreamEvents:
        """Return events in the order of their times; those of one time keep their order.

        Parameters
        ----------
        schema : Schema
            The stream's attributes.
        times : numpy.ndarray
            Ms since epoch, int64.
        columns : sequence
            For each attribute the values: Arrow arrays of `spdist.mapping.columns.ARROW`; of objects lists.
        """
        if len(times) and (times[1:] < times[:-1]).any():
            # Stable, so that events of one time keep their order.
            order = numpy.argsort(times, kind="stable")
            times = times[order]
            columns = [
                [column[place] for place in order.tolist()]
                if isinstance(column, list)
                else column.take(pa.array(order))
                for column in columns
            ]
        # Objects have no Arrow type: with one of them all become rows.
        if columns and not any(isinstance(column, list) for column in columns):
            batch = pa.RecordBatch.from_arrays(columns, list(map(str, range(len(columns)))))
            return cls(schema, times.tolist(), ColumnarRows(batch, lambda: None))
        values = [column if isinstance(column, list) else column.to_pylist() for column in columns]
        return cls(schema, times.tolist(), list(zip(*values, strict=True)))

    def in_order(self) -> StreamEvents:
        """Return the events in the order of their times; those of one time keep their order."""
        times = self.times
        # Most come in order: these are neither copied nor looked up.
        if all(before <= after for before, after in pairwise(times)):
            return self
        order = sorted(range(len(times)), key=times.__getitem__)
        return StreamEvents(self.schema, [times[place] for place in order], [self.rows[place] for place in order])

    # --- a sequence
    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[Event]:
        return zip(self.times, self.rows, strict=True)

    @overload
    def __getitem__(self, place: int) -> Event: ...
    @overload
    def __getitem__(self, place: slice) -> StreamEvents: ...
    def __getitem__(self, place: int | slice) -> Event | StreamEvents:
        """Return an event, or some of them."""
        if isinstance(place, slice):
            return StreamEvents(self.schema, self.times[place], self.rows[place])
        return self.times[place], self.rows[place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StreamEvents | list):
            return NotImplemented
        return len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if len(self) <= _SHOWN:
            return repr(list(self))
        first, last = map(repr, (list(self[:_ENDS]), list(self[-_ENDS:])))
        return f"{first[:-1]}, … {len(self) - 2 * _ENDS} more …, {last[1:]}"

    def _repr_html_(self) -> str:
        return self.to_html(number_of(len(self), "event"))

    def to_html(self, caption: str) -> str:
        """Return a table of the first and the last events, with their times in UTC, as HTML."""
        cut = len(self) - 2 * _ENDS
        rows = [_cells(event) for event in (self if cut <= 0 else self[:_ENDS])]
        if cut > 0:
            rows.append([f"… {number_of(cut, 'more event')} …", *("" for _ in self.schema)])
            rows += map(_cells, self[-_ENDS:])
        return table_html(("time (UTC)", *self.schema.names), rows, caption=caption)

    def to_dict(self, most: int | None = 10) -> dict[str, Any]:
        """Return the events as plain data for JSON: the first ones, so many at most; None: all."""
        events = [{"timestamp": ts, "row": list(map(_plain, row))} for ts, row in self[:most]]
        return {"schema": {name: kind.value for name, kind in self.schema}, "count": len(self), "events": events}

    # --- a table
    def to_arrow(self) -> pa.Table:
        """Return the events as an Arrow table: the time (timestamp[ms, UTC]), then the attributes.

        The time's column is called ``timestamp``; where that is an attribute, ``ts``, else ``time``, else
        ``event_time``. Objects become what Arrow makes of them, or texts where they have nothing in common.

        Raises
        ------
        MappingError
            A query has put out a value that is not of its attribute's type.
        """
        if self._table is None:
            # A name that is free: a stream may have an attribute called `timestamp`.
            name = next((one for one in TIME_COLUMNS if one not in self.schema.names), TIME_COLUMNS[-1])
            times = pa.array(self.times, pa.int64()).cast(pa.timestamp("ms", "UTC"))
            self._table = arrow_table(self.schema, self.rows).add_column(0, name, times)
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """Return the events as a data frame, indexed by their times (UTC) under the name ``time``.

        Columns have the types of the attributes; those with nulls, or NaN, pandas' nullable ones: ``Int32``, ``Int64``,
        ``Float32``, ``Float64``, ``boolean``. Text is ``string``.
        """
        import pandas as pd

        times, *columns = self.to_arrow().columns
        frame = pd.DataFrame(dict(zip(self.schema.names, map(_series, columns), strict=True)))
        # Set afterwards: with an index pandas would look up the values of the columns by it.
        frame.index = pd.DatetimeIndex(times.to_pandas(), name="time")
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Return the events as a data frame of polars, with the columns of `to_arrow`.

        Raises
        ------
        SpdistError
            Polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise SpdistError("polars is not installed", hint="pip install 'spdist[polars]'") from error
        return polars.DataFrame(self.to_arrow())

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the events to a Parquet file with the columns of `to_arrow`; a file that is there is replaced.

        Raises
        ------
        MappingError
            It cannot be written.
        """
        write_file(self.to_arrow(), Path(path))


def arrow_table(schema: Schema, rows: Sequence[Row]) -> pa.Table:
    """Return rows as an Arrow table with a column for each attribute, of its type.

    Raises
    ------
    MappingError
        A value is not of its attribute's type.
    """
    columns = []
    for number, (name, kind) in enumerate(schema):
        if isinstance(rows, ColumnarRows):
            column = rows.column(number)
        elif kind is Type.OBJECT:
            column = _objects([row[number] for row in rows])
        else:
            column = to_column([row[number] for row in rows], kind, name)
        # Events carry a float with 64 bits, as a cast double is not rounded; a table has the declared type.
        columns.append(column.cast(pa.float32()) if kind is Type.FLOAT else column)
    return pa.table(columns, list(schema.names))


def _cells(event: Event) -> list[object]:
    time, row = event
    return [time_text(time, "milliseconds") or time, *row]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return json.dumps(value)  # NaN, Infinity: as REST writes them
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _objects(values: list[Any]) -> Any:
    try:
        return pa.array([unbox(value) for value in values])
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array([None if value is None else text_of_object(value) for value in values], pa.string())


def _series(column: Any) -> Any:
    """Return an Arrow column as one of pandas that keeps nulls apart from NaN, and whole numbers whole."""
    import pandas as pd

    if pa.types.is_string(column.type):
        return column.to_pandas(types_mapper=lambda _: pd.StringDtype("pyarrow"))
    real = pa.types.is_floating(column.type)
    if column.null_count or (real and pc.any(pc.is_nan(column)).as_py()):
        return column.to_pandas(types_mapper=_nullable().get)
    return column.to_pandas()


def _nullable() -> dict[Any, Any]:
    import pandas as pd

    return {
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.float32(): pd.Float32Dtype(),
        pa.float64(): pd.Float64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
