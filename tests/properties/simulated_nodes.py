"""The nodes of a simulated cluster: a database, managers and workers, which a `World` runs in virtual time.

Real are `decide`, `Lease`, `ManagerState` and `WorkerState`; the shells around them are made of generators instead of
threads: they yield a pause in ms, or a call to the database.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol
from unittest.mock import patch

from spdist.cluster.elections.election import Acquire, ElectionTiming, Follow, LeaderRow, Lease, Renew, decide
from spdist.cluster.leader import state
from spdist.cluster.leader.instances import RestartPolicy
from spdist.cluster.leader.roster import Roster
from spdist.cluster.leader.state import ManagerState
from spdist.cluster.protocol.messages import (
    AnswerHeartbeat,
    CordonSaved,
    DeploymentForgotten,
    DeploymentSaved,
    Deposed,
    Elected,
    Event,
    ForgetDeployment,
    GroupPhase,
    GroupReport,
    Instruction,
    LeaderSeen,
    LeaseRenewed,
    ProbeWorker,
    RedirectHeartbeat,
    SaveCordon,
    SaveDeployment,
    SaveWorkers,
    Tick,
    WorkersSaved,
    WorkerTiming,
)
from spdist.cluster.workers.state import ForgetGroup, KillGroup, StartGroup, StopGroup, WorkerState
from tests.properties.simulated_database import Database, Unreachable

ELECTION = ElectionTiming(heartbeat_interval_ms=60, heartbeat_max_retry=3)
#: Pause between questions of a worker that has lost its leader.
RETRY_MS = 30
#: How long a worker waits for the answer to a heartbeat.
PATIENCE_MS = 90
WORKERS = WorkerTiming.from_config(heartbeat_interval_ms=100, heartbeat_max_retry=2)


#: How long a worker takes at most to look after its groups when that is due.
LOOK_MS = 40


@dataclass
class Wait:
    """A pause that `Worker.wake` ends before its time."""

    for_what: str
    at_most_ms: int
    ends: Callable[[], None] | None = None

    def end(self) -> None:
        ends, self.ends = self.ends, None
        if ends is not None:
            ends()


class Violation(AssertionError):
    """Something happened that must never happen."""


def with_roster(name: str, restarts: RestartPolicy, **rules: Callable[..., Any]) -> ManagerState:
    """Return a mind whose lists of workers have other rules."""
    kind = type("Mutant", (Roster,), rules)

    class Altered(ManagerState):
        def _on_elected(self, event: Elected) -> list[Instruction]:
            with patch.object(state, "Roster", kind):
                return super()._on_elected(event)

    return Altered(name, WORKERS, restarts=restarts)


class Node(Protocol):
    """A process of the world: it may end, and its machine may stand still."""

    name: str
    life: int
    still_until: int
    waits: dict[str, Wait]


class Surroundings(Protocol):
    """What the nodes need of the world."""

    rng: random.Random
    calm: bool
    database: Database
    managers: dict[str, Manager]

    def make_manager(self, name: str) -> ManagerState: ...
    def make_worker(self, name: str, url: str, receiver: bool, incarnation: str) -> WorkerState: ...
    def grant(self, term: int, sent_ms: int, received_ms: int) -> Lease: ...
    def try_acquire(self, expected: LeaderRow | None, node: str) -> int | None: ...
    def known_workers(self, term: int) -> Mapping[str, str] | None: ...
    def clock_of(self, node: str) -> int: ...
    def between(self, least: int, most: int) -> int: ...
    def after(self, delay_ms: int, action: Callable[[], None], node: Node | None = None) -> None: ...
    def spawn(self, node: Node, process: Generator[Any, Any, None]) -> None: ...
    def post(self, worker: Worker, manager: str, report: Any) -> None: ...
    def ask(self, worker: Worker, manager: str) -> None: ...
    def probe(self, manager: Manager, order: ProbeWorker) -> None: ...
    def check_instructions(self, manager: Manager, out: list[Instruction], now_ms: int) -> None: ...
    def check_runs_once(self, name: str) -> None: ...


class Elector:
    """A process that takes part in the election, in a shell that is made of generators instead of threads."""

    world: Surroundings
    name: str
    lease: Lease | None

    def steady(self) -> int:
        return self.world.clock_of(self.name)

    def handle(self, event: Event) -> list[Instruction]:
        """Take in what came of a round."""
        raise NotImplementedError

    def begin(self, term: int) -> Generator[Any, Any, None]:
        """Load what a new leader must know, then act by the lease."""
        raise NotImplementedError

    def elections(self) -> Generator[Any, Any, None]:
        """As `hold_election` and the shell around it, but other nodes act between the calls."""
        while True:
            pause_ms = ELECTION.round_ms
            with contextlib.suppress(Unreachable):
                expires_ms = yield from self.round()
                pause_ms = max(1, min(pause_ms, expires_ms - self.steady())) if expires_ms else pause_ms
            yield pause_ms

    def round(self) -> Generator[Any, Any, int]:
        database = self.world.database
        before = self.lease
        view, now_db_ms = yield database.read_leader
        sent_ms = self.steady()
        term: int | None = None
        expires_ms = 0
        match decide(view, before, now_db_ms, sent_ms, ELECTION):
            case Follow(leader):
                expires_ms = sent_ms + ELECTION.max_age_ms - (now_db_ms - leader.last_heartbeat) + 1
                self.handle(LeaderSeen(leader, expires_ms))
            case Renew(held):
                if (yield lambda: database.renew(held, self.name)):
                    term = held
            case Acquire(expected):
                term = yield lambda: self.world.try_acquire(expected, self.name)
        if term is None:
            self.handle(Deposed("did not win"))
            return expires_ms
        self.lease = self.world.grant(term, sent_ms, self.steady())
        if before is None or before.term != term:
            yield from self.begin(term)
        else:
            self.handle(LeaseRenewed(self.lease))
        return 0


class Manager(Elector):
    """A manager process: its mind, and the election."""

    def __init__(self, world: Surroundings, name: str) -> None:
        self.world = world
        self.name = name
        self.life = 0
        self.alive = False
        self.still_until = 0
        self.waits: dict[str, Wait] = {}
        self.start()

    def start(self) -> None:
        self.life += 1
        self.alive = True
        self.state = self.world.make_manager(self.name)
        self.lease: Lease | None = None
        self.unwritten: list[SaveWorkers | SaveCordon] = []
        self.world.spawn(self, self.elections())
        self.world.spawn(self, self.ticks())

    def crash(self) -> None:
        self.life += 1
        self.alive = False
        self.still_until = 0

    def begin(self, term: int) -> Generator[Any, Any, None]:
        database = self.world.database
        deployments = yield database.deployments
        workers = yield lambda: self.world.known_workers(term)
        cordons = yield lambda: database.cordons
        assert self.lease is not None
        self.handle(Elected(self.lease, deployments, workers, cordons))

    def round(self) -> Generator[Any, Any, int]:
        before = self.lease
        expires_ms = yield from super().round()
        if self.lease is not None and self.lease is not before and self.state.term is None:
            self.lease = self.lease.ended()
        return expires_ms

    def ticks(self) -> Generator[Any, Any, None]:
        while True:
            self.handle(Tick())
            yield WORKERS.heartbeat_interval_ms // 2

    def handle(self, event: Event) -> list[Instruction]:
        now_ms, acted = self.steady(), self.state.term is not None
        out = self.state.handle(event, now_ms)
        self.state.check_invariants()
        self.world.check_instructions(self, out, now_ms)
        for instruction in out:
            if isinstance(instruction, SaveDeployment):
                self.world.spawn(self, self.save(instruction))
            elif isinstance(instruction, ForgetDeployment):
                self.world.spawn(self, self.forget(instruction))
            elif isinstance(instruction, SaveWorkers | SaveCordon):
                self.unwritten.append(instruction)
                if len(self.unwritten) == 1:
                    self.world.spawn(self, self.write())
            elif isinstance(instruction, ProbeWorker):
                self.world.probe(self, instruction)
        if acted and self.state.term is None and self.lease is not None:
            self.lease = self.lease.ended()
        return out

    def save(self, order: SaveDeployment) -> Generator[Any, Any, None]:
        deployment = order.deployment
        try:
            written = yield lambda: self.world.database.save(order.term, self.name, deployment)
        except Unreachable:
            written = False
        done = DeploymentSaved(deployment.name, deployment.version)
        self.handle(done if written else Deposed("the outcome of a write is unknown"))

    def write(self) -> Generator[Any, Any, None]:
        """Write one after the other, as the writing thread does: what was given up is never written after the next."""
        while self.unwritten:
            match self.unwritten[0]:
                case SaveWorkers(term, version, workers):
                    work = partial(self.world.database.save_workers, term, self.name, workers)
                    written = yield from self.outcome(work)
                    self.handle(WorkersSaved(term, version, written=written))
                case SaveCordon(term, worker, drain):
                    work = partial(self.world.database.save_cordon, term, self.name, worker, drain)
                    written = yield from self.outcome(work)
                    self.handle(CordonSaved(term, worker, drain) if written else Deposed("the outcome is unknown"))
            del self.unwritten[0]

    def outcome(self, work: Callable[[], bool]) -> Generator[Any, Any, bool]:
        try:
            return bool((yield work))
        except Unreachable:
            return False

    def forget(self, order: ForgetDeployment) -> Generator[Any, Any, None]:
        with contextlib.suppress(Unreachable):
            if (yield lambda: self.world.database.forget(order.term, self.name, order.name, order.version)):
                self.handle(DeploymentForgotten(order.name, order.version))


@dataclass
class Query:
    """A group instance that is alive, or has ended, on a worker."""

    report: GroupReport
    changes: int = 0


class Worker:
    """A worker process: its mind, its queries, and a heartbeat."""

    def __init__(self, world: Surroundings, name: str, receiver: bool, id: str) -> None:
        self.world = world
        self.name = name
        self.receiver = receiver
        self.id = id
        self.life = 0
        self.alive = False
        self.leaving = False
        self.still_until = 0
        #: until when it does not count as running what it has: it stands still, or has only just woken up
        self.excused_until = 0
        self.waits: dict[str, Wait] = {}
        self.queries: dict[str, Query] = {}
        self.heard = False

    def start(self) -> None:
        self.life += 1
        self.alive = True
        self.leaving = False
        self.queries = {}
        life = f"{self.name}-life-{self.life}"
        self.state = self.world.make_worker(self.id, f"http://{self.name}", self.receiver, life)
        #: who gets the heartbeat, and the term in which it is taken for the leader; as `LeaderLink`
        self.leader: str | None = None
        self.leader_term = 0
        self.term = 0
        self.world.spawn(self, self.heartbeats())
        self.world.spawn(self, self.guard())

    def crash(self) -> None:
        self.life += 1
        self.alive = False
        self.still_until = self.excused_until = 0
        self.queries = {}

    def wake(self, for_what: str) -> None:
        """End a `Wait`."""
        wait = self.waits.pop(for_what, None)
        if wait is not None:
            self.world.after(0, wait.end, self)

    def steady(self) -> int:
        return self.world.clock_of(self.name)

    def reports(self) -> list[GroupReport]:
        return [q.report for q in self.queries.values()]

    def heartbeats(self) -> Generator[Any, Any, None]:
        """A heartbeat to the leader; while that does not answer, questions to all managers who leads."""
        while True:
            self.heard = False
            target = self.leader
            if target is not None:
                report = self.state.next_report(self.reports(), self.steady(), leaving=self.leaving)
                self.world.post(self, target, report)
            patience_ms = PATIENCE_MS if self.world.calm else self.world.rng.choice((PATIENCE_MS, PATIENCE_MS, 400))
            began_ms, waited_ms, patience_ms = self.steady(), 0, patience_ms if target else RETRY_MS
            while not self.heard and self.leader == target and waited_ms < patience_ms:
                if waited_ms or target is None:
                    for manager in self.world.managers:
                        self.world.ask(self, manager)
                yield Wait("answer", min(RETRY_MS, patience_ms - waited_ms))
                waited_ms = self.steady() - began_ms
            if self.heard:
                yield max(10, WORKERS.heartbeat_interval_ms - waited_ms)
            elif self.leader == target:
                self.leader, self.leader_term = None, 0

    def answered(self, manager: str, instruction: Instruction) -> None:
        """An answer to a heartbeat has arrived, in time or not."""
        if isinstance(instruction, RedirectHeartbeat) and manager == self.leader:
            self.leader, self.leader_term = None, 0
            self.wake("answer")
        elif isinstance(instruction, AnswerHeartbeat):
            self.term = max(self.term, instruction.term)
            self.state.on_answer(instruction, self.steady())
            self.wake("look")
            if instruction.sequence == self.state._sequence:
                self.heard = True
                self.wake("answer")

    def claimed(self, manager: str, term: int) -> None:
        """A manager says that it leads: it gets a heartbeat, unless the one under way went to a later leader."""
        if term >= self.term and (self.leader is None or (not self.heard and term > self.leader_term)):
            if manager != self.leader:
                self.wake("answer")
            self.leader, self.leader_term = manager, term

    def guard(self) -> Generator[Any, Any, None]:
        """Look after the groups when something has changed, when the fence is due, and every quarter of a second."""
        while True:
            self.reconcile()
            due_ms = self.state.fence_at_ms if self.queries else None
            left_ms = 250 if due_ms is None else max(0, due_ms - self.steady())
            yield Wait("look", min(250, left_ms))
            yield self.world.between(5, LOOK_MS)

    def reconcile(self) -> None:
        for order in self.state.reconcile(self.reports(), self.steady()):
            match order:
                case StartGroup(assignment, fingerprint):
                    self.set(GroupReport(assignment.name, assignment.app, GroupPhase.STARTING, fingerprint))
                    self.later(assignment.name, self.world.between(5, 150), GroupPhase.RUNNING)
                case StopGroup(name):
                    self.set(replace(self.queries[name].report, state=GroupPhase.STOPPING))
                    # a batch may take long; only a kill is quick
                    self.later(name, self.world.between(5, 900), GroupPhase.STOPPED)
                case KillGroup(name):
                    self.set(replace(self.queries[name].report, state=GroupPhase.STOPPING))
                    self.later(name, self.world.between(1, WORKERS.margin_ms // 2), GroupPhase.STOPPED)
                case ForgetGroup(name):
                    del self.queries[name]

    def set(self, report: GroupReport) -> None:
        query = self.queries.setdefault(report.name, Query(report))
        query.report = report
        query.changes += 1
        self.wake("look")
        self.world.check_runs_once(report.name)

    def later(self, name: str, after_ms: int, state: GroupPhase) -> None:
        query, changes, life = self.queries[name], self.queries[name].changes, self.life

        def happen() -> None:
            same = self.life == life and self.queries.get(name) is query and query.report.state.alive
            if same and (query.changes == changes or state is GroupPhase.STOPPED):
                self.set(replace(query.report, state=state))

        self.world.after(after_ms, happen, self)

    def fail(self, name: str) -> None:
        self.set(replace(self.queries[name].report, state=GroupPhase.FAILED, error="division by zero"))
