"""The routes of a server, a node that has apps of its own: those of a worker, and those by which apps are deployed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fastapi import FastAPI

from spdist.cluster.api.apps import app_routes
from spdist.cluster.api.cluster import Overseer, cluster_routes
from spdist.cluster.api.deploying import Apps, Revisions, deploy_routes, revision_routes
from spdist.cluster.api.description import publish
from spdist.cluster.api.evidence import evidence_routes
from spdist.cluster.api.guard import RequestGuard, new_app
from spdist.cluster.api.login import login_routes
from spdist.cluster.api.monitoring import log_routes, metrics_routes
from spdist.cluster.api.node import AnsweringNode, node_routes
from spdist.cluster.api.streams import StreamNode, stream_routes
from spdist.config import Config

if TYPE_CHECKING:
    from spdist.cluster.workers.evidence_service import EvidenceService

__all__ = ["ServingNode", "server_app"]


class ServingNode(AnsweringNode, Apps, Overseer, Revisions, StreamNode, Protocol):
    """A server as its interface sees it: `spdist.cluster.server_node.ServerNode` says what its methods do."""

    config: Config
    evidence: EvidenceService

    @property
    def passive(self) -> str:
        """Why it does not run its apps; empty where it does."""
        ...


def server_app(node: ServingNode) -> FastAPI:
    """Return the interface of `node`."""
    app = new_app("spdist server")
    guard = RequestGuard(node.users)
    # WSO2's name of the runtime that a server is.
    app.include_router(node_routes("worker", node.statistics, guard, lambda: node.passive))
    app.include_router(login_routes(guard))
    app.include_router(app_routes(node.app_service, node.app_text, guard))
    app.include_router(deploy_routes(node, guard))
    app.include_router(revision_routes(node, guard))
    app.include_router(evidence_routes(node.evidence, guard))
    app.include_router(stream_routes(node, guard))
    app.include_router(cluster_routes(node, node.config.transports.default, guard))
    app.include_router(log_routes(node.log, guard))
    app.include_router(metrics_routes(node.metrics, guard))
    publish(app, guard, standby=node.config.is_ha)
    return app
