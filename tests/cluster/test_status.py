"""What a leader tells of deployments: a state for each, and a reason for whatever is not running."""

from __future__ import annotations

import pytest

from spdist.cluster.clients.overview import ClusterStatus
from spdist.cluster.leader.status import DeploymentState, DeploymentStatus, deployment_status, deployment_statuses
from spdist.cluster.managers.views import nodes_view
from spdist.cluster.protocol.messages import AppVersion, GroupPhase, MemoryReport
from spdist.errors import NotFoundError
from tests.cluster.leader import TIMING, Leader, app, assignment, seen

WAITING, DEPLOYING = DeploymentState.WAITING, DeploymentState.DEPLOYING
RUNNING, FAILED = DeploymentState.RUNNING, DeploymentState.FAILED


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


def test_what_a_group_waits_for_is_told_while_it_starts_and_while_it_runs(leader: Leader) -> None:
    leader.told("w1")
    leader.deploy(app("A", "A-g-1"))
    leader.told("w1")
    why = "Kafka at 127.0.0.1:1 does not answer"
    leader.told("w1", seen("A-g-1", GroupPhase.STARTING, why))
    assert (status(leader).state, status(leader).reason) == (
        DEPLOYING,
        f"A-g-1: it starts on worker w1 and waits: {why}",
    )
    leader.told("w1", seen("A-g-1", GroupPhase.RUNNING, why))
    assert (status(leader).state, status(leader).reason) == (RUNNING, f"A-g-1: {why}")


def test_a_group_whose_worker_is_silent_for_a_heartbeat_is_not_called_running(leader: Leader) -> None:
    leader.told("w1")
    leader.deploy(app("A", "A-g-1"))
    leader.told("w1", "A-g-1")
    leader.pass_time(TIMING.heartbeat_interval_ms)
    assert status(leader).state is RUNNING
    leader.pass_time(200)
    assert status(leader).state is DeploymentState.UNREACHABLE
    assert status(leader).reason == (
        "A-g-1: worker w1 has been silent for 1.2 s; what it has goes elsewhere in 2.8 s at the latest"
    )
    (worker,) = nodes_view(leader.state, [], "sp", leader.now)["workers"]
    assert (worker["state"], worker["silentMs"], worker["groups"]) == (
        "UNREACHABLE",
        1_200,
        [{"name": "A-g-1", "state": "RUNNING"}],
    )


def test_a_worker_that_was_lost_is_shown_with_what_it_had_until_it_comes_back(leader: Leader) -> None:
    leader.told("w1", "A-g-1", "B-g-1")
    leader.pass_time(TIMING.remove_after_ms)
    leader.pass_time(2_000)
    view = nodes_view(leader.state, [], "sp", leader.now)
    assert view["workers"] == []
    (lost,) = view["lostWorkers"]
    assert (lost["id"], lost["lostForMs"], lost["groups"]) == ("w1", 2_000, ["A-g-1", "B-g-1"])
    assert "silent for 4.0 s" in lost["reason"]
    shown = str(ClusterStatus.from_view({**view, "apps": [], "transport": "log"}))
    assert "LOST: was silent for 4.0 s" in shown
    assert "A-g-1, B-g-1" in shown
    leader.told("w1", incarnation="w1-2")
    assert nodes_view(leader.state, [], "sp", leader.now)["lostWorkers"] == []


def test_a_worker_that_leaves_is_not_lost(leader: Leader) -> None:
    leader.told("w1")
    leader.beat("w1", leaving=True)
    assert nodes_view(leader.state, [], "sp", leader.now)["lostWorkers"] == []


def test_a_group_on_a_worker_that_is_not_ready_says_for_what_it_waits(leader: Leader) -> None:
    leader.told("w1", ready=False, reason="its Spark is starting")
    leader.deploy(app("A", "A-g-1"))
    leader.told("w1", seen("A-g-1", GroupPhase.STARTING), ready=False, reason="its Spark is starting")
    assert status(leader).reason == "A-g-1: it starts on worker w1 when that is ready: its Spark is starting"
    (worker,) = nodes_view(leader.state, [], "sp", leader.now)["workers"]
    assert (worker["ready"], worker["state"], worker["reason"]) == (False, "STARTING", "its Spark is starting")


def test_a_group_that_no_worker_has_memory_for_says_so(leader: Leader) -> None:
    full = MemoryReport(limit=1000 << 20, used=950 << 20, per_group=100 << 20)
    leader.told("w1", memory=full)
    leader.deploy(app("A", "A-g-1"))
    assert leader.told("w1", memory=full) == []
    assert (status(leader).state, status(leader).reason) == (
        WAITING,
        "A-g-1: waits for memory: no worker has room (w1: 950 of 1,000 MiB are used, a group takes 100 MiB)",
    )
    (worker,) = nodes_view(leader.state, [], "sp", leader.now)["workers"]
    assert worker["memory"] == {"limitBytes": 1000 << 20, "usedBytes": 950 << 20, "groupBytes": 100 << 20, "room": 0}
    assert leader.told("w1", memory=MemoryReport(1000 << 20, 900 << 20, 100 << 20)) == ["A-g-1"]


def test_a_group_that_waits_for_its_turn_says_so(leader: Leader) -> None:
    leader.told("w1")
    leader.deploy(app("A", "A-g-1"))
    leader.told("w1", seen("A-g-1", GroupPhase.WAITING, "waits for its turn: 2 other groups are starting"))
    assert status(leader).state is WAITING
    assert "worker w1: it waits for its turn" in status(leader).reason


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
    leader.give_up_one_of_two()
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
    leader.elect(AppVersion("A", "text", 1, error="line 1: no such function"), term=2)
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
    leader.now += 1_000
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
        "failedPingAttempts": "1",
        "appStatus": "Active",
        "groupState": "RUNNING",
        "reason": "",
    }


def test_a_record_without_a_worker_has_no_fields_about_one(leader: Leader) -> None:
    leader.deploy(app("A", "A-g-1"))
    (record,) = status(leader).groups
    assert record.to_dict().keys().isdisjoint({"id", "state", "host", "port", "lastPingTimestamp"})
    assert record.to_dict()["appStatus"] == "waiting"
