"""When the leader is lost: no group stops for that, and none is started that may still be running.

In the simulated cluster. How long a new leader waits before it starts what nobody has reported is tried by schedules
that are each made for one rule of `spdist.cluster.leader.roster`: the real cluster survives them, and a mutant without
that rule runs a group twice. Random schedules hardly meet them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from spdist.cluster.elections.election import ElectionTiming
from spdist.cluster.elections.timing import LOST_RETRY_MS, WorkerTiming
from spdist.cluster.leader.instances import RestartPolicy
from spdist.cluster.leader.members import Member
from spdist.cluster.leader.roster import Roster
from spdist.cluster.leader.state import ManagerState
from spdist.cluster.protocol.messages import AnswerHeartbeat, SaveWorkers, WorkerHeartbeat, WorkerReport
from tests.properties import cluster_simulation, simulated_nodes
from tests.properties.cluster_mutants import AnyList, Unlisted
from tests.properties.cluster_simulation import World
from tests.properties.simulated_nodes import WORKERS, Query, Violation, Worker, with_roster

POLICY = RestartPolicy()
Schedule = Callable[[World], None]


def made(kind: type[World]) -> World:
    """Two managers, of whom the first leads, and two workers that are off; nothing gets lost, clocks run alike."""
    world = kind(1, managers_count=2, workers_count=2)
    world.calm = True
    world._clocks = dict.fromkeys((*world.managers, *world.workers, "database"), (0, 1.0))
    for node in (*world.workers.values(), world.managers["manager-2"]):
        node.crash()
    world.advance(400)
    assert world.leader() is world.managers["manager-1"]
    world.managers["manager-2"].start()
    return world


def lose_the_leader(world: World, *apart: Worker) -> None:
    """The leader ends, the other manager follows, and cannot be reached by the workers `apart`."""
    old = world.leader()
    assert old is not None
    world.cut |= {(worker.name, manager) for worker in apart for manager in world.managers}
    old.crash()
    while world.leader() is None:
        row = world.database.leader
        assert row is not None
        if row.node_id == old.name:  # a last renewal may still be on its way
            world.database.leader = replace(row, last_heartbeat=0)
        world.advance(1)


def run_somewhere(world: World, worker: Worker) -> None:
    """Start a worker and let it run everything."""
    worker.start()
    world.deploy("Alpha", 2)
    world.advance(2 * WORKERS.remove_after_ms)
    assert len(worker.queries) == 3


def start_the_others(world: World, *names: str) -> None:
    """Start workers that the new leader may give everything to, before those that run it have fenced themselves."""
    for name in names:
        world.workers[name].start()
    world.advance(2 * WORKERS.remove_after_ms)


def joins_while_the_database_is_away(world: World) -> None:
    world.deploy("Alpha", 2)
    world.advance(100)
    world.cut.add(("manager-1", "database"))
    world.workers["worker-1"].start()
    world.advance(50)
    lose_the_leader(world, world.workers["worker-1"])
    start_the_others(world, "worker-2")


def leads_without_a_list(world: World) -> None:
    world.deploy("Alpha", 2)
    world.advance(100)
    worker = world.workers["worker-1"]
    worker.start()
    lose_the_leader(world, worker)
    leader = world.leader()
    assert leader is not None
    world.cut.add((leader.name, "database"))
    for instruction in leader.handle(WorkerHeartbeat(worker.state.next_report([], worker.steady()))):
        if isinstance(instruction, AnswerHeartbeat):
            assert instruction.assignments
            worker.answered(leader.name, instruction)
    world.managers["manager-1"].start()
    lose_the_leader(world)
    start_the_others(world, "worker-2")


def hears_an_old_heartbeat(world: World) -> None:
    worker = world.workers["worker-1"]
    worker.start()
    world.advance(WORKERS.remove_after_ms)
    old = worker.state.next_report([], worker.steady())
    world.deploy("Alpha", 2)
    world.advance(WORKERS.remove_after_ms)
    world.workers["worker-2"].start()
    world.advance(150)
    assert len(worker.queries) == 3
    lose_the_leader(world, worker)
    leader = world.leader()
    assert leader is not None
    leader.handle(WorkerHeartbeat(old))
    world.advance(2 * WORKERS.remove_after_ms)


def meets_another_process_with_that_id(world: World) -> None:
    run_somewhere(world, world.workers["worker-1"])
    lose_the_leader(world, world.workers["worker-1"])
    start_the_others(world, "twin")


class AnyReport(World):
    """A heartbeat counts that was sent before its worker obeyed the new leader."""

    def make_manager(self, name: str) -> ManagerState:
        note = Roster.note_report
        return with_roster(
            name, POLICY, note_report=lambda roster, report: note(roster, replace(report, known_term=roster._term))
        )


class AnyProcess(World):
    """A heartbeat counts for every process that has had the worker's id."""

    def make_manager(self, name: str) -> ManagerState:
        def note(roster: Roster, report: WorkerReport) -> None:
            if report.known_term == roster._term:
                roster._awaited.pop(report.id, None)

        return with_roster(name, POLICY, note_report=note)


class Forgetful(World):
    """A new leader writes a list without the workers that it still waits for itself."""

    def make_manager(self, name: str) -> ManagerState:
        save = Roster.save

        def saves(roster: Roster, members: Iterable[Member], now_ms: int) -> list[SaveWorkers]:
            return save(roster, members, 2**62)

        return with_roster(name, POLICY, save=saves)


RULES = [
    (Unlisted, joins_while_the_database_is_away),
    (AnyList, leads_without_a_list),
    (AnyReport, hears_an_old_heartbeat),
    (AnyProcess, meets_another_process_with_that_id),
]


@pytest.mark.parametrize(("mutant", "schedule"), RULES, ids=lambda one: one.__name__)
def test_what_may_still_run_is_not_started_and_without_the_rule_it_is(mutant: type[World], schedule: Schedule) -> None:
    schedule(made(World))
    with pytest.raises(Violation, match="at the same time"):
        schedule(made(mutant))


@pytest.mark.parametrize(("kind", "kept"), [(World, True), (Forgetful, False)], ids=["real", "Forgetful"])
def test_whom_a_leader_still_waits_for_stays_on_its_list(kind: type[World], kept: bool) -> None:
    """Otherwise the next leader, a moment later, would not wait for them, and start what they may still run."""
    world = made(kind)
    run_somewhere(world, world.workers["worker-1"])
    lose_the_leader(world, world.workers["worker-1"])
    while world.database.workers_term != 2:
        world.advance(1)
    assert ("worker-1" in world.database.workers) is kept


# ----------------------------------------------------------------------------------------------------- shipped times
def lose_leaders(monkeypatch: pytest.MonkeyPatch, retry_ms: int, kills: int = 20) -> int:
    """Kill the leader again and again at the shipped times; return how many of four groups have stopped."""
    for module in (simulated_nodes, cluster_simulation):
        monkeypatch.setattr(module, "ELECTION", ElectionTiming(1_000, 2))
        monkeypatch.setattr(module, "WORKERS", WorkerTiming.from_config(2_000, 2))
    monkeypatch.setattr(simulated_nodes, "RETRY_MS", retry_ms)
    monkeypatch.setattr(simulated_nodes, "PATIENCE_MS", 20)  # the host of a killed process refuses connections
    world, rng = World(7, managers_count=2, workers_count=2), random.Random(7)
    world.calm = True
    world.advance(10_000)
    world.deploy("Alpha", 1)
    world.advance(20_000)

    def running() -> list[Query]:
        return [query for worker in world.workers.values() for query in worker.queries.values()]

    before = running()
    assert len(before) == 4
    for _ in range(kills):
        world.advance(rng.randint(0, 5_000))
        leader = world.leader()
        assert leader is not None
        leader.crash()
        world.advance(20_000)
        leader.start()
        world.advance(5_000)
    assert len(world.acted) > kills, "each kill was followed by another leadership"
    # A group that was stopped, for however short, is another query when it runs again.
    return sum(not any(query is now for now in running()) for query in before)


def test_losing_the_leader_stops_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lose_leaders(monkeypatch, LOST_RETRY_MS) == 0


def test_with_wso2s_pause_between_questions_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lose_leaders(monkeypatch, 10_000) > 0
