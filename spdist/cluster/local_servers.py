"""Servers on this machine: nodes with apps of their own, without managers, each a process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spdist.cluster.client import ClusterClient, UnreachableNode
from spdist.cluster.local_nodes import LocalNodes
from spdist.cluster.nodes import NodeProcess
from spdist.errors import ClusterError
from spdist.look import headline_html, number_of, table_html, table_text
from spdist.services.process import free_ports

__all__ = ["LocalServers"]


class LocalServers(LocalNodes):
    """Servers on this machine, each with apps, topics and state in a directory of its own.

    Parameters
    ----------
    servers : int
        How many, >= 1: ``server-1`` and so on.
    directory, settings, start_timeout_s, quiet
        See `LocalNodes`.

    Raises
    ------
    ClusterError
        A server did not come up; says why, and where its log is. Nothing is left running.

    Examples
    --------
    >>> with LocalServers(2) as servers:  # doctest: +SKIP
    ...     for client in servers.clients.values():
    ...         client.deploy(text).wait()
    """

    def __init__(
        self,
        servers: int = 1,
        directory: str | Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        start_timeout_s: float = 120.0,
        quiet: bool = False,
    ) -> None:
        if servers < 1:
            raise ClusterError(f"{servers} servers are none", hint="one at least")
        super().__init__(directory, settings, start_timeout_s, quiet)
        self._servers = servers
        #: by server what deploys and reads there
        self.clients: dict[str, ClusterClient] = {}

    def _name_nodes(self, environment: dict[str, str]) -> dict[str, NodeProcess]:
        nodes = {}
        for number, port in enumerate(free_ports(self._servers), 1):
            own = {"SPDIST_SERVER_HOME": str(self.directory / f"server-{number}")}
            node = NodeProcess(f"server-{number}", "server", self.directory, port, environment | own)
            nodes[node.name] = node
            self.clients[node.name] = ClusterClient([node.url], "admin", environment["SPDIST_PASSWORD"])
        return nodes

    def _close(self) -> None:
        for client in self.clients.values():
            client.close()

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
            reply = self._caller.call("GET", f"{node.url}/siddhi-apps") if self._running else None
        except UnreachableNode:
            reply = None
        up = reply is not None and reply.status == 200
        return node.name, "READY" if up else "LOST", node.url, ", ".join(reply.body) if reply and up else ""
