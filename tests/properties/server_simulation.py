"""Servers of type ha in virtual time: real elections, leases and fences, with everything around them unreliable.

What must never happen is that two of them are active at one moment: that the fences of both lie ahead. Whoever is not
active any more has ended what it runs a moment later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any

from spdist.cluster.elections.election import LeaderRow, Lease
from spdist.cluster.elections.leadership import Leadership
from spdist.cluster.leader.instances import RestartPolicy
from spdist.cluster.protocol.messages import (
    AnswerHeartbeat,
    Deposed,
    Elected,
    Event,
    Instruction,
    LeaderSeen,
    LeaseRenewed,
    WorkerReport,
)
from spdist.cluster.servers.own_leader import OwnLeader
from spdist.cluster.workers.state import WorkerState
from spdist.planning.topology import Assignment
from tests.properties.simulated_database import Database
from tests.properties.simulated_network import Network
from tests.properties.simulated_nodes import ELECTION, LOOK_MS, WORKERS, Elector, Violation, Wait, Worker

__all__ = ["MUTANTS", "Servers", "run_schedule"]

APPS = ("Alpha", "Beta")
#: How often a server answers itself at most, and at least.
_BREATH_MS, _BEAT_MS = 6, 60
#: How long what runs may outlive the fence: until it is looked at, and a kill.
_ENDS_MS = LOOK_MS + WORKERS.margin_ms // 2 + 10
#: Everything must run within that after the last fault.
_RECOVERS_WITHIN_MS = 6_000


class Server(Worker, Elector):
    """A server: groups like a worker's, an election like a manager's, and its own leader between them."""

    def __init__(self, world: Servers, name: str) -> None:
        super().__init__(world, name, False, name)
        self.servers = world
        self.lease: Lease | None = None

    def start(self) -> None:
        self.lease = None
        self.leadership = Leadership(changed=lambda: self.wake("beat"))
        self.own = OwnLeader(self.name, _BEAT_MS, RestartPolicy(max_restarts=1000, first_delay_ms=50))
        for app in APPS:
            self.own.deploy(app, Assignment(app, app, app, app, False, (), ()))
        super().start()
        self.world.spawn(self, self.elections())

    def handle(self, event: Event) -> list[Instruction]:
        if not isinstance(event, Deposed):
            assert isinstance(event, Elected | LeaseRenewed | LeaderSeen)
            self.leadership.tell(event)
        return []

    def begin(self, term: int) -> Generator[Any, Any, None]:
        yield self.world.between(0, 30)  # the directory is looked at
        assert self.lease is not None
        self.handle(Elected(self.lease, ()))

    def heartbeats(self) -> Generator[Any, Any, None]:
        """Answer itself again and again; the machine may stand still between any two steps."""
        while True:
            lease = self.leadership.lease(self.steady())
            if lease is None:
                self.state.end_now(self.steady())
                self.wake("look")
            else:
                report = self.state.next_report(self.reports(), self.steady())
                yield self.world.between(0, 3)
                if (answer := self.servers.answer(self, report, self.steady(), lease)) is not None:
                    yield self.world.between(0, 3)
                    self.state.on_answer(answer, self.steady())
                    self.wake("look")
            yield _BREATH_MS
            yield Wait("beat", _BEAT_MS)

    @property
    def fence_ms(self) -> int | None:
        """How far ahead the fence lies; None where this server was never active."""
        fence_at_ms = self.state.fence_at_ms
        return None if fence_at_ms is None else fence_at_ms - self.steady()


@dataclass
class Servers(Network):
    """Servers of one group. Mutants are worlds with another `grant`, `try_acquire` or `answer`.

    Parameters
    ----------
    count : int
        How many there are.
    """

    count: int = 2
    acted: set[int] = field(default_factory=set)
    #: what was done to them
    tried: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.database = Database(lambda: self.clock_of("database"), lambda app: None)
        self.servers = {f"server-{number + 1}": Server(self, f"server-{number + 1}") for number in range(self.count)}
        for server in self.servers.values():
            server.start()

    # --------------------------------------------------------------------------------------------- what mutants replace
    def grant(self, term: int, sent_ms: int, received_ms: int) -> Lease:
        return Lease.granted(term, sent_ms, ELECTION)

    def try_acquire(self, expected: LeaderRow | None, node: str) -> int | None:
        return self.database.try_acquire(expected, node)

    def answer(self, server: Server, report: WorkerReport, now_ms: int, lease: Lease) -> AnswerHeartbeat | None:
        return server.own.answer(report, now_ms, lease) if lease.valid(now_ms) else None

    def make_worker(self, name: str, url: str, receiver: bool, incarnation: str) -> WorkerState:
        return WorkerState(name, url, receiver, incarnation)

    # ----------------------------------------------------------------------------------------------------------- checks
    def check(self) -> None:
        """Two active servers at the same time."""
        active = self.active()
        if len(active) > 1:
            raise Violation(f"{[one.name for one in active]} are active at the same time")
        self.acted.update(one.state.known_term for one in active)

    def active(self) -> list[Server]:
        return [one for one in self.servers.values() if one.alive and (one.fence_ms or 0) > 0]

    def check_runs_once(self, name: str) -> None:
        """Groups that outlive the fence of their server; one that has just woken up needs a moment to see it."""
        for one in self.servers.values():
            late = one.fence_ms is not None and one.fence_ms < -_ENDS_MS
            runs = name in one.queries and one.queries[name].report.state.alive
            if late and runs and one.excused_until <= self.now:
                raise Violation(f"{name} runs on {one.name}, whose fence was due {-(one.fence_ms or 0)} ms ago")

    # -------------------------------------------------------------------------------------------------- what may happen
    def toggle(self, server: Server) -> None:
        """Kill a server that is alive, start one that is not."""
        if server.alive:
            server.crash()
        else:
            server.start()

    def end(self, server: Server) -> None:
        """Let a server end as one that is shut down: its row expires with it."""
        row = self.database.leader
        server.crash()
        if row is not None and row.node_id == server.name:
            self.database.leader = replace(row, last_heartbeat=0)

    def stand_still(self, server: Server, for_ms: int) -> None:
        """Let a machine do nothing for a while; its clock goes on."""
        if server.alive and server.still_until <= self.now:
            server.still_until = self.now + for_ms
            server.excused_until = server.still_until + _ENDS_MS

    def heal(self) -> None:
        """End all faults; machines that stand still wake up by themselves."""
        self.calm, self.database.up, self.cut = True, True, set()
        for server in self.servers.values():
            if not server.alive:
                server.start()

    def check_recovers(self) -> None:
        """After all faults have ended one server runs everything, and goes on."""
        self.heal()
        end = self.now + _RECOVERS_WITHIN_MS
        looks = 0
        while looks < 3:
            self.advance(150)
            looks = looks + 1 if self.well() else 0
            if self.now > end:
                raise Violation(f"active are {[one.name for one in self.active()]}, and not all runs there")

    def well(self) -> bool:
        active = self.active()
        return len(active) == 1 and all(
            {name for name, query in one.queries.items() if query.report.state.alive}
            == (set(APPS) if one in active else set())
            for one in self.servers.values()
        )


def run_schedule(kind: type[Servers], seed: int, steps: int = 12) -> Servers:
    """Let a random sequence of faults happen to two or three servers, then see that they recover."""
    world = kind(seed, count=2 + seed % 2)
    rng, servers = world.rng, list(world.servers.values())

    def active() -> Server:
        return (world.active() or servers)[0]

    def links() -> list[tuple[str, str]]:
        return [(name, "database") for name in world.servers]

    things: list[tuple[str, Callable[[], None]]] = [
        ("server is killed or starts", lambda: world.toggle(rng.choice(servers))),
        ("active server is killed", lambda: world.toggle(active())),
        ("active server is stopped", lambda: world.end(active())),
        ("active server stands still", lambda: world.stand_still(active(), rng.randint(50, 1_500))),
        ("server stands still", lambda: world.stand_still(rng.choice(servers), rng.randint(50, 1_500))),
        ("database is lost or back", lambda: setattr(world.database, "up", not world.database.up)),
        ("link is cut or mended", lambda: world.cut.__ixor__({rng.choice(links())})),
        ("active server is cut off", lambda: world.cut.add((active().name, "database"))),
        ("faults end", world.heal),
        ("faults end", world.heal),
    ]
    world.late = rng.choice((0.03, 0.03, 0.2))
    world.advance(400)
    for _ in range(steps):
        name, thing = rng.choice(things)
        world.tried[name] += 1
        thing()
        world.calm = False
        world.advance(rng.choice((10, 50, 150, 400, 900)))
        for app in APPS:
            world.check_runs_once(app)
    world.check_recovers()
    return world


# -------------------------------------------------------------------------------------------------------------- mutants
class AnySwap(Servers):
    """The leader row is replaced without looking whether it still is what was read."""

    def try_acquire(self, expected: LeaderRow | None, node: str) -> int | None:
        self.database.leader = expected
        return self.database.try_acquire(expected, node)


class LeaseFromAnswer(Servers):
    """The lease is counted from when the answer came."""

    def grant(self, term: int, sent_ms: int, received_ms: int) -> Lease:
        return Lease.granted(term, received_ms, ELECTION)


class FenceAfterLease(Servers):
    """What is answered imposes a fence later than the end of the lease."""

    def answer(self, server: Server, report: WorkerReport, now_ms: int, lease: Lease) -> AnswerHeartbeat | None:
        return super().answer(server, report, now_ms, Lease(lease.term, lease.until_ms + ELECTION.max_age_ms // 2))


class AnswersWithoutLease(Servers):
    """A server that stood still answers itself by the lease that it had before."""

    def answer(self, server: Server, report: WorkerReport, now_ms: int, lease: Lease) -> AnswerHeartbeat | None:
        return server.own.answer(report, now_ms, Lease(lease.term, max(lease.until_ms, now_ms + ELECTION.lease_ms)))


class NeverStopsItself(Servers):
    """A server whose lease has ended goes on with what it runs."""

    def make_worker(self, name: str, url: str, receiver: bool, incarnation: str) -> WorkerState:
        class Stubborn(WorkerState):
            def _is_due(self, now_ms: int) -> bool:
                return False

        return Stubborn(name, url, receiver, incarnation)


class SleepyServers(Servers):
    """Steady clocks do not count the time for which a machine stood still."""

    def __post_init__(self) -> None:
        self._slept = Counter[str]()
        super().__post_init__()

    def clock_of(self, node: str) -> int:
        return super().clock_of(node) - self._slept[node]

    def stand_still(self, server: Server, for_ms: int) -> None:
        if server.alive and server.still_until <= self.now:
            self._slept[server.name] += for_ms
        super().stand_still(server, for_ms)


#: Each must be caught by random schedules.
MUTANTS = (AnySwap, LeaseFromAnswer, FenceAfterLease, AnswersWithoutLease, NeverStopsItself, SleepyServers)
