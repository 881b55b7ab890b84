"""Subjects of users in NATS. Topics between groups are in `spdist.transports.nats.transport`."""

from __future__ import annotations

from spdist.connectors.registry import Connector

__all__ = ["CONNECTOR"]

CONNECTOR = Connector(
    type="nats",
    source="spdist.connectors.nats.source:open_source",
    sink="spdist.connectors.nats.sink:open_sink",
    secrets=("password", "token", "username"),
)
