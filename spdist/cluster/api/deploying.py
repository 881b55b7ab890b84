"""The routes by which apps are deployed and their revisions are kept, of managers and of servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from spdist.cluster.api.apps import IsActive
from spdist.cluster.api.guard import AppText, RequestGuard
from spdist.cluster.api.models import AppState, Content, Done, Responses, Revision, answers, takes
from spdist.cluster.security.access import Permission

if TYPE_CHECKING:
    from spdist.cluster.servers.deployed import DeployOutcome

__all__ = ["Apps", "Revisions", "deploy_routes", "revision_routes"]

Json = dict[str, Any]
_CREATED: Responses = {201: {"model": Done, "description": "Done"}}
_APP = "@app:name('Doubles') define stream S (v int); from S select v * 2 as twice insert into Out;"


class Apps(Protocol):
    """Who has apps: `spdist.cluster.manager.Manager`, `spdist.cluster.server_node.ServerNode`."""

    def deploy(self, text: str, *, replace: bool) -> DeployOutcome:
        """Deploy an app, or replace the one of its name."""
        ...

    def undeploy(self, name: str) -> None:
        """Remove an app."""
        ...

    def apps(self) -> list[Json]:
        """Return all apps, each with its name and status."""
        ...

    def app_text(self, name: str) -> str:
        """Return the SiddhiQL of an app."""
        ...

    def app_status(self, name: str, *, active: bool = False) -> Json:
        """Return how an app is doing; with `active`, as the node that runs it knows it."""
        ...


class Revisions(Protocol):
    """Who keeps the state of apps, or of group instances."""

    def backup(self, name: str, /) -> str:
        """Keep the present state and return the revision."""
        ...

    def revisions(self, name: str, /) -> list[str]:
        """Return the revisions, oldest first."""
        ...

    def restore(self, name: str, revision: str, /) -> None:
        """Go back to a revision."""
        ...


def deploy_routes(node: Apps, guard: RequestGuard) -> APIRouter:
    """Return the routes of the apps of `node`."""
    router = APIRouter(prefix="/siddhi-apps", tags=["apps"])
    view, manage = guard.asks(Permission.VIEW), guard.asks(Permission.MANAGE)

    @router.post("", status_code=201, dependencies=[manage], **takes(example=_APP), **answers(Done, 409, status=201))
    def deploy(text: AppText) -> Response:
        """Deploy an app; it begins to run with the next heartbeats."""
        return _stored(node.deploy(text, replace=False))

    @router.put("", dependencies=[manage], **takes(example=_APP), **answers(Done, 409, other=_CREATED))
    def update(text: AppText) -> Response:
        """Deploy an app, or replace the one of its name.

        What has been read is the old text's, what comes after the new one's; `change` tells what becomes of the groups.
        """
        return _stored(node.deploy(text, replace=True))

    @router.get("", dependencies=[view], **answers(list[str]))
    def list_apps(is_active: IsActive = None) -> list[str]:
        """List the names of all deployed apps."""
        return [a["name"] for a in node.apps() if is_active is None or (a["status"] == "active") is is_active]

    @router.get("/{name}", dependencies=[view], **answers(Content))
    def content(name: str) -> Json:
        """Return the SiddhiQL of an app as it was sent."""
        return {"content": node.app_text(name)}

    @router.get("/{name}/status", dependencies=[view], **answers(AppState))
    def status(name: str, active: bool = False) -> Json:
        """Tell how an app and each of its groups are doing; with `active`, a passive server names the active one."""
        return node.app_status(name, active=active)

    @router.delete("/{name}", dependencies=[manage], **answers(Done, 409))
    def undeploy(name: str) -> Json:
        """Remove an app; its groups are stopped with the next heartbeats. Its topics and state stay."""
        node.undeploy(name)
        return {"type": "success", "message": f"{name} is being undeployed"}

    return router


def _stored(done: DeployOutcome) -> Response:
    what = "deployed" if done.created else "updated"
    body: Json = {"type": "success", "message": f"{done.name} was {what}", "name": done.name}
    if done.change is not None:
        body["change"] = done.change.to_dict()
    location = f"/siddhi-apps/{quote(done.name, safe='')}"
    return JSONResponse(body, 201 if done.created else 200, {"Location": location})


def revision_routes(node: Revisions, guard: RequestGuard) -> APIRouter:
    """Return the routes of revisions; of a worker they are those of group instances."""
    router = APIRouter(prefix="/siddhi-apps", tags=["apps"])
    view, manage = guard.asks(Permission.VIEW), guard.asks(Permission.MANAGE)

    @router.post("/{name}/backup", status_code=201, dependencies=[manage], **answers(Revision, status=201))
    def backup(name: str) -> Json:
        """Keep the state of all groups of an app as a revision; on a worker, that of a group instance."""
        return {"revision": node.backup(name)}

    @router.post("/{name}/restore", dependencies=[manage], **answers(Done))
    def restore(name: str, revision: str) -> Json:
        """Let all groups of an app go back to a revision; on a worker, a group instance."""
        node.restore(name, revision)
        return {"type": "success", "message": f"{name} goes on from revision {revision}"}

    @router.get("/{name}/revisions", dependencies=[view], **answers(list[str]))
    def revisions(name: str) -> list[str]:
        """List the revisions that all groups of an app have, oldest first; on a worker, those of a group instance."""
        return node.revisions(name)

    return router
