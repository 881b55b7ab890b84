"""A worker without Spark, with real managers: how it finds its leader, what it runs, and how it ends."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from spdist.cluster.clients.client import Caller, UnreachableNode
from spdist.cluster.manager import Manager
from spdist.cluster.protocol.messages import (
    JoinedState,
    RedirectHeartbeat,
    WorkerReport,
)
from spdist.cluster.protocol.wire import HeartbeatRequest
from spdist.cluster.worker import Worker
from spdist.cluster.workers.link import LeaderLink
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
    assert not any("silent" in one.message for one in manager.journal.read())


def test_a_leader_that_does_not_know_what_a_worker_leaves_out_is_told_all(
    tmp_path: Path, manager: Manager, eventually: Eventually
) -> None:
    def groups() -> int:
        return manager._state_loop.ask(lambda state, _: len(state.members.groups_of("worker-1")))

    spark = FakeSpark()
    worker = Worker(worker_config(tmp_path, [manager.url]), launcher=spark)
    worker.start()
    try:
        manager.deploy(APP, replace=False)
        eventually(lambda: manager.app_status("Trades")["state"] == "RUNNING", "the app runs")
        manager._state_loop.ask(lambda state, _: state.members.get("worker-1").groups.popitem())
        assert groups() < 3
        eventually(lambda: groups() == 3, "the leader knows all groups again", timeout_s=5)
        assert all(runtime.told == ["start"] for runtime in spark.runtimes), "nothing was stopped for that"
    finally:
        worker.stop()


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
        reached = eventually(lambda: link.send(lambda: HeartbeatRequest.from_report(ask)), "the leader answers")
        link.close()
        assert (reached[0].worker, reached[0].joined) == ("probe", JoinedState.NEW)


def test_a_dead_manager_is_passed_over_and_gets_no_heartbeat(
    tmp_path: Path, manager: Manager, eventually: Eventually
) -> None:
    link = LeaderLink(worker_config(tmp_path, ["http://127.0.0.1:1", manager.url]), timeout_s=2)
    numbers = iter(range(1, 10))
    for number in (1, 2):
        reached = eventually(lambda: link.send(lambda: probe(next(numbers))), "the leader answers")
        assert reached[0].sequence == number
    link.close()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a host that takes connections and says nothing, as a process that was stopped does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_a_silent_manager_does_not_delay_a_living_one(tmp_path: Path, manager: Manager, silent: str) -> None:
    link = LeaderLink(worker_config(tmp_path, [silent, manager.url]), timeout_s=60)
    began_s = time.monotonic()
    while link.send(probe) is None:
        assert time.monotonic() - began_s < 10, "the silent one is waited for"
    link.close()


def test_a_heartbeat_under_way_to_a_silent_leader_does_not_keep_from_the_next(
    tmp_path: Path, manager: Manager, silent: str
) -> None:
    link = LeaderLink(worker_config(tmp_path, [silent, manager.url]), timeout_s=60)
    link._leader = silent
    numbers = iter(range(1, 10))
    began_s = time.monotonic()
    reached = link.send(lambda: probe(next(numbers)))
    link.close()
    assert reached is not None
    assert reached[0].sequence == 2, "the first went to the silent one, and is given up"
    assert time.monotonic() - began_s < 20


def test_a_manager_that_led_before_is_not_followed(tmp_path: Path, manager: Manager, silent: str) -> None:
    link = LeaderLink(worker_config(tmp_path, [manager.url]), timeout_s=1)
    link._term = 2  # as if a later leader had answered
    for _ in range(8):
        assert link.send(probe) is None
    link.close()
    assert nodes(manager) == []


def test_a_lost_leader_is_looked_for_every_quarter_of_a_second_while_groups_run(
    tmp_path: Path, eventually: Eventually
) -> None:
    """``leaderRetryInterval`` is WSO2's 10 s: a worker that waited for so long would have stopped its groups."""
    asked: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as other:

        def count() -> None:
            with contextlib.suppress(OSError):
                while True:
                    other.accept()[0].close()
                    asked.append(time.monotonic())

        threading.Thread(target=count, daemon=True).start()
        with running_manager(manager_config(tmp_path)) as leader:
            eventually(leader.leads, "it leads")
            known = [leader.url, f"http://127.0.0.1:{other.getsockname()[1]}"]
            config = worker_config(tmp_path, known, SPDIST__DEPLOYMENT__LEADER_RETRY_INTERVAL="10s")
            worker = Worker(config, launcher=FakeSpark())
            worker.start()
            try:
                eventually(lambda: worker.statistics()["serving"], "it serves")
                asked.clear()
                leader.stop()
                eventually(lambda: len(asked) >= 4, "the other manager is asked again and again", timeout_s=9)
            finally:
                worker.stop()
        other.shutdown(socket.SHUT_RDWR)


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


SHELL = """\
import os, subprocess, sys
if sys.argv[2] == "kernel":
    os.environ["JPY_PARENT_PID"] = str(os.getpid())
print(subprocess.Popen([sys.executable, "-c", sys.argv[1]]).pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["program", "kernel"])
def test_a_kernel_ends_with_its_notebook_server_and_a_program_outlives_its_shell(kind: str) -> None:
    shell = subprocess.Popen(
        [sys.executable, "-c", SHELL, WAITER, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert shell.stdin is not None and shell.stdout is not None
    node = psutil.Process(int(shell.stdout.readline()))
    try:
        assert shell.stdout.readline() == "ready\n"
        shell.stdin.close()
        shell.wait(10)
        said = select.select([shell.stdout], [], [], 20 if kind == "kernel" else 2)[0]
        assert (shell.stdout.readline() if said else "goes on") == ("ended\n" if kind == "kernel" else "goes on")
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            node.kill()
        shell.kill()
        shell.stdout.close()
