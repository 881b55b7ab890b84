"""What a leader tells of deployments: a state for each, and a reason for whatever is not running."""

from __future__ import annotations

import pytest

from spdist.cluster.messages import Deployment, GroupPhase
from spdist.cluster.status import DeploymentState, DeploymentStatus, deployment_status, deployment_statuses
from spdist.errors import NotFoundError
from tests.cluster.leader import TIMING, Leader, app, assignment, seen

WAITING, DEPLOYING = DeploymentState.WAITING, DeploymentState.DEPLOYING
RUNNING, FAILED = DeploymentState.RUNNING, DeploymentState.FAILED


@pytest.fixture
def leader() -> Leader:
    leader = Leader()
    leader.elect()
    return leader


def status(leader: Leader, name: str = "A") -> DeploymentStatus:
    return deployment_status(leader.state, name, leader.now)


def test_a_deployment_goes_from_waiting_to_running(leader: Leader) -> None:
    leader.deploy(app("A", "A-g-1"))
    assert (status(leader).state, status(leader).reason) == (WAITING, "A-g-1: no worker has joined")
    leader.told("w1")
    assert status(leader).state is DEPLOYING
    assert "told to start it" in status(leader).reason
    leader.told("w1", seen("A-g-1", GroupPhase.STARTING))
    assert status(leader).state is DEPLOYING
    assert "has not committed a batch" in status(leader).reason
    leader.told("w1", "A-g-1")
    assert (status(leader).state, status(leader).reason) == (RUNNING, "")


def test_the_worst_group_gives_the_state_of_the_whole(leader: Leader) -> None:
    leader.told("w1")
    leader.deploy(app("A", "A-g-1", "A-g-2", assignment("A-passthrough-1", receiver=True)))
    leader.told("w1")
    leader.told("w1", "A-g-1", seen("A-g-2", GroupPhase.STARTING))
    assert [g.state for g in status(leader).groups] == [RUNNING, DEPLOYING, WAITING]
    assert status(leader).state is WAITING


def test_an_old_version_is_not_running(leader: Leader) -> None:
    leader.told("w1")
    leader.deploy(app("A", assignment("A-g-1", "new")))
    leader.told("w1", seen(assignment("A-g-1", "old")))
    assert status(leader).state is DEPLOYING
    assert "stops its previous version" in status(leader).reason


def test_too_few_workers_are_counted_out() -> None:
    leader = Leader(min_resource_count=3)
    leader.elect()
    leader.told("w1")
    leader.deploy(app("A", "A-g-1"))
    assert status(leader).reason == "A-g-1: 1 of the 3 workers that minResourceCount asks for have joined"


def test_receiver_groups_say_what_kind_of_worker_they_need(leader: Leader) -> None:
    leader.told("w1")
    leader.deploy(app("A", *(assignment(f"A-passthrough-{i}", receiver=True) for i in (1, 2))))
    assert "isReceiverNode: true" in status(leader).reason
    leader.told("receiver-1")
    assert [g.state for g in status(leader).groups] == [DEPLOYING, WAITING]
    assert "each of the 1 receiver workers already has" in status(leader).reason


def test_a_group_that_must_first_stop_elsewhere_says_where(leader: Leader) -> None:
    leader.told("w1")
    leader.deploy(app("A", "A-g-1", "A-g-2"))
    leader.told("w1")
    leader.told("w2")
    leader.settle()
    assert "may still run on worker w1" in status(leader).reason


def test_a_new_leader_says_for_how_long_it_waits() -> None:
    leader = Leader()
    leader.elect(app("A", "A-g-1"))
    leader.told("w1")
    leader.pass_time(TIMING.remove_after_ms - 1_500)
    assert "gives workers 1.5 s more" in status(leader).reason


def test_a_failure_is_told_with_its_reason_and_the_next_try(leader: Leader) -> None:
    leader.told("w1")
    leader.deploy(app("A", "A-g-1"))
    leader.told("w1")
    leader.told("w1", seen("A-g-1", GroupPhase.FAILED, "division by zero"))
    assert status(leader).state is DEPLOYING
    assert "starts again in 1.0 s, after a failure: division by zero" in status(leader).reason
    for _ in range(2):
        leader.told("w1")
        leader.pass_time(2_000)
        leader.told("w1")
        leader.told("w1", seen("A-g-1", GroupPhase.FAILED, "division by zero"))
    assert status(leader).state is FAILED
    assert status(leader).reason == "A-g-1: failed 3 times, lastly: division by zero"


def test_an_app_that_cannot_be_planned_has_failed(leader: Leader) -> None:
    leader.elect(Deployment("A", "text", 1, error="line 1: no such function"), term=2)
    assert (status(leader).state, status(leader).reason, status(leader).groups) == (
        FAILED,
        "line 1: no such function",
        (),
    )


def test_an_app_that_is_being_undeployed_is_not_there(leader: Leader) -> None:
    leader.deploy(app("B", "B-g-1"))
    leader.deploy(app("A", "A-g-1"))
    assert [s.name for s in deployment_statuses(leader.state, leader.now)] == ["A", "B"]
    leader.undeploy("A")
    assert [s.name for s in deployment_statuses(leader.state, leader.now)] == ["B"]
    for name in ("A", "C"):
        with pytest.raises(NotFoundError, match=name):
            status(leader, name)


def test_an_algorithm_that_leaves_a_group_out_is_named() -> None:
    leader = Leader(algorithm=lambda request: {})
    leader.elect()
    leader.told("w1")
    leader.deploy(app("A", "A-g-1"))
    assert "allocation algorithm gave it no worker" in status(leader).reason


def test_a_record_has_wso2s_fields_as_text(leader: Leader) -> None:
    leader.told("w1", url="https://host-1:9443")
    leader.deploy(app("A", "A-g-1"))
    leader.told("w1", url="https://host-1:9443")
    leader.told("w1", "A-g-1", url="https://host-1:9443")
    heard = leader.now
    leader.now += 2_500
    (record,) = status(leader).groups
    assert record.to_dict() == {
        "parentAppName": "A",
        "groupName": "A-g",
        "appName": "A-g-1",
        "siddhiApp": "text",
        "id": "w1",
        "state": "EXISTS",
        "host": "host-1",
        "port": "9443",
        "lastPingTimestamp": str(heard),
        "failedPingAttempts": "2",
        "appStatus": "Active",
        "groupState": "RUNNING",
        "reason": "",
    }


def test_a_record_without_a_worker_has_no_fields_about_one(leader: Leader) -> None:
    leader.deploy(app("A", "A-g-1"))
    (record,) = status(leader).groups
    assert record.to_dict().keys().isdisjoint({"id", "state", "host", "port", "lastPingTimestamp"})
    assert record.to_dict()["appStatus"] == "waiting"
