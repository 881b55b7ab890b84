"""Where a node is reached: the listener that its settings name."""

from __future__ import annotations

import errno
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastapi import FastAPI

from spdist.config import Config
from spdist.errors import ClusterError, ConfigError, TransportError
from spdist.transports.sockets.connections import limits_of
from spdist.transports.sockets.listening import Listener, Peer
from spdist.transports.sockets.tls import VERIFY_CLIENT, certificate_of, server_context

__all__ = ["Server", "serve"]

_log = logging.getLogger(__name__)


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
        with _explained(config):
            self._listener = Listener(listener.host, config.port, _tls(config), limits_of(listener))
        self.port = self._listener.port
        self.url = self._listener.url

    def start(self, app: FastAPI, closed: Callable[[Peer], None] | None = None) -> Server:
        """Answer requests with `app`, from now on, and tell `closed` the address of each client that has gone.

        Raises
        ------
        ClusterError
            The server did not come up.
        """
        try:
            self._listener.start(app, closed)
        except TransportError as error:
            raise ClusterError(error.message) from error
        _log.info("listening at %s", self.url)
        return self

    def stop(self) -> None:
        """Finish the requests under way, for a few seconds, and give the port back. May be called twice."""
        self._listener.stop()


def serve(app: FastAPI, config: Config) -> Server:
    """Listen where `config` says and answer with `app`; see `Server` for what it raises."""
    server = Server(config)
    try:
        return server.start(app)
    except BaseException:
        server.stop()
        raise


def _tls(config: Config) -> ssl.SSLContext | None:
    """Return what the listener asks and shows; None where it speaks plain http."""
    listener, own = config.listener, certificate_of(config.listener)
    if listener.scheme != "https":
        return None
    assert own is not None
    try:
        return server_context(own, config.http.trust_file, VERIFY_CLIENT[listener.ssl_verify_client])
    except TransportError as error:
        raise ConfigError(f"{config.path}: {error.message}", hint=error.hint) from error


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
