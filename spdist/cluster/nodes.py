"""The nodes of a cluster on this machine as processes: papermill, its kernel, Spark's JVM and all that they start."""

from __future__ import annotations

import os
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

from spdist.cluster.memory import memory_of
from spdist.cluster.process import END_WITH
from spdist.errors import ClusterError

__all__ = ["NodeProcess", "checkout"]

#: Marks every process of a node, however it was started and whoever has inherited it.
_MARK = "SPDIST_NODE_MARK"
_TAIL_LINES = 25
_NODE_ENVIRONMENT = {
    "JUPYTER_PREFER_ENV_PATH": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    # Shorter than the time that a cluster gives its nodes to stop.
    "SPDIST_STOP_GRACE_S": "10",
}


def checkout() -> Path:
    """Return the directory that holds ``conf`` and ``notebooks``.

    Raises
    ------
    ClusterError
        spdist was installed without them.
    """
    import spdist

    root = Path(str(spdist.__file__)).resolve().parents[1]
    missing = [
        name
        for name in ("notebooks/manager.ipynb", "notebooks/worker.ipynb", "conf/local")
        if not (root / name).exists()
    ]
    if missing:
        raise ClusterError(
            f"a local cluster needs {' and '.join(missing)} next to the package, but {root} has none",
            hint="install spdist from a checkout: pip install -e .",
        )
    return root


class NodeProcess:
    """One node: a notebook that papermill runs in a session of its own, with a directory, a log, and an environment.

    Parameters
    ----------
    name : str
        Its id, ``manager-1`` or ``worker-1``.
    role : {"manager", "worker"}
        Which notebook and which settings.
    home : Path
        The cluster's directory. The settings go to ``conf/<name>/deployment.yaml``, the executed notebook and the log
        to ``<name>.ipynb`` and ``<name>.log``.
    port : int
        Where its interface listens.
    environment : mapping of str to str
        What its settings refer to; passwords travel only here.
    """

    def __init__(
        self, name: str, role: Literal["manager", "worker"], home: Path, port: int, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.role = role
        self.url = f"http://127.0.0.1:{port}"
        self.log = home / f"{name}.log"
        self._home = home
        self._mark = f"{home}:{name}"
        self._environment = {**environment, "SPDIST_NODE_ID": name, "SPDIST_PORT": str(port), _MARK: self._mark}
        self._papermill: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start papermill; returns at once."""
        root = checkout()
        conf = self._home / "conf" / self.name
        conf.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / "conf" / "local" / f"{self.role}.yaml", conf / "deployment.yaml")
        command = [sys.executable, "-m", "papermill", "--engine", "spdist", "--no-progress-bar", "--log-output"]
        # This interpreter's own kernel, whatever other kernels this machine has under the notebook's name.
        command += [
            "-k",
            "python3",
            str(root / "notebooks" / f"{self.role}.ipynb"),
            str(self._home / f"{self.name}.ipynb"),
        ]
        command += ["-p", "conf", str(conf)]
        environment = {**os.environ, **self._environment, **_NODE_ENVIRONMENT}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
        # So that the node ends when this process has gone without a word.
        environment[END_WITH] = str(os.getpid())
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
        deadline_s = time.monotonic() + timeout_s
        while left := self.processes():
            for process in left:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(left, timeout=0.2)
            if time.monotonic() > deadline_s:
                raise ClusterError(f"processes of {self.name} do not end: {[p.pid for p in left]}")
        if self._papermill is not None:
            self._papermill.wait(timeout_s)

    def tail(self) -> str:
        """Return the last lines of its log."""
        if not self.log.exists():
            return "(no log)"
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"  | {line}" for line in lines[-_TAIL_LINES:])
