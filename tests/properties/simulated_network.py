"""Virtual time and an unreliable network for a simulated cluster: whatever happens, happens in the order of a queue."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from spdist.cluster.protocol.messages import (
    AnswerHeartbeat,
    Instruction,
    ProbeWorker,
    RedirectHeartbeat,
    WorkerGone,
    WorkerHeartbeat,
)
from tests.properties.simulated_database import Database, Unreachable
from tests.properties.simulated_nodes import Manager, Node, Wait, Worker

__all__ = ["Network"]

#: How long a call to the database is waited for.
_CALL_MS = 1_000


@dataclass
class Network:
    """The time, the clocks of the nodes, and what carries their messages.

    Parameters
    ----------
    seed : int
        Of all delays, losses and clocks.
    now : int
        True time, ms.
    calm : bool
        Whether nothing gets lost or is late, except on links that are cut.
    cut : set of tuple of str and str
        Those links.
    late : float
        Which share of the messages comes much later than anybody waits for them.
    """

    seed: int
    now: int = 1_000_000
    calm: bool = False
    cut: set[tuple[str, str]] = field(default_factory=set)
    late: float = 0.03

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self._queue: list[tuple[int, int, Callable[[], None], Node | None]] = []
        self._ids = itertools.count()
        self._clocks: dict[str, tuple[int, float]] = {}
        self.database: Database
        self.managers: dict[str, Manager] = {}
        self.workers: dict[str, Worker] = {}

    # ------------------------------------------------------------------------------------------------------------- time
    def clock_of(self, node: str) -> int:
        """Return a node's steady clock: off by up to an hour, and up to 2 % fast or slow."""
        clock = self._clocks.get(node)
        if clock is None:
            clock = self._clocks[node] = self.between(0, 7_200_000), self.rng.uniform(0.98, 1.02)
        return clock[0] + int(self.now * clock[1])

    def between(self, least: int, most: int) -> int:
        """Return a random whole number; `random.Random.randint` would be three times as slow."""
        return least + int(self.rng.random() * (most - least + 1))

    def after(self, delay_ms: int, action: Callable[[], None], node: Node | None = None) -> None:
        """Let something happen later; what happens at a `node` waits while that stands still."""
        heapq.heappush(self._queue, (self.now + delay_ms, next(self._ids), action, node))

    def advance(self, by_ms: int) -> None:
        """Let everything happen that is due in the next `by_ms`."""
        end = self.now + by_ms
        while self._queue and self._queue[0][0] <= end:
            self.now, _, action, node = heapq.heappop(self._queue)
            if node is not None and node.still_until > self.now:
                self.after(node.still_until - self.now, action, node)
                continue
            action()
            self.check()
        self.now = end

    def check(self) -> None:
        """Raise `Violation` if there is what must not be: after each thing that has happened."""
        raise NotImplementedError

    def spawn(self, node: Node, process: Generator[Any, Any, None]) -> None:
        """Run a process of a node until that crashes. It yields a pause in ms, a `Wait`, or a call to the database."""
        life = node.life

        def step(value: Any = None, error: Exception | None = None) -> None:
            if node.life != life:
                return
            try:
                wish = process.throw(error) if error is not None else process.send(value)
            except StopIteration:
                return
            if isinstance(wish, int):
                self.after(wish, step, node)
            elif isinstance(wish, Wait):
                wish.ends = step
                node.waits[wish.for_what] = wish
                self.after(wish.at_most_ms, wish.end, node)
            else:
                self.call(node, wish, step)

        self.after(0, step, node)

    def delay(self) -> int:
        """Return how long a message takes: mostly little, sometimes much longer than anybody waits."""
        if not self.calm and self.rng.random() < self.late:
            return self.between(50, 900)
        return self.between(1, 8)

    def lost(self, a: str, b: str) -> bool:
        return (a, b) in self.cut or (not self.calm and self.rng.random() < 0.02)

    def call(self, node: Node, work: Callable[[], Any], done: Callable[..., None]) -> None:
        """Have the database do something; a caller that does not hear of it gives up. It may be done all the same."""
        gives_up = self.now + _CALL_MS

        def give_up() -> None:
            done(error=Unreachable())

        def arrive() -> None:
            back = gives_up
            if self.database.up:
                value = work()
                if not self.lost(node.name, "database"):
                    back = self.now + self.delay()
            if back < gives_up:
                self.after(back - self.now, lambda: done(value), node)
            else:
                self.after(max(0, gives_up - self.now), give_up, node)

        if self.lost(node.name, "database"):
            self.after(_CALL_MS, give_up, node)
        else:
            self.after(self.delay(), arrive)

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
                    self.after(self.delay(), partial(back, instruction), worker)

        def back(answer: Instruction) -> None:
            if worker.life == life:
                worker.answered(manager.name, answer)

        if not self.lost(worker.name, manager.name):
            self.after(self.delay(), arrive, manager)

    def ask(self, worker: Worker, name: str) -> None:
        """Carry the question who leads to a manager, and back if it says that it does."""
        manager, life = self.managers[name], worker.life

        def arrive() -> None:
            term = manager.state.term
            if manager.alive and term is not None and manager.state.leads(manager.steady()):
                self.after(self.delay(), partial(back, term), worker)

        def back(term: int) -> None:
            if worker.life == life and not self.lost(worker.name, name):
                worker.claimed(name, term)

        if manager.alive and not self.lost(worker.name, name):
            self.after(self.delay(), arrive, manager)

    def probe(self, manager: Manager, order: ProbeWorker) -> None:
        """Connect to a worker's address twice, as a manager does who misses a heartbeat of it."""
        worker, life = self.workers[order.url.removeprefix("http://")], manager.life

        def look(again: bool) -> None:
            refused = self.is_refused(worker, manager)
            if refused and again:
                self.after(30, lambda: look(False), manager)
            elif refused:
                self.after(self.delay(), tell, manager)

        def tell() -> None:
            if manager.life == life:
                manager.handle(WorkerGone(order.id, order.incarnation, order.sequence))

        self.after(self.delay(), lambda: look(True), manager)

    def is_refused(self, worker: Worker, manager: Manager) -> bool:
        """Whether the worker's host answers that nobody listens."""
        raise NotImplementedError
