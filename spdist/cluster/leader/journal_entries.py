"""What a leader says has happened to leaders, apps and workers: the sentences, and what each is about. Pure.

What happens to groups is said where it is decided: `spdist.cluster.leader.observing` and
`spdist.cluster.leader.reconcile`.
"""

from __future__ import annotations

from dataclasses import dataclass

from spdist.cluster.protocol.messages import Announce, AppVersion, Desired, Level, WorkerReport

__all__ = ["JournalEntry", "Rejections", "changed", "deposed", "elected", "gone", "joined", "ready", "restarted"]

#: Workers of which it is remembered that they were turned away.
_MOST_REJECTED = 1000


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """Something that has happened in the cluster, as the journal keeps it; texts are empty where they do not apply.

    Parameters
    ----------
    id : int
        Grows from entry to entry.
    time : int
        When it happened: ms since epoch, the database's clock.
    term : int, optional
        Of the leader.
    node : str
        The manager that has written it.
    kind, app, group, worker, user, reason, level, message : str
        As in `Announce`, where `kind` is called ``event``.
    """

    id: int
    time: int
    term: int | None
    node: str
    kind: str
    app: str
    group: str
    worker: str
    user: str
    reason: str
    level: str
    message: str


def elected(node_id: str, term: int, deployments: int) -> Announce:
    """Return that a manager leads from now on."""
    return Announce("elected", node_id, f"manager {node_id} leads in term {term} with {deployments} deployments")


def deposed(node_id: str, term: int, reason: str) -> Announce:
    """Return that a manager leads no longer."""
    text = f"manager {node_id} no longer leads in term {term}: {reason}"
    return Announce("deposed", node_id, text, Level.WARNING, reason=reason)


def changed(saved: AppVersion, before: AppVersion | None, user: str) -> Announce:
    """Return that a user has deployed, updated or undeployed an app; `before` is what was running of it."""
    what = "undeployed" if saved.desired is Desired.REMOVED else "updated" if before else "deployed"
    text = f"{saved.name} is {what} (version {saved.version}, {len(saved.assignments)} groups)"
    return Announce(f"app-{what}", saved.name, text, app=saved.name, user=user)


def joined(report: WorkerReport) -> Announce:
    """Return that a worker has joined."""
    kind = "receiver" if report.is_receiver else "worker"
    return Announce("worker-joined", report.id, f"{kind} {report.id} joined from {report.url}", worker=report.id)


def restarted(id: str) -> Announce:
    """Return that a worker is another process than before."""
    return Announce("worker-restarted", id, f"worker {id} was restarted", Level.WARNING, worker=id)


def ready(id: str) -> Announce:
    """Return that a worker's Spark is up."""
    return Announce("worker-ready", id, f"worker {id} is ready", worker=id)


class Rejections:
    """Says why workers are turned away; once, not with each of their heartbeats.

    State
    -----
    The last objection to each of `_MOST_REJECTED` workers.
    """

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def say(self, id: str, objection: str) -> list[Announce]:
        """Return that a worker was turned away, if that is news."""
        if self._said.get(id) == objection:
            return []
        if len(self._said) >= _MOST_REJECTED:
            self._said.clear()
        self._said[id] = objection
        return [Announce("worker-rejected", id, objection, Level.WARNING, worker=id, reason=objection)]


def gone(id: str, why: str, orphans: int) -> Announce:
    """Return that a worker has left, or was lost for another reason; its `orphans` groups go elsewhere."""
    text = f"worker {id} {why}; {orphans} groups go elsewhere"
    if why == "left":
        return Announce("worker-left", id, text, worker=id)
    return Announce("worker-lost", id, text, Level.WARNING, worker=id, reason=why)
