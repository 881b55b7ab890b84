"""Users of a real identity provider at a real manager: tokens, roles, revocation, logins in a browser."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from joserfc.jwk import OctKey, RSAKey

from spdist.cluster.manager import Manager
from spdist.config import load_config
from tests.cluster.shells import APP, CONF, PASSWORD, running_manager, settings
from tests.identity_provider import SECRET, IdentityProvider, NoProvider

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
def provider() -> Iterator[IdentityProvider]:
    try:
        running = IdentityProvider().__enter__()
    except NoProvider as error:
        pytest.skip(str(error))
    with running:
        yield running


@pytest.fixture(scope="module")
def nodes(provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """``nodes(NAME="value")``: a manager whose users the provider knows, with more in its environment; each once."""
    running: list[Any] = []
    known: dict[str, Manager] = {}

    def start(**more: str) -> Manager:
        if str(more) in known:
            return known[str(more)]
        home = tmp_path_factory.mktemp("home")
        text = (CONF / "manager.yaml").read_text()
        issuer = more.pop("issuer", provider.url)
        (home / "deployment.yaml").write_text(text.replace("auth.configs:\n", PROPERTIES.format(issuer=issuer)))
        environment = settings(home, f"manager-{len(known)}", PROVIDER_SECRET=SECRET, **more)
        context = running_manager(load_config(home, role="manager", environment=environment))
        running.append(context)
        known[str(more)] = context.__enter__()
        return known[str(more)]

    yield start
    for context in running:
        context.__exit__(None, None, None)


@pytest.fixture
def http(nodes: Nodes, eventually: Eventually) -> Iterator[httpx.Client]:
    manager = nodes()
    eventually(manager.leads, "the manager leads")
    with httpx.Client(base_url=manager.url, trust_env=False) as client:
        yield client


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
        ({"key": RSAKey.generate_key(2048, parameters={"kid": "of-nobody"})}, "names no key"),
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
    if change.get("key") == "same kid":
        change["key"] = RSAKey.generate_key(2048, parameters={"kid": provider.key.kid})
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
