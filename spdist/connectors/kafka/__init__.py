"""Topics of users in Kafka. Those between groups are in `spdist.transports.kafka.transport`."""

from __future__ import annotations

from spdist.connectors.registry import Connector

__all__ = ["CONNECTOR"]

CONNECTOR = Connector(
    type="kafka",
    read_by_spark=True,
    sink="spdist.connectors.kafka.sink:open_sink",
    secrets=("optional.configuration",),
)
