"""A provider that answers in ways of its own: what is made of its words, its certificates, and its silence."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest

from spdist.cluster.checkup import FindingLevel, check_node
from spdist.cluster.security.claims import Keys, RefusedToken
from spdist.cluster.security.provider import Provider, ProviderAccess, ProviderAway, ProviderEndpoints, endpoints_of
from spdist.cluster.security.scim import ListedUser
from spdist.config import Secret, load_config
from spdist.transports.sockets.tls import Certificate, server_context
from tests.transports.certificates import authority

#: Of RFC 7515.
KEY = {"kty": "EC", "crv": "P-256", "kid": "1"} | {
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
}  # fmt: skip
ACCESS = ProviderAccess("https://id.example/a", "sp")
DISCOVERED = {"issuer": "https://id.example/a", "token_endpoint": "https://id.example/token", "jwks_uri": "https://k/j"}


def test_what_the_provider_tells_of_itself_is_checked() -> None:
    assert endpoints_of(DISCOVERED, ACCESS) == ProviderEndpoints(
        "", "https://id.example/token", "https://k/j", "", "", secret_in_body=False
    )
    other = replace(ACCESS, jwks_url="https://k/2", introspection_url="https://k/i")
    assert endpoints_of(DISCOVERED, other).jwks == "https://k/2"
    for wrong, says in (
        ({"issuer": "https://id.example/a/"}, "must be exactly that"),
        ({"jwks_uri": "http://k/j"}, "is no https address"),
        ({"token_endpoint": 5}, "is no https address"),
    ):
        with pytest.raises(ValueError, match=says):
            endpoints_of({**DISCOVERED, **wrong}, ACCESS)


def test_a_provider_that_is_away_is_not_asked_all_the_time() -> None:
    now = [0.0]
    provider = Provider(ProviderAccess("http://127.0.0.1:9", "sp"), clock=lambda: now[0])
    with pytest.raises(ProviderAway, match=r"http://127\.0\.0\.1:9 cannot be used"):
        provider.keys()
    provider.close()  # so another attempt would be a defect, not a refused connection
    with pytest.raises(ProviderAway):
        provider.keys()
    now[0] = 60.0
    with pytest.raises(RuntimeError):
        provider.keys()


class Words:
    """A provider with prepared answers, by path: status and body; and what it was asked."""

    def __init__(self) -> None:
        words = self
        self.answers: dict[str, tuple[int, Any]] = {}
        self.asked: list[tuple[str, str, dict[str, list[str]]]] = []

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                form = parse_qs(self.rfile.read(size).decode())
                words.asked.append((self.path, self.headers.get("Authorization", ""), form))
                status, body = words.answers.get(self.path, (404, {}))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

            do_POST = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Answer)
        self.port = self.server.server_port

    def serve(self, scheme: str = "http") -> str:
        url = f"{scheme}://127.0.0.1:{self.port}"
        told = {"issuer": url, "jwks_uri": f"{url}/keys"}
        ends = {f"{name}_endpoint": f"{url}/{name}" for name in ("token", "introspection", "revocation")}
        self.answers["/.well-known/openid-configuration"] = (200, told | ends)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return url


@pytest.fixture
def words() -> Iterator[Words]:
    found = Words()
    yield found
    found.server.shutdown()
    found.server.server_close()


def test_the_providers_certificate_is_checked(words: Words, tmp_path: Path) -> None:
    authority(tmp_path / "tls")
    authority(tmp_path / "other")
    own = Certificate(tmp_path / "tls/node.crt", tmp_path / "tls/node.key")
    words.server.socket = server_context(own).wrap_socket(words.server.socket, server_side=True)
    access = ProviderAccess(words.serve("https"), "sp", trust_file=tmp_path / "tls/ca.crt")
    assert Provider(access).endpoints().token == f"{access.issuer}/token"
    for file in (None, tmp_path / "other/ca.crt"):
        with pytest.raises(ProviderAway, match="authorities to trust"):
            Provider(replace(access, trust_file=file)).endpoints()


@pytest.mark.parametrize(
    ("status", "body", "kind", "says"),
    [
        (400, {"error": "invalid_grant", "error_description": "falsches Kennwort: ä"}, RefusedToken, "Kennwort: ä"),
        (401, {"error": "invalid_client"}, ProviderAway, "refuses this client: invalid_client"),
        (500, b"<html>", ProviderAway, "500"),
        (200, b"<html>", ProviderAway, "cannot be used"),
        (200, {"token_type": "Bearer"}, ProviderAway, "holds no access token"),
    ],
    ids=str,
)
def test_a_wrong_password_is_told_from_a_provider_that_cannot_be_used(
    words: Words, status: int, body: Any, kind: type[Exception], says: str
) -> None:
    words.answers["/token"] = (status, body)
    with pytest.raises(kind, match=says):
        Provider(ProviderAccess(words.serve(), "sp", Secret("s"))).login("ann", "pässword&=")
    assert words.asked[-1][2] == {
        "grant_type": ["password"], "username": ["ann"], "password": ["pässword&="], "scope": ["openid"]
    }  # fmt: skip


def test_a_client_names_itself_as_the_provider_wants_it(words: Words) -> None:
    url = words.serve()
    words.answers["/introspection"] = (200, {"active": True})
    access = ProviderAccess(url, "s p", Secret("a:b/+"))
    assert Provider(access).introspect("t") == {"active": True}
    # RFC 6749, 2.3.1: name and secret as in a form, then Basic: s%20p:a%3Ab%2F%2B
    assert words.asked[-1][1] == "Basic cyUyMHA6YSUzQWIlMkYlMkI="
    Provider(replace(access, client_secret=None)).introspect("t")
    assert words.asked[-1][1:] == ("", {"client_id": ["s p"], "token": ["t"], "token_type_hint": ["access_token"]})
    Provider(replace(access, asking_as=("admin", Secret("pw")))).introspect("t")
    assert words.asked[-1][1] == "Basic YWRtaW46cHc="
    found = words.answers["/.well-known/openid-configuration"][1]
    found["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    Provider(access).introspect("t")
    assert words.asked[-1][1] == "" and words.asked[-1][2]["client_secret"] == ["a:b/+"]


def test_a_provider_without_openid_connect_is_found_too(words: Words) -> None:
    url = words.serve()
    _, told = words.answers.pop("/.well-known/openid-configuration")
    words.answers["/.well-known/oauth-authorization-server/a"] = (200, told | {"issuer": f"{url}/a"})
    assert Provider(ProviderAccess(f"{url}/a", "sp")).endpoints().introspection == f"{url}/introspection"


def names(keys: Keys) -> list[str | None]:
    return [one.kid for one in keys]


def test_keys_are_kept_while_the_provider_is_away_but_not_for_ever(words: Words) -> None:
    now = [0.0]
    url = words.serve()
    words.answers["/keys"] = (200, {"keys": [KEY]})
    provider = Provider(ProviderAccess(url, "sp"), clock=lambda: now[0])
    assert names(provider.keys()) == ["1"]
    words.answers["/keys"] = (200, {"keys": [KEY | {"kid": "2"}]})
    assert names(provider.keys(anew=True)) == ["1"], "not again so soon"
    now[0] = 31.0
    assert names(provider.keys(anew=True)) == ["2"]
    words.answers["/keys"] = (503, {})
    now[0] = 7000.0
    assert names(provider.keys()) == ["2"]
    now[0] = 31.0 + 7201.0
    with pytest.raises(ProviderAway, match="answers 503"):
        provider.keys()


def test_users_are_looked_up_as_the_server_can(words: Words) -> None:
    """What canaille's SCIM cannot: filters, and refusing them in words; pages; names with passwords."""
    url = words.serve()
    words.answers["/token"] = (200, {"access_token": "own"})
    access = ProviderAccess(url, "sp", Secret("s"), scim_url=f"{url}/scim2/")
    asked = {"attributes": "userName,groups,active"}

    def answer(status: int, body: Any, **query: str) -> None:
        words.answers[f"/scim2/Users?{urlencode(query)}"] = (status, body)

    def user(name: str, *groups: str) -> dict[str, Any]:
        return {"userName": name, "groups": [{"display": one} for one in groups]}

    answer(200, {"totalResults": 1, "Resources": [user("ann", "ops")]}, filter='userName eq "ann"', **asked)
    assert Provider(access).user("ann") == ListedUser(True, ("ops",))
    assert words.asked[-1][1] == "Bearer own"
    named = replace(access, looking_as=("admin", Secret("pw")))
    assert Provider(named).user("ann") == ListedUser(True, ("ops",))
    assert words.asked[-1][1] == "Basic YWRtaW46cHc="
    answer(200, {"totalResults": 0}, filter='userName eq "eve\\" or userName ne \\""', **asked)
    assert Provider(named).user('eve" or userName ne "') is None, "a name cannot end the text of the filter"
    error = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"], "status": "400", "scimType": "invalidFilter"}
    answer(400, error, filter='userName eq "bob"', **asked)
    answer(200, {"totalResults": 3, "itemsPerPage": 2, "Resources": [user("ann"), user("bob2", "kings")]}, **asked)
    answer(200, {"totalResults": 3, "startIndex": 3, "Resources": [user("bob", "staff")]}, **asked, startIndex="3")
    assert Provider(named).user("bob") == ListedUser(True, ("staff",))
    answer(400, {**error, "scimType": "invalidSyntax"}, filter='userName eq "bob"', **asked)
    with pytest.raises(ProviderAway, match="/scim2/Users answers 400"):
        Provider(named).user("bob")
    answer(501, {}, filter='userName eq "zoe"', **asked)
    answer(200, {"totalResults": 9, "Resources": [user("ann")]}, **asked)
    for start in range(2, 10):
        answer(200, {"totalResults": 9, "Resources": [user(f"u{start}")]}, **asked, startIndex=str(start))
    assert Provider(named).user("zoe") is None, "the last page was read"
    for start in range(2, 110):
        answer(200, {"totalResults": 200, "Resources": [user(f"u{start}")]}, **asked, startIndex=str(start))
    answer(200, {"totalResults": 200, "Resources": [user("ann")]}, **asked)
    with pytest.raises(ProviderAway, match="more than 100 pages of users"):
        Provider(named).user("zoe")
    answer(403, {"detail": "not for you"}, filter='userName eq "ann"', **asked)
    with pytest.raises(ProviderAway, match=r"answers 403 \(not for you\): client sp is not allowed"):
        Provider(access).user("ann")


def test_the_check_up_of_a_node_sees_the_provider(words: Words, tmp_path: Path) -> None:
    url = words.serve()
    file = tmp_path / "deployment.yaml"
    file.write_text(f"""\
wso2.carbon: {{id: n1}}
wso2.transport.http: {{listenerConfigurations: [{{host: 127.0.0.1, port: 0}}]}}
deployment.config: {{type: default}}
auth.configs: {{type: external, properties: {{issuer: "{url}", spClientId: sp, adminScope: all}}}}
""")

    def found(**more: str) -> tuple[FindingLevel, str]:
        config = load_config(file, role="server", environment=more)
        return next((one.level, one.found) for one in check_node(config) if one.what == "identity provider")

    level, told = found()
    assert level is FindingLevel.WARNING and f"{url}/keys answers 404" in told
    words.answers["/keys"] = (200, {"keys": [KEY]})
    assert found(SPDIST__AUTH__INTROSPECTION="always") == (FindingLevel.OK, f"{url} has 1 key")
    del words.answers["/.well-known/openid-configuration"][1]["introspection_endpoint"]
    assert found(SPDIST__AUTH__INTROSPECTION="always")[0] is FindingLevel.FAILED
    assert found()[0] is FindingLevel.OK
