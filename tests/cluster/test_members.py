"""Workers that join, fall silent, leave, come back, or use each other's ids."""

from __future__ import annotations

from spdist.cluster.protocol.messages import (
    Announce,
    AnswerHeartbeat,
    ForgetDeployment,
    JoinedState,
    RedirectHeartbeat,
    WorkerHeartbeat,
)
from tests.cluster.leader import TIMING, Leader, announced, app, only, seen


class TestWorkers:
    def test_the_first_heartbeat_joins(self, leader: Leader) -> None:
        assert leader.beat("w1").joined is JoinedState.NEW
        assert leader.beat("w1").joined is JoinedState.EXISTS

    def test_a_silent_worker_is_removed_at_the_deadline_and_its_groups_go_elsewhere(self, leader: Leader) -> None:
        leader.told("w1")
        leader.deploy(app("A", "A-g-1"))
        assert leader.told("w1") == ["A-g-1"]
        leader.pass_time(TIMING.remove_after_ms - 1)
        assert leader.told("w2") == []
        out = leader.pass_time(1)
        lost, placed = [i for i in out if isinstance(i, Announce)]
        assert (lost.event, lost.worker, placed.event, placed.group) == ("worker-lost", "w1", "group-placed", "A-g-1")
        assert placed.worker == "w2"
        assert placed.reason == "worker w1 was silent for 4.0 s and is removed"
        assert leader.told("w2") == ["A-g-1"]

    def test_a_worker_that_leaves_hands_over_when_it_has_stopped(self, leader: Leader) -> None:
        leader.told("w1")
        leader.deploy(app("A", "A-g-1"))
        leader.told("w1")
        leader.told("w2")
        assert leader.told("w1", "A-g-1", leaving=True) == []
        assert leader.told("w2") == [], "it still runs on the leaving worker"
        out = leader.handle(WorkerHeartbeat(leader.report("w1", leaving=True)))
        assert announced(out) == ["worker-left"]
        assert leader.told("w2") == ["A-g-1"]
        assert announced(leader.handle(WorkerHeartbeat(leader.report("w1", leaving=True)))) == []

    def test_a_worker_that_is_turned_away_is_spoken_of_once(self, leader: Leader) -> None:
        wrong = [leader.handle(WorkerHeartbeat(leader.report("w" * 300))) for _ in range(5)]
        assert [announced(out) for out in wrong] == [["worker-rejected"], [], [], [], []]

    def test_a_worker_that_leaves_is_given_nothing(self, leader: Leader) -> None:
        leader.told("w1", seen("X-g-1"), leaving=True)
        leader.deploy(app("A", "A-g-1"))
        assert leader.told("w1", seen("X-g-1"), leaving=True) == []

    def test_a_restarted_worker_is_given_its_groups_again_at_once(self, leader: Leader) -> None:
        leader.told("w1")
        leader.told("w2")
        leader.deploy(app("A", "A-g-1", "A-g-2"))
        (mine,) = leader.told("w1")
        out = leader.handle(WorkerHeartbeat(leader.report("w1", incarnation="w1-2", sequence=1)))
        assert announced(out)[0] == "worker-restarted"
        assert [a.name for a in only(out, AnswerHeartbeat).assignments] == [mine]

    def test_the_process_that_was_replaced_is_turned_away(self, leader: Leader) -> None:
        leader.told("w1")
        leader.beat("w1", incarnation="w1-2")
        answer = leader.beat("w1", incarnation="w1-1")
        assert answer.joined is JoinedState.REJECTED
        assert "taken over" in answer.reason

    def test_a_second_worker_with_the_same_id_is_rejected_until_the_first_is_gone(self, leader: Leader) -> None:
        leader.told("w1")
        leader.deploy(app("A", "A-g-1"))
        leader.told("w1")
        twin = {"incarnation": "twin", "url": "http://elsewhere"}
        answer = leader.beat("w1", **twin)
        assert (answer.joined, answer.assignments) == (JoinedState.REJECTED, ())
        assert "wso2.carbon.id" in answer.reason and "http://w1" in answer.reason
        assert leader.told("w1", "A-g-1") == ["A-g-1"], "the first is left alone"
        leader.pass_time(TIMING.remove_after_ms)
        leader.told("w1", **twin)
        assert leader.told("w1", **twin) == ["A-g-1"]

    def test_an_overtaken_heartbeat_changes_nothing(self, leader: Leader) -> None:
        """It was sent before the worker was told to run the group, and says nothing about it."""
        leader.told("w1")
        late = leader.report("w1")
        leader.deploy(app("A", "A-g-1"))
        assert leader.told("w1") == ["A-g-1"]
        leader.told("w1", "A-g-1", leaving=True)
        assert leader.told("w2") == []
        assert leader.handle(WorkerHeartbeat(late)) == [RedirectHeartbeat(None)]
        assert leader.told("w2") == [], "the late heartbeat must not count as proof that it was stopped"

    def test_an_overtaken_heartbeat_is_no_sign_of_life(self, leader: Leader) -> None:
        leader.told("w1")
        late = leader.report("w1")
        leader.told("w1")
        leader.pass_time(TIMING.remove_after_ms - 1)
        leader.handle(WorkerHeartbeat(late))
        assert "worker-lost" in announced(leader.pass_time(1))

    def test_groups_that_nobody_wants_are_stopped(self, leader: Leader) -> None:
        assert leader.told("w1", "Unknown-g-1") == []

    def test_a_heartbeat_of_an_earlier_life_does_not_free_what_the_worker_runs(self, leader: Leader) -> None:
        """It was on its way during a failover, so the new leader cannot know that there is a later life already."""
        leader.told("w1", incarnation="w1-2")
        leader.deploy(app("A", "A-g-1"))
        assert leader.told("w1", incarnation="w1-2") == ["A-g-1"]
        leader.told("w2")
        assert leader.told("w1", incarnation="w1-1", leaving=True) == []
        assert leader.told("w2") == [], "a farewell from an earlier life is none"
        leader.pass_time(1_000)
        leader.told("w1", incarnation="w1-1", leaving=True, sequence=1_000)
        leader.told("w1", seen("X-g-1"), incarnation="w1-1", leaving=True)
        leader.pass_time(TIMING.remove_after_ms - 1_001)
        assert leader.told("w2") == [], "the later life may be running it until it must have stopped"
        leader.pass_time(1)
        assert leader.told("w2") == ["A-g-1"]
        assert leader.beat("w1", incarnation="w1-2").joined is JoinedState.REJECTED

    def test_what_a_former_life_may_run_keeps_an_app_from_being_forgotten(self, leader: Leader) -> None:
        leader.told("w1")
        leader.deploy(app("A", "A-g-1"))
        leader.told("w1")
        leader.undeploy("A")
        leader.told("w1", incarnation="w1-2")
        assert not any(isinstance(i, ForgetDeployment) for i in leader.pass_time(TIMING.remove_after_ms - 1))
        assert only(leader.pass_time(1), ForgetDeployment).name == "A"
