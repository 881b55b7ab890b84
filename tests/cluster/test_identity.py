"""Users of a real identity provider at a real manager: tokens, roles, revocation, logins in a browser."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc.jwk import OctKey, RSAKey
from typer.testing import CliRunner, Result

import spdist
from spdist.__main__ import app
from spdist.cluster.api import manager_app
from spdist.cluster.manager import Manager
from spdist.cluster.security.stored_login import login_file
from spdist.config import load_config
from spdist.errors import SpdistError, UnauthorizedError
from tests.cluster.shells import APP, CONF, PASSWORD, running_manager, settings
from tests.identity_provider import CLIENT, PUBLIC, SECRET, IdentityProvider

Eventually = Callable[..., Any]
Nodes = Callable[..., Manager]

PROPERTIES = """\
auth.configs:
  type: external
  properties:
    issuer: {issuer}
    spClientId: spdist
    spClientSecret: ${{env:PROVIDER_SECRET}}
    publicClientId: spdist-cli
    roleMapping:
      - {{group: stream-admins, role: admin}}
      - {{group: stream-viewers, role: viewer}}
      - {{scope: siddhi.view, role: viewer}}
"""


@pytest.fixture(scope="module")
def nodes(provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """``nodes(NAME="value")``: a manager whose users the provider knows, with more in its environment; each once."""
    running: list[Any] = []
    known: dict[str, Manager] = {}

    def start(**more: str) -> Manager:
        if (name := str(more)) in known:
            return known[name]
        home = tmp_path_factory.mktemp("home")
        text = (CONF / "manager.yaml").read_text()
        issuer = more.pop("issuer", provider.url)
        (home / "deployment.yaml").write_text(text.replace("auth.configs:\n", PROPERTIES.format(issuer=issuer)))
        more = {"PROVIDER_SECRET": SECRET, **more}
        environment = settings(home, f"manager-{len(known)}", **more)
        context = running_manager(load_config(home, role="manager", environment=environment))
        running.append(context)
        known[name] = context.__enter__()
        return known[name]

    yield start
    for context in running:
        context.__exit__(None, None, None)


@pytest.fixture
def http(nodes: Nodes, eventually: Eventually) -> Iterator[httpx.Client]:
    manager = nodes()
    eventually(manager.leads, "the manager leads")
    with client_of(manager) as client:
        yield client


def client_of(manager: Manager) -> httpx.Client:
    return httpx.Client(base_url=manager.url, trust_env=False, timeout=60)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_groups_at_the_provider_say_who_may_do_what(
    http: httpx.Client, provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    ada, vic, nell = (bearer(provider.token(name)) for name in ("ada", "vic", "nell"))
    text = {"Content-Type": "text/plain"}
    with caplog.at_level(logging.INFO, "spdist.audit"):
        assert http.get("/siddhi-apps", headers=vic).json() == []
        refused = http.post("/siddhi-apps", content=APP, headers=vic | text)
        assert refused.status_code == 403 and "'vic'" in refused.json()["message"]
        assert http.get("/siddhi-apps", headers=nell).status_code == 403, "no role at all"
        assert http.post("/siddhi-apps", content=APP, headers=ada | text).status_code == 201
        assert http.delete("/siddhi-apps/Trades", headers=ada).status_code == 200
    told = [record.getMessage() for record in caplog.records if record.name == "spdist.audit"]
    assert any("user 'vic'" in one and one.endswith("403") for one in told)
    assert any("user 'ada'" in one and one.endswith("201") for one in told)


def test_users_of_the_settings_are_still_let_in_for_nodes_need_one(http: httpx.Client) -> None:
    assert http.get("/siddhi-apps", auth=("admin", PASSWORD)).status_code == 200
    assert http.get("/siddhi-apps", auth=("ada", "ada-secret")).status_code == 401


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"exp": 1_000_000_000}, "has ended"),
        ({"nbf": 9_000_000_000}, "not yet valid"),
        ({"aud": ["other"]}, "meant for somebody else"),
        ({"iss": "https://evil.example"}, "is not of http://127.0.0.1"),
        ({"exp": None}, "exp"),
        ({"sub": ""}, "names no user"),
        ({"key": "of nobody"}, "names no key"),
        ({"key": "same kid"}, "signature"),
        ({"key": "secret"}, "Algorithm of 'HS256' is not allowed"),
        ({"algorithm": "none"}, "Algorithm of 'none' is not allowed"),
    ],
    ids=str,
)
def test_other_tokens_are_refused(
    http: httpx.Client, provider: IdentityProvider, change: dict[str, Any], says: str
) -> None:
    # A user of its own: wrong tokens slow down whom they name.
    change = {"sub": f"user of {says}", **change}
    if (kid := {"same kid": provider.key.kid, "of nobody": "of-nobody"}.get(change.get("key", ""))) is not None:
        change["key"] = RSAKey.generate_key(2048, parameters={"kid": kid})
    if change.get("key") == "secret":
        change |= {"key": OctKey.import_key("x" * 40, {"kid": provider.key.kid}), "algorithm": "HS256"}
    answer = http.get("/siddhi-apps", headers=bearer(provider.signed(**change)))
    assert answer.status_code == 401 and says in answer.json()["message"], answer.text


def test_a_token_that_was_changed_is_refused(http: httpx.Client, provider: IdentityProvider) -> None:
    head, _, signature = provider.token("vic").split(".")
    claims = provider.signed().split(".")[1]
    answer = http.get("/siddhi-apps", headers=bearer(f"{head}.{claims}.{signature}"))
    assert answer.status_code == 401 and "signature" in answer.json()["message"]


def test_keys_that_nobody_knows_are_looked_for_once(http: httpx.Client, provider: IdentityProvider) -> None:
    def looks() -> int:
        return provider.asked().count("/oauth/jwks.json")

    http.get("/siddhi-apps", headers=bearer(provider.token("ada")))
    before = looks()
    for number in range(5):
        key = RSAKey.generate_key(2048, parameters={"kid": f"invented-{number}"})
        http.get("/siddhi-apps", headers=bearer(provider.signed(key, sub=f"inventor-{number}")))
    assert looks() <= before + 1


def test_who_shows_wrong_tokens_has_to_wait_and_others_do_not(http: httpx.Client, provider: IdentityProvider) -> None:
    wrong = [provider.signed(sub="eve", aud="other", jti=str(number)) for number in range(8)]
    statuses = [http.get("/siddhi-apps", headers=bearer(one)).status_code for one in wrong]
    assert statuses[:5] == [401] * 5 and statuses[-1] == 429
    assert http.get("/siddhi-apps", headers=bearer(provider.token("vic"))).status_code == 200


# ---------------------------------------------------------------------------------------------------------- revocation
def test_a_clients_own_token_is_asked_about_and_its_scope_is_a_role(
    http: httpx.Client, provider: IdentityProvider
) -> None:
    token = provider.opaque_token("siddhi.view")
    before = provider.asked().count("/oauth/introspect")
    for _ in range(3):
        assert http.get("/siddhi-apps", headers=bearer(token)).status_code == 200
    assert provider.asked().count("/oauth/introspect") == before + 1, "what it says is kept"
    assert http.delete("/siddhi-apps/X", headers=bearer(token)).status_code == 403
    assert http.get("/siddhi-apps", headers=bearer("of-nobody")).status_code == 401


def test_a_revoked_token_is_refused_within_the_cache_time(
    nodes: Nodes, provider: IdentityProvider, eventually: Eventually
) -> None:
    manager = nodes(SPDIST__AUTH__INTROSPECTION="always", SPDIST__AUTH__CACHE_TIMEOUT_S="1")
    eventually(manager.leads, "the manager leads")
    ada, vic = provider.token("ada"), provider.token("vic")
    with client_of(manager) as http:

        def status(token: str) -> int:
            return http.get("/siddhi-apps", headers=bearer(token)).status_code

        assert status(ada) == status(vic) == 200
        provider.revoke(vic)
        eventually(lambda: status(vic) == 401, "the revoked token is refused")
        assert status(ada) == 200


def test_without_the_provider_only_those_are_let_in_who_are_known(
    nodes: Nodes, provider: IdentityProvider, eventually: Eventually
) -> None:
    manager = nodes()
    eventually(manager.leads, "the manager leads")
    with client_of(manager) as http:
        known, new = provider.opaque_token("siddhi.view"), provider.opaque_token("siddhi.view")
        for token in (known, provider.signed(sub="vic")):
            assert http.get("/siddhi-apps", headers=bearer(token)).status_code == 200
        with provider.stopped():
            assert http.get("/siddhi-apps", headers=bearer(known)).status_code == 200
            refused = http.get("/siddhi-apps", headers=bearer(new))
            assert refused.status_code == 503 and refused.headers["Retry-After"] == "3"
            assert f"the identity provider {provider.url} cannot be used" in refused.json()["message"]
            jwt = provider.signed(sub="ada")
            assert http.get("/siddhi-apps", headers=bearer(jwt)).status_code == 200, "its keys are known"
        eventually(lambda: http.get("/siddhi-apps", headers=bearer(new)).status_code == 200, "it is asked again", 10)


# -------------------------------------------------------------------------------------------------------- in a browser
def begun(http: httpx.Client, provider: IdentityProvider) -> httpx.Response:
    """Begin a login as a browser does; the provider knows where it leads back to."""
    provider.know(CLIENT, SECRET, f"{http.base_url}/login/callback/monitoring")
    assert http.get("/login/auth-type").json() == {
        "authType": "sso", "issuer": provider.url, "scope": "openid profile groups", "publicClientId": PUBLIC
    }  # fmt: skip
    return http.post("/login/monitoring", data={"appId": "monitoring"})


def test_a_browser_logs_in_at_the_provider(
    http: httpx.Client, provider: IdentityProvider, caplog: pytest.LogCaptureFixture, eventually: Eventually
) -> None:
    answer = begun(http, provider)
    assert answer.status_code == 302 and answer.json()["redirectUrl"] == answer.headers["Location"]
    asked = httpx.URL(answer.headers["Location"]).params
    assert (asked["client_id"], asked["code_challenge_method"], asked["response_type"]) == (CLIENT, "S256", "code")
    (cookie,) = answer.headers.get_list("Set-Cookie")
    assert {"HttpOnly", "SameSite=lax", "Path=/login/callback", "Max-Age=600"} <= set(cookie.split("; "))
    with caplog.at_level(logging.INFO, "spdist.audit"):
        done = http.get(provider.log_in(answer.headers["Location"], "vic"))
        # The log is written when the answer is on its way.
        told = lambda: [one.getMessage() for one in caplog.records]  # noqa: E731
        eventually(lambda: any("user 'vic'" in one and one.endswith("200") for one in told()), "the audit log has it")
    body = done.json()
    assert done.status_code == 200 and body["authUser"] == "vic", done.text
    half, rest = bearer(body["partialAccessToken"]), http.cookies["HID"]
    assert http.get("/siddhi-apps", headers=half).status_code == 200
    whole = bearer(body["partialAccessToken"] + rest)
    assert http.get("/siddhi-apps", headers=whole).status_code == 200, "the cookie is not added twice"
    refresh = bearer(body["partialRefreshToken"])
    renewed = http.post("/login/monitoring", data={"grantType": "refresh_token"}, headers=refresh)
    assert renewed.status_code == 200 and renewed.json()["authUser"] == "vic", renewed.text
    half = bearer(renewed.json()["partialAccessToken"])
    kept = dict(http.cookies)
    assert http.post("/logout/monitoring", headers=half).json()["message"] == "logged out"
    assert "HID" not in http.cookies and http.get("/siddhi-apps", headers=half).status_code == 401
    http.cookies.update(kept)
    refused = http.get("/siddhi-apps", headers=half)
    assert refused.status_code == 401 and "logged out" in refused.json()["message"], "though its signature is right"


def test_a_login_ends_in_the_browser_that_began_it(http: httpx.Client, provider: IdentityProvider) -> None:
    where = provider.log_in(begun(http, provider).headers["Location"], "vic")
    url = httpx.URL(where)
    for other in (url.copy_set_param("state", "x"), url.copy_set_param("iss", "https://evil.example")):
        refused = http.get(other)
        assert refused.status_code == 401 and "no login is under way" in refused.json()["message"]
    assert http.get(url.copy_remove_param("code")).status_code == 401
    pending = http.cookies["SPDISTLOGIN"]
    http.cookies.clear()
    assert http.get(where).status_code == 401, "another browser"
    state, _, nonce = pending.split(".")
    http.cookies.set("SPDISTLOGIN", f"{state}.{'x' * 64}.{nonce}", path="/login/callback")
    assert http.get(where).status_code == 401, "another verifier"


def test_a_node_may_show_passwords_to_the_provider(
    nodes: Nodes, provider: IdentityProvider, eventually: Eventually
) -> None:
    manager = nodes(SPDIST__AUTH__GRANT_TYPE="password")
    eventually(manager.leads, "the manager leads")
    with client_of(manager) as http:
        assert http.get("/login/auth-type").json()["authType"] == "local"
        form = {"username": "vic", "password": "vic-secret", "grantType": "password"}
        done = http.post("/login/monitoring", data=form)
        assert done.status_code == 200 and done.json()["partialRefreshToken"] is None, done.text
        half = bearer(done.json()["partialAccessToken"])
        assert http.get("/siddhi-apps", headers=half).status_code == 200
        wrong = [http.post("/login/monitoring", data={**form, "password": "x"}).status_code for _ in range(8)]
        assert wrong[:5] == [401] * 5 and wrong[-1] == 429
        assert http.get("/siddhi-apps", headers=half).status_code == 200


def test_a_node_that_takes_no_passwords_says_so(http: httpx.Client) -> None:
    form = {"username": "vic", "password": "vic-secret", "grantType": "password"}
    answer = http.post("/login/monitoring", data=form)
    assert answer.status_code == 400 and "takes no passwords" in answer.json()["message"]


def test_the_routes_of_logins_are_described(nodes: Nodes) -> None:
    paths = manager_app(nodes()).openapi()["paths"]
    assert {"200", "302", "400", "401", "415", "429", "503"} <= set(paths["/login/{app}"]["post"]["responses"])
    assert {"200", "400", "401", "404", "503"} <= set(paths["/login/callback/{app}"]["get"]["responses"])
    assert "security" not in paths["/login/callback/{app}"]["get"]
    assert paths["/logout/{app}"]["post"]["security"] == [{"basic": []}, {"bearer": []}]


# --------------------------------------------------------------------------------------- on a command line, in programs
Run = Callable[..., Result]


@pytest.fixture
def run(http: httpx.Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """``run("list")``: a command of somebody who has no password."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("SPDIST_URL", str(http.base_url).rstrip("/"))
    monkeypatch.delenv("SPDIST_PASSWORD", raising=False)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def logged_in(run: Run, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch, user: str) -> Result:
    """The command `login`, and a browser in which `user` logs in."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    provider.know(PUBLIC, None, f"http://127.0.0.1:{port}/callback")

    def visit(url: str) -> None:
        back = provider.log_in(url, user)
        assert httpx.get(back.replace("/callback", "/other"), trust_env=False).status_code == 404
        assert httpx.get(back, trust_env=False).status_code == 200

    monkeypatch.setattr("webbrowser.open", lambda url: threading.Thread(target=visit, args=(url,)).start())
    return run("login", "--port", str(port))


def test_a_login_on_the_command_line_is_for_commands_and_notebooks(
    run: Run, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch, http: httpx.Client
) -> None:
    refused = run("list")
    assert refused.exit_code == 2 and "run `spdist login`" in refused.output
    done = logged_in(run, provider, monkeypatch, "vic")
    assert done.exit_code == 0 and "vic logged in" in done.output, done.output
    file = login_file()
    assert file.path.stat().st_mode & 0o777 == 0o600 and str(file.path) in done.output
    assert run("list").exit_code == 0
    url = str(http.base_url).rstrip("/")
    with spdist.connect(url) as client:
        assert client.apps() == [] and "vic" in client._repr_html_()
        with pytest.raises(SpdistError, match="user 'vic' may not do this"):
            client.deploy(APP)
    with pytest.raises(UnauthorizedError, match="needs a password"):
        spdist.connect("http://127.0.0.1:1")  # whose manager was never told of this login
    # One that is about to end is renewed, and the file has the new one.
    old = file.find([url])
    assert old is not None
    file.keep(old.model_copy(update={"ends_s": 0.0}))
    with spdist.connect(url) as client:
        assert client.apps() == []
    new = file.find([url])
    assert new is not None and new.refresh != old.refresh and new.ends_s > time.time()
    assert old.access not in repr(new) and new.access not in repr(new)
    assert asyncio.run(apps_of(url)) == []
    file.keep(new.model_copy(update={"ends_s": 0.0, "refresh": "of-nobody"}))
    with pytest.raises(UnauthorizedError, match="has ended: the identity"), spdist.connect(url) as client:
        client.apps()
    done = run("logout")
    assert done.exit_code == 0 and file.find([url]) is None
    assert "at the provider the tokens end by themselves" in done.output, "canaille lets no public client end one"


async def apps_of(url: str) -> list[str]:
    async with spdist.connect_async(url) as client:
        return await client.apps()


def test_programs_show_tokens_of_their_own(
    run: Run, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch, http: httpx.Client
) -> None:
    token = provider.opaque_token("siddhi.view")
    asked = 0

    def fresh() -> str:
        nonlocal asked
        asked += 1
        return token

    with spdist.connect(str(http.base_url), token=fresh) as client:
        assert client.apps() == client.apps() == []
    assert asked == 2
    monkeypatch.setenv("SPDIST_TOKEN", token)
    assert run("list").exit_code == 0
    monkeypatch.setenv("SPDIST_TOKEN", "of-nobody")
    refused = run("list")
    assert refused.exit_code == 1 and "was revoked, or is not known" in refused.output


def test_a_cluster_with_users_of_its_own_has_nothing_to_log_in_to(run: Run, tmp_path: Path) -> None:
    with running_manager(load_config(CONF / "manager.yaml", environment=settings(tmp_path, "other"))) as manager:
        refused = run("login", "--url", manager.url)
    assert refused.exit_code == 1 and "knows its users itself" in refused.output
