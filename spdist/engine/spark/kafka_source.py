"""Topics in Kafka as streaming data frames, through Spark's own connector: bytes and headers, as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spdist.engine.shards.columns import HEADERS_DDL, WIDE_DDL
from spdist.engine.shards.state import Positions
from spdist.transports.kafka.options import KafkaSettings, spark_options

__all__ = ["KafkaReading", "kafka_records"]

#: Spark's words for the oldest message that is kept; a topic that nobody has read begins there.
_EARLIEST = -2
_PATIENCE_MS = 15_000
#: As long as Kafka's clients wait by themselves.
_BETWEEN_GROUPS_MS = 60_000
# Spark's reader asks for the ends of a partition after each poll and moves about for that: whatever the client has
# fetched beyond the poll is thrown away and fetched again. With few large polls reading costs a third. And the question
# waits behind a fetch that waits for messages, half a second where nobody says less.
_POLLS = {
    "kafka.max.poll.records": "100000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.wait.ms": "20",
}


@dataclass(frozen=True, slots=True)
class KafkaReading:
    """Topics of one Kafka cluster that a query reads.

    Parameters
    ----------
    settings : KafkaSettings
        Where the brokers are.
    names : mapping of str to str
        From our names of the topics to those in Kafka.
    start : Positions
        Under our names: the partitions to read, and from where.
    max_batch_records : int
        Bound of messages in a batch.
    headers : bool
        Whether headers are read: those with which groups number what they send.
    keys : bool
        Whether keys are read, as the one header of each message.
    """

    settings: KafkaSettings
    names: Mapping[str, str]
    start: Positions
    max_batch_records: int
    headers: bool = True
    keys: bool = False

    def options(self) -> dict[str, str]:
        """Return the options of Spark's source."""
        begin = {
            self.names[topic]: {str(partition): offset or _EARLIEST for partition, offset in offsets.items()}
            for topic, offsets in self.start.items()
        }
        return (
            _POLLS
            | self._patience()
            | spark_options(self.settings)
            | {
                "assign": json.dumps({topic: sorted(map(int, offsets)) for topic, offsets in begin.items()}),
                "startingOffsets": json.dumps(begin),
                "includeHeaders": str(self.headers).lower(),
                "maxOffsetsPerTrigger": str(self.max_batch_records),
                "kafka.isolation.level": "read_committed",
            }
        )

    def _patience(self) -> dict[str, str]:
        """Return how long the connector waits for brokers.

        Of users' sources a query that has ended can say why nothing comes. Groups wait for the topics between them as
        long as they are told to, and their status says so meanwhile.
        """
        wait = max(_BETWEEN_GROUPS_MS, self.settings.patience_ms) if self.headers else _PATIENCE_MS
        given = {"request.timeout.ms", "default.api.timeout.ms"} & set(self.settings.properties)
        own = {"kafka.request.timeout.ms": str(_PATIENCE_MS), "kafka.default.api.timeout.ms": str(wait)}
        retries = {} if self.headers else {"fetchOffset.numRetries": "1"}
        return ({} if given else own) | retries | {"kafkaConsumer.pollTimeoutMs": str(2 * wait)}


def kafka_records(session: SparkSession, readings: Sequence[KafkaReading], packed: DataFrame) -> DataFrame:
    """Return messages as wide rows (`WIDE_DDL`) under our names of the topics, and before them records of ours.

    Parameters
    ----------
    session : SparkSession
        With the connector (`SparkHost.need_kafka`).
    readings : sequence of KafkaReading
        What to read.
    packed : DataFrame
        Records of ours (`PACKED_DDL`).
    """
    headers = any(reading.headers or reading.keys for reading in readings)
    schema: Any = StructType.fromDDL(f"{WIDE_DDL}, {HEADERS_DDL}" if headers else WIDE_DDL)

    def wide(rows: DataFrame, known: Mapping[str, Column]) -> DataFrame:
        columns = [known.get(one.name, F.lit(None)).cast(one.dataType).alias(one.name) for one in schema.fields]
        return rows.select(*columns)

    frames = [wide(*_messages(session, reading)) for reading in readings]
    return reduce(DataFrame.unionAll, frames, wide(packed, {"value": F.col("value")}))


def _messages(session: SparkSession, reading: KafkaReading) -> tuple[DataFrame, Mapping[str, Column]]:
    """Return messages as Spark reads them, and what their columns are among wide rows."""
    messages = session.readStream.format("kafka").options(**reading.options()).load()
    ours = [F.lit(text) for ours, theirs in reading.names.items() for text in (theirs, ours)]
    known = {
        "topic": F.element_at(F.create_map(*ours), F.col("topic")) if len(reading.names) > 1 else ours[1],
        "sent": F.unix_millis(F.col("timestamp")),
        "batch_time": _batch_time(),
    }
    if reading.headers:
        known["headers"] = F.col("headers")
    elif reading.keys:
        known["headers"] = F.array(F.struct(F.lit("key").alias("key"), F.col("key").alias("value")))
    return messages, known | {name: F.col(name) for name in ("partition", "offset", "value")}


def _batch_time() -> Column:
    """Return the time of the batch, ms.

    Spark writes it as a number into the code that it generates, so that each batch would have code of its own, to be
    compiled and run slowly at first: a tenth to a fifth of the throughput. Inside a function of arrays it does not.
    """
    return F.aggregate(F.array().cast("array<int>"), F.unix_millis(F.current_timestamp()), lambda time, _: time)
