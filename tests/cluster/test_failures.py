"""The state of a manager: groups that fail, and workers whose Spark ends."""

from __future__ import annotations

import pytest

from spdist.cluster.elections.election import LeaderRow
from spdist.cluster.protocol.messages import (
    Announce,
    GroupPhase,
    Level,
    WorkerHeartbeat,
)
from tests.cluster.leader import TIMING, Leader, announced, app, assignment, seen

OTHER = LeaderRow("sp", "manager-2", 7, 0, "http://manager-2")


class TestFailures:
    def fail(self, leader: Leader, worker: str, reason: str = "division by zero") -> list[str]:
        return leader.told(worker, seen("A-g-1", GroupPhase.FAILED, reason))

    @pytest.fixture
    def running(self, leader: Leader) -> Leader:
        leader.told("w1")
        leader.deploy(app("A", "A-g-1"))
        leader.told("w1")
        return leader

    def test_a_failed_group_is_forgotten_paused_and_started_again(self, running: Leader) -> None:
        assert self.fail(running, "w1") == []
        assert running.told("w1") == [], "it pauses first"
        running.pass_time(999)
        assert running.told("w1") == []
        running.pass_time(1)
        assert running.told("w1") == ["A-g-1"]

    def test_it_is_not_started_where_it_is_not_yet_forgotten(self, running: Leader) -> None:
        self.fail(running, "w1")
        running.pass_time(5_000)
        assert self.fail(running, "w1") == []
        assert running.told("w1") == ["A-g-1"]

    def test_one_failure_that_is_reported_twice_counts_once(self, running: Leader) -> None:
        for _ in range(10):
            self.fail(running, "w1")
        assert running.state.deployments.instances["A-g-1"].failures == 1

    def test_it_is_tried_on_another_worker_if_there_is_one(self, running: Leader) -> None:
        running.told("w2")
        self.fail(running, "w1")
        running.pass_time(1_000)
        assert running.told("w1") == []
        assert running.told("w2") == ["A-g-1"]

    def test_pauses_double_and_in_the_end_it_stays_failed(self, running: Leader) -> None:
        for pause in (1_000, 2_000):
            self.fail(running, "w1")
            running.told("w1")
            running.pass_time(pause - 1)
            assert running.told("w1") == []
            running.pass_time(1)
            assert running.told("w1") == ["A-g-1"]
        out = running.handle(
            WorkerHeartbeat(running.report("w1", seen("A-g-1", GroupPhase.FAILED, "division by zero")))
        )
        (announcement,) = [i for i in out if isinstance(i, Announce)]
        assert (announcement.event, announcement.level) == ("group-failed", Level.ERROR)
        assert "division by zero" in announcement.message
        assert (announcement.app, announcement.group, announcement.worker) == ("A", "A-g-1", "w1")
        assert announcement.reason == "division by zero"
        running.told("w1")
        for _ in range(100):
            running.pass_time(1_000)
            assert running.told("w1") == []

    def test_deploying_again_gives_it_another_try(self, running: Leader) -> None:
        for _ in range(3):
            self.fail(running, "w1")
            running.told("w1")
            running.pass_time(TIMING.remove_after_ms - 1)
            running.told("w1")
        assert running.state.deployments.instances["A-g-1"].gave_up
        running.deploy(app("A", "A-g-1"))
        assert running.told("w1") == ["A-g-1"]

    def test_the_failure_of_an_old_version_is_not_held_against_the_new(self, running: Leader) -> None:
        running.deploy(app("A", assignment("A-g-1", "new")))
        answer = running.beat("w1", seen("A-g-1", GroupPhase.FAILED, "old"))
        assert [a.text for a in answer.assignments] == ["new"]

    def test_a_failure_that_an_earlier_leader_saw_is_handled_by_the_next(self) -> None:
        leader = Leader()
        leader.elect(app("A", "A-g-1"))
        self.fail(leader, "w1")
        leader.pass_time(TIMING.remove_after_ms - 1)
        leader.told("w1")
        leader.pass_time(1)
        assert leader.told("w1") == ["A-g-1"]


class TestWorkersWithoutSpark:
    """What a worker had is not its fault when its Spark ends, and nothing goes there until it is up again."""

    GONE = "its Spark ended and is started again: its JVM ended with signal 9"

    @pytest.fixture
    def two(self, leader: Leader) -> Leader:
        """A leader with A-g-1 on w1 and A-g-2 on w2."""
        leader.told("w1")
        leader.told("w2")
        leader.deploy(app("A", "A-g-1", "A-g-2"))
        assert leader.told("w1") == ["A-g-1"]
        assert leader.told("w2") == ["A-g-2"]
        leader.settle()
        return leader

    def lose(self, leader: Leader, **more: object) -> list[str]:
        failed = seen("A-g-2", GroupPhase.FAILED, "Connection refused")
        return leader.told("w2", failed, ready=False, reason=self.GONE, **more)

    def test_its_groups_go_elsewhere_without_a_pause_and_without_being_counted(self, two: Leader) -> None:
        out = two.handle(
            WorkerHeartbeat(
                two.report("w2", seen("A-g-2", GroupPhase.FAILED, "refused"), ready=False, reason=self.GONE)
            )
        )
        assert announced(out)[0] == "group-lost"
        two.told("w2", ready=False, reason=self.GONE)
        assert two.told("w1", "A-g-1") == ["A-g-1", "A-g-2"]
        instance = two.state.deployments.instances["A-g-2"]
        assert (instance.failures, instance.error) == (0, self.GONE)

    def test_nothing_is_moved_onto_it_until_it_is_ready_and_then_it_takes_its_share_again(self, two: Leader) -> None:
        self.lose(two)
        for _ in range(20):
            two.pass_time(500)
            assert two.told("w1", "A-g-1", "A-g-2") == ["A-g-1", "A-g-2"]
            assert two.told("w2", ready=False, reason=self.GONE) == []
        two.told("w2", ready_epoch=2)
        for _ in range(5):
            two.pass_time(1_000)
            two.told("w2", ready_epoch=2)
            if len(left := two.told("w1", "A-g-1", "A-g-2")) == 1:
                break
        two.told("w1", *left)
        assert two.told("w2", ready_epoch=2) == list({"A-g-1", "A-g-2"} - set(left))

    def test_what_ends_one_spark_after_the_other_is_given_up_in_the_end(self, two: Leader) -> None:
        instance = two.state.deployments.instances["A-g-2"]
        for round in range(4):
            worker = instance.worker or "w2"
            other = {"w1": "w2", "w2": "w1"}[worker]
            two.told(worker, seen("A-g-2", GroupPhase.FAILED), ready=False, ready_epoch=round, reason=self.GONE)
            two.told(worker, ready=False, ready_epoch=round, reason=self.GONE)
            assert instance.failures == round
            if round < 3:
                for _ in range(5):
                    two.pass_time(1_000)
                    two.told(worker, ready=False, ready_epoch=round, reason=self.GONE)
                    two.told(other, ready_epoch=round)
        assert instance.gave_up

    def test_a_failure_by_itself_on_a_ready_worker_counts_as_ever(self, two: Leader) -> None:
        two.told("w2", seen("A-g-2", GroupPhase.FAILED, "division by zero"))
        assert two.state.deployments.instances["A-g-2"].failures == 1

    def test_groups_wait_with_a_worker_that_starts_if_there_is_no_other(self, leader: Leader) -> None:
        leader.told("w1", ready=False, reason="its Spark is starting")
        leader.deploy(app("A", "A-g-1"))
        assert leader.told("w1", ready=False, reason="its Spark is starting") == ["A-g-1"]

    def test_a_worker_that_drains_has_its_groups_placed_where_spark_is_up(self, two: Leader) -> None:
        two.told("w0", ready=False, reason="its Spark is starting")
        two.told("w1", "A-g-1", leaving=True)
        two.told("w1", leaving=True)
        assert two.told("w0", ready=False) == []
        assert two.told("w2", "A-g-2") == ["A-g-1", "A-g-2"]

    @pytest.mark.parametrize("change", ["join", "anew", "leave", "loss"])
    def test_what_failed_for_good_is_tried_again_when_the_workers_change(self, leader: Leader, change: str) -> None:
        leader.told("w1")
        leader.told("w2")
        leader.deploy(app("A", "A-g-1"))
        instance = leader.state.deployments.instances["A-g-1"]
        for _ in range(3):
            on = instance.worker
            assert on is not None
            leader.told(on)
            leader.told(on, seen("A-g-1", GroupPhase.FAILED, "the disk is full"))
            leader.told(on)
            leader.pass_time(2_000)
            for worker in ("w1", "w2"):
                leader.told(worker)
        assert instance.gave_up
        match change:
            case "join":
                leader.told("w3")
            case "anew":
                leader.told("w2", ready=False)
                leader.told("w2", ready_epoch=2)
            case "leave":
                leader.told("w2", leaving=True)
            case "loss":
                for _ in range(5):
                    leader.pass_time(1_000)
                    leader.told("w1")
        assert not instance.gave_up
        leader.pass_time(1_000)
        target = instance.worker
        assert target is not None
        if change in ("join", "anew"):
            assert target == {"join": "w3", "anew": "w2"}[change], "where it has not failed"
        epoch = 2 if change == "anew" else 1
        assert leader.told(target, ready_epoch=epoch) == ["A-g-1"]
        leader.told(target, seen("A-g-1", GroupPhase.FAILED, "the disk is full"), ready_epoch=epoch)
        assert instance.gave_up, "one more try, not a loop"
