"""A whole cluster on this machine: managers and workers as processes of their own, each a notebook run by papermill."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdist.cluster.clients.client import ClusterClient
from spdist.cluster.clients.handle import Deployment
from spdist.cluster.clients.overview import ClusterStatus
from spdist.cluster.managers.streams import StreamAccess
from spdist.cluster.processes.local_nodes import LocalNodes
from spdist.cluster.processes.nodes import NodeProcess, Role
from spdist.config import load_config
from spdist.display import headline_html, note_html
from spdist.errors import ClusterError, ErrorKind, NotFoundError, SpdistError
from spdist.services.process import free_ports
from spdist.transports.opening import transport_settings
from spdist.workspace import workspace

if TYPE_CHECKING:
    from spdist.language.ast import SiddhiApp
    from spdist.language.types import Schema
    from spdist.transports.feed import Feed
    from spdist.transports.reading import ReadEvent

__all__ = ["LocalCluster"]

_LOOK_S = 0.2


class LocalCluster(LocalNodes):
    """Managers and workers on this machine, with a database, topics and state in one directory.

    Parameters
    ----------
    managers, workers : int
        How many of each, >= 1.
    receivers : int
        How many workers more that read the users' sources for passthrough groups, and nothing else.
    directory, settings, start_timeout_s, quiet
        See `LocalNodes`.

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
        super().__init__(directory, settings, start_timeout_s, quiet)
        self._managers = managers
        self._workers = workers
        self._receivers = receivers

    def _name_nodes(self, environment: dict[str, str]) -> dict[str, NodeProcess]:
        ports = free_ports(self._managers + self._workers + self._receivers)
        urls = [f"http://127.0.0.1:{port}" for port in ports[: self._managers]]
        environment |= {"SPDIST_MANAGERS": ",".join(urls)}
        nodes = {}
        counted = (("manager", self._managers), ("worker", self._workers), ("receiver", self._receivers))
        names = [f"{kind}-{number}" for kind, count in counted for number in range(1, count + 1)]
        for name, port in zip(names, ports, strict=True):
            role: Role = "manager" if name.startswith("manager") else "worker"
            more = {"SPDIST__DEPLOYMENT__IS_RECEIVER_NODE": "true"} if name.startswith("receiver") else {}
            nodes[name] = NodeProcess(name, role, self.directory, port, environment | more)
        self.client = ClusterClient(urls, "admin", environment["SPDIST_PASSWORD"])
        node = {"SPDIST_NODE_ID": "this", "SPDIST_PORT": "0"}
        settings = load_config(
            workspace() / "conf/local/worker.yaml", environment={**os.environ, **environment, **node}
        )
        self._streams = StreamAccess(transport_settings(settings.transports))
        return nodes

    def _close(self) -> None:
        self.client.close()
        self._streams.close()

    # ------------------------------------------------------------------------------------------------------------ nodes
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
        ClusterError
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
                raise ClusterError(
                    f"{group} is not placed after {timeout_s:g} s: {found[0].reason}", code=ErrorKind.NO_WORKERS
                )
            time.sleep(_LOOK_S)

    def kill_leader(self) -> str:
        """Kill the manager that leads, and return its name."""
        name = self.leader()
        self.kill(name)
        return name

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

    def read(self, app: str | Deployment, stream: str) -> list[ReadEvent]:
        """Return all events of a published stream so far, in order, as ``(timestamp ms, row)``.

        Raises
        ------
        ClusterError
            The stream stays inside its group; says how to publish it.
        """
        return self._streams.read(self._text(app), stream)

    def query(self, app: str | Deployment, text: str, timeout_s: float = 30.0) -> list[tuple[Any, ...]]:
        """Put a query on demand to a running app, such as ``from T select *``: its rows, see `StreamAccess.query`."""
        return self._streams.query(self._text(app), text, timeout_s)

    def read_topic(self, topic: str, schema: Schema) -> list[ReadEvent]:
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
