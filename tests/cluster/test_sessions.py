"""Sessions: who has logged in shows a token, until it ends, is logged out, or the password is another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from spdist.cluster.manager import Manager
from spdist.cluster.security.sessions import TOKEN_LENGTH, Session, TokenSessions
from spdist.config import load_config
from tests.cluster.shells import CONF, PASSWORD, running_manager, settings, with_users

Eventually = Callable[..., Any]
ANN = Session("ann", b"mark")


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


# ------------------------------------------------------------------------------------------------------------- values
def test_a_token_is_good_until_it_ends_and_can_be_renewed_once() -> None:
    clock = Clock()
    sessions = TokenSessions(10, 60, clock)
    tokens = sessions.begin(ANN, renewable=True)
    assert len(tokens.access) == len(tokens.refresh) == TOKEN_LENGTH
    assert sessions.find(tokens.access) == ANN
    assert sessions.find(tokens.refresh) is None and sessions.redeem(tokens.access) is None, "each is good for its own"
    clock.now_s += 10
    assert sessions.find(tokens.access) is None
    clock.now_s += 49
    assert sessions.redeem(tokens.refresh) == ANN
    assert sessions.redeem(tokens.refresh) is None and len(sessions) == 0
    late = sessions.begin(ANN, renewable=True)
    clock.now_s += 60
    assert sessions.redeem(late.refresh) is None


def test_a_session_that_is_ended_or_renewed_lets_nobody_in() -> None:
    sessions = TokenSessions(10, 60, Clock())
    ended, renewed = sessions.begin(ANN, renewable=True), sessions.begin(ANN, renewable=True)
    sessions.end(ended.access)
    assert sessions.redeem(renewed.refresh) == ANN
    for one in (ended, renewed):
        assert sessions.find(one.access) is None and sessions.redeem(one.refresh) is None
    sessions.end("unknown")


def test_what_is_kept_is_bounded_for_each_user_and_holds_no_token() -> None:
    clock = Clock()
    sessions = TokenSessions(10, 60, clock)
    bob = sessions.begin(Session("bob", b""), renewable=False)
    own = [sessions.begin(ANN, renewable=True) for _ in range(150)]
    assert len(sessions) == 101 and sessions.find(bob.access) is not None, "nobody ends the sessions of another"
    assert [sessions.find(one.access) is not None for one in own] == [False] * 50 + [True] * 100
    kept = repr(vars(sessions))
    assert not any(one.access in kept or one.refresh in kept for one in own)
    clock.now_s += 60
    sessions.begin(ANN, renewable=False)
    assert len(sessions) == 2, "what has ended is forgotten"


# --------------------------------------------------------------------------------------------------------------- nodes
@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    home = tmp_path_factory.mktemp("home")
    path = with_users(home, CONF / "manager.yaml", {"vera": "viewer"})
    config = load_config(path, role="manager", environment=settings(home, "manager-1"))
    with running_manager(config) as running:
        yield running


@pytest.fixture
def http(manager: Manager, eventually: Eventually) -> Iterator[httpx.Client]:
    eventually(manager.leads, "the manager leads")
    with httpx.Client(base_url=manager.url, trust_env=False) as client:
        yield client


def login(http: httpx.Client, user: str = "admin", password: str = PASSWORD, **more: str) -> httpx.Response:
    return http.post("/login/monitoring", data={"username": user, "password": password, "appId": "x", **more})


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_browser_shows_one_half_and_its_cookie_the_other(http: httpx.Client) -> None:
    assert http.get("/login/auth-type").json() == {"authType": "local"}
    answer = login(http)
    body = answer.json()
    assert answer.status_code == 200 and answer.headers["Cache-Control"] == "no-store"
    assert (body["authUser"], body["validityPeriod"], body["partialRefreshToken"]) == ("admin", 3600, None)
    (cookie,) = answer.headers.get_list("Set-Cookie")
    assert cookie.startswith("HID=") and {"HttpOnly", "SameSite=strict", "Max-Age=3600"} <= set(cookie.split("; "))
    assert body["partialAccessToken"] not in cookie
    half = bearer(body["partialAccessToken"])
    assert http.get("/siddhi-apps", headers=half).status_code == 200
    assert http.get("/siddhi-apps").status_code == 401, "a cookie alone lets nobody in"
    whole = bearer(body["partialAccessToken"] + http.cookies["HID"])
    second = http.cookies["HID"]
    http.cookies.clear()
    assert http.get("/siddhi-apps", headers=half).status_code == 401
    assert http.get("/siddhi-apps", headers=whole).status_code == 200
    assert http.get("/siddhi-apps", headers=bearer(second)).status_code == 401


def test_who_has_logged_out_stays_out(http: httpx.Client) -> None:
    body = login(http, rememberMe="true").json()
    own, refresh = bearer(body["partialAccessToken"]), bearer(body["partialRefreshToken"])
    kept = dict(http.cookies)
    done = http.post("/logout/monitoring", headers=own)
    assert done.json() == {"type": "success", "message": "logged out"} and dict(http.cookies) == {}
    http.cookies.update(kept)
    refused = http.get("/siddhi-apps", headers=own)
    assert refused.status_code == 401 and "was logged out" in refused.json()["message"]
    assert http.post("/login/monitoring", data={"grantType": "refresh_token"}, headers=refresh).status_code == 401


def test_a_refresh_token_is_good_for_one_more_session(http: httpx.Client) -> None:
    first = login(http, rememberMe="true").json()
    refresh, kept = bearer(first["partialRefreshToken"]), dict(http.cookies)
    answer = http.post("/login/monitoring", data={"grantType": "refresh_token"}, headers=refresh)
    second = answer.json()
    assert (answer.status_code, second["authUser"]) == (200, "admin") and second["partialRefreshToken"]
    assert http.get("/siddhi-apps", headers=bearer(second["partialAccessToken"])).status_code == 200
    http.cookies.update(kept)
    for headers, path, method in (
        (bearer(first["partialAccessToken"]), "/siddhi-apps", "GET"),
        (refresh, "/login/monitoring", "POST"),
    ):
        form = {"grantType": "refresh_token"} if method == "POST" else None
        assert http.request(method, path, data=form, headers=headers).status_code == 401, "it was used"


def test_a_token_grants_what_its_user_may_do(http: httpx.Client) -> None:
    own = bearer(login(http, "vera", "vera-secret").json()["partialAccessToken"])
    assert http.get("/managers/roles", params={"permissionSuffix": "siddhiApp.view"}, headers=own).json() is True
    refused = http.delete("/siddhi-apps/X", headers=own)
    assert refused.status_code == 403 and "'vera'" in refused.json()["message"]


@pytest.mark.parametrize(
    ("form", "status", "says"),
    [
        ({"username": "admin", "password": "wrong"}, 401, "wrong"),
        ({"username": "nobody", "password": PASSWORD}, 401, "wrong"),
        ({}, 401, "wrong"),
        ({"grantType": "refresh_token"}, 401, "refresh token"),
        ({"grantType": "magic", "password": "geheim"}, 400, "grantType"),
        ({"username": "x" * 501, "password": "geheim"}, 400, "username"),
        ({str(i): "" for i in range(101)}, 400, "no form"),
    ],
)
def test_wrong_logins_are_refused(http: httpx.Client, form: dict[str, str], status: int, says: str) -> None:
    answer = http.post("/login/monitoring", data=form or {"appId": ""})
    assert (answer.status_code, says in answer.json()["message"]) == (status, True), answer.text
    assert "geheim" not in answer.text and not answer.headers.get_list("Set-Cookie")


def test_a_login_is_a_form(http: httpx.Client) -> None:
    answer = http.post("/login/monitoring", json={"username": "admin", "password": PASSWORD})
    assert answer.status_code == 415 and "x-www-form-urlencoded" in answer.json()["message"]


def test_who_guesses_at_the_login_has_to_wait(http: httpx.Client) -> None:
    statuses = [login(http, "guessed", str(number)).status_code for number in range(8)]
    assert statuses[:5] == [401] * 5 and statuses[-1] == 429
    assert login(http).status_code == 200


def test_how_long_sessions_last_are_settings(tmp_path: Path) -> None:
    more = {
        "SPDIST__AUTH__SESSION_TIMEOUT_S": "60",
        "SPDIST__AUTH__REFRESH_TIMEOUT_S": "120",
    }
    config = load_config(CONF / "manager.yaml", environment=settings(tmp_path, "m", **more))
    assert (config.auth.session_timeout_s, config.auth.refresh_timeout_s) == (60, 120)
