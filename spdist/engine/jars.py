"""Spark's Kafka connector: its jars, and how they come into a session that runs already.

Each is fetched alone: the connector's own list of needs names a module that is not to be had in its version, and its
older release does at run time. A session has these jars only once a query needs Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from spdist.services.maven import Coordinate, cached_jars, jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["KAFKA_JARS", "add_jars", "cached_kafka_jars", "kafka_jars"]

KAFKA_JARS = (
    Coordinate("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0", transitive=False),
    Coordinate("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0", transitive=False),
    Coordinate("org.apache.kafka", "kafka-clients", "3.9.1", transitive=False),
    Coordinate("org.apache.commons", "commons-pool2", "2.12.1", transitive=False),
)


def kafka_jars() -> list[Path]:
    """Return the jars of Spark's Kafka connector, ready for ``spark.jars``; fetched once, then from the cache.

    Raises
    ------
    EngineError
        They are not in the cache, and the repository does not answer.
    """
    return jars("spark-kafka", KAFKA_JARS)


def cached_kafka_jars() -> list[Path]:
    """Return the jars of Spark's Kafka connector where they were fetched before, else an empty list."""
    return cached_jars("spark-kafka", KAFKA_JARS)


def add_jars(session: SparkSession, paths: Iterable[Path]) -> None:
    """Add jars to a running session: to its driver, which is all there is in local mode, and to its tasks."""
    for path in paths:
        quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
        session.sql(f'ADD JAR "{quoted}"')
