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

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from spdist.engine.columns import arrow_without_pandas
from spdist.engine.compile import own_workers
from spdist.engine.frames.island import FrameIsland, batch_records
from spdist.engine.frames.plan import FramePlan
from spdist.engine.frames.routing import route
from spdist.engine.frames.state import FrameHome, QueryStart
from spdist.engine.frames.wire import Told, Wire, by_shard
from spdist.engine.memory import collect_rarely, set_aside
from spdist.engine.shard import Shard
from spdist.errors import EngineError

__all__ = ["run_streaming_frames"]

#: What keeps state in Spark's own plans: that is not to be there once for each shard.
_STATEFUL = re.compile(r"\b(\w*Aggregate|Deduplicate\w*|Join|\w*WithState\w*|GlobalLimit|LocalLimit)\b")


def run_streaming_frames(plan: FramePlan, home: FrameHome, frames: Sequence[DataFrame]) -> DataFrame:
    """Return the result of an app over streaming frames, as a streaming frame.

    Parameters
    ----------
    plan : FramePlan
        What is to be done.
    home : FrameHome
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
    if not isinstance(routed, ClassicFrame) or _STATEFUL.search(_logical(routed)):
        return routed.repartitionById(plan.shards, "shard").mapInArrow(run, plan.result())
    # One shuffle, which all shards read: each takes what is its own, in a Python worker that keeps its live state.
    # Tasks of one step would take turns with their workers, and each time replay what the others have done. The
    # condition must not be pushed below the shuffle, or there would be one for each.
    together = routed.repartition(1)
    own = (together.where(F.col("shard") - F.spark_partition_id() * 0 == F.lit(shard)) for shard in range(plan.shards))
    return reduce(DataFrame.union, (_hosted(rows, run, plan, home, shard) for shard, rows in enumerate(own)))


def _hosted(
    rows: DataFrame, run: Callable[[Iterator[Any]], Iterator[Any]], plan: FramePlan, home: FrameHome, shard: int
) -> DataFrame:
    """Return what comes of the rows of a shard, whose task has a Python worker of its own where that is possible."""
    if not isinstance(rows, ClassicFrame):
        return rows.mapInArrow(run, plan.result())
    place = sha256(str(home.directory).encode()).hexdigest()[:8]
    with own_workers(rows.sparkSession, f"{plan.name} {shard} {place}"):
        return rows.mapInArrow(run, plan.result())


def _logical(frame: Any) -> str:
    """Return the plan of a frame as text."""
    return str(frame._jdf.queryExecution().logical().toString())


# ------------------------------------------------------------------------------------------------------------- in tasks
class _Kept:
    """What a Python process keeps of one start of a query: the live state of shards that its tasks have run."""

    def __init__(self, plan: FramePlan, home: FrameHome, start: QueryStart) -> None:
        self._plan = plan
        self._home = home
        self._opening = home.enter(plan, start)
        self._shards: dict[int, Shard] = {}

    def process(self, number: int, start: QueryStart, told: Told, rows: Any) -> list[Any]:
        """Run one batch of a shard, and return what it puts out."""
        plan = self._plan
        if number not in self._shards:
            store, make = self._home.store(number, plan.shards), partial(FrameIsland, plan, number)
            self._shards[number] = Shard(store, self._opening, make, commits=True)
        shard = self._shards[number]
        if not shard.is_before(start.batch):
            self._home.check_shard(shard.store, start)
        return shard.process(start.batch, batch_records(told.intervals, rows), 0, {})


#: By the directory of the state, of the newest start that this process has worked for.
_KEPT: dict[str, tuple[str, _Kept]] = {}


def _run(plan: FramePlan, home: FrameHome, order: Sequence[str], batches: Iterator[Any]) -> Iterator[Any]:
    """Run one micro-batch of the shards whose rows come to a task."""
    arrow_without_pandas()
    collect_rarely()
    start = _start()
    set_aside(start.batch)
    kept = _kept(plan, home, start)
    parts: dict[int, list[Any]] = {}
    told: dict[int, Told] = {}
    for batch in batches:
        for shard, rows in by_shard(batch):
            if rows.num_rows:
                events = told.setdefault(shard, Told()).events(rows)
                parts.setdefault(shard, []).append(events)
    for shard in sorted(parts):
        yield from kept.process(shard, start, told[shard], _sorted(parts.pop(shard), order))


def _kept(plan: FramePlan, home: FrameHome, start: QueryStart) -> _Kept:
    place, key = str(home.directory), f"{start.run} {plan.token}"
    known = _KEPT.get(place)
    if known is None or known[0] != key:
        _KEPT.pop(place, None)
        _KEPT[place] = known = (key, _Kept(plan, home, start))
    return known[1]


def _start() -> QueryStart:
    task = TaskContext.get()
    assert task is not None  # this runs in a task
    query, batch = task.getLocalProperty("sql.streaming.queryId"), task.getLocalProperty("streaming.sql.batchId")
    if query is None or batch is None:
        raise EngineError("a streaming frame is run by a streaming query", hint="start it with .writeStream")
    return QueryStart(query, task.getLocalProperty("spark.jobGroup.id") or "", int(batch))


def _sorted(parts: Sequence[Any], order: Sequence[str]) -> Any:
    """Return rows as one table, by time; the order of a shuffle is another one each time."""
    rows = pa.Table.from_batches(parts)
    times = rows.column("time").to_numpy()
    if not bool((times[1:] > times[:-1]).all()):
        keys = [(name, "ascending") for name in ("time", *order)]
        rows = rows.take(pc.sort_indices(rows, sort_keys=keys, null_placement="at_start"))
    return rows.drop_columns([name for name in rows.column_names if not _stays(name)])


def _stays(name: str) -> bool:
    return name in ("time", "stream") or name.startswith("value_")
