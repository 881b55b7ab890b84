"""What an app puts out, as the Arrow batches of a result's columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from spdist.engine.frames.plan import FramePlan
from spdist.engine.frames.spark_types import EVENT_TIME, arrow_type
from spdist.errors import MappingError
from spdist.language.types import Schema, Type
from spdist.mapping.columns import ColumnarRows
from spdist.mapping.json_payloads import json_text
from spdist.operators.base import Arrival, Row

__all__ = ["Results"]

#: So many rows are put into one Arrow batch at most.
_ROWS = 10_000
#: The times, ms, that Spark's timestamps reach.
_MOST_MS = (2**63 - 1) // 1000
#: What Arrow says of a value that is not of a column's type.
_MISFITS = (pa.ArrowException, OverflowError, UnicodeEncodeError, TypeError)


class _Stream:
    """What has come out to one stream since it was asked for last.

    State
    -----
    ``sent``: how many events ever.
    """

    def __init__(self, name: str, schema: Schema) -> None:
        self.name = name
        self.schema = schema
        self.sent = 0
        self._times: list[int] = []
        self._rows: list[Row] = []
        self._parts: list[tuple[Any, list[Any]]] = []
        self._objects = [place for place, kind in enumerate(schema.types) if kind is Type.OBJECT]

    def add(self, timestamp: int, row: Row) -> None:
        """Add an event that is put out alone."""
        if self._objects:  # which may change later, in place
            row = tuple(_text(value) if place in self._objects else value for place, value in enumerate(row))
        self._times.append(timestamp)
        self._rows.append(row)

    def add_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Add the events of a chunk."""
        for timestamp, row in arrivals:
            self.add(timestamp, row)

    def add_columns(self, rows: Sequence[Row], times: Any) -> None:
        """Add rows that are put out together, and their times: columns, unless there are objects or operators' rows."""
        self._close()
        columns = []
        for place, (name, kind) in enumerate(self.schema):
            values = rows.column(place) if isinstance(rows, ColumnarRows) else [row[place] for row in rows]
            values = list(map(_text, _listed(values))) if kind is Type.OBJECT else values
            columns.append(self._column(name, kind, values))
        self._parts.append((times, columns))

    def parts(self) -> Iterator[tuple[Any, list[Any]]]:
        """Yield times and columns of what has come since the last call, in order."""
        self._close()
        parts, self._parts = self._parts, []
        for times, columns in parts:
            for begin in range(0, len(times), _ROWS):
                yield times[begin : begin + _ROWS], [column.slice(begin, _ROWS) for column in columns]

    def _close(self) -> None:
        if self._rows:
            values = list(zip(*self._rows, strict=True)) or [()] * len(self.schema)
            columns = [self._column(name, kind, one) for (name, kind), one in zip(self.schema, values, strict=True)]
            self._parts.append((numpy.array(self._times, numpy.int64), columns))
            self._times, self._rows = [], []

    def _column(self, name: str, kind: Type, values: Any) -> Any:
        wanted = arrow_type(kind)
        try:
            return values.cast(wanted) if isinstance(values, pa.Array) else pa.array(values, wanted)
        except _MISFITS:
            # Value by value only where Arrow refuses the whole column
            return pa.array([self._value(name, kind, value) for value in _listed(values)], wanted)

    def _value(self, name: str, kind: Type, value: Any) -> Any:
        """Return a value of a column where one is not as declared: SiddhiQL lets some through."""
        if value is not None and kind in (Type.FLOAT, Type.DOUBLE) and isinstance(value, (int, float)):
            return float(value)
        try:
            pa.array([value], arrow_type(kind))
        except _MISFITS as error:
            raise MappingError(
                f"'{name}' of '{self.name}' is {kind}, but what came out is {value!r}",
                hint=f"'cast' does not change a value; write convert({name}, '{kind}')",
            ) from error
        return value


class Results:
    """Collects what the app of a shard puts out.

    Rows of one stream come in the order in which they were put out; those of several streams one stream after the
    other.

    Parameters
    ----------
    plan : FramePlan
        What is wanted.
    shard : int
        Whose results these are, from 0: ids begin with it.

    State
    -----
    How many events of each stream have come out ever.
    """

    def __init__(self, plan: FramePlan, shard: int) -> None:
        self._streams = [_Stream(name, schema) for name, schema in plan.outputs]
        self._together = plan.together
        self._prefix = str(shard)
        self._fields = [
            pa.struct([pa.field(name, arrow_type(kind)) for name, kind in one.schema]) for one in self._streams
        ]
        self._names = plan.result().names

    def receivers(self) -> Iterator[tuple[str, Callable[..., None], Callable[..., None], Callable[..., None]]]:
        """Yield each stream, and what gathers single events, chunks, and columns of it."""
        for one in self._streams:
            yield one.name, one.add, one.add_chunk, one.add_columns

    def batches(self) -> Iterator[Any]:
        """Yield what has come out since the last call."""
        for number, one in enumerate(self._streams):
            for times, columns in one.parts():
                stamps, ids = self._stamps(times), self._ids(one, len(times))
                if self._together:
                    names = pa.repeat(one.name, len(times))
                    columns = [names, stamps, ids, *self._structs(number, columns, len(times))]
                else:
                    columns = [*columns, stamps, ids]
                yield pa.RecordBatch.from_arrays(columns, self._names)

    def snapshot(self) -> list[int]:
        """Return the state as plain data; nothing may be waiting."""
        return [one.sent for one in self._streams]

    def restore(self, state: Sequence[int]) -> None:
        """Take over the state of a snapshot."""
        for one, sent in zip(self._streams, state, strict=True):
            one.sent = sent

    def _structs(self, number: int, columns: Sequence[Any], count: int) -> Iterator[Any]:
        for place, kind in enumerate(self._fields):
            fields = list(kind)
            yield pa.StructArray.from_arrays(columns, fields=fields) if place == number else pa.nulls(count, kind)

    @staticmethod
    def _stamps(times: Any) -> Any:
        if times.max() > _MOST_MS or times.min() < -_MOST_MS:
            raise MappingError(
                f"an event was put out at {int(abs(times).max())} ms, which no timestamp of Spark reaches"
            )
        return pa.array(times * 1000, pa.int64()).cast(EVENT_TIME)

    def _ids(self, one: _Stream, count: int) -> Any:
        """Return the ids of events: the same whenever a shard is processed again."""
        numbers = numpy.arange(one.sent, one.sent + count)
        one.sent += count
        prefix = f"{one.name}-{self._prefix}-" if self._together else f"{self._prefix}-"
        texts = pa.array(numbers).cast(pa.string())
        return pc.binary_join_element_wise(prefix, texts, "")


def _listed(values: Any) -> Sequence[Any]:
    found: Sequence[Any] = values.to_pylist() if isinstance(values, pa.Array) else values
    return found


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json_text(value)
