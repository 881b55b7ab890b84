"""The nodes of a cluster on this machine as processes: papermill, its kernel, Spark's JVM and all that they start."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import psutil

from spdist.cluster.process import END_WITH
from spdist.cluster.workers.memory import memory_of
from spdist.errors import ClusterError
from spdist.workspace import is_installed, workspace

__all__ = ["NodeProcess", "Role", "cause_in"]

#: Which notebook a node runs, and which settings it starts from.
Role = Literal["manager", "worker", "server"]

#: Marks every process of a node, however it was started and whoever has inherited it.
_MARK = "SPDIST_NODE_MARK"
#: What papermill and Python write in front of an error; of a group of errors, each line is indented and has a bar.
_BARS = re.compile(r"^[ |+]*(-{5,}.*)?|\x1b\[[0-9;]*m")
_CELL_FAILED = "Exception encountered at"
_RAISED = re.compile(r"(\w+\.)*\w*(Error|Exception|Interrupt|Exit)\b")
_TAIL_LINES = 25
_NODE_ENVIRONMENT = {
    "JUPYTER_PREFER_ENV_PATH": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    # Shorter than the time that a cluster gives its nodes to stop.
    "SPDIST_STOP_GRACE_S": "10",
}


class NodeProcess:
    """One node: a notebook that papermill runs in a session of its own, with a directory, a log, and an environment.

    Parameters
    ----------
    name : str
        Its id, such as ``manager-1``.
    role : {"manager", "worker", "server"}
        Which notebook and which settings.
    home : Path
        The cluster's directory. The settings go to ``conf/<name>/deployment.yaml``, the executed notebook and the log
        to ``<name>.ipynb`` and ``<name>.log``.
    port : int
        Where its interface listens.
    environment : mapping of str to str
        What its settings refer to; passwords travel only here.
    """

    def __init__(self, name: str, role: Role, home: Path, port: int, environment: Mapping[str, str]) -> None:
        self.name = name
        self.role = role
        self.url = f"http://127.0.0.1:{port}"
        self.log = home / f"{name}.log"
        self._home = home
        self._mark = f"{home}:{name}"
        self._environment = {**environment, "SPDIST_NODE_ID": name, "SPDIST_PORT": str(port), _MARK: self._mark}
        self._papermill: subprocess.Popen[bytes] | None = None
        self._told_to_end = False

    def start(self) -> None:
        """Start papermill; returns immediately."""
        root = workspace()
        conf = self._home / "conf" / self.name
        conf.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / "conf" / "local" / f"{self.role}.yaml", conf / "deployment.yaml")
        command = [
            sys.executable,
            "-m",
            "spdist.headless.lean",
            "--engine",
            "spdist",
            "--no-progress-bar",
            "--log-output",
        ]
        # With our engine that kernel is this interpreter, whatever a saved notebook or this machine calls by its names.
        command += ["-k", "spdist"]
        command += [str(root / "notebooks" / f"{self.role}.ipynb"), str(self._home / f"{self.name}.ipynb")]
        command += ["-p", "conf", str(conf)]
        environment = {**os.environ, **self._environment, **_NODE_ENVIRONMENT}
        if not is_installed(root):
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
        # So that the node ends when this process has gone without a word.
        environment[END_WITH] = str(os.getpid())
        self._told_to_end = False
        with self.log.open("ab") as log:
            self._papermill = subprocess.Popen(
                command,
                cwd=self._home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """Exit code of papermill, None while it runs or before it was started."""
        return None if self._papermill is None else self._papermill.poll()

    def processes(self) -> list[psutil.Process]:
        """Return all processes of this node that are alive, children of dead ones included."""
        return list(self._marked())

    def _marked(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_MARK) == self._mark:
                    yield process

    def memory(self) -> int:
        """Return the resident memory of all its processes in bytes; see `memory_of`."""
        return memory_of(self.processes())

    def ask_to_stop(self) -> None:
        """Send SIGTERM to papermill, which passes it on; the node finishes its batches and saves its notebook."""
        self._told_to_end = self._told_to_end or self.exit_code is None
        if self._papermill is not None and self._papermill.poll() is None:
            self._papermill.send_signal(signal.SIGTERM)

    def wait(self, timeout_s: float) -> bool:
        """Return True when papermill has ended, False if it has not after `timeout_s`."""
        if self._papermill is None:
            return True
        try:
            self._papermill.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self, timeout_s: float = 10.0) -> None:
        """Send SIGKILL to all its processes until none is left.

        Raises
        ------
        ClusterError
            Some do not end.
        """
        self._told_to_end = self._told_to_end or self.exit_code is None
        deadline_s = time.monotonic() + timeout_s
        while left := self.processes():
            # Each may have started others since they were listed, so the list is made again
            for process in left:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(left, timeout=0.2)
            if time.monotonic() > deadline_s:
                raise ClusterError(f"processes of {self.name} do not end: {[p.pid for p in left]}")
        if self._papermill is not None:
            self._papermill.wait(timeout_s)

    @property
    def failed(self) -> bool:
        """Whether it has ended by itself, and not well."""
        return not self._told_to_end and bool(self.exit_code)

    def cause(self) -> str:
        """Return the error that ended it, as its log has it; the end of the log where there is none."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return cause_in(text) or f"\n{self.tail()}"

    def tail(self) -> str:
        """Return the last lines of its log."""
        if not self.log.exists():
            return "(no log)"
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"  | {line}" for line in lines[-_TAIL_LINES:])


def cause_in(log: str) -> str:
    """Return the error that a log ends with: that of the notebook's cell, else the last one that Python has written.

    Without the calls that led to it. Empty where there is none. Pure.
    """
    lines = [_BARS.sub("", line).rstrip() for line in log.splitlines()]
    cells = [number for number, line in enumerate(lines) if line.startswith(_CELL_FAILED)]
    # A cell's error has its calls below it, after an empty line, where it is not one of ours.
    first = cells[-1] + 1 if cells else 0
    raised = [number for number in range(first, len(lines)) if _RAISED.match(lines[number])]
    if not raised:
        return ""
    return "\n".join(itertools.takewhile(bool, lines[raised[-1] :]))
