"""The mind of a manager: who leads, what a new leader finds, and groups that fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spdist.cluster.election import LeaderRow, Lease
from spdist.cluster.messages import (
    Announce,
    AnswerHeartbeat,
    DeploymentForgotten,
    DeploymentSaved,
    DeployRequested,
    Deposed,
    Desired,
    ForgetDeployment,
    GroupPhase,
    LeaderSeen,
    LeaseRenewed,
    Level,
    RedirectHeartbeat,
    Refuse,
    SaveFailed,
    SaveWorkers,
    UndeployRequested,
    WorkerHeartbeat,
    WorkersSaved,
)
from spdist.cluster.roster import IN_DOUBT
from spdist.cluster.timing import LOST_RETRY_MS
from spdist.errors import NotLeaderError
from tests.cluster.leader import FOREVER, TIMING, Leader, announced, app, assignment, only, seen

OTHER = LeaderRow("sp", "manager-2", 7, 0, "http://manager-2")


@pytest.fixture
def leader() -> Leader:
    """A leader of a cluster in which nothing was ever deployed."""
    leader = Leader()
    leader.elect()
    return leader


class TestLeadership:
    def test_a_standby_redirects_and_refuses(self) -> None:
        standby = Leader()
        assert standby.handle(WorkerHeartbeat(standby.report("w1"))) == [RedirectHeartbeat(None)]
        standby.handle(LeaderSeen(OTHER, FOREVER))
        assert standby.handle(WorkerHeartbeat(standby.report("w1"))) == [RedirectHeartbeat(OTHER)]
        for request in (DeployRequested(app("A", "A-g-1")), UndeployRequested("A")):
            error = only(standby.handle(request), Refuse).error
            assert isinstance(error, NotLeaderError)
            assert error.leader == OTHER.url

    def test_a_standby_points_to_a_leader_only_as_long_as_that_one_may_lead(self) -> None:
        """The database need not answer for that: it may be what is gone."""
        standby = Leader()
        standby.handle(LeaderSeen(OTHER, standby.now + 100))
        standby.now += 99
        assert standby.handle(WorkerHeartbeat(standby.report("w1"))) == [RedirectHeartbeat(OTHER)]
        standby.now += 1
        assert standby.handle(WorkerHeartbeat(standby.report("w1"))) == [RedirectHeartbeat(None)]
        assert only(standby.handle(UndeployRequested("A")), Refuse).error.leader is None

    def test_a_standby_ignores_what_it_did_as_leader(self, leader: Leader) -> None:
        leader.handle(DeployRequested(app("A", "A-g-1")))
        leader.handle(Deposed("test"))
        for late in (
            DeploymentSaved("A", 1),
            SaveFailed("A", 1),
            DeploymentForgotten("A", 1),
            LeaseRenewed(Lease(1, 9)),
        ):
            assert leader.handle(late) == []
        assert leader.pass_time(1) == []

    def test_it_leads_while_the_lease_is_valid_and_not_a_ms_longer(self) -> None:
        leader = Leader()
        leader.elect(until_ms=leader.now + 100)
        leader.now += 99
        assert leader.state.leads(leader.now)
        assert leader.told("w1") == []
        leader.now += 1
        assert not leader.state.leads(leader.now)
        out = leader.handle(WorkerHeartbeat(leader.report("w1")))
        assert only(out, RedirectHeartbeat) == RedirectHeartbeat(None)
        assert announced(out) == ["deposed"]
        assert leader.state.term is None

    def test_a_lease_that_was_granted_too_late_leads_to_nothing(self) -> None:
        leader = Leader()
        leader.elect(app("A", "A-g-1"), until_ms=leader.now)
        assert announced(leader.pass_time(0)) == ["deposed"]

    def test_a_renewed_lease_lasts_longer(self) -> None:
        leader = Leader()
        leader.elect(until_ms=leader.now + 100)
        leader.handle(LeaseRenewed(Lease(1, leader.now + 500)))
        leader.pass_time(400)
        assert leader.state.term == 1

    def test_a_renewal_does_not_bring_back_a_leadership_that_ran_out(self) -> None:
        leader = Leader()
        leader.elect(until_ms=leader.now + 100)
        leader.now += 100
        leader.handle(LeaseRenewed(Lease(1, leader.now + 500)))
        assert leader.state.term is None

    def test_a_lease_of_another_term_ends_the_leadership(self, leader: Leader) -> None:
        leader.handle(LeaseRenewed(Lease(2, leader.now + 500)))
        assert leader.state.term is None

    def test_a_later_leader_deposes_it_an_earlier_one_does_not(self, leader: Leader) -> None:
        leader.handle(LeaderSeen(LeaderRow("sp", "manager-2", 1, 0, ""), FOREVER))
        assert leader.state.term == 1
        leader.handle(LeaderSeen(OTHER, FOREVER))
        assert leader.state.term is None

    def test_a_worker_that_obeys_a_later_leader_deposes_it(self, leader: Leader) -> None:
        out = leader.handle(WorkerHeartbeat(leader.report("w1", known_term=2)))
        assert only(out, RedirectHeartbeat).leader is None
        assert leader.state.term is None

    def test_every_answer_carries_the_term_and_the_times(self, leader: Leader) -> None:
        answer = leader.beat("w1")
        assert (answer.term, answer.timing, answer.worker, answer.sequence) == (1, TIMING, "w1", 1)

    def test_time_does_not_go_back(self) -> None:
        leader = Leader()
        leader.elect(until_ms=leader.now + 100)
        leader.pass_time(100)
        leader.now -= 100
        leader.elect(term=2, until_ms=leader.now + 100)
        assert announced(leader.pass_time(0)) == ["deposed"]


class TestTakingOver:
    def test_what_workers_report_is_adopted_at_once(self) -> None:
        leader = Leader()
        leader.elect(app("A", "A-g-1", "A-g-2", version=3), term=5)
        assert leader.told("w1", "A-g-1") == ["A-g-1"]

    def test_what_nobody_reports_waits_until_every_worker_must_have_stopped(self) -> None:
        leader = Leader()
        leader.elect(app("A", "A-g-1", version=3))
        leader.told("w1")
        leader.pass_time(TIMING.remove_after_ms - 1)
        assert leader.told("w1") == []
        leader.pass_time(1)
        assert leader.told("w1") == ["A-g-1"]

    def test_it_waits_no_longer_once_all_workers_on_the_list_have_reported(self) -> None:
        leader = Leader()
        leader.elect(app("A", "A-g-1", "A-g-2"), term=5, workers={"w1": "w1-1", "w2": "w2-1"})
        assert leader.told("w1") == leader.told("w2") == []
        assert leader.told("w1", known_term=5) == [], "w2 may be running what it has not yet reported"
        leader.told("w2", known_term=5)
        assert leader.told("w1", known_term=5) + leader.told("w2", known_term=5) == ["A-g-1", "A-g-2"]

    def test_where_nobody_was_given_anything_it_does_not_wait(self) -> None:
        leader = Leader()
        leader.elect(app("A", "A-g-1"), term=5, workers={})
        leader.told("w1")
        assert leader.told("w1") == ["A-g-1"]

    def test_a_worker_on_the_list_that_has_gone_is_waited_for(self) -> None:
        leader = Leader()
        leader.elect(app("A", "A-g-1"), term=5, workers={"w1": "w1-1", "gone": "gone-1"})
        leader.pass_time(TIMING.remove_after_ms - 1)
        assert leader.told("w1", known_term=5) == []
        leader.pass_time(1)
        assert leader.told("w1", known_term=5) == ["A-g-1"]

    def test_it_asks_workers_to_report_soon_while_that_can_end_the_waiting(self) -> None:
        leader = Leader()
        leader.elect(app("A", "A-g-1"), term=5, workers={"w1": "w1-1", "w2": "w2-1"})
        hurried = leader.beat("w1").timing
        assert hurried == replace(TIMING, heartbeat_interval_ms=LOST_RETRY_MS)
        for worker in ("w1", "w2"):
            leader.beat(worker)
            leader.beat(worker, known_term=5)
        assert leader.beat("w1", known_term=5).timing == TIMING
        assert TIMING.hurried(workers=200).heartbeat_interval_ms == TIMING.heartbeat_interval_ms

    def test_the_list_that_it_inherits_goes_on_until_its_workers_have_reported(self) -> None:
        leader = Leader()
        leader.elect(term=5, workers={"w1": "w1-1", "gone": "gone-1"})
        leader.told("w1", known_term=5)
        assert leader.written == {"w1": "w1-1", "gone": "gone-1"}
        leader.pass_time(TIMING.remove_after_ms - 1)
        leader.told("w1", known_term=5)
        leader.pass_time(1)
        assert leader.written == {"w1": "w1-1"}

    def test_a_worker_is_given_nothing_before_it_stands_on_the_list(self) -> None:
        leader = Leader()
        leader.elect(app("A", "A-g-1"), term=5, workers={})
        leader.pass_time(0)
        out = leader.state.handle(WorkerHeartbeat(leader.report("w1")), leader.now)
        order = only(out, SaveWorkers)
        assert (order.term, order.workers) == (5, {"w1": "w1-1"})
        assert only(out, AnswerHeartbeat).assignments == ()
        leader.handle(WorkersSaved(4, order.version))
        leader.handle(WorkersSaved(5, order.version, written=False))
        assert leader.told("w1") == [], "it is not known whether it was written, so it is written again"
        assert leader.told("w1") == ["A-g-1"]

    def test_a_worker_that_was_restarted_is_in_doubt_while_its_former_life_may_run(self) -> None:
        leader = Leader()
        leader.elect(term=5, workers={})
        leader.told("w1")
        leader.deploy(app("A", "A-g-1"))
        leader.told("w1")
        leader.told("w1", incarnation="w1-2")
        assert leader.written == {"w1": IN_DOUBT}
        leader.now += TIMING.remove_after_ms - 1
        leader.told("w1", incarnation="w1-2")
        leader.pass_time(1)
        assert leader.written == {"w1": "w1-2"}

    def test_a_late_worker_keeps_its_group(self) -> None:
        leader = Leader()
        leader.elect(app("A", "A-g-1"))
        leader.told("w1")
        leader.pass_time(TIMING.remove_after_ms - 1)
        assert leader.told("w2", "A-g-1") == ["A-g-1"]
        leader.pass_time(1)
        assert leader.told("w1") == []

    def test_a_new_app_starts_at_once(self) -> None:
        leader = Leader()
        leader.elect(app("A", "A-g-1"))
        leader.told("w1")
        leader.deploy(app("B", "B-g-1"))
        assert leader.told("w1") == ["B-g-1"]

    @pytest.mark.parametrize("desired", list(Desired))
    def test_an_app_that_was_there_before_does_not_start_at_once_even_if_it_is_deployed_anew(
        self, desired: Desired
    ) -> None:
        """An unheard worker may be running its groups, of this version or one before, undeployed or not."""
        leader = Leader()
        leader.elect(app("A", version=3, desired=desired))
        leader.told("w1")
        leader.deploy(app("A", "A-g-1"))
        leader.pass_time(TIMING.remove_after_ms - 1)
        assert leader.told("w1") == []
        leader.pass_time(1)
        assert leader.told("w1") == ["A-g-1"]

    def test_an_undeployed_app_is_forgotten_only_after_that_time(self) -> None:
        leader = Leader()
        leader.elect(app("A", version=3, desired=Desired.REMOVED))
        assert leader.pass_time(TIMING.remove_after_ms - 1) == []
        assert only(leader.pass_time(1), ForgetDeployment).version == 3

    def test_nothing_is_moved_while_workers_come_back_one_by_one(self) -> None:
        leader = Leader()
        leader.elect(app("A", "A-g-1", "A-g-2", "A-g-3"))
        leader.told("w2")
        leader.pass_time(TIMING.remove_after_ms - 1)
        assert leader.told("w1", "A-g-1", "A-g-2", "A-g-3") == ["A-g-1", "A-g-2", "A-g-3"]

    def test_an_old_version_that_is_reported_is_replaced_where_it_runs(self) -> None:
        leader = Leader()
        leader.elect(app("A", assignment("A-g-1", "new")))
        leader.told("w2")
        answer = leader.beat("w1", seen(assignment("A-g-1", "old")))
        assert [a.text for a in answer.assignments] == ["new"]

    def test_of_two_workers_that_run_a_group_one_goes_on(self) -> None:
        """It must not happen; if it does, because a worker did not stop in time, it ends."""
        leader = Leader()
        leader.elect(app("A", "A-g-1"))
        assert leader.told("w1", "A-g-1") == ["A-g-1"]
        assert leader.told("w2", "A-g-1") == []
        assert leader.told("w1", "A-g-1") == ["A-g-1"]

    def test_a_stored_app_that_cannot_be_planned_is_kept_with_its_reason(self) -> None:
        leader = Leader()
        leader.elect(app("A", version=2, error="line 3: …"), app("B", "B-g-1"), app("C", assignment("B-g-1")))
        deployments = leader.state.deployments.by_name
        assert deployments["A"].error == "line 3: …"
        assert "B-g-1" in deployments["C"].error
        assert deployments["B"].error == ""


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
            running.pass_time(4_000)
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
