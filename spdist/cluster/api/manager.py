"""The routes of a manager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, HTTPException, Query
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from spdist.cluster.access import Permission
from spdist.cluster.api.gate import AppText, Body, Gate, new_app
from spdist.cluster.messages import AnswerHeartbeat
from spdist.cluster.wire import HeartbeatAnswer, HeartbeatRequest, Leader, read_message
from spdist.errors import ClusterError, NotFoundError

if TYPE_CHECKING:
    from spdist.cluster.manager import Manager

__all__ = ["manager_app"]

Json = dict[str, Any]
_IsActive = Annotated[bool | None, Query(alias="isActive")]


def manager_app(manager: Manager) -> FastAPI:
    """Return the interface of `manager`.

    Notes
    -----
    Handlers are plain functions, run in threads: each asks the manager's mind and waits for what it says.
    Source: WSO2 SP 4.x, manager and worker REST APIs. Ours: ``/managers/topology/{app}``, ``/managers/nodes``.
    """
    app = new_app("spdist manager")
    gate = Gate(manager.users)
    app.include_router(_apps(manager, gate))
    app.include_router(_revisions(manager, gate))
    app.include_router(_cluster(manager, gate))
    app.include_router(_workers(manager, gate))

    @app.get("/health")
    def health() -> Json:
        return {"status": "healthy"}

    return app


def _apps(manager: Manager, gate: Gate) -> APIRouter:
    router = APIRouter(prefix="/siddhi-apps")
    view, manage = gate.asks(Permission.VIEW), gate.asks(Permission.MANAGE)

    @router.post("", dependencies=[manage])
    def deploy(text: AppText) -> Response:
        name, _ = manager.deploy(text, replace=False)
        return _stored(name, created=True)

    @router.put("", dependencies=[manage])
    def update(text: AppText) -> Response:
        name, created = manager.deploy(text, replace=True)
        return _stored(name, created=created)

    @router.get("", dependencies=[view])
    def list_apps(is_active: _IsActive = None) -> list[str]:
        return [a["name"] for a in manager.apps() if is_active is None or (a["status"] == "active") is is_active]

    @router.get("/{name}", dependencies=[view])
    def content(name: str) -> Json:
        return {"content": manager.app_text(name)}

    @router.get("/{name}/status", dependencies=[view])
    def status(name: str) -> Json:
        return manager.app_status(name)

    @router.delete("/{name}", dependencies=[manage])
    def undeploy(name: str) -> Json:
        manager.undeploy(name)
        return {"type": "success", "message": f"{name} is being undeployed"}

    return router


def _stored(name: str, *, created: bool) -> Response:
    body = {"type": "success", "message": f"{name} was {'deployed' if created else 'updated'}", "name": name}
    location = f"/siddhi-apps/{quote(name, safe='')}"
    return JSONResponse(body, 201 if created else 200, {"Location": location})


def _revisions(manager: Manager, gate: Gate) -> APIRouter:
    router = APIRouter(prefix="/siddhi-apps")
    view, manage = gate.asks(Permission.VIEW), gate.asks(Permission.MANAGE)

    @router.post("/{name}/backup", status_code=201, dependencies=[manage])
    def backup(name: str) -> Json:
        return {"revision": manager.backup(name)}

    @router.post("/{name}/restore", dependencies=[manage])
    def restore(name: str, revision: str) -> Json:
        manager.restore(name, revision)
        return {"type": "success", "message": f"{name} goes on from revision {revision}"}

    @router.get("/{name}/revisions", dependencies=[view])
    def revisions(name: str) -> list[str]:
        return manager.revisions(name)

    return router


def _cluster(manager: Manager, gate: Gate) -> APIRouter:
    router = APIRouter(prefix="/managers", dependencies=[gate.asks(Permission.VIEW)])

    @router.get("")
    def this_manager() -> Json:
        return {"haStatus": "Active" if manager.leads() else "Passive", "groupId": manager.group_id}

    @router.get("/isActive")
    def is_active() -> Response:
        if not manager.leads():
            raise NotFoundError("this manager does not lead")
        return PlainTextResponse("true")

    @router.get("/siddhi-apps")
    def all_children() -> list[Json]:
        return manager.children()

    @router.get("/siddhi-apps/{app}")
    def children(app: str) -> list[Json]:
        return manager.children(app)

    @router.get("/siddhi-apps-execution/{app}")
    def text(app: str) -> Response:
        return PlainTextResponse(manager.app_text(app))

    @router.get("/topology/{app}")
    def topology(app: str) -> Json:
        return manager.topology(app)

    @router.get("/nodes")
    def nodes() -> Json:
        return manager.nodes()

    return router


def _workers(manager: Manager, gate: Gate) -> APIRouter:
    router = APIRouter()
    view = gate.asks(Permission.VIEW)

    @router.get("/resourceClusterWorkers", dependencies=[view])
    def count() -> int:
        return len(manager.node_details())

    @router.get("/resourceClusterWorkers/clusteredWorkerNodeDetails", dependencies=[view])
    def details() -> list[Json]:
        return manager.node_details()

    @router.post("/resourceManager/heartbeat", dependencies=[gate.asks(Permission.HEARTBEAT)])
    def heartbeat(body: Body) -> Response:
        try:
            message = read_message(HeartbeatRequest, body)
        except ClusterError as error:
            raise HTTPException(400, error.to_dict()) from error
        answer, orders = manager.heartbeat(message.to_report(), message.outcomes)
        if isinstance(answer, AnswerHeartbeat):
            text = HeartbeatAnswer.from_answer(answer, manager.me, manager.known_managers(), orders).to_json()
            return Response(text, 200, media_type="application/json")
        if answer.leader is None:
            return Response(status_code=204)
        leader = Leader.from_row(answer.leader)
        return JSONResponse(
            {"leader": leader.model_dump(by_alias=True)},
            301,
            {"Location": f"{leader.https_interface.url}/resourceManager/heartbeat"},
        )

    return router
