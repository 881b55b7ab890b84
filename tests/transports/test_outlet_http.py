"""The HTTP sink against a real server."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from spdist.errors import AppValidationError
from spdist.transports.delivery import Delivery
from spdist.transports.outlet_http import HttpOutlet
from spdist.transports.outlets import SendError


class Receiver:
    """Keeps what it gets; answers what `answers` says for a path, 200 otherwise."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str, dict[str, str], str]] = []
        self.answers: dict[str, list[tuple[int, str]]] = {}
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.got.append((self.command, self.path, headers, body))
                planned = receiver.answers.get(self.path.partition("?")[0], [])
                status, answer = planned.pop(0) if planned else (200, "")
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer.encode())

            do_POST = do_PUT = do_GET = do

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def deliveries(url: str, *payloads: Any, **more: str) -> list[Delivery]:
    options = {"publisher.url": url, **{key.replace("_", "."): value for key, value in more.items()}}
    return [Delivery("http", 0, 0, "S", options, payload, "App-1", n) for n, payload in enumerate(payloads)]


def send(made: list[Delivery]) -> None:
    outlet = HttpOutlet(made[0].options)
    try:
        outlet.send(made)
    finally:
        outlet.close()


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


def test_basic_credentials_may_come_from_the_environment(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_SINK_PASSWORD", "pä")
    send(deliveries(receiver.url, "a", basic_auth_username="u", basic_auth_password="env:HTTP_SINK_PASSWORD"))
    shown = receiver.got[0][2]["authorization"].removeprefix("Basic ")
    assert base64.b64decode(shown).decode() == "u:pä"
    with pytest.raises(AppValidationError, match="NOT_SET, which is not set"):
        send(deliveries(receiver.url, "a", basic_auth_username="u", basic_auth_password="env:NOT_SET"))


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
            HttpOutlet({"publisher.url": receiver.url, key: value})
