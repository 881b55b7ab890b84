"""The rows of all frames in one form, as they go from the frames through Spark to the engine.

Columns: ``shard`` where rows are split; ``time``, µs since epoch; ``stream``, the number of the frame; for each frame
what orders rows of one time, and its attributes, which are null in rows of the others. A row with a negative number of
a stream is no event: it tells all shards when events are (`spdist.engine.frames.spans`), and comes before all events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spdist.engine.frames.fitting import FrameInput
from spdist.engine.frames.plan import FramePlan
from spdist.engine.frames.spans import Intervals, covered
from spdist.engine.frames.spark_types import wire_type
from spdist.errors import MappingError

__all__ = ["Told", "Wire", "by_shard", "control_rows", "milliseconds", "value_column"]

#: Of rows that tell when an interval of events begins, and when it ends.
_BEGINS, _ENDS = -1, -2
#: Such a row has its time so much earlier, µs: no event is as early, nor as late.
_EARLIER = 1 << 62
_FARTHEST = 1 << 61
#: How many µs one of a unit is.
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True, slots=True)
class Wire:
    """The rows of some frames as one frame.

    Parameters
    ----------
    rows : DataFrame
        They have all columns but ``shard``.
    order : tuple of str
        The columns by which events of one shard are sorted, but for their time.
    """

    rows: DataFrame
    order: tuple[str, ...]

    @classmethod
    def of(cls, plan: FramePlan, frames: Sequence[DataFrame]) -> Wire:
        """Return the rows of `frames`, which are those of the plan's inputs."""
        fields = [(one, frame.schema) for one, frame in zip(plan.inputs, frames, strict=True)]
        parts = [frame.select(*_selected(fields, number)) for number, frame in enumerate(frames)]
        rows = reduce(DataFrame.union, parts)
        # Nothing depends on the order in which Spark brings rows: those of one time and order go by their values.
        compared = [name for name, kind in rows.dtypes[2:] if not kind.startswith(("map", "array", "struct"))]
        return cls(rows, ("stream", *compared))

    def ddl(self, *more: str) -> str:
        """Return the columns in Spark's words, with more in front."""
        return ", ".join((*more, *(f"{name} {kind}" for name, kind in self.rows.dtypes)))


def value_column(number: int, attribute: int) -> str:
    """Return the column of an attribute of frame `number`."""
    return f"value_{number}_{attribute}"


def _selected(fields: Sequence[tuple[FrameInput, StructType]], number: int) -> Iterator[Column]:
    """Yield the columns of the wire out of those of frame `number`."""
    yield _micros(fields[number][0]).alias("time")
    yield F.lit(number).cast("tinyint").alias("stream")
    for place, (one, schema) in enumerate(fields):
        for position, name in enumerate(one.order):
            kind = schema[name].dataType.simpleString()
            yield _own(name, kind, place == number).alias(f"order_{place}_{position}")
        for position, (name, attribute) in enumerate(one.schema):
            kind = wire_type(schema[name].dataType, attribute)
            yield _own(name, kind, place == number).alias(value_column(place, position))


def _own(name: str, kind: str, own: bool) -> Column:
    return (_named(name) if own else F.lit(None)).cast(kind)


def _micros(one: FrameInput) -> Column:
    column = _named(one.time)
    if one.unit is None:
        return F.unix_micros(column.cast("timestamp"))
    number = column.cast("bigint")
    if one.unit == "ns":
        # `div` goes towards 0, which before 1970 is later; all other times are rounded down
        return F.call_function("div", number - F.pmod(number, F.lit(1000)), F.lit(1000))
    # Null where it overflows: `milliseconds` refuses that, and names the frame and its column
    return F.try_multiply(number, F.lit(_MICROS[one.unit]).cast("bigint"))


def _named(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


# ------------------------------------------------------------------------------------------------------------- in tasks
def milliseconds(batch: Any, plan: FramePlan) -> Any:
    """Return the times of events in ms, an int64 `numpy.ndarray`.

    Raises
    ------
    MappingError
        One has no time, or one that is too far.
    """
    column = batch.column("time")
    if column.null_count:
        _refuse(batch.filter(pc.is_null(column)), plan, "have no time in the column")
    times = column.to_numpy(zero_copy_only=False)
    if len(times) and (times.max() >= _FARTHEST or times.min() <= -_FARTHEST):
        _refuse(batch, plan, "are farther away than 70,000 years by the column")
    return numpy.floor_divide(times, 1000)


def _refuse(batch: Any, plan: FramePlan, what: str) -> None:
    one = plan.inputs[batch.column("stream")[0].as_py()]
    unit = "" if one.unit is None else "; for numbers in another unit than ms say time_unit='s', 'us' or 'ns'"
    raise MappingError(
        f"rows of the frame of '{one.stream}' {what} '{one.time}'",
        hint=f"fill or drop them before: .where(F.col({one.time!r}).isNotNull()){unit}",
    )


def control_rows(intervals: Intervals, shards: int, like: Any) -> Any:
    """Return the rows that tell each shard when events are, as an Arrow batch with the fields of `like`."""
    told = [(at, kind) for begin, end in intervals for at, kind in ((begin, _BEGINS), (end, _ENDS))]
    times = numpy.tile(numpy.array([at for at, _ in told], numpy.int64) * 1000 - _EARLIER, shards)
    columns = {
        "shard": pa.array(numpy.repeat(numpy.arange(shards), len(told)), pa.int32()),
        "time": pa.array(times, pa.int64()),
        "stream": pa.array([kind for _, kind in told] * shards, pa.int8()),
    }
    nulls = (columns[field.name] if field.name in columns else pa.nulls(len(times), field.type) for field in like)
    return pa.record_batch(list(nulls), schema=like)


class Told:
    """What the rows of a task tell of when events are, apart from the events.

    State
    -----
    The times that it was told; those of all that sort before the first event are there when that comes.
    """

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    @property
    def intervals(self) -> Intervals:
        """When events are."""
        return covered(self._begins, self._ends)

    def events(self, batch: Any) -> Any:
        """Return the events of a batch."""
        streams = batch.column("stream")
        if not batch.num_rows or pc.min(streams).as_py() >= 0:
            return batch
        told = batch.filter(pc.less(streams, 0))
        for at, kind in zip(told.column("time").to_pylist(), told.column("stream").to_pylist(), strict=True):
            (self._begins if kind == _BEGINS else self._ends).append((at + _EARLIER) // 1000)
        return batch.filter(pc.greater_equal(streams, 0))


def by_shard(batch: Any) -> Iterator[tuple[int, Any]]:
    """Yield the rows of each shard in a batch; where Spark has put partitions together there are several."""
    if not batch.num_rows:
        return
    if "shard" not in batch.schema.names:
        yield 0, batch
        return
    shards = batch.column("shard")
    lowest, highest = pc.min_max(shards).as_py().values()
    if lowest == highest:
        yield lowest, batch
        return
    for shard in pc.unique(shards).to_pylist():
        yield shard, batch.filter(pc.equal(shards, pa.scalar(shard, pa.int32())))
