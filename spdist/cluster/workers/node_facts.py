"""What a node, manager or worker, tells of itself: its load, and what it runs on."""

from __future__ import annotations

import platform
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psutil

from spdist.cluster.workers.group_supervisor import node_metrics

__all__ = ["installed_version", "node_statistics", "system_details"]

Json = dict[str, Any]


def installed_version() -> str:
    """Return the version of spdist that is installed."""
    try:
        return version("spdist")
    except PackageNotFoundError:  # run from its source
        return "unknown"


def node_statistics(ha_status: str, cluster_id: str, message: str = "") -> Json:
    """Return WSO2's ``GET /statistics``, as far as it means something here; what is measured is always on."""
    return {
        "workerMetrics": dict(node_metrics()),
        "haStatus": ha_status,
        "runningStatus": "Reachable",
        "isStatsEnabled": True,
        "clusterID": cluster_id,
        "osName": platform.system(),
        "message": message,
    }


def system_details() -> Json:
    """Return WSO2's ``GET /system-details`` in a Python process: versions, never paths, users or settings."""
    return {
        "spdistVersion": installed_version(),
        "pythonImplementation": platform.python_implementation(),
        "pythonVersion": platform.python_version(),
        "osName": platform.system(),
        "osVersion": platform.release(),
        "osArchitecture": platform.machine(),
        "userTimezone": time.tzname[0],
        "serverStartTime": int(_SELF.create_time() * 1000),
    }


_SELF = psutil.Process()
