"""What nodes tell of themselves over REST: the journal of the cluster, their log, figures for Prometheus."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from spdist.cluster.manager import Manager
from spdist.cluster.protocol.messages import WorkerReport
from spdist.cluster.worker import Worker
from spdist.config import Config, load_config
from tests.cluster.shells import (
    APP,
    CONF,
    PASSWORD,
    FakeSpark,
    manager_config,
    running_manager,
    settings,
    with_users,
    worker_config,
)

DEPLOY = Path(__file__).parents[2] / "deploy"
Eventually = Callable[..., Any]
TEXT = {"Content-Type": "text/plain"}


def with_dora(home: Path, node: str) -> Config:
    path = with_users(home, CONF / "manager.yaml", {"dora": "developer"})
    return load_config(path, role="manager", environment=settings(home, node))


def client(manager: Manager, user: str = "admin") -> httpx.Client:
    password = PASSWORD if user == "admin" else f"{user}-secret"
    return httpx.Client(base_url=manager.url, auth=(user, password), trust_env=False)


def journal(http: httpx.Client, **query: Any) -> list[dict[str, Any]]:
    answer = http.get("/managers/journal", params=query)
    assert answer.status_code == 200, answer.text
    entries: list[dict[str, Any]] = answer.json()["entries"]
    return entries


def test_the_journal_tells_who_did_what_and_why_and_outlives_the_leader(tmp_path: Path, eventually: Eventually) -> None:
    with running_manager(with_dora(tmp_path, "manager-1")) as first:
        eventually(first.leads, "the first leads")
        with running_manager(with_dora(tmp_path, "manager-2")) as second, client(second) as standby:
            first.heartbeat(WorkerReport("worker-1", "http://127.0.0.1:9", False, "life", 1, 0), [])
            with client(first, "dora") as http:
                assert http.post("/siddhi-apps", content=APP, headers=TEXT).status_code == 201
                assert http.put("/siddhi-apps", content=f"{APP} group more 1", headers=TEXT).status_code == 200
                assert http.delete("/siddhi-apps/Trades").status_code == 200
            eventually(lambda: journal(standby, kind="app-undeployed"), "all of it is written")
            first.stop()
            eventually(second.leads, "the second leads")
            eventually(lambda: journal(standby, kind="elected", since=1)[0]["term"] == 2, "it is written")
            entries = journal(standby)
    assert [e["id"] for e in entries] == sorted((e["id"] for e in entries), reverse=True)
    told = [(e["kind"], e["app"], e["user"], e["node"], e["term"]) for e in entries if e["kind"].startswith("app-")]
    assert told == [
        ("app-undeployed", "Trades", "dora", "manager-1", 1),
        ("app-updated", "Trades", "dora", "manager-1", 1),
        ("app-deployed", "Trades", "dora", "manager-1", 1),
    ]
    (joined,) = [e for e in entries if e["kind"] == "worker-joined"]
    assert (joined["worker"], joined["user"]) == ("worker-1", "")
    assert [e["term"] for e in entries if e["kind"] == "elected"] == [2, 1]


def test_the_journal_is_asked_in_parts(tmp_path: Path, eventually: Eventually) -> None:
    with running_manager(manager_config(tmp_path)) as manager, client(manager) as http:
        eventually(manager.leads, "it leads")
        for name in ("A", "B"):
            manager.deploy(f"@app:name('{name}') group one 1", replace=False)
        eventually(lambda: len(journal(http, kind="app-deployed")) == 2, "both are written")
        b, a = journal(http, kind="app-deployed")
        assert (b["app"], a["app"], b["user"]) == ("B", "A", "")
        assert journal(http, app="A") == [a]
        assert journal(http, kind="app-deployed", limit=1) == [b]
        # On a busy machine it may be elected more than once, also after that.
        both = journal(http, kind=["app-deployed", "elected"])
        assert [one for one in both if one["kind"] == "app-deployed"] == [b, a]
        assert {one["kind"] for one in both} == {"app-deployed", "elected"}
        assert journal(http, kind="app-deployed", before=b["id"]) == [a]
        # Clocks are set back now and then.
        assert journal(http, kind="app-deployed", since=max(a["time"], b["time"]) + 1) == []
        assert b not in journal(http, until=b["time"])


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "since=-1", "until=1e400", f"before={10**30}", f"app={'A' * 256}"]
)
def test_what_cannot_be_asked_is_said(query: str, asked: httpx.Client) -> None:
    answer = asked.get(f"/managers/journal?{query}")
    assert answer.status_code == 400
    assert query.partition("=")[0] in answer.json()["message"]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running_manager(manager_config(tmp_path_factory.mktemp("home"))) as manager, client(manager) as http:
        yield http


# ------------------------------------------------------------------------------------------------------------- figures
@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a leader, a standby and a worker with groups tell Prometheus."""
    home = tmp_path_factory.mktemp("home")
    with (
        running_manager(manager_config(home)) as leader,
        client(leader) as http,
        running_manager(manager_config(home, "manager-2")) as standby,
        client(standby) as other,
    ):
        worker = Worker(worker_config(home, [leader.url]), launcher=FakeSpark())
        worker.start()
        try:
            wait_until(lambda: leader.leads() and not standby.leads())
            leader.deploy(APP, replace=False)
            wait_until(lambda: leader.app_status("Trades")["state"] == "RUNNING")
            with httpx.Client(base_url=worker.url, auth=("admin", PASSWORD), trust_env=False) as third:
                return {
                    name: asked.get("/metrics").text
                    for name, asked in {"leader": http, "standby": other, "worker": third}.items()
                }
        finally:
            worker.stop()


def wait_until(look: Callable[[], object]) -> None:
    pace, deadline = threading.Event(), time.monotonic() + 20
    while not look():
        assert time.monotonic() < deadline
        pace.wait(0.02)


def test_a_leader_tells_what_the_cluster_is_like(told: dict[str, str]) -> None:
    lines = dict(line.rsplit(" ", 1) for line in told["leader"].splitlines() if not line.startswith("#"))
    assert (lines["spdist_manager_leads"], lines["spdist_manager_term"]) == ("1.0", "1.0")
    assert float(lines["spdist_heartbeats_received_total"]) > 1
    assert 0 <= float(lines['spdist_heartbeat_age_seconds{worker="worker-1"}']) < 20
    assert lines['spdist_apps{state="RUNNING"}'] == "1.0"
    assert lines['spdist_apps{state="WAITING"}'] == lines["spdist_groups_waiting"] == "0.0"
    assert lines['spdist_journal_entries_total{kind="group-placed"}'] == "3.0"
    assert lines['spdist_journal_entries_total{kind="group-moved"}'] == "0.0"
    assert lines["spdist_journal_lost_total"] == lines["spdist_planner_waiting"] == "0.0"
    assert "spdist_manager_leads 0.0" in told["standby"]
    assert "spdist_manager_term 0.0" in told["standby"]


def test_dashboard_and_alerts_ask_for_what_nodes_tell(told: dict[str, str]) -> None:
    known = {line.split()[2] for text in told.values() for line in text.splitlines() if line.startswith("# TYPE")}
    alerts = yaml.safe_load((DEPLOY / "prometheus-alerts.yaml").read_text())
    rules = [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert min(len(rules), len(shown)) > 5
    assert set(re.findall(r"spdist_\w+", " ".join(rules + shown))) <= known
    kinds = set(re.findall(r'kind="([^"]+)"', " ".join(rules)))
    assert kinds <= set(re.findall(r'kind="([^"]+)"', told["leader"]))
    labels = {"spdist_heartbeat_age_seconds": "worker", "spdist_apps": "state"}
    assert all(f"{name}{{{label}=" in told["leader"] for name, label in labels.items())


# ---------------------------------------------------------------------------------------------------------------- logs
def test_every_node_tells_what_it_has_logged_lately(tmp_path: Path, eventually: Eventually) -> None:
    with running_manager(manager_config(tmp_path)) as manager, client(manager) as http:
        eventually(manager.leads, "it leads")
        worker = Worker(worker_config(tmp_path, [manager.url]), launcher=FakeSpark())
        worker.start()
        try:
            http.post("/siddhi-apps", content=APP, headers=TEXT)
            eventually(lambda: manager.app_status("Trades")["state"] == "RUNNING", "it runs")

            def logs(of: httpx.Client, **query: Any) -> list[dict[str, Any]]:
                records: list[dict[str, Any]] = of.get("/logs", params=query).json()["records"]
                return records

            (deployed,) = [one for one in logs(http, app="Trades") if "deployed" in one["message"]]
            assert (deployed["node"], deployed["term"], deployed["user"]) == ("manager-1", 1, "admin")
            assert logs(http, app="Nobody") == logs(http, level="CRITICAL") == []
            (placed,) = [one for one in logs(http, group="Trades-filter-1") if "goes to" in one["message"]]
            assert (placed["app"], placed["worker"]) == ("Trades", "worker-1")
            with httpx.Client(base_url=worker.url, auth=("admin", PASSWORD), trust_env=False) as other:
                started = [one for one in logs(other, group="Trades-filter-1") if "is started" in one["message"]]
                assert [(one["app"], one["node"]) for one in started] == [("Trades", "worker-1")]
            assert http.get("/logs?level=LOUD").status_code == http.get("/logs?limit=0").status_code == 400
        finally:
            worker.stop()
