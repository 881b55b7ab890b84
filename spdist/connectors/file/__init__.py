"""Files that are read, and files that are appended to."""

from __future__ import annotations

from spdist.connectors.registry import Connector

__all__ = ["CONNECTOR"]

CONNECTOR = Connector(
    type="file",
    source="spdist.connectors.file.source:open_source",
    sink="spdist.connectors.file.sink:open_sink",
)
