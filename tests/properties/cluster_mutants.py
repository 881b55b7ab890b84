"""Deliberate defects of the cluster: each lacks one rule of the protocol, and must be caught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from spdist.cluster.elections.election import LeaderRow, Lease
from spdist.cluster.leader.instances import RestartPolicy
from spdist.cluster.leader.members import Members
from spdist.cluster.leader.state import ManagerState
from spdist.cluster.protocol.messages import (
    AnswerHeartbeat,
    Elected,
    Instruction,
    LeaseRenewed,
    WorkerReport,
    WorkerTiming,
)
from spdist.cluster.workers.state import WorkerState
from tests.properties.cluster_simulation import World
from tests.properties.simulated_nodes import ELECTION, WORKERS, Manager, Worker, with_roster

__all__ = ["MUTANTS"]

POLICY = RestartPolicy(max_restarts=1000, first_delay_ms=50, max_delay_ms=200)


def with_members(name: str, kind: type[Members]) -> ManagerState:
    """Return a mind that keeps its workers in another way."""

    class Altered(ManagerState):
        def _clear(self) -> None:
            super()._clear()
            self.members.__class__ = kind

    return Altered(name, WORKERS, restarts=POLICY)


class AnySwap(World):
    """The leader row is replaced without looking whether it still is what was read."""

    def try_acquire(self, expected: LeaderRow | None, node: str) -> int | None:
        self.database.leader = expected
        return self.database.try_acquire(expected, node)


class LeaseWithoutEnd(World):
    """A leader acts until somebody tells it otherwise."""

    def grant(self, term: int, sent_ms: int, received_ms: int) -> Lease:
        return Lease(term, 2**62)


class LeaseFromAnswer(World):
    """The lease is counted from when the answer came."""

    def grant(self, term: int, sent_ms: int, received_ms: int) -> Lease:
        return Lease.granted(term, received_ms, ELECTION)


class HastyTiming(WorkerTiming):
    """Times that `WorkerTiming` refuses: workers are removed before they have stopped by themselves."""

    def __post_init__(self) -> None:
        pass


HASTY = HastyTiming(
    WORKERS.heartbeat_interval_ms, WORKERS.fence_after_ms, WORKERS.fence_after_ms - 100, WORKERS.margin_ms
)


class RemovesTooSoon(World):
    """Groups go to another worker before the silent one has stopped by itself."""

    def make_manager(self, name: str) -> ManagerState:
        return ManagerState(name, HASTY, restarts=POLICY)


class TakesOverAtOnce(World):
    """A new leader starts what nobody has reported yet without waiting for those that have not reported."""

    def make_manager(self, name: str) -> ManagerState:
        class Impatient(ManagerState):
            def _on_elected(self, event: Elected) -> list[Instruction]:
                out = super()._on_elected(event)
                self.deployments.held_until_ms.clear()
                return out

        return Impatient(name, WORKERS, restarts=POLICY)


class MovesAtOnce(World):
    """A group is given to its new worker before the old one has reported it gone."""

    def make_manager(self, name: str) -> ManagerState:
        class Blind(Members):
            def elsewhere(self, name: str, id: str) -> str | None:
                return None

        return with_members(name, Blind)


class NeverStopsItself(World):
    """A worker that hears of no leader goes on."""

    def make_worker(self, name: str, url: str, receiver: bool, incarnation: str) -> WorkerState:
        class Stubborn(WorkerState):
            def _is_due(self, now_ms: int) -> bool:
                return False

        return Stubborn(name, url, receiver, incarnation)


class ForgetsCordons(World):
    """A new leader gives work to workers that were cordoned under the one before."""

    def make_manager(self, name: str) -> ManagerState:
        class Forgetting(ManagerState):
            def _on_elected(self, event: Elected) -> list[Instruction]:
                return super()._on_elected(replace(event, cordons={}))

        return Forgetting(name, WORKERS, restarts=POLICY)


class TakesReceiversForWorkers(World):
    """Receivers are given what others should run, and nobody what they should."""

    def make_manager(self, name: str) -> ManagerState:
        class Alike(ManagerState):
            def _on_heartbeat(self, report: WorkerReport) -> list[Instruction]:
                return super()._on_heartbeat(replace(report, is_receiver=False))

        return Alike(name, WORKERS, restarts=POLICY)


class TakesSilenceForDeath(World):
    """A worker that does not answer a probe is taken for one that is gone."""

    def is_refused(self, worker: Worker, manager: Manager) -> bool:
        return not worker.alive or self.lost(worker.name, manager.name)


class Unlisted(World):
    """A worker is given groups before it stands on the list."""

    def make_manager(self, name: str) -> ManagerState:
        return with_roster(name, POLICY, covers=lambda roster, report: True)


class AnyList(World):
    """A new leader believes a list that another term than the one before has written."""

    def known_workers(self, term: int) -> Mapping[str, str]:
        return self.database.workers


class Sleepy(World):
    """Steady clocks do not count the time for which a machine stood still."""

    kind: type[Manager] | type[Worker]

    def __post_init__(self) -> None:
        self._slept = Counter[str]()
        super().__post_init__()

    def clock_of(self, node: str) -> int:
        return super().clock_of(node) - self._slept[node]

    def stand_still(self, node: Manager | Worker, for_ms: int) -> None:
        if isinstance(node, self.kind) and node.alive and node.still_until <= self.now:
            self._slept[node.name] += for_ms
        super().stand_still(node, for_ms)


class SleepyManagers(Sleepy):
    """A leader that stood still believes in its old lease when it wakes up."""

    kind = Manager


class SleepyWorkers(Sleepy):
    """A worker that stood still believes that its fence lies ahead when it wakes up."""

    kind = Worker


class AnswersBeforeFences(World):
    """A worker that stood still is answered before it looks at its fence, and goes on."""

    def make_worker(self, name: str, url: str, receiver: bool, incarnation: str) -> WorkerState:
        class Saved(WorkerState):
            def on_answer(self, answer: AnswerHeartbeat, now_ms: int) -> bool:
                obeyed = super().on_answer(answer, now_ms)
                self._outlived = False
                return obeyed

        return Saved(name, url, receiver, incarnation)


class HearsOvertakenHeartbeats(World):
    """A heartbeat counts though a later one of the same process has come before it."""

    def make_manager(self, name: str) -> ManagerState:
        class Alike(Members):
            def overtaken(self, report: WorkerReport) -> bool:
                return False

        return with_members(name, Alike)


class HearsFormerProcesses(World):
    """A heartbeat counts though it is of a process that another one with that id has replaced."""

    def make_manager(self, name: str) -> ManagerState:
        class Alike(Members):
            def objection(self, report: WorkerReport) -> str:
                return ""

        return with_members(name, Alike)


class LeadsAgainWhenRenewed(World):
    """A leadership that is over goes on when its lease is renewed."""

    def make_manager(self, name: str) -> ManagerState:
        class Revived(ManagerState):
            def _on_lease_renewed(self, event: LeaseRenewed) -> list[Instruction]:
                self.lease = event.lease
                return []

        return Revived(name, WORKERS, restarts=POLICY)


class LeasesByWallClock(World):
    """Leases and fences follow clocks that jump."""

    def clock_of(self, node: str) -> int:
        return super().clock_of(node) + (self.jumped[node] if node != "database" else 0)


class WritesOfAnyTerm(World):
    """The database lets a leader write that has been succeeded."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.database.has = lambda term, node: True  # type: ignore[method-assign]


class ForgetsWhatRuns(World):
    """The row of an undeployed app is deleted while its groups still run."""

    def make_manager(self, name: str) -> ManagerState:
        class Alike(Members):
            def running_app(self, app: str) -> bool:
                return False

        return with_members(name, Alike)


#: Each with a seed near which a schedule is that it does not survive; `make chaos-sim` begins with 0.
MUTANTS: dict[type[World], int] = {
    AnySwap: 0,
    LeaseWithoutEnd: 0,
    LeaseFromAnswer: 8,
    RemovesTooSoon: 0,
    TakesOverAtOnce: 0,
    MovesAtOnce: 0,
    NeverStopsItself: 50,
    ForgetsCordons: 0,
    TakesReceiversForWorkers: 0,
    TakesSilenceForDeath: 203,
    Unlisted: 713,
    AnyList: 145,
    SleepyManagers: 0,
    SleepyWorkers: 126,
    AnswersBeforeFences: 126,
    HearsOvertakenHeartbeats: 217,
    HearsFormerProcesses: 64,
    LeadsAgainWhenRenewed: 72,
    LeasesByWallClock: 27,
    WritesOfAnyTerm: 608,
    ForgetsWhatRuns: 0,
}
