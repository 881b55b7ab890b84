"""Any connector of Spark, batch by batch."""

from __future__ import annotations

from spdist.connectors.registry import Connector

__all__ = ["CONNECTOR"]

CONNECTOR = Connector(
    type="spark",
    source="spdist.connectors.spark.source:open_source",
    sink="spdist.connectors.spark.sink:open_sink",
    check="spdist.connectors.spark.options:check_sink",
    needed=("format",),
    dynamic=(),
    secrets=("option.*",),  # any option of Spark
    services=False,
)
