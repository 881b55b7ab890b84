"""The REST interface over real sockets: who may enter, what is refused and how, and what each route answers."""

from __future__ import annotations

import base64
import json
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from spdist.cluster.api import Server, manager_app, serve, worker_app
from spdist.cluster.api.guard import STATUS, new_app
from spdist.cluster.manager import Manager
from spdist.cluster.protocol.messages import GroupPhase, GroupReport, WorkerReport
from spdist.cluster.protocol.wire import HeartbeatRequest
from spdist.cluster.security.access import ROLES, Permission, Users
from spdist.cluster.worker import Worker
from spdist.config import Config, load_config
from spdist.config.users import BUILT_IN_ROLES
from spdist.errors import ConfigError, NotLeaderError, SpdistError, error_codes, error_of
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

Eventually = Callable[..., Any]
TEXT = {"Content-Type": "text/plain"}


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    """One manager with a user of each role."""
    home = tmp_path_factory.mktemp("home")
    path = with_users(
        home, CONF / "manager.yaml", {"dora": "developer", "vera": "viewer", "wim": "worker", "nemo": "guest"}
    )
    config = load_config(path, role="manager", environment=settings(home, "manager-1"))
    with running_manager(config) as running:
        yield running


@pytest.fixture
def leader(manager: Manager, eventually: Eventually) -> Manager:
    eventually(manager.leads, "the manager leads")
    return manager


def client_of(manager: Manager, user: str = "admin", password: str | None = None) -> httpx.Client:
    secret = password or (PASSWORD if user == "admin" else f"{user}-secret")
    return httpx.Client(base_url=manager.url, auth=(user, secret), trust_env=False)


@pytest.fixture
def http(leader: Manager) -> Iterator[httpx.Client]:
    with client_of(leader) as client:
        yield client
        for name in client.get("/siddhi-apps").json():
            client.delete(f"/siddhi-apps/{name}")


def report(sequence: int = 1, **more: Any) -> WorkerReport:
    return WorkerReport("worker-9", "http://127.0.0.1:9999", False, "life-1", sequence, 0, **more)


def beat(client: httpx.Client, one: WorkerReport) -> httpx.Response:
    return client.post("/resourceManager/heartbeat", content=HeartbeatRequest.from_report(one).to_json())


# ------------------------------------------------------------------------------------------------------ who may enter
def routes(app: FastAPI) -> list[tuple[str, str]]:
    return [(method, path) for path, item in app.openapi()["paths"].items() for method in item]


def test_every_route_but_health_asks_who_is_there(leader: Manager, tmp_path: Path) -> None:
    worker = Worker(worker_config(tmp_path, [leader.url]), launcher=FakeSpark())
    known = {app: routes(app) for app in (manager_app(leader), worker_app(worker))}
    assert all(len(found) > 5 for found in known.values()), "no routes were found"
    for app, found in known.items():
        server = serve(app, manager_config(tmp_path))
        try:
            with httpx.Client(base_url=server.url, trust_env=False) as stranger:
                for method, path in found:
                    form = {"username": "admin", "password": "wrong"} if path.startswith("/login/{") else None
                    answer = stranger.request(method, re.sub(r"\{\w+\}", "X", path), data=form)
                    is_open = path in ("/health", "/login/auth-type")
                    assert (answer.status_code == 200) is is_open, f"{method} {path}: {answer.status_code}"
                    if not is_open:
                        assert answer.status_code == 401
                        assert answer.headers["WWW-Authenticate"].startswith("Basic ")
                        assert answer.json()["error"] == "SP0705"
        finally:
            server.stop()


@pytest.mark.parametrize(
    "header",
    [
        "Bearer abc",
        "Basic",
        "Basic ???",
        "Basic " + base64.b64encode(b"admin").decode(),
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        "Basic " + base64.b64encode(b"admin:wrong").decode(),
        "Basic " + base64.b64encode(b"nobody:not-admin").decode(),
        "Basic " + base64.b64encode(b":").decode(),
    ],
)
def test_wrong_credentials_are_refused(leader: Manager, header: str) -> None:
    answer = httpx.get(f"{leader.url}/siddhi-apps", headers={"Authorization": header}, trust_env=False)
    assert answer.status_code == 401


def test_a_right_password_does_not_open_the_door_for_a_wrong_one(leader: Manager) -> None:
    with client_of(leader) as right, client_of(leader, password="wrong") as wrong:
        assert right.get("/siddhi-apps").status_code == 200
        assert wrong.get("/siddhi-apps").status_code == 401
        assert right.get("/siddhi-apps").status_code == 200


def test_who_guesses_has_to_wait_and_nobody_else(tmp_path: Path, eventually: Eventually) -> None:
    path = with_users(tmp_path, CONF / "manager.yaml", {"dora": "developer", "vera": "viewer"})
    config = load_config(path, role="manager", environment=settings(tmp_path, "manager-1"))
    with running_manager(config) as manager:
        eventually(manager.leads, "the manager leads")
        with client_of(manager) as admin, client_of(manager, password="guess") as guesser:
            assert admin.get("/siddhi-apps").status_code == 200
            answers = []
            for number in range(30):
                answers.append(guesser.get("/siddhi-apps"))
                if number in (3, 15):  # first logins, from the same address
                    with client_of(manager, "dora" if number == 3 else "vera") as other:
                        assert other.get("/siddhi-apps").status_code == 200
                assert admin.get("/siddhi-apps").status_code == 200
    assert {answer.status_code for answer in answers[:6]} == {401}
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) >= 15
    assert all(1 <= int(answer.headers["Retry-After"]) <= 60 for answer in refused)
    assert "too many wrong passwords: try again in" in refused[0].json()["message"]


@pytest.mark.parametrize(
    ("user", "may"),
    [
        ("admin", {"view", "manage", "beat"}),
        ("dora", {"view", "manage"}),
        ("vera", {"view"}),
        ("wim", {"beat"}),
        ("nemo", set()),
    ],
)
def test_each_role_may_do_its_own(leader: Manager, user: str, may: set[str]) -> None:
    with client_of(leader, user) as client:
        statuses = {
            "view": client.get("/siddhi-apps").status_code,
            "manage": client.delete("/siddhi-apps/NotThere").status_code,
            "beat": client.post("/resourceManager/heartbeat", content="{}").status_code,
        }
    let_in = {"view": 200, "manage": 404, "beat": 400}
    assert statuses == {what: let_in[what] if what in may else 403 for what in statuses}


def test_passwords_are_kept_as_hashes_only(leader: Manager, tmp_path: Path) -> None:
    users = Users(manager_config(tmp_path))
    assert users.recall("admin", PASSWORD) is None, "nobody has shown it yet"
    assert users.verify("admin", PASSWORD) == frozenset(Permission)
    assert users.recall("admin", PASSWORD) == frozenset(Permission)
    assert users.recall("admin", "wrong") is None
    assert users.verify("admin", "wrong") is None
    kept = repr(vars(users))
    assert PASSWORD not in kept


def test_a_node_without_users_does_not_listen(tmp_path: Path) -> None:
    text = (CONF / "worker.yaml").read_text(encoding="utf-8")
    path = tmp_path / "deployment.yaml"
    nobody = "auth.configs:\n  userManager:\n    adminRole: admin\n\n"
    path.write_text(text[: text.index("auth.configs:")] + nobody + text[text.index("spark:") :], encoding="utf-8")
    environment = settings(tmp_path, "worker-1", SPDIST_MANAGERS="http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="no user who could call it") as caught:
        Worker(load_config(path, role="worker", environment=environment), launcher=FakeSpark())
    assert "userStore.users" in str(caught.value)


# ---------------------------------------------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    ("content", "headers", "status", "says"),
    [
        (b"", TEXT, 400, "the app is empty"),
        (b"  \n", TEXT, 400, "the app is empty"),
        (b"\xff\xfe", TEXT, 400, "not UTF-8"),
        (b"{}", {"Content-Type": "application/json"}, 415, "text/plain"),
        (b"x", {}, 415, "text/plain"),
        (b"x" * (1 << 20) + b"x", TEXT, 413, "1048576 bytes"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_bodies_that_are_no_apps(
    http: httpx.Client, method: str, content: bytes, headers: dict[str, str], status: int, says: str
) -> None:
    answer = http.request(method, "/siddhi-apps", content=content, headers=headers)
    assert (answer.status_code, says in answer.json()["message"]) == (status, True), answer.text


def test_a_body_of_unknown_length_is_cut_off(http: httpx.Client) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(40):
            yield b"x" * (1 << 16)

    answer = http.post("/siddhi-apps", content=endless(), headers=TEXT)
    assert answer.status_code == 413


def test_who_keeps_sending_reads_that_it_is_too_much(leader: Manager) -> None:
    """20 MB where a node takes one, with a right password or a wrong one."""
    for password, status in ((None, 413), ("wrong", 401)):
        with client_of(leader, "vera" if password else "admin", password=password) as client:
            for content in ((b"x" * (1 << 16) for _ in range(320)), b"x" * (20 << 20)):
                answer = client.post("/siddhi-apps", content=content, headers=TEXT)
                assert answer.status_code == status, answer.text


def test_the_limits_of_a_listener_are_settings(tmp_path: Path) -> None:
    config = manager_config(tmp_path)
    text = config.path.read_text(encoding="utf-8")
    written = text.replace("scheme: http\n", "scheme: http\n      headerTimeout: 200\n      maxHeaderSize: 2048\n", 1)
    path = tmp_path / "limited.yaml"
    path.write_text(written, encoding="utf-8")
    limited = load_config(path, role="manager", environment=settings(tmp_path, "manager-1"))
    server = serve(new_app("limited"), limited)
    try:
        with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
            assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
        answer = httpx.get(server.url, headers={"X": "x" * 2048}, trust_env=False)
        assert answer.status_code == 431
    finally:
        server.stop()


def test_all_errors_of_an_app_are_reported(http: httpx.Client) -> None:
    answer = http.post("/siddhi-apps", content="what is this", headers=TEXT)
    assert answer.status_code == 400
    assert [one["message"] for one in answer.json()["errors"]] == ["no name", "no group"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"id": 7}, "id: "),
        ({"sequence": "1"}, "sequence: "),
        ({"sequence": -1}, "sequence: "),
        ({"password": "x"}, "password: "),
        ({"id": None}, "id: "),
        ({"id": "w\x001"}, "id: "),
        ({"incarnation": "a\nb"}, "incarnation: "),
        ({"incarnation": "a" * 256}, "incarnation: "),
        *(
            ({"httpsInterface": {"host": host, "port": 1, "scheme": "http"}}, "httpsInterface.host: ")
            for host in ("[", "a:b", "[::1]", "h/x", "u@h", "h\n", "a b", "h?x", "")
        ),
        ({"httpsInterface": {"host": "h", "port": 0, "scheme": "http"}}, "httpsInterface.port: "),
        ({"httpsInterface": {"host": "h", "port": 1, "scheme": "file"}}, "httpsInterface.scheme: "),
        ({"workerMetrics": {"processCPU": "much"}}, "workerMetrics.processCPU: "),
        ({"groups": [{"name": "g", "app": "a", "state": "DANCING", "fingerprint": ""}]}, "groups.0.state: "),
    ],
)
def test_heartbeats_are_checked_field_by_field(http: httpx.Client, change: dict[str, Any], says: str) -> None:
    body = json.loads(HeartbeatRequest.from_report(report()).to_json()) | change
    answer = http.post("/resourceManager/heartbeat", content=json.dumps(body))
    assert answer.status_code == 400
    assert says in answer.json()["message"]


def test_a_heartbeat_that_is_no_json_is_refused(http: httpx.Client) -> None:
    assert http.post("/resourceManager/heartbeat", content="hello").status_code == 400


def test_unknown_paths_and_methods_answer_in_our_form(http: httpx.Client) -> None:
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("DELETE", "/siddhi-apps", 405),
        ("PATCH", "/managers", 405),
    ):
        answer = http.request(method, path)
        assert (answer.status_code, set(answer.json())) == (status, {"error", "type", "message"})


def test_a_wrong_query_parameter_is_400(http: httpx.Client) -> None:
    assert http.get("/siddhi-apps?isActive=perhaps").status_code == 400


def test_defects_are_not_shown_outside(tmp_path: Path) -> None:
    app = new_app("test")

    @app.get("/defect")
    def defect() -> None:
        raise RuntimeError("the secret is 42")

    server = serve(app, manager_config(tmp_path))
    try:
        answer = httpx.get(f"{server.url}/defect", trust_env=False)
    finally:
        server.stop()
    assert answer.status_code == 500
    assert "42" not in answer.text


def test_every_error_has_a_status() -> None:
    for code in error_codes():
        assert any(kind in STATUS for kind in error_of(code, "m").kinds())
    assert STATUS[SpdistError] == 500
    assert {kind for kind in STATUS if isinstance(kind, str)} <= {*error_codes()}


# -------------------------------------------------------------------------------------------------------------- apps
def test_the_life_of_an_app(http: httpx.Client, eventually: Eventually) -> None:
    made = http.post("/siddhi-apps", content=APP, headers={"Content-Type": "text/plain; charset=utf-8"})
    assert (made.status_code, made.headers["Location"]) == (201, "/siddhi-apps/Trades")
    assert http.post("/siddhi-apps", content=APP, headers=TEXT).status_code == 409
    assert http.put("/siddhi-apps", content=APP, headers=TEXT).status_code == 200
    assert http.get("/siddhi-apps").json() == ["Trades"]
    assert http.get("/siddhi-apps?isActive=true").json() == []
    assert http.get("/siddhi-apps?isActive=false").json() == ["Trades"]
    assert http.get("/siddhi-apps/Trades").json() == {"content": APP}
    assert http.get("/managers/siddhi-apps-execution/Trades").text == APP
    status = http.get("/siddhi-apps/Trades/status").json()
    assert (status["status"], status["state"], status["version"]) == ("inactive", "WAITING", 2)
    children = http.get("/managers/siddhi-apps/Trades").json()
    assert [c["appName"] for c in children] == ["Trades-filter-1", "Trades-average-1", "Trades-average-2"]
    assert http.get("/managers/siddhi-apps").json() == children
    assert http.delete("/siddhi-apps/Trades").status_code == 200
    eventually(lambda: http.get("/siddhi-apps").json() == [], "the app is gone")
    for method, path in (
        ("GET", "/siddhi-apps/Trades"),
        ("GET", "/siddhi-apps/Trades/status"),
        ("DELETE", "/siddhi-apps/Trades"),
        ("GET", "/managers/siddhi-apps/Trades"),
        ("GET", "/managers/topology/Trades"),
    ):
        assert http.request(method, path).status_code == 404, path
    assert http.put("/siddhi-apps", content=APP, headers=TEXT).status_code == 201


def test_the_topology_shows_groups_topics_and_placement(http: httpx.Client, eventually: Eventually) -> None:
    http.post("/siddhi-apps", content=APP, headers=TEXT)
    view = http.get("/managers/topology/Trades").json()
    assert [g["name"] for g in view["groups"]] == ["Trades-filter", "Trades-average"]
    assert view["groups"][0]["inputs"][0]["topic"] == "Trades.S0"
    assert view["groups"][1]["inputs"][0]["producers"] == ["Trades-filter-1"]
    assert view["groups"][0]["outputs"][0]["publishing"][0]["strategy"] == "ALL"
    assert [i["state"] for i in view["groups"][1]["instances"]] == ["WAITING", "WAITING"]
    assert view["topics"] == [{"name": f"Trades.S{i}", "partitions": 1} for i in range(3)]


# -------------------------------------------------------------------------------------------------------------- nodes
def test_a_worker_is_answered_and_listed(leader: Manager, http: httpx.Client) -> None:
    answer = beat(http, report())
    assert answer.status_code == 200
    body = answer.json()
    assert (body["joinedState"], body["worker"], body["assignments"]) == ("NEW", "worker-9", [])
    assert body["leader"]["id"] == "manager-1"
    assert "password" not in answer.text.lower()
    assert http.get("/resourceClusterWorkers").json() == 1
    details = http.get("/resourceClusterWorkers/clusteredWorkerNodeDetails").json()
    assert details == [{"https_host": "127.0.0.1", "https_port": 9999, "nodeId": "worker-9"}]
    nodes = http.get("/managers/nodes").json()
    assert (nodes["leader"], nodes["groupId"]) == ("manager-1", "local")
    assert [w["id"] for w in nodes["workers"]] == ["worker-9"]
    failed = GroupReport("X-g-1", "X", GroupPhase.FAILED, "f", "e" * 10_000)
    assert beat(http, report(2, groups=(failed,))).status_code == 200, "a long error is cut, not refused"
    assert beat(http, report(3, leaving=True)).status_code == 200
    assert http.get("/resourceClusterWorkers").json() == 0


def test_who_leads_is_told(leader: Manager, http: httpx.Client) -> None:
    assert http.get("/managers").json() == {"haStatus": "Active", "groupId": "local"}
    assert http.get("/managers/isActive").status_code == 200


def test_a_standby_sends_everybody_to_the_leader(leader: Manager, eventually: Eventually) -> None:
    home = Path(leader.config.transports.log.directory).parent
    with running_manager(manager_config(home, "manager-2")) as standby, client_of(standby) as http:

        def sent() -> httpx.Response | None:
            answer = http.get("/siddhi-apps?isActive=true")
            return answer if answer.status_code == 307 else None

        redirect = eventually(sent, "the standby knows the leader")
        assert redirect.headers["Location"] == f"{leader.url}/siddhi-apps?isActive=true"
        assert redirect.json()["leader"] == leader.url
        assert http.put("/siddhi-apps", content="not even an app", headers=TEXT).status_code == 307, "it plans nothing"
        assert http.get("/managers").json()["haStatus"] == "Passive"
        assert http.get("/managers/isActive").status_code == 404
        moved = beat(http, report())
        assert moved.status_code == 301
        assert moved.headers["Location"] == f"{leader.url}/resourceManager/heartbeat"
        assert moved.json()["leader"]["id"] == "manager-1"


def test_while_nobody_leads_callers_are_asked_to_wait(tmp_path: Path) -> None:
    config = manager_config(tmp_path)
    away = replace(config.datasources["LOCAL_DB"], url="postgresql://127.0.0.1:1/away")
    with running_manager(replace(config, datasources={"LOCAL_DB": away})) as manager, client_of(manager) as http:
        answer = http.get("/siddhi-apps")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert answer.json()["error"] == NotLeaderError.code
        assert beat(http, report()).status_code == 204
        assert http.get("/health").json() == {"status": "healthy"}


# ---------------------------------------------------------------------------------------------------------- the socket
def test_a_port_in_use_is_said_before_anything_is_opened(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        manager = Manager(manager_config(tmp_path, SPDIST_PORT=str(port)))
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port} is in use") as caught:
            manager.start()
    assert "listenerConfigurations" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_port_0_reports_the_real_one_and_gives_it_back(tmp_path: Path) -> None:
    config = manager_config(tmp_path)
    server = serve(new_app("test"), config)
    assert server.port != 0
    server.stop()
    server.stop()
    again = Server(manager_config(tmp_path, SPDIST_PORT=str(server.port)))
    again.stop()


def test_an_unknown_host_is_explained(tmp_path: Path) -> None:
    text = (CONF / "manager.yaml").read_text(encoding="utf-8").replace("host: 127.0.0.1", "host: 192.0.2.1")
    path = tmp_path / "deployment.yaml"
    path.write_text(text.replace("cluster.config:", "  plainHttpAllowed: true\ncluster.config:", 1), encoding="utf-8")
    config = load_config(path, role="manager", environment=settings(tmp_path, "manager-1"))
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1"):
        Server(config)


def tls_config(home: Path, certificate: Path, key: Path) -> Config:
    text = (CONF / "manager.yaml").read_text(encoding="utf-8")
    secure = f"scheme: https\n      certificateFile: {certificate}\n      keyFile: {key}"
    path = home / "deployment.yaml"
    path.write_text(text.replace("scheme: http", secure, 1), encoding="utf-8")
    return load_config(path, role="manager", environment=settings(home, "manager-1"))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
def test_tls_with_a_certificate_and_a_key(tmp_path: Path) -> None:
    certificate, key = tmp_path / "node.crt", tmp_path / "node.key"
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=node", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*make, *names, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    with running_manager(tls_config(tmp_path, certificate, key)) as manager:
        url = f"https://127.0.0.1:{manager.me.https_interface.port}/health"
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, trust_env=False)
        trusting = ssl.create_default_context(cafile=certificate)
        assert httpx.get(url, verify=trusting, trust_env=False).json() == {"status": "healthy"}


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "node.crt"
    broken.write_text("no certificate", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"node\.crt"):
        Server(tls_config(tmp_path, broken, broken))


def test_each_role_that_needs_no_listing_has_a_meaning() -> None:
    assert set(ROLES) == set(BUILT_IN_ROLES)
