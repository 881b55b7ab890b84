"""Servers on this machine: nodes with apps of their own, without managers, each a process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spdist.cluster.clients.client import ClusterClient, UnreachableNode
from spdist.cluster.processes.local_nodes import LocalNodes
from spdist.cluster.processes.nodes import NodeProcess
from spdist.display import headline_html, number_of, table_html, table_text
from spdist.errors import ClusterError
from spdist.services.process import free_ports

__all__ = ["LocalServers"]


class LocalServers(LocalNodes):
    """Servers on this machine, each with apps, topics and state of its own; or, as a group, with common ones.

    Parameters
    ----------
    servers : int
        How many, >= 1: ``server-1`` and so on.
    group : str, optional
        Makes them servers of type ``ha`` with this ``groupId``: one of them runs the apps, and another takes over.
    directory, settings, start_timeout_s, quiet
        See `LocalNodes`.

    Attributes
    ----------
    clients : dict of str to ClusterClient
        By server what deploys and reads there; of a group all of them find the active server.

    Raises
    ------
    ClusterError
        A server did not come up; says why, and where its log is. Nothing is left running.

    Examples
    --------
    >>> with LocalServers(2, group="east") as servers:  # doctest: +SKIP
    ...     app = servers.client.deploy(text).wait()
    ...     servers.kill(servers.active())
    """

    def __init__(
        self,
        servers: int = 1,
        directory: str | Path | None = None,
        *,
        group: str = "",
        settings: Mapping[str, str] | None = None,
        start_timeout_s: float = 120.0,
        quiet: bool = False,
    ) -> None:
        if servers < 1:
            raise ClusterError(f"{servers} servers are none", hint="one at least")
        super().__init__(directory, settings, start_timeout_s, quiet)
        self._servers = servers
        self._group = group
        self.clients: dict[str, ClusterClient] = {}

    def _name_nodes(self, environment: dict[str, str]) -> dict[str, NodeProcess]:
        ports = free_ports(self._servers)
        urls = {f"server-{number}": f"http://127.0.0.1:{port}" for number, port in enumerate(ports, 1)}
        environment |= {"SPDIST_SERVER_TYPE": "ha" if self._group else "default", "SPDIST_GROUP": self._group or "none"}
        nodes = {}
        for name, port in zip(urls, ports, strict=True):
            # Servers of a group share apps, topics and state
            home = self.directory / (self._group or name)
            home.mkdir(exist_ok=True)
            own = {"SPDIST_SERVER_HOME": str(home)}
            nodes[name] = NodeProcess(name, "server", self.directory, port, environment | own)
            # Its own address first: it names the active one, and the others are asked once it is gone
            known = [urls[name], *(url for other, url in urls.items() if self._group and other != name)]
            self.clients[name] = ClusterClient(known, "admin", environment["SPDIST_PASSWORD"])
        return nodes

    def _close(self) -> None:
        for client in self.clients.values():
            client.close()

    # ------------------------------------------------------------------------------------------------------------ group
    @property
    def client(self) -> ClusterClient:
        """What deploys and reads: of a group at its active server, else at the first one."""
        return self.clients["server-1"]

    @property
    def is_group(self) -> bool:
        """Whether one of them is active and the others take over."""
        return bool(self._group)

    def active(self) -> str:
        """Return the name of the server that is active in the group."""
        return str(self.client.nodes()["leader"])

    # ---------------------------------------------------------------------------------------------------------- looks
    def __repr__(self) -> str:
        state = f"in {self.directory}" if self._running else "not running"
        return f"LocalServers({number_of(self._servers, 'server')}, {state})"

    def __str__(self) -> str:
        return self._text_and_html()[0]

    def _repr_html_(self) -> str:
        return self._text_and_html()[1]

    def _text_and_html(self) -> tuple[str, str]:
        head, rows = ("server", "state", "url", "apps"), [self._row(node) for node in self.nodes.values()]
        return table_text(head, rows, title=repr(self)), headline_html(repr(self)) + table_html(head, rows)

    def _row(self, node: NodeProcess) -> tuple[str, str, str, str]:
        try:
            facts = self._caller.call("GET", f"{node.url}/statistics") if self._running else None
            apps = self._caller.call("GET", f"{node.url}/siddhi-apps")
        except UnreachableNode:
            facts = None
        if facts is None or facts.status != 200:
            return node.name, "LOST", node.url, ""
        words = f"READY, {facts.body['haStatus'].lower()}" if self._group else "READY"
        return node.name, words, node.url, ", ".join(apps.body) if apps.status == 200 else ""
