"""The routes of a worker: what runs here, for people and for the leader. A worker takes no apps by this way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from fastapi import APIRouter, FastAPI

from spdist.cluster.api.apps import IsActive, app_routes
from spdist.cluster.api.deploying import Revisions, revision_routes
from spdist.cluster.api.description import publish
from spdist.cluster.api.evidence import evidence_routes
from spdist.cluster.api.guard import RequestGuard, new_app
from spdist.cluster.api.login import login_routes
from spdist.cluster.api.models import AppState, Content, answers
from spdist.cluster.api.monitoring import log_routes, metrics_routes
from spdist.cluster.api.node import AnsweringNode, node_routes
from spdist.cluster.security.access import Permission

if TYPE_CHECKING:
    from spdist.cluster.workers.evidence_service import EvidenceService

__all__ = ["WorkerNode", "worker_app"]

Json = dict[str, Any]


class WorkerNode(AnsweringNode, Revisions, Protocol):
    """A worker as its interface sees it: `spdist.cluster.worker.Worker` says what its methods do."""

    evidence: EvidenceService

    def apps(self) -> list[Json]:
        """Return the group instances that are here."""
        ...

    def app_status(self, name: str) -> Json:
        """Return how a group instance is doing."""
        ...


def worker_app(worker: WorkerNode) -> FastAPI:
    """Return the interface of `worker`; apps here are group instances (WSO2: partial apps)."""
    app = new_app("spdist worker")
    guard = RequestGuard(worker.users)
    app.include_router(node_routes("worker", worker.statistics, guard))
    app.include_router(login_routes(guard))
    app.include_router(app_routes(worker.app_service, worker.app_text, guard))
    app.include_router(_apps(worker, guard))
    app.include_router(revision_routes(worker, guard))
    app.include_router(evidence_routes(worker.evidence, guard))
    app.include_router(log_routes(worker.log, guard))
    app.include_router(metrics_routes(worker.metrics, guard))
    publish(app, guard, standby=False)
    return app


def _apps(worker: WorkerNode, guard: RequestGuard) -> APIRouter:
    router = APIRouter(prefix="/siddhi-apps", tags=["apps"])
    view = guard.asks(Permission.VIEW)

    @router.get("", dependencies=[view], **answers(list[str]))
    def list_apps(is_active: IsActive = None) -> list[str]:
        """List the names of the group instances that are here."""
        return [a["name"] for a in worker.apps() if is_active is None or (a["status"] == "active") is is_active]

    @router.get("/{name}", dependencies=[view], **answers(Content))
    def content(name: str) -> Json:
        """Return the SiddhiQL of a group instance."""
        return {"content": worker.app_text(name)}

    @router.get("/{name}/status", dependencies=[view], **answers(AppState))
    def status(name: str) -> Json:
        """Tell how a group instance is doing, with the figures of its query."""
        return worker.app_status(name)

    return router
