"""Batch frames: every shard is one sorted partition, which a task runs through as a stream of Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame

from spdist.engine.frames.app import FrameApp, checked_by, most_jump_ms
from spdist.engine.frames.plan import FramePlan
from spdist.engine.frames.routing import route
from spdist.engine.frames.spans import reach
from spdist.engine.frames.wire import Told, Wire, by_shard
from spdist.engine.shards.memory import arrow_without_pandas, collect_rarely

__all__ = ["run_batch_frames", "run_shards"]


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
