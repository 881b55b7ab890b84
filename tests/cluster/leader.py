"""A `ManagerState` with short words around it, for the tests of the state: invariants are checked after every event."""

from __future__ import annotations

from typing import Any, TypeVar

from spdist.cluster.elections.election import Lease
from spdist.cluster.leader.instances import RestartPolicy
from spdist.cluster.leader.state import ManagerState
from spdist.cluster.protocol.messages import (
    Announce,
    AnswerHeartbeat,
    AppVersion,
    DeploymentSaved,
    DeployRequested,
    Elected,
    Event,
    GroupPhase,
    GroupReport,
    Instruction,
    SaveDeployment,
    SaveWorkers,
    Tick,
    UndeployRequested,
    WorkerHeartbeat,
    WorkerReport,
    WorkersSaved,
    WorkerTiming,
    fingerprint,
)
from spdist.planning.topology import Assignment

T = TypeVar("T")

TIMING = WorkerTiming.from_config(heartbeat_interval_ms=1_000, heartbeat_max_retry=2)
FOREVER = 10**12


def assignment(name: str, text: str = "text", *, receiver: bool = False) -> Assignment:
    """Return an assignment for an instance named ``App-group-i``."""
    app, group, _ = name.split("-")
    return Assignment(name, app, f"{app}-{group}", text, False, (), (), receiver)


def app(name: str, *groups: Assignment | str, **fields: Any) -> AppVersion:
    """Return a deployment of the given instances: assignments, or names of such."""
    made = tuple(g if isinstance(g, Assignment) else assignment(g) for g in groups)
    return AppVersion(name, f"text of {name}", assignments=made, **fields)


def seen(
    group: Assignment | str, state: GroupPhase = GroupPhase.RUNNING, error: str = "", version: str | None = None
) -> GroupReport:
    """Return what a worker reports of an instance."""
    of = group if isinstance(group, Assignment) else assignment(group)
    return GroupReport(of.name, of.app, state, version or fingerprint(of), error)


class Leader:
    """A manager and the time. ``elect`` it first."""

    def __init__(self, min_resource_count: int = 1, **options: Any) -> None:
        options.setdefault("restarts", RestartPolicy(max_restarts=2, first_delay_ms=1_000, max_delay_ms=60_000))
        self.state = ManagerState("manager-1", TIMING, min_resource_count, **options)
        self.now = 1_000_000
        self._sequences: dict[str, int] = {}
        #: the list of workers in the database
        self.written: dict[str, str] = {}

    def handle(self, event: Event) -> list[Instruction]:
        """Hand in an event, with a database that writes lists of workers; return what else is to be done."""
        out = self.state.handle(event, self.now)
        self.state.check_invariants()
        for order in out:
            if isinstance(order, SaveWorkers):
                self.written = dict(order.workers)
                self.state.handle(WorkersSaved(order.term, order.version), self.now)
        return [instruction for instruction in out if not isinstance(instruction, SaveWorkers)]

    def elect(
        self, *deployments: AppVersion, term: int = 1, until_ms: int = FOREVER, workers: dict[str, str] | None = None
    ) -> list[Instruction]:
        return self.handle(Elected(Lease(term, until_ms), deployments, workers))

    def pass_time(self, ms: int) -> list[Instruction]:
        self.now += ms
        return self.handle(Tick())

    def settle(self) -> list[Instruction]:
        """Let the time pass after which groups may be moved to even out the load (no worker is silent in between)."""
        for member in self.state.members:
            member.heard_ms += TIMING.remove_after_ms
        return self.pass_time(TIMING.remove_after_ms)

    def give_up_one_of_two(self) -> None:
        """Deploy A-g-1 and A-g-2 on w1; w2 has come since, and w1 is to stop one of them, but has not heard of it."""
        self.told("w1")
        self.deploy(app("A", "A-g-1", "A-g-2"))
        self.told("w1")
        self.told("w2")
        self.settle()

    def deploy(self, deployment: AppVersion) -> list[Instruction]:
        """Deploy, with a database that accepts it at once."""
        order = only(self.handle(DeployRequested(deployment)), SaveDeployment)
        return self.handle(DeploymentSaved(order.deployment.name, order.deployment.version))

    def undeploy(self, name: str) -> list[Instruction]:
        order = only(self.handle(UndeployRequested(name)), SaveDeployment)
        return self.handle(DeploymentSaved(name, order.deployment.version))

    def report(self, worker: str, *groups: GroupReport | str, **fields: Any) -> WorkerReport:
        """Return the next heartbeat of a worker; names stand for groups that run."""
        sequence = self._sequences[worker] = self._sequences.get(worker, 0) + 1
        values: dict[str, Any] = {
            "id": worker,
            "url": f"http://{worker}",
            "is_receiver": worker.startswith("receiver"),
            "incarnation": f"{worker}-1",
            "sequence": sequence,
            "known_term": 0,
        }
        made = tuple(g if isinstance(g, GroupReport) else seen(g) for g in groups)
        return WorkerReport(**{**values, **fields}, groups=made)

    def beat(self, worker: str, *groups: GroupReport | str, **fields: Any) -> AnswerHeartbeat:
        """Send a heartbeat and return the leader's answer."""
        return only(self.handle(WorkerHeartbeat(self.report(worker, *groups, **fields))), AnswerHeartbeat)

    def told(self, worker: str, *groups: GroupReport | str, **fields: Any) -> list[str]:
        """Send a heartbeat and return the names of what the worker shall run."""
        return [a.name for a in self.beat(worker, *groups, **fields).assignments]


def only(instructions: list[Instruction], kind: type[T]) -> T:
    """Return the one instruction of a kind."""
    found = [i for i in instructions if isinstance(i, kind)]
    assert len(found) == 1, instructions
    return found[0]


def announced(instructions: list[Instruction]) -> list[str]:
    """Return the keys of what was announced."""
    return [i.event for i in instructions if isinstance(i, Announce)]
