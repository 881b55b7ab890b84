"""The HTTP sink against a real server."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from spdist.config import Secret
from spdist.config.allowed import Allowed
from spdist.connectors.http.sink import HttpSink
from spdist.connectors.sending import SendError
from spdist.errors import AppValidationError
from spdist.language.types import Schema
from spdist.mapping.templates import Template
from spdist.transports.delivery import Delivery
from tests.transports.receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def deliveries(url: str, *payloads: Any, **more: str) -> list[Delivery]:
    options = {"publisher.url": url, **{key.replace("_", "."): value for key, value in more.items()}}
    return [Delivery("http", 0, 0, "S", options, payload, "App-1", n) for n, payload in enumerate(payloads)]


def send(made: list[Delivery], allowed: Allowed | None = None) -> None:
    sink = HttpSink(made[0].options, allowed)
    try:
        sink.send(made)
    finally:
        sink.close()


def test_requests_bear_payload_headers_and_id(receiver: Receiver) -> None:
    headers = "'X-Kind: a:b','Accept: text/plain'"
    send(deliveries(f"{receiver.url}/in", '{"a":1}', "<a/>", "plain", {"k": 1}, method="PUT", headers=headers))
    methods, paths, _, bodies = zip(*receiver.got, strict=True)
    assert (set(methods), set(paths), bodies) == ({"PUT"}, {"/in"}, ('{"a":1}', "<a/>", "plain", "k=1"))
    kinds = [got[2]["content-type"] for got in receiver.got]
    assert kinds == [
        "application/json",
        "application/xml",
        "text/plain; charset=utf-8",
        "application/x-www-form-urlencoded",
    ]
    first = receiver.got[0][2]
    assert (first["x-kind"], first["accept"], first["spdist-id"]) == ("a:b", "text/plain", "App-1:0")


def test_an_answer_says_how_many_were_taken_and_whether_trying_again_can_help(receiver: Receiver) -> None:
    receiver.answers["/in"] = [(204, ""), (503, "not\nnow"), (422, "never")]
    made = deliveries(f"{receiver.url}/in?key=secret", "a", "b")
    with pytest.raises(SendError, match="/in answers 503 not now") as passing:
        send(made)
    assert (passing.value.done, passing.value.lasting) == (1, False)
    assert "secret" not in str(passing.value)
    with pytest.raises(SendError, match="422 never") as lasting:
        send(made)
    assert (lasting.value.done, lasting.value.lasting) == (0, True)


def test_nobody_there_may_pass(receiver: Receiver) -> None:
    receiver.close()
    with pytest.raises(SendError, match="ConnectError") as error:
        send(deliveries(receiver.url, "a"))
    assert not error.value.lasting
    receiver.__init__()  # type: ignore[misc]


def test_credentials_are_secrets_of_the_node(receiver: Receiver) -> None:
    allowed = Allowed(secrets={"SINK": Secret("pä")})
    send(deliveries(receiver.url, "a", basic_auth_username="u", basic_auth_password="${secret:SINK}"), allowed)
    shown = receiver.got[0][2]["authorization"].removeprefix("Basic ")
    assert base64.b64decode(shown).decode() == "u:pä"
    with pytest.raises(AppValidationError, match="the secret OTHER, which this node does not have") as error:
        send(deliveries(receiver.url, "a", basic_auth_username="u", basic_auth_password="${secret:OTHER}"), allowed)
    assert "siddhi.secrets" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("more", "form"),
    [
        ({}, {"grant_type": "client_credentials", "scope": "default"}),
        ({"refresh.token": "r"}, {"grant_type": "refresh_token", "refresh_token": "r", "scope": "default"}),
        (
            {"oauth.username": "u", "oauth.password": "p", "oauth.scope": "s"},
            {"grant_type": "password", "username": "u", "password": "p", "scope": "s"},
        ),
    ],
)
def test_tokens_are_fetched_and_renewed(receiver: Receiver, more: dict[str, str], form: dict[str, str]) -> None:
    receiver.answers = {
        "/token": [(200, json.dumps({"access_token": name})) for name in ("one", "two")],
        "/in": [(200, ""), (401, ""), (200, "")],
    }
    options = {"token.url": f"{receiver.url}/token", "consumer.key": "k", "consumer.secret": "s", **more}
    made = [
        Delivery("http", 0, 0, "S", {"publisher.url": f"{receiver.url}/in", **options}, text, "A", n)
        for n, text in enumerate("ab")
    ]
    send(made)
    asked = [(path, headers["authorization"], body) for _, path, headers, body in receiver.got]
    assert [(path, shown) for path, shown, _ in asked if path == "/in"] == [
        ("/in", "Bearer one"),
        ("/in", "Bearer one"),
        ("/in", "Bearer two"),
    ]
    path, shown, body = asked[0]
    assert (path, base64.b64decode(shown.removeprefix("Basic "))) == ("/token", b"k:s")
    assert {key: value for key, (value,) in parse_qs(body).items()} == form


def test_wrong_options_are_refused(receiver: Receiver, tmp_path: Path) -> None:
    store = tmp_path / "store.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    for key, value, told in [
        ("publisher.url", "localhost:8080", "is no address"),
        ("socket.idle.timeout", "soon", "is a whole number from 1 on"),
        ("https.truststore.file", str(store), "is no PEM file"),
        ("https.truststore.file", str(tmp_path / "none"), "cannot be read"),
        ("hostname.verification.enabled", "maybe", "is true or false"),
    ]:
        with pytest.raises(AppValidationError, match=told):
            HttpSink({"publisher.url": receiver.url, key: value}, Allowed((tmp_path,)))


SCHEMA = Schema.of([("v", "string")])


def varying(url: str, key: str, template: str, *values: str, **more: str) -> list[Delivery]:
    """Deliveries with an option that differs from event to event."""
    filled = [Template(template, SCHEMA).filled((value,)) for value in values]
    options = {"publisher.url": url, **{name.replace("_", "."): text for name, text in more.items()}}
    return [Delivery("http", 0, 0, "S", {**options, key: one}, "p", "A", n) for n, one in enumerate(filled)]


def test_events_fill_headers_and_make_none(receiver: Receiver) -> None:
    template = "'X-Name: <{{v}}>','X-Fixed: 1'"
    theirs = ["plain", "', 'Authorization: Basic x", "ä:b'c"]
    send(varying(receiver.url, "headers", template, *theirs))
    for value, (_, _, headers, _) in zip(theirs, receiver.got, strict=True):
        assert headers["x-name"].encode("latin-1").decode() == f"<{value}>"
        assert headers["x-fixed"] == "1"
        assert "authorization" not in headers
    for bad in ("a\r\nX-Evil: 1", "a\nb", "a\0b", "\x7f"):
        with pytest.raises(SendError, match="the header X-Name would hold a control character") as error:
            send(varying(receiver.url, "headers", template, "first", bad))
        assert (error.value.done, error.value.lasting) == (1, True)
    assert all("x-evil" not in headers for _, _, headers, _ in receiver.got)


@pytest.mark.parametrize("headers", ["'{{v}}: x'", "'X-{{v}}: x'", "{{v}}", "'A: 1'{{v}}", "X: 1", "'${secret:S}: x'"])
def test_headers_have_names_that_are_written(receiver: Receiver, headers: str) -> None:
    made = deliveries(receiver.url, "a", headers=headers)
    if "{{" in headers:
        made = varying(receiver.url, "headers", headers, "a")
    with pytest.raises(AppValidationError, match="'headers' of the @sink of type 'http'"):
        send(made)
    assert receiver.got == []


def test_credentials_go_only_to_a_host_that_is_written(receiver: Receiver) -> None:
    fixed, login = f"{receiver.url}/{{{{v}}}}", {"basic_auth_username": "u", "basic_auth_password": "p"}
    send(varying("", "publisher.url", "{{v}}", receiver.url))
    send(varying("", "publisher.url", fixed, "a?b"))
    assert [path for _, path, _, _ in receiver.got] == ["/", "/a?b"]
    hosts = {"{{v}}": receiver.url, "http://127.0.0.1{{v}}": receiver.url[16:], "http://a{{v}}": "@b"}
    for template, value in hosts.items():
        with pytest.raises(SendError, match="the host comes with the event") as error:
            send(varying("", "publisher.url", template, value, **login))
        assert error.value.lasting
    send(varying("", "publisher.url", fixed, "@b", **login))
    assert receiver.got[2][1] == "/@b"


def test_an_address_of_an_event_that_is_none_costs_that_event(receiver: Receiver) -> None:
    for bad in ("http://[x", "http://h:port/", "ftp://h/", "nothing", "http://h\n/"):
        with pytest.raises(SendError) as error:
            send(varying("", "publisher.url", "{{v}}", bad))
        assert error.value.lasting or "ConnectError" in str(error.value)


def test_an_answer_that_repeats_credentials_is_not_shown(receiver: Receiver) -> None:
    allowed = Allowed(secrets={"SINK": Secret("geheim"), "KEY": Secret("schluessel")})
    told = base64.b64encode(b"u:geheim").decode()
    receiver.answers["/"] = [(422, f"you said {told}, geheim and schluessel")]
    options = {"basic_auth_username": "u", "basic_auth_password": "${secret:SINK}", "headers": "'X-Key: ${secret:KEY}'"}
    with pytest.raises(SendError, match=r"answers 422 you said \*\*\*, \*\*\* and \*\*\*$"):
        send(deliveries(receiver.url + "/", "a", **options), allowed)
    assert receiver.got[0][2]["x-key"] == "schluessel"
    line = Allowed(secrets={"SINK": Secret("a\nb")})
    with pytest.raises(AppValidationError, match="a control character in X-Key") as error:
        send(deliveries(receiver.url, "a", headers="'X-Key: ${secret:SINK}'"), line)
    assert "a\nb" not in str(error.value)
