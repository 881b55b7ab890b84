"""From a group instance to a Spark streaming query: log topics → island → log topics.

The island appends to the output topics itself, in its task, and Spark's own sink gets nothing. A Python sink would run
two more Python processes in every batch and add 90 ms to it, at the same point of the same task: what has been put out
and not committed is put out again with the same ids in either case.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spdist.engine.columns import arrow_without_pandas, from_batch
from spdist.engine.hosted import build_island
from spdist.engine.session import SparkHost
from spdist.engine.shard import Shard, SnapshotPolicy
from spdist.engine.source import LogDataSource, SourceSettings, read_control
from spdist.engine.state import Segment, StateStore
from spdist.planning.topology import Assignment
from spdist.transports.log import LogTransport

__all__ = ["COUNTERS", "OBSERVED", "QuerySettings", "start_query"]

#: The counters of a batch, in the order in which the island's task returns them; Spark observes their highest value.
COUNTERS = ("events_in", "events_out", "pending", "clock")
_COUNTERS_DDL = ", ".join(f"{name} bigint" for name in COUNTERS)
#: The name under which the counters are in a query's progress.
OBSERVED = "spdist"

# Offsets are logged in the background, once a second: each start has a checkpoint of its own that nobody reads again,
# as the segments say where reading goes on. In step with the batches the two logs cost 100 ms a batch.
_SINK_OPTIONS = {"asyncProgressTrackingEnabled": "true", "asyncProgressTrackingCheckpointIntervalMs": "1000"}


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """What the query of one start of a group instance needs, in the driver and in the task.

    Parameters
    ----------
    assignment : Assignment
        What to run.
    opening : Segment
        The segment with which this start took the state over.
    state_directory, log_directory : str
        Where the state and the topics are.
    stop_flag : str
        See `SourceSettings`.
    checkpoint : str
        A directory for Spark, used once.
    merge_wait_ms, tick_interval_ms, max_batch_events : int
        See `Merge` and `SourceSettings`.
    scripts : bool
        Whether functions that apps define in Python are run.
    """

    assignment: Assignment
    opening: Segment
    state_directory: str
    log_directory: str
    stop_flag: str
    checkpoint: str
    merge_wait_ms: int
    tick_interval_ms: int
    max_batch_events: int
    scripts: bool = False

    def source(self) -> SourceSettings:
        """Return what the source must know."""
        inputs = self.assignment.inputs
        return SourceSettings(
            directory=self.log_directory,
            topics={assigned.topic: assigned.partitions for assigned in inputs},
            start=self.opening.positions,
            live=not self.assignment.playback,
            merges=sum(len(i.partitions) * max(1, len(i.producers)) for i in inputs) > 1,
            tick_interval_ms=self.tick_interval_ms,
            max_batch_events=self.max_batch_events,
            stop_flag=self.stop_flag,
        )


def start_query(host: SparkHost, settings: QuerySettings) -> StreamingQuery:
    """Start the streaming query of a group instance and return it.

    Parameters
    ----------
    host : SparkHost
        Started.
    settings : QuerySettings
        What to run; its opening segment must be the newest one.
    """
    session, name = host.session, settings.assignment.name
    with host.lock:
        # Workers with another environment are other workers: each query keeps its own, which has its state in memory.
        environment = session.sparkContext.environment
        environment["SPDIST_GROUP_INSTANCE"] = name
        try:
            records = session.readStream.format(LogDataSource.name()).options(**settings.source().to_options()).load()
            counters = records.mapInArrow(_island_task(settings), _COUNTERS_DDL)
        finally:
            del environment["SPDIST_GROUP_INSTANCE"]
        observed = counters.observe(OBSERVED, *(F.max(counter).alias(counter) for counter in COUNTERS))
        session.sparkContext.setLocalProperty("spark.scheduler.pool", name)
        # A name may be in use by a start that was replaced and has not noticed yet.
        query_name = f"{name} {settings.opening.number}"
        writer = observed.writeStream.format("noop").queryName(query_name).options(**_SINK_OPTIONS)
        return writer.option("checkpointLocation", settings.checkpoint).start()


def _island_task(settings: QuerySettings) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        return run_batch(settings, batches)

    return run


#: The live state in this Python process; it serves one group instance, and only its newest start.
_LIVE: dict[str, tuple[Shard, LogTransport]] = {}


def run_batch(settings: QuerySettings, batches: Iterator[Any]) -> Iterator[Any]:
    """Run one batch in a Spark task: records to segment, state and topics; yield the counters."""
    arrow_without_pandas()
    control, *records = [record for batch in batches for record in from_batch(batch)]
    tick, positions = read_control(control)
    number = int(TaskContext.get().getLocalProperty("streaming.sql.batchId"))  # type: ignore[union-attr, arg-type]
    shard, transport = _live(settings)
    transport.append(shard.process(number, records, tick, positions))
    island = shard.island
    assert island is not None  # process has returned
    counters = (island.events_in, island.events_out, island.pending, island.clock)
    yield pa.record_batch([pa.array([value], pa.int64()) for value in counters], names=list(COUNTERS))


def _live(settings: QuerySettings) -> tuple[Shard, LogTransport]:
    owner = settings.opening.owner
    if owner not in _LIVE:
        _LIVE.clear()
        make_island = functools.partial(build_island, settings.assignment, settings.merge_wait_ms, settings.scripts)
        shard = Shard(StateStore(settings.state_directory), settings.opening, make_island, SnapshotPolicy())
        _LIVE[owner] = shard, LogTransport(settings.log_directory)
    return _LIVE[owner]
