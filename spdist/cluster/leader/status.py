"""What a leader tells those who ask: how each deployment and each of its groups is doing, and why. Pure.

Source: ``GET /managers/siddhi-apps`` of WSO2 SP 4.x, where "deployed" means that a file was accepted; here a group is
RUNNING when its query has committed a batch, and one that waits or failed says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from urllib.parse import urlsplit

from spdist.cluster.leader.instances import Instance
from spdist.cluster.leader.members import Member
from spdist.cluster.leader.state import ManagerState
from spdist.cluster.protocol.messages import AppVersion, Desired, GroupPhase
from spdist.errors import NotFoundError

__all__ = ["DeploymentState", "DeploymentStatus", "GroupListing", "deployment_status", "deployment_statuses"]


class DeploymentState(Enum):
    """How a deployment, or a group of it, is doing."""

    #: there is no worker for it (a deployment: for at least one group)
    WAITING = "WAITING"
    #: on its way to RUNNING
    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    #: its worker has not been heard for a heartbeat: nobody knows whether it still runs
    UNREACHABLE = "UNREACHABLE"
    #: it will not run unless it is deployed again or the workers change (a deployment: at least one group)
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group instance, for people and for ``GET /managers/siddhi-apps``.

    Parameters
    ----------
    parent_app_name, group_name, app_name : str
        The app, the group ``<App>-<group>``, the instance ``<App>-<group>-<i>``.
    siddhi_app : str
        The instance's SiddhiQL.
    state : DeploymentState
        How it is doing.
    reason : str
        Why it is not RUNNING, or what it waits for while it is, as a sentence; empty if there is nothing to say.
    worker, url : str
        Its worker and that worker's base URL; empty while it waits for one.
    last_ping_ms : int
        That worker's last heartbeat (steady clock of the manager, which reads like ms since epoch); 0 without a worker.
    failed_ping_attempts : int
        Heartbeats that are missing since.
    receiver : bool
        It reads users' sources.
    """

    parent_app_name: str
    group_name: str
    app_name: str
    siddhi_app: str
    state: DeploymentState
    reason: str
    worker: str = ""
    url: str = ""
    last_ping_ms: int = 0
    failed_ping_attempts: int = 0
    receiver: bool = False

    def to_dict(self) -> dict[str, str]:
        """Return WSO2's record: all values text, fields about the worker only where there is one; and our reason."""
        out = {
            "parentAppName": self.parent_app_name,
            "groupName": self.group_name,
            "appName": self.app_name,
            "siddhiApp": self.siddhi_app,
            "appStatus": "Active" if self.state is DeploymentState.RUNNING else "waiting",
            "groupState": self.state.value,
            "reason": self.reason,
        }
        if self.worker:
            parts = urlsplit(self.url)
            out |= {
                "id": self.worker,
                "state": "EXISTS",
                "host": parts.hostname or "",
                "port": str(parts.port or ""),
                "lastPingTimestamp": str(self.last_ping_ms),
                "failedPingAttempts": str(self.failed_ping_attempts),
            }
        return out


@dataclass(frozen=True, slots=True)
class DeploymentStatus:
    """A deployment and its groups in the order of the topology; ``state`` and ``reason`` are the worst group's."""

    name: str
    text: str
    version: int
    state: DeploymentState
    reason: str
    groups: tuple[GroupListing, ...]


def deployment_statuses(state: ManagerState, now_ms: int) -> tuple[DeploymentStatus, ...]:
    """Return all deployments by name; those that are being undeployed are not there any more."""
    return tuple(
        _status(state, deployment, now_ms)
        for _, deployment in sorted(state.deployments.by_name.items())
        if deployment.desired is Desired.RUNNING
    )


def deployment_status(state: ManagerState, name: str, now_ms: int) -> DeploymentStatus:
    """Return how one deployment is doing.

    Parameters
    ----------
    state : ManagerState
        The leader's state; a standby knows of no deployment.
    name : str
        The app.
    now_ms : int
        The steady clock.

    Raises
    ------
    NotFoundError
        No app of that name is deployed.
    """
    deployment = state.deployments.by_name.get(name)
    if deployment is None or deployment.desired is Desired.REMOVED:
        raise NotFoundError(f"no app {name} is deployed")
    return _status(state, deployment, now_ms)


_WORST_FIRST = (
    DeploymentState.FAILED,
    DeploymentState.UNREACHABLE,
    DeploymentState.WAITING,
    DeploymentState.DEPLOYING,
    DeploymentState.RUNNING,
)


def _status(state: ManagerState, deployment: AppVersion, now_ms: int) -> DeploymentStatus:
    groups = tuple(_record(state, state.deployments.instances[a.name], now_ms) for a in deployment.assignments)
    if deployment.error:
        overall, reason = DeploymentState.FAILED, deployment.error
    else:
        # the worst of the groups, and its reason
        # Of several in the same state, one that says why
        worst = min(groups, key=lambda g: (_WORST_FIRST.index(g.state), not g.reason), default=None)
        overall = DeploymentState.RUNNING if worst is None else worst.state
        reason = f"{worst.app_name}: {worst.reason}" if worst is not None and worst.reason else ""
    return DeploymentStatus(deployment.name, deployment.text, deployment.version, overall, reason, groups)


def _record(state: ManagerState, instance: Instance, now_ms: int) -> GroupListing:
    member = None if instance.worker is None else state.members.get(instance.worker)
    if instance.gave_up:
        phase, reason = DeploymentState.FAILED, f"failed {instance.failures} times, lastly: {instance.error}"
    elif member is None:
        phase, reason = DeploymentState.WAITING, _why_unplaced(state, instance, now_ms)
    elif member.silent_ms(now_ms) > state.timing.suspect_after_ms:
        phase, reason = DeploymentState.UNREACHABLE, _why_unreachable(state, member, now_ms)
    else:
        phase, reason = _on_worker(state, instance, member, now_ms)
    silent_ms = 0 if member is None else member.silent_ms(now_ms)
    return GroupListing(
        parent_app_name=instance.assignment.app,
        group_name=instance.assignment.group,
        app_name=instance.assignment.name,
        siddhi_app=instance.assignment.text,
        state=phase,
        reason=reason,
        worker="" if member is None else member.report.id,
        url="" if member is None else member.report.url,
        last_ping_ms=0 if member is None else member.heard_ms,
        failed_ping_attempts=silent_ms // state.timing.heartbeat_interval_ms,
        receiver=instance.assignment.receiver,
    )


def _why_unplaced(state: ManagerState, instance: Instance, now_ms: int) -> str:
    held_ms = state.deployments.held_until_ms.get(instance.assignment.app, 0) - now_ms
    if held_ms > 0:
        return f"the leader is new and gives workers {held_ms / 1000:.1f} s more to report that they still run it"
    receiver = instance.assignment.receiver
    ready = len(state.members.available(receiver=receiver))
    if receiver and not ready:
        return "it needs a receiver worker (isReceiverNode: true), and none has joined"
    if not receiver and not ready:
        return "no worker has joined"
    if all(m.report.id in state.placing.cordons for m in state.members.available(receiver=receiver)):
        return f"all {'receiver ' if receiver else ''}workers are cordoned; one is to be given groups again"
    if full := _why_no_room(state, receiver=receiver):
        return full
    if receiver:
        return f"each of the {ready} receiver workers already has an instance of its group; one more is needed"
    if ready < state.min_resource_count:
        return f"{ready} of the {state.min_resource_count} workers that minResourceCount asks for have joined"
    return "the allocation algorithm gave it no worker"


def _why_no_room(state: ManagerState, *, receiver: bool) -> str:
    """Return how full all workers of a kind are; empty if one has room."""
    members = state.members.available(receiver=receiver)
    workers = [(m.report.id, m.report.memory) for m in members if m.report.id not in state.placing.cordons]
    full = [f"{id}: {memory}" for id, memory in workers if memory is not None and not memory.room]
    return f"waits for memory: no worker has room ({'; '.join(full)})" if len(full) == len(workers) else ""


def _why_unreachable(state: ManagerState, member: Member, now_ms: int) -> str:
    silent_ms = member.silent_ms(now_ms)
    left_ms = max(0, state.timing.remove_after_ms - silent_ms)
    return (
        f"worker {member.report.id} has been silent for {silent_ms / 1000:.1f} s; what it has goes elsewhere "
        f"in {left_ms / 1000:.1f} s at the latest"
    )


def _on_worker(state: ManagerState, instance: Instance, member: Member, now_ms: int) -> tuple[DeploymentState, str]:
    """Return how an instance is doing on a worker that reports."""
    seen = member.groups.get(instance.assignment.name)
    if seen is not None and instance.runs_in(seen):
        return DeploymentState.RUNNING, seen.error or _why_it_stays(state, member)
    if seen is not None and instance.waits_in(seen):
        return DeploymentState.WAITING, f"worker {member.report.id}: it {seen.error}"
    return DeploymentState.DEPLOYING, _why_not_running(state, instance, member, now_ms)


def _why_it_stays(state: ManagerState, member: Member) -> str:
    """Return what is to become of an instance that runs on a drained worker."""
    drained = state.placing.cordons.get(member.report.id, False)
    return f"worker {member.report.id} is drained: it goes when another worker takes it, in its turn" if drained else ""


def _why_not_running(state: ManagerState, instance: Instance, member: Member, now_ms: int) -> str:
    name, worker = instance.assignment.name, member.report.id
    seen = member.groups.get(name)
    elsewhere = state.members.elsewhere(name, worker)
    if name not in member.may_run and elsewhere is not None:
        return f"it may still run on worker {elsewhere}, which is told to stop it first"
    if name not in member.may_run and now_ms < instance.retry_at_ms:
        return f"it starts again in {(instance.retry_at_ms - now_ms) / 1000:.1f} s, after a failure: {instance.error}"
    if seen is not None and seen.state.alive and seen.fingerprint != instance.fingerprint:
        return f"worker {worker} stops its previous version first"
    if not member.report.ready:
        return f"it starts on worker {worker} when that is ready: {member.report.reason}"
    if seen is not None and seen.state is GroupPhase.STARTING and seen.error:
        return f"it starts on worker {worker} and waits: {seen.error}"
    if seen is not None and seen.state is GroupPhase.STARTING:
        return f"it starts on worker {worker}; its query has not committed a batch yet"
    return f"worker {worker} is told to start it with its next heartbeat"
