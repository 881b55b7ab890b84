"""From a user's frames and an app to a frame: what the facade's `transform` does."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from spdist.engine.frames.app import FrameApp, checked_by, most_jump_ms
from spdist.engine.frames.fitting import FrameRequest
from spdist.engine.frames.plan import FramePlan, frames_by_stream, plan_frames
from spdist.engine.frames.routing import route
from spdist.engine.frames.spans import reach
from spdist.engine.frames.state import FrameDirectory
from spdist.engine.frames.streaming import run_streaming_frames
from spdist.engine.frames.wire import Told, Wire, by_shard
from spdist.engine.shards.memory import arrow_without_pandas, collect_rarely
from spdist.errors import MappingError
from spdist.language.checking.checked import CheckedApp

__all__ = ["SparkFrame", "output_of", "run_shards", "transform_frames"]

log = logging.getLogger(__name__)

#: What users know as a DataFrame.
SparkFrame = DataFrame

#: Shards for each core of a batch: less is sorted in each, and where keys are uneven few wait for the largest.
_SHARDS_A_CORE = 4
#: Of a Spark that does not say how many it has.
_CORES_ELSEWHERE = 8


def transform_frames(
    frames: DataFrame | Mapping[str, DataFrame],
    checked: CheckedApp,
    text: str,
    request: FrameRequest,
    stream: str | None = None,
) -> DataFrame:
    """Return what an app puts out for frames; see `spdist.transform`.

    Parameters
    ----------
    frames : DataFrame or mapping of str to DataFrame
        One, or those of several streams.
    checked : CheckedApp
        The app.
    text : str
        Its text.
    request : FrameRequest
        What is asked for.
    stream : str, optional
        Which stream a single frame is.
    """
    given = frames_by_stream(frames, stream, checked)
    for name, frame in given.items():
        if not isinstance(frame, DataFrame):
            raise MappingError(
                f"what is given for '{name}' is no DataFrame of Spark but a {type(frame).__name__}",
                hint="spark.createDataFrame(…) makes one of a frame of pandas; spdist.run works without Spark",
            )
    streaming = {name: frame.isStreaming for name, frame in given.items()}
    if len(set(streaming.values())) > 1:
        kinds = ", ".join(f"'{name}' is a {'stream' if one else 'batch'}" for name, one in streaming.items())
        raise MappingError(
            f"frames are all streams or all batches, but {kinds}", hint="read all of them with spark.readStream"
        )
    if request.until is not None and any(streaming.values()):
        raise MappingError("'until' is for batches: a stream stops when its query does")
    spark = _Spark(next(iter(given.values())))
    home = FrameDirectory.of(request, checked.name, spark.directory) if any(streaming.values()) else None

    def default() -> int:
        return spark.shards(_SHARDS_A_CORE) if home is None else home.shards() or spark.shards(1)

    plan = plan_frames(checked, text, {name: frame.schema for name, frame in given.items()}, request, default)
    if plan.why_one:
        log.warning("the app '%s' runs in one task at a time, as it cannot be split: %s", checked.name, plan.why_one)
    if home is None:
        return run_batch_frames(plan, tuple(given.values()))
    return run_streaming_frames(plan, home, tuple(given.values()))


def output_of(frame: DataFrame, stream: str) -> DataFrame:
    """Return the events of one stream out of the result for several; see `spdist.output_of`."""
    names = frame.columns
    if names[:1] != ["stream"] or stream not in names[3:]:
        raise MappingError(
            f"this frame has no events of a stream '{stream}'",
            hint=f"transform(…, output=['{stream}', …]) makes one that has",
        )
    attributes = F.col(f"`{stream}`")
    fields: Any = frame.schema[stream].dataType
    columns = [attributes.getField(name).alias(name) for name in fields.names]
    return frame.where(F.col("stream") == stream).select(*columns, *(F.col(f"`{name}`") for name in names[1:3]))


class _Spark:
    """What a session tells of itself; over Spark Connect that is less."""

    def __init__(self, frame: DataFrame) -> None:
        self._session = frame.sparkSession
        self._context: Any = self._session.sparkContext if isinstance(frame, ClassicFrame) else None

    @property
    def directory(self) -> str:
        """Where relative paths start: its JVM stays where it was started."""
        if self._context is None:
            return "."
        return str(self._context._jvm.java.lang.System.getProperty("user.dir"))

    def shards(self, each: int) -> int:
        """Return how many shards make use of it, `each` for a core, as far as it shuffles into so many partitions."""
        partitions = int(self._session.conf.get("spark.sql.shuffle.partitions") or 1)
        cores = _CORES_ELSEWHERE if self._context is None else self._context.defaultParallelism
        return max(1, min(partitions, each * cores))


# Batch frames: every shard is one sorted partition, which a task runs through as a stream of Arrow batches.


def run_batch_frames(plan: FramePlan, frames: Sequence[DataFrame]) -> DataFrame:
    """Return the result of an app over batch frames; Spark runs it when somebody asks for it."""
    wire = Wire.of(plan, frames)
    rows = wire.rows
    if plan.shards > 1:
        routed = rows.mapInArrow(lambda batches: route(plan, batches), wire.ddl("shard int"))
        rows = routed.repartitionById(plan.shards, "shard")
    else:
        rows = rows.repartition(1)
    ordered = rows.sortWithinPartitions("time", *wire.order)
    return ordered.mapInArrow(lambda batches: run_shards(plan, batches), plan.result())


def run_shards(plan: FramePlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Run the shards of a partition, usually one, in a task."""
    arrow_without_pandas()
    collect_rarely()
    apps: dict[int, FrameApp] = {}
    told = Told()
    for batch in batches:
        for shard, events in by_shard(told.events(batch)):
            if shard not in apps:
                apps[shard] = _begun(plan, shard, told)
            yield from apps[shard].process(events)
    # Without any rows `until` still lets time pass
    if not apps and plan.shards == 1:
        apps[0] = FrameApp(plan, 0)
    for app in apps.values():
        yield from app.pass_time()
        if plan.until is not None:
            yield from app.pass_time(plan.until)


def _begun(plan: FramePlan, shard: int, told: Told) -> FrameApp:
    """Return the app of a shard whose first event comes now: by then the others have been told of."""
    app = FrameApp(plan, shard)
    intervals = told.intervals
    end = reach(intervals, None, most_jump_ms(checked_by(plan)))
    if end is not None:
        app.expect(intervals[0][0], end)
    return app
