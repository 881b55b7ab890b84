"""What those who connect to a listener may take: over real sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request

from spdist.transports.sockets.connections import ConnectionLimits
from spdist.transports.sockets.listening import Listener

Eventually = Callable[..., Any]
Made = Callable[..., "At"]
HEAD = b"POST /%s HTTP/1.1\r\nHost: here\r\n"


class At:
    """A listener whose app reads bodies, refuses them unread, or takes its time."""

    def __init__(self, limits: ConnectionLimits) -> None:
        app = FastAPI()
        self.go = threading.Event()
        self.disconnected = threading.Event()

        @app.post("/read")
        async def read(request: Request) -> int:
            return len(await request.body())

        @app.post("/refuse")
        async def refuse() -> None:
            raise HTTPException(413, "too large")

        @app.post("/slow")
        def slow() -> str:
            self.go.wait(10)
            return "done"

        @app.get("/large")
        def large() -> str:
            return "x" * 50_000_000

        self.listener = Listener("127.0.0.1", 0, limits=limits)
        self.listener.start(app)
        self.url = self.listener.url

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.listener.port), 20)

    def close(self) -> None:
        self.go.set()
        self.listener.stop()


@pytest.fixture
def made() -> Iterator[Made]:
    listeners: list[At] = []

    def make(**limits: int) -> At:
        listeners.append(At(ConnectionLimits(**limits)))
        return listeners[-1]

    yield make
    for one in listeners:
        one.close()


def told(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            found += part
    return found


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"POST /read HT",
        HEAD % b"read",
        HEAD % b"read" + b"Content-Length: 10\r\n\r\n123",
        HEAD % b"read" + b"Transfer-Encoding: chunked\r\n\r\n3\r\n123\r\n",
        # A whole request, and the beginning of another one.
        HEAD % b"read" + b"Content-Length: 1\r\n\r\n1" + HEAD % b"read",
    ],
)
def test_who_stops_in_the_middle_is_told_and_cut_off(made: Made, begin: bytes) -> None:
    at = made(header_timeout_ms=300, idle_timeout_ms=300)
    with at.connect() as connection:
        connection.sendall(begin)
        answer = told(connection)
    if begin.count(b"HTTP/1.1") == 2:
        assert answer.startswith(b"HTTP/1.1 200 OK")
    else:
        assert (status(answer), b"connection: close" in answer) == (408, True)
    assert httpx.post(f"{at.url}/read", content=b"1234").json() == 4


def test_who_sends_byte_by_byte_is_cut_off_too(made: Made) -> None:
    """Each byte comes in time, all of them do not."""
    at = made(header_timeout_ms=400, idle_timeout_ms=400)
    pace = threading.Event()
    for begin in (HEAD % b"read" + b"X: ", HEAD % b"read" + b"Content-Length: 10000\r\n\r\n"):
        began = time.monotonic()
        with at.connect() as connection:
            connection.sendall(begin)
            connection.settimeout(0.001)
            answer = b""
            while time.monotonic() - began < 15 and not answer:
                with contextlib.suppress(ConnectionError):
                    connection.send(b"x")
                with contextlib.suppress(TimeoutError, ConnectionError):
                    answer = connection.recv(1000)
                pace.wait(0.02)
        assert status(answer) == 408


def test_a_body_that_comes_steadily_may_take_longer(made: Made) -> None:
    at = made(header_timeout_ms=300, idle_timeout_ms=1000)
    pace = threading.Event()
    with at.connect() as connection:
        connection.sendall(HEAD % b"read" + b"Content-Length: 80000\r\nConnection: close\r\n\r\n")
        for _ in range(8):
            connection.sendall(b"x" * 10_000)
            pace.wait(0.2)
        assert told(connection).endswith(b"80000")


def test_a_listener_that_takes_its_time_is_waited_for(made: Made) -> None:
    at = made(header_timeout_ms=100, idle_timeout_ms=100)
    found: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: found.append(httpx.post(f"{at.url}/slow", timeout=20)))
    asking.start()
    with at.connect() as connection:  # meanwhile somebody else is cut off, thrice as late
        for _ in range(3):
            connection = at.connect() if connection.fileno() < 0 else connection
            assert status(told(connection)) == 408
            connection.close()
    at.go.set()
    asking.join()
    assert found[0].json() == "done"


def test_who_does_not_take_the_answer_is_cut_off(made: Made, eventually: Eventually) -> None:
    at = made(idle_timeout_ms=300)
    with at.connect() as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: here\r\n\r\n")
        uvicorn: Any = at.listener._uvicorn
        eventually(lambda: uvicorn.server_state.connections, "it is there")
        eventually(lambda: not uvicorn.server_state.connections, "it is gone")
        assert len(told(connection)) < 50_000_000


@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"x" * 100_000 + b"\r\n",
        b"".join(b"X-%d: 1\r\n" % number for number in range(150)),
        b"X: " + b"x" * 10_000_000 + b"\r\n",
    ],
)
@pytest.mark.parametrize("pieces", [1, 7])
def test_a_head_that_is_too_large_is_told_so(made: Made, head: bytes, pieces: int) -> None:
    at = made()
    whole = HEAD % b"read" + head + b"Content-Length: 1\r\n\r\n1"
    size = len(whole) // pieces + 1
    with at.connect() as connection:
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(whole), size):
                connection.sendall(whole[start : start + size])
        if len(whole) < 1_000_000:  # who sends far more may lose the answer
            assert status(told(connection)) == 431
    large = {"X": "x" * 30_000} | {f"X-{number}": "1" for number in range(80)}
    assert httpx.post(f"{at.url}/read", content=b"1" * 200_000, headers=large).json() == 200_000


def test_a_head_that_comes_in_pieces_has_the_same_bound(made: Made) -> None:
    """Thirty of them: whether a piece is read alone is chance."""
    lines = b"X: " + b"x" * 30_000 + b"\r\nConnection: close\r\nContent-Length: 1\r\n\r\n"
    request = HEAD % b"read" + lines + b"1"
    at = made()
    for _ in range(30):
        with at.connect() as connection:
            for start in range(0, len(request), 5000):
                connection.sendall(request[start : start + 5000])
            assert status(told(connection)) == 200


def test_requests_one_after_the_other_on_a_connection_each_have_their_own_bounds(made: Made) -> None:
    at = made(max_header_bytes=3000, max_headers=12)
    with httpx.Client() as client:
        for number in range(20):
            answer = client.post(f"{at.url}/read", content=b"\n\n" * number, headers={"X": "x" * 2000})
            assert answer.json() == 2 * number
    with at.connect() as connection:
        connection.sendall((HEAD % b"read" + b"Content-Length: 4\r\n\r\n1\n\n2") * 30)
        connection.sendall(HEAD % b"read" + b"Content-Length: 1\r\nConnection: close\r\n\r\n1")
        assert told(connection).count(b"200 OK") == 31


def chunks(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield b"x" * (1 << 16)


def test_who_keeps_sending_reads_why_it_is_refused(made: Made) -> None:
    """20 MB, chunked or not: no connection is reset."""
    at = made()
    with httpx.Client() as client:
        for content in (chunks(320), b"x" * (20 << 20)):
            answer = client.post(f"{at.url}/refuse", content=content)  # type: ignore[arg-type]
            assert answer.status_code == 413
        assert client.post(f"{at.url}/read", content=b"1").json() == 1
        assert client.post(f"{at.url}/nowhere", content=b"x" * (20 << 20)).status_code == 404


def test_of_a_body_without_end_only_so_much_is_read(made: Made) -> None:
    at = made()
    with at.connect() as connection, contextlib.suppress(ConnectionError):
        connection.sendall(HEAD % b"refuse" + b"Transfer-Encoding: chunked\r\n\r\n")
        sent = 0
        for chunk in chunks(1 << 20):
            connection.sendall(b"10000\r\n" + chunk + b"\r\n")
            sent += len(chunk)
            assert sent < 200 << 20


def test_who_asks_before_sending_is_refused_before_sending(made: Made) -> None:
    at = made()
    with at.connect() as connection:
        connection.sendall(HEAD % b"refuse" + b"Content-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
        answer = told(connection)
    assert (status(answer), b"connection: close" in answer) == (413, True)


def test_connections_have_a_bound_in_all_and_from_one_address(made: Made, eventually: Eventually) -> None:
    for limits in ({"max_connections": 20}, {"max_connections_per_address": 20}):
        at = made(**limits)
        connections = [at.connect() for _ in range(20)]
        try:
            eventually(lambda at=at: status(_asked(at)) == 503, "no more are taken")
            assert b"retry-after: 1" in _asked(at)
        finally:
            for one in connections:
                one.close()
        eventually(lambda at=at: status(_asked(at)) == 200, "there is room again")


def test_600_connections_that_send_nothing_are_gone_after_a_while(
    made: Made, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    at = made(header_timeout_ms=1000)
    connections = [at.connect() for _ in range(600)]
    try:
        eventually(lambda: status(_asked(at)) == 503, "512 from one address are too many")
        answers = [status(told(one)) for one in connections]
        assert sorted(set(answers) - {0}) == [408, 503]
        assert answers.count(408) == 512
        assert status(_asked(at)) == 200
        told_of = [record.getMessage() for record in caplog.records if "refuses a connection" in record.message]
        assert len(told_of) == 10
        assert told_of[0].startswith(f"{at.url} refuses a connection of 127.0.0.1, 1 so far: ")
    finally:
        for one in connections:
            one.close()


def _asked(at: At) -> bytes:
    with at.connect() as connection:
        connection.sendall(HEAD % b"read" + b"Content-Length: 1\r\nConnection: close\r\n\r\n1")
        return told(connection)


def test_answers_do_not_wait_for_the_clients_system_to_acknowledge(made: Made) -> None:
    """Head and body are two writes: with Nagle's algorithm the second waits for a delayed acknowledgement, 40 ms."""
    url, took_s = f"{made().url}/read", []
    with httpx.Client(trust_env=False) as client:
        for _ in range(60):  # systems acknowledge a connection's first segments without delay
            began_s = time.monotonic()
            assert client.post(url, content="x").json() == 1
            took_s.append(time.monotonic() - began_s)
    assert min(took_s[30:]) < 0.03
