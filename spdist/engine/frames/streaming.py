"""Streaming frames: each shard is an island whose state is at the query's checkpoint, and a micro-batch is a segment.

A micro-batch that Spark repeats, in another task, process or start, finds its own segment and puts out the same rows
with the same ids. Spark commits a batch before it begins the next one: so what sinks hold is exactly once where they
are idempotent, or Spark's own that replace what a batch has left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from hashlib import sha256
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from spdist.engine.frames.plan import FramePlan
from spdist.engine.frames.routing import route
from spdist.engine.frames.shards import FrameShards
from spdist.engine.frames.state import FrameDirectory, QueryStart
from spdist.engine.frames.wire import Wire
from spdist.engine.shards.memory import arrow_without_pandas, collect_rarely, set_aside
from spdist.engine.spark.streaming_query import own_workers
from spdist.errors import EngineError

__all__ = ["run_streaming_frames"]

#: What keeps state in Spark's own plans, and what does so between streams.
_STATEFUL = re.compile(r"\b(\w*Aggregate|Deduplicate\w*|\w*WithState\w*|GlobalLimit|LocalLimit)\b")
_JOIN, _STREAM = re.compile(r"\bJoin\b"), re.compile(r"\bStreaming\w*Relation")


def run_streaming_frames(plan: FramePlan, home: FrameDirectory, frames: Sequence[DataFrame]) -> DataFrame:
    """Return the result of an app over streaming frames, as a streaming frame.

    Parameters
    ----------
    plan : FramePlan
        What is to be done.
    home : FrameDirectory
        Where its state is.
    frames : sequence of DataFrame
        Those of the plan's inputs.

    Raises
    ------
    StateError
        There is a state that another plan has made.
    """
    home.check(plan)
    wire = Wire.of(plan, frames)
    run = partial(_run, plan, home, wire.order)
    if plan.shards == 1:
        return _hosted(wire.rows.repartition(1), run, plan, home, 0)
    routed = wire.rows.mapInArrow(lambda batches: route(plan, batches), wire.ddl("shard int"))
    if not isinstance(routed, ClassicFrame) or _keeps_state(routed):
        return routed.repartitionById(plan.shards, "shard").mapInArrow(run, plan.result())
    # One shuffle, which all shards read: each reads what is its own, in a Python worker that keeps its live state.
    # Tasks of one step would swap their workers, and each time replay what the others have done. The
    # condition must not be pushed below the shuffle, or there would be one for each.
    together = routed.repartition(1)
    own = (together.where(F.col("shard") - F.spark_partition_id() * 0 == F.lit(shard)) for shard in range(plan.shards))
    return reduce(DataFrame.union, (_hosted(rows, run, plan, home, shard) for shard, rows in enumerate(own)))


def _hosted(
    rows: DataFrame, run: Callable[[Iterator[Any]], Iterator[Any]], plan: FramePlan, home: FrameDirectory, shard: int
) -> DataFrame:
    """Return what comes of the rows of a shard, whose task has a Python worker of its own where that is possible."""
    if not isinstance(rows, ClassicFrame):
        return rows.mapInArrow(run, plan.result())
    place = sha256(str(home.directory).encode()).hexdigest()[:8]
    with own_workers(rows.sparkSession, f"{plan.name} {shard} {place}"):
        return rows.mapInArrow(run, plan.result())


def _keeps_state(frame: Any) -> bool:
    """Tell whether Spark itself keeps state for a frame: that is not to be there once for each shard."""
    logical = str(frame._jdf.queryExecution().logical().toString())
    streams = len(_STREAM.findall(logical))
    return bool(_STATEFUL.search(logical) or (streams > 1 and _JOIN.search(logical)))


# ------------------------------------------------------------------------------------------------------------- in tasks
#: What this process keeps of the newest start that it has worked for, by the directory of its state.
_KEPT: dict[str, tuple[str, FrameShards]] = {}


def _run(plan: FramePlan, home: FrameDirectory, order: Sequence[str], batches: Iterator[Any]) -> Iterator[Any]:
    """Run one micro-batch of the shards whose rows come to a task."""
    arrow_without_pandas()
    collect_rarely()
    start = _start()
    set_aside(start.batch)
    place, key = str(home.directory), f"{start.run} {plan.token}"
    known = _KEPT.get(place)
    if known is None or known[0] != key:
        _KEPT.pop(place, None)
        _KEPT[place] = known = (key, FrameShards(plan, home, start))
    yield from known[1].process(start, order, batches)


def _start() -> QueryStart:
    task = TaskContext.get()
    assert task is not None  # this runs in a task
    query, batch = task.getLocalProperty("sql.streaming.queryId"), task.getLocalProperty("streaming.sql.batchId")
    if query is None or batch is None:
        raise EngineError("a streaming frame is run by a streaming query", hint="start it with .writeStream")
    return QueryStart(query, task.getLocalProperty("spark.jobGroup.id") or "", int(batch))
