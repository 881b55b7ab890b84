"""The audit log: what users change or may not is recorded with who, where and what came of it; secrets never are."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from spdist.cluster.api import guard
from spdist.cluster.api.audit import Audited, audited
from spdist.config import load_config
from spdist.logs import Mask, structured
from spdist.transports.sockets.logins import WrongLogins
from tests.cluster.shells import APP, CONF, PASSWORD, running_manager, settings, with_users

Eventually = Callable[..., Any]


def scope(method: str, path: str, user: str = "ann", route: str = "", **params: str) -> dict[str, object]:
    state = {"username": user} if user else {}
    return {
        "method": method,
        "path": path,
        "state": state,
        "route": SimpleNamespace(path=route or path),
        "path_params": params,
        "client": ("10.0.0.9", 4711),
    }


@pytest.mark.parametrize(
    ("asked", "status", "location", "app"),
    [
        (scope("POST", "/siddhi-apps"), 201, "/siddhi-apps/My%20App", "My App"),
        (scope("DELETE", "/siddhi-apps/A", route="/siddhi-apps/{name}", name="A"), 200, "", "A"),
        (scope("DELETE", "/siddhi-apps/A", route="/siddhi-apps/{name}", name="A"), 500, "", "A"),
        (scope("GET", "/siddhi-apps"), 403, "", ""),
        (scope("POST", "/resourceManager/heartbeat"), 403, "", ""),
        (scope("POST", "/login/x", route="/login/{app}", app="x"), 200, "", ""),
        (scope("PUT", "/siddhi-apps"), 307, "http://10.0.0.1:9543/siddhi-apps", ""),
        (scope("DELETE", "/" + "x" * 1000), 404, "", ""),
    ],
)
def test_what_changes_something_or_is_refused_is_recorded(
    asked: dict[str, object], status: int, location: str, app: str
) -> None:
    path, method = str(asked["path"])[:300], str(asked["method"])
    assert audited(asked, status, location) == Audited("ann", "10.0.0.9", method, path, app, status)


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (scope("GET", "/siddhi-apps"), 200),
        (scope("GET", "/siddhi-apps/X"), 404),
        (scope("POST", "/resourceManager/heartbeat"), 200),
        (scope("POST", "/siddhi-apps/A/streams/S/events", route="/siddhi-apps/{app}/streams/{stream}/events"), 200),
        (scope("POST", "/siddhi-apps", user=""), 401),
    ],
)
def test_reading_and_what_comes_many_times_a_second_is_not(asked: dict[str, object], status: int) -> None:
    assert audited(asked, status, "") is None


def records(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    kept = [one for one in caplog.records if one.name == "spdist.audit"]
    return [structured(one, "manager-1", Mask()) for one in kept]


def test_a_node_records_what_its_users_do(
    tmp_path: Path, eventually: Eventually, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    # So many lines a minute in a process: other tests may have had them.
    monkeypatch.setattr(guard, "_wrong_logins", WrongLogins(logging.getLogger("spdist.audit")))
    path = with_users(tmp_path, CONF / "manager.yaml", {"vera": "viewer"})
    config = load_config(path, role="manager", environment=settings(tmp_path, "manager-1"))
    text = {"Content-Type": "text/plain"}
    with running_manager(config) as manager, httpx.Client(base_url=manager.url, trust_env=False) as http:
        eventually(manager.leads, "the manager leads")
        admin, vera = ("admin", PASSWORD), ("vera", "vera-secret")
        assert http.post("/siddhi-apps?x=geheim", content=APP, headers=text, auth=admin).status_code == 201
        assert http.get("/siddhi-apps", auth=admin).status_code == 200
        assert http.delete("/siddhi-apps/Trades", auth=vera).status_code == 403
        body = http.post("/login/x", data={"username": "vera", "password": "vera-secret"}).json()
        token = body["partialAccessToken"]
        assert http.post("/logout/x", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        assert http.get("/siddhi-apps", auth=("vera", "guessed")).status_code == 401
        assert http.delete("/siddhi-apps/Trades", auth=admin).status_code == 200
        # A record follows its answer.
        eventually(lambda: len(records(caplog)) >= 6, "all is recorded")
        shown = [one for one in manager.log.read(limit=1000) if one["logger"] == "spdist.audit"]
    found = records(caplog)
    told = [(one.get("user"), one.get("method"), one.get("path"), one.get("app"), one.get("outcome")) for one in found]
    assert told == [
        ("admin", "POST", "/siddhi-apps", "Trades", 201),
        ("vera", "DELETE", "/siddhi-apps/Trades", "Trades", 403),
        ("vera", "POST", "/login/x", None, 200),
        ("vera", "POST", "/logout/x", None, 200),
        (None, None, None, None, None),
        ("admin", "DELETE", "/siddhi-apps/Trades", "Trades", 200),
    ]
    assert "user 'vera' from 127.0.0.1: wrong name or password" in found[4]["message"]
    assert all(one["address"] == "127.0.0.1" and one["node"] == "manager-1" for one in found if "user" in one)
    assert len(shown) == len(found), "GET /logs has them, too"
    for secret in (PASSWORD, "vera-secret", "guessed", "geheim", token):
        assert secret not in json.dumps(found)
