"""Pages of a dashboard over a real manager: who gets in, what a page may say to its kernel, and where it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from websockets.exceptions import ConnectionClosed, InvalidStatus

from spdist.__main__ import app
from spdist.cluster.manager import Manager
from spdist.config import load_config
from spdist.dashboard.kernels import kernel_environment
from spdist.dashboard.sessions import UserSession
from spdist.dashboard.upstream import Upstream
from spdist.transports.sockets.tls import client_context
from tests.cluster.shells import CONF, PASSWORD, running_manager, settings, with_users
from tests.dashboard.running import Visit, running_dashboard
from tests.transports.certificates import authority

pytestmark = pytest.mark.cluster

V1 = "v1.kernel.websocket.jupyter.org"
TEXT = "@app:name('Hot') define stream S (v double); from S[v > 30.0] select v insert into T;"


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    home = tmp_path_factory.mktemp("home")
    users = {"vera": "viewer", "walt": "worker"}
    path = with_users(home, CONF / "manager.yaml", users)
    with running_manager(load_config(path, role="manager", environment=settings(home, "manager-1"))) as running:
        yield running


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the dashboard logs."""
    return tmp_path_factory.mktemp("log") / "log"


@pytest.fixture(scope="module")
def come(manager: Manager, log: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Visit]]:
    """``come()``: somebody who has not logged in, in front of a dashboard with TLS."""
    home = tmp_path_factory.mktemp("tls")
    authority(home)
    files = "--tls-cert-file", str(home / "node.crt"), "--tls-key-file", str(home / "node.key")
    running = running_dashboard(manager.url, *files, log=log, SPDIST_PASSWORD="of the dashboard")
    with running as url, ExitStack() as visits:

        def come() -> Visit:
            visit = Visit(url, client_context(home / "ca.crt"))
            visits.callback(visit.http.close)
            return visit

        yield come


@pytest.fixture
def stranger(come: Callable[[], Visit]) -> Visit:
    return come()


@pytest.fixture(scope="module")
def ann(come: Callable[[], Visit]) -> Visit:
    visit = come()
    assert visit.log_in("admin", PASSWORD).status_code == 302
    return visit


@pytest.fixture(scope="module")
def monitor(ann: Visit) -> tuple[str, str]:
    """A page of the monitor, and its kernel."""
    return ann.open("/monitor")


def refused(visit: Visit, kernel: str, **given: Any) -> int:
    """Return the status with which the websocket of a kernel is refused."""
    with pytest.raises(InvalidStatus) as found, visit.channels(kernel, **given):
        pass
    return int(found.value.response.status_code)


# -------------------------------------------------------------------------------------------------------------- people
def test_a_stranger_sees_the_login_and_nothing_else(stranger: Visit, monitor: tuple[str, str]) -> None:
    kernel = monitor[1]
    for page in ("/", "/monitor", "/deploy", "/logout", "/nowhere"):
        answer = stranger.http.get(page)
        assert (answer.status_code, answer.headers["Location"].partition("?")[0]) == (302, "/login"), page
    assert stranger.http.get(f"/api/kernels/{kernel}").status_code == 403
    assert refused(stranger, kernel) == 403
    page = stranger.http.get("/login")
    assert page.status_code == 200 and "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]


def test_wrong_logins_are_refused_and_slowed_down(stranger: Visit) -> None:
    answers = [stranger.log_in("guessed", "0")]
    while answers[-1].status_code == 401 and len(answers) < 12:  # on a slow machine the first pause may be over
        answers.append(stranger.log_in("guessed", str(len(answers))))
    assert len(answers) >= 7 and answers[-1].status_code == 429
    assert int(answers[-1].headers["Retry-After"]) >= 1 and "try again in" in answers[-1].text
    assert stranger.log_in("admin:x", PASSWORD).status_code == 401
    walt = stranger.log_in("walt", "walt-secret")
    assert walt.status_code == 403 and "siddhiApp.view" in walt.text
    assert stranger.http.post("/login", data={"username": "admin", "password": PASSWORD}).status_code == 403, "no token"
    assert stranger.http.get("/monitor").status_code == 302


def test_one_manager_that_answers_is_enough(manager: Manager) -> None:
    upstream = Upstream(("http://127.0.0.1:9", manager.url))
    upstream.check()
    logins = {"vera": "vera-secret", "walt": "walt-secret", "admin": "wrong"}
    assert [upstream.may_look(*login) for login in logins.items()] == [True, False, None]


def test_a_session_is_a_cookie_that_says_nothing(stranger: Visit) -> None:
    answer = stranger.log_in("vera", "vera-secret")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/monitor")
    (cookie,) = [one for one in answer.headers.get_list("Set-Cookie") if one.startswith("spdist-dashboard-")]
    assert {"HttpOnly", "Path=/", "SameSite=Strict", "Secure"} <= set(cookie.split("; ")) and "vera" not in cookie
    index = stranger.http.get("/")
    assert index.status_code == 200 and "vera is logged in" in index.text and 'href="/deploy"' in index.text
    elsewhere = stranger.post("/login?next=//evil.example/", username="vera", password="vera-secret")
    assert elsewhere.headers["Location"] == "/"


def test_who_is_logged_in_has_the_pages_and_no_more_of_jupyter(ann: Visit) -> None:
    for path in ("/api/kernels", "/api/contents", "/api/sessions", "/tree", "/lab", "/files/x", "/voila/files/x.png"):
        assert ann.http.get(path).status_code == 404, path
    assert ann.http.get("/monitor?theme=x").status_code == 400
    assert ann.http.post("/api/kernels").status_code in (403, 404)


# -------------------------------------------------------------------------------------------------------------- kernels
def test_a_page_has_the_panel_and_no_secret(ann: Visit, monitor: tuple[str, str]) -> None:
    html, kernel = monitor
    assert "application/vnd.jupyter.widget-view+json" in html and "https://" not in html.split("jupyter-config-data")[0]
    with ann.channels(kernel) as channels:
        shown = str(channels.states())
        assert "Sort by" in shown
    assert PASSWORD not in html and PASSWORD not in shown


def test_a_kernel_sees_its_user_and_nothing_else_that_is_secret() -> None:
    upstream = Upstream(("https://m1:9543", "https://m2:9543"), trust_file=Path("/ca.crt"), cert_file=Path("/me.pem"))
    own = {"PATH": "/bin", "LC_ALL": "C", "SPDIST_PASSWORD": "ours", "SPDIST_USER": "us", "DATABASE_PASSWORD": "deep"}
    seen = kernel_environment(own, upstream, UserSession("vera", "hers", 0.0))
    assert Upstream.from_environment(seen) == upstream
    assert {seen[name] for name in ("PATH", "LC_ALL", "SPDIST_USER", "SPDIST_PASSWORD")} == {
        "/bin",
        "C",
        "vera",
        "hers",
    }
    assert not {"ours", "us", "deep"} & {*seen.values()}


@pytest.mark.parametrize("protocol", [(), (V1,)], ids=["json", "v1"])
def test_code_is_dropped(ann: Visit, monitor: tuple[str, str], tmp_path: Path, protocol: tuple[str, ...]) -> None:
    trace = tmp_path / "trace"
    code = {"code": f"open({str(trace)!r}, 'w')", "silent": False, "store_history": False, "user_expressions": {}}
    with ann.channels(monitor[1], *protocol) as channels:
        dropped = {channels.send("execute_request", code, channel) for channel in ("shell", "control", "stdin")}
        dropped |= {
            channels.send(kind, {"code": "1", "cursor_pos": 1}) for kind in ("complete_request", "inspect_request")
        }
        dropped.add(channels.send("shutdown_request", {"restart": False}, "control"))
        # The shell answers in order: what came before this is done.
        last = channels.send("comm_info_request", {"target_name": "jupyter.widget"})
        came = channels.until(lambda m: m["channel"] == "shell" and m["parent_header"].get("msg_id") == last)
    assert came[-1]["header"]["msg_type"] == "comm_info_reply" and came[-1]["content"]["comms"]
    assert not dropped & {message["parent_header"].get("msg_id") for message in came} and not trace.exists()


def test_a_kernel_is_of_the_session_that_started_it(ann: Visit, stranger: Visit, monitor: tuple[str, str]) -> None:
    kernel = monitor[1]
    assert stranger.log_in("admin", PASSWORD).status_code == 302
    assert refused(stranger, kernel) == 403, "another session of the same user"
    assert stranger.http.get(f"/api/kernels/{kernel}").status_code == 403
    assert stranger.post(f"/voila/api/shutdown/{kernel}").status_code == 403
    assert refused(ann, "no-such-kernel") == 403
    assert refused(ann, kernel, origin="http://evil.example") == 403
    assert ann.http.get(f"/api/kernels/{kernel}").json()["id"] == kernel


def test_a_viewer_is_told_why_nothing_is_deployed(stranger: Visit, manager: Manager) -> None:
    stranger.log_in("vera", "vera-secret")
    _, kernel = stranger.open("/deploy")
    with stranger.channels(kernel) as channels:
        widgets = channels.states()

        def model(**state: str) -> str:
            return next(one for one, known in widgets.items() if state.items() <= known.items())

        editor, deploy = model(_model_name="TextareaModel"), model(description="Deploy")
        channels.send("comm_msg", {"comm_id": editor, "data": {"method": "update", "state": {"value": TEXT}}})
        click = {"comm_id": deploy, "data": {"method": "custom", "content": {"event": "click"}}}
        channels.until(lambda m: "Hot" in str(m["content"]))
        channels.send("comm_msg", click)
        *_, told = channels.until(lambda m: "siddhiApp.manage" in str(m["content"]))
    assert "may not do this" in str(told["content"]) and "Traceback" not in str(told["content"])
    assert stranger.http.post(f"/voila/api/shutdown/{kernel}").status_code == 403, "no token"
    assert stranger.post(f"/voila/api/shutdown/{kernel}").status_code == 204
    assert refused(stranger, kernel) == 403, "its page was left"


def test_a_logout_ends_pages_and_kernels(ann: Visit, monitor: tuple[str, str]) -> None:
    with ann.channels(monitor[1]) as channels:
        assert ann.http.get("/logout").status_code == 200 and ann.http.get("/").status_code == 200, (
            "nothing is ended yet"
        )
        (kept,) = [one for one in ann.http.cookies.jar if one.name.startswith("spdist-dashboard-")]
        assert ann.post("/logout").headers["Location"] == "/login"
        with pytest.raises(ConnectionClosed):
            channels.until(lambda _: False)
    ann.http.cookies.jar.set_cookie(kept)
    assert ann.http.get("/monitor").status_code == 302
    assert refused(ann, monitor[1]) == 403


def test_who_comes_is_logged_and_no_secret(stranger: Visit, monitor: tuple[str, str], log: Path) -> None:
    stranger.log_in("vera", "vera-secret")
    stranger.log_in("vera", "guessed-secret")
    said = log.read_text()
    assert "'vera' from 127.0.0.1 has logged in" in said and "'vera' from 127.0.0.1: wrong name or password" in said
    assert not any(one in said for one in (PASSWORD, "-secret", "of the dashboard", "Traceback", *monitor))


# ------------------------------------------------------------------------------------------------------------- command
def test_it_does_not_start_without_managers_or_in_clear(manager: Manager, tmp_path: Path) -> None:
    def run(*options: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["dashboard", *options])
        return done.exit_code, done.stderr

    code, said = run("--url", "http://127.0.0.1:9", "--port", "0")
    assert code == 3 and "no manager answered" in said
    code, said = run("--url", manager.url, "--host", "0.0.0.0")
    assert code == 1 and "in clear" in said and "--tls-cert-file" in said
    assert run("--url", "nonsense")[0] == run("--url", manager.url, "--tls-key-file", "k")[0] == 2
    code, said = run("--url", manager.url, "--tls-cert-file", str(tmp_path / "none.pem"))
    assert code == 1 and "none.pem" in said
