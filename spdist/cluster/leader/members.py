"""The workers a leader knows: who is there, who is silent, who uses another's id, and what may run where. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from spdist.cluster.protocol.messages import GroupReport, JoinedState, WorkerReport
from spdist.planning.topology import Assignment

__all__ = ["LONGEST_ID", "LostWorker", "Member", "Members"]

#: how many workers that were removed are remembered, to be shown
_LOST = 20
#: how many former processes of a worker id are remembered, to turn them away
_RETIRED = 8
#: what the coordination database has room for
LONGEST_ID = 255


@dataclass(slots=True)
class Member:
    """A worker as the leader knows it.

    Parameters
    ----------
    report : WorkerReport
        Its latest heartbeat.
    heard_ms : int
        When that arrived (steady clock of the leader).
    retired : deque of str
        Incarnations that this one has replaced; bounded.
    inherited : dict of str to tuple of str and int
        Instances of those incarnations: name to app, and until when other workers must not be given them.
    may_run : dict of str to str
        Instances (name to app) that may be running there now: those it reported alive, and those in the answers
        since. Everything the leader starts elsewhere is checked against this.
    groups : dict of str to GroupReport
        What it last reported, by instance name.
    """

    report: WorkerReport
    heard_ms: int
    retired: deque[str] = field(default_factory=lambda: deque(maxlen=_RETIRED))
    inherited: dict[str, tuple[str, int]] = field(default_factory=dict)
    may_run: dict[str, str] = field(init=False)
    groups: dict[str, GroupReport] = field(init=False)

    def __post_init__(self) -> None:
        self.note_report(self.report, self.heard_ms)

    def note_report(self, report: WorkerReport, now_ms: int) -> None:
        """Take in a heartbeat. It tells all that earlier answers led to (rule 1 of the protocol) and replaces them."""
        self.report = report
        self.heard_ms = now_ms
        self.groups = {g.name: g for g in report.groups}
        self.may_run = {g.name: g.app for g in report.groups if g.state.alive}

    def replace(self, report: WorkerReport, now_ms: int, remove_after_ms: int) -> None:
        """Take in the first heartbeat of another process of this worker.

        What ran in the former one is gone, and may be started in this one now. Other workers wait until the former
        one must have stopped by itself: after a failover this could be a heartbeat of an earlier life that was still on
        its way, and the process we knew runs on until it is told.
        """
        until_ms = self.heard_ms + remove_after_ms
        # Added to what still earlier processes have left, each with an end of its own
        self.inherited |= {name: (app, until_ms) for name, app in self.may_run.items()}
        self.retired.append(self.report.incarnation)
        self.note_report(report, now_ms)

    @property
    def ready(self) -> bool:
        """Whether its Spark is up, and it stays."""
        return self.report.ready and not self.report.leaving

    @property
    def life(self) -> tuple[str, int]:
        """Which Spark session of which process this is: another one than before is a worker that begins anew."""
        return self.report.incarnation, self.report.ready_epoch

    def silent_ms(self, now_ms: int) -> int:
        """Return how long ago it was heard, ms."""
        return now_ms - self.heard_ms

    def blocks(self, name: str) -> bool:
        """Return True if another worker must not be given an instance because of this one."""
        return name in self.may_run or name in self.inherited

    def runs_app(self, app: str) -> bool:
        """Return True if any instance of an app may be running here."""
        return app in self.may_run.values() or any(app == of for of, _ in self.inherited.values())


@dataclass(frozen=True, slots=True)
class LostWorker:
    """A worker that was removed and has not come back.

    Parameters
    ----------
    id, url : str
        Who it was.
    at_ms : int
        When it was removed (steady clock of the leader).
    reason : str
        Why, as what is said of the worker.
    groups : tuple of str
        What it had.
    """

    id: str
    url: str
    at_ms: int
    reason: str
    groups: tuple[str, ...]


class Members:
    """All workers that have reported to this leader and were neither removed nor turned away.

    State
    -----
    One `Member` for each worker: O(workers + instances); and the last 20 that were lost.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, Member] = {}
        self._lost: deque[LostWorker] = deque(maxlen=_LOST)

    @property
    def lost(self) -> tuple[LostWorker, ...]:
        """The workers that were lost lately and have not come back."""
        return tuple(one for one in self._lost if one.id not in self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, id: str) -> bool:
        return id in self._by_id

    def get(self, id: str) -> Member | None:
        """Return a worker, None if it is not there."""
        return self._by_id.get(id)

    def available(self, *, receiver: bool) -> list[Member]:
        """Return the workers of one kind that stay; those whose Spark is not up yet among them."""
        return [m for m in self if m.report.is_receiver is receiver and not m.report.leaving]

    def elsewhere(self, name: str, id: str) -> str | None:
        """Return the id of a worker other than `id` that may be running the instance, None if there is none."""
        return next((m.report.id for m in self if m.report.id != id and m.blocks(name)), None)

    def running_app(self, app: str) -> bool:
        """Return True if any worker may be running an instance of an app."""
        return any(m.runs_app(app) for m in self)

    def objection(self, report: WorkerReport) -> str:
        """Return why a heartbeat comes from a process that uses the id of another; empty if it does not.

        A restarted worker has the address of its former life, and no two processes can listen there, so the former
        one is gone. Another address under the same id is another worker, until the one we know was silent for long
        enough.
        """
        if len(report.id) > LONGEST_ID:
            return f"worker id {report.id[:40]}… has {len(report.id)} characters, {LONGEST_ID} are the most"
        known = self._by_id.get(report.id)
        if known is None or known.report.incarnation == report.incarnation:
            return ""
        if report.incarnation in known.retired:
            return f"worker id {report.id} was taken over by a later process at {known.report.url}"
        if report.url != known.report.url:
            return (
                f"worker id {report.id} is in use at {known.report.url}; give the worker at {report.url} "
                "another wso2.carbon.id, or wait until the other one is removed"
            )
        return ""

    def overtaken(self, report: WorkerReport) -> bool:
        """Return True if a later heartbeat of the same process has already arrived."""
        known = self._by_id.get(report.id)
        return (
            known is not None
            and known.report.incarnation == report.incarnation
            and known.report.sequence >= report.sequence
        )

    def record(self, report: WorkerReport, now_ms: int, remove_after_ms: int) -> tuple[Member, JoinedState, bool]:
        """Take in a heartbeat that is neither objected to nor overtaken.

        Returns
        -------
        member : Member
            The worker.
        joined : JoinedState
            NEW or EXISTS.
        restarted : bool
            True if it is another process of a worker that was known.
        """
        known = self._by_id.get(report.id)
        if known is None:
            self._by_id[report.id] = member = Member(report, heard_ms=now_ms)
            return member, JoinedState.NEW, False
        restarted = known.report.incarnation != report.incarnation
        if restarted:
            known.replace(report, now_ms, remove_after_ms)
        else:
            known.note_report(report, now_ms)
        return known, JoinedState.EXISTS, restarted

    def groups_of(self, id: str) -> Mapping[str, GroupReport]:
        """Return what a worker has last reported, by instance name; nothing of one that is not known."""
        known = self._by_id.get(id)
        return {} if known is None else known.groups

    def told(self, id: str, assignments: Iterable[Assignment]) -> None:
        """Note that a worker is being told to run these, so it may from now on."""
        self._by_id[id].may_run |= {a.name: a.app for a in assignments}

    def silent(self, now_ms: int, for_ms: int) -> list[Member]:
        """Return the workers that were not heard for so long."""
        return [m for m in self if m.silent_ms(now_ms) >= for_ms]

    def expire(self, now_ms: int) -> None:
        """Drop what former processes of workers can no longer be running."""
        for member in self:
            member.inherited = {n: (app, until) for n, (app, until) in member.inherited.items() if until > now_ms}

    def remove(self, id: str) -> None:
        """Forget a worker that has left."""
        del self._by_id[id]

    def lose(self, id: str, now_ms: int, reason: str) -> None:
        """Forget a worker that has gone without a word, except that it has."""
        member = self._by_id.pop(id)
        for one in [one for one in self._lost if one.id == id]:
            self._lost.remove(one)
        self._lost.append(LostWorker(id, member.report.url, now_ms, reason, tuple(member.groups)))
