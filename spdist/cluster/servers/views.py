"""The JSON that a server's interface answers with, in the shapes of a manager's: it leads itself. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spdist.cluster.managers.views import memory_view, wso2_status
from spdist.cluster.protocol.messages import GroupReport, MemoryReport
from spdist.cluster.servers.own_leader import OwnApp
from spdist.cluster.workers.hosting import Readiness

__all__ = ["ServerFacts", "StateSeen", "own_app_view", "own_nodes_view"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StateSeen:
    """What a passive server has seen of the state of an app.

    Parameters
    ----------
    figures : mapping of str to float
        ``segment``: the number of its newest one; ``snapshotAgeMs``: how old its newest snapshot is.
    problem : str
        Why it could not be read; empty where it could.
    """

    figures: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""


def own_app_view(
    app: OwnApp, here: GroupReport | None, passive: str, node: str, url: str, state: StateSeen = StateSeen()
) -> Json:
    """Return how an app is doing, as `cluster.managers.views.app_view` does: it has one group, itself, on this node.

    Parameters
    ----------
    app : OwnApp
        The app.
    here : GroupReport, optional
        What is reported of it.
    passive : str
        Why this server runs none; empty where it does.
    node, url : str
        Of the server.
    state : StateSeen
        Of one that runs none: what it has seen of the app's state.
    """
    instance, told = app.instance, _told(app, here, passive, state)
    group = {
        "name": app.name,
        "group": app.name,
        "state": told["state"],
        "reason": told["reason"],
        "worker": "" if passive else node,
        "url": url,
        "receiver": False,
        "failures": instance.failures if instance else 0,
        "metrics": told["metrics"],
    }
    return {"name": app.name, **told, "version": 1, "groups": [group] if instance else []}


def _told(app: OwnApp, here: GroupReport | None, passive: str, state: StateSeen) -> Json:
    if app.instance is None:
        return {"status": "inactive", "state": "FAILED", "reason": app.error, "metrics": {}}
    if passive:
        reason = app.error or "; ".join(filter(None, (passive, state.problem)))
        return {"status": "passive", "state": "PASSIVE", "reason": reason, "metrics": dict(state.figures)}
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


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server tells of itself.

    Parameters
    ----------
    node, url : str
        Its id, and where it is reached.
    group : str
        Of the servers of which one is active; its own id where there are no others.
    term : int
        In which it leads.
    readiness : Readiness
        Whether apps can run there.
    memory : MemoryReport, optional
        What it uses and may use.
    metrics : mapping of str to float
        WSO2's ``workerMetrics``.
    """

    node: str
    url: str
    group: str
    term: int
    readiness: Readiness
    memory: MemoryReport | None
    metrics: Mapping[str, float]


def own_nodes_view(facts: ServerFacts, apps: Container[str], groups: Sequence[GroupReport]) -> Json:
    """Return a server as who leads and as who works, as `spdist.cluster.managers.views.nodes_view` does.

    Parameters
    ----------
    facts : ServerFacts
        Of the server.
    apps : container of str
        Names of what it is to run.
    groups : sequence of GroupReport
        What it runs.
    """
    worker = {
        "id": facts.node,
        "url": facts.url,
        "receiver": False,
        "leaving": False,
        "ready": facts.readiness.ready,
        "warm": facts.readiness.warm,
        "cordoned": False,
        "drained": False,
        "state": "READY" if facts.readiness.ready else "STARTING",
        "reason": facts.readiness.reason,
        "silentMs": 0,
        "memory": None if facts.memory is None else memory_view(facts.memory),
        "metrics": dict(facts.metrics),
        "groups": [{"name": one.name, "state": one.state.value} for one in groups],
    }
    return {
        "groupId": facts.group,
        "leader": facts.node,
        "term": facts.term,
        "managers": [{"id": facts.node, "url": facts.url, "leads": True}],
        "workers": [worker],
        "cordoned": [],
        "lostWorkers": [],
        "undeploying": sorted(one.name for one in groups if one.name not in apps),
    }
