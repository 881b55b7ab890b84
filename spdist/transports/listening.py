"""A listening socket with an ASGI app behind it, in a thread of its own; the only user of uvicorn."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import uvicorn

from spdist.errors import TransportError

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["Listener"]

_START_S = 10.0
_STOP_S = 5


class Listener:
    """Makes an app reachable. Making it takes the port; `start` begins to answer, and who connects before waits.

    Parameters
    ----------
    host : str
        Name or address; IPv6 with or without brackets.
    port : int
        0 lets the system choose.
    tls : mapping, optional
        uvicorn's ``ssl_certfile``, ``ssl_keyfile`` and ``ssl_keyfile_password``; without it there is no TLS.

    Raises
    ------
    OSError
        The address cannot be listened on: in use, unknown (`socket.gaierror`), not allowed.
    """

    def __init__(self, host: str, port: int, tls: Mapping[str, Any] | None = None) -> None:
        self._host = host.strip("[]")
        self._tls = dict(tls or {})
        family = socket.getaddrinfo(self._host, None, type=socket.SOCK_STREAM)[0][0]
        self._socket = socket.create_server((self._host, port), family=family, backlog=256)
        self.port: int = self._socket.getsockname()[1]
        self._uvicorn: _Uvicorn | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL with the real port."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    def start(self, app: FastAPI) -> None:
        """Answer requests with `app`, from now on.

        Raises
        ------
        TransportError
            The server did not come up.
        """
        settings = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_STOP_S,
            **self._tls,
        )
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
        self._socket.close()


class _Uvicorn(uvicorn.Server):
    """uvicorn that says when it is up. Signals are the node's business: uvicorn leaves them alone in a thread."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.up.set()
