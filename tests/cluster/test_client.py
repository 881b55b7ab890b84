"""The client: finding the leader and finding it again, errors as they were raised, and handles of apps."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from spdist.cluster.clients.client import Caller, ClusterClient, UnreachableNode, may_follow
from spdist.cluster.clients.handle import Deployment
from spdist.cluster.manager import Manager
from spdist.cluster.protocol.wire_errors import error_body, read_error
from spdist.cluster.worker import Worker
from spdist.errors import (
    ClusterError,
    DeploymentTimeoutError,
    EngineError,
    ErrorKind,
    NotFoundError,
    NotLeaderError,
    PlanningError,
    SiddhiAppError,
    SiddhiSyntaxError,
    Span,
    SpdistError,
    StoreUnavailableError,
    UnauthorizedError,
)
from tests.cluster.shells import APP, PASSWORD, FakeSpark, FakeStatus, manager_config, running_manager, worker_config
from tests.error_codes import coded

Eventually = Callable[..., Any]


def connect(*urls: str, patience_s: float = 10, password: str = PASSWORD) -> ClusterClient:
    return ClusterClient(urls, "admin", password, patience_s=patience_s)


@pytest.fixture
def manager(tmp_path: Path, eventually: Eventually) -> Iterator[Manager]:
    with running_manager(manager_config(tmp_path)) as running:
        eventually(running.leads, "it leads")
        yield running


@pytest.fixture
def spark(tmp_path: Path, manager: Manager) -> Iterator[FakeSpark]:
    """One worker at the manager."""
    fake = FakeSpark()
    worker = Worker(worker_config(tmp_path, [manager.url]), launcher=fake)
    worker.start()
    yield fake
    worker.stop()


@contextmanager
def scripted(*answers: tuple[int, Any, dict[str, str]] | None) -> Iterator[tuple[str, list[str]]]:
    """A node that gives these answers in turn, the last for ever; None hangs up. Yields its URL and its requests."""
    seen: list[str] = []
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append(f"{self.command} {self.path} {body.decode()}".strip())
            answer = left.pop(0) if len(left) > 1 else left[0]
            if answer is None:
                self.close_connection = True
                self.connection.close()
                return
            status, value, headers = answer
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name, text)
            data = json.dumps(value).encode()
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


NOBODY = (503, error_body(NotLeaderError("nobody leads")), {})


# --------------------------------------------------------------------------------------------------- finding the leader
def test_it_goes_where_a_standby_points_and_stays_there() -> None:
    with scripted((200, ["A"], {})) as (leader, asked):
        moved = (307, error_body(NotLeaderError("not me", leader=leader)), {"Location": f"{leader}/siddhi-apps"})
        with scripted(moved) as (standby, passed), connect(standby) as client:
            assert client.apps() == ["A"]
            assert client.apps() == ["A"]
            assert (len(passed), len(asked)) == (1, 2)


def test_it_waits_until_somebody_leads() -> None:
    with scripted(NOBODY, NOBODY, (200, ["A"], {})) as (url, asked), connect(url) as client:
        assert client.apps() == ["A"]
        assert len(asked) == 3


def test_it_passes_over_managers_that_do_not_answer() -> None:
    with scripted((200, ["A"], {})) as (url, _), connect("http://127.0.0.1:1", url) as client:
        assert client.apps() == ["A"]
        assert client.managers[0] == url


def test_a_silent_manager_is_asked_after_those_that_answer() -> None:
    with (
        scripted(None) as (silent, passed),
        scripted(NOBODY, (409, error_body(ClusterError("no", code=ErrorKind.CONFLICT)), {})) as (url, _),
    ):
        with (
            connect(silent, url) as client,
            pytest.raises(ClusterError, check=coded(ErrorKind.CONFLICT)),
        ):
            client.apps()
        assert len(passed) == 1
        assert client.managers == [url, silent]
        with connect(silent, url) as client, pytest.raises(ClusterError, match="was sent, but not answered"):
            client.call("POST", "/siddhi-apps", content="x")
        assert client.managers == [url, silent]


def test_it_gives_up_after_its_patience() -> None:
    with scripted(NOBODY) as (url, _), connect(url, patience_s=0.3) as client, pytest.raises(NotLeaderError):
        client.apps()
    with (
        connect("http://127.0.0.1:1", patience_s=0.3) as client,
        pytest.raises(ClusterError, match="no manager answered"),
    ):
        client.apps()


def test_the_status_of_all_apps_and_nodes_is_one_request(manager: Manager, spark: FakeSpark) -> None:
    with connect(manager.url) as client:
        names = [client.deploy(APP.replace("Trades", name)).wait().name for name in ("A", "B")]
        view = client.call("GET", "/managers/status")
        assert [app["name"] for app in view["apps"]] == names
    with scripted((200, view, {})) as (url, asked), connect(url) as client:
        status = client.status()
    assert asked == ["GET /managers/status"]
    assert [(app.name, app.state) for app in status.apps] == [("A", "RUNNING"), ("B", "RUNNING")]
    assert [worker.metrics.keys() >= {"systemCPU", "memoryUsage"} for worker in status.workers] == [True]


def test_each_manager_is_asked_once_in_a_round_whoever_they_point_at() -> None:
    pointing: dict[str, Any] = {}
    with scripted((307, pointing, {})) as (first, asked_first), scripted((307, pointing, {})) as (second, asked_second):
        pointing |= error_body(NotLeaderError("not me", leader=first))
        with connect(first, second, patience_s=0.3) as client, pytest.raises(NotLeaderError):
            client.apps()
        assert len(asked_first) == len(asked_second) > 0


def test_a_request_that_may_have_been_carried_out_is_only_repeated_if_that_is_harmless() -> None:
    with scripted(None, (200, {"name": "A"}, {})) as (url, asked), connect(url) as client:
        client.deploy("text", replace=True)
        assert [line.split()[0] for line in asked] == ["PUT", "PUT"]
    with scripted(None) as (url, asked), connect(url) as client:
        with pytest.raises(ClusterError, match="was sent, but not answered"):
            client.deploy("text", replace=False)
        assert [line.split()[0] for line in asked] == ["POST"]


def test_errors_of_the_request_are_not_asked_for_twice(manager: Manager) -> None:
    with connect(manager.url, password="wrong") as client, pytest.raises(UnauthorizedError):
        client.apps()
    with scripted((404, error_body(NotFoundError("no app A")), {})) as (url, asked), connect(url) as client:
        with pytest.raises(NotFoundError, match="no app A"):
            client.deployment("A").status()
        assert len(asked) == 1


@pytest.mark.parametrize(
    ("source", "target", "may"),
    [
        ("http://a:1", "http://b:2", True),
        ("http://a:1", "https://b:2", True),
        ("https://a:1", "https://b:2", True),
        ("https://a:1", "http://b:2", False),
    ],
)
def test_a_password_shown_over_tls_is_never_shown_in_clear(source: str, target: str, may: bool) -> None:
    assert may_follow(source, target) is may


def test_redirections_are_not_followed_by_themselves() -> None:
    with scripted((200, [], {})) as (other, asked), scripted((307, None, {"Location": other})) as (url, _):
        caller = Caller("admin", "x")
        assert caller.call("GET", url).status == 307
        caller.close()
        assert asked == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:9543",
        "ftp://x",
        "http://",
        "http://host/path",
        "http://[",
        "http://[x]",
        "http://h:x",
        "http://h:99999",
    ],
)
def test_addresses_are_checked(url: str) -> None:
    with pytest.raises(ClusterError, match="no address of a manager"):
        ClusterClient([url], "admin", "x")


def test_a_client_needs_a_manager() -> None:
    with pytest.raises(ClusterError, match="at least one manager"):
        ClusterClient([], "admin", "x")


def test_unreachable_nodes_say_whether_they_were_reached() -> None:
    caller = Caller("admin", "x")
    with pytest.raises(UnreachableNode) as caught:
        caller.call("GET", "http://127.0.0.1:1/")
    assert not caught.value.sent
    with scripted(None) as (url, _), pytest.raises(UnreachableNode) as caught:
        caller.call("GET", url)
    assert caught.value.sent
    caller.close()


# --------------------------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    "error",
    [
        SpdistError("m"),
        NotFoundError("m", hint="h"),
        ClusterError("m", code=ErrorKind.CONFLICT),
        SiddhiSyntaxError("m", span=Span(3, 4, 3, 9), hint="h"),
        NotLeaderError("m", leader="http://x:1"),
        PlanningError("m"),
    ],
)
def test_errors_cross_the_wire_as_what_they_were(error: SpdistError) -> None:
    rebuilt = read_error(json.loads(json.dumps(error_body(error))), "asking")
    assert type(rebuilt) is type(error)
    assert rebuilt.to_dict() == error.to_dict()
    assert getattr(rebuilt, "leader", None) == getattr(error, "leader", None)


@pytest.mark.parametrize(
    ("error", "word", "number"),
    [
        (SpdistError("m"), "error", None),
        (NotFoundError("m"), "not-found", None),
        (ClusterError("m", code=ErrorKind.CONFLICT), "conflict", None),
        (SiddhiSyntaxError("m"), "validation error", 800101),
        (StoreUnavailableError("m"), "file processing error", 800102),
        (NotLeaderError("m"), "error", None),
    ],
)
def test_errors_have_the_words_and_numbers_of_wso2(error: SpdistError, word: str, number: int | None) -> None:
    body = error_body(error)
    assert (body["type"], body["message"], body.get("code"), body["error"]) == (word, "m", number, error.code)


def test_an_error_of_a_node_before_the_update_is_understood() -> None:
    assert type(read_error({"code": "SP0704", "type": "NotFoundError", "message": "m"}, "asking")) is NotFoundError


def test_all_errors_of_an_app_cross_the_wire() -> None:
    found = (SiddhiSyntaxError("a", span=Span(1, 2, 1, 3)), SiddhiAppError("b", span=Span(4, 5, 4, 6)))
    rebuilt = read_error(error_body(SiddhiAppError("2 errors", errors=found)), "asking")
    assert isinstance(rebuilt, SiddhiAppError)
    assert [(type(e), e.message, e.span and e.span.line) for e in rebuilt.errors] == [
        (SiddhiSyntaxError, "a", 1),
        (SiddhiAppError, "b", 4),
    ]


@pytest.mark.parametrize("body", [None, "text", [], {}, {"code": "SP9999", "message": "m"}, {"message": 7}])
def test_what_is_not_known_is_a_remote_error(body: Any) -> None:
    assert read_error(body, "GET http://x").code == ErrorKind.UNKNOWN_ERROR


def test_errors_of_an_app_show_the_line_that_was_sent() -> None:
    error = SiddhiSyntaxError("what is a strem?", span=Span(2, 8, 2, 13))
    answer = (400, error_body(error), {})
    with scripted(answer) as (url, _), connect(url) as client, pytest.raises(SiddhiSyntaxError) as caught:
        client.deploy("@app:name('A')\ndefine strem S;")
    assert "define strem S;\n       ^" in str(caught.value)


# ----------------------------------------------------------------------------------------------------------------- apps
def test_the_life_of_a_deployment(manager: Manager, spark: FakeSpark) -> None:
    with connect(manager.url) as client:
        app = client.deploy(APP)
        assert app.wait(timeout_s=20) is app
        assert client.apps() == ["Trades"]
        assert app.text() == APP
        status = app.status()
        assert (status.state, status.version, len(status.groups)) == ("RUNNING", 1, 3)
        assert [g["name"] for g in app.topology()["groups"]] == ["Trades-filter", "Trades-average"]
        with pytest.raises(ClusterError, check=coded(ErrorKind.CONFLICT)):
            client.deploy(APP, replace=False)
        assert client.deploy(APP).status().version == 2
        assert client.deployment("Trades").status().state == "RUNNING"
        change = client.deploy(APP + " group extra 1").change
        assert change is not None
        assert (change.keeps, change.added) == (("Trades-filter", "Trades-average"), ("Trades-extra",))
        app.undeploy(timeout_s=20)
        assert client.apps() == []
        assert all("stop" in runtime.told for runtime in spark.runtimes)
        with pytest.raises(NotFoundError):
            app.status()


def test_waiting_for_an_app_that_fails_tells_why_at_once(manager: Manager, spark: FakeSpark) -> None:
    spark.problem = SpdistError("no room for state")
    with connect(manager.url) as client, pytest.raises(EngineError, match="no room for state"):
        client.deploy(APP).wait(timeout_s=60)


def test_one_failure_is_waited_through(manager: Manager, spark: FakeSpark, eventually: Eventually) -> None:
    with connect(manager.url) as client:
        app = client.deploy(APP).wait(timeout_s=20)
        spark.of("Trades-filter-1")[0].current = FakeStatus("FAILED", "a hiccup")
        eventually(lambda: app.status().groups[0].failures == 1, "the failure is counted")
        app.wait(timeout_s=20)
        assert len(spark.of("Trades-filter-1")) == 2


def test_waiting_without_workers_times_out_and_shows_what_was_waited_for(
    manager: Manager, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(manager.url) as client:
        app = client.deploy(APP)
        assert app.wait("WAITING", timeout_s=5) is app
        with pytest.raises(DeploymentTimeoutError, match=r"Trades-filter-1 +WAITING +- +\w+") as caught:
            app.wait(timeout_s=0.1)
        assert isinstance(caught.value, TimeoutError)
        assert capsys.readouterr().err == "", "so short a time needs no word"
        for quiet in (True, False):
            with pytest.raises(DeploymentTimeoutError):
                app.wait(timeout_s=1.1, quiet=quiet)
        told = capsys.readouterr().err
        assert re.match(r"1 s: Trades: 0 of \d groups run; Trades-filter-1 WAITING: no worker has joined", told)
        assert told.count("\n") == 1


def test_undeploying_waits_for_the_worker(manager: Manager, spark: FakeSpark) -> None:
    with connect(manager.url) as client:
        app = client.deploy(APP).wait(timeout_s=20)
        slow = spark.of("Trades-filter-1")[0]
        slow.may_finish.clear()
        with pytest.raises(DeploymentTimeoutError, match="may still run"):
            app.undeploy(timeout_s=0.2)
        slow.may_finish.set()


# ---------------------------------------------------------------------------------------------------------------- looks
def test_a_cluster_shows_itself_as_text_and_in_a_notebook(manager: Manager, spark: FakeSpark) -> None:
    with connect(manager.url) as client:
        app = client.deploy(APP).wait(timeout_s=20)
        status = client.status()
        text = str(status)
        assert f"manager-1 leads in term {status.term}" in text
        assert [w.id for w in status.workers] == ["worker-1"]
        assert all(name in text for name in ("worker-1", "Trades-average-2", "RUNNING"))
        page = status._repr_html_()
        assert page.count("<table") == 2
        assert "Trades-average-2" in page
        assert "Trades-filter-1" in str(app)
        assert "Trades-filter-1" in app._repr_html_()
        assert repr(app) == "Deployment('Trades')"


def test_what_others_wrote_is_escaped_in_a_notebook() -> None:
    view = {"name": "<b>A</b>", "state": "FAILED", "reason": "<script>", "version": 1, "groups": []}
    with scripted((200, view, {})) as (url, _), connect(url) as client:
        page = Deployment(client, "A")._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
