"""A cluster at a glance: who leads, which workers are alive, how each group instance is doing; and waiting for it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ipywidgets

from spdist.display import headline_html, note_html, table_html, table_text, time_text
from spdist.errors import DeploymentTimeoutError, SpdistError
from spdist.panels.cards import cards_html
from spdist.panels.group_rows import ORDERS, GroupRow, charts_html, group_rows
from spdist.panels.panel import ClusterPanel, Line
from spdist.panels.poller import Awaited
from spdist.panels.watch import Cluster, ClusterView

__all__ = ["MonitorPanel", "Monitored"]

_LOOK_S = 1.0
#: Entries of the journal that are shown, and how many are looked at to find them.
_ENTRIES, _READ = 8, 60
_NODES = ("node", "role", "state", "groups")
_NO_GROUP = "no group"


@dataclass(frozen=True, slots=True)
class Monitored:
    """What a monitor shows.

    Parameters
    ----------
    cluster : ClusterView
        Nodes and groups, with the ten minutes behind them.
    journal : sequence of mapping
        What has happened, newest first; empty where that is not known.
    """

    cluster: ClusterView
    journal: Sequence[Mapping[str, Any]] = field(default=())


class MonitorPanel(ClusterPanel[Monitored]):
    """Shows managers, workers with their load, all group instances with plots of the last ten minutes, and the journal.

    Parameters
    ----------
    cluster : ClusterClient or LocalCluster
        Whom to ask.

    State
    -----
    By which column the groups are sorted, and which of them is shown large.

    Examples
    --------
    >>> monitor = MonitorPanel(cluster)  # doctest: +SKIP
    >>> monitor.wait(lambda: (len(cluster.read(app, "Alerts")), 100), "alerts")  # doctest: +SKIP
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        #: A name of `ORDERS`.
        self.order = "app"
        #: The group instance whose figures are shown large; empty for none.
        self.selected = ""
        self._choice: Any = None

    def fetch(self) -> Monitored:
        """Return the cluster's status, with what its journal says."""
        view = self.watch.status()
        try:
            return Monitored(view, self.watch.journal(_READ))
        except (Awaited, SpdistError):  # the figures wait for no journal
            return Monitored(view)

    def text_of(self, view: Monitored) -> str:
        """Return tables: nodes, group instances, and what has happened."""
        groups = table_text(GroupRow.TEXT_HEAD, [row.text_cells() for row in group_rows(view.cluster, self.order)])
        parts = [f"{_headline(view.cluster)}\n{table_text(_NODES, _node_rows(view.cluster))}", groups]
        entries = _entries(view.journal)
        return "\n\n".join(parts + ([table_text(("time", "what"), entries, title="journal")] if entries else []))

    def html_of(self, view: Monitored) -> str:
        """Return nodes as cards, group instances as a table with curves, one of them large, and what has happened."""
        rows = group_rows(view.cluster, self.order)
        large = "".join(
            headline_html(f"{row.group.name}: {row.group.state}") + charts_html(row)
            for row in rows
            if row.group.name == self.selected
        )
        table = table_html(GroupRow.HTML_HEAD, [row.html_cells() for row in rows]) if rows else note_html("no groups")
        entries = _entries(view.journal)
        journal = table_html(("time (UTC)", "what"), entries, caption="Journal") if entries else ""
        return headline_html(_headline(view.cluster)) + cards_html(view.cluster) + table + large + journal

    def controls(self) -> Sequence[Any]:
        """Return by what to sort, and which group to show large."""
        order = ipywidgets.Dropdown(options=list(ORDERS), value=self.order, description="Sort by")
        self._choice = ipywidgets.Dropdown(options=[_NO_GROUP], description="Plots of")
        order.observe(lambda change: self._chosen(order=change["new"]), names="value")
        self._choice.observe(lambda change: self._chosen(selected=change["new"]), names="value")
        return (ipywidgets.HBox([order, self._choice]),)

    def adapt(self, view: Monitored) -> None:
        """Offer the groups that there are."""
        names = [row.group.name for row in group_rows(view.cluster)]
        if self.selected and self.selected not in names:
            names.append(self.selected)  # it may come back
        options = (_NO_GROUP, *names)
        if self._choice.options != options:
            with self._choice.hold_sync():
                # Setting the options chooses the first one, and `_chosen` forgets what was selected.
                chosen = self.selected
                self._choice.options = options
                self._choice.value = chosen or _NO_GROUP

    def _chosen(self, order: str | None = None, selected: str | None = None) -> None:
        self.order = order or self.order
        if selected is not None:
            self.selected = "" if selected == _NO_GROUP else selected
        self.poller.wake()

    def wait(
        self,
        progress: Callable[[], tuple[int, int]],
        what: str,
        timeout_s: float = 60.0,
        also_shown: object = "",
        **former: object,
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
        also_shown : object
            What else to tell on the line, such as a `ReplayPanel`: its text is asked for again each time.
        **former : object
            `also_shown` by its former name, deprecated.

        Raises
        ------
        DeploymentTimeoutError
            Not in time; says how far it was and how the groups were doing.
        """
        if former:
            also_shown = _renamed(former, "beside", "also_shown")
        began_s = time.monotonic()
        line = Line()
        while True:
            there, wanted = _counted(progress)
            elapsed_s = time.monotonic() - began_s
            told = [f"{elapsed_s:.0f} s: {there:,} of {wanted:,} {what}", self._groups_in_words(), str(also_shown)]
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
            return _summary(group.state for app in self.watch.status(_LOOK_S).status.apps for group in app.groups)
        except SpdistError as error:
            return error.message


def _renamed(former: Mapping[str, object], old: str, new: str) -> object:
    """Return what was given by the former name of a parameter, and warn of it.

    Raises
    ------
    TypeError
        Something else was given.
    """
    if set(former) != {old}:
        raise TypeError(f"unknown parameter: {', '.join(sorted(set(former) - {old}))}")
    warnings.warn(f"the parameter {old} is {new} now", DeprecationWarning, stacklevel=3)
    return former[old]


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


def _headline(view: ClusterView) -> str:
    status = view.status
    groups = _summary(group.state for app in status.apps for group in app.groups)
    return f"Cluster {status.group_id}: {status.leader} leads in term {status.term}; {groups}"


def _node_rows(view: ClusterView) -> list[tuple[str, ...]]:
    status = view.status
    return [
        *((m.id, "manager", "leads" if m.leads else "stands by", "") for m in status.managers),
        *(
            (w.id, "receiver" if w.receiver else "worker", w.told, str(len(w.groups)))
            for w in (*status.workers, *status.lost)
        ),
        *(
            (one.id, one.role, f"LOST: last seen {view.at_s - one.seen_s:.0f} s ago", str(len(one.groups) or ""))
            for one in view.absent
        ),
    ]


def _entries(journal: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return time and message of the last entries; where groups were placed, their table says."""
    told = [(time_text(one["time"]), str(one["message"])) for one in journal if one["kind"] != "group-placed"]
    return told[:_ENTRIES]
