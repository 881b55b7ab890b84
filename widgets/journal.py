"""What a cluster has decided and what has happened to it: its journal, the newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spdist.display import table_html, table_text, time_text
from spdist.panels.group_rows import unbroken
from spdist.panels.panel import ClusterPanel
from spdist.panels.watch import Cluster

__all__ = ["JournalPanel"]

Entries = Sequence[Mapping[str, Any]]

_COLUMNS = ("time", "node", "term", "kind", "app", "group", "worker", "user", "message")


class JournalPanel(ClusterPanel[Entries]):
    """Shows the last entries of a cluster's journal.

    Parameters
    ----------
    cluster : ClusterClient or LocalCluster
        Whom to ask.
    limit : int
        So many entries at most.
    **wanted
        ``app``, ``kind``, ``since`` and ``until`` (ms): only such.

    Examples
    --------
    >>> JournalPanel(cluster, app="FlightWatch")  # doctest: +SKIP
    """

    def __init__(self, cluster: Cluster, limit: int = 20, **wanted: Any) -> None:
        super().__init__(cluster)
        self._limit = limit
        self._wanted = wanted

    def fetch(self) -> Entries:
        """Return the entries as the leader has them now."""
        return self.watch.journal(self._limit, **self._wanted)

    def text_of(self, view: Entries) -> str:
        """Return a table."""
        return table_text(_COLUMNS, _rows(view))

    def html_of(self, view: Entries) -> str:
        """Return a table."""
        return table_html(_COLUMNS, [(*map(unbroken, row), message) for *row, message in _rows(view)])


def _rows(view: Entries) -> list[tuple[str, ...]]:
    return [(time_text(entry["time"]), *(_cell(entry[name]) for name in _COLUMNS[1:])) for entry in view]


def _cell(value: object) -> str:
    return "" if value is None else str(value)
