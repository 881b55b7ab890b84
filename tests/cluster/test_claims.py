"""What tokens grant: claims, settings and the time go in, a user with roles or a reason comes out. No provider."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

from spdist.cluster.security.access import Users
from spdist.cluster.security.claims import (
    LEEWAY_S,
    Identified,
    RefusedToken,
    Rules,
    identified,
    is_jwt,
    key_set,
    shown_name,
)
from spdist.cluster.security.identity import Identity, KnownTokens, rules_of
from spdist.config import load_config
from spdist.config.kinds import is_safe_url
from spdist.config.sections import Auth
from spdist.errors import ConfigError
from tests.cluster.shells import CONF, settings

RULES = Rules(
    "https://id",
    "sp",
    frozenset({"sp", "sp-cli"}),
    "sub",
    "groups",
    {"ops": "admin", "staff": "viewer", "/dev": "developer"},
    {"siddhi.view": "viewer"},
)
CLAIMS: dict[str, Any] = {"iss": "https://id", "aud": "sp", "sub": "ann", "exp": 1000}


@pytest.mark.parametrize(
    ("more", "roles"),
    [
        ({}, set()),
        ({"groups": ["ops", "staff", "tennis"]}, {"admin", "viewer"}),
        ({"groups": "staff, /dev"}, {"viewer", "developer"}),
        ({"groups": ["admin", "viewer"]}, set()),  # a role's own name is no group of the mapping
        ({"groups": {"ops": True}}, set()),
        ({"groups": [["ops"], None, 3]}, set()),
        ({"scope": "openid siddhi.view"}, {"viewer"}),
        ({"scp": ["siddhi.view"]}, {"viewer"}),
        ({"scope": "ops"}, set()),  # nor is a scope a group
    ],
)
def test_roles_come_from_the_mapping_and_from_nothing_else(more: dict[str, Any], roles: set[str]) -> None:
    assert identified({**CLAIMS, **more}, RULES, 900).roles == roles


def test_claims_may_stand_deeper_and_have_dots_in_their_names() -> None:
    deep = {**CLAIMS, "realm_access": {"roles": ["ops"]}, "https://x.example/user": "bob"}
    rules = replace(RULES, roles_claim="realm_access.roles", username_claim="https://x.example/user")
    assert identified(deep, rules, 900) == Identified("bob", frozenset({"admin"}), 1000.0)


def test_clocks_may_differ_a_little() -> None:
    assert identified(CLAIMS, RULES, 1000 + LEEWAY_S - 1).username == "ann"
    with pytest.raises(RefusedToken, match="has ended"):
        identified(CLAIMS, RULES, 1000 + LEEWAY_S)
    early = {**CLAIMS, "nbf": 900}
    assert identified(early, RULES, 900 - LEEWAY_S).username == "ann"
    with pytest.raises(RefusedToken, match="not yet valid"):
        identified(early, RULES, 900 - LEEWAY_S - 1)


@pytest.mark.parametrize(
    "wrong",
    [{"exp": "soon"}, {"exp": float("nan")}, {"exp": True}, {"aud": {}}, {"aud": []}, {"iss": ["https://id"]},
     {"iss": "https://id/"}, {"sub": "a\nb"}, {"sub": "x" * 201}, {"sub": 7}, {"nbf": "now"}],
    ids=str,
)  # fmt: skip
def test_strange_claims_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(RefusedToken):
        identified({**CLAIMS, **wrong}, RULES, 900)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"active": True, "client_id": "sp-cli", "sub": "ann"}, ("ann", None)),
        ({"active": True, "client_id": "sp", "exp": 1000}, ("sp", 1000.0)),  # a client's own token
        ({"active": True, "aud": ["x", "sp"], "sub": "ann"}, ("ann", None)),
        ({"active": True, "client_id": "other", "sub": "ann"}, "meant for somebody else"),
        ({"active": True, "aud": "x", "client_id": "sp", "sub": "ann"}, "meant for somebody else"),
        ({"active": True, "aud": "sp", "iss": "https://evil", "sub": "ann"}, "is not of https://id"),
        ({"active": True, "aud": "sp", "exp": 1, "sub": "ann"}, "has ended"),
        ({"active": False}, "has ended, was revoked"),
        ({"active": "true", "aud": "sp", "sub": "ann"}, "has ended, was revoked"),
        ({}, "has ended, was revoked"),
    ],
)
def test_what_the_provider_answers_is_judged_too(answer: dict[str, Any], found: Any) -> None:
    if isinstance(found, str):
        with pytest.raises(RefusedToken, match=found):
            identified(answer, RULES, 900, asked=True)
    else:
        user = identified(answer, RULES, 900, asked=True)
        assert (user.username, user.until_s) == found


def test_only_keys_that_nobody_else_can_use_check_signatures() -> None:
    own = ECKey.generate_key("P-256", auto_kid=True).as_dict(private=False)
    others = [OctKey.import_key("x" * 40).as_dict(), {"kty": "new"}, {**own, "use": "enc"}, {"kty": "RSA"}, 5]
    assert [key.kid for key in key_set({"keys": [own, *others]})] == [own["kid"]]
    for nothing in ({"keys": others}, {"keys": own}, [], None):
        with pytest.raises(ValueError, match="no key"):
            key_set(nothing)


@pytest.mark.parametrize("text", ["", "abc", "a.b.c", "e30.e30.", "\ud800.a.b", "é.b.c", "..", "W10.e30.x"])
def test_what_is_no_jwt_is_opaque(text: str) -> None:
    assert not is_jwt(text)
    assert shown_name(text) == ""


# ------------------------------------------------------------------------------------------------------ what is kept
def test_what_is_known_of_tokens_ends_and_is_bounded() -> None:
    known = KnownTokens(60)
    known.keep("long", Identified("ann", frozenset(), None), 100)
    known.keep("short", Identified("ann", frozenset(), 110.0), 100)
    assert known.find("long", 159) is not None and known.find("long", 160) is None
    known.keep("short", Identified("ann", frozenset(), 110.0), 100)
    assert known.find("short", 110 + LEEWAY_S - 1) and not known.find("short", 110 + LEEWAY_S)
    for number in range(10_050):
        known.keep(str(number), Identified("ann", frozenset(), None), 200)
    assert len(known) == 10_000 and known.find("0", 200) is None
    known.end("9999")
    assert known.has_ended("9999") and known.find("9999", 200) is None
    assert "9998" not in repr(vars(known)), "digests only"


def test_a_token_that_ends_while_it_is_looked_at_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    identity = Identity(Auth(issuer="http://127.0.0.1:9", client_id="sp"), "admin")

    def introspect(token: str) -> dict[str, Any]:
        identity.end(token)
        return {"active": True, "sub": "ann", "client_id": "sp"}

    monkeypatch.setattr(identity.provider, "introspect", introspect)
    monkeypatch.setattr(identity.provider, "revoke", lambda _: None)
    with pytest.raises(RefusedToken, match="logged out"):
        identity.verify("opaque")
    assert identity.recall("opaque") is None
    known = KnownTokens(60)
    known.end("ended")
    assert not known.keep("ended", Identified("ann", frozenset(), None), 0) and len(known) == 0


def test_a_token_that_was_logged_out_is_not_let_in_by_writing_it_differently() -> None:
    token = jwt.encode({"alg": "ES256"}, {"sub": "ann"}, ECKey.generate_key("P-256"))
    same = token[:-1] + ("B" if token[-1] == "A" else "A")  # the last bits of base64 mean nothing
    known = KnownTokens(60)
    for text in (token, same):
        known.keep(text, Identified("ann", frozenset(), None), 0)
    known.end(token)
    assert known.has_ended(same) and known.find(same, 0) is None and known.find(token, 0) is None
    assert not known.has_ended("opaque")


# ---------------------------------------------------------------------------------------------------------- settings
@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://id.example/a", True), ("http://127.0.0.1:8080", True), ("http://[::1]:1/x", True),
        ("http://localhost/x", True), ("http://id.example", False), ("http://127.0.0.1.evil.example", False),
        ("https://user:pw@id.example", False), ("https://id.example/?a=1", False), ("ftp://id.example", False),
        ("https://", False), ("https://id.example:port", False), ("https://id.example/a b", False),
    ],
)  # fmt: skip
def test_secrets_go_over_tls_only(url: str, safe: bool) -> None:
    assert is_safe_url(url) is safe


def external(tmp_path: Path, *lines: str) -> Path:
    text = (CONF / "manager.yaml").read_text()
    given = "".join(f"    {line}\n" for line in lines)
    file = tmp_path / "deployment.yaml"
    file.write_text(text.replace("auth.configs:\n", f"auth.configs:\n  type: external\n  properties:\n{given}"))
    return file


def test_settings_of_wso2_lead_to_its_server(tmp_path: Path) -> None:
    file = external(
        tmp_path,
        "kmTokenUrl: https://is.example:9443/oauth2",
        "kmDcrUrl: https://is.example:9443/identity/connect/register",
        "spClientId: sp",
        "kmUsername: admin",
        "kmPassword: ${env:KM}",
        "adminScope: apim:admin",
        "statusDashboardAppContext: monitoring",
    )
    config = load_config(file, role="manager", environment=settings(tmp_path, "m", KM="pw"))
    rules = rules_of(config.auth, config.auth.admin_role)
    assert (rules.issuer, rules.audience) == ("https://is.example:9443/oauth2/token", "sp")
    assert rules.scopes == {"apim:admin": "admin"}
    assert [note.partition(": ")[2] for note in config.notes] == [
        "auth.configs.properties.kmDcrUrl: not used: one client is enough, spClientId; it is registered at the "
        "provider",
        "auth.configs.properties.statusDashboardAppContext: not used: pages of WSO2 have sessions of their own; "
        "here one login is good for all",
    ]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["issuer: http://id.example", "spClientId: sp"], "issuer must be an address such as https"),
        (["issuer: https://id.example"], "spClientId is missing"),
        (["issuer: https://id.example", "spClientId: sp"], "roleMapping is missing"),
        (["issuer: https://id", "spClientId: s", "roleMapping: [{role: viewer}]"], "must have a group or a scope"),
        (["issuer: https://id", "spClientId: s", "roleMapping: [{role: king, group: a}]"], "'king', but does not def"),
        (["issuer: https://id", "spClientId: s", "adminScope: a", "kmUsername: x"], "give both, or none"),
        (["issuer: https://id", "spClientSecret: in-clear"], "spClientSecret must be"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(tmp_path: Path, lines: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        load_config(external(tmp_path, *lines), role="manager", environment=settings(tmp_path, "m"))
    assert "in-clear" not in str(caught.value)


def test_a_server_needs_no_user_of_its_own_and_a_manager_one_for_its_workers(tmp_path: Path) -> None:
    text = """\
wso2.carbon: {id: n1}
wso2.transport.http: {listenerConfigurations: [{host: 127.0.0.1, port: 0}]}
deployment.config: {httpsInterface: {host: h.example, port: 1, username: u, password: "${env:P}"}}
auth.configs: {type: external, properties: {issuer: https://id, spClientId: sp, adminScope: all}}
"""
    file = tmp_path / "deployment.yaml"
    file.write_text(text.replace("deployment.config: {", "deployment.config: {type: default, "))
    users = Users(load_config(file, role="server", environment={"P": "x"}))
    assert users.identity is not None and users.verify("u", "x") is None
    users.close()
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"userStore\.users is missing, and a manager cannot do without it"):
        load_config(file, role="manager", environment={"P": "x"})
