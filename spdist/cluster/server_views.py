"""The JSON that a server's interface answers with, in the shapes of a manager's: it leads itself. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from spdist.cluster.hosting import Readiness
from spdist.cluster.messages import GroupReport, MemoryReport
from spdist.cluster.own_leader import OwnApp
from spdist.cluster.views import memory_view, wso2_status

__all__ = ["own_app_view", "own_nodes_view"]

Json = dict[str, Any]


def own_app_view(app: OwnApp, here: GroupReport | None, node: str, url: str) -> Json:
    """Return how an app is doing, as `spdist.cluster.views.app_view` does: it has one group, itself, on this node.

    Parameters
    ----------
    app : OwnApp
        The app.
    here : GroupReport, optional
        What is reported of it.
    node, url : str
        Of the server.
    """
    instance, told = app.instance, _told(app, here)
    group = {
        "name": app.name,
        "group": app.name,
        "state": told["state"],
        "reason": told["reason"],
        "worker": node,
        "url": url,
        "receiver": False,
        "failures": instance.failures if instance else 0,
        "metrics": told["metrics"],
    }
    return {"name": app.name, **told, "version": 1, "groups": [group] if instance else []}


def _told(app: OwnApp, here: GroupReport | None) -> Json:
    if app.instance is None:
        return {"status": "inactive", "state": "FAILED", "reason": app.error, "metrics": {}}
    if here is None or (app.instance.error and not here.state.alive and not app.instance.gave_up):
        failed = f"it has failed and is started again: {app.instance.error}" if app.instance.error else ""
        return {"status": "inactive", "state": "WAITING", "reason": app.error or failed, "metrics": {}}
    reason = app.error and f"the text before runs on, as the one in its file is wrong: {app.error}"
    return {
        "status": wso2_status(here.state),
        "state": here.state.value,
        "reason": reason or here.error,
        "metrics": dict(here.metrics),
    }


def own_nodes_view(
    node: str,
    url: str,
    term: int,
    apps: Container[str],
    groups: Sequence[GroupReport],
    readiness: Readiness,
    memory: MemoryReport | None,
    metrics: Mapping[str, float],
) -> Json:
    """Return a server as who leads and as who works, as `spdist.cluster.views.nodes_view` does.

    Parameters
    ----------
    node, url : str
        Its id, and where it is reached.
    term : int
        In which it leads.
    apps : container of str
        Names of what it is to run.
    groups : sequence of GroupReport
        What it runs.
    readiness : Readiness
        Whether apps can run there.
    memory : MemoryReport, optional
        What it uses and may use.
    metrics : mapping of str to float
        WSO2's ``workerMetrics``.
    """
    worker = {
        "id": node,
        "url": url,
        "receiver": False,
        "leaving": False,
        "ready": readiness.ready,
        "warm": readiness.warm,
        "cordoned": False,
        "drained": False,
        "state": "READY" if readiness.ready else "STARTING",
        "reason": readiness.reason,
        "silentMs": 0,
        "memory": None if memory is None else memory_view(memory),
        "metrics": dict(metrics),
        "groups": [{"name": one.name, "state": one.state.value} for one in groups],
    }
    return {
        "groupId": node,
        "leader": node,
        "term": term,
        "managers": [{"id": node, "url": url, "leads": True}],
        "workers": [worker],
        "cordoned": [],
        "lostWorkers": [],
        "undeploying": sorted(one.name for one in groups if one.name not in apps),
    }
