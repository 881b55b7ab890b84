"""Nodes on this machine as processes of their own, each a notebook run by papermill: what all kinds of them share."""

from __future__ import annotations

import atexit
import secrets
import shutil
import tempfile
import time
from abc import abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Self

from rich.console import Console

from spdist.cluster.clients.calling import Caller
from spdist.cluster.processes.nodes import NodeProcess
from spdist.cluster.processes.startup import await_nodes
from spdist.display import Shown
from spdist.errors import NotFoundError
from spdist.workspace import workspace

__all__ = ["LocalNodes"]

#: How long nodes may take to end: some seconds, but the first JVM on a machine archives its classes then.
_STOP_S = 60.0
#: What stays of nodes of which one failed: logs and executed notebooks.
_KEPT = (".log", ".ipynb")


class LocalNodes(Shown):
    """Nodes on this machine, with all that they write in one directory.

    Parameters
    ----------
    directory : path, optional
        Where everything goes; kept afterwards, and nodes that are started there again go on from their apps and
        their state. Without it, a temporary directory that `stop` deletes; where a node failed the logs stay.
    settings : mapping of str to str, optional
        Settings of all nodes as environment variables ``SPDIST__<SECTION>__<FIELD>``, such as
        ``{"SPDIST__SPARK__DRIVER_MEMORY": "1g"}``.
    start_timeout_s : float
        How long all nodes together may take to come up.
    quiet : bool
        Whether to keep silent about what is being waited for.
    """

    def __init__(
        self, directory: str | Path | None, settings: Mapping[str, str] | None, start_timeout_s: float, quiet: bool
    ) -> None:
        self._directory = directory
        self._settings = dict(settings or {})
        self._start_timeout_s = start_timeout_s
        self._console = Console(quiet=quiet, highlight=False)
        self.nodes: dict[str, NodeProcess] = {}
        self._running = False

    @abstractmethod
    def _name_nodes(self, environment: dict[str, str]) -> dict[str, NodeProcess]:
        """Return the nodes, and open what asks them; `environment` is what all of them get, the password among it."""

    @abstractmethod
    def _close(self) -> None:
        """Close what asks them. The processes have ended."""

    # ------------------------------------------------------------------------------------------------------------- life
    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(failed=kind is not None and issubclass(kind, Exception))

    def start(self) -> Self:
        """Start all nodes and return when they answer, and can run groups: their Spark is up."""
        if self._running:
            return self
        workspace()
        self._prepare()
        atexit.register(self.stop)
        self._running = True
        try:
            self._console.print(f"starting {len(self.nodes)} nodes in {self.directory}", soft_wrap=True)
            for node in self.nodes.values():
                node.start()
            self._await(self.nodes)
        except BaseException as error:
            self._end(failed=not isinstance(error, KeyboardInterrupt))
            raise
        return self

    def _prepare(self) -> None:
        """Make the directory, choose the password, and name the nodes."""
        path = tempfile.mkdtemp(prefix="spdist-") if self._directory is None else self._directory
        self.directory = Path(path).expanduser().resolve()
        self.directory.mkdir(parents=True, exist_ok=True)
        password = secrets.token_urlsafe(24)
        self._caller = Caller("admin", password, timeout_s=2.0)
        self.nodes = self._name_nodes(
            {**self._settings, "SPDIST_HOME": str(self.directory), "SPDIST_PASSWORD": password}
        )

    def _await(self, nodes: Mapping[str, NodeProcess]) -> None:
        await_nodes(nodes, self.nodes, self._caller, self._start_timeout_s, self._console.print)

    def stop(self) -> None:
        """Ask all nodes to stop, wait up to a minute, kill what is left, and delete a temporary directory. Idempotent.

        Where a node has ended by itself, and not well, the logs and executed notebooks stay there.

        Raises
        ------
        ClusterError
            A process does not end.
        """
        self._end()

    def _end(self, failed: bool = False) -> None:
        if not self._running:
            return
        self._running = False
        atexit.unregister(self.stop)
        failed = failed or any(node.failed for node in self.nodes.values())
        for node in self.nodes.values():
            # All are asked before the first is waited for
            node.ask_to_stop()
        deadline_s = time.monotonic() + _STOP_S
        for name, node in self.nodes.items():
            if not node.wait(max(0.0, deadline_s - time.monotonic())):
                self._console.print(f"  {name} does not stop and is killed")
        for node in self.nodes.values():
            # Of one that has ended, too: processes that it had started may be left
            node.kill()
        self._caller.close()
        self._close()
        if self._directory is None:
            _clean(self.directory, keep=_KEPT if failed else ())
        kept = f"; the logs are kept in {self.directory}" if failed else ""
        self._console.print(f"all nodes have stopped{kept}", soft_wrap=True)

    # ------------------------------------------------------------------------------------------------------------ nodes
    def node(self, name: str) -> NodeProcess:
        """Return a node by its name; NotFoundError if there is none."""
        if name not in self.nodes:
            raise NotFoundError(f"there is no node {name}", hint=f"there are: {', '.join(self.nodes)}")
        return self.nodes[name]

    def kill(self, name: str) -> None:
        """Kill a node with all its processes (SIGKILL), as a machine that fails would end."""
        self.node(name).kill()

    def restart(self, name: str) -> None:
        """Start a node again that was killed; returns when it is up."""
        node = self.node(name)
        node.kill()
        node.start()
        self._await({name: node})

    def processes(self) -> dict[str, list[int]]:
        """Return the process ids of each node."""
        return {name: [process.pid for process in node.processes()] for name, node in self.nodes.items()}

    def memory(self) -> int:
        """Return the resident memory of all nodes in bytes; see `NodeProcess.memory`."""
        return sum(node.memory() for node in self.nodes.values())


def _clean(directory: Path, keep: Collection[str]) -> None:
    """Delete what is in a directory but files that end so; and the directory, where none stays."""
    for one in directory.iterdir():
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one, ignore_errors=True)
        elif one.suffix not in keep:
            one.unlink(missing_ok=True)
    if not keep:
        shutil.rmtree(directory, ignore_errors=True)
