"""The routes about the node itself, manager or worker: does it live, what does it run on, how loaded is it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from spdist.cluster.api.apps import SETTING, AppRequests, Setting, measured
from spdist.cluster.api.guard import RequestGuard
from spdist.cluster.api.models import Health, NodeStatistics, SystemDetails, Unhealthy, answers
from spdist.cluster.security.access import Permission, Users
from spdist.cluster.workers.node_facts import system_details
from spdist.logs import RecordRing

__all__ = ["AnsweringNode", "node_routes"]

Json = dict[str, Any]


class AnsweringNode(Protocol):
    """A node as its interface sees it; the node itself is not imported here, since it makes the interface."""

    users: Users
    log: RecordRing

    @property
    def app_service(self) -> AppRequests:
        """Who answers what is asked about apps."""
        ...

    def app_text(self, name: str) -> str:
        """Return the SiddhiQL of what runs here; raises NotFoundError where there is none of that name."""
        ...

    def statistics(self) -> Json:
        """Return the load of the node."""
        ...

    def metrics(self) -> str:
        """Return its figures as Prometheus text."""
        ...


def node_routes(
    kind: Literal["manager", "worker"],
    statistics: Callable[[], Json],
    guard: RequestGuard,
    passive: Callable[[], str] = lambda: "",
) -> APIRouter:
    """Return the routes of a node of that `kind`, whose load `statistics` returns.

    `passive` returns why nothing is to be sent to it for now; empty where that is not so.
    """
    router = APIRouter(tags=["node"])
    view = guard.asks(Permission.VIEW)

    @router.get("/health", **answers(Health, other={503: {"model": Unhealthy, "description": "It is passive"}}))
    def health() -> Response:
        """Tell that this node answers, or that another one is active; nobody has to log in for that."""
        if why := passive():
            return JSONResponse({"status": "passive", "reason": why}, 503, {"Retry-After": "1"})
        return JSONResponse({"status": "healthy"})

    @router.get("/statistics", dependencies=[view], **answers(NodeStatistics))
    def load() -> Json:
        """Tell the load of this node."""
        return statistics()

    @router.put("/statistics", dependencies=[guard.asks(Permission.MANAGE)], **SETTING)
    def set_figures(asked: Setting) -> Json:
        """Ask for figures of this node, which changes nothing: they are always measured."""
        return measured("this node", asked)

    @router.get("/system-details", dependencies=[view], **answers(SystemDetails))
    def details() -> Json:
        """Tell what this node runs on: versions, no paths, users or settings."""
        return system_details()

    @router.get("/nodeDetails/runTime", dependencies=[view], response_class=PlainTextResponse)
    def run_time() -> str:
        """Tell what this node is: manager or worker."""
        return kind

    return router
