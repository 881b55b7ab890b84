"""Users and groups that a real identity provider lists by SCIM 2.0: who is found, what that grants, and until when."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from spdist.cluster.checkup import FindingLevel, check_node
from spdist.cluster.security.claims import RefusedToken
from spdist.cluster.security.identity import Identity
from spdist.cluster.security.provider import ProviderAway
from spdist.cluster.security.scim import ListedUser, UsersPage, read_page
from spdist.config import Secret, load_config
from spdist.config.external import MappedRole
from spdist.config.sections import Auth
from tests.cluster.shells import CONF, running_manager, settings
from tests.identity_provider import CLIENT, SECRET, IdentityProvider
from tests.transports.certificates import authority, certificate

Eventually = Callable[..., Any]
#: A token without groups; they are only to be had by SCIM.
NO_GROUPS = "openid"


@pytest.fixture(scope="module")
def groups(provider: IdentityProvider) -> None:
    """Users whom somebody has added: cyd, dan, eve and fay in `ops`, gus in none."""
    for name in ("cyd", "dan", "eve", "fay", "gus"):
        provider.add_user(name)
    provider.add_group("ops", "cyd", "dan", "eve", "fay")


pytestmark = pytest.mark.usefixtures("groups")


def external(provider: IdentityProvider, **more: Any) -> Auth:
    mapping = (MappedRole("developer", "ops"), MappedRole("admin", "stream-admins"))
    known: dict[str, Any] = {"issuer": provider.url, "scim_url": provider.scim_url, "client_id": CLIENT}
    return Auth(role_mapping=mapping, **known | {"client_secret": Secret(SECRET)} | more)


def test_groups_are_looked_up_where_a_token_has_none(provider: IdentityProvider) -> None:
    identity = Identity(external(provider), "admin")
    roles = {name: identity.verify(provider.token(name, NO_GROUPS)).roles for name in ("ada", "cyd", "nell", "gus")}
    assert roles == {"ada": {"admin"}, "cyd": {"developer"}, "nell": frozenset(), "gus": frozenset()}
    before = provider.asked().count("/scim/v2/Users")
    assert identity.verify(provider.token("ada")).roles == {"admin"}
    assert provider.asked().count("/scim/v2/Users") == before, "a token with groups says enough"
    # canaille ignores the filter and lists everybody: a name counts as a whole.
    for name in ("cy", "CYD", 'cyd" or userName ne "'):
        assert identity.provider.user(name) is None
    assert identity.provider.user("cyd") == ListedUser(True, ("ops",))


def test_what_changes_at_the_provider_counts_within_the_cache_time(
    provider: IdentityProvider, tmp_path: Path, eventually: Eventually
) -> None:
    properties = f"""\
auth.configs:
  type: external
  properties:
    issuer: {provider.url}
    spClientId: {CLIENT}
    spClientSecret: ${{env:PROVIDER_SECRET}}
    idpBaseUrl: {provider.scim_url}
    cacheTimeout: 1
    roleMapping: [{{group: ops, role: admin}}]
"""
    text = (CONF / "manager.yaml").read_text(encoding="utf-8").replace("auth.configs:\n", properties)
    (tmp_path / "deployment.yaml").write_text(text, encoding="utf-8")
    config = load_config(tmp_path, role="manager", environment=settings(tmp_path, "manager-1", PROVIDER_SECRET=SECRET))
    (seen,) = (one for one in check_node(config) if one.what == "identity provider")
    assert (
        seen.level is FindingLevel.OK and seen.found == f"{provider.url} has 1 key, and {provider.scim_url} lists users"
    )
    tokens = {name: provider.token(name, NO_GROUPS) for name in ("dan", "eve", "fay", "gus")}
    with running_manager(config) as manager, httpx.Client(base_url=manager.url, trust_env=False, timeout=60) as http:
        eventually(manager.leads, "the manager leads")

        def asked(name: str) -> tuple[int, str]:
            answer = http.get("/siddhi-apps", headers={"Authorization": f"Bearer {tokens[name]}"})
            return answer.status_code, answer.text

        assert {name: asked(name)[0] for name in tokens} == {"dan": 200, "eve": 200, "fay": 200, "gus": 403}
        provider.change("Groups/ops", "members", [{"value": name} for name in ("cyd", "eve", "fay")])
        eventually(lambda: asked("dan")[0] == 403, "who left the group has no role any more")
        provider.change("Users/eve", "active", False)
        eventually(lambda: asked("eve")[0] == 401, "who is locked is not let in any more")
        assert "says that this user is not active" in asked("eve")[1]
        provider.scim("DELETE", "/Users/fay")
        eventually(lambda: asked("fay")[0] == 401, "who was deleted is not let in any more")
        assert "lists no user fay" in asked("fay")[1]
        provider.change("Groups/ops", "members", [{"value": name} for name in ("cyd", "dan")])
        eventually(lambda: asked("dan")[0] == 200, "who is back has the role again")


def test_while_the_provider_is_away_what_is_known_goes_on_until_the_cache_time(provider: IdentityProvider) -> None:
    now = [time.time()]
    identity = Identity(external(provider, cache_timeout_s=60), "admin", clock=lambda: now[0])
    known, new = (provider.token(name, NO_GROUPS) for name in ("cyd", "ada"))
    assert identity.verify(known).roles == {"developer"}
    with provider.stopped():
        now[0] += 59
        assert identity.verify(known).roles == {"developer"}
        with pytest.raises(ProviderAway, match=f"the identity provider {provider.url} cannot be used"):
            identity.verify(new)
        now[0] += 2
        with pytest.raises(ProviderAway):
            identity.verify(known)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"client_secret": Secret("wrong")}, "it refuses this client: invalid_client"),
        # canaille knows bearer tokens only.
        (
            {"scim_username": "admin", "scim_password": Secret("pw")},
            r"/scim/v2/Users answers 401 \(unsupported_token_type\): idpUsername and idpPassword are not allowed",
        ),
        ({"scim_url": "http://127.0.0.1:9/scim"}, "refused"),
        ({"scim_path": "/scim/v3"}, "/scim/v3/Users answers 404"),
    ],
    ids=["secret", "password", "nobody there", "path"],
)
def test_settings_that_are_wrong_are_named(provider: IdentityProvider, wrong: dict[str, Any], says: str) -> None:
    if path := wrong.get("scim_path"):
        wrong = {"scim_url": provider.url + path}
    identity = Identity(external(provider, **wrong), "admin")
    with pytest.raises(ProviderAway, match=says):
        identity.verify(provider.token("cyd", NO_GROUPS))


def test_the_certificate_of_who_lists_the_users_is_checked(provider: IdentityProvider, tmp_path: Path) -> None:
    authority(tmp_path / "tls")
    authority(tmp_path / "other")
    url = provider.over_tls(certificate(tmp_path / "tls", "node"))
    auth = external(provider, scim_url=f"{url}/scim/v2", provider_trust_file=tmp_path / "tls/ca.crt")
    token = provider.token("cyd", NO_GROUPS)
    assert Identity(auth, "admin").verify(token).roles == {"developer"}
    for file in (None, tmp_path / "other/ca.crt"):
        with pytest.raises(ProviderAway, match="authorities to trust"):
            Identity(replace(auth, provider_trust_file=file), "admin").verify(token)


def test_a_clients_own_token_is_of_no_user(provider: IdentityProvider) -> None:
    with pytest.raises(RefusedToken, match=f"lists no user {CLIENT}"):
        Identity(external(provider), "admin").verify(provider.opaque_token("openid"))


def test_a_page_is_a_list_of_scim() -> None:
    assert read_page({"totalResults": 0}, "ann") == UsersPage(None, None), "RFC 7644, 3.4.2: no Resources where none"
    assert read_page({"totalResults": 3, "Resources": [{"userName": "ann2"}]}, "ann", 2) == UsersPage(None, 3)
    assert read_page({"totalResults": 9, "Resources": []}, "ann", 4) == UsersPage(None, None), "a page without an end"
    odd = {"userName": "ann", "groups": [{"display": "ops", "value": "1"}, {"value": "2"}, "x", {"display": 5}]}
    assert read_page({"totalResults": 1, "Resources": ["x", odd]}, "ann").user == ListedUser(True, ("ops",))
    for active in (False, None, "true"):
        found = read_page({"totalResults": 1, "Resources": [odd | {"active": active}]}, "ann").user
        assert found is not None and not found.active
    for wrong in ({}, {"totalResults": "1"}, {"totalResults": 1, "Resources": {}}):
        with pytest.raises(ValueError, match="it lists no users"):
            read_page(wrong, "ann")
