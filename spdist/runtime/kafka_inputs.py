"""What a group instance reads from Kafka through Spark's own connector."""

from __future__ import annotations

from collections.abc import Sequence

from spdist.config.sections import Transports
from spdist.engine.query import KafkaInput
from spdist.errors import TransportError
from spdist.planning.topology import Assignment
from spdist.transports.kafka import kafka_topic
from spdist.transports.opening import kafka_settings

__all__ = ["kafka_inputs"]


def kafka_inputs(assignments: Sequence[Assignment], section: Transports) -> dict[str, KafkaInput]:
    """Return by topic what is read from Kafka.

    Parameters
    ----------
    assignments : sequence of Assignment
        What shares a query.
    section : Transports
        Where the brokers are.

    Raises
    ------
    TransportError
        Nothing says where Kafka is.
    """
    read = [one for assignment in assignments for one in assignment.inputs if one.transport == "kafka"]
    settings = kafka_settings(section) if read else None
    if read and settings is None:
        raise TransportError(
            f"topic {read[0].topic!r} is in Kafka, and nothing says where that is",
            hint="set transports.kafka.bootstrapServers",
        )
    return {one.topic: KafkaInput(settings, kafka_topic(one.topic), bool(one.producers)) for one in read if settings}
