"""The nodes of a simulated cluster: a database, managers and workers, which a `World` runs in virtual time.

Real are `decide`, `Lease`, `ManagerState` and `WorkerState`; the shells around them are made of generators instead of
threads: they yield a pause in ms, or a call to the database.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from spdist.cluster.election import ElectionTiming, Follow, LeaderRow, Lease, Renew, TryTake, decide
from spdist.cluster.messages import (
    AnswerHeartbeat,
    Deployment,
    DeploymentForgotten,
    DeploymentSaved,
    Deposed,
    Desired,
    Elected,
    Event,
    ForgetDeployment,
    GroupPhase,
    GroupReport,
    Instruction,
    LeaderSeen,
    LeaseRenewed,
    RedirectHeartbeat,
    SaveDeployment,
    Tick,
    WorkerTiming,
)
from spdist.cluster.state import ManagerState
from spdist.cluster.worker_state import ForgetGroup, KillGroup, StartGroup, StopGroup, WorkerState
from spdist.planning.topology import Assignment

ELECTION = ElectionTiming(heartbeat_interval_ms=60, heartbeat_max_retry=3)
WORKERS = WorkerTiming.from_config(heartbeat_interval_ms=100, heartbeat_max_retry=2)


class Violation(AssertionError):
    """Something happened that must never happen."""


class Unreachable(Exception):
    """The database did not answer in time."""


def assignments(app: str, version: int) -> tuple[Assignment, ...]:
    """Return what an app is planned into: the text of one group changes with each version, the others stay."""

    def one(group: str, i: int, text: str, receiver: bool = False) -> Assignment:
        return Assignment(f"{app}-{group}-{i}", app, f"{app}-{group}", text, False, (), (), receiver)

    out = [one("steady", 1, "same"), one("steady", 2, "same"), one("changing", 1, f"version {version}")]
    if version % 2:
        out.append(one("odd", 1, "same"))
    if app == "Beta":
        out.append(one("passthrough", 1, "same", receiver=True))
    return tuple(out)


class Surroundings(Protocol):
    """What the nodes need of the world."""

    rng: random.Random
    calm: bool
    database: Database
    managers: dict[str, Manager]

    def make_manager(self, name: str) -> ManagerState: ...
    def make_worker(self, name: str, url: str, receiver: bool, incarnation: str) -> WorkerState: ...
    def grant(self, term: int, sent_ms: int, received_ms: int) -> Lease: ...
    def try_take(self, expected: LeaderRow | None, node: str) -> int | None: ...
    def clock_of(self, node: str) -> int: ...
    def after(self, delay_ms: int, action: Callable[[], None]) -> None: ...
    def spawn(self, node: Manager | Worker, process: Generator[Any, Any, None]) -> None: ...
    def post(self, worker: Worker, report: Any) -> None: ...
    def check_instructions(self, manager: Manager, out: list[Instruction], now_ms: int) -> None: ...
    def check_runs_once(self, name: str) -> None: ...


@dataclass
class Row:
    """A deployment as the made-up database stores it."""

    text: str
    version: int
    desired: Desired


class Database:
    """The coordination database: atomic, with a clock of its own. Its methods follow `spdist.cluster.store`."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.up = True
        self.clock = clock
        self.leader: LeaderRow | None = None
        self.rows: dict[str, Row] = {}
        #: term -> who was given it
        self.terms: dict[int, str] = {}

    def read_leader(self) -> tuple[LeaderRow | None, int]:
        return self.leader, self.clock()

    def renew(self, term: int, node: str) -> bool:
        if self.leader is None or (self.leader.term, self.leader.node_id) != (term, node):
            return False
        self.leader = replace(self.leader, last_heartbeat=self.clock())
        return True

    def try_take(self, expected: LeaderRow | None, node: str) -> int | None:
        if self.leader != expected:
            return None
        term = 1 if expected is None else expected.term + 1
        self.leader = LeaderRow("sp", node, term, self.clock(), f"http://{node}")
        return term

    def save(self, term: int, node: str, deployment: Deployment) -> bool:
        if self.leader is None or (self.leader.term, self.leader.node_id) != (term, node):
            return False
        self.rows[deployment.name] = Row(deployment.text, deployment.version, deployment.desired)
        return True

    def forget(self, term: int, node: str, name: str, version: int) -> bool:
        if self.leader is None or (self.leader.term, self.leader.node_id) != (term, node):
            return False
        row = self.rows.get(name)
        if row is not None and (row.version, row.desired) == (version, Desired.REMOVED):
            del self.rows[name]
        return True

    def deployments(self) -> tuple[Deployment, ...]:
        return tuple(
            Deployment(
                name,
                row.text,
                row.version,
                assignments(name, int(row.text)) if row.desired is Desired.RUNNING else (),
                row.desired,
            )
            for name, row in self.rows.items()
        )


class Manager:
    """A manager process: its mind, and a shell that is made of generators instead of threads."""

    def __init__(self, world: Surroundings, name: str) -> None:
        self.world = world
        self.name = name
        self.life = 0
        self.alive = False
        self.start()

    def start(self) -> None:
        self.life += 1
        self.alive = True
        self.state = self.world.make_manager(self.name)
        self.lease: Lease | None = None
        self.world.spawn(self, self.elections())
        self.world.spawn(self, self.ticks())

    def crash(self) -> None:
        self.life += 1
        self.alive = False

    def steady(self) -> int:
        return self.world.clock_of(self.name)

    def elections(self) -> Generator[Any, Any, None]:
        """As `hold_election` and the shell around it, but other nodes act between the calls."""
        while True:
            with contextlib.suppress(Unreachable):
                yield from self.round()
            yield ELECTION.round_ms

    def round(self) -> Generator[Any, Any, None]:
        database = self.world.database
        before = self.lease
        view, now_db_ms = yield database.read_leader
        sent_ms = self.steady()
        term: int | None = None
        match decide(view, before, now_db_ms, sent_ms, ELECTION):
            case Follow(leader):
                self.handle(LeaderSeen(leader))
            case Renew(held):
                if (yield lambda: database.renew(held, self.name)):
                    term = held
            case TryTake(expected):
                term = yield lambda: self.world.try_take(expected, self.name)
        if term is None:
            self.handle(Deposed("did not win"))
            return
        self.lease = self.world.grant(term, sent_ms, self.steady())
        if before is None or before.term != term:
            deployments = yield database.deployments
            self.handle(Elected(self.lease, deployments))
        else:
            self.handle(LeaseRenewed(self.lease))
        if self.state.term is None:
            self.lease = self.lease.ended()

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
        self.queries: dict[str, Query] = {}
        self.heard = False

    def start(self) -> None:
        self.life += 1
        self.alive = True
        self.leaving = False
        self.queries = {}
        life = f"{self.name}-life-{self.life}"
        self.state = self.world.make_worker(self.id, f"http://{self.name}", self.receiver, life)
        self.leader = self.world.rng.choice(list(self.world.managers))
        self.world.spawn(self, self.heartbeats())
        self.world.spawn(self, self.guard())

    def crash(self) -> None:
        self.life += 1
        self.alive = False
        self.queries = {}

    def steady(self) -> int:
        return self.world.clock_of(self.name)

    def reports(self) -> list[GroupReport]:
        return [q.report for q in self.queries.values()]

    def heartbeats(self) -> Generator[Any, Any, None]:
        while True:
            report = self.state.next_report(self.reports(), self.steady(), leaving=self.leaving)
            patience_ms = 90 if self.world.calm else self.world.rng.choice((90, 90, 400))
            self.heard = False
            self.world.post(self, report)
            waited_ms = 0
            while not self.heard and waited_ms < patience_ms:
                yield 10
                waited_ms += 10
            if not self.heard:
                # No manager answered: another one may.
                self.leader = self.world.rng.choice(list(self.world.managers))
            yield max(10, WORKERS.heartbeat_interval_ms - waited_ms)

    def answered(self, manager: str, instruction: Instruction) -> None:
        """An answer has arrived, in time or not."""
        self.heard = True
        if isinstance(instruction, RedirectHeartbeat):
            others = [m for m in self.world.managers if m != manager]
            self.leader = self.world.rng.choice(others) if instruction.leader is None else instruction.leader.node_id
        elif isinstance(instruction, AnswerHeartbeat):
            self.state.on_answer(instruction, self.steady())

    def guard(self) -> Generator[Any, Any, None]:
        while True:
            self.reconcile()
            yield self.world.rng.randint(5, 40)

    def reconcile(self) -> None:
        for order in self.state.reconcile(self.reports(), self.steady()):
            match order:
                case StartGroup(assignment, fingerprint):
                    self.set(GroupReport(assignment.name, assignment.app, GroupPhase.STARTING, fingerprint))
                    self.later(assignment.name, self.world.rng.randint(5, 150), GroupPhase.RUNNING)
                case StopGroup(name):
                    self.set(replace(self.queries[name].report, state=GroupPhase.STOPPING))
                    # a batch may take long; only a kill is quick
                    self.later(name, self.world.rng.randint(5, 900), GroupPhase.STOPPED)
                case KillGroup(name):
                    self.later(name, self.world.rng.randint(1, WORKERS.margin_ms // 2), GroupPhase.STOPPED)
                case ForgetGroup(name):
                    del self.queries[name]

    def set(self, report: GroupReport) -> None:
        query = self.queries.setdefault(report.name, Query(report))
        query.report = report
        query.changes += 1
        self.world.check_runs_once(report.name)

    def later(self, name: str, after_ms: int, state: GroupPhase) -> None:
        query, changes, life = self.queries[name], self.queries[name].changes, self.life

        def happen() -> None:
            same = self.life == life and self.queries.get(name) is query and query.report.state.alive
            if same and (query.changes == changes or state is GroupPhase.STOPPED):
                self.set(replace(query.report, state=state))

        self.world.after(after_ms, happen)

    def fail(self, name: str) -> None:
        self.set(replace(self.queries[name].report, state=GroupPhase.FAILED, error="division by zero"))
