"""The routes of a server, a node that has apps of its own: those of a worker, and those by which apps are deployed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fastapi import FastAPI

from spdist.cluster.api.apps import app_routes
from spdist.cluster.api.cluster import Overseer, cluster_routes
from spdist.cluster.api.deploying import Apps, Revisions, deploy_routes, revision_routes
from spdist.cluster.api.description import publish
from spdist.cluster.api.evidence import evidence_routes
from spdist.cluster.api.gate import Gate, new_app
from spdist.cluster.api.login import login_routes
from spdist.cluster.api.monitoring import log_routes, metrics_routes
from spdist.cluster.api.node import AnsweringNode, node_routes
from spdist.cluster.api.streams import StreamNode, stream_routes
from spdist.config import Config

if TYPE_CHECKING:
    from spdist.cluster.evidence_desk import EvidenceDesk

__all__ = ["ServingNode", "server_app"]


class ServingNode(AnsweringNode, Apps, Overseer, Revisions, StreamNode, Protocol):
    """A server as its interface sees it: `spdist.cluster.server_node.ServerNode` says what its methods do."""

    config: Config
    evidence: EvidenceDesk

    @property
    def passive(self) -> str:
        """Why it does not run its apps; empty where it does."""
        ...


def server_app(node: ServingNode) -> FastAPI:
    """Return the interface of `node`."""
    app = new_app("spdist server")
    gate = Gate(node.users)
    # WSO2's name of the runtime that a server is.
    app.include_router(node_routes("worker", node.statistics, gate, lambda: node.passive))
    app.include_router(login_routes(gate))
    app.include_router(app_routes(node.desk, node.app_text, gate))
    app.include_router(deploy_routes(node, gate))
    app.include_router(revision_routes(node, gate))
    app.include_router(evidence_routes(node.evidence, gate))
    app.include_router(stream_routes(node, gate))
    app.include_router(cluster_routes(node, node.config.transports.default, gate))
    app.include_router(log_routes(node.log, gate))
    app.include_router(metrics_routes(node.metrics, gate))
    publish(app, gate, standby=node.config.is_ha)
    return app
