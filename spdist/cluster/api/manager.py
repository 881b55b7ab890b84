"""The routes of a manager."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from spdist.cluster.api.apps import app_routes
from spdist.cluster.api.cluster import Overseer, cluster_routes
from spdist.cluster.api.deploying import Apps, deploy_routes, revision_routes
from spdist.cluster.api.description import publish
from spdist.cluster.api.guard import RequestGuard, json_body, new_app
from spdist.cluster.api.login import login_routes
from spdist.cluster.api.models import (
    REASONS,
    Cordon,
    Done,
    GroupRecord,
    GroupTopics,
    LeaderNamed,
    Moves,
    Responses,
    ThisManager,
    WorkerAddress,
    answers,
    fails,
    takes,
)
from spdist.cluster.api.monitoring import journal_routes, log_routes, metrics_routes
from spdist.cluster.api.node import AnsweringNode, node_routes
from spdist.cluster.api.streams import StreamNode, stream_routes
from spdist.cluster.coordination.journal_rows import JournalRows
from spdist.cluster.elections.election import LeaderRow
from spdist.cluster.managers.app_service import AppService
from spdist.cluster.managers.upkeep import Upkeep
from spdist.cluster.protocol.messages import AnswerHeartbeat, RedirectHeartbeat, WorkerReport
from spdist.cluster.protocol.wire import (
    SAME_VERSION,
    Address,
    HeartbeatAnswer,
    HeartbeatRequest,
    Leader,
    LeaderClaim,
    OrderMessage,
    OutcomeMessage,
)
from spdist.cluster.security.access import Permission
from spdist.config import Config
from spdist.errors import NotFoundError
from spdist.transports.sockets.listening import Peer

__all__ = ["ManagerNode", "manager_app"]

Json = dict[str, Any]


class PlacingNode(Protocol):
    """Who decides where groups run: `spdist.cluster.manager.Manager`."""

    upkeep: Upkeep


class ManagerNode(AnsweringNode, Apps, Overseer, StreamNode, PlacingNode, Protocol):
    """A manager as its interface sees it: `spdist.cluster.manager.Manager` says what its methods do."""

    config: Config
    group_id: str
    journal: JournalRows

    @property
    def app_service(self) -> AppService:
        """Who answers what is asked about apps."""
        ...

    @property
    def me(self) -> Leader:
        """What others are told of this manager."""
        ...

    def leads(self) -> bool:
        """Tell whether it leads."""
        ...

    def who_leads(self) -> tuple[int | None, LeaderRow | None]:
        """Return the term in which it leads, or who else leads."""
        ...

    def known_managers(self) -> list[Address]:
        """Return where all managers are reached."""
        ...

    def node_details(self) -> list[Json]:
        """Return WSO2's list of workers."""
        ...

    def heartbeat(
        self, report: WorkerReport, outcomes: list[OutcomeMessage], peer: Peer | None = None
    ) -> tuple[AnswerHeartbeat | RedirectHeartbeat, list[OrderMessage]]:
        """Answer a worker's heartbeat."""
        ...


_Suffix = Annotated[str, Query(alias="permissionSuffix", max_length=200)]
_HEARTBEAT = json_body(HeartbeatRequest, SAME_VERSION)


def manager_app(manager: ManagerNode) -> FastAPI:
    """Return the interface of `manager`.

    Notes
    -----
    Handlers are plain functions, run in threads: each asks the manager's state loop and waits for what it says.
    Source: WSO2 SP 4.x, manager and worker REST APIs. Ours: ``/managers/topology/{app}``, ``/managers/nodes``,
    ``/managers/status``, ``/managers/rebalance``, ``/resourceClusterWorkers/{id}/cordon``, ``/resourceManager/leader``,
    ``/siddhi-apps/{app}/streams/{stream}/events``.
    """
    app = new_app("spdist manager")
    guard = RequestGuard(manager.users)
    app.include_router(node_routes("manager", manager.statistics, guard))
    app.include_router(login_routes(guard))
    app.include_router(app_routes(manager.app_service, manager.app_text, guard))
    app.include_router(deploy_routes(manager, guard))
    app.include_router(revision_routes(manager.app_service, guard))
    app.include_router(stream_routes(manager, guard))
    app.include_router(_this_manager(manager, guard))
    app.include_router(cluster_routes(manager, manager.config.transports.default, guard))
    app.include_router(_dashboard(manager, guard))
    app.include_router(_workers(manager, guard))
    app.include_router(_heartbeats(manager, guard))
    app.include_router(journal_routes(manager.journal, guard))
    app.include_router(log_routes(manager.log, guard))
    app.include_router(metrics_routes(manager.metrics, guard))
    app.include_router(placement_routes(manager, guard))
    publish(app, guard, standby=True)
    return app


def _this_manager(manager: ManagerNode, guard: RequestGuard) -> APIRouter:
    router = APIRouter(prefix="/managers", dependencies=[guard.asks(Permission.VIEW)], tags=["cluster"])

    @router.get("", **answers(ThisManager))
    def this_manager() -> Json:
        """Tell whether this manager leads, and its cluster."""
        return {"haStatus": "Active" if manager.leads() else "Passive", "groupId": manager.group_id}

    @router.get("/isActive", response_class=PlainTextResponse, responses=fails(404))
    def is_active() -> Response:
        """Answer 200 on the manager that leads and 404 on others, for load balancers."""
        if not manager.leads():
            raise NotFoundError("this manager does not lead")
        return PlainTextResponse("true")

    @router.get("/roles", **answers(bool))
    def may(request: Request, suffix: _Suffix) -> bool:
        """Tell whether the caller has a permission, such as siddhiApp.manage."""
        return suffix in {one.value for one in request.state.granted}

    return router


def _dashboard(manager: ManagerNode, guard: RequestGuard) -> APIRouter:
    """Return what WSO2's dashboard asks a manager about the group instances of apps."""
    router = APIRouter(prefix="/managers", dependencies=[guard.asks(Permission.VIEW)], tags=["cluster"])

    @router.get("/siddhi-apps", **answers(list[GroupRecord]))
    def all_children() -> list[Json]:
        """List the group instances of all apps."""
        return manager.app_service.children()

    @router.get("/siddhi-apps/{app}", **answers(list[GroupRecord]))
    def children(app: str) -> list[Json]:
        """List the group instances of an app."""
        return manager.app_service.children(app)

    @router.get("/siddhi-apps-execution/{app}", response_class=PlainTextResponse)
    def text(app: str) -> Response:
        """Return the SiddhiQL of an app as it was sent."""
        return PlainTextResponse(manager.app_text(app))

    @router.get("/kafkaDetails/{app}", **answers(list[GroupTopics]))
    def topics(app: str) -> list[Json]:
        """List the topics that each group instance of an app reads and writes, whatever carries them."""
        return manager.app_service.kafka_details(app)

    return router


def _workers(manager: ManagerNode, guard: RequestGuard) -> APIRouter:
    router = APIRouter(dependencies=[guard.asks(Permission.VIEW)], tags=["cluster"])

    @router.get("/resourceClusterWorkers", **answers(int))
    def count() -> int:
        """Count the workers that are no receivers."""
        return len(manager.node_details())

    @router.get("/resourceClusterWorkers/clusteredWorkerNodeDetails", **answers(list[WorkerAddress]))
    def details() -> list[Json]:
        """List where the workers are reached that are no receivers."""
        return manager.node_details()

    return router


def _heartbeats(manager: ManagerNode, guard: RequestGuard) -> APIRouter:
    router = APIRouter(prefix="/resourceManager", dependencies=[guard.asks(Permission.HEARTBEAT)], tags=["workers"])
    elsewhere: Responses = {
        301: {"model": LeaderNamed, "description": REASONS[301]},
        204: {"description": REASONS[204]},
    }

    @router.post("/heartbeat", **takes(HeartbeatRequest), **answers(HeartbeatAnswer, other=elsewhere))
    def heartbeat(request: Request, message: Annotated[HeartbeatRequest, _HEARTBEAT]) -> Response:
        """Report as a worker, and be told what to run; for workers only."""
        answer, orders = manager.heartbeat(message.to_report(), message.outcomes, request.client)
        if isinstance(answer, AnswerHeartbeat):
            text = HeartbeatAnswer.from_answer(
                answer, manager.me, manager.known_managers(), orders, message.assigned
            ).to_json()
            return Response(text, 200, media_type="application/json")
        return _elsewhere(answer.leader, "/resourceManager/heartbeat")

    @router.get("/leader", **answers(LeaderClaim, other=elsewhere))
    def leader() -> Response:
        """Tell whether this manager leads, and in which term; for workers that have lost their leader."""
        term, other = manager.who_leads()
        if term is None:
            return _elsewhere(other, "/resourceManager/leader")
        return Response(LeaderClaim(leader=manager.me, term=term).to_json(), 200, media_type="application/json")

    return router


def _elsewhere(row: LeaderRow | None, path: str) -> Response:
    """Send a worker to the leader, or, where none is known, to any other manager."""
    # WSO2's status: its workers go on to the next manager then
    if row is None:
        return Response(status_code=204)
    leader = Leader.from_row(row)
    body = {"leader": leader.model_dump(by_alias=True)}
    return JSONResponse(body, 301, {"Location": f"{leader.https_interface.url}{path}"})


def placement_routes(manager: PlacingNode, guard: RequestGuard) -> APIRouter:
    """Return the routes by which operators of `manager` empty workers and even out the load."""
    router = APIRouter(tags=["cluster"], dependencies=[guard.asks(Permission.MANAGE)])

    @router.put("/resourceClusterWorkers/{id}/cordon", **takes(Cordon, example={"drain": True}), **answers(Done, 404))
    def cordon(id: str, asked: Annotated[Cordon, json_body(Cordon)]) -> Json:
        """Give a worker nothing new; with `drain`, what it has goes elsewhere, one group after the other."""
        manager.upkeep.cordon(id, drain=asked.drain)
        more = ", and what it has goes elsewhere" if asked.drain else ""
        return {"type": "success", "message": f"worker {id} is given nothing new{more}"}

    @router.delete("/resourceClusterWorkers/{id}/cordon", **answers(Done, 404))
    def uncordon(id: str) -> Json:
        """Give a worker groups again."""
        manager.upkeep.uncordon(id)
        return {"type": "success", "message": f"worker {id} is given groups again"}

    @router.post("/managers/rebalance", **answers(Moves))
    def rebalance(dry_run: Annotated[bool, Query(alias="dryRun")] = False) -> Json:
        """Even out the load now, and return the moves; with `dryRun`, only say what would be moved."""
        moves = manager.upkeep.rebalance(dry_run=dry_run)
        return {"moves": [{"group": m.group, "from": m.source, "to": m.target, "reason": m.reason} for m in moves]}

    return router
