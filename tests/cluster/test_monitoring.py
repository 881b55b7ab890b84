"""What nodes tell of themselves over REST: the journal of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from spdist.cluster.manager import Manager
from spdist.cluster.messages import WorkerReport
from spdist.config import Config, load_config
from tests.cluster.shells import APP, CONF, PASSWORD, manager_config, running_manager, settings, with_users

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
        assert journal(http, kind=["app-deployed", "elected"], limit=1) == [b]
        assert journal(http, kind="app-deployed", before=b["id"]) == [a]
        assert journal(http, since=b["time"] + 1) == []
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
