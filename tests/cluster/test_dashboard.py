"""What WSO2's dashboard asks of managers and workers: elements, ages, topics, roles, load, and what a node runs on."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from spdist.cluster.clients.client import ClusterClient
from spdist.cluster.manager import Manager
from spdist.cluster.worker import Worker
from spdist.config import load_config
from spdist.errors import NotFoundError, SiddhiAppError
from tests.cluster.shells import CONF, PASSWORD, FakeSpark, manager_config, settings, with_users, worker_config

Eventually = Callable[..., Any]

APP = """@app:name('Trades') define stream S (k string, v int); define table T (k string, v int);
@info(name='keep') @dist(execGroup='keep') from S[v > 1] select k, v insert into T;
@info(name='sum') @dist(execGroup='sum') from S#window.length(9) select k, sum(v) as total insert into Totals;
@info(name='big') @dist(execGroup='big') from Totals[total > 9] select k insert into Big;"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Manager, Worker]]:
    """A manager that plans as it does for users, and a worker that runs an app."""
    home = tmp_path_factory.mktemp("home")
    path = with_users(home, CONF / "manager.yaml", {"vera": "viewer", "dora": "developer"})
    manager = Manager(load_config(path, role="manager", environment=settings(home, "manager-1")))
    manager.start()
    worker = Worker(worker_config(home, [manager.url]), launcher=FakeSpark())
    try:
        worker.start()
        with ClusterClient([manager.url], "admin", PASSWORD) as client:
            client.deploy(APP).wait(timeout_s=30)
        yield manager, worker
    finally:
        worker.stop()
        manager.stop()


def ask(node: Manager | Worker, path: str, method: str = "GET", user: str = "admin", **more: Any) -> httpx.Response:
    secret = PASSWORD if user == "admin" else f"{user}-secret"
    return httpx.request(method, f"{node.url}{path}", auth=(user, secret), trust_env=False, timeout=30, **more)


def test_the_elements_of_an_app_and_of_a_group_instance(nodes: tuple[Manager, Worker]) -> None:
    manager, worker = nodes
    edges = ask(manager, "/siddhi-apps/Trades/elements").json()
    assert [(e["queryName"], e["inputStreamId"], e["outputStreamId"]) for e in edges] == [
        ("keep", "S", "T"),
        ("sum", "S", "Totals"),
        ("big", "Totals", "Big"),
    ]
    assert {e["queryName"] for e in ask(worker, "/siddhi-apps/Trades-sum-1/elements").json()} == {"sum"}
    for node in nodes:
        assert ask(node, "/siddhi-apps/Nobody/elements").status_code == 404


def test_apps_with_their_ages(nodes: tuple[Manager, Worker]) -> None:
    manager, worker = nodes
    (one,) = ask(manager, "/siddhi-apps/statistics").json()
    assert (one["appName"], one["status"], one["isStatEnabled"]) == ("Trades", "active", True)
    assert 0 <= one["age"] < 600_000
    here = ask(worker, "/siddhi-apps/statistics?isActive=true").json()
    assert [each["appName"] for each in here] == ["Trades-keep-1", "Trades-sum-1", "Trades-big-1"]
    assert all(0 < each["age"] < 600_000 for each in here)
    for node in nodes:
        assert ask(node, "/siddhi-apps/statistics?isActive=false").json() == []


def test_ages_grow_and_there_are_none_without_apps(tmp_path: Path, eventually: Eventually) -> None:
    manager = Manager(manager_config(tmp_path))
    manager.start()
    try:
        with ClusterClient([manager.url], "admin", PASSWORD) as client:
            with pytest.raises(NotFoundError, match="no app is deployed"):
                client.call("GET", "/siddhi-apps/statistics")
            client.deploy(APP)

        def aged() -> bool:
            (one,) = ask(manager, "/siddhi-apps/statistics").json()
            return bool(one["age"] > 300)

        eventually(aged, "the age is that of the stored app")
    finally:
        manager.stop()


@pytest.mark.parametrize("path", ["/statistics", "/siddhi-apps/statistics", "/siddhi-apps/{}/statistics"])
def test_what_is_measured_cannot_be_switched_off_and_the_answer_says_so(
    nodes: tuple[Manager, Worker], path: str
) -> None:
    for node, name in zip(nodes, ("Trades", "Trades-sum-1"), strict=True):
        for body in ({"statsEnable": False}, {"enabledStatLevel": "OFF"}):
            answer = ask(node, path.format(name), "PUT", json=body)
            assert (answer.status_code, answer.json()["type"]) == (200, "success")
            assert "cannot be switched off" in answer.json()["message"]
        assert ask(node, path.format(name), "PUT", json={"enabledStatLevel": "DETAIL"}).status_code == 200
        for wrong in ({}, {"statsEnable": "perhaps"}, {"enabledStatLevel": "MUCH"}, {"stats": True}):
            assert ask(node, path.format(name), "PUT", json=wrong).status_code == 400, wrong
    assert ask(nodes[0], "/siddhi-apps/Nobody/statistics", "PUT", json={"statsEnable": True}).status_code == 404
    assert ask(nodes[0], path.format("Trades"), "PUT", user="vera", json={"statsEnable": True}).status_code == 403


def test_the_topics_of_each_group_instance(nodes: tuple[Manager, Worker]) -> None:
    manager, worker = nodes
    found = {one["appName"]: one for one in ask(manager, "/managers/kafkaDetails/Trades").json()}
    assert set(found) == {"Trades-keep-1", "Trades-sum-1", "Trades-big-1"}
    assert (found["Trades-sum-1"]["sourceList"], found["Trades-sum-1"]["sinkList"]) == (["Trades.S"], ["Trades.Totals"])
    assert found["Trades-big-1"]["sourceList"] == ["Trades.Totals"]
    at = {f"{one['deployedHost']}:{one['deployedPort']}" for one in found.values()}
    assert at == {worker.url.partition("//")[2]}
    assert ask(manager, "/managers/kafkaDetails/Nobody").status_code == 404


@pytest.mark.parametrize(
    ("user", "suffix", "has"),
    [
        ("vera", "siddhiApp.view", True),
        ("vera", "siddhiApp.manage", False),
        ("dora", "siddhiApp.manage", True),
        ("admin", "siddhiApp.manage", True),
        ("admin", "anything.else", False),
    ],
)
def test_a_caller_learns_what_it_may_do(nodes: tuple[Manager, Worker], user: str, suffix: str, has: bool) -> None:
    assert ask(nodes[0], f"/managers/roles?permissionSuffix={suffix}", user=user).json() is has


def test_a_node_tells_its_load_and_what_it_is(nodes: tuple[Manager, Worker]) -> None:
    for node, kind in zip(nodes, ("manager", "worker"), strict=True):
        load = ask(node, "/statistics").json()
        assert set(load["workerMetrics"]) == {"systemCPU", "processCPU", "loadAverage", "memoryUsage"}
        assert (load["haStatus"], load["runningStatus"], load["isStatsEnabled"]) == ("Active", "Reachable", True)
        told = ask(node, "/nodeDetails/runTime")
        assert (told.text, told.headers["Content-Type"].partition(";")[0]) == (kind, "text/plain")


def test_what_a_node_runs_on_names_no_paths_users_or_secrets(nodes: tuple[Manager, Worker]) -> None:
    for node in nodes:
        details = ask(node, "/system-details", user="admin").json()
        assert details["pythonVersion"].count(".") == 2
        assert 1_600_000_000_000 < details["serverStartTime"] < 4_000_000_000_000
        told = json.dumps(details)
        for private in ("/", PASSWORD, f'"{getpass.getuser()}"', str(Path.home())):
            assert private not in told


def test_an_app_is_not_called_like_a_path_of_all_apps(nodes: tuple[Manager, Worker]) -> None:
    for name in ("revisions", "statistics"):
        with pytest.raises(SiddhiAppError, match=f"cannot be called {name}"):
            nodes[0].deploy(APP.replace("Trades", name), replace=False)
