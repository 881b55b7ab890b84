"""A cluster at a glance: who leads, which workers are alive, how each group instance is doing; and waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from spdist.errors import DeploymentTimeoutError, SpdistError
from spdist.look import headline_html, table_html, table_text, time_text
from widgets.panel import ClusterPanel, Line

if TYPE_CHECKING:
    from spdist.cluster.overview import ClusterStatus

__all__ = ["MonitorPanel"]

_LOOK_S = 1.0
_NODES = ("node", "role", "state", "groups")
_GROUPS = (
    *("group instance", "state", "worker", "events in", "events out", "lag", "batch ms", "clock"),
    *("rows", "state", "memory", "last revision", "reason"),
)


class MonitorPanel(ClusterPanel["ClusterStatus"]):
    """Shows managers, workers, and the group instances of all apps with their figures.

    Parameters
    ----------
    cluster : ClusterClient or LocalCluster
        Whom to ask.

    Examples
    --------
    >>> monitor = MonitorPanel(cluster)  # doctest: +SKIP
    >>> monitor.wait(lambda: (len(cluster.read(app, "Alerts")), 100), "alerts")  # doctest: +SKIP
    """

    def look(self) -> ClusterStatus:
        """Return the cluster's status."""
        return self.watch.status().status

    def text_of(self, view: ClusterStatus) -> str:
        """Return two tables: nodes and group instances."""
        return f"{_headline(view)}\n{table_text(_NODES, _node_rows(view))}\n\n{table_text(_GROUPS, _group_rows(view))}"

    def html_of(self, view: ClusterStatus) -> str:
        """Return two tables: nodes and group instances."""
        headline = headline_html(_headline(view))
        return f"{headline}{table_html(_NODES, _node_rows(view))}{table_html(_GROUPS, _group_rows(view))}"

    def wait(
        self, progress: Callable[[], tuple[int, int]], what: str, timeout_s: float = 60.0, beside: object = ""
    ) -> None:
        """Wait until there is as much as there should be, and show meanwhile how far it is on one line.

        Parameters
        ----------
        progress : callable
            Returns how much there is and how much there should be. A SpdistError it raises counts as not yet.
        what : str
            What is counted, in plural.
        timeout_s : float
            How long to wait.
        beside : object
            What else to tell on the line, such as a `ReplayPanel`: its text is asked for again each time.

        Raises
        ------
        DeploymentTimeoutError
            Not in time; says how far it was and how the groups were doing.
        """
        began_s = time.monotonic()
        line = Line()
        while True:
            there, wanted = _counted(progress)
            elapsed_s = time.monotonic() - began_s
            told = [f"{elapsed_s:.0f} s: {there:,} of {wanted:,} {what}", self._groups_in_words(), str(beside)]
            line.show("; ".join(filter(None, told)))
            if there >= wanted > 0 or elapsed_s > timeout_s:
                line.end()
                break
            time.sleep(_LOOK_S)
        if there < wanted or not wanted:
            raise DeploymentTimeoutError(
                f"{there} of {wanted} {what} after {timeout_s:g} s\n{self}",
                hint="wait longer, or look at the reasons of the groups above and at the logs of their workers",
            )

    def _groups_in_words(self) -> str:
        try:
            return _summary(group.state for app in self.look().apps for group in app.groups)
        except SpdistError as error:
            return error.message


def _counted(progress: Callable[[], tuple[int, int]]) -> tuple[int, int]:
    try:
        return progress()
    except SpdistError:
        return 0, 0


def _summary(states: Iterable[str]) -> str:
    """Return ``4 groups RUNNING, 1 WAITING``."""
    counted: dict[str, int] = {}
    for state in states:
        counted[state] = counted.get(state, 0) + 1
    if not counted:
        return "no groups"
    first, *others = counted.items()
    words = f"{first[1]} group{'' if first[1] == 1 else 's'} {first[0]}"
    return ", ".join([words, *(f"{count} {state}" for state, count in others)])


def _headline(view: ClusterStatus) -> str:
    return f"Cluster {view.group_id}: {view.leader} leads in term {view.term}"


def _node_rows(view: ClusterStatus) -> list[tuple[str, ...]]:
    managers = [(m.id, "manager", "leads" if m.leads else "stands by", "") for m in view.managers]
    workers = [
        (
            w.id,
            "receiver" if w.receiver else "worker",
            w.told,
            str(len(w.groups)),
        )
        for w in (*view.workers, *view.lost)
    ]
    return [*managers, *workers]


def _group_rows(view: ClusterStatus) -> list[tuple[str, ...]]:
    return [
        (
            group.name,
            group.state,
            group.worker or "-",
            _count(group.metrics, "eventsIn"),
            _count(group.metrics, "eventsOut"),
            _count(group.metrics, "lag"),
            _count(group.metrics, "batchMs"),
            time_text(group.metrics.get("clock")),
            _count(group.metrics, "stateRows"),
            _megabytes(group.metrics, "stateBytes"),
            _megabytes(group.metrics, "memoryBytes"),
            time_text(group.metrics.get("lastRevision")),
            group.reason,
        )
        for app in view.apps
        for group in app.groups
    ]


def _count(metrics: Mapping[str, float], name: str) -> str:
    return f"{metrics[name]:,.0f}" if name in metrics else ""


def _megabytes(metrics: Mapping[str, float], name: str) -> str:
    return f"{metrics[name] / 1e6:,.1f} MB" if name in metrics else ""
