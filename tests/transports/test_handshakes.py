"""What those who connect over TLS may take before it is agreed: over real sockets."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from spdist.transports.sockets.connections import ConnectionLimits
from spdist.transports.sockets.listening import Listener
from spdist.transports.sockets.tls import client_context, server_context
from tests.transports.certificates import HERE, authority, certificate

Eventually = Callable[..., Any]
REQUEST = b"POST /read HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: 1\r\n\r\n1"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Listener]]:
    """``made(header_timeout_ms=…)``: a listener with a certificate, whose app reads bodies."""
    authority(tmp_path)
    listeners: list[Listener] = []
    app = FastAPI()

    @app.post("/read")
    async def read(request: Request) -> int:
        return len(await request.body())

    def make(**limits: int) -> Listener:
        one = Listener(HERE, 0, server_context(certificate(tmp_path, "node")), ConnectionLimits(**limits))
        listeners.append(one)
        one.start(app)
        return one

    yield make
    for one in listeners:
        one.stop()


@pytest.fixture
def trust(tmp_path: Path, made: object) -> ssl.SSLContext:
    return client_context(tmp_path / "ca.crt")


def connect(to: Listener) -> socket.socket:
    return socket.create_connection((HERE, to.port), 20)


def answer(to: Listener, trust: ssl.SSLContext) -> bytes:
    """What is answered to a request; nothing where the connection is closed before."""
    try:
        with connect(to) as raw, trust.wrap_socket(raw, server_hostname=HERE) as one:
            one.sendall(REQUEST)
            return one.recv(100)
    except (OSError, EOFError):
        return b""


def closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("begin", [b"", b"\x16\x03\x01\x02\x00\x01", REQUEST])
def test_who_does_not_agree_on_tls_in_time_is_closed(
    made: Callable[..., Listener], trust: ssl.SSLContext, begin: bytes
) -> None:
    at = made(header_timeout_ms=500)
    with connect(at) as connection:
        connection.sendall(begin)
        connection.settimeout(10)
        # Who speaks no TLS is told so in TLS' words.
        while not closed(connection):
            pass
    assert answer(at, trust).startswith(b"HTTP/1.1 200")


def test_who_does_not_agree_on_tls_counts_and_then_no_more(
    made: Callable[..., Listener], trust: ssl.SSLContext, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    for limits in ({"max_connections": 20}, {"max_connections_per_address": 20}):
        at = made(header_timeout_ms=60_000, **limits)
        waiting = [connect(at) for _ in range(20)]
        try:
            eventually(lambda at=at: answer(at, trust) == b"", "no more are taken")
        finally:
            for one in waiting:
                one.close()
        eventually(lambda at=at: answer(at, trust).startswith(b"HTTP/1.1 200"), "there is room again")
    assert any("refuses a connection of 127.0.0.1, 1 so far: 503" in one.getMessage() for one in caplog.records)
    at = made(header_timeout_ms=300, max_connections=20)
    waiting = [connect(at) for _ in range(20)]
    try:
        eventually(lambda: answer(at, trust).startswith(b"HTTP/1.1 200"), "their time is over")
        assert all(closed(one) for one in waiting)
    finally:
        for one in waiting:
            one.close()


def test_connections_come_and_go_and_leave_nothing(made: Callable[..., Listener], trust: ssl.SSLContext) -> None:
    """Whole ones, broken ones, and such whose request comes with the end of the handshake."""
    at = made(max_connections=8)

    def ask() -> None:
        with httpx.Client(verify=trust, trust_env=False) as client:
            for size in (0, 1, 500_000):
                assert client.post(f"{at.url}/read", content=b"x" * size).json() == size

    for _ in range(10):
        asking = [threading.Thread(target=ask) for _ in range(3)]
        for one in asking:
            one.start()
        for begin in (b"", REQUEST):
            with connect(at) as broken:
                broken.sendall(begin)
        for one in asking:
            one.join()
    for _ in range(10):
        raw = connect(at)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = trust.wrap_bio(incoming, outgoing, server_hostname=HERE)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                raw.sendall(outgoing.read())
                incoming.write(raw.recv(1 << 16))
        tls.write(REQUEST)
        raw.sendall(outgoing.read())  # the end of the handshake and the request in one write
        found = b""
        while b"200 OK" not in found:
            incoming.write(raw.recv(1 << 16))
            try:
                found += tls.read(1 << 16)
            except ssl.SSLWantReadError:
                continue
        raw.close()
    assert answer(at, trust).startswith(b"HTTP/1.1 200")
