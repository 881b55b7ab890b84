"""Jars of Spark's connectors: of Kafka's, which come into a session that runs already, and what settings name.

Those of Kafka are fetched each alone: the connector's own list of needs names a module that is not to be had in its
version, and its older release does at run time. A session has these jars only once a query needs Kafka. Those that
settings name (``spark.packages``) are there when it starts, with what they need; what Spark brings along is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from spdist.services.maven import Coordinate, cached_jars, jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["KAFKA_JARS", "add_jars", "cached_kafka_jars", "kafka_jars", "package_jars", "package_settings"]

KAFKA_JARS = (
    Coordinate("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0", transitive=False),
    Coordinate("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0", transitive=False),
    Coordinate("org.apache.kafka", "kafka-clients", "3.9.1", transitive=False),
    Coordinate("org.apache.commons", "commons-pool2", "2.12.1", transitive=False),
)
#: Settings that connectors need, by the beginning of their artifact.
_CONNECTOR_SETTINGS = {
    "delta-spark": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Of the log of a table: 50 tasks for each look at it take seconds on a few cores.
        "spark.databricks.delta.snapshotPartitions": "2",
    },
}


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


def package_jars(packages: Sequence[str]) -> list[Path]:
    """Return the jars of Maven coordinates with what they need, but for those that Spark has, fetched once.

    Raises
    ------
    EngineError
        They are not in the cache, and the repository does not answer or has none of that name.
    """
    if not packages:
        return []
    found = jars("spark-packages", [_coordinate(one) for one in packages])
    brought = {_artifact(one) for one in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    return [one for one in found if _artifact(one) not in brought]


def package_settings(packages: Sequence[str]) -> dict[str, str]:
    """Return what Spark must be told besides, so that the connectors of packages work."""
    return next(
        (dict(told) for name, told in _CONNECTOR_SETTINGS.items() if any(f":{name}" in one for one in packages)), {}
    )


def _coordinate(written: str) -> Coordinate:
    group, artifact, version = written.split(":")
    return Coordinate(group, artifact, version)


def _artifact(jar: Path) -> str:
    """Return the name of a jar without its version."""
    return re.sub(r"-\d.*", "", jar.stem)


def add_jars(session: SparkSession, paths: Iterable[Path]) -> None:
    """Add jars to a running session: to its driver, which is all there is in local mode, and to its tasks."""
    for path in paths:
        quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
        session.sql(f'ADD JAR "{quoted}"')
