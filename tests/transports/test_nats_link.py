"""The NATS sink, and the connection that sources use too, against a real server."""

from __future__ import annotations

import asyncio
import queue
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest

from spdist.connectors.nats.link import NatsLink, NatsMessage, NatsSourceSettings
from spdist.connectors.nats.sink import NatsSink
from spdist.connectors.sending import SendError
from spdist.errors import AppValidationError, TransportError
from spdist.services.process import free_port
from spdist.transports.delivery import Delivery
from spdist.transports.options import Options

SERVER = shutil.which("nats-server") or shutil.which("nats-server", path=str(Path(sys.executable).parent))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    if SERVER is None:
        pytest.skip("there is no nats-server")
    port = free_port()
    command = [SERVER, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(tmp_path / "js"), "--user", "me"]
    process = subprocess.Popen([*command, "--pass", "pw"], stderr=subprocess.PIPE, text=True)
    assert process.stderr
    try:
        next(line for line in process.stderr if "Server is ready" in line)
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def make_stream(server: str) -> None:
    client = await nats.connect(server, user="me", password="pw")
    await client.jetstream().add_stream(name="O", subjects=["orders.>"])
    await client.close()


def options(server: str, **more: str) -> dict[str, str]:
    known = {"server.urls": server, "auth.type": "user", "username": "me", "password": "pw", "destination": "orders.a"}
    return known | more


def deliveries(written: dict[str, str], *texts: str) -> list[Delivery]:
    return [Delivery("nats", 0, 0, "S", written, text, "App-1", n) for n, text in enumerate(texts)]


def test_messages_are_published_in_order_with_their_ids(server: str) -> None:
    got: queue.Queue[NatsMessage] = queue.Queue()
    reader = NatsLink(NatsSourceSettings.of(Options(options(server), "it")))
    sink = NatsSink(options(server))
    try:
        reader.subscribe("orders.*", "", got.put)
        sink.send(deliveries(options(server), "a", "b", "c"))
        messages = [got.get(timeout=10) for _ in "abc"]
        assert [(m.data, m.headers["spdist-id"], m.sequence) for m in messages] == [
            (text, f"App-1:{n}", 0) for n, text in enumerate((b"a", b"b", b"c"))
        ]
        assert reader.connected
    finally:
        sink.close()
        reader.close()


def test_a_stream_confirms_and_drops_repeats(server: str) -> None:
    written = options(server, jetstream="true")
    sink, link = NatsSink(written), NatsLink(NatsSourceSettings.of(Options(written, "it")))
    try:
        with pytest.raises(SendError, match="NATS does not take a message") as error:
            sink.send(deliveries(written, "a"))  # nothing keeps this subject yet
        assert error.value.done == 0
        asyncio.run(make_stream(server))
        for _ in range(2):
            sink.send(deliveries(written, "a", "b"))
        subscription = link.pull("orders.>", "reader")
        messages = link.fetch(subscription, 10, 1.0)
        assert [(m.data, m.sequence) for m in messages] == [(b"a", 1), (b"b", 2)]
        link.acknowledge(messages)
        assert link.fetch(subscription, 10, 0.1) == []
    finally:
        sink.close()
        link.close()


def test_a_server_that_is_not_there_is_said() -> None:
    written = options(f"nats://u:secret@127.0.0.1:{free_port()}")
    sink, link = NatsSink(written), NatsLink(NatsSourceSettings.of(Options(written, "it")))
    try:
        with pytest.raises(SendError) as error:
            sink.send(deliveries(written, "a"))
        assert not error.value.lasting
        with pytest.raises(TransportError, match=r"NATS at 127\.0\.0\.1") as refused:
            link.subscribe("a", "", lambda _: None)
        assert "secret" not in str(refused.value)
    finally:
        sink.close()
        link.close()


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("server.urls", "localhost", "is no address"),
        ("auth.type", "magic", "cannot be 'magic'"),
        ("streaming.cluster.id", "c", "NATS Streaming, which is no more"),
        ("destination", "", "is missing"),
    ],
)
def test_wrong_options_are_refused(key: str, value: str, told: str) -> None:
    with pytest.raises(AppValidationError, match=told):
        NatsSink(options("nats://localhost:4222") | {key: value})
