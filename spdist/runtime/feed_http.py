"""``@source(type='http')``: requests whose bodies are payloads. Answers come when the events cannot be lost any more.

Sources with the same host and port share one server and differ by their paths. Requests that wait for the disk together
are appended together.

=======  ==================================================================================
200      all is appended; the answer says what of it could not be read as events
400      nothing of it can be read as events
401      a password is needed
404      no source has that path
413      the body is larger than the source takes
503      it cannot be appended now
=======  ==================================================================================
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import re
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from spdist.errors import MappingError, TransportError
from spdist.runtime.feeders import Door, now_ms
from spdist.transports.inlet import Chunk
from spdist.transports.listening import Listener
from spdist.transports.options import Options

__all__ = ["HttpFeeder"]

log = logging.getLogger(__name__)

_DEFAULT_PORT = 9763
_LARGEST = 16 * 1024 * 1024
#: Requests of one source that may wait for the disk.
_MOST_WAITING = 10_000
_SIZE = re.compile(r"'\s*request\.size\.validation\.maximum\.value\s*:\s*(\d+)\s*'")


@dataclass(frozen=True, slots=True)
class _Address:
    """Where a source listens, and with what certificate."""

    host: str
    port: int
    path: str
    certificate: Path | None = None
    password: str = ""

    @classmethod
    def of(cls, read: Options, app: str, stream: str) -> _Address:
        default = f"http://127.0.0.1:{_DEFAULT_PORT}/{quote(app)}/{quote(stream)}"
        url = read.text("receiver.url", default)
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise read.wrong("receiver.url", f"is no address: '{url}'", f"For example: {default}")
        certificate, password = None, ""
        if parts.scheme == "https":
            certificate = read.pem("https.keystore.file")
            password = read.secret("https.keystore.password")
            if certificate is None:
                hint = "write https.keystore.file='…pem', with certificate and key"
                raise read.wrong("receiver.url", "asks for TLS without a certificate", hint)
            _check_certificate(read, certificate, password)
        host = parts.hostname if parts.hostname != "localhost" else "127.0.0.1"
        # An address without a port means WSO2's.
        return cls(host, _DEFAULT_PORT if port is None else port, _clean(parts.path), certificate, password)


class HttpFeeder:
    """Receives requests for one source.

    Parameters
    ----------
    door : Door
        Where events go. Options: ``receiver.url`` (on 127.0.0.1 unless it says otherwise), ``basic.auth.enabled`` with
        the users of the node, or ``basic.auth.username`` and ``basic.auth.password='env:NAME'``;
        ``request.size.validation.configurations``; for https ``https.keystore.file`` (PEM).
    users : mapping of str to str
        Passwords of the node's users.

    Raises
    ------
    AppValidationError
        An option is wrong.
    """

    def __init__(self, door: Door, users: Mapping[str, str]) -> None:
        read = door.options
        self._address = _Address.of(read, door.app, door.stream)
        sizes = _SIZE.search(read.text("request.size.validation.configurations"))
        self._route = _Route(door, int(sizes[1]) if sizes else _LARGEST, _users(read, users))
        self._server: _Server | None = None

    def start(self) -> None:
        """Listen; raises TransportError where the port, or the path on it, is taken."""
        self._server = _Server.shared(self._address)
        try:
            self._server.add(self._address.path, self._route)
        except BaseException:
            self._server.leave()
            self._server = None
            raise
        log.info("stream '%s' listens at %s%s", self._route.door.stream, self._server.url, self._address.path)

    def stop(self) -> None:
        """Finish the requests under way, and listen no more."""
        server, self._server = self._server, None
        if server is not None:
            server.remove(self._address.path)
            server.leave()

    @property
    def url(self) -> str:
        """Where it listens; the port is the real one."""
        return f"{self._server.url if self._server else ''}{self._address.path}"

    @property
    def problem(self) -> str | None:
        """Why nothing comes in at the moment."""
        return self._route.problem


@dataclass(slots=True)
class _Route:
    """One source on a server, and the requests that wait for the disk."""

    door: Door
    largest: int
    users: Mapping[str, str] | None
    problem: str | None = None
    _waiting: list[tuple[list[Chunk], asyncio.Future[None]]] = field(default_factory=list)
    _writer: asyncio.Task[None] | None = None

    async def take(self, request: Request) -> JSONResponse:
        """Deal with one request."""
        if self.users is not None and not _may(request.headers.get("authorization", ""), self.users):
            return _told(401, "a user name and a password are needed", {"WWW-Authenticate": 'Basic realm="spdist"'})
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > self.largest:
                return _told(413, f"the body is larger than {self.largest} bytes", {"Connection": "close"})
        try:
            read = self.door.read(bytes(body), dict(request.headers), now_ms())
            if read.rejected and not read.chunks:
                return _told(400, "; ".join(read.rejected[:10]))
            await self._append(list(read.chunks))
        except MappingError as error:
            return _told(400, str(error))
        except TransportError as error:
            self.problem = f"the @source of stream '{self.door.stream}' cannot append: {error}"
            log.warning("%s", self.problem)
            return _told(503, "it cannot be taken now", {"Retry-After": "1"})
        answer: dict[str, Any] = {"events": sum(map(len, read.chunks))}
        if read.rejected:
            answer["rejected"] = read.rejected[:10]
        return JSONResponse(answer)

    async def _append(self, chunks: list[Chunk]) -> None:
        if not chunks:
            return
        if len(self._waiting) >= _MOST_WAITING:
            raise TransportError("too many requests wait for the disk")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((chunks, done))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        await asyncio.shield(done)

    async def _write(self) -> None:
        """Append what waits, all at once, until nothing does."""
        while self._waiting:
            taken, self._waiting = self._waiting, []
            chunks = [chunk for some, _ in taken for chunk in some]
            error: Exception | None = None
            try:
                await asyncio.to_thread(self.door.append, chunks, now_ms())
                self.problem = None
            except Exception as failed:
                error = failed
            for _, done in taken:
                if done.done():
                    continue
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)
        self._writer = None


class _Server:
    """One listening socket with the sources on it."""

    _running: dict[tuple[str, int], _Server] = {}  # noqa: RUF012 -- shared on purpose, under the lock
    _lock = threading.RLock()

    def __init__(self, address: _Address) -> None:
        self.address = address
        self.routes: dict[str, _Route] = {}
        self.users = 0
        tls: dict[str, Any] = {}
        if address.certificate is not None:
            tls = {"ssl_certfile": str(address.certificate), "ssl_keyfile_password": address.password or None}
        try:
            self._listener = Listener(address.host, address.port, tls)
        except OSError as error:
            why = error.strerror or str(error)
            raise TransportError(f"cannot listen on {address.host}:{address.port}: {why}") from error
        self.url = self._listener.url
        self._listener.start(self._app())

    @classmethod
    def shared(cls, address: _Address) -> _Server:
        """Return the server of an address, which runs as long as somebody uses it."""
        with cls._lock:
            server = cls._running.get((address.host, address.port)) if address.port else None
            if server is None:
                server = cls(address)
                if address.port:
                    cls._running[address.host, address.port] = server
            elif server.address.certificate != address.certificate:
                raise TransportError(f"port {address.port} is used with another certificate")
            server.users += 1
            return server

    def add(self, path: str, route: _Route) -> None:
        """Begin to answer on a path; raises TransportError where another source does."""
        with self._lock:
            if path in self.routes:
                raise TransportError(f"another source listens at {self.url}{path}", hint="give it another path")
            self.routes[path] = route

    def remove(self, path: str) -> None:
        """Stop answering on a path."""
        with self._lock:
            self.routes.pop(path, None)

    def leave(self) -> None:
        """Use it no more; the last one to leave closes it."""
        with self._lock:
            self.users -= 1
            if self.users:
                return
            self._running.pop((self.address.host, self.address.port), None)
        self._listener.stop()

    def _app(self) -> FastAPI:
        app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

        @app.api_route("/{path:path}", methods=["POST", "PUT"])
        async def receive(request: Request) -> JSONResponse:
            path = _clean(request.url.path)
            route = self.routes.get(path)
            return await route.take(request) if route else _told(404, f"no source listens at {path}")

        return app


def _users(read: Options, known: Mapping[str, str]) -> Mapping[str, str] | None:
    """Return who may send; None for everybody."""
    if not read.flag("basic.auth.enabled", False):
        return None
    name = read.text("basic.auth.username")
    if name:
        if not read.is_reference("basic.auth.password"):
            hint = "write basic.auth.password='env:NAME' for an environment variable, or 'file:path'"
            raise read.wrong("basic.auth.password", "is not written into an app", hint)
        return {name: read.secret("basic.auth.password")}
    if not known:
        hint = "name users under auth.configs of the node's settings, or write basic.auth.username and .password"
        raise read.wrong("basic.auth.enabled", "asks for users, and there are none", hint)
    return known


def _may(header: str, users: Mapping[str, str]) -> bool:
    kind, _, encoded = header.partition(" ")
    try:
        name, _, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return False
    expected = users.get(name)
    same = hmac.compare_digest((expected or "").encode(), password.encode())
    return kind.lower() == "basic" and expected is not None and same


def _check_certificate(read: Options, certificate: Path, password: str) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, password=lambda: password)
    except (ssl.SSLError, OSError) as error:
        raise read.wrong("https.keystore.file", f"cannot be used: {error}") from error


def _clean(path: str) -> str:
    return f"/{unquote(path).strip('/')}"


def _told(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, dict(headers or {}))
