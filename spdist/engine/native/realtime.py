"""A stateless app between Kafka topics as one Spark query of Columns: in real time, or in micro-batches.

Each record's results have ids that a repetition gives again, in the header ``spdist-id``: topic, partition and offset
of the record and the result's number. Where a query was killed, the records since its last checkpoint are read again;
their results come twice, with equal ids.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from spdist.config.allowed import Allowed
from spdist.engine.native.json import read_json
from spdist.engine.native.queries import ChunkDelivery
from spdist.engine.spark.session import SparkHost
from spdist.errors import EngineError
from spdist.planning.columns.realtime import KafkaSourceInput, RealtimePlan
from spdist.transports.kafka.options import app_properties
from spdist.transports.options import Options
from spdist.transports.payloads.headers import ID_HEADER

__all__ = [
    "OBSERVED_COLUMNS",
    "QueryProgress",
    "RealtimeQuery",
    "RealtimeSettings",
    "records_behind",
    "start_realtime",
    "transformed",
]

log = logging.getLogger(__name__)

#: Of how many batches Spark keeps what they counted until somebody looks: some seconds pass between two looks, and
#: short ones take a tenth of one. A megabyte.
_REMEMBERED = 200
#: The counters of a batch.
OBSERVED_COLUMNS = ("records", "unreadable", "left_out", "lost", "results")
_OBSERVED = "spdist"
_KAFKA = "kafka."
_SERVERS = f"{_KAFKA}bootstrap.servers"
_DROPPED = {
    "unreadable": "record(s) that are no events of their stream",
    "left_out": "event(s) without one of their attributes",
    "lost": "event(s), a query failed",
}


@dataclass(frozen=True, slots=True)
class RealtimeSettings:
    """What one start of the query needs.

    Parameters
    ----------
    name : str
        Of the query.
    checkpoint : str
        The directory in which Spark keeps how far it has read; the same one goes on from there.
    mode : str
        ``real-time``, ``micro-batch``, or ``available-now``: to the end of what is there, and no further.
    starting : str
        Where to begin without a checkpoint: ``latest``, ``earliest``, or offsets as Spark's Kafka source takes them.
    batch_ms : int
        How often real time notes how far it is, in ms; Spark takes 5,000 at least.
    """

    name: str
    checkpoint: str
    mode: Literal["real-time", "micro-batch", "available-now"] = "real-time"
    starting: str = "earliest"
    batch_ms: int = 5_000


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """How a query is doing.

    Parameters
    ----------
    batches : int
        So far.
    totals : mapping of str to int
        The sums of its counters.
    batch_ms : int
        How long its last batch took.
    lag : int
        Records that were there and not read when the last batch ended; at least 1 while a micro-batch has some to read.
    """

    batches: int
    totals: Mapping[str, int]
    batch_ms: int
    lag: int = 0


class RealtimeQuery:
    """A running query.

    Parameters
    ----------
    query : StreamingQuery
        Spark's query.
    steady : bool
        Whether it runs in real time.

    State
    -----
    The sums of its counters since it started.
    """

    def __init__(self, query: StreamingQuery, steady: bool = False) -> None:
        self.query = query
        self._steady = steady
        self._totals = dict.fromkeys(OBSERVED_COLUMNS, 0)
        self._counted = -1
        #: the newest entry of Spark's progress that was looked at
        self._seen: tuple[int, str] | None = None
        self._batch_ms = 0
        self._lag = 0
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Stop the query; a start with the same checkpoint goes on."""
        self.query.stop()

    def progress(self) -> QueryProgress | None:
        """Return how it is doing, None before it reads; raises what the query failed on."""
        # In this order: a query that fails in between is told by its error, and not as one that has ended.
        active, error = self.query.isActive, self.query.exception()
        if error is not None or not active:
            raise error or EngineError("the query ended without being asked to")
        with self._lock:
            for one in self._progressed():
                self._count(one)
        status: Any = self.query.status
        reads = not self._steady and status["isDataAvailable"]
        # A trigger is active also while Spark only looks whether there is anything to read.
        looks = not self._steady and status["isTriggerActive"]
        if self._counted < 0 and (reads or looks or status["message"].startswith("Initializing")):
            return None
        return QueryProgress(self._counted + 1, dict(self._totals), self._batch_ms, max(self._lag, int(reads)))

    def _progressed(self) -> list[StreamingQueryProgress]:
        """Return what Spark has told of its batches since the last look, the oldest first.

        Not by `recentProgress`, which reads all that Spark remembers anew: a millisecond for each batch.
        """
        told, found = cast("Any", self.query)._jsq.recentProgress(), list[StreamingQueryProgress]()
        for place in reversed(range(len(told))):
            one = told[place]
            if (one.batchId(), one.timestamp()) == self._seen:
                return found[::-1]
            found.append(StreamingQueryProgress.fromJson(json.loads(one.json())))
        # All are new: those that Spark has forgotten meanwhile are in no count
        missed = found[-1].batchId - self._counted - 1 if found and self._counted >= 0 else 0
        if missed > 0:
            log.warning("query %s: its counters are without those of %d batches", self.query.name, missed)
        return found[::-1]

    def _count(self, progress: StreamingQueryProgress) -> None:
        self._seen = progress["batchId"], progress["timestamp"]
        observed = progress["observedMetrics"].get(_OBSERVED)
        if observed is None or progress["batchId"] <= self._counted:
            return  # an idle query reports without
        self._counted, self._batch_ms = progress["batchId"], progress["durationMs"].get("triggerExecution", 0)
        self._lag = sum(
            records_behind(_offsets(one["endOffset"]), _offsets(one["latestOffset"])) for one in progress["sources"]
        )
        counts = {name: int(observed[name] or 0) for name in OBSERVED_COLUMNS}
        for name, count in counts.items():
            self._totals[name] += count
        for name, why in _DROPPED.items():
            if counts[name]:
                log.warning("query %s: dropping %d %s", self.query.name, counts[name], why)


def _offsets(said: str | None) -> dict[str, Any]:
    """Return offsets of Spark's progress; there are none before it has asked for them, which it also writes as null."""
    return json.loads(said or "{}") or {}


def records_behind(read: Mapping[str, Any], latest: Mapping[str, Any]) -> int:
    """Return how many records Spark's Kafka source has not read of those that it knows of.

    Parameters
    ----------
    read, latest : mapping
        Offsets by topic and partition, as Spark's progress has them: where reading goes on, and where the topics end.
    """
    behind = 0
    for topic, ends in latest.items():
        behind += sum(max(0, end - read.get(topic, {}).get(partition, end)) for partition, end in ends.items())
    return behind


def start_realtime(host: SparkHost, plan: RealtimePlan, settings: RealtimeSettings) -> RealtimeQuery:
    """Start the query of an app and return it.

    Parameters
    ----------
    host : SparkHost
        Started.
    plan : RealtimePlan
        The app.
    settings : RealtimeSettings
        How to run it.

    Raises
    ------
    EngineError
        Real time is asked for, and Kafka's connector was not yet in the cache when the host started.
    """
    host.need_kafka()
    if settings.mode == "real-time" and not host.streams_kafka:
        hint = "the connector is fetched now: start the host again, or use micro-batches"
        raise EngineError("real-time mode needs Kafka's connector from the start", hint=hint)
    # Of its own, in which others set nothing, and which remembers more than islands need, whose counters are sums
    session = host.session.newSession()
    session.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(_REMEMBERED))
    reader = session.readStream.format("kafka").options(**_connection(plan.source_options, "source", host.allowed))
    reader = reader.option(*_subscription(plan)).option("startingOffsets", settings.starting)
    results = transformed(plan, reader.load())
    writer = (
        results.writeStream.format("kafka")
        .options(**_connection(plan.sink_options, "sink", host.allowed))
        .queryName(settings.name)
    )
    writer = writer.option("checkpointLocation", settings.checkpoint)
    if settings.mode == "real-time":
        trigger: Any = {"realTime": f"{settings.batch_ms} milliseconds"}  # the stubs do not know it yet
        # Real time has no other mode of output.
        writer = writer.trigger(**trigger).outputMode("update")
    elif settings.mode == "available-now":
        writer = writer.trigger(availableNow=True)
    # Another start may have changed the environment of Spark's processes for itself, which this query would take over.
    with host.lock:
        return RealtimeQuery(writer.start(), settings.mode == "real-time")


def _connection(options: Mapping[str, str], what: str, allowed: Allowed) -> dict[str, str]:
    """Return the settings of Spark's connector, with the secrets that the app names; AppValidationError for others."""
    pairs = [(name.removeprefix(_KAFKA), value) for name, value in options.items() if name != _SERVERS]
    read = Options({}, f"the @{what} of type 'kafka'", allowed=allowed)
    return {
        _SERVERS: options[_SERVERS],
        **{f"{_KAFKA}{key}": value for key, value in app_properties(read, pairs).items()},
    }


def _subscription(plan: RealtimePlan) -> tuple[str, str]:
    # Spark reads whole topics or named partitions, not both in one source.
    if all(one.partitions is None for one in plan.inputs):
        return "subscribe", ",".join(dict.fromkeys(topic for one in plan.inputs for topic in one.topics))
    assigned: dict[str, list[int]] = {}
    for one in plan.inputs:
        for topic in one.topics:
            known = assigned.setdefault(topic, [])
            known += [number for number in one.partitions or () if number not in known]
    return "assign", json.dumps(assigned)


def transformed(plan: RealtimePlan, records: DataFrame) -> DataFrame:
    """Return the records that the app writes for those that it reads.

    Parameters
    ----------
    plan : RealtimePlan
        The app.
    records : DataFrame
        With the columns ``value, topic, partition, offset, timestamp`` of Spark's Kafka source.

    Returns
    -------
    DataFrame
        With the columns ``topic, key, partition, value, headers`` of Spark's Kafka sink.
    """
    frame = records
    delivery = ChunkDelivery(plan, frame, F.unix_millis(F.col("timestamp")))
    unreadable, left = [], []
    for number, source in enumerate(plan.inputs):
        prefix = f"in_{number}"
        mine = _is_of(source)
        delivery.frame = read_json(delivery.frame, F.when(mine, F.col("value")), source.form, prefix)
        unreadable.append(F.when(mine & F.col(f"{prefix}_bad"), F.lit(1)).otherwise(F.lit(0)))
        left.append(F.col(f"{prefix}_left"))
        delivery.deliver(source.stream, F.col(f"{prefix}_events"))
    counts = (F.lit(1), _total(unreadable), _total(left), _total(delivery.lost))
    frame = delivery.frame.withColumn("results", F.concat(*delivery.payloads))
    sums = [F.sum(value).alias(name) for name, value in zip(OBSERVED_COLUMNS, counts, strict=False)]
    # Counted in front of `posexplode`, which drops the records without results.
    observed = frame.observe(_OBSERVED, *sums, F.sum(F.size("results")).alias(OBSERVED_COLUMNS[-1]))
    one = observed.select("topic", "partition", "offset", F.posexplode("results").alias("number", "result"))
    id = F.concat_ws("/", "topic", *(F.col(name).cast("string") for name in ("partition", "offset", "number")))
    header = F.struct(F.lit(ID_HEADER).alias("key"), id.cast("binary").alias("value"))
    return one.select(
        F.col("result.topic").alias("topic"),
        F.col("result.key").alias("key"),
        F.col("result.partition").alias("partition"),
        F.col("result.value").alias("value"),
        F.array(header).alias("headers"),
    )


def _is_of(source: KafkaSourceInput) -> Column:
    mine = F.col("topic").isin(*source.topics)
    return mine if source.partitions is None else mine & F.col("partition").isin(*source.partitions)


def _total(counts: list[Column]) -> Column:
    total = F.lit(0)
    for count in counts:
        total = total + count
    return total
