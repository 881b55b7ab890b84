"""The routes of a manager that change where groups run: cordons, and evening out the load."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Query

from spdist.cluster.api.guard import RequestGuard, json_body
from spdist.cluster.api.models import Cordon, Done, Moves, answers, takes
from spdist.cluster.managers.upkeep import Upkeep
from spdist.cluster.security.access import Permission

__all__ = ["PlacingNode", "placement_routes"]

Json = dict[str, Any]


class PlacingNode(Protocol):
    """Who decides where groups run: `spdist.cluster.manager.Manager`."""

    upkeep: Upkeep


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
