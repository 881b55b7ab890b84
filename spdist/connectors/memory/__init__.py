"""In-memory topics that the apps of one machine share."""

from __future__ import annotations

from spdist.connectors.registry import Connector

__all__ = ["CONNECTOR"]

CONNECTOR = Connector(
    type="inMemory",
    source="spdist.connectors.memory.source:open_source",
    sink="spdist.connectors.memory.sink:open_sink",
    needed=("topic",),
    dynamic=("topic",),
    services=False,
)
