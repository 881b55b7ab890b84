"""What a worker reports: its heartbeat, and its group instances as it sees them. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["LONGEST_ERROR", "ChangedGroups", "GroupPhase", "GroupReport", "JoinedState", "MemoryReport", "WorkerReport"]


#: Characters of an error that a heartbeat tells; what is longer is cut.
LONGEST_ERROR = 4000


class GroupPhase(Enum):
    """How a group instance is doing on its worker."""

    #: it starts when others have started, or when there is memory for it; its error says what it waits for
    WAITING = "WAITING"
    STARTING = "STARTING"
    #: its query has committed a batch
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"

    @property
    def alive(self) -> bool:
        """True while the instance may still process events, or begin to without asking."""
        return self in (GroupPhase.WAITING, GroupPhase.STARTING, GroupPhase.RUNNING, GroupPhase.STOPPING)


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
        Why it FAILED, or what it waits for while it is alive; empty otherwise.
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
class MemoryReport:
    """What a worker may use of its machine's memory, and what it uses; all in bytes.

    Parameters
    ----------
    limit : int
        What all its processes together may use.
    used : int
        What they use.
    per_group : int
        What one more group instance costs, as measured from those that run.
    starting : int
        How many instances it has accepted whose memory is not in `used` yet.
    """

    limit: int
    used: int
    per_group: int
    starting: int = 0

    @property
    def room(self) -> int:
        """How many more instances fit."""
        return max(0, (self.limit - self.used) // self.per_group - self.starting)

    @property
    def full(self) -> bool:
        """Whether not even one of those that it has accepted can be started."""
        return self.used + self.per_group > self.limit

    def __str__(self) -> str:
        used, limit, group = (f"{amount >> 20:,}" for amount in (self.used, self.limit, self.per_group))
        text = f"{used} of {limit} MiB are used, a group takes {group} MiB"
        return f"{text}, {self.starting} are starting" if self.starting else text


@dataclass(frozen=True, slots=True)
class ChangedGroups:
    """Says that a heartbeat leaves out the groups that are as they were in the one before.

    Parameters
    ----------
    gone : tuple of str
        Names of instances that it had then, and has no longer.
    digest : str
        Of all that it has; see `spdist.cluster.protocol.group_lists`.
    """

    gone: tuple[str, ...]
    digest: str


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
        Every instance it has, those that ended included until it is told to forget them; or what `changes` says.
    leaving : bool
        It is shutting down: it must be given nothing, and what it has goes elsewhere when it has stopped.
    metrics : mapping of str to float
        WSO2's ``workerMetrics``: processCPU, systemCPU, loadAverage, memoryUsage.
    ready : bool
        Its Spark session is up: what it is given starts without delay.
    reason : str
        Why it is not ready; empty if it is.
    ready_epoch : int
        How often its Spark has come up in this process: what failed in an earlier one may work in this one.
    warm : bool
        A group starts there as fast as it can: its Spark has loaded what groups need.
    memory : MemoryReport, optional
        None where it does not measure it: it takes any number of groups.
    changes : ChangedGroups, optional
        Where `groups` are only some; never in what a leader has taken in.
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
    ready: bool = True
    reason: str = ""
    ready_epoch: int = 1
    warm: bool = True
    memory: MemoryReport | None = None
    changes: ChangedGroups | None = None


class JoinedState(Enum):
    """How the leader takes a worker's heartbeat (WSO2 ``joinedState``)."""

    #: the first heartbeat this leader has from it
    NEW = "NEW"
    EXISTS = "EXISTS"
    #: another process has this id: stop everything and say so
    REJECTED = "REJECTED"
