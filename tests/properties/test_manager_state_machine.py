"""The cluster under faults: no group runs twice, no standby instructs, and everything runs once the faults have ended.

`cluster_simulation` lets real minds meet in virtual time. Hypothesis chooses what happens to them; every mutant, which
lacks one rule of the protocol, must be caught by schedules that the real cluster survives.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from spdist.cluster.protocol.messages import WorkerHeartbeat, WorkerReport
from tests.properties.cluster_mutants import MUTANTS
from tests.properties.cluster_schedules import APPS, make_world, random_schedule, run_schedule, troubled_workers
from tests.properties.cluster_simulation import World
from tests.properties.simulated_nodes import WORKERS, Violation

SCHEDULES = 60
#: So many schedules from its seed on, a mutant is caught.
NEAR = 5


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

    @rule(data=st.data(), known_term=st.sampled_from([100, 10**12]))
    def claim_to_obey_a_later_leader(self, data: st.DataObject, known_term: int) -> None:
        """Who may send heartbeats may say anything: it must not cost the cluster its leader."""
        leader, worker = self.world.leader(), data.draw(st.sampled_from(list(self.world.workers.values())))
        if leader is not None:
            report = WorkerReport(worker.id, f"http://{worker.name}", worker.receiver, "another", 1, known_term)
            leader.handle(WorkerHeartbeat(report))
            assert self.world.leader() is leader, "a heartbeat has deposed the leader"

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


def test_probes_remove_workers_that_have_crashed_long_before_the_deadline() -> None:
    world = World(1, managers_count=2, workers_count=2, calm=True)
    world.advance(1_500)
    world.deploy("Alpha", 1)
    world.advance(1_000)
    world.workers["worker-1"].crash()
    world.advance(WORKERS.probe_after_ms + 260)
    assert set(world.workers["worker-2"].queries) >= {"Alpha-steady-1", "Alpha-steady-2"}


def test_workers_that_are_cut_off_or_restarted_while_they_are_probed_run_nothing_twice() -> None:
    for seed in range(SCHEDULES // 2):
        troubled_workers(make_world(World, seed))


@pytest.mark.parametrize(("mutant", "seed"), MUTANTS.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_a_mutant_is_caught(mutant: type[World], seed: int) -> None:
    with pytest.raises(Violation):
        for one in range(seed, seed + NEAR):
            run_schedule(mutant, one)
