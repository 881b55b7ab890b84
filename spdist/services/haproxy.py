"""HAProxy on this machine, in front of servers: the program on the PATH.

A request goes to one server in turn of those that are healthy. One that no server was reached with goes to another; one
that a server may have read does not, as its events would count twice: its sender is told (502), and knows best. One
that is refused with 503, as by a server that is passive and not yet known to be, goes to another where it is numbered
(``spdist-id``): its sender would send it again, too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from spdist.errors import EngineError, ErrorKind
from spdist.services.process import HOST, ServerProcess, Service

__all__ = ["Backend", "HAProxy", "proxy_settings"]


@dataclass(frozen=True, slots=True)
class Backend:
    """A server behind the proxy.

    Parameters
    ----------
    name : str
        For the proxy's log.
    events : str
        ``host:port`` of an app's HTTP source.
    health : str
        ``host:port`` of the interface of the node that runs the app; its ``/health`` is asked.
    """

    name: str
    events: str
    health: str


def proxy_settings(bind: str, backends: Sequence[Backend], secure: str = "") -> str:
    """Return the configuration of a proxy. Pure.

    Parameters
    ----------
    bind : str
        ``host:port`` where it listens.
    backends : sequence of Backend
        The servers.
    secure : str
        More words for each server, for nodes whose interface is https: ``check-ssl verify required ca-file ca.crt``.
    """
    lines = [
        "defaults",
        "    mode http",
        "    timeout connect 2s",
        "    timeout client 30s",
        "    timeout server 30s",
        "    # Only what no server was reached with goes to another one, and what was refused and is numbered.",
        "    retries 3",
        "    retry-on conn-failure 503",
        "    option redispatch 1",
        "",
        "frontend events",
        f"    bind {bind}",
        "    default_backend servers",
        "",
        "backend servers",
        "    balance roundrobin",
        "    http-request disable-l7-retry unless { req.hdr(spdist-id) -m found }",
        "    option httpchk GET /health",
        "    http-check expect status 200",
        "    default-server inter 500ms fall 1 rise 1 on-marked-down shutdown-sessions",
    ]
    for one in backends:
        host, _, port = one.health.rpartition(":")
        words = ["    server", one.name, one.events, "check", "addr", host, "port", port, secure]
        lines.append(" ".join(filter(None, words)))
    return "\n".join(lines) + "\n"


class HAProxy(Service):
    """One proxy.

    Parameters
    ----------
    directory : path
        For its settings and log; made where it is missing.
    backends : sequence of Backend
        The servers.
    port : int
        Of 127.0.0.1; 0 for a free one.

    Raises
    ------
    EngineError
        There is no ``haproxy`` on the PATH.
    """

    name = "HAProxy"

    def __init__(self, directory: str | os.PathLike[str], backends: Sequence[Backend], port: int = 0) -> None:
        super().__init__(directory, port)
        self._backends = tuple(backends)

    @property
    def url(self) -> str:
        """Where senders send."""
        return f"http://{HOST}:{self.port}"

    def _launch(self) -> ServerProcess:
        program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
        if program is None:
            raise EngineError(
                "there is no haproxy on this machine",
                hint="install it, such as by apt install haproxy",
                code=ErrorKind.SERVICE,
            )
        file = self.directory / "haproxy.cfg"
        file.write_text(proxy_settings(f"{HOST}:{self.port}", self._backends), encoding="utf-8")
        # -db: in the foreground, as the guard waits for the process that it has started.
        return ServerProcess("HAProxy", [program, "-db", "-f", str(file)], self.directory / "haproxy.log")

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 2.0):
            return True
        return False
