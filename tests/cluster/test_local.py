"""Clusters of processes on this machine: nodes that come up, are killed, come back and leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import spdist
from spdist.cluster.clients.overview import GroupStatus
from spdist.cluster.managers.streams import StreamAccess
from spdist.cluster.managers.topics import fed_topic, published_topic, stream_schema
from spdist.cluster.processes.local import LocalCluster
from spdist.cluster.processes.nodes import NodeProcess
from spdist.config.sections import Log, Transports
from spdist.errors import ClusterError, NotFoundError, OnDemandQueryError
from spdist.transports.opening import transport_settings
from tests.cluster.shells import APP, plan

Eventually = Callable[..., Any]

SIDDHI = """\
@app:name('Trades')
@app:playback
define stream Trades (symbol string, price double);
@sink(type='embedded', topic='Trades.Alerts')
define stream Alerts (symbol string, price double);
define table Kept (symbol string, price double);
@info(name='filter') @dist(execGroup='filter')
from Trades[price > 10.0] select symbol, price insert into Dear;
@info(name='alert') @dist(execGroup='alert')
from Dear#window.length(2) select symbol, avg(price) as price insert into Alerts;
@dist(execGroup='alert') from Dear select symbol, price insert into Kept;
"""


#: An event that says so never comes to its end.
STUCK = """\
@app:name('Stuck')
define stream S (k string, v long);
define function slow[python] return string {
    while data[0] == 'stuck':
        pass
    return data[0]
};
@info(name='slowly') @dist(execGroup='a') from S#window.length(2) select slow(k) as k, v insert into Out;
@info(name='last') @dist(execGroup='last') from Out select k, v insert into End;
"""


# ---------------------------------------------------------------------------------------------------------- processes
@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeProcess]:
    """A node whose "papermill" starts a child of its own session, writes what it is given, and waits."""
    module = tmp_path / "fake" / "papermill.py"
    module.parent.mkdir()
    module.write_text(
        "import os, subprocess, sys\n"
        "print('arguments', *sys.argv[1:], flush=True)\n"
        "print('secret in the environment', bool(os.environ.get('SPDIST_PASSWORD')), flush=True)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'], start_new_session=True)\n"
        "print('ready', flush=True)\n"
        "child.wait()\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(module.parent))
    home = tmp_path / "a home"
    home.mkdir()
    one = NodeProcess("manager-1", "manager", home, 1234, {"SPDIST_PASSWORD": "hidden", "SPDIST_HOME": str(home)})
    yield one
    one.kill()


def test_a_node_is_papermill_with_its_notebook_and_its_settings(node: NodeProcess, eventually: Eventually) -> None:
    node.start()
    eventually(lambda: "ready" in node.tail(), "it is up")
    log = node.log.read_text(encoding="utf-8")
    assert "notebooks/manager.ipynb" in log
    assert "--engine spdist" in log
    assert "a home/conf/manager-1" in log
    assert "secret in the environment True" in log
    assert "hidden" not in log
    conf = node.log.parent / "conf" / "manager-1" / "deployment.yaml"
    assert "hidden" not in conf.read_text(encoding="utf-8")
    assert node.memory() > 1_000_000


def test_killing_a_node_ends_its_children_too(node: NodeProcess, eventually: Eventually) -> None:
    node.start()
    eventually(lambda: "ready" in node.tail(), "it is up")
    processes = node.processes()
    assert len(processes) == 2
    assert os.getpid() not in [process.pid for process in processes]
    node.kill()
    assert node.processes() == []
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def test_orphans_of_a_node_are_found(node: NodeProcess, eventually: Eventually) -> None:
    node.start()
    eventually(lambda: "ready" in node.tail(), "it is up")
    parent = min(node.processes(), key=lambda process: process.create_time())
    parent.send_signal(signal.SIGKILL)
    assert node.wait(10)
    assert len(node.processes()) == 1, "its child lives on, with another parent"
    node.kill()
    assert node.processes() == []


def test_a_node_that_was_asked_to_stop_ends(node: NodeProcess, eventually: Eventually) -> None:
    assert node.wait(0), "one that was never started need not be waited for"
    node.start()
    eventually(lambda: "ready" in node.tail(), "it is up")
    assert node.exit_code is None
    assert not node.wait(0)
    node.ask_to_stop()
    assert node.wait(10)
    assert node.exit_code == -signal.SIGTERM


def test_other_processes_are_not_ours(node: NodeProcess) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        node.kill()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.communicate()


@pytest.mark.parametrize(("managers", "workers"), [(0, 1), (1, 0), (-1, 2)])
def test_a_cluster_has_one_of_each_at_least(managers: int, workers: int) -> None:
    with pytest.raises(ClusterError):
        LocalCluster(managers, workers)


def test_a_cluster_that_does_not_run_shows_itself_too() -> None:
    cluster = LocalCluster(1, 2)
    assert repr(cluster) == "LocalCluster(1 managers, 2 workers, not running)"
    assert "not running" in cluster._repr_html_()
    with pytest.raises(NotFoundError):
        cluster.node("worker-9")


# ------------------------------------------------------------------------------------------------------------- topics
def test_topics_of_streams_are_found() -> None:
    topology = plan(APP)
    assert fed_topic(topology, "S0").name == "Trades.S0"
    assert published_topic(topology, "S0").name == "Trades.S0"
    assert published_topic(topology, "S2").name == "Trades.S2"
    with pytest.raises(ClusterError, match="is not fed from outside") as fed:
        fed_topic(topology, "S1")
    assert "those are: S0" in str(fed.value)
    with pytest.raises(ClusterError, match="is not published") as published:
        published_topic(topology, "Inner")
    assert "@sink(type='embedded', topic='Trades.Inner')" in str(published.value)


def test_the_schema_of_a_stream_is_that_of_the_checked_app() -> None:
    assert [name for name, _ in stream_schema(SIDDHI, "Dear")] == ["symbol", "price"]
    with pytest.raises(NotFoundError, match="has no stream Cheap"):
        stream_schema(SIDDHI, "Cheap")


def test_streams_of_an_app_with_functions_of_its_own_are_fed_and_read(tmp_path: Path) -> None:
    streams = StreamAccess(transport_settings(Transports(Log(tmp_path))))
    streams.feed(STUCK, "S", None).send([(1000, ("stuck", 1))])
    assert streams.read(STUCK, "S") == [(1000, ("stuck", 1))]
    streams.close()


# ------------------------------------------------------------------------------------------------------- a real cluster
def loses_its_jvm(cluster: LocalCluster, eventually: Eventually) -> None:
    """Kill the JVM of a worker: its group goes to the other one, and is not put back until Spark is up again."""
    name = "Trades-alert-1"
    eventually(lambda: group_of(cluster, name).state == "RUNNING", "it runs", timeout_s=60)
    worker = cluster.worker_of(name)
    (java,) = [one for one in cluster.node(worker).processes() if one.name() == "java"]
    java.kill()
    eventually(lambda: group_of(cluster, name).worker not in ("", worker), "it goes elsewhere", timeout_s=10)
    told: list[str] = []

    def back() -> bool:
        status = cluster.status()
        (state,) = [(one.state, one.reason) for one in status.workers if one.id == worker]
        told.append(state[1])
        held = [group.name for app in status.apps for group in app.groups if group.worker == worker]
        assert state[0] == "READY" or name not in held, "nothing is moved onto a worker that is not ready"
        return state[0] == "READY"

    eventually(lambda: back() and any(told), "the same process has another Spark", timeout_s=90)
    # Its reason may have been there too briefly to be seen; the journal keeps it.
    moved = [one["message"] for one in cluster.client.journal(app="Trades", kind="group-placed")]
    assert any("its JVM ended with signal 9" in reason for reason in (*told, *moved))
    assert cluster.node(worker).exit_code is None
    group = group_of(cluster, name)
    assert (group.failures, group.state != "FAILED") == (0, True), group.reason


def group_of(cluster: LocalCluster, name: str) -> GroupStatus:
    return next(group for app in cluster.status().apps for group in app.groups if group.name == name)


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
def test_a_cluster_runs_an_app_and_survives_the_loss_of_leader_and_worker(
    tmp_path: Path, cluster_settings: dict[str, str], eventually: Eventually
) -> None:
    home = tmp_path / "with a space"
    events = [(1000 * i, ("IBM", 5.0 + i)) for i in range(1, 41)]
    wanted = [(ts, ("IBM", price if i == 0 else price - 0.5)) for i, (ts, (_, price)) in enumerate(events[5:])]
    with LocalCluster(managers=2, workers=2, directory=home, settings=cluster_settings, quiet=True) as cluster:
        app = cluster.deploy(SIDDHI).wait(timeout_s=90)
        feed = app.feed("Trades")
        feed.send(events[:20])
        eventually(lambda: len(cluster.read(app, "Alerts")) >= 14, "results of the first half", timeout_s=60)
        page = cluster.client.events(app, "Alerts", limit=10)
        leader = cluster.kill_leader()
        worker = cluster.worker_of("Trades-alert-1")
        cluster.kill(worker)
        assert cluster.node(leader).processes() == cluster.node(worker).processes() == []
        feed.send(events[20:])
        feed.advance(100_000)
        eventually(lambda: len(cluster.read(app, "Alerts")) >= len(wanted), "results of the second half", timeout_s=90)
        assert cluster.read(app, "Alerts") == app.read("Alerts") == wanted
        evidence = spdist.why(app, "Alerts")
        assert [cause.timestamp for cause in evidence.causes] == [39_000, 40_000], "the window behind the last alert"
        # Of two groups, one of which was killed: what their states hold says the same, and where it stands.
        explained = app.explain("Alerts", wanted[-1])
        assert [cause.timestamp for cause in explained.causes] == [39_000, 40_000]
        assert {cause.place.topic for cause in explained.causes if cause.place} == {"Trades.Trades"}
        assert (explained.minimal, explained.sent, explained.notes) == (True, len(events), ())
        # What the killed leader gave, and what the other one gives behind its cursor.
        assert page.events + list(app.tail("Alerts", page.next)) == wanted
        # Asked where it runs now, of what it kept where it ran before.
        assert cluster.query(app, "from Kept select count() as n") == [(len(wanted),)]
        with pytest.raises(OnDemandQueryError, match="nothing"):
            cluster.query(app, "from Kept select nothing")
        asked = json.dumps({"appName": app.name, "query": "from Kept select count() as n"})
        assert cluster.client.call("POST", "/stores/query", content=asked, timeout_s=30) == {"records": [[len(wanted)]]}
        assert cluster.leader() != leader
        assert cluster.worker_of("Trades-alert-1") != worker
        cluster.restart(worker)
        assert {one.id for one in cluster.status().workers} == {"worker-1", "worker-2"}
        assert cluster.memory() > 100_000_000
        loses_its_jvm(cluster, eventually)
        feed.send(last := [(1000 * i, ("IBM", 5.0 + i)) for i in range(101, 105)])
        feed.advance(200_000)
        eventually(
            lambda: len(cluster.read(app, "Alerts")) == len(wanted) + len(last), "no more, no less", timeout_s=90
        )
    assert not any(cluster.processes().values())
    assert (home / "worker-1.ipynb").exists()


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
def test_a_batch_that_stands_is_told_by_the_manager_and_undeploying_ends_it(eventually: Eventually) -> None:
    settings = {"SPDIST__SCRIPT__PYTHON_ENABLED": "true"}
    with LocalCluster(managers=1, workers=1, settings=settings, quiet=True) as cluster:
        app = cluster.deploy(STUCK).wait(timeout_s=180)
        feed = cluster.feed(app, "S")
        feed.send([(1000, ("a", 1)), (2000, ("stuck", 2)), (3000, ("b", 3))])
        path = "/siddhi-apps/Stuck/status"

        def stands() -> dict[str, Any]:
            status: dict[str, Any] = cluster.client.call("GET", path)
            return status if "stands" in status["reason"] else {}

        status = eventually(stands, "the manager tells at which event it stands", 120)
        told = {group["name"]: group["reason"] for group in status["groups"]}
        assert told["Stuck-last-1"] == ""
        assert status["reason"] == f"Stuck-a-1: {told['Stuck-a-1']}"
        for part in (
            "the event of 2000 ms of stream 'S' at Stuck.S partition 0 up to offset 1",
            "5 s in query 'slowly'",
        ):
            assert part in told["Stuck-a-1"]
        assert (status["state"], status["status"]) == ("RUNNING", "active")
        cluster.client.call("DELETE", "/siddhi-apps/Stuck")
        eventually(lambda: not cluster.client.nodes()["undeploying"], "no worker runs a group of it", 10)
        (worker,) = cluster.client.nodes()["workers"]
        assert (worker["ready"], worker["groups"]) == (True, [])
