"""Ports at which http sources listen: those with the same host and port share one and differ by their paths.

Whoever keeps a port open when no source listens there says what is answered then, with 503. A source that begins
meanwhile listens at the same socket: no connection is refused in between.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from spdist.connectors.http.addresses import HttpAddress, cannot_listen, clean_path
from spdist.errors import TransportError
from spdist.transports.sockets.connections import ConnectionLimits
from spdist.transports.sockets.listening import Listener

__all__ = ["LATER", "Closed", "HttpPort"]

#: The header of what is to be sent again soon.
LATER: Mapping[str, str] = {"Retry-After": "1"}
#: How long somebody who begins waits for the one before: longer than a `Listener` may take to end.
_ENDING_S = 15.0
#: From a path at which no source listens to the JSON that is answered with 503; None for 404.
Closed = Callable[[str], Mapping[str, Any] | None]


class HttpPort:
    """One listening socket with the sources at it; `shared` makes it.

    Parameters
    ----------
    address : HttpAddress
        Its host, port and certificate.
    limits : ConnectionLimits
        What those who connect may take.
    closed : callable, optional
        What is answered where no source listens; 404 by default.

    Raises
    ------
    TransportError
        Nobody can listen there.

    State
    -----
    What answers each path.
    """

    _open: dict[tuple[str, int], HttpPort] = {}  # noqa: RUF012 -- shared on purpose, under the lock
    #: Told when an address is free again.
    _lock = threading.Condition()

    def __init__(self, address: HttpAddress, limits: ConnectionLimits, closed: Closed | None = None) -> None:
        self.address = address
        self.closed = closed
        self._routes: dict[str, Callable[[Request], Awaitable[Response]]] = {}
        self._users = 0
        try:
            self._listener = Listener(address.host, address.port, address.tls(), limits)
        except OSError as error:
            raise cannot_listen(address.host, address.port, error) from error
        self.url = self._listener.url
        self._listener.start(self._app())

    @classmethod
    def shared(cls, address: HttpAddress, limits: ConnectionLimits, closed: Closed | None = None) -> HttpPort:
        """Return the port of an address, which is open as long as somebody uses it; from now on with this `closed`.

        Raises
        ------
        TransportError
            Nobody can listen there, who did has not ended in time, or they show another certificate.
        """
        with cls._lock:
            place = address.host, address.port
            # Who was left by its last user still has the socket while it finishes its requests, for a few seconds.
            if not cls._lock.wait_for(lambda: place not in cls._open or cls._open[place]._users, _ENDING_S):
                raise TransportError(
                    f"cannot listen on {address.host}:{address.port}: the source that listened there does not end; "
                    f"waited {_ENDING_S:g} s",
                    hint="try again once its requests are answered, or start this process anew",
                )
            # Port 0 asks the system for a new one each time, so it is never shared.
            port = cls._open.get(place) if address.port else None
            if port is None:
                port = cls(address, limits, closed)
                if address.port:
                    cls._open[place] = port
            # TLS is agreed before the path is known: sources at one port cannot show different certificates.
            elif port.address.certificate != address.certificate:
                raise TransportError(f"port {address.port} is used with another certificate")
            port.closed = closed or port.closed
            port._users += 1
            return port

    def add(self, path: str, answer: Callable[[Request], Awaitable[Response]]) -> None:
        """Begin to answer at a path; raises TransportError where another source does."""
        with self._lock:
            if path in self._routes:
                raise TransportError(f"another source listens at {self.url}{path}", hint="give it another path")
            self._routes[path] = answer

    def remove(self, path: str) -> None:
        """Stop answering at a path."""
        with self._lock:
            self._routes.pop(path, None)

    def leave(self) -> None:
        """Use it no more; the last one to leave closes it."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
        # Outside of the lock: it waits for requests under way, and others may open and leave ports meanwhile.
        try:
            self._listener.stop()
        finally:
            with self._lock:
                self._open.pop((self.address.host, self.address.port), None)
                self._lock.notify_all()

    def _app(self) -> Callable[..., Awaitable[None]]:
        app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

        @app.api_route("/{path:path}", methods=["POST", "PUT"])
        async def receive(request: Request) -> Response:
            path = clean_path(request.url.path)
            answer = self._routes.get(path)
            if answer is not None:
                return await answer(request)
            return self._told(path) or JSONResponse({"error": f"no source listens at {path}"}, 404)

        async def answering(scope: Any, receive: Any, send: Any) -> None:
            # Before the app: a body of a request that is refused need not be read.
            told = self._told(clean_path(Request(scope).url.path)) if scope["type"] == "http" else None
            await (app(scope, receive, send) if told is None else told(scope, receive, send))

        return answering

    def _told(self, path: str) -> Response | None:
        """Return the answer to any request at a path where no source listens, without reading it; None for ours."""
        told = None if self.closed is None or path in self._routes else self.closed(path)
        return None if told is None else JSONResponse(dict(told), 503, dict(LATER))
