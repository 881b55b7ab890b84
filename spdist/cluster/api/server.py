"""A listening socket with a FastAPI app behind it, in a thread of its own."""

from __future__ import annotations

import errno
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from spdist.config import Config
from spdist.errors import ClusterError, ConfigError

__all__ = ["Server", "serve"]

_log = logging.getLogger(__name__)
_START_S = 10.0
_STOP_S = 5


class Server:
    """The listener of a node. Making it takes the port; `start` begins to answer.

    Taking the port first means that a node whose port is in use fails before it has touched anything else. Callers
    that connect between the two wait.

    Parameters
    ----------
    config : Config
        Its first listener; port 0 lets the system choose.

    Raises
    ------
    ConfigError
        The address cannot be listened on (in use, unknown, not allowed), or certificate or key cannot be read.
    """

    def __init__(self, config: Config) -> None:
        listener = config.listener
        self._host = listener.host
        self.scheme = listener.scheme
        self._tls: dict[str, str | None] = {}
        if listener.scheme == "https":
            password = listener.key_password.reveal() if listener.key_password else None
            self._tls = {
                "ssl_certfile": str(listener.certificate_file),
                "ssl_keyfile": str(listener.key_file),
                "ssl_keyfile_password": password,
            }
            _check_tls(config, password)
        with _explained(config):
            family = socket.getaddrinfo(self._host, None, type=socket.SOCK_STREAM)[0][0]
            self._socket = socket.create_server((self._host.strip("[]"), config.port), family=family, backlog=256)
        self.port: int = self._socket.getsockname()[1]
        self._uvicorn: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL with the real port."""
        return f"{self.scheme}://{self._host}:{self.port}"

    def start(self, app: FastAPI) -> Server:
        """Answer requests with `app`, from now on.

        Raises
        ------
        ClusterError
            The server did not come up.
        """
        settings = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_STOP_S,
            **self._tls,  # type: ignore[arg-type]
        )
        self._uvicorn = _Uvicorn(settings)
        self._thread = threading.Thread(
            target=self._uvicorn.run, kwargs={"sockets": [self._socket]}, name=f"spdist-http-{self.port}", daemon=True
        )
        self._thread.start()
        if not self._uvicorn.up.wait(_START_S):
            self.stop()
            raise ClusterError(f"the interface at {self.url} did not come up in {_START_S:g} s")
        _log.info("listening at %s", self.url)
        return self

    def stop(self) -> None:
        """Finish the requests under way, for a few seconds, and give the port back. May be called twice."""
        if self._uvicorn is not None and self._thread is not None:
            self._uvicorn.should_exit = True
            self._thread.join(_STOP_S + 1)
            self._uvicorn.force_exit = True
            self._thread.join(1)
        self._socket.close()


def serve(app: FastAPI, config: Config) -> Server:
    """Listen where `config` says and answer with `app`; see `Server` for what it raises."""
    server = Server(config)
    try:
        return server.start(app)
    except BaseException:
        server.stop()
        raise


class _Uvicorn(uvicorn.Server):
    """uvicorn that says when it is up. Signals are the node's business: uvicorn leaves them alone in a thread."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.up.set()


def _check_tls(config: Config, password: str | None) -> None:
    listener = config.listener
    assert listener.certificate_file is not None and listener.key_file is not None
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(listener.certificate_file, listener.key_file, password or "")
    except OSError as error:  # ssl.SSLError is one, too
        raise ConfigError(
            f"{config.path}: TLS cannot be used with {listener.certificate_file} and {listener.key_file}: {error}",
            hint="both must be PEM files that belong together; an encrypted key needs keyPassword",
        ) from error


@contextmanager
def _explained(config: Config) -> Iterator[None]:
    """Turn what the system says about an address into a sentence that helps."""
    where = f"{config.listener.host}:{config.port}"
    key = "wso2.transport.http.listenerConfigurations"
    try:
        yield
    except socket.gaierror as error:
        raise ConfigError(f"{config.path}: {key}: the host of {where} is not known: {error}") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"{config.path}: {where} is in use by another process",
                hint=f"stop that one (`ss -ltnp 'sport = :{config.port}'` names it), or set another port in {key} "
                "or wso2.carbon.ports.offset",
            ) from error
        raise ConfigError(f"{config.path}: {key}: cannot listen on {where}: {error}") from error
