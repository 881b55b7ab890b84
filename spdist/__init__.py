"""WSO2 Stream Processor applications (SiddhiQL) on Apache Spark, on a cluster of notebooks.

Names are loaded when they are first used, so importing this package loads none of the libraries behind it.

Examples
--------
>>> import spdist
>>> app = "define stream S (v int); from S[v > 1] select v * 10 as w insert into Out;"
>>> spdist.run(app, {"S": [(1000, (1,)), (1001, (2,))]})
{'Out': [(1001, (20,))]}
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spdist.cluster.clients.client import ClusterClient
    from spdist.cluster.clients.client_async import AsyncClusterClient
    from spdist.cluster.clients.handle import Deployment
    from spdist.cluster.processes.local import LocalCluster
    from spdist.cluster.processes.local_servers import LocalServers
    from spdist.config import Config, load_config
    from spdist.errors import SpdistError
    from spdist.extension import aggregator, function, window
    from spdist.facade import (
        check,
        connect,
        connect_async,
        explain,
        graph,
        output_of,
        parse,
        plan,
        run,
        siddhi,
        transform,
    )
    from spdist.frames import to_events, to_frame
    from spdist.headless import exit_value, job_parameters, stop_signal
    from spdist.language.ast import SiddhiApp
    from spdist.language.checking.checked import CheckedApp
    from spdist.language.types import Schema
    from spdist.planning.topology import Topology
    from spdist.provenance import why
    from spdist.result import Result
    from spdist.transports.feed import Feed

__all__ = [
    "AsyncClusterClient",
    "CheckedApp",
    "ClusterClient",
    "Config",
    "Deployment",
    "Feed",
    "LocalCluster",
    "LocalServers",
    "Result",
    "Schema",
    "SiddhiApp",
    "SpdistError",
    "Topology",
    "aggregator",
    "check",
    "connect",
    "connect_async",
    "exit_value",
    "explain",
    "function",
    "graph",
    "job_parameters",
    "load_config",
    "output_of",
    "parse",
    "plan",
    "run",
    "siddhi",
    "stop_signal",
    "to_events",
    "to_frame",
    "transform",
    "why",
    "window",
]

#: The names above, and what IPython looks for at ``%load_ext spdist`` and ``%unload_ext spdist``.
_HOMES = {
    "AsyncClusterClient": "spdist.cluster.clients.client_async",
    "CheckedApp": "spdist.language.checking.checked",
    "ClusterClient": "spdist.cluster.clients.client",
    "Config": "spdist.config",
    "Deployment": "spdist.cluster.clients.handle",
    "Feed": "spdist.transports.feed",
    "LocalCluster": "spdist.cluster.processes.local",
    "LocalServers": "spdist.cluster.processes.local_servers",
    "Result": "spdist.result",
    "Schema": "spdist.language.types",
    "SiddhiApp": "spdist.language.ast",
    "SpdistError": "spdist.errors",
    "Topology": "spdist.planning.topology",
    "aggregator": "spdist.extension",
    "check": "spdist.facade",
    "connect": "spdist.facade",
    "connect_async": "spdist.facade",
    "exit_value": "spdist.headless",
    "explain": "spdist.facade",
    "function": "spdist.extension",
    "graph": "spdist.facade",
    "job_parameters": "spdist.headless",
    "load_config": "spdist.config",
    "load_ipython_extension": "spdist.notebook",
    "output_of": "spdist.facade",
    "parse": "spdist.facade",
    "plan": "spdist.facade",
    "run": "spdist.facade",
    "siddhi": "spdist.facade",
    "stop_signal": "spdist.headless",
    "to_events": "spdist.frames",
    "to_frame": "spdist.frames",
    "transform": "spdist.facade",
    "unload_ipython_extension": "spdist.notebook",
    "why": "spdist.provenance",
    "window": "spdist.extension",
}


def __getattr__(name: str) -> Any:
    """Load a public name from where it lives; once, then it stands here."""
    if name == "__version__":
        return _version()
    if name not in _HOMES:
        raise AttributeError(f"module 'spdist' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return [*__all__, "__version__"]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("spdist")
    except PackageNotFoundError:  # on a path, but not installed
        return "unknown"
