"""The state of a manager: who leads, and what a new leader finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spdist.cluster.elections.election import LeaderRow, Lease
from spdist.cluster.elections.timing import LOST_RETRY_MS
from spdist.cluster.leader.roster import IN_DOUBT
from spdist.cluster.protocol.messages import (
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
    RedirectHeartbeat,
    Refuse,
    SaveFailed,
    SaveWorkers,
    UndeployRequested,
    WorkerHeartbeat,
    WorkersSaved,
)
from spdist.errors import NotLeaderError
from tests.cluster.leader import FOREVER, TIMING, Leader, announced, app, assignment, only, seen

OTHER = LeaderRow("sp", "manager-2", 7, 0, "http://manager-2")


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

    def test_what_stops_on_one_worker_is_left_to_the_one_that_runs_it(self) -> None:
        """The first has stood still past its fence, and reports before the one that has its group since."""
        leader = Leader()
        leader.elect(app("A", "A-g-1", version=3))
        assert leader.told("w1", seen("A-g-1", GroupPhase.STOPPING)) == []
        assert leader.told("w2", "A-g-1") == ["A-g-1"]
        assert leader.told("w1") == []
        leader.pass_time(TIMING.remove_after_ms)
        assert leader.told("w1") == []

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
        assert leader.beat("w1", "A-g-1", known_term=5).timing == TIMING
        assert TIMING.hurried(workers=200).heartbeat_interval_ms == TIMING.heartbeat_interval_ms

    def test_it_asks_workers_to_report_soon_while_they_may_be_handed_something(self) -> None:
        leader = Leader()
        leader.elect()
        leader.give_up_one_of_two()
        (stays,) = leader.told("w1", "A-g-1", "A-g-2")
        hurried = TIMING.hurried(workers=2)
        assert leader.beat("w2").timing == hurried, "w1 still runs what comes here"
        assert leader.beat("w1", stays).timing == TIMING
        (came,) = leader.told("w2")
        assert leader.beat("w2", came).timing == TIMING
        leader.pass_time(TIMING.suspect_after_ms)
        assert leader.beat("w2", came).timing == hurried, "w1 is silent"

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
