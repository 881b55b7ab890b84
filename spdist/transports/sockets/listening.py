"""A listening socket with an ASGI app behind it, in a thread of its own; the only user of uvicorn."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from spdist.errors import TransportError
from spdist.transports.sockets.connections import Connection, ConnectionLimits, Handshake, Visitors, drained

__all__ = ["Listener", "Peer"]

#: Host and port of a client.
Peer = tuple[str, int]

_START_S = 10.0
_STOP_S = 5
#: Bytes of a body that are read and thrown away, so that its sender reads the answer.
_THROWN_AWAY = 32 << 20


class Listener:
    """Makes an app reachable. Making it takes the port; `start` begins to answer, and who connects before waits.

    Parameters
    ----------
    host : str
        Name or address; IPv6 with or without brackets.
    port : int
        0 lets the system choose.
    tls : SSLContext, optional
        See `spdist.transports.sockets.tls.server_context`; without it there is no TLS.
    limits : ConnectionLimits, optional
        What those who connect may take.

    Raises
    ------
    OSError
        The address cannot be listened on: in use, unknown (`socket.gaierror`), not allowed.
    """

    def __init__(
        self, host: str, port: int, tls: ssl.SSLContext | None = None, limits: ConnectionLimits | None = None
    ) -> None:
        self._limits = limits or ConnectionLimits()
        self._host = host.strip("[]")
        self._tls = tls
        # A name may stand for an address of IPv6, which needs a socket of its kind.
        family = socket.getaddrinfo(self._host, None, type=socket.SOCK_STREAM)[0][0]
        self._socket = socket.create_server((self._host, port), family=family, backlog=256)
        # Connections inherit it. asyncio would see to it, but not for a socket whose protocol is not named, like this.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self._socket.getsockname()[1]
        self._uvicorn: _Uvicorn | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL with the real port."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    def start(self, app: Callable[..., Any], closed: Callable[[Peer], None] | None = None) -> None:
        """Answer requests with `app`, an ASGI app, from now on.

        Parameters
        ----------
        app : callable
            What answers.
        closed : callable, optional
            Called, in the thread that answers, with the address of a client whose connection has ended: quick.

        Raises
        ------
        TransportError
            The server did not come up.
        """
        visitors = Visitors(self.url, self._limits)

        def connection(*args: Any, **given: Any) -> Connection | Handshake:
            inner: Any = (AutoHTTPProtocol if closed is None else _telling(closed))(*args, **given)
            return Connection(inner, visitors) if self._tls is None else Handshake(inner, visitors, self._tls)

        settings = uvicorn.Config(
            drained(app, _THROWN_AWAY),
            http=connection,  # type: ignore[arg-type] # called like the class
            ws="none",
            # Who calls is who is connected, not whom a header names.
            proxy_headers=False,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            # h11 refuses half of what `Connection` lets pass, with 400, where it comes in pieces.
            h11_max_incomplete_event_size=self._limits.max_header_bytes,
            timeout_graceful_shutdown=_STOP_S,
        )
        settings.load()  # without TLS: uvicorn's would allow less, and asyncio's has no bound, see `Handshake`
        self._uvicorn = _Uvicorn(settings)
        self._thread = threading.Thread(
            target=self._uvicorn.run, kwargs={"sockets": [self._socket]}, name=f"spdist-http-{self.port}", daemon=True
        )
        self._thread.start()
        if not self._uvicorn.up.wait(_START_S):
            self.stop()
            raise TransportError(f"the server at {self.url} did not come up in {_START_S:g} s")

    def stop(self) -> None:
        """Finish the requests under way, for a few seconds, and give the port back. May be called twice."""
        if self._uvicorn is not None and self._thread is not None:
            self._uvicorn.should_exit = True
            self._thread.join(_STOP_S + 1)
            self._uvicorn.force_exit = True
            self._thread.join(1)
        # uvicorn closes it only when it has come up.
        self._socket.close()


def _telling(closed: Callable[[Peer], None]) -> type[Any]:
    """Return uvicorn's connection, which tells when it has ended."""

    class Telling(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self.client is not None:
                closed(self.client)

    return Telling


class _Uvicorn(uvicorn.Server):
    """uvicorn that says when it is up. Signals are the node's business: uvicorn leaves them alone in a thread."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.up.set()
