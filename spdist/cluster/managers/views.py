"""The JSON that a leader's interface answers with: apps, topologies, nodes. Pure; made on the thread of the state loop.

The shapes of ``/siddhi-apps/{name}/status``, ``/managers/topology/{app}`` and ``/managers/nodes``; the first is WSO2's
with more next to it, the others are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from spdist.cluster.leader.members import Member
from spdist.cluster.leader.state import ManagerState
from spdist.cluster.leader.status import (
    DeploymentState,
    DeploymentStatus,
    GroupListing,
    deployment_status,
    deployment_statuses,
)
from spdist.cluster.protocol.messages import Desired, GroupPhase, GroupReport, MemoryReport
from spdist.cluster.protocol.wire import Address
from spdist.planning.topology import ExecutionGroup, GroupInput, GroupOutput, Topology

if TYPE_CHECKING:
    from spdist.cluster.coordination.store import ManagerRow

__all__ = [
    "app_statistics",
    "app_view",
    "apps_view",
    "memory_view",
    "node_details",
    "nodes_view",
    "placed_topology",
    "topic_details",
    "topology_view",
    "wso2_status",
]

Json = dict[str, Any]


def app_view(state: ManagerState, status: DeploymentStatus) -> Json:
    """Return a deployment: WSO2's ``status`` (active or inactive), our ``state`` with its reason, and its instances."""
    return {
        "name": status.name,
        "status": "active" if status.state is DeploymentState.RUNNING else "inactive",
        "state": status.state.value,
        "reason": status.reason,
        "version": status.version,
        "groups": [_instance(state, record) for record in status.groups],
    }


def apps_view(state: ManagerState, now_ms: int) -> list[Json]:
    """Return all deployments by name; see `app_view`."""
    return [app_view(state, status) for status in deployment_statuses(state, now_ms)]


def app_statistics(status: DeploymentStatus, age_ms: int) -> Json:
    """Return WSO2's line of an app in ``/siddhi-apps/statistics``; what is measured here is always on."""
    return {
        "appName": status.name,
        "status": "active" if status.state is DeploymentState.RUNNING else "inactive",
        "age": max(0, age_ms),
        "isStatEnabled": True,
    }


def topic_details(state: ManagerState, status: DeploymentStatus) -> list[Json]:
    """Return WSO2's ``kafkaDetails``: the topics of each instance, whatever carries them; hosts only where it runs."""
    return [_topics(state, record) for record in status.groups]


def _topics(state: ManagerState, record: GroupListing) -> Json:
    assignment = state.deployments.instances[record.app_name].assignment
    address = Address.from_url(record.url) if record.url else None
    return {
        "appName": record.app_name,
        "siddhiApp": record.siddhi_app,
        "deployedHost": "" if address is None else address.host,
        "deployedPort": "" if address is None else str(address.port),
        "sourceList": sorted({one.topic for one in assignment.inputs if not one.source}),
        "sinkList": sorted({p.topic for one in assignment.outputs for p in one.publishing}),
    }


def _instance(state: ManagerState, record: GroupListing) -> Json:
    report = _report(state, record)
    return {
        "name": record.app_name,
        "group": record.group_name,
        "state": record.state.value,
        "reason": record.reason,
        "worker": record.worker,
        "url": record.url,
        "receiver": record.receiver,
        "failures": state.deployments.instances[record.app_name].failures,
        "metrics": dict(report.metrics) if report else {},
    }


def _report(state: ManagerState, record: GroupListing) -> GroupReport | None:
    member = state.members.get(record.worker) if record.worker else None
    return member.groups.get(record.app_name) if member else None


def topology_view(state: ManagerState, topology: Topology, now_ms: int) -> Json:
    """Return groups, topics and strategies of an app, with where each instance is and how it is doing.

    Raises
    ------
    NotFoundError
        The app is not deployed.
    """
    status = deployment_status(state, topology.app, now_ms)
    texts = {record.app_name: record.siddhi_app for record in status.groups}
    return placed_topology(topology, app_view(state, status), texts)


def placed_topology(topology: Topology, view: Json, texts: Mapping[str, str]) -> Json:
    """Return groups, topics and strategies of an app, given its view, as of `app_view`, and its instances' texts."""
    instances: dict[str, list[Json]] = {}
    for instance in view["groups"]:
        instances.setdefault(instance["group"], []).append({**instance, "text": texts[instance["name"]]})
    return {
        **view,
        "playback": topology.playback,
        "groups": [{**_group(group), "instances": instances.get(group.name, [])} for group in topology.groups],
        "topics": [{"name": topic.name, "partitions": topic.partitions} for topic in topology.topics],
    }


def _group(group: ExecutionGroup) -> Json:
    return {
        "name": group.name,
        "parallel": group.parallel,
        "receiver": group.receiver,
        "why": group.why,
        "inputs": [_input(one) for one in group.inputs],
        "outputs": [_output(one) for one in group.outputs],
    }


def _input(one: GroupInput) -> Json:
    return {
        "stream": one.stream,
        "strategy": one.strategy.value,
        "topic": one.topic,
        "partitions": one.partitions,
        "key": one.key,
        "producers": list(one.producers),
        "userSource": one.user_source,
    }


def _output(one: GroupOutput) -> Json:
    return {
        "stream": one.stream,
        "userSink": one.user_sink,
        "publishing": [
            {"strategy": p.strategy.value, "topic": p.topic, "partitions": p.partitions, "key": p.key}
            for p in one.publishing
        ],
    }


def nodes_view(
    state: ManagerState, managers: Iterable[ManagerRow], group_id: str, now_ms: int, *, apps: bool = False
) -> Json:
    """Return the leader, the managers that are alive, the workers with what they run, and apps on their way out.

    Parameters
    ----------
    state : ManagerState
        The leader's state.
    managers : iterable of ManagerRow
        All managers that are alive.
    group_id : str
        ``cluster.config.groupId``.
    now_ms : int
        The steady clock.
    apps : bool
        Whether the deployments are told, too, as ``apps``; see `app_view`.
    """
    return {
        **({"apps": apps_view(state, now_ms)} if apps else {}),
        "groupId": group_id,
        "leader": state.node_id,
        "term": state.term,
        "managers": [{"id": m.node_id, "url": m.url, "leads": m.node_id == state.node_id} for m in managers],
        "workers": [
            {
                "id": member.report.id,
                "url": member.report.url,
                "receiver": member.report.is_receiver,
                "leaving": member.report.leaving,
                "ready": member.report.ready,
                "warm": member.report.warm,
                "cordoned": member.report.id in state.placing.cordons,
                "drained": state.placing.cordons.get(member.report.id, False),
                "state": _state_of(state, member, now_ms),
                "reason": member.report.reason,
                "silentMs": member.silent_ms(now_ms),
                "memory": None if member.report.memory is None else memory_view(member.report.memory),
                "metrics": dict(member.report.metrics),
                "groups": [{"name": g.name, "state": g.state.value} for g in member.report.groups],
            }
            for member in state.members
        ],
        "cordoned": sorted(state.placing.cordons),
        "lostWorkers": [
            {
                "id": one.id,
                "url": one.url,
                "lostForMs": now_ms - one.at_ms,
                "reason": one.reason,
                "groups": list(one.groups),
            }
            for one in state.members.lost
        ],
        "undeploying": sorted(d.name for d in state.deployments.by_name.values() if d.desired is Desired.REMOVED),
    }


def _state_of(state: ManagerState, member: Member, now_ms: int) -> str:
    """Return how a worker is doing, in a word."""
    if member.silent_ms(now_ms) > state.timing.suspect_after_ms:
        return "UNREACHABLE"
    if member.report.leaving:
        return "LEAVING"
    return "READY" if member.report.ready else "STARTING"


def memory_view(memory: MemoryReport) -> Json:
    """Return what a node uses and may use."""
    return {
        "limitBytes": memory.limit,
        "usedBytes": memory.used,
        "groupBytes": memory.per_group,
        "room": memory.room,
    }


def node_details(state: ManagerState) -> list[Json]:
    """Return WSO2's list of workers: where each is reached. Receivers are not on it, as there."""
    workers = [member.report for member in state.members if not member.report.is_receiver]
    addresses = [(report.id, Address.from_url(report.url)) for report in workers]
    return [{"https_host": address.host, "https_port": address.port, "nodeId": id} for id, address in addresses]


def wso2_status(state: GroupPhase) -> str:
    """Return WSO2's word for the state of a group."""
    return "active" if state is GroupPhase.RUNNING else "inactive"
