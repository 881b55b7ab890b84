"""A server: which files become apps, what its interface takes, what becomes of an app that fails, and of one killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from spdist.cluster.clients.client import ClusterClient
from spdist.cluster.elections.election import Lease
from spdist.cluster.leader.instances import RestartPolicy
from spdist.cluster.processes.local_servers import LocalServers
from spdist.cluster.protocol.messages import GroupPhase, GroupReport, WorkerReport, fingerprint
from spdist.cluster.server_node import ServerNode
from spdist.cluster.servers.app_directory import AppDirectory, FileChanges, Stamp, changes
from spdist.cluster.servers.own_leader import OwnLeader
from spdist.cluster.workers.state import WorkerState
from spdist.config import Config, load_config
from spdist.errors import ClusterError, ConfigError, NotFoundError, SpdistError
from spdist.panels import MonitorPanel, TopologyPanel
from spdist.planning.topology import Assignment
from spdist.services.process import free_ports
from spdist.workspace import workspace
from tests.cluster.shells import PASSWORD, FakeSpark, FakeStatus

Eventually = Callable[..., Any]

SETTINGS = """\
wso2.carbon: {{id: server-1}}
wso2.transport.http:
  listenerConfigurations:
    - {{id: default, host: 127.0.0.1, port: 0}}
deployment.config: {{type: default}}
wso2.artifact.deployment: {{updateInterval: 1, directory: apps}}
state.persistence: {{config: {{location: state}}}}
transports: {{log: {{directory: topics}}}}
auth.configs:
  userManager:
    userStore:
      users: [{{user: {{username: admin, password: "${{env:P}}", roles: admin}}}}]
{more}"""


def text_of(name: str, factor: int = 2) -> str:
    return (
        f"@app:name('{name}') define stream S (v int); "
        f"@sink(type='embedded', topic='{name}.T') define stream T (v int); "
        f"from S select v * {factor} as v insert into T;"
    )


def server_config(home: Path, more: str = "") -> Config:
    (home / "deployment.yaml").write_text(SETTINGS.format(more=more))
    return load_config(home, role="server", environment={"P": PASSWORD})


@contextmanager
def running(home: Path, spark: FakeSpark | None = None) -> Iterator[ServerNode]:
    node = ServerNode(server_config(home), launcher=spark or FakeSpark())
    node.start()
    try:
        yield node
    finally:
        node.stop()


def states(node: ServerNode) -> dict[str, str]:
    return {one["name"]: one["state"] for one in node.apps()}


# ---------------------------------------------------------------------------------------------------------- decisions
A, B = Stamp(1, 10, 1), Stamp(2, 11, 1)


@pytest.mark.parametrize(
    ("known", "before", "now", "found"),
    [
        ({}, {}, {}, FileChanges()),
        ({"X": A}, {"X": A}, {"X": A}, FileChanges()),
        ({}, {}, {"X": A}, FileChanges(unsettled=True)),
        ({}, {"X": A}, {"X": A}, FileChanges(written=("X",))),
        ({}, {"X": A}, {"X": B}, FileChanges(unsettled=True)),
        ({"X": A}, {"X": A}, {"X": B}, FileChanges(unsettled=True)),
        ({"X": A}, {"X": B}, {"X": B}, FileChanges(written=("X",))),
        ({"X": A}, {"X": A}, {}, FileChanges(unsettled=True)),
        ({"X": A}, {}, {}, FileChanges(removed=("X",))),
        ({"X": A, "Y": A}, {"Y": B, "Z": A}, {"Y": B, "Z": B}, FileChanges(("Y",), ("X",), unsettled=True)),
    ],
)
def test_a_change_counts_when_two_looks_have_seen_the_same(
    known: dict[str, Stamp], before: dict[str, Stamp], now: dict[str, Stamp], found: FileChanges
) -> None:
    assert changes(known, before, now) == found


def test_only_plain_siddhi_files_are_apps(tmp_path: Path) -> None:
    directory = AppDirectory(tmp_path)
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".hidden.siddhi").touch()
    (tmp_path / "folder.siddhi").mkdir()
    (tmp_path / "dangling.siddhi").symlink_to(tmp_path / "nowhere")
    written = directory.write("X", "text")
    assert directory.scan() == {"X": written}
    assert directory.read("X", 100) == b"text"
    directory.remove("X")
    directory.remove("X")
    assert sorted(os.listdir(tmp_path)) == [".hidden.siddhi", "dangling.siddhi", "folder.siddhi", "notes.txt"]


INTERVAL_MS = 1000
LEASE = Lease(1, 10_000)


def assignment(name: str, text: str = "text") -> Assignment:
    return Assignment(name, name, name, text, False, (), ())


def report(number: int, *groups: tuple[Assignment, GroupPhase]) -> WorkerReport:
    told = tuple(GroupReport(a.name, a.app, phase, fingerprint(a), "boom") for a, phase in groups)
    return WorkerReport("server-1", "http://127.0.0.1:1", False, "life", number, 1, told)


def test_an_app_that_fails_is_forgotten_started_again_later_and_left_in_the_end() -> None:
    leader = OwnLeader("server-1", INTERVAL_MS, policy=RestartPolicy(max_restarts=1, first_delay_ms=100))
    one = assignment("X")
    leader.deploy("text", one)
    failed, running = (one, GroupPhase.FAILED), (one, GroupPhase.RUNNING)
    assert leader.answer(report(1), 0, LEASE).assignments == (one,)
    assert leader.answer(report(2, running), 10, LEASE).assignments == (one,)
    assert leader.answer(report(3, failed), 20, LEASE).assignments == ()
    assert [app.name for app in leader.failed] == ["X"]
    assert leader.answer(report(4), 50, LEASE).assignments == ()
    assert leader.answer(report(5), 120, LEASE).assignments == (one,)
    for number in (6, 7):
        assert leader.answer(report(number, failed), 150, LEASE).assignments == (one,), "it stays, as FAILED"
    leader.retry("X")
    assert leader.answer(report(8, failed), 200, LEASE).assignments == (), "forgotten first"
    assert leader.answer(report(9), 210, LEASE).assignments == (one,)


def test_a_wrong_text_leaves_the_one_before_running() -> None:
    leader = OwnLeader("server-1", INTERVAL_MS)
    one = assignment("X")
    leader.deploy("text", one)
    leader.refuse("X", "wrong", "no such stream")
    leader.refuse("Y", "wrong", "no such stream")
    assert leader.answer(report(1), 0, LEASE).assignments == (one,)
    assert [(app.name, app.text, app.error) for app in leader] == [
        ("X", "wrong", "no such stream"),
        ("Y", "wrong", "no such stream"),
    ]


def test_the_fence_is_the_end_of_the_lease_and_a_new_term_begins_anew() -> None:
    leader, worker = OwnLeader("server-1", INTERVAL_MS), WorkerState("server-1", "http://127.0.0.1:1", False, "life")
    one = assignment("X")
    leader.deploy("text", one)
    sent = worker.next_report([], 1_000)
    assert worker.on_answer(leader.answer(sent, 1_007, Lease(4, 1_800)), 1_008)
    assert (worker.fence_at_ms, worker.known_term) == (1_793, 4), "earlier by what making the report has taken"
    failed = report(2, (one, GroupPhase.FAILED))
    assert leader.answer(failed, 1_100, Lease(4, 1_800)).assignments == ()
    assert leader.answer(report(3), 1_200, Lease(5, 3_000)).assignments == (one,), "what failed before is forgiven"


# -------------------------------------------------------------------------------------------------------------- files
def test_files_are_deployed_updated_and_undeployed_and_a_bad_one_keeps_nobody(
    tmp_path: Path, eventually: Eventually
) -> None:
    apps = tmp_path / "apps"
    apps.mkdir()
    (apps / "Good.siddhi").write_text(text_of("Good"))
    (apps / "Bad.siddhi").write_text("@app:name('Bad') define strea")
    (apps / "Other.siddhi").write_text(text_of("Another"))
    (apps / "Bytes.siddhi").write_bytes(b"\xff\xfe")
    spark = FakeSpark()
    with running(tmp_path, spark) as node:
        expected = {"Good": "RUNNING", "Bad": "FAILED", "Other": "FAILED", "Bytes": "FAILED"}
        eventually(lambda: states(node) == expected, "the good one runs, the others say what is wrong")
        assert "line 1" in node.app_status("Bad")["reason"]
        assert "holds the app Another" in node.app_status("Other")["reason"]
        assert "not UTF-8" in node.app_status("Bytes")["reason"]
        (apps / "Good.siddhi").write_text(text_of("Good", 3))
        eventually(lambda: len(spark.of("Good")) == 2, "the new text is started")
        assert spark.of("Good")[0].told == ["start", "stop"]
        assert spark.of("Good")[1].assignment.text == text_of("Good", 3)
        (apps / "Good.siddhi").write_text("nonsense")
        eventually(lambda: "the text before runs on" in node.app_status("Good")["reason"], "it is told")
        assert node.app_status("Good")["status"] == "active"
        for name in ("Good", "Bad", "Other", "Bytes"):
            (apps / f"{name}.siddhi").unlink()
        eventually(lambda: states(node) == {}, "all are undeployed")
        eventually(lambda: spark.of("Good")[1].told == ["start", "stop"], "it is stopped")


def test_apps_stay_while_the_directory_cannot_be_read(tmp_path: Path, eventually: Eventually) -> None:
    with running(tmp_path) as node:
        node.deploy(text_of("Kept"), replace=False)
        eventually(lambda: states(node) == {"Kept": "RUNNING"}, "it runs")
        (tmp_path / "apps").rename(tmp_path / "away")
        for _ in range(3):
            assert node.scan() is False
        assert states(node) == {"Kept": "RUNNING"}


# ---------------------------------------------------------------------------------------------------------- interface
def test_what_is_deployed_over_rest_is_a_file_and_there_after_a_restart(tmp_path: Path, eventually: Eventually) -> None:
    file = tmp_path / "apps/Doubles.siddhi"
    with running(tmp_path) as node, httpx.Client(base_url=node.url, auth=("admin", PASSWORD)) as http:
        text = {"content-type": "text/plain"}
        assert httpx.get(f"{node.url}/siddhi-apps").status_code == 401
        assert httpx.get(f"{node.url}/health").json() == {"status": "healthy"}
        assert http.get("/nodeDetails/runTime").text == "worker"
        assert http.post("/siddhi-apps", content="nonsense", headers=text).status_code == 400
        for name in ("revisions", "../up", ".hidden"):
            assert http.post("/siddhi-apps", content=text_of(name), headers=text).status_code == 400, name
        created = http.post("/siddhi-apps", content=text_of("Doubles"), headers=text)
        assert (created.status_code, created.headers["location"]) == (201, "/siddhi-apps/Doubles")
        assert file.read_text() == text_of("Doubles")
        assert http.post("/siddhi-apps", content=text_of("Doubles"), headers=text).status_code == 409
        assert "change" not in created.json()
        updated = http.put("/siddhi-apps", content=text_of("Doubles", 3), headers=text)
        assert (updated.status_code, updated.json()["change"]["topics"]["keep"]) == (200, ["Doubles.S", "Doubles.T"])
        eventually(lambda: http.get("/siddhi-apps?isActive=true").json() == ["Doubles"], "it runs")
        assert http.get("/siddhi-apps/Doubles").json() == {"content": text_of("Doubles", 3)}
        assert http.get("/siddhi-apps/Doubles/status").json()["metrics"]["eventsIn"] == 20
        assert http.get("/siddhi-apps/Nobody/status").status_code == 404
        assert [one["appName"] for one in http.get("/siddhi-apps/statistics").json()] == ["Doubles"]
        assert http.get("/siddhi-apps/Doubles/elements").json()
        assert http.get("/statistics").json()["serving"] is True
        assert 'instance="Doubles"' in http.get("/metrics").text
        fed = {"events": [{"timestamp": 1, "data": [7]}]}
        assert http.post("/siddhi-apps/Doubles/streams/S/events", json=fed).json() == {"accepted": 1}
        assert http.post("/siddhi-apps/Doubles/streams/T/events", json=fed).status_code == 400
        assert http.get("/siddhi-apps/Doubles/streams/S/events").json()["events"] == fed["events"]
    with running(tmp_path) as node, httpx.Client(base_url=node.url, auth=("admin", PASSWORD)) as http:
        eventually(lambda: states(node) == {"Doubles": "RUNNING"}, "it is there again")
        assert [http.delete("/siddhi-apps/Doubles").status_code for _ in range(2)] == [200, 404]
        assert not file.exists()
        eventually(lambda: states(node) == {}, "it is gone")
        with ClusterClient([node.url], "admin", PASSWORD) as client:
            app = client.deploy(text_of("Doubles")).wait()
            assert (client.apps(), file.read_text()) == (["Doubles"], text_of("Doubles"))
            status = client.status()
            assert (status.leader, status.term, [one.state for one in status.workers]) == ("server-1", 1, ["READY"])
            assert [(one.name, one.state, one.groups[0].worker) for one in status.apps] == [
                ("Doubles", "RUNNING", "server-1")
            ]
            (group,) = app.topology()["groups"]
            assert [one["stream"] for one in group["outputs"]] == ["T"]
            assert "Doubles" in str(MonitorPanel(client))
            assert "Doubles" in str(TopologyPanel(app))
            assert client.feed("Doubles", "S").send([(5, (1,)), (6, (2,))]) == 2
            assert client.read("Doubles", "S") == [(1, (7,)), (5, (1,)), (6, (2,))]
            app.undeploy()
            assert client.nodes()["workers"][0]["groups"] == []


KEPT = (
    "@app:name('Sums') define stream S (v int); @sink(type='embedded', topic='Sums.T') define stream T (v long); "
    "@info(name='kept') from S#window.length(3) select sum(v) as v insert into T; "
    "@info(name='other') from S#window.length({length}) select sum(v) as v insert into U;"
)


def test_an_update_tells_what_becomes_of_what_runs(tmp_path: Path, eventually: Eventually) -> None:
    with running(tmp_path) as node, ClusterClient([node.url], "admin", PASSWORD) as client:
        assert client.deploy(KEPT.format(length=4)).change is None
        change = client.deploy(KEPT.format(length=5)).change
        assert change is not None
        outcomes = {one.label: one.outcome for one in change.elements["Sums"]}
        assert outcomes == {"query 'kept'": "keeps", "query 'other'": "starts empty"}
        # What runs is what counts, not what a file holds that is wrong.
        (tmp_path / "apps/Sums.siddhi").write_text("@app:name('Sums') nonsense")
        eventually(lambda: "the text before runs on" in node.app_status("Sums")["reason"], "the file was refused")
        again = client.deploy(KEPT.format(length=5)).change
        assert again is not None
        assert not again


def test_a_failed_app_is_started_again_and_says_why(tmp_path: Path, eventually: Eventually) -> None:
    spark = FakeSpark()
    with running(tmp_path, spark) as node:
        node.deploy(text_of("Frail"), replace=False)
        eventually(lambda: states(node) == {"Frail": "RUNNING"}, "it runs")
        spark.runtimes[0].current = FakeStatus(state="FAILED", error="the broker is gone")
        eventually(lambda: "started again: the broker is gone" in node.app_status("Frail")["reason"], "it says why")
        eventually(lambda: len(spark.runtimes) == 2, "it is started again")
        eventually(lambda: node.app_status("Frail")["status"] == "active", "and runs")


# ----------------------------------------------------------------------------------------------------------- settings
def test_settings_of_other_nodes_are_refused(tmp_path: Path) -> None:
    config = server_config(tmp_path)
    assert (config.deployment.type, config.artifacts.update_interval_s) == ("default", 1)
    with pytest.raises(ConfigError, match=r"type default is not for a worker") as caught:
        load_config(tmp_path, role="worker", environment={"P": PASSWORD})
    assert "spdist server" in str(caught.value)
    path = tmp_path / "deployment.yaml"
    given = path.read_text()
    path.write_text(given.replace("deployment.config: {type: default}\n", ""))
    assert load_config(tmp_path, role="server", environment={"P": PASSWORD}).deployment.type == "default"
    path.write_text(given.replace("type: default", "type: distributed"))
    with pytest.raises(ConfigError, match=r"type distributed is not for a server"):
        load_config(tmp_path, role="server", environment={"P": PASSWORD})
    path.write_text(given.replace("transports: {", "transports: {default: kafka, kafka: {bootstrapServers: 'h:1'}, "))
    assert load_config(tmp_path, role="server", environment={"P": PASSWORD}).transports.default == "kafka"


def test_local_servers_write_below_a_directory_of_their_own() -> None:
    here = {"SPDIST_NODE_ID": "server-1", "SPDIST_PORT": "0", "SPDIST_PASSWORD": "p"}
    here |= {"SPDIST_HOME": "/srv", "SPDIST_SERVER_HOME": "/srv/a b", "SPDIST_SERVER_TYPE": "ha", "SPDIST_GROUP": "g"}
    config = load_config(workspace() / "conf/local/server.yaml", role="server", environment=here)
    places = (config.state_persistence.location, config.transports.log.directory, config.artifacts.directory)
    assert {Path(one).parent for one in places} == {Path("/srv/a b")}


def test_local_servers_that_do_not_run_show_themselves_too() -> None:
    servers = LocalServers(2)
    assert repr(servers) == "LocalServers(2 servers, not running)" in servers._repr_html_()
    with pytest.raises(ClusterError):
        LocalServers(0)


# -------------------------------------------------------------------------------------------------------------- Spark
@contextmanager
def process(home: Path) -> Iterator[subprocess.Popen[str]]:
    """A server of its own, as users start it."""
    command = [sys.executable, "-m", "spdist", "server", "--conf", str(home)]
    with (home / "server.log").open("a") as log:
        node = subprocess.Popen(command, env={**os.environ, "P": PASSWORD}, stderr=log, text=True)
    try:
        yield node
    finally:
        node.kill()
        node.wait()


@pytest.mark.spark
@pytest.mark.cluster
def test_a_server_that_is_killed_goes_on_where_it_was(tmp_path: Path, eventually: Eventually) -> None:
    spark = "spark: {cores: 1, driverMemory: 512m, optimizeFor: start, tickInterval: 200, mergeWait: 0}"
    (port,) = free_ports(1)
    (tmp_path / "deployment.yaml").write_text(SETTINGS.format(more=spark).replace("port: 0", f"port: {port}"))
    total = (
        "@app:name('Sums') define stream S (v int); "
        "@sink(type='embedded', topic='Sums.T') define stream T (total long); "
        "define table Kept (total long); "
        "from S select sum(v) as total insert into T; from T select total insert into Kept;"
    )
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps/Sums.siddhi").write_text(total)
    with ClusterClient([f"http://127.0.0.1:{port}"], "admin", PASSWORD) as client:

        def apps() -> list[str]:
            with contextlib.suppress(SpdistError):
                return client.apps()
            return []

        def totals() -> list[int]:
            return [row[0] for _, row in client.read("Sums", "T")]

        def kept() -> list[tuple[Any, ...]]:
            with contextlib.suppress(NotFoundError):  # it is starting
                return client.query("Sums", "from Kept select count() as n")
            return []

        with process(tmp_path):
            eventually(lambda: apps() == ["Sums"], "the file is an app", 60)
            feed = client.feed("Sums", "S")
            feed.send((at, (at,)) for at in range(1, 6))
            eventually(lambda: totals() == [1, 3, 6, 10, 15], "all of them are there", 60)
            app = client.deployment("Sums").wait()
            assert client.query("Sums", "from Kept on total > 5L select count() as n") == [(3,)]
            revision = app.backup()
        with process(tmp_path) as node:
            eventually(lambda: apps() == ["Sums"], "it is there again", 60)
            feed.send((at, (at,)) for at in range(6, 9))
            eventually(lambda: totals()[5:], "it goes on", 60)
            eventually(lambda: totals() == [1, 3, 6, 10, 15, 21, 28, 36], "none is lost, none is doubled")
            assert app.revisions() == [revision]
            app.restore(revision)
            eventually(lambda: kept() == [(8,)], "what came after it came again", 60)
            feed.send([(9, (9,))])
            eventually(lambda: totals() == [1, 3, 6, 10, 15, 21, 28, 36, 45], "readers get nothing twice", 60)
            node.terminate()
            assert node.wait(60) == 0
