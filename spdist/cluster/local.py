"""A whole cluster on this machine: managers and workers as processes of their own, each a notebook run by papermill."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from rich.console import Console

from spdist.cluster.client import Caller, ClusterClient
from spdist.cluster.handle import Deployment
from spdist.cluster.nodes import NodeProcess
from spdist.cluster.overview import ClusterStatus
from spdist.cluster.startup import await_nodes
from spdist.cluster.streams import Streams
from spdist.config import load_config
from spdist.errors import ClusterError, NotFoundError, NoWorkersError, SpdistError
from spdist.look import Shown, headline_html, note_html
from spdist.services.process import free_ports
from spdist.transports.opening import transport_settings
from spdist.workspace import workspace

if TYPE_CHECKING:
    from spdist.language.ast import SiddhiApp
    from spdist.language.types import Schema
    from spdist.transports.feed import Feed

__all__ = ["LocalCluster"]

_LOOK_S = 0.2
_STOP_S = 15.0
#: What stays of a cluster that failed: logs and executed notebooks.
_KEPT = (".log", ".ipynb")


class LocalCluster(Shown):
    """Managers and workers on this machine, with a database, topics and state in one directory.

    Parameters
    ----------
    managers, workers : int
        How many of each, >= 1.
    receivers : int
        How many workers more that read the users' sources for passthrough groups, and nothing else.
    directory : path, optional
        Where everything goes; kept afterwards, and a cluster that is started there again goes on from its apps and
        their state. Without it, a temporary directory that `stop` deletes;
        of a cluster that failed the logs stay.
    settings : mapping of str to str, optional
        Settings of all nodes as environment variables ``SPDIST__<SECTION>__<FIELD>``, such as
        ``{"SPDIST__SPARK__DRIVER_MEMORY": "1g"}``.
    start_timeout_s : float
        How long all nodes together may take to come up.
    quiet : bool
        Whether to keep silent about what is being waited for.

    Raises
    ------
    ClusterError
        A node did not come up; says why, and where its log is. Nothing is left running.

    Examples
    --------
    >>> with LocalCluster(managers=2, workers=2) as cluster:  # doctest: +SKIP
    ...     app = cluster.deploy(text).wait()
    ...     cluster.feed(app, "Trades").send([(1000, ("IBM", 75.0))])
    """

    def __init__(
        self,
        managers: int = 2,
        workers: int = 2,
        directory: str | Path | None = None,
        *,
        receivers: int = 0,
        settings: Mapping[str, str] | None = None,
        start_timeout_s: float = 120.0,
        quiet: bool = False,
    ) -> None:
        if managers < 1 or workers < 1:
            raise ClusterError(f"a cluster of {managers} managers and {workers} workers is none", hint="one of each")
        self._managers = managers
        self._workers = workers
        self._receivers = receivers
        self._directory = directory
        self._settings = dict(settings or {})
        self._start_timeout_s = start_timeout_s
        self._console = Console(quiet=quiet, highlight=False)
        self.nodes: dict[str, NodeProcess] = {}
        self._running = False

    # ------------------------------------------------------------------------------------------------------------- life
    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(failed=kind is not None and issubclass(kind, Exception))

    def start(self) -> Self:
        """Start all nodes and return when the managers answer and the workers are ready: their Spark is up."""
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
        """Make the directory, choose ports and the password, and name the nodes."""
        path = tempfile.mkdtemp(prefix="spdist-") if self._directory is None else self._directory
        self.directory = Path(path).expanduser().resolve()
        self.directory.mkdir(parents=True, exist_ok=True)
        password = secrets.token_urlsafe(24)
        ports = free_ports(self._managers + self._workers + self._receivers)
        urls = [f"http://127.0.0.1:{port}" for port in ports[: self._managers]]
        environment = {
            **self._settings,
            "SPDIST_HOME": str(self.directory),
            "SPDIST_PASSWORD": password,
            "SPDIST_MANAGERS": ",".join(urls),
        }
        self.nodes = {}
        counted = (("manager", self._managers), ("worker", self._workers), ("receiver", self._receivers))
        names = [f"{kind}-{number}" for kind, count in counted for number in range(1, count + 1)]
        for name, port in zip(names, ports, strict=True):
            role: Literal["manager", "worker"] = "manager" if name.startswith("manager") else "worker"
            more = {"SPDIST__DEPLOYMENT__IS_RECEIVER_NODE": "true"} if name.startswith("receiver") else {}
            self.nodes[name] = NodeProcess(name, role, self.directory, port, environment | more)
        self.client = ClusterClient(urls, "admin", password)
        self._caller = Caller("admin", password, timeout_s=2.0)
        node = {"SPDIST_NODE_ID": "this", "SPDIST_PORT": "0"}
        settings = load_config(
            workspace() / "conf/local/worker.yaml", environment={**os.environ, **environment, **node}
        )
        self._streams = Streams(transport_settings(settings.transports))

    def _await(self, nodes: Mapping[str, NodeProcess]) -> None:
        await_nodes(nodes, self.nodes, self._caller, self._start_timeout_s, self._console.print)

    def stop(self) -> None:
        """Ask all nodes to stop, wait up to 15 s, kill what is left, and delete a temporary directory. Idempotent.

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
            node.ask_to_stop()
        deadline_s = time.monotonic() + _STOP_S
        for name, node in self.nodes.items():
            if not node.wait(max(0.0, deadline_s - time.monotonic())):
                self._console.print(f"  {name} does not stop and is killed")
        for node in self.nodes.values():
            node.kill()
        self.client.close()
        self._caller.close()
        self._streams.close()
        if self._directory is None:
            _clean(self.directory, keep=_KEPT if failed else ())
        kept = f"; the logs are kept in {self.directory}" if failed else ""
        self._console.print(f"all nodes have stopped{kept}", soft_wrap=True)

    # ------------------------------------------------------------------------------------------------------------ nodes
    def node(self, name: str) -> NodeProcess:
        """Return a node by its name; NotFoundError if there is none."""
        if name not in self.nodes:
            raise NotFoundError(f"this cluster has no node {name}", hint=f"it has: {', '.join(self.nodes)}")
        return self.nodes[name]

    def leader(self) -> str:
        """Return the name of the manager that leads."""
        return str(self.client.nodes()["leader"])

    def worker_of(self, group: str, timeout_s: float = 30.0) -> str:
        """Return the name of the worker that a group instance, ``<App>-<group>-<i>``, is placed on.

        Parameters
        ----------
        group : str
            The instance.
        timeout_s : float
            How long to wait for it to be placed: after a failover, workers first report to the new leader.

        Raises
        ------
        NotFoundError
            No deployed app has such an instance.
        NoWorkersError
            It still waits for a worker.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            found = [one for app in self.client.status().apps for one in app.groups if one.name == group]
            if not found:
                raise NotFoundError(f"no deployed app has a group instance {group}")
            if found[0].worker:
                return found[0].worker
            if time.monotonic() > deadline_s:
                raise NoWorkersError(f"{group} is not placed after {timeout_s:g} s: {found[0].reason}")
            time.sleep(_LOOK_S)

    def kill(self, name: str) -> None:
        """Kill a node with all its processes (SIGKILL), as a machine that fails would end."""
        self.node(name).kill()

    def kill_leader(self) -> str:
        """Kill the manager that leads, and return its name."""
        name = self.leader()
        self.kill(name)
        return name

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

    # ------------------------------------------------------------------------------------------------------------- apps
    def deploy(self, app: str | SiddhiApp, *, replace: bool = True) -> Deployment:
        """Hand an app to the cluster; see `ClusterClient.deploy`."""
        return self.client.deploy(app, replace=replace)

    def deployment(self, name: str) -> Deployment:
        """Return the handle of an app."""
        return self.client.deployment(name)

    def status(self) -> ClusterStatus:
        """Return nodes and apps as they are now."""
        return self.client.status()

    def feed(self, app: str | Deployment, stream: str, producer: str | None = None) -> Feed:
        """Return a feed that puts events into a stream of a deployed app.

        Parameters
        ----------
        app : str or Deployment
            The app.
        stream : str
            A stream that nothing in the app fills.
        producer : str, optional
            See `Feed`: the same name and the same events again are not counted twice.

        Raises
        ------
        ClusterError
            The stream is not fed from outside.
        """
        return self._streams.feed(self._text(app), stream, producer)

    def read(self, app: str | Deployment, stream: str) -> list[tuple[int, tuple[Any, ...]]]:
        """Return all events of a published stream so far, in order, as ``(timestamp ms, row)``.

        Raises
        ------
        ClusterError
            The stream stays inside its group; says how to publish it.
        """
        return self._streams.read(self._text(app), stream)

    def query(self, app: str | Deployment, text: str, timeout_s: float = 30.0) -> list[tuple[Any, ...]]:
        """Put a query on demand to a running app, such as ``from T select *``: its rows, see `Streams.query`."""
        return self._streams.query(self._text(app), text, timeout_s)

    def read_topic(self, topic: str, schema: Schema) -> list[tuple[int, tuple[Any, ...]]]:
        """Return all events of a topic so far, in order, as ``(timestamp ms, row)``; none if it does not exist yet."""
        return self._streams.read_topic(topic, schema)

    def _text(self, app: str | Deployment) -> str:
        return (self.client.deployment(app) if isinstance(app, str) else app).text()

    # ---------------------------------------------------------------------------------------------------------- looks
    def __repr__(self) -> str:
        state = f"in {self.directory}" if self._running else "not running"
        return f"LocalCluster({self._managers} managers, {self._workers} workers, {state})"

    def __str__(self) -> str:
        return self._text_and_html()[0]

    def _repr_html_(self) -> str:
        return self._text_and_html()[1]

    def _text_and_html(self) -> tuple[str, str]:
        try:
            note = ""
            if self._running:
                return self.client.status(patient=False)._text_and_html()
        except SpdistError as error:
            note = error.message
        return f"{self!r}\n{note}".rstrip(), headline_html(repr(self)) + note_html(note)


def _clean(directory: Path, keep: Collection[str]) -> None:
    """Delete what is in a directory but files that end so; and the directory, where none stays."""
    for one in directory.iterdir():
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one, ignore_errors=True)
        elif one.suffix not in keep:
            one.unlink(missing_ok=True)
    if not keep:
        shutil.rmtree(directory, ignore_errors=True)
