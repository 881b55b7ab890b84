"""Which worker a group goes to, and that it moves only when its old worker has stopped it."""

from __future__ import annotations

import pytest

from spdist.cluster.protocol.messages import (
    GroupPhase,
)
from tests.cluster.leader import TIMING, Leader, app, assignment, seen


class TestMoving:
    def test_a_group_moves_only_after_its_old_worker_reported_it_gone(self, leader: Leader) -> None:
        leader.give_up_one_of_two()
        (stays,) = leader.told("w1", "A-g-1", "A-g-2")
        (moves,) = {"A-g-1", "A-g-2"} - {stays}
        assert leader.told("w2") == []
        assert leader.told("w1", stays, seen(moves, GroupPhase.STOPPING)) == [stays]
        assert leader.told("w2") == []
        leader.told("w1", stays, seen(moves, GroupPhase.STOPPED))
        assert leader.told("w2") == [moves]

    def test_what_a_worker_was_told_counts_as_running_before_it_reports_it(self, leader: Leader) -> None:
        leader.told("w1")
        leader.deploy(app("A", "A-g-1"))
        assert leader.told("w1") == ["A-g-1"]
        leader.undeploy("A")
        leader.told("w2")
        leader.deploy(app("A", assignment("A-g-1", "new")))
        leader.pass_time(TIMING.remove_after_ms - 1)
        assert leader.told("w2") == []

    def test_workers_that_join_together_cause_no_moves_between_them(self, leader: Leader) -> None:
        leader.told("w1")
        leader.deploy(app("A", "A-g-1", "A-g-2"))
        leader.told("w1")
        leader.told("w2")
        leader.pass_time(TIMING.heartbeat_interval_ms)
        assert leader.told("w1", "A-g-1", "A-g-2") == ["A-g-1", "A-g-2"]

    def test_what_lost_its_worker_goes_to_one_that_is_warm_though_another_has_less(self, leader: Leader) -> None:
        leader.told("w1")
        leader.told("w2")
        leader.deploy(app("A", "A-g-1", "A-g-2"))
        (first,), (second,) = leader.told("w1"), leader.told("w2")
        leader.pass_time(TIMING.remove_after_ms - 1)
        leader.told("w1", first)
        leader.told("w3", warm=False)
        leader.pass_time(1)
        assert leader.told("w3", warm=False) == []
        assert leader.told("w1", first) == [first, second]
        leader.settle()
        assert leader.told("w3", warm=False) == []
        leader.told("w3")
        assert leader.told("w1", first, second) == [second]

    @pytest.mark.parametrize("starts", [True, False])
    def test_what_runs_is_moved_only_when_what_was_interrupted_runs_or_does_not_start(
        self, leader: Leader, starts: bool
    ) -> None:
        leader.told("w1")
        leader.told("w2")
        leader.deploy(app("A", "A-g-1", "A-g-2"))
        (first,), (second,) = leader.told("w1"), leader.told("w2")
        leader.pass_time(TIMING.remove_after_ms - 1)
        leader.told("w1", first)
        leader.pass_time(1)
        assert leader.told("w1", first) == [first, second]
        leader.told("w3")
        leader.settle()
        leader.told("w3")
        assert leader.told("w1", first) == [first, second], "the second one starts"
        if starts:
            assert leader.told("w1", first, second) == [second]
        else:
            for _ in range(60):
                leader.pass_time(1_000)
                leader.told("w3")
                found = leader.told("w1", first)
            assert len(found) == 1

    def test_a_new_group_goes_to_the_emptier_worker_though_nothing_is_moved_yet(self, leader: Leader) -> None:
        leader.told("w1")
        leader.deploy(app("A", "A-g-1"))
        leader.told("w1")
        leader.told("w2")
        leader.deploy(app("B", "B-g-1"))
        assert leader.told("w2") == ["B-g-1"]

    def test_fewer_workers_than_min_resource_count_get_nothing_new_but_keep_what_they_have(self) -> None:
        leader = Leader(min_resource_count=2)
        leader.elect()
        leader.told("w1")
        leader.deploy(app("A", "A-g-1", "A-g-2"))
        leader.told("receiver-1")
        assert leader.told("w1") == [], "receivers do not count"
        leader.told("w2")
        (mine,) = leader.told("w1")
        leader.pass_time(TIMING.remove_after_ms - 1)
        assert leader.told("w1", mine) == [mine]
        leader.pass_time(1)
        assert leader.told("w1", mine) == [mine], "the other group waits for a second worker"

    def test_receiver_groups_go_to_receivers_only(self, leader: Leader) -> None:
        leader.told("w1")
        leader.deploy(app("A", assignment("A-passthrough-1", receiver=True), "A-g-1"))
        assert leader.told("w1") == ["A-g-1"]
        assert leader.told("receiver-1") == ["A-passthrough-1"]

    def test_an_algorithm_cannot_place_where_nobody_is(self) -> None:
        placements = [{"A-g-1": "ghost"}, {"A-g-1": "receiver-1"}, {"B-g-1": "w1"}]
        for placement in placements:
            leader = Leader(algorithm=lambda request, placement=placement: placement)
            leader.elect()
            leader.told("receiver-1")
            leader.deploy(app("A", "A-g-1"))
            assert leader.told("w1") == []
