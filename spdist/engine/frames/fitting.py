"""Whether the columns of a frame are what a stream needs, and what to write where they are not."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from typing import get_args

from pyspark.sql.types import DataType, StructType

from spdist.engine.frames.spark_types import fits, sql_name, times_fit
from spdist.errors import MappingError
from spdist.frames.times import TimeUnit, time_column
from spdist.language.types import Schema

__all__ = ["FrameInput", "FrameRequest", "frame_input", "misfits"]

_UNITS = get_args(TimeUnit)


@dataclass(frozen=True, slots=True)
class FrameRequest:
    """What a user asks for; see `spdist.transform`."""

    time: str | Mapping[str, str] | None = None
    output: str | Sequence[str] | None = None
    key: str | Mapping[str, str] | None = None
    shards: int | None = None
    order: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None
    time_unit: TimeUnit | None = None
    until: int | str | date | None = None
    checkpoint: str | os.PathLike[str] | None = None
    name: str | None = None
    event_time: str = "event_time"
    event_id: str = "event_id"
    scripts: bool | None = None


@dataclass(frozen=True, slots=True)
class FrameInput:
    """A frame that is the events of a stream.

    Parameters
    ----------
    stream : str
        Its name.
    schema : Schema
        Its attributes: columns of the frame have these names.
    time : str
        The column that says when a row was.
    unit : {'s', 'ms', 'us', 'ns'}, optional
        That of its numbers; None where it holds timestamps or dates.
    order : tuple of str
        Columns in whose order rows of one time go.
    key : str, optional
        The attribute by whose value rows are split; None where any shard will do.
    """

    stream: str
    schema: Schema
    time: str
    unit: TimeUnit | None
    order: tuple[str, ...] = ()
    key: str | None = None


def frame_input(stream: str, schema: Schema, frame: StructType, key: str | None, request: FrameRequest) -> FrameInput:
    """Return how a frame is the events of a stream; raises MappingError where the request does not say it."""
    wanted = request.time.get(stream) if isinstance(request.time, Mapping) else request.time
    time = time_column(frame.names, schema, None) if wanted is None else wanted
    unit = request.time_unit or "ms"
    if unit not in _UNITS:
        raise MappingError(f"there is no time unit {unit!r}", hint=f"it is one of {', '.join(_UNITS)}")
    asked = request.order.get(stream, ()) if isinstance(request.order, Mapping) else request.order or ()
    order = (asked,) if isinstance(asked, str) else tuple(asked)
    counts = _type_of(frame, time) is not None and times_fit(frame[time].dataType) is None
    return FrameInput(stream, schema, time, unit if counts else None, order, key)


def _type_of(frame: StructType, column: str) -> DataType | None:
    # Several columns of a frame may have one name
    return frame[column].dataType if frame.names.count(column) == 1 else None


def misfits(one: FrameInput, frame: StructType) -> list[tuple[str, str | None]]:
    """Return what does not fit, each with what to write instead."""
    found: list[tuple[str, str | None]] = []
    for name in dict.fromkeys((one.time, *one.order, *one.schema.names)):
        if _type_of(frame, name) is None:
            found.append(_missing(one, frame, name))
    if found:
        return found
    if times_fit(frame[one.time].dataType) is False:
        said = frame[one.time].dataType.simpleString()
        cast = f".withColumn({one.time!r}, F.to_timestamp({one.time!r}))"
        found.append((f"the column {one.time!r} of the frame of '{one.stream}' is {said}, which is no time", cast))
    for name, kind in one.schema:
        column = frame[name].dataType
        if not fits(column, kind):
            said = column.simpleString()
            cast = f".withColumn({name!r}, F.col({name!r}).cast({sql_name(kind)!r}))"
            message = f"the column {name!r} of the frame of '{one.stream}' is {said}, the attribute is {kind}"
            found.append((message, cast))
    return found


def _missing(one: FrameInput, frame: StructType, name: str) -> tuple[str, str | None]:
    if name in frame.names:
        return f"the frame of '{one.stream}' has several columns {name!r}", "keep one of them, with .select(…)"
    near = [column for column in frame.names if column.lower() == name.lower()]
    near = near or get_close_matches(name, frame.names, 1)
    hint = f".withColumnRenamed({near[0]!r}, {name!r})" if near else f"it has: {', '.join(frame.names)}"
    return f"the frame of '{one.stream}' has no column {name!r}", hint
