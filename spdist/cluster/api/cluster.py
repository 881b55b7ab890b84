"""The routes that tell what runs where, of managers and of servers."""

from __future__ import annotations

from typing import Any, Protocol

from fastapi import APIRouter

from spdist.cluster.api.guard import RequestGuard
from spdist.cluster.api.models import Nodes, NodesAndApps, Topology, answers
from spdist.cluster.security.access import Permission

__all__ = ["Overseer", "cluster_routes"]

Json = dict[str, Any]


class Overseer(Protocol):
    """Who knows what runs: `spdist.cluster.manager.Manager`, `spdist.cluster.server_node.ServerNode`."""

    def topology(self, name: str) -> Json:
        """Return groups, topics, strategies and placement of an app."""
        ...

    def nodes(self, *, apps: bool = False) -> Json:
        """Return managers, workers, and all apps where they are asked for."""
        ...


def cluster_routes(node: Overseer, transport: str, guard: RequestGuard) -> APIRouter:
    """Return the routes of what `node` knows; `transport` carries the topics of its apps."""
    router = APIRouter(prefix="/managers", dependencies=[guard.asks(Permission.VIEW)], tags=["cluster"])

    @router.get("/topology/{app}", **answers(Topology))
    def topology(app: str) -> Json:
        """Tell groups, topics, strategies and placement of an app."""
        return node.topology(app)

    @router.get("/nodes", **answers(Nodes))
    def nodes() -> Json:
        """Tell leader, managers, workers, and what has happened lately; a server is all of them."""
        return node.nodes()

    @router.get("/status", **answers(NodesAndApps))
    def status() -> Json:
        """Tell the same together with all apps and how each of their groups is doing, as of one moment."""
        return {**node.nodes(apps=True), "transport": transport}

    return router
