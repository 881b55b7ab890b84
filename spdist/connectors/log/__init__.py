"""Lines in the log of the process."""

from __future__ import annotations

from spdist.connectors.registry import Connector

__all__ = ["CONNECTOR"]

CONNECTOR = Connector(
    type="log",
    sink="spdist.connectors.log.sink:open_sink",
    dynamic=(),
    services=False,
)
