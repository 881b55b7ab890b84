"""Python processes for Spark that are forked from one that has everything loaded, instead of started anew.

Each group needs three: its source, and a daemon that forks what runs its island. A new interpreter takes seconds of
processor time until it has loaded Spark's modules and ours, and 140 MB that others have as well. A forked one takes
some milliseconds, and memory for what it changes.

Spark is told another program for its interpreter (`spdist.engine.spark.forked`). That asks a process of this module,
which has a single thread, over a socket in a directory that only its owner enters, and passes its files on. What is
forked does what the new interpreter would have done, down to the environment; it ends when the program that asked for
it does.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import logging
import os
import runpy
import selectors
import shlex
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from spdist.connectors.registry import built_in
from spdist.engine.spark import forked
from spdist.engine.spark.forked import FORKED, NUMBER

__all__ = ["INSTANCE", "Forks"]

log = logging.getLogger(__name__)

#: The variable of the environment that says for which group instance a Python process of Spark works.
INSTANCE = "SPDIST_GROUP_INSTANCE"

_STOP_TIMEOUT_S = 5.0
#: How long who asks may take to say for what.
_PATIENCE_S = 5.0
#: Bytes of a process's name that Linux keeps.
_NAME = 15
#: The longest address of a socket that Linux takes, less some.
_LONGEST_ADDRESS = 100
#: What Spark's Python processes load, and what they would load with their first batch.
_LOADED = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "spdist.engine.spark.source",
    "spdist.engine.spark.tasks",
    "spdist.transports.log",
)
#: What only some of them load, with their sources, and besides it the sinks that are built in: loaded while nobody asks
#: for a process.
_LOADED_LATER = (
    "spdist.transports.kafka.fetching",
    "spdist.transports.kafka.transport",
    "kafka",
    "spdist.transports.nats.transport",
)
#: How long nobody must have asked for that, s.
_IDLE_S = 1.0
#: Libraries whose threads a forked process would not have: they must not start any.
_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
#: What a batch has used stays with the process, up to 64 MiB for each thread: else glibc gives it back behind each
#: batch, and the system fills the pages of the next one with zeros again.
_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(64 << 20), "MALLOC_MMAP_THRESHOLD_": str(64 << 20)}
#: Whatever runs through the parser, the planner of an app and the columns once has loaded what it needs for that.
_APP = """
define stream S (k string, v long);
from S[v > 0]#window.length(2) select k, sum(v) as v group by k insert into Out;
"""


class Forks:
    """The process that forks, as the process that has the Spark session sees it.

    Parameters
    ----------
    scratch : Path
        A directory of that session: in it are the socket and the program.
    """

    def __init__(self, scratch: Path) -> None:
        self.place = scratch / "forks"
        self.program = str(scratch / "python")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its number; None while it is not started."""
        return None if self._process is None else self._process.pid

    def start(self, environment: dict[str, str]) -> str:
        """Start it; returns immediately the program that Spark is to use as its interpreter.

        Parameters
        ----------
        environment : dict of str to str
            What is set for Spark's processes.
        """
        # Elsewhere the system's own libraries do not last through a fork.
        if sys.platform != "linux" or len(os.fsencode(self.place)) > _LONGEST_ADDRESS:
            return sys.executable
        command = [sys.executable, "-I", "-S", str(Path(forked.__file__)), sys.executable, str(self.place)]
        program = Path(self.program)
        program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
        program.chmod(0o700)
        if not os.access(program, os.X_OK):  # programs may not be run from there
            return sys.executable
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.place))
            listener.listen(socket.SOMAXCONN)  # whoever asks while everything is loaded waits
            self._process = subprocess.Popen(
                [sys.executable, "-m", "spdist.engine.spark.forks", str(listener.fileno())],
                # It is closed when this process ends, in whatever way: the sign to end, too
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                # As Spark does for its processes: in all of them a text has the same hash.
                env={"PYTHONHASHSEED": "0", **_MEMORY, **os.environ, **environment, **_NO_THREADS},
                pass_fds=[listener.fileno()],
            )
        return self.program

    def stop(self) -> None:
        """End it; what it has forked is told to end. Safe to call twice."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass(frozen=True, slots=True)
class _Request:
    """What is to run: a module with its arguments, in a directory, with an environment and three files."""

    arguments: list[str]
    directory: str
    environment: dict[str, str]
    files: list[int]

    @classmethod
    def read(cls, link: socket.socket) -> _Request | None:
        """Read what `spdist.engine.spark.forked` sends; None where that has ended."""
        files: list[int] = []
        try:
            link.settimeout(_PATIENCE_S)
            size, files, _, _ = socket.recv_fds(link, NUMBER, 3)
            length = int.from_bytes(size, "big")
            with link.makefile("rb") as sent:
                text = sent.read(length)
            if len(files) == 3 and len(text) == length:
                return cls(**json.loads(text), files=files)
        except OSError:
            pass
        for file in files:
            os.close(file)
        return None

    def become(self) -> NoReturn:
        """Run the module as the program of this process."""
        for number, file in enumerate(self.files):
            os.dup2(file, number)
            os.close(file)
        with contextlib.suppress(OSError):
            # For people who look at the processes of a machine: their commands are all the same.
            Path("/proc/self/comm").write_bytes(self.environment.get(INSTANCE, self.arguments[0]).encode()[:_NAME])
        os.chdir(self.directory)
        os.environ.clear()
        os.environ.update(self.environment)
        added = (entry for entry in self.environment.get("PYTHONPATH", "").split(os.pathsep) if entry)
        sys.path[1:1] = [entry for entry in dict.fromkeys(added) if entry not in sys.path]
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
        sys.argv = self.arguments
        module = sys.argv[0]
        # `runpy` warns of a module that is loaded already
        sys.modules.pop(module, None)
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except BrokenPipeError:  # Spark hangs up where a query stops: that is no failure that a user should read of
            sys.exit(1)
        sys.exit(0)


class _Forker:
    """Forks a process for each who connects, tells them when it has ended, and ends it when they have gone."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._by_pid: dict[int, socket.socket] = {}
        self._woken, self._wake = socket.socketpair()
        for end in (self._woken, self._wake):
            end.setblocking(False)
        self._selector = selectors.DefaultSelector()

    def run(self) -> _Request | None:
        """Work until the parent has gone; in each process that was forked return immediately what is to run there."""
        later, idle = [*_LOADED_LATER, *(one.sink.partition(":")[0] for one in built_in().values() if one.sink)], False
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        # Only a signal with a handler in Python is written to that file
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for file in (sys.stdin, self._listener, self._woken):
            self._selector.register(file, selectors.EVENT_READ)
        while True:
            ready = self._selector.select((0 if idle else _IDLE_S) if later else None)
            if idle := not ready:
                _load_one(later.pop(0))
            for key, _ in ready:
                if key.fileobj is sys.stdin:
                    for pid in self._by_pid:
                        os.kill(pid, signal.SIGTERM)
                    return None
                if key.fileobj is self._woken:
                    self._woken.recv(1024)
                    self._tell_ended()
                elif key.fileobj is not self._listener:
                    self._end(key.fileobj)
                elif (request := self._fork()) is not None:
                    return request

    def _fork(self) -> _Request | None:
        """Fork a process for who asks next; return what it asks for in that process, None in this one."""
        link, _ = self._listener.accept()
        if (request := _Request.read(link)) is None:
            link.close()
            return None
        try:
            pid = os.fork()
        except OSError:  # who asked becomes the interpreter
            pid = None
        if pid == 0:
            link.close()
            self._leave()
            return request
        for file in request.files:
            os.close(file)
        if pid is None:
            link.close()
        else:
            self._by_pid[pid] = link
            self._selector.register(link, selectors.EVENT_READ)
            with contextlib.suppress(OSError):  # who asked has gone, which the selector tells
                link.sendall(FORKED)
        return None

    def _tell_ended(self) -> None:
        """Tell those whose processes have ended with which code they have."""
        while self._by_pid:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            link, code = self._by_pid.pop(pid), os.waitstatus_to_exitcode(status)
            with contextlib.suppress(OSError):  # who asked may have gone first
                # Of a signal it is 128 and its number, as shells tell it
                link.sendall((128 - code if code < 0 else code).to_bytes(NUMBER, "big"))
            with contextlib.suppress(KeyError):
                self._selector.unregister(link)
            link.close()

    def _end(self, link: Any) -> None:
        """Tell the process to end whose asker has gone; its number is still its own, as nobody else waits for it."""
        for pid in [pid for pid, one in self._by_pid.items() if one is link]:
            self._selector.unregister(link)
            os.kill(pid, signal.SIGTERM)

    def _leave(self) -> None:
        """Let go of what is not for a forked process."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        # A copy that stays open here keeps others from seeing that the forker has closed its own
        for file in (self._listener, self._woken, self._wake, *self._by_pid.values()):
            file.close()


def _load() -> None:
    """Load all that Spark's Python processes need."""
    from spdist.engine.shards.memory import arrow_without_pandas

    arrow_without_pandas()
    for name in _LOADED:
        importlib.import_module(name)
    from spdist.engine.local.app import run
    from spdist.program.registry import PROCESSORS, WINDOWS

    WINDOWS.load()
    PROCESSORS.load()
    run(_APP, {"S": [(1, ("a", 1))]})
    _load_compiler()
    # What stays need not be looked through by anybody, which would copy it.
    gc.collect()
    gc.freeze()


def _load_one(name: str) -> None:
    """Load a module that not everybody needs; its library may not be installed."""
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
    gc.freeze()


def _load_compiler() -> None:
    """Load numba where it is installed, and have it compile once: it makes most of its tables then.

    So a process that compiles has 27 MB of its own instead of 57, and needs 0.1 s of processor time until its first
    function runs instead of 0.4 s; the process that forks costs 100 MB and 0.6 s more, once. Without numba, or with one
    that does not work, processes are forked all the same.
    """
    try:
        import numba

        numba.njit("int64(int64)")(lambda number: number)
    except Exception as error:  # such as another version of numpy, or of LLVM
        if not (isinstance(error, ModuleNotFoundError) and error.name == "numba"):
            log.warning("numba is installed and cannot be loaded: %s", error)


def main(listening: int) -> None:
    """Fork until the process that has started this one closes its input; `listening` is the number of a socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for that one
    _load()
    with socket.socket(fileno=listening) as listener:
        request = _Forker(listener).run()
    if request is not None:
        request.become()


if __name__ == "__main__":
    main(int(sys.argv[1]))
