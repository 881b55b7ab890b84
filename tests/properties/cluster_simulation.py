"""A cluster in virtual time: real minds of managers and workers, with everything around them made up and unreliable.

Made up are the database, the network (delays, losses, requests that arrive when nobody waits for them any more), clocks
(wrong, and running at different speeds), and the queries. The world checks after every step what must never happen, and
raises `Violation` when it does.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from spdist.cluster.election import LeaderRow, Lease
from spdist.cluster.instances import RestartPolicy
from spdist.cluster.messages import (
    Announce,
    AnswerHeartbeat,
    CordonRequested,
    Deployment,
    DeployRequested,
    Instruction,
    ProbeWorker,
    RedirectHeartbeat,
    Refuse,
    UndeployRequested,
    WorkerGone,
    WorkerHeartbeat,
)
from spdist.cluster.state import ManagerState
from spdist.cluster.status import DeploymentState, deployment_statuses
from spdist.cluster.worker_state import WorkerState
from spdist.planning.topology import Assignment
from tests.properties.simulated_nodes import (
    ELECTION,
    WORKERS,
    Database,
    Manager,
    Unreachable,
    Violation,
    Worker,
    assignments,
)

__all__ = ["APPS", "World", "random_schedule", "troubled_workers"]

APPS = ("Alpha", "Beta", "Gamma")


@dataclass
class World:
    """Everything, and the time. Mutants are worlds with another `make_manager`, `make_worker`, `grant`, `try_take` or
    `known_workers`.

    Parameters
    ----------
    seed : int
        Of all delays, losses and clocks.
    managers_count, workers_count : int
        How many there are; with three workers or more the last one is a receiver.
    """

    seed: int
    managers_count: int = 2
    workers_count: int = 3
    now: int = 1_000_000
    calm: bool = False
    cut: set[tuple[str, str]] = field(default_factory=set)
    acted: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._ids = itertools.count()
        self._clocks: dict[str, tuple[int, float]] = {}
        self.database = Database(lambda: self.clock_of("database"))
        names = [f"manager-{i + 1}" for i in range(self.managers_count)]
        self.managers: dict[str, Manager] = dict.fromkeys(names)  # type: ignore[arg-type]
        for name in names:
            self.managers[name] = Manager(self, name)
        self.workers: dict[str, Worker] = {}
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

    def try_take(self, expected: LeaderRow | None, node: str) -> int | None:
        return self.database.try_take(expected, node)

    def known_workers(self, term: int) -> Mapping[str, str] | None:
        return self.database.known_workers(term)

    # ------------------------------------------------------------------------------------------------------------- time
    def clock_of(self, node: str) -> int:
        """Return a node's clock: off by up to an hour, and up to 2 % fast or slow."""
        if node not in self._clocks:
            self._clocks[node] = self.rng.randint(0, 7_200_000), self.rng.uniform(0.98, 1.02)
        offset, speed = self._clocks[node]
        return offset + int(self.now * speed)

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + delay_ms, next(self._ids), action))

    def advance(self, by_ms: int) -> None:
        """Let everything happen that is due in the next `by_ms`."""
        end = self.now + by_ms
        while self._queue and self._queue[0][0] <= end:
            self.now, _, action = heapq.heappop(self._queue)
            action()
            self.check_one_leader()
        self.now = end

    def spawn(self, node: Manager | Worker, process: Generator[Any, Any, None]) -> None:
        """Run a process of a node until that crashes. It yields a pause in ms, or a call to the database."""
        life = node.life

        def step(value: Any = None, error: Exception | None = None) -> None:
            if node.life != life:
                return
            try:
                wish = process.throw(error) if error is not None else process.send(value)
            except StopIteration:
                return
            if callable(wish):
                self.call(node.name, wish, step)
            else:
                self.after(int(wish), step)

        self.after(0, step)

    # ---------------------------------------------------------------------------------------------------------- network
    def delay(self) -> int:
        """Return how long a message takes: mostly little, sometimes much longer than anybody waits."""
        if not self.calm and self.rng.random() < 0.03:
            return self.rng.randint(50, 900)
        return self.rng.randint(1, 8)

    def lost(self, a: str, b: str) -> bool:
        return (a, b) in self.cut or (not self.calm and self.rng.random() < 0.02)

    def call(self, node: str, work: Callable[[], Any], done: Callable[..., None]) -> None:
        """Have the database do something; a caller that does not hear of it gives up. It may be done all the same."""
        open_call = [True]

        def finish(value: Any = None, error: Exception | None = None) -> None:
            if open_call[0]:
                open_call[0] = False
                done(value, error)

        def arrive() -> None:
            if self.database.up:
                value = work()
                if not self.lost(node, "database"):
                    self.after(self.delay(), lambda: finish(value))

        if not self.lost(node, "database"):
            self.after(self.delay(), arrive)
        self.after(1_000, lambda: finish(error=Unreachable()))

    def post(self, worker: Worker, name: str, report: Any) -> None:
        """Carry a heartbeat to the manager that the worker takes for the leader, and the answer back."""
        manager, life = self.managers[name], worker.life

        def arrive() -> None:
            if not manager.alive:
                return
            for instruction in manager.handle(WorkerHeartbeat(report)):
                if isinstance(instruction, AnswerHeartbeat | RedirectHeartbeat) and not self.lost(
                    worker.name, manager.name
                ):
                    self.after(self.delay(), lambda answer=instruction: back(answer))

        def back(answer: Instruction) -> None:
            if worker.life == life:
                worker.answered(manager.name, answer)

        if not self.lost(worker.name, manager.name):
            self.after(self.delay(), arrive)

    def ask(self, worker: Worker, name: str) -> None:
        """Carry the question who leads to a manager, and back if it says that it does."""
        manager, life = self.managers[name], worker.life

        def arrive() -> None:
            term = manager.state.term
            if manager.alive and term is not None and manager.state.leads(manager.steady()):
                self.after(self.delay(), lambda: back(term))

        def back(term: int) -> None:
            if worker.life == life and not self.lost(worker.name, name):
                worker.claimed(name, term)

        if not self.lost(worker.name, name):
            self.after(self.delay(), arrive)

    def probe(self, manager: Manager, order: ProbeWorker) -> None:
        """Connect to a worker's address twice, as a manager does who misses a heartbeat of it."""
        worker, life = self.workers[order.url.removeprefix("http://")], manager.life

        def look(again: bool) -> None:
            refused = self.is_refused(worker, manager)
            if refused and again:
                self.after(30, lambda: look(False))
            elif refused:
                self.after(self.delay(), tell)

        def tell() -> None:
            if manager.life == life:
                manager.handle(WorkerGone(order.id, order.incarnation, order.sequence))

        self.after(self.delay(), lambda: look(True))

    def is_refused(self, worker: Worker, manager: Manager) -> bool:
        """Whether the worker's host answers that nobody listens; a host that cannot be reached does not answer."""
        return not worker.alive and not self.lost(worker.name, manager.name)

    # ----------------------------------------------------------------------------------------------------------- checks
    def check_instructions(self, manager: Manager, out: list[Instruction], now_ms: int) -> None:
        """Two leaders in one term, or a standby that instructs."""
        harmless = RedirectHeartbeat | Refuse | Announce | ProbeWorker
        for instruction in out:
            if isinstance(instruction, harmless):
                continue
            if not manager.state.leads(now_ms):
                raise Violation(f"{manager.name} does not lead but instructs: {instruction}")
            term = instruction.term
            if self.acted.setdefault(term, manager.name) != manager.name:
                raise Violation(f"{manager.name} and {self.acted[term]} act in term {term}")

    def check_one_leader(self) -> None:
        leading = [m.name for m in self.managers.values() if m.alive and m.state.leads(m.steady())]
        if len(leading) > 1:
            raise Violation(f"{leading} lead at the same time")

    def check_runs_once(self, name: str) -> None:
        runs = [w.name for w in self.workers.values() if name in w.queries and w.queries[name].report.state.alive]
        if len(runs) > 1:
            raise Violation(f"{name} runs on {runs} at the same time")
        receivers = [w.name for w in self.workers.values() if w.receiver]
        if runs and (runs[0] in receivers) is not ("-passthrough-" in name):
            raise Violation(f"{name} runs on {runs}, but {receivers} are the receivers")

    def leader(self) -> Manager | None:
        return next((m for m in self.managers.values() if m.alive and m.state.leads(m.steady())), None)

    # -------------------------------------------------------------------------------------------------- what may happen
    def deploy(self, app: str, text: int) -> None:
        leader = self.leader()
        if leader is not None:
            leader.handle(DeployRequested(Deployment(app, str(text), assignments=assignments(app, text))))

    def undeploy(self, app: str) -> None:
        leader = self.leader()
        if leader is not None:
            leader.handle(UndeployRequested(app))

    def cordon(self, worker: str, drain: bool | None) -> None:
        leader = self.leader()
        if leader is not None:
            leader.handle(CordonRequested(worker, drain))

    def toggle(self, node: Manager | Worker) -> None:
        """Crash a node that is alive, start one that is not."""
        if node.alive:
            node.crash()
        else:
            node.start()

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

    def heal(self) -> None:
        """End all faults."""
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
        self.advance(6_000)
        leader = self.leader()
        if leader is None:
            raise Violation("nobody leads though nothing is wrong")
        if leader.state.placing.cordons:
            self.check_drained(leader)
            for worker in dict(leader.state.placing.cordons):
                leader.handle(CordonRequested(worker, None))
            self.advance(4_000)
        statuses = deployment_statuses(leader.state, leader.steady())
        for status in statuses:
            receivers = any(w.receiver for w in self.workers.values())
            for group in status.groups:
                if group.state is not DeploymentState.RUNNING and (receivers or not group.receiver):
                    raise Violation(f"{group.app_name} is {group.state.value}: {group.reason}")
        wanted = {a.name for s in statuses for a in assignments(s.name, int(s.text)) if self._can_run(a)}
        runs = {n for w in self.workers.values() for n, q in w.queries.items() if q.report.state.alive}
        if runs != wanted:
            raise Violation(f"wanted {sorted(wanted)}, but {sorted(runs)} run")
        if {s.name for s in statuses} != set(self.database.rows):
            raise Violation("the database does not have what the leader has")
        ordinary = [w for w in self.workers.values() if w.alive and not w.receiver]
        loads = [sum(q.report.state.alive for q in w.queries.values()) for w in ordinary]
        if max(loads) - min(loads) > 1:
            raise Violation(f"load is uneven: {loads}")

    def check_drained(self, leader: Manager) -> None:
        """Workers that are drained give up everything while there is another, and it goes on running."""
        cordons = dict(leader.state.placing.cordons)
        if cordons != self.database.cordons:
            raise Violation(f"{self.database.cordons} is stored, but {cordons} is in force")
        if all(w.name in cordons for w in self.workers.values() if w.alive and not w.receiver):
            return
        drained = [w for w in self.workers.values() if w.alive and not w.receiver and cordons.get(w.name, False)]
        left = 40
        while any(w.queries for w in drained):
            self.advance(500)
            left -= 1
            if not left:
                raise Violation(f"drained workers still run {[list(w.queries) for w in drained]}")

    def _can_run(self, assignment: Assignment) -> bool:
        return not assignment.receiver or any(w.receiver for w in self.workers.values())


def troubled_workers(world: World, rounds: int = 6) -> None:
    """Let workers be cut off from all managers, or end and come back while they are probed; it must recover."""
    world.advance(1_500)
    world.deploy("Alpha", 1)
    for _ in range(rounds):
        world.calm = False
        world.advance(800)
        worker = world.rng.choice([w for w in world.workers.values() if w.name != "twin"])
        if world.rng.random() < 0.5:
            links = {(worker.name, manager) for manager in world.managers}
            world.cut |= links
            world.advance(world.rng.randint(150, 900))
            world.cut -= links
        else:
            worker.crash()
            world.advance(world.rng.randint(100, 260))
            worker.start()
    world.check_recovers()


def random_schedule(world: World, steps: int = 25) -> None:
    """Let a random sequence of faults and wishes happen to a world, then see that it recovers."""
    rng = world.rng
    things: list[Callable[[], None]] = [
        lambda: world.deploy(rng.choice(APPS), rng.randint(1, 4)),
        lambda: world.deploy(rng.choice(APPS), rng.randint(1, 4)),
        lambda: world.undeploy(rng.choice(APPS)),
        lambda: world.toggle(rng.choice(list(world.managers.values()))),
        lambda: world.toggle(world.leader() or rng.choice(list(world.managers.values()))),
        lambda: world.toggle(rng.choice(list(world.workers.values()))),
        lambda: world.toggle_link(*rng.choice(world.links())),
        lambda: world.leave(rng.choice(list(world.workers.values()))),
        lambda: setattr(world.database, "up", not world.database.up),
        lambda: world.cordon(rng.choice(list(world.workers)), rng.choice((True, False, None))),
        world.fail_group,
        world.heal,
    ]
    world.advance(300)
    for app in APPS:
        world.deploy(app, 1)
    world.advance(400)
    for _ in range(steps):
        rng.choice(things)()
        world.calm = False
        world.advance(rng.choice((10, 50, 150, 400, 900)))
    world.check_recovers()
