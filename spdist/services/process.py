"""A server as a process of this machine: start, wait until it answers, stop; it ends with whoever started it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from spdist.errors import EngineError, ErrorKind
from spdist.services import guard

__all__ = ["HOST", "ServerProcess", "Service", "free_port", "free_ports", "in_use", "runs"]

HOST = "127.0.0.1"
_PAUSE_S = 0.05
_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 60.0
_TAIL_LINES = 8
#: Below are the well-known ones of many servers.
_FIRST_PORT = 12_000
_GIVEN = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUALLY_GIVEN = 32_768
_SYSTEM = random.SystemRandom()


def free_port() -> int:
    """Return a port of 127.0.0.1 as `free_ports` does."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that nobody listens on now.

    The system gives none of them to who asks for just any port, as each connection does: there may be seconds between
    this call and that of who is to listen there.

    Raises
    ------
    OSError
        No socket can be opened, or there is no such port.
    """
    drawn = _SYSTEM.sample(range(_FIRST_PORT, _first_given()), min(20 * count, _FIRST_PORT))
    # Sockets stay bound until the last is found: so no port is there twice.
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            probe = held.enter_context(socket.socket())
            # With no number left, whichever the system gives.
            number = drawn.pop() if drawn else 0
            try:
                probe.bind((HOST, number))
            except OSError:
                if number:
                    continue
                raise
            ports.append(int(probe.getsockname()[1]))
    return ports


def _first_given() -> int:
    """Return the first of the ports that the system gives to who asks for just any."""
    try:
        return max(int(_GIVEN.read_text(encoding="ascii").split()[0]), 2 * _FIRST_PORT)
    except (OSError, ValueError):
        return _USUALLY_GIVEN


class ServerProcess:
    """One run of a server's program.

    Parameters
    ----------
    name : str
        For messages.
    command : sequence of str
        The program and its arguments.
    log_file : Path
        Takes what it prints; appended to.
    environment : mapping of str to str, optional
        Variables besides those of this process.

    Notes
    -----
    The program runs under a guard (`spdist.services.guard`), which ends it when this process is gone, however that
    came about.
    """

    def __init__(
        self, name: str, command: Sequence[str], log_file: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log_file = log_file
        log_file.parent.mkdir(parents=True, exist_ok=True)
        # -I -S: without site packages, whose search costs time and memory.
        guarded = [sys.executable, "-I", "-S", str(Path(guard.__file__)), str(os.getpid()), *command]
        with log_file.open("ab") as output:
            # Logs of earlier runs stand in front of this place.
            self._began = output.tell()
            # In a session of its own: Ctrl-C in a terminal reaches this process, which stops the server in order.
            self._process = subprocess.Popen(
                guarded,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def wait_until(self, answers: Callable[[], bool], timeout_s: float) -> None:
        """Wait until `answers` says so.

        Raises
        ------
        EngineError
            The server ended, or the time is over; then it is stopped.
        """
        deadline = time.monotonic() + timeout_s
        pace = threading.Event()
        while not answers():
            if not self.running:
                raise EngineError(f"the {self.name} server ended while it started{self.tail()}", code=ErrorKind.SERVICE)
            if time.monotonic() > deadline:
                self.kill()
                raise EngineError(
                    f"the {self.name} server did not answer within {timeout_s:g} s{self.tail()}", code=ErrorKind.SERVICE
                )
            pace.wait(_PAUSE_S)

    def tail(self) -> str:
        """Return the last lines that this run printed, as the end of a message."""
        with contextlib.suppress(OSError), self.log_file.open("rb") as printed:
            printed.seek(self._began)
            lines = printed.read().decode(errors="replace").strip().splitlines()
            if lines:
                return f"; {self.log_file} ends with:\n" + "\n".join(lines[-_TAIL_LINES:])
        return f"; it printed nothing to {self.log_file}"

    def stop(self) -> None:
        """Ask it to end and wait for that. Safe to call twice."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it immediately, as a crash would. Safe to call twice."""
        # SIGKILL would end the guard, and only Linux takes its server along; the guard understands this signal.
        self._end(signal.SIGUSR1)

    def _end(self, number: signal.Signals) -> None:
        if not self.running:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # the server goes with its guard
            self._process.wait()


class Service(ABC):
    """A server with data of its own; start it, stop it, start it again on the same port and data.

    Parameters
    ----------
    directory : path
        For its data, settings and log; made where it is missing.
    port : int
        Of 127.0.0.1; 0 for a free one.
    """

    #: What people call it.
    name: ClassVar[str]

    def __init__(self, directory: str | os.PathLike[str], port: int = 0) -> None:
        self.directory = Path(directory).absolute()
        self.port = port or free_port()
        self._process: ServerProcess | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """The address for its clients."""

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.running

    @property
    def trouble(self) -> str:
        """The last lines of its log, as the end of a message."""
        return "" if self._process is None else self._process.tail()

    def start(self) -> Self:
        """Start it and wait until it answers; nothing happens where it runs. Returns the service.

        Raises
        ------
        EngineError
            What it needs is not on this machine and cannot be fetched; or it ends, does not answer, or its port is in
            use (`ErrorKind.SERVICE`).
        """
        if self.running:
            return self
        # Else the server that listens there would answer `_answers`.
        if in_use(self.port):
            raise EngineError(
                f"port {self.port} of {HOST} is in use",
                hint="give another port, or 0 for a free one",
                code=ErrorKind.SERVICE,
            )
        self.directory.mkdir(parents=True, exist_ok=True)
        self._process = self._launch()
        self._process.wait_until(self._answers, _START_TIMEOUT_S)
        return self

    def stop(self) -> None:
        """End it in order; its data stay. Safe to call twice."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End it immediately, as a crash would."""
        if self._process is not None:
            self._process.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @abstractmethod
    def _launch(self) -> ServerProcess:
        """Start the program."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether clients can work with it now."""


def in_use(port: int) -> bool:
    """Tell whether somebody listens on a port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0


def runs(pid: int) -> bool:
    """Tell whether there is a process of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
