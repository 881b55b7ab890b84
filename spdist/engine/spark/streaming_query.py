"""From shards to a Spark streaming query: topics → islands → topics.

One shard, or many on one partition, need no shuffle: the records go from the sources straight to the islands' task. On
several partitions a step before it names the shards of each record; all partitions read what it gives, and each has a
Python worker of its own.

Our source is the clock of every query: it wakes one whose streams are silent. Of Kafka it says which messages a batch
has; the tasks fetch them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spdist.engine.spark.forks import INSTANCE
from spdist.engine.spark.query import QuerySettings
from spdist.engine.spark.session import SparkHost
from spdist.engine.spark.source import LogDataSource
from spdist.engine.spark.tasks import COUNTERS, rejected_column, route_batch, run_batch, run_routed_batch
from spdist.transports.payloads.payload import ROUTED_DDL

__all__ = ["OBSERVED", "own_workers", "start_query"]

#: How the counters of partitions become one, where that is not their sum.
_TOTALS: dict[str, Callable[[str], Any]] = {"clock": F.min, "latest": F.max, "memory_bytes": F.max}
#: The name under which the counters are in a query's progress.
OBSERVED = "spdist"

# Offsets are logged in the background, once a second: each start has a checkpoint of its own that nobody reads again,
# as the segments say where reading goes on. In step with the batches the two logs cost 100 ms a batch.
_SINK_OPTIONS = {"asyncProgressTrackingEnabled": "true", "asyncProgressTrackingCheckpointIntervalMs": "1000"}


def start_query(host: SparkHost, settings: QuerySettings) -> StreamingQuery:
    """Start the streaming query and return it.

    Parameters
    ----------
    host : SparkHost
        Started.
    settings : QuerySettings
        What to run.
    """
    with host.lock:
        with own_workers(host.session, settings.name):
            islands = _islands(_records(host.session, settings), settings)
        totals = (_TOTALS.get(name, F.sum)(name).alias(name) for name in _counters(settings))
        observed = islands.observe(OBSERVED, *totals)
        # A name may be in use by a start that was replaced and has not noticed yet.
        query_name = f"{settings.name} {settings.shards[0].opening.owner}"
        writer = observed.writeStream.format("noop").queryName(query_name).options(**_SINK_OPTIONS)
        return writer.option("checkpointLocation", settings.checkpoint).start()


def _counters(settings: QuerySettings) -> list[str]:
    return [*COUNTERS, *map(rejected_column, range(len(settings.fed_streams)))]


def _records(session: SparkSession, settings: QuerySettings) -> DataFrame:
    """Return what the query reads: records of ours, and what is to be fetched of Kafka."""
    kafka = ""
    if settings.kafka:
        kafka = settings.kafka_plan().write(Path(settings.stop_flag).parent / "kafka.spdist-private.json")
    records = session.readStream.format(LogDataSource.name()).options(**settings.source(kafka).to_options()).load()
    # Several tasks read Kafka's partitions, where several need what they read.
    parts = sum(len(partitions) for partitions in settings.kafka_plan().start.values()) if kafka else 1
    tasks = min(parts, settings.partitions)
    return records.repartition(tasks) if tasks > 1 else records


def _islands(records: DataFrame, settings: QuerySettings) -> DataFrame:
    """Return the counters of the islands that get `records`."""
    counters = ", ".join(f"{name} bigint" for name in _counters(settings))
    if settings.partitions == 1:
        return records.mapInArrow(lambda batches: run_batch(settings, batches), counters)
    routed = records.mapInArrow(lambda batches: route_batch(settings, batches), ROUTED_DDL)
    # One shuffle, which all islands read: each takes what is meant for it.
    together = routed.repartition(1)
    islands = (_island(together, settings, number, counters) for number in range(settings.partitions))
    return reduce(DataFrame.union, islands)


def _island(routed: DataFrame, settings: QuerySettings, number: int, counters: str) -> DataFrame:
    """Return the counters of the islands of one partition, whose task has a Python worker of its own.

    Tasks of one step would take turns with their workers, and each time replay what the other has done.
    """
    with own_workers(routed.sparkSession, f"{settings.name} {number}"):
        return routed.mapInArrow(lambda batches: run_routed_batch(settings, number, batches), counters)


@contextmanager
def own_workers(session: SparkSession, name: str) -> Iterator[None]:
    """Have what is made of data frames inside run in Python workers of that name, which keep state in memory."""
    environment = session.sparkContext.environment
    before = environment.get(INSTANCE)
    environment[INSTANCE] = name  # workers with another environment are other workers
    try:
        yield
    finally:
        if before is None:
            del environment[INSTANCE]
        else:
            environment[INSTANCE] = before
