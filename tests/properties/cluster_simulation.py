"""A cluster in virtual time: real minds of managers and workers, with everything around them made up and unreliable.

Made up are the database, the network (delays, losses, requests that arrive when nobody waits for them any more), clocks
(wrong, running at different speeds, and the database's jumps), machines that stand still, and the queries. The world
checks after every step what must never happen, and raises `Violation` when it does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from spdist.cluster.elections.election import LeaderRow, Lease
from spdist.cluster.leader.instances import RestartPolicy
from spdist.cluster.leader.state import ManagerState
from spdist.cluster.leader.status import DeploymentState, deployment_statuses
from spdist.cluster.protocol.messages import (
    Announce,
    AppVersion,
    CordonRequested,
    DeployRequested,
    Event,
    Instruction,
    ProbeWorker,
    RedirectHeartbeat,
    Refuse,
    UndeployRequested,
)
from spdist.cluster.workers.state import WorkerState
from spdist.planning.topology import Assignment
from tests.properties.simulated_database import Database, assignments
from tests.properties.simulated_network import Network
from tests.properties.simulated_nodes import ELECTION, LOOK_MS, WORKERS, Manager, Violation, Worker

__all__ = ["World"]

#: How long a database's call is waited for.
_CALL_MS = 1_000
#: How long a worker that wakes up after its fence may go on: until it looks, and a kill.
_WAKING_MS = LOOK_MS + WORKERS.margin_ms // 2
#: Everything must run within that after the last fault, and go on.
_RECOVERS_WITHIN_MS = 6_000
_LOOKS, _BETWEEN_LOOKS_MS = 4, 150


@dataclass
class World(Network):
    """Everything, and the time. Mutants are worlds with another `make_manager`, `make_worker`, `grant`,
    `try_acquire` or `known_workers`.

    Parameters
    ----------
    managers_count, workers_count : int
        How many there are; with three workers or more the last one is a receiver.
    """

    managers_count: int = 2
    workers_count: int = 3
    acted: dict[int, str] = field(default_factory=dict)
    #: by how much clocks have jumped: the database's, and the wall clocks of the nodes, which nobody reads
    jumped: Counter[str] = field(default_factory=Counter)
    #: what was done to it, and what the managers did about it
    tried: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._two_may_lead_until = 0
        self.database = Database(lambda: self.clock_of("database") + self.jumped["database"], self.check_forgets)
        names = [f"manager-{i + 1}" for i in range(self.managers_count)]
        self.managers = dict.fromkeys(names)  # type: ignore[arg-type]
        for name in names:
            self.managers[name] = Manager(self, name)
        for i in range(self.workers_count):
            name = f"worker-{i + 1}"
            receiver = i == self.workers_count - 1 and self.workers_count > 2
            self.workers[name] = Worker(self, name, receiver, name)
            self.workers[name].start()
        # A machine that was cloned: another worker with the same id. It is off at first.
        self.workers["twin"] = Worker(self, "twin", False, "worker-1")

    # --------------------------------------------------------------------------------------------- what mutants replace
    def make_manager(self, name: str) -> ManagerState:
        policy = RestartPolicy(max_restarts=1000, first_delay_ms=50, max_delay_ms=200)
        return ManagerState(name, WORKERS, restarts=policy)

    def make_worker(self, name: str, url: str, receiver: bool, incarnation: str) -> WorkerState:
        return WorkerState(name, url, receiver, incarnation)

    def grant(self, term: int, sent_ms: int, received_ms: int) -> Lease:
        return Lease.granted(term, sent_ms, ELECTION)

    def try_acquire(self, expected: LeaderRow | None, node: str) -> int | None:
        return self.database.try_acquire(expected, node)

    def known_workers(self, term: int) -> Mapping[str, str] | None:
        return self.database.known_workers(term)

    def is_refused(self, worker: Worker, manager: Manager) -> bool:
        """Whether the worker's host answers that nobody listens; a host that cannot be reached does not answer."""
        return not worker.alive and not self.lost(worker.name, manager.name)

    # ----------------------------------------------------------------------------------------------------------- checks
    def check_instructions(self, manager: Manager, out: list[Instruction], now_ms: int) -> None:
        """Two leaders in one term, or a standby that instructs."""
        harmless = RedirectHeartbeat | Refuse | Announce | ProbeWorker
        for instruction in out:
            if isinstance(instruction, Announce):
                self.tried[instruction.event] += 1
            if isinstance(instruction, harmless):
                continue
            if not manager.state.leads(now_ms):
                raise Violation(f"{manager.name} does not lead but instructs: {instruction}")
            term = instruction.term
            if self.acted.setdefault(term, manager.name) != manager.name:
                raise Violation(f"{manager.name} and {self.acted[term]} act in term {term}")

    def check(self) -> None:
        """Two leaders at the same time."""
        holders = [m for m in self.managers.values() if m.state.lease is not None and m.alive]
        if len(holders) < 2 or self.now < self._two_may_lead_until:
            return
        leading = [m.name for m in holders if m.state.leads(m.steady())]
        if len(leading) > 1:
            raise Violation(f"{leading} lead at the same time")

    def check_runs_once(self, name: str) -> None:
        """A worker that stands still runs nothing; when it wakes up it needs a moment to see that its fence is over."""
        runs = [
            w.name
            for w in self.workers.values()
            if name in w.queries and w.queries[name].report.state.alive and w.excused_until <= self.now
        ]
        if len(runs) > 1:
            raise Violation(f"{name} runs on {runs} at the same time")
        receivers = [w.name for w in self.workers.values() if w.receiver]
        if runs and (runs[0] in receivers) is not ("-passthrough-" in name):
            raise Violation(f"{name} runs on {runs}, but {receivers} are the receivers")

    def check_forgets(self, app: str) -> None:
        """The row of an app is deleted while its groups run: the next one of that name would run with them."""
        for worker in self.workers.values():
            groups = [q.report for q in worker.queries.values() if q.report.app == app and q.report.state.alive]
            if groups and worker.excused_until <= self.now:
                raise Violation(f"the row of {app} is deleted, but {groups[0].name} runs on {worker.name}")

    def leader(self) -> Manager | None:
        return next((m for m in self.managers.values() if m.alive and m.state.leads(m.steady())), None)

    # -------------------------------------------------------------------------------------------------- what may happen
    def deploy(self, app: str, text: int) -> None:
        leader = self.leader()
        if leader is not None:
            self.request(leader, DeployRequested(AppVersion(app, str(text), assignments=assignments(app, text))))

    def undeploy(self, app: str) -> None:
        leader = self.leader()
        if leader is not None:
            self.request(leader, UndeployRequested(app))

    def cordon(self, worker: str, drain: bool | None) -> None:
        leader = self.leader()
        if leader is not None:
            self.request(leader, CordonRequested(worker, drain))

    def request(self, manager: Manager, event: Event) -> None:
        """Have a manager do something for a user, or, while it stands still, when it wakes up."""
        life = manager.life

        def arrive() -> None:
            if manager.life == life:
                manager.handle(event)

        if manager.still_until <= self.now:
            arrive()
        else:
            self.after(0, arrive, manager)

    def toggle(self, node: Manager | Worker) -> None:
        """Crash a node that is alive, start one that is not."""
        if node.alive:
            node.crash()
        else:
            node.start()

    def resign(self, manager: Manager) -> None:
        """Let a manager end as one does that is shut down: its row expires with it."""
        row = self.database.leader
        manager.crash()
        if row is not None and row.node_id == manager.name:
            self.database.leader = replace(row, last_heartbeat=0)

    def toggle_link(self, a: str, b: str) -> None:
        self.cut ^= {(a, b)}

    def links(self) -> list[tuple[str, str]]:
        return [(w, m) for w in self.workers for m in self.managers] + [(m, "database") for m in self.managers]

    def fail_group(self) -> None:
        running = [(w, n) for w in self.workers.values() for n, q in w.queries.items() if q.report.state.alive]
        if running:
            worker, name = self.rng.choice(sorted(running, key=lambda r: (r[0].name, r[1])))
            worker.fail(name)

    def leave(self, worker: Worker) -> None:
        """Have a worker announce that it is shutting down."""
        worker.leaving = True

    def stand_still(self, node: Manager | Worker, for_ms: int) -> None:
        """Let a machine do nothing for a while; its clock goes on. What it runs then does nothing either."""
        if not node.alive or node.still_until > self.now:
            return
        life, node.still_until = node.life, self.now + for_ms

        def wake() -> None:
            if node.life == life and isinstance(node, Worker):
                fence_at_ms = node.state.fence_at_ms
                overdue = fence_at_ms is not None and World.clock_of(self, node.name) >= fence_at_ms
                node.excused_until = self.now + (_WAKING_MS if overdue else 0)
                self.after(node.excused_until - self.now, look)

        def look() -> None:
            if node.life == life and isinstance(node, Worker):
                for name in node.queries:
                    self.check_runs_once(name)

        if isinstance(node, Worker):
            node.excused_until = node.still_until + 1
        self.after(for_ms, wake)

    def jump(self, node: str, by_ms: int) -> None:
        """Let a clock jump: the database's, or the wall clock of a node.

        Where the database's goes forward, the leader's row expires before the leader's lease does: two may lead for as
        long as that. No term has two leaders all the same, and no group runs twice.
        """
        self.jumped[node] += by_ms
        if node == "database" and by_ms > 0:
            self._two_may_lead_until = self.now + 2 * ELECTION.max_age_ms

    def heal(self) -> None:
        """End all faults; machines that stand still wake up by themselves."""
        self.calm, self.database.up, self.cut = True, True, set()
        self.workers["twin"].crash()
        for node in (*self.managers.values(), *self.workers.values()):
            if not node.alive and node.name != "twin":
                node.start()
        for worker in self.workers.values():
            worker.leaving = False

    def check_recovers(self) -> None:
        """After all faults have ended everything that is wanted runs, and nothing else."""
        self.heal()
        self._must_become_right(self._unled)
        leader = self.leader()
        assert leader is not None
        self.check_drained(leader)
        self._must_become_right(self._uncordoned)

    def _uncordoned(self) -> str:
        """End all cordons: by whoever leads, as a write from before may yet end a leadership."""
        leader = self.leader()
        for worker in dict(leader.state.placing.cordons) if leader is not None else ():
            self.cordon(worker, None)
        return self.wrong()

    def _must_become_right(self, wrong: Callable[[], str]) -> None:
        """Wait until nothing is wrong any more, and see that it stays so: in each eighth world until the end."""
        end, looks = self.now + _RECOVERS_WITHIN_MS, 0
        while looks < _LOOKS or self.seed % 8 == 0:
            self.advance(_BETWEEN_LOOKS_MS)
            now_wrong = wrong()
            looks = 0 if now_wrong else looks + 1
            if self.now >= end:
                if now_wrong:
                    raise Violation(now_wrong)
                return

    def _unled(self) -> str:
        if any(node.still_until > self.now for node in (*self.managers.values(), *self.workers.values())):
            return "a machine stands still"
        leader = self.leader()
        if leader is None:
            return "nobody leads though nothing is wrong"
        cordons, stored = dict(leader.state.placing.cordons), self.database.cordons
        return "" if cordons == stored else f"{stored} is stored, but {cordons} is in force"

    def wrong(self) -> str:
        """Return in what the cluster is not as it should be when there are no faults; empty if it is."""
        leader = self.leader()
        if leader is None:
            return self._unled()
        if leader.state.placing.cordons:
            return f"still cordoned: {leader.state.placing.cordons}"
        wanted = {a.name for d in leader.state.deployments.by_name.values() for a in d.assignments if self._can_run(a)}
        runs = {n for w in self.workers.values() for n, q in w.queries.items() if q.report.state.alive}
        if runs != wanted:
            return f"wanted {sorted(wanted)}, but {sorted(runs)} run"
        ordinary = [w for w in self.workers.values() if w.alive and not w.receiver]
        loads = [sum(q.report.state.alive for q in w.queries.values()) for w in ordinary]
        if max(loads) - min(loads) > 1:
            return f"load is uneven: {loads}"
        statuses = deployment_statuses(leader.state, leader.steady())
        receivers = any(w.receiver for w in self.workers.values())
        for group in (group for status in statuses for group in status.groups):
            if group.state is not DeploymentState.RUNNING and (receivers or not group.receiver):
                return f"{group.app_name} is {group.state.value}: {group.reason}"
        asked = {s.name: {a.name for a in assignments(s.name, int(s.text)) if self._can_run(a)} for s in statuses}
        if set().union(*asked.values()) != wanted:
            return f"the users want {asked}, but the leader {sorted(wanted)}"
        here = {d.name: (d.text, d.version, d.desired) for d in leader.state.deployments.by_name.values()}
        if here != {name: (row.text, row.version, row.desired) for name, row in self.database.rows.items()}:
            return "the database does not have what the leader has"
        return ""

    def check_drained(self, leader: Manager) -> None:
        """Workers that are drained give up everything while there is another, and it goes on running."""
        cordons = dict(leader.state.placing.cordons)
        if all(w.name in cordons for w in self.workers.values() if w.alive and not w.receiver):
            return
        drained = [w for w in self.workers.values() if w.alive and not w.receiver and cordons.get(w.name, False)]
        end = self.now + 20_000
        while any(w.queries for w in drained):
            self.advance(_BETWEEN_LOOKS_MS)
            if self.now >= end:
                raise Violation(f"drained workers still run {[list(w.queries) for w in drained]}")

    def _can_run(self, assignment: Assignment) -> bool:
        return not assignment.receiver or any(w.receiver for w in self.workers.values())
