"""Deployments: written first, then run; changed, undeployed, forgotten."""

from __future__ import annotations

from spdist.cluster.protocol.messages import (
    DeploymentForgotten,
    DeploymentSaved,
    DeployRequested,
    Desired,
    ForgetDeployment,
    Refuse,
    SaveDeployment,
    SaveFailed,
    UndeployRequested,
)
from spdist.errors import ClusterError, ErrorKind, NotFoundError
from tests.cluster.leader import Leader, app, assignment, only


class TestDeploying:
    def test_nothing_runs_before_it_is_durable(self, leader: Leader) -> None:
        leader.told("w1")
        order = only(leader.handle(DeployRequested(app("A", "A-g-1"))), SaveDeployment)
        assert (order.term, order.deployment.version, order.deployment.desired) == (1, 1, Desired.RUNNING)
        assert leader.told("w1") == []
        leader.handle(DeploymentSaved("A", 1))
        assert leader.told("w1") == ["A-g-1"]

    def test_what_was_not_written_does_not_run(self, leader: Leader) -> None:
        leader.told("w1")
        leader.handle(DeployRequested(app("A", "A-g-1")))
        leader.handle(SaveFailed("A", 1))
        leader.handle(DeploymentSaved("A", 1))
        assert leader.told("w1") == []
        leader.deploy(app("A", "A-g-1"))
        assert leader.told("w1") == ["A-g-1"]

    def test_two_changes_of_an_app_at_once_are_refused(self, leader: Leader) -> None:
        leader.handle(DeployRequested(app("A", "A-g-1")))
        assert only(leader.handle(DeployRequested(app("A", "A-g-1"))), Refuse).error.code == ErrorKind.CONFLICT
        leader.handle(DeploymentSaved("A", 1))
        leader.handle(UndeployRequested("A"))
        assert only(leader.handle(DeployRequested(app("A", "A-g-1"))), Refuse).error.code == ErrorKind.CONFLICT

    def test_versions_count_up(self, leader: Leader) -> None:
        for version in (1, 2, 3):
            assert only(leader.handle(DeployRequested(app("A"))), SaveDeployment).deployment.version == version
            leader.handle(DeploymentSaved("A", version))

    def test_instances_of_two_apps_must_not_have_one_name(self, leader: Leader) -> None:
        leader.deploy(app("A", "A-g-1"))
        clash = app("B", assignment("A-g-1"))
        error = only(leader.handle(DeployRequested(clash)), Refuse).error
        assert isinstance(error, ClusterError)
        assert "A-g-1" in error.message

    def test_a_redeployment_touches_only_what_changed(self, leader: Leader) -> None:
        leader.told("w1")
        leader.deploy(app("A", "A-same-1", "A-changed-1", "A-dropped-1"))
        assert leader.told("w1") == ["A-same-1", "A-changed-1", "A-dropped-1"]
        leader.deploy(app("A", "A-same-1", assignment("A-changed-1", "new"), "A-added-1"))
        answer = leader.beat("w1", "A-same-1", "A-changed-1", "A-dropped-1")
        assert [(a.name, a.text) for a in answer.assignments] == [
            ("A-same-1", "text"),
            ("A-changed-1", "new"),
            ("A-added-1", "text"),
        ]

    def test_undeploying_stops_the_groups_and_then_forgets_the_app(self, leader: Leader) -> None:
        leader.told("w1")
        leader.deploy(app("A", "A-g-1"))
        leader.told("w1")
        order = only(leader.handle(UndeployRequested("A")), SaveDeployment)
        assert (order.deployment.desired, order.deployment.version) == (Desired.REMOVED, 2)
        leader.handle(DeploymentSaved("A", 2))
        assert not any(isinstance(i, ForgetDeployment) for i in leader.pass_time(1))
        assert leader.told("w1", "A-g-1") == []
        assert not any(isinstance(i, ForgetDeployment) for i in leader.pass_time(1)), (
            "the worker has not stopped it yet"
        )
        leader.told("w1")
        assert only(leader.pass_time(1), ForgetDeployment) == ForgetDeployment(1, "A", 2)
        leader.handle(DeploymentForgotten("A", 2))
        assert leader.pass_time(1) == []

    def test_only_what_is_deployed_can_be_undeployed(self, leader: Leader) -> None:
        leader.deploy(app("A", "A-g-1"))
        leader.undeploy("A")
        for name in ("A", "B"):
            assert isinstance(only(leader.handle(UndeployRequested(name)), Refuse).error, NotFoundError)

    def test_an_app_can_come_back_while_it_is_being_undeployed(self, leader: Leader) -> None:
        leader.told("w1")
        leader.deploy(app("A", "A-g-1"))
        leader.told("w1")
        leader.undeploy("A")
        leader.deploy(app("A", "A-g-1"))
        leader.handle(DeploymentForgotten("A", 2))
        assert leader.told("w1", "A-g-1") == ["A-g-1"]
