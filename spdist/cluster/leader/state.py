"""The state of a manager: events in, instructions out. Pure: no clock, no network, no database, no Spark.

It holds what a leader knows only for as long as it leads. What must outlive it are the deployments, in the database;
where groups run is learnt anew by each leader from what the workers report.

The cycle: desired (deployments) minus observed (reports) gives a target worker for each instance; a worker's next
heartbeat is answered with everything it shall run; what it is not told to run any more, it stops. `_may_start` is the
one place that decides whether an instance may be handed out.

Source: behaviour of WSO2 SP 4.x ``DeploymentManager`` and ``ResourceManager``, with leadership fenced by terms,
failures reported, and workers rebalanced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spdist.cluster.elections.election import Lease
from spdist.cluster.leader import journal_entries
from spdist.cluster.leader.deployments import Deployments
from spdist.cluster.leader.instances import Instance, RestartPolicy
from spdist.cluster.leader.members import Member, Members
from spdist.cluster.leader.observing import observe
from spdist.cluster.leader.placement import PlacementAlgorithm, decide_placement
from spdist.cluster.leader.placing import Placing
from spdist.cluster.leader.reconcile import check_placed
from spdist.cluster.leader.roster import Roster
from spdist.cluster.protocol.group_lists import whole_groups
from spdist.cluster.protocol.messages import (
    AnswerHeartbeat,
    AnswerRebalance,
    AppVersion,
    CordonRequested,
    CordonSaved,
    DeploymentForgotten,
    DeploymentSaved,
    DeployRequested,
    Deposed,
    Elected,
    Event,
    ForgetDeployment,
    Instruction,
    JoinedState,
    LeaderSeen,
    LeaseRenewed,
    ProbeWorker,
    RebalanceRequested,
    RedirectHeartbeat,
    Refuse,
    SaveDeployment,
    SaveFailed,
    Tick,
    UndeployRequested,
    WorkerGone,
    WorkerHeartbeat,
    WorkerReport,
    WorkersSaved,
    WorkerTiming,
)
from spdist.errors import ClusterError, ErrorKind, NotLeaderError
from spdist.planning.topology import Assignment

__all__ = ["ManagerState"]


class ManagerState:
    """What one manager process knows and decides.

    Parameters
    ----------
    node_id : str
        ``wso2.carbon.id`` of this manager.
    timing : WorkerTiming
        When silent workers stop by themselves and when they are removed.
    min_resource_count : int
        ``minResourceCount``: so many workers (receivers not counted) must be there before anything is placed.
    restarts : RestartPolicy, optional
        What happens to instances that fail.
    algorithm : PlacementAlgorithm, optional
        ``allocationAlgorithm``; round robin if not given.
    probing : bool
        ``probeSilentWorkers``: whether a refused connection proves that a worker is gone.

    State
    -----
    Deployments, instances and workers while leading, nothing otherwise: O(instances + workers). The public attributes
    are for reading (`spdist.cluster.leader.status`); only `handle` changes them.
    """

    def __init__(
        self,
        node_id: str,
        timing: WorkerTiming,
        min_resource_count: int = 1,
        *,
        restarts: RestartPolicy | None = None,
        algorithm: PlacementAlgorithm = decide_placement,
        probing: bool = True,
    ) -> None:
        self.node_id = node_id
        self.timing = timing
        self.min_resource_count = min_resource_count
        self.seen = LeaderSeen(None)  #: the other manager that leads, as far as is known
        self._restarts = restarts or RestartPolicy()
        self._algorithm = algorithm
        self._probing = probing
        self._now_ms = 0
        self._handlers: dict[type[Any], Callable[[Any], list[Instruction]]] = {
            Elected: self._on_elected,
            LeaseRenewed: self._on_lease_renewed,
            Deposed: lambda event: self._step_down(event.reason),
            LeaderSeen: self._on_leader_seen,
            WorkerHeartbeat: lambda event: self._on_heartbeat(event.report),
            WorkerGone: self._on_gone,
            DeployRequested: lambda event: self._save(
                lambda: self.deployments.propose(event.deployment, event.update, event.ends), event.user
            ),
            UndeployRequested: lambda event: self._save(
                lambda: self.deployments.propose_removal(event.name), event.user
            ),
            DeploymentSaved: self._on_saved,
            SaveFailed: self._on_save_failed,
            DeploymentForgotten: self._on_forgotten,
            WorkersSaved: lambda event: self._roster.saved(event),
            CordonRequested: self._on_cordon_requested,
            CordonSaved: self._on_cordon_saved,
            RebalanceRequested: lambda _: self._on_rebalance(),
            Tick: lambda _: self._on_tick(),
        }
        self._clear()

    def _clear(self) -> None:
        self.lease: Lease | None = None
        self.deployments = Deployments()
        self.members = Members()
        self.placing = Placing(self._algorithm, self.timing, self.min_resource_count, self.deployments, self.members)
        self._roster = Roster(0, None, 0)
        self._rejections = journal_entries.Rejections()

    @property
    def term(self) -> int | None:
        """The term this manager acts in; None on a standby. Ask `leads` whether it may still act."""
        return None if self.lease is None else self.lease.term

    def leads(self, now_ms: int) -> bool:
        """Return True if this manager may act as leader at `now_ms` (steady clock)."""
        return self.lease is not None and self.lease.valid(now_ms)

    def handle(self, event: Event, now_ms: int) -> list[Instruction]:
        """Take in one event and return what is to be done about it, in this order.

        Parameters
        ----------
        event : Event
            What happened. Never raises: a request that cannot be granted gives `Refuse`.
        now_ms : int
            The steady clock of this process.
        """
        self._now_ms = max(now_ms, self._now_ms)
        out: list[Instruction] = []
        if self.lease is not None and not self.lease.valid(self._now_ms):  # No event may be handled under it
            out += self._step_down("its lease ran out: the database did not answer in time")
        return out + self._handlers[type(event)](event)

    # ------------------------------------------------------------------------------------------------------- leadership
    def _on_elected(self, event: Elected) -> list[Instruction]:
        self._clear()  # Others may have led since
        self.lease, self.seen = event.lease, LeaderSeen(None)
        # Whoever has not yet reported may still be running what an earlier leader gave it, until it has fenced itself.
        until_ms = self._now_ms + self.timing.remove_after_ms
        self.placing.begin(event.cordons, until_ms)
        self._roster = Roster(event.lease.term, event.workers, until_ms)
        self.deployments.load(event.deployments, until_ms)
        if not self._roster.waits(self._now_ms):  # all have reported that might be running what is stored
            self.deployments.release()
        return [journal_entries.elected(self.node_id, event.lease.term, len(event.deployments))]

    def _on_lease_renewed(self, event: LeaseRenewed) -> list[Instruction]:
        if self.lease is None:
            return []  # it ran out before it was renewed, and that ended the leadership
        if event.lease.term != self.lease.term:
            return self._step_down(f"holds a lease of term {event.lease.term}")
        self.lease = event.lease
        return []

    def _on_leader_seen(self, event: LeaderSeen) -> list[Instruction]:
        self.seen = event
        if self.lease is None or event.leader is None or event.leader.term <= self.lease.term:
            return []
        return self._step_down(f"{event.leader.node_id} leads in term {event.leader.term}")

    def _step_down(self, reason: str) -> list[Instruction]:
        if self.lease is None:
            return []
        term = self.lease.term
        self._clear()
        return [journal_entries.deposed(self.node_id, term, reason)]

    # ------------------------------------------------------------------------------------------------------ deployments
    def _save(self, propose: Callable[[], AppVersion | ClusterError], user: str) -> list[Instruction]:
        """Have a deployment written first: what is not durable must not run."""
        if self.lease is None:
            return [self._not_leader()]
        proposed = propose()
        if isinstance(proposed, ClusterError):
            return [Refuse(proposed)]
        return [SaveDeployment(self.lease.term, proposed, user)]

    def _on_saved(self, event: DeploymentSaved) -> list[Instruction]:
        before = self.deployments.running(event.name)
        saved = self.deployments.conclude(event.name, event.version, written=True)
        if saved is None:
            return []
        return [journal_entries.changed(saved, before, event.user), *self._reconcile()]

    def _on_save_failed(self, event: SaveFailed) -> list[Instruction]:
        self.deployments.conclude(event.name, event.version, written=False)
        return []

    def _on_forgotten(self, event: DeploymentForgotten) -> list[Instruction]:
        self.deployments.forget(event.name, event.version)
        self.placing.loads.keep(self.deployments.instances)
        return []

    # ---------------------------------------------------------------------------------------------------------- workers
    def _on_heartbeat(self, report: WorkerReport) -> list[Instruction]:
        if self.lease is None:
            return [RedirectHeartbeat(self.seen.at(self._now_ms))]
        if report.known_term > self.lease.term:
            # Only the database tells who leads, in the next round of the election. Until then the lease holds.
            return [*self._rejections.say(report.id, _later(report, self.lease)), RedirectHeartbeat(None)]
        if (told := whole_groups(report, self.members.groups_of(report.id))) is None:
            return [Refuse(_incomplete(report))]
        report = told
        if objection := self.members.objection(report):
            answer = self._answer(report, JoinedState.REJECTED, None, objection)
            return [*self._rejections.say(report.id, objection), answer]
        if self.members.overtaken(report):
            return [RedirectHeartbeat(None)]  # nobody waits for this answer any more
        known = self.members.get(report.id)
        before = known.life if known is not None and known.ready else None
        done = report.leaving and not any(g.state.alive for g in report.groups)
        if done and (known is None or known.report.incarnation != report.incarnation):
            return [self._answer(report, JoinedState.EXISTS, None)]  # it says nothing about who is here under that id
        member, joined, restarted = self.members.record(report, self._now_ms, self.timing.remove_after_ms)
        self._roster.note_report(report)
        self.placing.loads.note(report, self._now_ms)
        if not self._roster.waits(self._now_ms):  # all have reported that might be running what is stored
            self.deployments.release()
        if done and not member.inherited:  # Else a former process of this id may still run groups
            return [*self._see_off(report.id), self._answer(report, joined, None)]
        out = _greet(report, joined, restarted)
        out += observe(member, self.deployments, self._now_ms, self._restarts)
        if member.ready and member.life != before:
            out += self._on_ready(member)  # After `observe`: a new Spark forgets what failed in the former
        out += [*self._reconcile(), *self._roster.save(self.members, self._now_ms)]
        return [*out, self._answer(report, joined, member)]

    def _on_ready(self, member: Member) -> list[Instruction]:
        """Take note that a worker's Spark has come up, for the first time or anew: it is given groups from now on."""
        # Workers that are started together arrive one by one: do not move groups to and fro between the first of them.
        self.placing.wait(self._now_ms + 2 * self.timing.heartbeat_interval_ms)
        self.deployments.retry(self._now_ms, self._restarts, anew=member.report.id)
        return [journal_entries.ready(member.report.id)]

    def _see_off(self, id: str, why: str = "left") -> list[Instruction]:
        if why == "left":
            self.members.remove(id)
        else:
            self.members.lose(id, self._now_ms, why)
        orphans = [i for i in self.deployments.instances.values() if i.worker == id]
        for instance in orphans:
            instance.worker, instance.vacated = None, f"worker {id} {why}"
        self.deployments.retry(self._now_ms, self._restarts)
        return [journal_entries.gone(id, why, len(orphans)), *self._reconcile()]

    def _on_gone(self, event: WorkerGone) -> list[Instruction]:
        """Remove a worker whose process is gone before the deadline at which it would have stopped by itself."""
        member = self.members.get(event.id)
        if self.lease is None or member is None:
            return []
        if (member.report.incarnation, member.report.sequence) != (event.incarnation, event.sequence):
            return []  # it has been heard since, or is another process
        silent_s = member.silent_ms(self._now_ms) / 1000
        why = f"is gone: silent for {silent_s:.1f} s, and {member.report.url} refuses connections"
        return self._see_off(event.id, why)

    def _answer(
        self, report: WorkerReport, joined: JoinedState, member: Member | None, reason: str = ""
    ) -> AnswerHeartbeat:
        """Answer a heartbeat: with all that `member` shall run, or, without one, with nothing."""
        assert self.lease is not None
        assignments: tuple[Assignment, ...] = ()
        listed = self._roster.covers(report)
        mine = [i for i in self.deployments.instances.values() if i.worker == report.id]
        if member is not None and listed:
            assignments = tuple(i.assignment for i in mine if self._may_start(i, member))
            self.members.told(report.id, assignments)
        # What waits is handed out in the answer that follows: where a worker is silent, that may be any group of its.
        soon = not listed or len(assignments) < len(mine) or self._roster.may_end_early(self._now_ms)
        soon = soon or bool(self.members.silent(self._now_ms, self.timing.suspect_after_ms))
        timing = self.timing.hurried(len(self.members)) if member is not None and soon else self.timing
        known = frozenset(group.fingerprint for group in report.groups)
        return AnswerHeartbeat(report.id, report.sequence, self.lease.term, joined, assignments, timing, reason, known)

    def _may_start(self, instance: Instance, member: Member) -> bool:
        """Return True if a worker shall (go on to) run an instance: the only place where anything is handed out."""
        name, id = instance.assignment.name, member.report.id
        if name in member.may_run:  # Left out of the answer, it would be stopped
            return True
        return (
            not self.deployments.held(instance.assignment.app, self._now_ms)
            and self.members.elsewhere(name, id) is None
            and self._now_ms >= instance.retry_at_ms
            and not instance.failed_in(member.groups.get(name))  # it is to be forgotten there first
        )

    # ------------------------------------------------------------------------------------------------------------- time
    def _on_tick(self) -> list[Instruction]:
        if self.lease is None:
            return []
        out: list[Instruction] = []
        self.members.expire(self._now_ms)  # First, as it sets instances free for what follows
        for member in self.members.silent(self._now_ms, self.timing.remove_after_ms):
            seconds = (self._now_ms - member.heard_ms) / 1000
            out += self._see_off(member.report.id, f"was silent for {seconds:.1f} s and is removed")
        if self._probing:
            overdue = self.members.silent(self._now_ms, self.timing.probe_after_ms)
            seen = [(m.report.id, m.report.url, m.report.incarnation, m.report.sequence) for m in overdue]
            out += [ProbeWorker(*one) for one in seen]
        # Not sooner than nobody can be running their groups: a new leader must know of them until then.
        removable = self.deployments.removable(self._now_ms, self.members.running_app)
        forget = [ForgetDeployment(self.lease.term, d.name, d.version) for d in removable]
        return [*out, *self._reconcile(), *self._roster.save(self.members, self._now_ms), *forget]

    # ------------------------------------------------- placement: choices; `_may_start` sees to it that moves are safe
    def _reconcile(self) -> Sequence[Instruction]:
        return self.placing.reconcile(self._now_ms)

    def _on_rebalance(self) -> list[Instruction]:
        if self.lease is None:
            return [self._not_leader()]
        answer = AnswerRebalance(self.lease.term, self.placing.plan(self._now_ms))
        return [answer, *self.placing.reconcile(self._now_ms, rebalance=True)]

    def _on_cordon_requested(self, event: CordonRequested) -> list[Instruction]:
        return [self._not_leader() if self.lease is None else self.placing.propose_cordon(event, self.lease.term)]

    def _on_cordon_saved(self, event: CordonSaved) -> list[Instruction]:
        return [self.placing.note_cordon(event), *self._reconcile()] if self.term == event.term else []

    # ----------------------------------------------------------------------------------------------------------- checks
    def _not_leader(self) -> Refuse:
        leader = self.seen.at(self._now_ms)
        url = None if leader is None else leader.url
        text = f"manager {self.node_id} does not lead"
        return Refuse(NotLeaderError(text, leader=url, hint=f"ask {url}" if url else "try again in a moment"))

    def check_invariants(self) -> None:
        """Raise `AssertionError` if this state contradicts itself. For tests: after every event and at teardown."""
        known = len(self.members) + len(self.deployments.by_name) + len(self.deployments.instances)
        assert self.lease is not None or known == 0, "a standby keeps what it knew as leader"
        self.deployments.check_invariants()
        check_placed(self.deployments, self.members)


def _incomplete(report: WorkerReport) -> ClusterError:
    return ClusterError(
        f"worker {report.id} left out groups that are not known as it means them",
        hint="nothing is to be done: its next heartbeat names them all",
        code=ErrorKind.CONFLICT,
    )


def _later(report: WorkerReport, lease: Lease) -> str:
    return (
        f"worker {report.id} says that it obeys a leader of a later term than {lease.term}; its heartbeats are ignored "
        "unless the database names that leader: if it goes on, restart the worker"
    )


def _greet(report: WorkerReport, joined: JoinedState, restarted: bool) -> list[Instruction]:
    if restarted:
        return [journal_entries.restarted(report.id)]
    return [] if joined is JoinedState.EXISTS else [journal_entries.joined(report)]
