"""The vocabulary of the cluster: what workers and managers say to each other, and a manager's events and instructions.

Values only. Events go into `spdist.cluster.leader.state.ManagerState.handle`; instructions come out and are executed by
the shell (`spdist.cluster.manager`).

The protocol between a worker and the leader, on which the safety of the cluster rests:

1. A worker has one heartbeat under way at a time. Each carries the worker's incarnation and a growing sequence number,
   and the states of its groups **as they were when it was sent**. The leader ignores a heartbeat that was overtaken.
2. The answer carries the leader's term and *everything* that the worker shall run. The worker applies the answer to
   its latest heartbeat only, never one of an older term, never one that comes later than its fencing deadline.
   Of both lists goes over the network only what the other side lacks; see `spdist.cluster.protocol.group_lists`.
3. A worker that had no such answer for `WorkerTiming.fence_after_ms`, counted from before the heartbeat was sent, stops
   all its groups by itself. The leader gives them to others after `WorkerTiming.remove_after_ms` of silence, which
   is later by a margin; or before, when it knows that the process is gone. It knows that from two things together: the
   connection that brought the last heartbeat was closed from the other end, and the address at which the process
   listened for as long as it ran anything refuses connections, and goes on to. Silence, a host that does not answer,
   either of the two alone are no proof. What a dead process leaves behind for a moment (its JVM ends when its input
   closes) cannot do harm: a state's next segment is created by one owner only.
4. A leader does not start what it did not see stopped: a group moves when its old worker reported it gone or was
   removed; a new leader waits until all workers that an earlier one may have told to run something have reported to
   it, one removal deadline at most. Who they are stands in the database before they are told
   (`spdist.cluster.leader.roster`).

Source: heartbeat protocol of WSO2 SP 4.x (``POST /resourceManager/heartbeat``), whose pushes it turns into pulls.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

from spdist.cluster.elections.election import LeaderRow, Lease
from spdist.cluster.elections.timing import WorkerTiming
from spdist.cluster.protocol.reports import GroupPhase, GroupReport, JoinedState, MemoryReport, WorkerReport
from spdist.errors import ClusterError
from spdist.planning.topology import Assignment

__all__ = [
    "Announce",
    "AnswerHeartbeat",
    "AnswerRebalance",
    "AppVersion",
    "CordonRequested",
    "CordonSaved",
    "DeployRequested",
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
    "MemoryReport",
    "Move",
    "ProbeWorker",
    "RebalanceRequested",
    "RedirectHeartbeat",
    "Refuse",
    "SaveCordon",
    "SaveDeployment",
    "SaveFailed",
    "SaveWorkers",
    "Tick",
    "UndeployRequested",
    "WorkerGone",
    "WorkerHeartbeat",
    "WorkerReport",
    "WorkerTiming",
    "WorkersSaved",
    "fingerprint",
]


@lru_cache(maxsize=4096)
def fingerprint(assignment: Assignment) -> str:
    """Return a short hash of all that an assignment says: equal for equal assignments, on every node and version.

    Every heartbeat asks for those of all instances of a worker, on both sides: the last 4096 are remembered.
    """
    text = json.dumps(assignment.to_dict(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# ---------------------------------------------------------------------------------------------------------- deployments
class Desired(Enum):
    """What the user wants of a deployment."""

    RUNNING = "RUNNING"
    #: undeployed; its row is kept until no worker can be running a group of it
    REMOVED = "REMOVED"


@dataclass(frozen=True, slots=True)
class AppVersion:
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
    """A term was taken; `deployments` is everything stored, read **after** the term was taken, and planned.

    So are `workers`: those for which the leader waits, id to incarnation; None if the term before has left no list. And
    `cordons`: the workers that are given nothing new, True for those that are drained.
    """

    lease: Lease
    deployments: tuple[AppVersion, ...]
    workers: Mapping[str, str] | None = None
    cordons: Mapping[str, bool] = field(default_factory=dict)


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
    """Another manager leads; workers are to be sent there. None: nobody is known to lead.

    Only until `until_ms` (steady clock): if the row was not renewed by then that leadership is over, also where the
    database does not say so because it does not answer.
    """

    leader: LeaderRow | None
    until_ms: int = 0

    def at(self, now_ms: int) -> LeaderRow | None:
        """Return who may be leading at `now_ms`."""
        return self.leader if now_ms < self.until_ms else None


@dataclass(frozen=True, slots=True)
class WorkerHeartbeat:
    """A worker's heartbeat has arrived (and its sender was authenticated)."""

    report: WorkerReport


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """The process that sent heartbeat `sequence` of `incarnation` is gone: it was probed since, see `ProbeWorker`."""

    id: str
    incarnation: str
    sequence: int


@dataclass(frozen=True, slots=True)
class DeployRequested:
    """A user sent an app: new, or a new version of one that is there.

    Where it updates a running app, `update` names that, as no other update is named, and `ends` are those of the topics
    that an instance newly reads: topic → partition → offset. See `spdist.planning.updates.succession`. `user` is who
    sent it.
    """

    deployment: AppVersion
    update: str = ""
    ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    user: str = ""


@dataclass(frozen=True, slots=True)
class UndeployRequested:
    """A user wants an app gone."""

    name: str
    user: str = ""


@dataclass(frozen=True, slots=True)
class CordonRequested:
    """A user wants a worker to be given nothing new (`drain` False), to be emptied (True), or neither (None)."""

    worker: str
    drain: bool | None
    user: str = ""


@dataclass(frozen=True, slots=True)
class CordonSaved:
    """`SaveCordon` is durable; `user` has asked for it."""

    term: int
    worker: str
    drain: bool | None
    user: str = ""


@dataclass(frozen=True, slots=True)
class RebalanceRequested:
    """A user wants the load evened out now, however lately workers have joined."""


@dataclass(frozen=True, slots=True)
class DeploymentSaved:
    """`SaveDeployment` of that version is durable; `user` has asked for it."""

    name: str
    version: int
    user: str = ""


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
class WorkersSaved:
    """`SaveWorkers` of that term and version is durable; or, with `written` False, it is not known whether it is."""

    term: int
    version: int
    written: bool = True


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; to be sent at least every heartbeat interval of the workers."""


Event = (
    Elected
    | LeaseRenewed
    | Deposed
    | LeaderSeen
    | WorkerHeartbeat
    | WorkerGone
    | DeployRequested
    | UndeployRequested
    | CordonRequested
    | CordonSaved
    | RebalanceRequested
    | DeploymentSaved
    | SaveFailed
    | DeploymentForgotten
    | WorkersSaved
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
    known : frozenset of str
        Fingerprints of what the worker has reported: it has those texts.
    """

    worker: str
    sequence: int
    term: int
    joined: JoinedState
    assignments: tuple[Assignment, ...]
    timing: WorkerTiming
    reason: str = ""
    known: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Move:
    """An instance that goes from one worker to another.

    Parameters
    ----------
    group : str
        The instance.
    source, target : str, optional
        Ids of workers; None for an instance that has none, or waits for one.
    reason : str
        Why, in words.
    """

    group: str
    source: str | None
    target: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class AnswerRebalance:
    """Answer the request that is being handled: what is moved from now on, in this `term`."""

    term: int
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class RedirectHeartbeat:
    """Answer the heartbeat that is being handled: go to `leader` (301), or, if None, try other managers (204)."""

    leader: LeaderRow | None


@dataclass(frozen=True, slots=True)
class ProbeWorker:
    """A heartbeat is overdue: find out whether its sender is gone, as rule 3 says, and if so send `WorkerGone`.

    Nothing follows from any other outcome. May be sent again while a probe is under way.
    """

    id: str
    url: str
    incarnation: str
    sequence: int


@dataclass(frozen=True, slots=True)
class SaveDeployment:
    """Write `deployment` under `term`, then send `DeploymentSaved`; if refused, `Deposed` or `SaveFailed`."""

    term: int
    deployment: AppVersion
    user: str = ""


@dataclass(frozen=True, slots=True)
class ForgetDeployment:
    """Delete the row of a removed deployment, if it still has `version`, then send `DeploymentForgotten`.

    May fail; it is repeated with later ticks.
    """

    term: int
    name: str
    version: int


@dataclass(frozen=True, slots=True)
class SaveWorkers:
    """Write the list of workers under `term`, in place of the one before, then send `WorkersSaved`.

    Parameters
    ----------
    term : int
        The leader's term.
    version : int
        Number of the list within the term. Lists are written in this order.
    workers : mapping of str to str
        Id to incarnation; see `spdist.cluster.leader.roster`.
    """

    term: int
    version: int
    workers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SaveCordon:
    """Write under `term` that a worker is cordoned, drained or (None) neither, then send `CordonSaved`.

    In the order in which they are given. Where it is not known whether it was written, send `Deposed` instead.
    """

    term: int
    worker: str
    drain: bool | None
    user: str = ""


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
    """Something has happened: tell operators, in the log, and write it into the journal.

    Parameters
    ----------
    event : str
        Stable key such as ``worker-lost``: the journal's ``kind``.
    subject : str
        Id or name of the worker, group or app it is about.
    message : str
        The sentence for people.
    level : Level
        How much it matters.
    app, group, worker : str
        Names of the app and of the group instance, and id of the worker, that it concerns; empty where there is none.
    user : str
        Who has asked for it; empty where nobody did.
    reason : str
        Why it happened, where `message` alone does not tell that apart.
    """

    event: str
    subject: str
    message: str
    level: Level = Level.INFO
    app: str = ""
    group: str = ""
    worker: str = ""
    user: str = ""
    reason: str = ""


Instruction = (
    AnswerHeartbeat
    | AnswerRebalance
    | RedirectHeartbeat
    | ProbeWorker
    | SaveCordon
    | SaveDeployment
    | ForgetDeployment
    | SaveWorkers
    | Refuse
    | Announce
)
