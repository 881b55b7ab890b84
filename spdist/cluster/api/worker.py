"""The routes of a worker: what runs here, for people and for the leader. A worker takes no apps by this way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Query
from fastapi.responses import PlainTextResponse

from spdist.cluster.access import Permission
from spdist.cluster.api.gate import Gate, new_app
from spdist.cluster.exposition import CONTENT_TYPE

if TYPE_CHECKING:
    from spdist.cluster.worker import Worker

__all__ = ["worker_app"]

Json = dict[str, Any]


def worker_app(worker: Worker) -> FastAPI:
    """Return the interface of `worker`; apps here are group instances (WSO2: partial apps)."""
    app = new_app("spdist worker")
    gate = Gate(worker.users)
    view, manage = gate.asks(Permission.VIEW), gate.asks(Permission.MANAGE)

    @app.get("/health")
    def health() -> Json:
        return {"status": "healthy"}

    @app.get("/siddhi-apps", dependencies=[view])
    def list_apps(is_active: Annotated[bool | None, Query(alias="isActive")] = None) -> list[str]:
        return [a["name"] for a in worker.apps() if is_active is None or (a["status"] == "active") is is_active]

    @app.get("/siddhi-apps/{name}", dependencies=[view])
    def content(name: str) -> Json:
        return {"content": worker.app_text(name)}

    @app.get("/siddhi-apps/{name}/status", dependencies=[view])
    def status(name: str) -> Json:
        return worker.app_status(name)

    @app.post("/siddhi-apps/{name}/backup", status_code=201, dependencies=[manage])
    def backup(name: str) -> Json:
        return {"revision": worker.backup(name)}

    @app.get("/siddhi-apps/{name}/revisions", dependencies=[view])
    def revisions(name: str) -> list[str]:
        return worker.revisions(name)

    @app.post("/siddhi-apps/{name}/restore", dependencies=[manage])
    def restore(name: str, revision: str) -> Json:
        worker.restore(name, revision)
        return {"type": "success", "message": f"{name} goes on from revision {revision}"}

    @app.get("/statistics", dependencies=[view])
    def statistics() -> Json:
        return worker.statistics()

    @app.get("/metrics", dependencies=[view], response_class=PlainTextResponse)
    def metrics() -> PlainTextResponse:
        return PlainTextResponse(worker.metrics(), media_type=CONTENT_TYPE)

    return app
