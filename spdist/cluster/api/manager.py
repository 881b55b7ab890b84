"""The routes of a manager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, HTTPException, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from spdist.cluster.access import Permission
from spdist.cluster.api.gate import AppText, Body, Gate, new_app
from spdist.cluster.election import LeaderRow
from spdist.cluster.messages import AnswerHeartbeat
from spdist.cluster.wire import HeartbeatAnswer, HeartbeatRequest, Leader, LeaderClaim, error_body, read_message
from spdist.errors import ClusterError, NotFoundError

if TYPE_CHECKING:
    from spdist.cluster.manager import Deployed, Manager

__all__ = ["manager_app"]

Json = dict[str, Any]
_IsActive = Annotated[bool | None, Query(alias="isActive")]


def manager_app(manager: Manager) -> FastAPI:
    """Return the interface of `manager`.

    Notes
    -----
    Handlers are plain functions, run in threads: each asks the manager's mind and waits for what it says.
    Source: WSO2 SP 4.x, manager and worker REST APIs. Ours: ``/managers/topology/{app}``, ``/managers/nodes``,
    ``/resourceManager/leader``.
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
        return _stored(manager.deploy(text, replace=False))

    @router.put("", dependencies=[manage])
    def update(text: AppText) -> Response:
        return _stored(manager.deploy(text, replace=True))

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


def _stored(done: Deployed) -> Response:
    what = "deployed" if done.created else "updated"
    body: Json = {"type": "success", "message": f"{done.name} was {what}", "name": done.name}
    if done.change is not None:
        body["change"] = done.change.to_dict()
    location = f"/siddhi-apps/{quote(done.name, safe='')}"
    return JSONResponse(body, 201 if done.created else 200, {"Location": location})


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
    def heartbeat(request: Request, body: Body) -> Response:
        try:
            message = read_message(HeartbeatRequest, body)
        except ClusterError as error:
            raise HTTPException(400, error_body(error)) from error
        answer, orders = manager.heartbeat(message.to_report(), message.outcomes, request.client)
        if isinstance(answer, AnswerHeartbeat):
            text = HeartbeatAnswer.from_answer(
                answer, manager.me, manager.known_managers(), orders, frozenset(message.known_assignments)
            ).to_json()
            return Response(text, 200, media_type="application/json")
        return _elsewhere(answer.leader, "/resourceManager/heartbeat")

    @router.get("/resourceManager/leader", dependencies=[gate.asks(Permission.HEARTBEAT)])
    def leader() -> Response:
        term, other = manager.who_leads()
        if term is None:
            return _elsewhere(other, "/resourceManager/leader")
        return Response(LeaderClaim(leader=manager.me, term=term).to_json(), 200, media_type="application/json")

    return router


def _elsewhere(row: LeaderRow | None, path: str) -> Response:
    """Send a worker to the leader, or, where none is known, to any other manager."""
    if row is None:
        return Response(status_code=204)
    leader = Leader.from_row(row)
    body = {"leader": leader.model_dump(by_alias=True)}
    return JSONResponse(body, 301, {"Location": f"{leader.https_interface.url}{path}"})
