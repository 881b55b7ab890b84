"""The vocabulary of the cluster: what workers and managers say to each other, and a manager's events and instructions.

Values only. Events go into `spdist.cluster.state.ManagerState.handle`; instructions come out and are executed by
the shell (`spdist.cluster.manager`).

The protocol between a worker and the leader, on which the safety of the cluster rests:

1. A worker has one heartbeat under way at a time. Each carries the worker's incarnation and a growing sequence number,
   and the states of its groups **as they were when it was sent**. The leader ignores a heartbeat that was overtaken.
2. The answer carries the leader's term and *everything* that the worker shall run. The worker applies the answer to
   its latest heartbeat only, never one of an older term, never one that comes later than its fencing deadline.
3. A worker that had no such answer for `WorkerTiming.fence_after_ms`, counted from before the heartbeat was sent, stops
   all its groups by itself. The leader gives them to others after `WorkerTiming.remove_after_ms` of silence, which
   is later by a margin.
4. A leader does not start what it did not see stopped: a group moves when its old worker reported it gone or was
   removed; a new leader waits one removal deadline for workers that have not yet reported to it.

Source: heartbeat protocol of WSO2 SP 4.x (``POST /resourceManager/heartbeat``), whose pushes it turns into pulls.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from spdist.cluster.election import LeaderRow, Lease
from spdist.errors import ClusterError, ConfigError
from spdist.planning.topology import Assignment

__all__ = [
    "Announce",
    "AnswerHeartbeat",
    "DeployRequested",
    "Deployment",
    "DeploymentForgotten",
    "DeploymentSaved",
    "Deposed",
    "Desired",
    "Elected",
    "Event",
    "ForgetDeployment",
    "GroupPhase",
    "GroupReport",
    "Instruction",
    "JoinedState",
    "LeaderSeen",
    "LeaseRenewed",
    "Level",
    "RedirectHeartbeat",
    "Refuse",
    "SaveDeployment",
    "SaveFailed",
    "Tick",
    "UndeployRequested",
    "WorkerHeartbeat",
    "WorkerReport",
    "WorkerTiming",
    "fingerprint",
]


def fingerprint(assignment: Assignment) -> str:
    """Return a short hash of all that an assignment says: equal for equal assignments, on every node and version."""
    text = json.dumps(assignment.to_dict(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class WorkerTiming:
    """When a silent worker stops by itself, and when the leader counts on it. Made by `from_config` on both sides.

    Parameters
    ----------
    heartbeat_interval_ms : int
        How often a worker reports.
    fence_after_ms : int
        A worker begins to stop its groups this long after it sent the last heartbeat that was answered.
    remove_after_ms : int
        The leader removes a worker after this long without a heartbeat.
    margin_ms : int
        What must lie between the two: time to stop groups, and clocks that run at different speed.

    Raises
    ------
    ConfigError
        ``fence_after_ms + margin_ms`` is later than ``remove_after_ms``, or a value is out of range.
    """

    heartbeat_interval_ms: int
    fence_after_ms: int
    remove_after_ms: int
    margin_ms: int

    def __post_init__(self) -> None:
        if min(self.heartbeat_interval_ms, self.fence_after_ms, self.margin_ms) < 1:
            raise ConfigError(f"times of workers must be positive: {self}")
        if self.fence_after_ms + self.margin_ms > self.remove_after_ms:
            raise ConfigError(
                f"a worker stops {self.fence_after_ms} ms after its last answered heartbeat and needs up to "
                f"{self.margin_ms} ms for it, but would be removed after {self.remove_after_ms} ms already",
                hint="make the removal deadline later, so that no group ever runs twice",
            )

    @classmethod
    def from_config(cls, heartbeat_interval_ms: int, heartbeat_max_retry: int) -> WorkerTiming:
        """Return the times that follow from ``deployment.config``; the leader's values are imposed on the workers.

        With interval h and retry R: the worker stops (R+1)h after its last answered heartbeat, so R may fail; the
        leader removes it after (R+3)h, which is WSO2's upper bound. The margin is 2h.

        Parameters
        ----------
        heartbeat_interval_ms : int
            ``heartbeatInterval``, >= 20.
        heartbeat_max_retry : int
            ``heartbeatMaxRetry``, >= 1.

        Raises
        ------
        ConfigError
            A value is out of range.
        """
        if heartbeat_interval_ms < 20 or heartbeat_max_retry < 1:
            raise ConfigError(
                f"deployment.config: heartbeatInterval {heartbeat_interval_ms} and heartbeatMaxRetry "
                f"{heartbeat_max_retry} must be at least 20 ms and 1",
                hint="WSO2 ships 2000 and 2",
            )
        h, r = heartbeat_interval_ms, heartbeat_max_retry
        return cls(h, fence_after_ms=(r + 1) * h, remove_after_ms=(r + 3) * h, margin_ms=2 * h)


# ------------------------------------------------------------------------------------------------ what a worker reports
class GroupPhase(Enum):
    """How a group instance is doing on its worker."""

    STARTING = "STARTING"
    #: its query has committed a batch
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"

    @property
    def alive(self) -> bool:
        """True while the instance may still process events."""
        return self in (GroupPhase.STARTING, GroupPhase.RUNNING, GroupPhase.STOPPING)


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One group instance as its worker sees it.

    Parameters
    ----------
    name, app : str
        The instance and its parent app, as in its `Assignment`.
    state : GroupPhase
        What it does.
    fingerprint : str
        `fingerprint` of the assignment it was started with, so that an old version is recognised.
    error : str
        Why it FAILED; empty otherwise.
    metrics : mapping of str to float
        Figures of its query (events in and out, lag …); passed through to those who look.
    """

    name: str
    app: str
    state: GroupPhase
    fingerprint: str
    error: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker's heartbeat.

    Parameters
    ----------
    id : str
        ``wso2.carbon.id`` of the worker.
    url : str
        Base URL at which others reach it.
    is_receiver : bool
        It hosts receiver (passthrough) groups, and only those.
    incarnation : str
        Identifies this process among all that ever had this id.
    sequence : int
        Number of the heartbeat within the incarnation, growing.
    known_term : int
        Highest term of a leader it has obeyed; 0 for none.
    groups : tuple of GroupReport
        Every instance it has, those that ended included until it is told to forget them.
    leaving : bool
        It is shutting down: it must be given nothing, and what it has goes elsewhere when it has stopped.
    metrics : mapping of str to float
        WSO2's ``workerMetrics``: processCPU, systemCPU, loadAverage, memoryUsage.
    """

    id: str
    url: str
    is_receiver: bool
    incarnation: str
    sequence: int
    known_term: int
    groups: tuple[GroupReport, ...] = ()
    leaving: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)


class JoinedState(Enum):
    """How the leader takes a worker's heartbeat (WSO2 ``joinedState``)."""

    #: the first heartbeat this leader has from it
    NEW = "NEW"
    EXISTS = "EXISTS"
    #: another process has this id: stop everything and say so
    REJECTED = "REJECTED"


# ---------------------------------------------------------------------------------------------------------- deployments
class Desired(Enum):
    """What the user wants of a deployment."""

    RUNNING = "RUNNING"
    #: undeployed; its row is kept until no worker can be running a group of it
    REMOVED = "REMOVED"


@dataclass(frozen=True, slots=True)
class Deployment:
    """A version of an app that the cluster has accepted.

    Parameters
    ----------
    name : str
        The app's name.
    text : str
        SiddhiQL as it was sent.
    version : int
        Number of the version, from 1; the leader chooses it (0 in a request).
    assignments : tuple of Assignment
        What `text` was planned into; empty where `desired` is REMOVED or planning failed.
    desired : Desired
        Whether it shall run.
    error : str
        Why the stored text could not be planned; empty otherwise.
    """

    name: str
    text: str
    version: int = 0
    assignments: tuple[Assignment, ...] = ()
    desired: Desired = Desired.RUNNING
    error: str = ""


# --------------------------------------------------------------------------------------------------------------- events
@dataclass(frozen=True, slots=True)
class Elected:
    """A term was taken; `deployments` is everything stored, read **after** the term was taken, and planned."""

    lease: Lease
    deployments: tuple[Deployment, ...]


@dataclass(frozen=True, slots=True)
class LeaseRenewed:
    """The lease was renewed."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Deposed:
    """The leadership is over: somebody else leads, a write was refused as stale, or the outcome of one is unknown."""

    reason: str


@dataclass(frozen=True, slots=True)
class LeaderSeen:
    """Another manager leads; workers are to be sent there. None: nobody is known to lead."""

    leader: LeaderRow | None


@dataclass(frozen=True, slots=True)
class WorkerHeartbeat:
    """A worker's heartbeat has arrived (and its sender was authenticated)."""

    report: WorkerReport


@dataclass(frozen=True, slots=True)
class DeployRequested:
    """A user sent an app: new, or a new version of one that is there."""

    deployment: Deployment


@dataclass(frozen=True, slots=True)
class UndeployRequested:
    """A user wants an app gone."""

    name: str


@dataclass(frozen=True, slots=True)
class DeploymentSaved:
    """`SaveDeployment` of that version is durable."""

    name: str
    version: int


@dataclass(frozen=True, slots=True)
class SaveFailed:
    """`SaveDeployment` of that version was refused and nothing was written.

    Where it is not known whether it was written, send `Deposed` instead: the next leader reads what is there.
    """

    name: str
    version: int


@dataclass(frozen=True, slots=True)
class DeploymentForgotten:
    """`ForgetDeployment` of that version is durable."""

    name: str
    version: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; to be sent at least every heartbeat interval of the workers."""


Event = (
    Elected
    | LeaseRenewed
    | Deposed
    | LeaderSeen
    | WorkerHeartbeat
    | DeployRequested
    | UndeployRequested
    | DeploymentSaved
    | SaveFailed
    | DeploymentForgotten
    | Tick
)


# --------------------------------------------------------------------------------------------------------- instructions
@dataclass(frozen=True, slots=True)
class AnswerHeartbeat:
    """Answer the heartbeat that is being handled (200).

    Parameters
    ----------
    worker : str
        Whose heartbeat.
    sequence : int
        Which one.
    term : int
        The leader's term.
    joined : JoinedState
        How it was taken; with REJECTED `assignments` is empty and `reason` says why.
    assignments : tuple of Assignment
        **Everything** the worker shall run, in the order of groups.
    timing : WorkerTiming
        The times the worker must keep.
    reason : str
        Why it was rejected; empty otherwise.
    """

    worker: str
    sequence: int
    term: int
    joined: JoinedState
    assignments: tuple[Assignment, ...]
    timing: WorkerTiming
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RedirectHeartbeat:
    """Answer the heartbeat that is being handled: go to `leader` (301), or, if None, try other managers (204)."""

    leader: LeaderRow | None


@dataclass(frozen=True, slots=True)
class SaveDeployment:
    """Write `deployment` under `term`, then send `DeploymentSaved`; if refused, `Deposed` or `SaveFailed`."""

    term: int
    deployment: Deployment


@dataclass(frozen=True, slots=True)
class ForgetDeployment:
    """Delete the row of a removed deployment, if it still has `version`, then send `DeploymentForgotten`.

    May fail; it is repeated with later ticks.
    """

    term: int
    name: str
    version: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """The request that is being handled is refused: raise `error` to who sent it."""

    error: ClusterError


class Level(Enum):
    """How much an announcement matters to an operator."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell operators (log, notebook, monitor).

    Parameters
    ----------
    event : str
        Stable key such as ``worker-removed``.
    subject : str
        Id or name of the worker, group or app it is about.
    message : str
        The sentence for people.
    level : Level
        How much it matters.
    """

    event: str
    subject: str
    message: str
    level: Level = Level.INFO


Instruction = AnswerHeartbeat | RedirectHeartbeat | SaveDeployment | ForgetDeployment | Refuse | Announce
