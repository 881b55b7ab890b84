"""The cluster under faults: no group runs twice, no standby instructs, and everything runs once the faults have ended.

`cluster_simulation` lets real minds meet in virtual time. Hypothesis chooses what happens to them; every mutant, which
lacks one rule of the protocol, must be caught by schedules that the real cluster survives.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from spdist.cluster.election import LeaderRow, Lease
from spdist.cluster.instances import RestartPolicy
from spdist.cluster.members import Members
from spdist.cluster.messages import Elected, GroupReport, Instruction, WorkerReport, WorkerTiming
from spdist.cluster.state import ManagerState
from spdist.cluster.worker_state import WorkerInstruction, WorkerState
from tests.properties.cluster_simulation import APPS, World, random_schedule, troubled_workers
from tests.properties.simulated_nodes import ELECTION, WORKERS, Manager, Violation, Worker

SCHEDULES = 60


class Cluster(RuleBasedStateMachine):
    """Managers, workers, a database and a network, and what may happen to them."""

    @initialize(seed=st.integers(0, 2**32), managers=st.integers(2, 3), workers=st.integers(2, 4))
    def build(self, seed: int, managers: int, workers: int) -> None:
        self.world = World(seed, managers, workers)
        self.world.advance(300)

    @rule(ms=st.sampled_from([10, 50, 150, 400, 900]))
    def wait(self, ms: int) -> None:
        self.world.advance(ms)

    @rule(app=st.sampled_from(APPS), text=st.integers(1, 4))
    def deploy(self, app: str, text: int) -> None:
        self.world.deploy(app, text)

    @rule(app=st.sampled_from(APPS))
    def undeploy(self, app: str) -> None:
        self.world.undeploy(app)

    @rule(data=st.data())
    def crash_or_start_a_manager(self, data: st.DataObject) -> None:
        self.world.toggle(data.draw(st.sampled_from(list(self.world.managers.values()))))

    @rule()
    @precondition(lambda self: self.world.leader() is not None)
    def crash_the_leader(self) -> None:
        leader = self.world.leader()
        assert leader is not None
        self.world.toggle(leader)

    @rule(data=st.data())
    def crash_or_start_a_worker(self, data: st.DataObject) -> None:
        self.world.toggle(data.draw(st.sampled_from(list(self.world.workers.values()))))

    @rule(data=st.data())
    def shut_a_worker_down(self, data: st.DataObject) -> None:
        self.world.leave(data.draw(st.sampled_from(list(self.world.workers.values()))))

    @rule(data=st.data())
    def cut_or_mend_a_link(self, data: st.DataObject) -> None:
        self.world.toggle_link(*data.draw(st.sampled_from(self.world.links())))

    @rule()
    def lose_or_regain_the_database(self) -> None:
        self.world.database.up = not self.world.database.up

    @rule(data=st.data(), drain=st.sampled_from([True, False, None]))
    def cordon_or_drain_a_worker(self, data: st.DataObject, drain: bool | None) -> None:
        self.world.cordon(data.draw(st.sampled_from(list(self.world.workers))), drain)

    @rule()
    def fail_a_group(self) -> None:
        self.world.fail_group()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.check_recovers()


def test_no_group_runs_twice_and_everything_runs_in_the_end() -> None:
    run_state_machine_as_test(
        Cluster,
        settings=settings(
            max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def make_world(kind: type[World], seed: int) -> World:
    return kind(seed, managers_count=2 + seed % 2, workers_count=2 + seed % 3)


def test_random_schedules_do_what_they_are_for() -> None:
    """They find nothing in the real cluster, and there is something to be found in them."""
    terms = moved = 0
    for seed in range(SCHEDULES):
        world = make_world(World, seed)
        random_schedule(world)
        terms += len(world.acted)
        moved += sum(w.life for w in world.workers.values())
    assert terms > 3 * SCHEDULES
    assert moved > 3 * SCHEDULES


# ------------------------------------------------------------------------------------------------------------- mutants
POLICY = RestartPolicy(max_restarts=1000, first_delay_ms=50, max_delay_ms=200)


class AnySwap(World):
    """The leader row is replaced without looking whether it still is what was read."""

    def try_take(self, expected: LeaderRow | None, node: str) -> int | None:
        self.database.leader = expected
        return self.database.try_take(expected, node)


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

        class Mover(ManagerState):
            def _clear(self) -> None:
                super()._clear()
                self.members.__class__ = Blind

        return Mover(name, WORKERS, restarts=POLICY)


class NeverStopsItself(World):
    """A worker that hears of no leader goes on."""

    def make_worker(self, name: str, url: str, receiver: bool, incarnation: str) -> WorkerState:
        class Stubborn(WorkerState):
            def reconcile(self, observed: list[GroupReport], now_ms: int) -> list[WorkerInstruction]:
                return super().reconcile(observed, 0)

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


def test_probes_remove_workers_that_have_crashed_long_before_the_deadline() -> None:
    world = World(1, managers_count=2, workers_count=2, calm=True)
    world.advance(1_500)
    world.deploy("Alpha", 1)
    world.advance(1_000)
    world.workers["worker-1"].crash()
    world.advance(WORKERS.probe_after_ms + 260)
    assert set(world.workers["worker-2"].queries) >= {"Alpha-steady-1", "Alpha-steady-2"}


#: Each with a seed from which a schedule that it does not survive is not far; `make chaos-sim` starts from 0.
MUTANTS: dict[type[World], int] = {
    AnySwap: 0,
    LeaseWithoutEnd: 0,
    LeaseFromAnswer: 0,
    RemovesTooSoon: 0,
    TakesOverAtOnce: 0,
    MovesAtOnce: 0,
    NeverStopsItself: 0,
    ForgetsCordons: 300,
    TakesReceiversForWorkers: 0,
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.__name__)
def test_a_mutant_is_caught(mutant: type[World]) -> None:
    with pytest.raises(Violation):
        for seed in range(MUTANTS[mutant], MUTANTS[mutant] + SCHEDULES):
            random_schedule(make_world(mutant, seed))


def test_workers_that_are_cut_off_or_restarted_while_they_are_probed_run_nothing_twice() -> None:
    for seed in range(SCHEDULES // 2):
        troubled_workers(make_world(World, seed))


def test_a_mutant_that_removes_workers_without_proof_is_caught() -> None:
    with pytest.raises(Violation):
        for seed in range(SCHEDULES):
            troubled_workers(make_world(TakesSilenceForDeath, seed))
