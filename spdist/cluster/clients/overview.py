"""What a user sees of a cluster: apps with their groups, managers and workers; as values, as text and in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spdist.display import Shown, number_of, table_html, table_text

__all__ = ["AppStatus", "ClusterStatus", "GroupStatus", "ManagerStatus", "WorkerStatus"]


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One group instance.

    Parameters
    ----------
    name, group : str
        ``<App>-<group>-<i>``, and ``<App>-<group>``.
    state : str
        WAITING, DEPLOYING, RUNNING, UNREACHABLE or FAILED.
    reason : str
        Why it is not RUNNING, or what it waits for while it is; empty if there is nothing to say.
    worker : str
        Where it is; empty while it waits for a worker.
    failures : int
        Failures in a row.
    metrics : mapping of str to float
        Figures of its query, as its worker last reported them.
    """

    name: str
    group: str
    state: str
    reason: str
    worker: str
    failures: int
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AppStatus(Shown):
    """A deployed app and its groups, in the order of its topology; ``state`` is that of the worst of them."""

    name: str
    state: str
    reason: str
    version: int
    groups: tuple[GroupStatus, ...]

    @classmethod
    def from_view(cls, view: Mapping[str, Any]) -> AppStatus:
        """Read what ``GET /siddhi-apps/{name}/status`` answers."""
        groups = tuple(
            GroupStatus(g["name"], g["group"], g["state"], g["reason"], g["worker"], g["failures"], g["metrics"])
            for g in view["groups"]
        )
        return cls(view["name"], view["state"], view["reason"], view["version"], groups)

    def __repr__(self) -> str:
        return f"AppStatus({self.name}: {self.state}, {number_of(len(self.groups), 'group')})"

    @property
    def running(self) -> int:
        """How many of its group instances run."""
        return sum(group.state == "RUNNING" for group in self.groups)

    def progress_text(self) -> str:
        """Return how far it is on one line: how many of its groups run, and why the first that does not does not."""
        told = f"{self.name}: {self.running} of {len(self.groups)} groups run"
        first = next((group for group in self.groups if group.state != "RUNNING"), None)
        if first is None:
            return told
        return f"{told}; {first.name} {first.state}" + (f": {first.reason}" if first.reason else "")

    def __str__(self) -> str:
        return table_text(_GROUP_HEAD, _group_rows([self]), title=self._title)

    def _repr_html_(self) -> str:
        return table_html(_GROUP_HEAD, _group_rows([self]), caption=self._title)

    @property
    def _title(self) -> str:
        return f"{self.name} (version {self.version}): {self.state}"


@dataclass(frozen=True, slots=True)
class ManagerStatus:
    """A manager that is alive."""

    id: str
    url: str
    leads: bool


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker that the leader knows.

    Parameters
    ----------
    id, url : str
        Who it is, and where it is reached.
    receiver, leaving : bool
        Its kind, and whether it shuts down.
    silent_ms : int
        Age of its last heartbeat.
    groups : tuple of tuple of str
        Names and states of what it has, or had when it was last heard.
    state : str
        READY, STARTING (its Spark is not up), LEAVING, UNREACHABLE (silent for a heartbeat), LOST (removed).
    reason : str
        Why it is not ready, or how it was lost.
    cordon : str
        ``cordoned`` where it is given nothing new, ``drained`` where its groups go elsewhere, too; empty otherwise.
    metrics : mapping of str to float
        Load of its machine, shares from 0 to 1: processCPU, systemCPU, memoryUsage; and loadAverage.
    memory_used, memory_limit : int
        Bytes that its processes use, and may use; 0 where it does not measure them.
    """

    id: str
    url: str
    receiver: bool
    leaving: bool
    silent_ms: int
    groups: tuple[tuple[str, str], ...]
    state: str = "READY"
    reason: str = ""
    cordon: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    memory_used: int = 0
    memory_limit: int = 0

    @property
    def told(self) -> str:
        """Its state in words."""
        return f"{self.cordon}, {self._state}" if self.cordon else self._state

    @property
    def _state(self) -> str:
        heard = f"heard {self.silent_ms / 1000:.1f} s ago"
        words = {"READY": f"READY, {heard}", "LEAVING": "LEAVING", "UNREACHABLE": f"UNREACHABLE, {heard}"}
        return words.get(self.state) or f"{self.state}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ClusterStatus(Shown):
    """A cluster at one moment, as its leader of `term` saw it."""

    group_id: str
    leader: str
    term: int
    managers: tuple[ManagerStatus, ...]
    workers: tuple[WorkerStatus, ...]
    apps: tuple[AppStatus, ...]
    #: those that were removed lately and have not come back, with what they had
    lost: tuple[WorkerStatus, ...] = ()
    #: what carries the topics of its apps: ``log``, ``kafka`` or ``nats``
    transport: str = "log"

    @classmethod
    def from_view(cls, view: Mapping[str, Any]) -> ClusterStatus:
        """Read what ``GET /managers/status`` answers."""
        workers = tuple(
            WorkerStatus(
                id=w["id"],
                url=w["url"],
                receiver=w["receiver"],
                leaving=w["leaving"],
                silent_ms=w["silentMs"],
                groups=tuple((g["name"], g["state"]) for g in w["groups"]),
                state=w["state"],
                reason=w["reason"],
                cordon="drained" if w["drained"] else "cordoned" if w["cordoned"] else "",
                metrics=w["metrics"],
                memory_used=(w["memory"] or _UNMEASURED)["usedBytes"],
                memory_limit=(w["memory"] or _UNMEASURED)["limitBytes"],
            )
            for w in view["workers"]
        )
        lost = tuple(
            WorkerStatus(
                w["id"],
                w["url"],
                receiver=False,
                leaving=False,
                silent_ms=w["lostForMs"],
                groups=tuple((name, "LOST") for name in w["groups"]),
                state="LOST",
                reason=w["reason"],
            )
            for w in view["lostWorkers"]
        )
        managers = tuple(ManagerStatus(m["id"], m["url"], m["leads"]) for m in view["managers"])
        apps = tuple(AppStatus.from_view(app) for app in view["apps"])
        return cls(view["groupId"], view["leader"], view["term"], managers, workers, apps, lost, view["transport"])

    def __repr__(self) -> str:
        counts = ((self.managers, "manager"), (self.workers, "worker"), (self.lost, "lost worker"), (self.apps, "app"))
        told = ", ".join(number_of(len(there), word) for there, word in counts if there)
        return f"ClusterStatus({self.group_id}: {self.leader} leads in term {self.term}; {told})"

    def __str__(self) -> str:
        title = f"cluster {self.group_id}: {self.leader} leads in term {self.term}"
        return "\n".join(
            [
                table_text(_NODE_HEAD, self._node_rows(), title=title),
                table_text(_GROUP_HEAD, _group_rows(self.apps), title="apps"),
            ]
        )

    def _repr_html_(self) -> str:
        title = f"Cluster {self.group_id}: {self.leader} leads in term {self.term}"
        return table_html(_NODE_HEAD, self._node_rows(), caption=title) + table_html(
            _GROUP_HEAD, _group_rows(self.apps), caption="Apps"
        )

    def _node_rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [
            (m.id, "manager", "leads" if m.leads else "stands by", m.url, "") for m in self.managers
        ]
        rows += [
            (
                w.id,
                "receiver" if w.receiver else "worker",
                w.told,
                w.url,
                ", ".join(name for name, _ in w.groups),
            )
            for w in (*self.workers, *self.lost)
        ]
        return rows


_UNMEASURED = {"usedBytes": 0, "limitBytes": 0}
_NODE_HEAD = ("node", "role", "state", "address", "groups")
_GROUP_HEAD = ("app", "group instance", "state", "worker", "events in", "events out", "lag", "reason")
_FIGURES = ("eventsIn", "eventsOut", "lag")


def _group_rows(apps: Iterable[AppStatus]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for app in apps:
        rows += [(app.name, g.name, g.state, g.worker or "-", *_figures(g), g.reason) for g in app.groups]
        if not app.groups:
            rows.append((app.name, "", app.state, "-", *[None] * len(_FIGURES), app.reason))
    return rows


def _figures(group: GroupStatus) -> list[int | None]:
    return [int(group.metrics[name]) if name in group.metrics else None for name in _FIGURES]
