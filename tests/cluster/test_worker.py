"""A worker without Spark, with real managers: how it finds its leader, what it runs, and how it ends."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from spdist.cluster.client import Caller, UnreachableNode
from spdist.cluster.link import LeaderLink
from spdist.cluster.manager import Manager
from spdist.cluster.messages import (
    JoinedState,
    RedirectHeartbeat,
    WorkerReport,
)
from spdist.cluster.wire import HeartbeatRequest
from spdist.cluster.worker import Worker
from spdist.config import Secret, load_config
from spdist.errors import ConfigError, EngineError, UnauthorizedError
from tests.cluster.shells import (
    APP,
    CONF,
    PASSWORD,
    FakeSpark,
    deadline,
    manager_config,
    plan,
    running_manager,
    settings,
    with_users,
    worker_config,
)

Eventually = Callable[..., Any]
(ONE, *_) = plan(APP).assignments()


# ------------------------------------------------------------------------------------------------- with real managers
@pytest.fixture
def manager(tmp_path: Path, eventually: Eventually) -> Iterator[Manager]:
    with running_manager(manager_config(tmp_path)) as running:
        eventually(running.leads, "it leads")
        yield running


def nodes(manager: Manager) -> list[str]:
    return [worker["id"] for worker in manager.nodes()["workers"]]


def test_a_worker_runs_what_is_deployed_and_says_goodbye(
    tmp_path: Path, manager: Manager, eventually: Eventually
) -> None:
    spark = FakeSpark()
    worker = Worker(worker_config(tmp_path, [manager.url]), launcher=spark)
    worker.start()
    try:
        manager.deploy(APP, replace=False)
        eventually(lambda: manager.app_status("Trades")["state"] == "RUNNING", "the app runs")
        assert len(spark.runtimes) == 3
        caller = Caller("admin", PASSWORD)
        assert len(caller.call("GET", f"{worker.url}/siddhi-apps?isActive=true").body) == 3
        assert caller.call("GET", f"{worker.url}/siddhi-apps/{ONE.name}").body == {"content": ONE.text}
        status = caller.call("GET", f"{worker.url}/siddhi-apps/{ONE.name}/status").body
        assert (status["status"], status["metrics"]["eventsIn"]) == ("active", 20.0)
        assert caller.call("GET", f"{worker.url}/siddhi-apps/Nobody/status").status == 404
        figures = caller.call("GET", f"{worker.url}/statistics").body
        assert (figures["serving"], figures["term"]) == (True, 1)
        assert 0 <= figures["workerMetrics"]["memoryUsage"] <= 1
        with httpx.Client(auth=("admin", PASSWORD)) as scraper:
            told = scraper.get(f"{worker.url}/metrics").text
            assert httpx.get(f"{worker.url}/metrics").status_code == 401
        families = {family.name: family.samples for family in text_string_to_metric_families(told)}
        (read,) = [s for s in families["spdist_events_in"] if s.labels["instance"] == ONE.name]
        assert (read.name, read.labels["app"], read.value) == ("spdist_events_in_total", "Trades", 20.0)
        states = {
            s.labels["state"]: s.value for s in families["spdist_group_state"] if s.labels["instance"] == ONE.name
        }
        assert states["RUNNING"] == 1 and sum(states.values()) == 1
        assert families["spdist_batch_seconds"][0].value == 0.012
        assert families["spdist_state_bytes"][0].value == 3456
        assert families["spdist_state_rows"][0].value == 17
        assert families["spdist_last_revision_timestamp_seconds"][0].value == 1_700_000_000
        caller.close()
    finally:
        worker.stop()
    assert all(runtime.told == ["start", "stop"] for runtime in spark.runtimes)
    assert nodes(manager) == []
    assert not any("silent" in one.message for one in manager._mind.announcements)


def test_workers_go_over_to_the_new_leader_and_go_on(tmp_path: Path, eventually: Eventually) -> None:
    spark = FakeSpark()
    with running_manager(manager_config(tmp_path, "manager-1")) as first:
        eventually(first.leads, "the first leads")
        with running_manager(manager_config(tmp_path, "manager-2")) as second:
            eventually(lambda: len(first.known_managers()) == 2, "the leader knows of the standby")
            # It is told of one manager only, and learns of the other.
            worker = Worker(worker_config(tmp_path, [first.url]), launcher=spark)
            worker.start()
            try:
                first.deploy(APP, replace=False)
                eventually(lambda: first.app_status("Trades")["state"] == "RUNNING", "the app runs")
                first.stop()
                eventually(second.leads, "the second leads")
                eventually(lambda: second.app_status("Trades")["state"] == "RUNNING", "it knows that the app runs")
                assert all(runtime.told == ["start"] for runtime in spark.runtimes), "nothing was stopped for that"
            finally:
                worker.stop()


def probe(sequence: int = 1) -> HeartbeatRequest:
    return HeartbeatRequest.from_report(WorkerReport("probe", "http://127.0.0.1:9", False, "life", sequence, 0))


def test_a_standby_sends_a_worker_to_the_leader(tmp_path: Path, manager: Manager, eventually: Eventually) -> None:
    with running_manager(manager_config(tmp_path, "manager-2")) as standby:
        redirect = RedirectHeartbeat
        ask = WorkerReport("probe", "http://127.0.0.1:9", False, "life", 1, 0)
        eventually(lambda: standby.heartbeat(ask, [])[0] != redirect(None), "the standby knows the leader")
        link = LeaderLink(worker_config(tmp_path, [standby.url]), timeout_s=2)
        reached = link.send(lambda: HeartbeatRequest.from_report(ask))
        link.close()
        assert reached is not None
        assert (reached[0].worker, reached[0].joined) == ("probe", JoinedState.NEW)


def test_a_dead_manager_is_passed_over(tmp_path: Path, manager: Manager) -> None:
    link = LeaderLink(worker_config(tmp_path, ["http://127.0.0.1:1", manager.url]), timeout_s=2)
    numbers = iter(range(1, 10))
    for _ in range(2):
        reached = link.send(lambda: probe(next(numbers)))
        assert reached is not None
    link.close()
    # 1 went to nobody; the leader was asked first the second time
    assert reached[0].sequence == 3


def test_nobody_there_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    link = LeaderLink(worker_config(tmp_path, ["http://127.0.0.1:1"]), timeout_s=2)
    with caplog.at_level(logging.WARNING):
        assert link.send(probe) is None
        assert link.send(probe) is None
    link.close()
    assert caplog.text.count("does not answer") == 1


def test_a_worker_whose_password_is_wrong_ends_and_says_what_to_check(tmp_path: Path, manager: Manager) -> None:
    config = worker_config(tmp_path, [manager.url], SPDIST_PASSWORD="wrong")
    worker = Worker(config, launcher=FakeSpark())
    with (
        deadline() as stop,
        pytest.raises(UnauthorizedError, match=f"user 'admin' was refused by manager {manager.url}") as caught,
    ):
        worker.run(stop)
    assert "deployment.config.resourceManagers" in str(caught.value)
    assert nodes(manager) == []
    with pytest.raises(UnreachableNode):
        Caller("admin", "wrong").call("GET", f"{worker.url}/health")


def test_a_worker_whose_user_may_not_register_ends_and_says_which_role_is_missing(
    tmp_path: Path, eventually: Eventually
) -> None:
    path = with_users(tmp_path, CONF / "manager.yaml", {"vera": "viewer"})
    config = load_config(path, role="manager", environment=settings(tmp_path, "manager-1"))
    with running_manager(config) as manager:
        eventually(manager.leads, "it leads")
        own = worker_config(tmp_path, [manager.url])
        vera = replace(own.deployment.https_interface, username="vera", password=Secret("vera-secret"))
        worker = Worker(replace(own, deployment=replace(own.deployment, https_interface=vera)), launcher=FakeSpark())
        with deadline() as stop, pytest.raises(UnauthorizedError, match="user 'vera' may not register") as caught:
            worker.run(stop)
        assert "role worker" in str(caught.value)


def test_a_manager_that_refuses_is_passed_over_while_another_takes_the_worker(
    tmp_path: Path, manager: Manager, eventually: Eventually
) -> None:
    odd = tmp_path / "odd"
    odd.mkdir()
    with running_manager(manager_config(odd, "manager-9", SPDIST_PASSWORD="another")) as other:
        worker = Worker(worker_config(tmp_path, [other.url, manager.url]), launcher=FakeSpark())
        worker.start()
        try:
            eventually(lambda: nodes(manager) == ["worker-1"], "it is registered")
        finally:
            worker.stop()


def test_a_worker_that_spark_fails_ends_with_that_error(
    tmp_path: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    worker = Worker(worker_config(tmp_path, [manager.url]))
    with deadline() as stop, pytest.raises(EngineError, match="Java"):
        worker.run(stop)


def test_a_worker_with_the_id_of_another_is_rejected_and_asks_again(
    tmp_path: Path, manager: Manager, eventually: Eventually
) -> None:
    first = Worker(worker_config(tmp_path, [manager.url]), launcher=FakeSpark())
    first.start()
    try:
        eventually(lambda: nodes(manager) == ["worker-1"], "the first is registered")
        second = Worker(worker_config(tmp_path, [manager.url]), launcher=FakeSpark())
        second.start()
        try:
            eventually(lambda: "in use at" in second.statistics()["message"], "the second knows that it is not wanted")
            first.stop()
            eventually(lambda: second.statistics()["serving"], "the second is taken once the first is gone")
        finally:
            second.stop()
    finally:
        first.stop()


def test_a_port_in_use_leaves_nothing_behind(tmp_path: Path, manager: Manager) -> None:
    taken = str(manager.me.https_interface.port)
    worker = Worker(worker_config(tmp_path, [manager.url], SPDIST_PORT=taken), launcher=FakeSpark())
    before = set(threading.enumerate())
    with pytest.raises(ConfigError, match="is in use"):
        worker.start()
    assert set(threading.enumerate()) <= before
    assert nodes(manager) == []


# ---------------------------------------------------------------------------------------------------------- processes
WAITER = """\
import sys, threading
from spdist.cluster.process import wait_for_end
print("ready", flush=True)
wait_for_end(threading.Event(), lambda: None)
print("ended", flush=True)
"""


def test_a_node_ends_with_the_process_that_it_belongs_to() -> None:
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    node = subprocess.Popen(
        [sys.executable, "-c", WAITER],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "SPDIST_END_WITH": str(owner.pid)},
    )
    try:
        assert node.stdout is not None
        assert node.stdout.readline() == "ready\n"
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        assert node.stdout.readline() == "ended\n"
        assert node.wait(20) == 0
    finally:
        for process in (owner, node):
            process.kill()
            process.wait()
