"""The mind of a manager: who leads, what a new leader finds, and groups that fail."""

from __future__ import annotations

import pytest

from spdist.cluster.election import LeaderRow, Lease
from spdist.cluster.messages import (
    Announce,
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
    UndeployRequested,
    WorkerHeartbeat,
)
from spdist.errors import NotLeaderError
from tests.cluster.leader import TIMING, Leader, announced, app, assignment, only, seen

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
        standby.handle(LeaderSeen(OTHER))
        assert standby.handle(WorkerHeartbeat(standby.report("w1"))) == [RedirectHeartbeat(OTHER)]
        for request in (DeployRequested(app("A", "A-g-1")), UndeployRequested("A")):
            error = only(standby.handle(request), Refuse).error
            assert isinstance(error, NotLeaderError)
            assert error.leader == OTHER.url

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
        leader.handle(LeaderSeen(LeaderRow("sp", "manager-2", 1, 0, "")))
        assert leader.state.term == 1
        leader.handle(LeaderSeen(OTHER))
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
        assert leader.told("w1") == []
        leader.pass_time(TIMING.remove_after_ms)
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
        running.told("w1")
        for _ in range(100):
            running.pass_time(1_000)
            assert running.told("w1") == []

    def test_deploying_again_gives_it_another_try(self, running: Leader) -> None:
        for _ in range(3):
            self.fail(running, "w1")
            running.told("w1")
            running.pass_time(5_000)
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
