"""Revisions of a whole app: the leader has the workers keep, list or go back to the state of each of its groups."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import wait

from spdist.cluster.access import CALLER
from spdist.cluster.messages import Announce
from spdist.cluster.orders import Kind, OrderBook
from spdist.cluster.slots import Slots
from spdist.cluster.state import ManagerState
from spdist.cluster.status import deployment_status, deployment_statuses
from spdist.errors import ClusterError, NotFoundError, NoWorkersError

__all__ = ["AppRevisions", "revision_hosts", "revision_name"]

_log = logging.getLogger("spdist.cluster.manager")


def revision_name(app: str, at_ms: int) -> str:
    """Return WSO2's name of a revision: ``<millis>__<app>``."""
    return f"{at_ms}__{app}"


def revision_hosts(state: ManagerState, app: str | None, now_ms: int) -> dict[str, str]:
    """Return for each group instance of `app`, or of all apps, its worker, or any while it waits for one.

    Raises
    ------
    NotFoundError
        The app is not deployed.
    NoWorkersError
        No worker has joined.
    """
    known = deployment_statuses(state, now_ms) if app is None else (deployment_status(state, app, now_ms),)
    groups = [group for one in known for group in one.groups]
    workers = [member.report.id for member in state.members if not member.report.leaving]
    if groups and not workers:
        raise NoWorkersError(f"no worker has joined that could see to the state of {app or 'the apps'}")
    return {group.app_name: group.worker or workers[0] for group in groups}


class AppRevisions:
    """Gives the orders and waits for their outcomes.

    A revision of an app has one name in all its group instances. It counts as kept when all of them have it.

    Parameters
    ----------
    book : OrderBook
        Where orders are given.
    timeout_s : float
        How long the workers may take: a group finishes its batch before it goes back.
    note : callable
        Is told what was done.
    most : int
        How many requests may wait for workers; each keeps a thread waiting. More are refused with a BusyError.
    """

    def __init__(
        self,
        book: OrderBook,
        timeout_s: float = 90.0,
        note: Callable[[Announce], None] = lambda said: None,
        most: int = 8,
    ) -> None:
        self._note = note
        self._book = book
        self._timeout_s = timeout_s
        self._slots = Slots(most, "requests about revisions")

    def backup(self, app: str, hosts: Mapping[str, str], at_ms: int) -> str:
        """Have the state of all groups of `app` kept, and return the name of the revision.

        Parameters
        ----------
        app : str
            The app.
        hosts : mapping of str to str
            For each of its group instances the worker that is to do it.
        at_ms : int
            Now, ms since epoch.

        Raises
        ------
        StateError
            A group has no state yet, or it cannot be kept.
        ClusterError
            A worker did not report in time.
        """
        revision = revision_name(app, at_ms)
        self._order("backup", hosts, revision)
        message = f"revision {revision} is kept"
        _log.info("%s", message)
        self._note(Announce("app-backed-up", app, message, app=app, user=CALLER.get()))
        return revision

    def revisions(self, hosts: Mapping[str, str]) -> list[str]:
        """Return the revisions that all groups have, oldest first; raises as `backup` does."""
        kept = list(self._order("revisions", hosts).values())
        return [name for name in kept[0] if all(name in names for names in kept)] if kept else []

    def restore(self, app: str, hosts: Mapping[str, str], revision: str) -> None:
        """Have all groups of `app` go back to `revision`.

        Raises
        ------
        NotFoundError
            Not all of them have it; nothing was changed.
        StateError, ClusterError
            As `backup` does. Groups that went back already stay there: go back once more.
        """
        known = self.revisions(hosts)
        if revision not in known:
            hint = f"its revisions: {', '.join(known) or 'none'}"
            raise NotFoundError(f"{app} has no revision {revision}", hint=hint)
        self._order("restore", hosts, revision)
        message = f"{app} goes on from revision {revision}"
        _log.info("%s", message)
        self._note(Announce("app-restored", app, message, app=app, user=CALLER.get()))

    def clear(self, app: str | None, hosts: Mapping[str, str], *, restart: bool) -> list[str]:
        """Have all revisions of `app`, or of all apps, deleted, and return the names of those that were there.

        What runs goes on from its present state, which is none of them.

        Parameters
        ----------
        app : str, optional
            The app.
        hosts : mapping of str to str
            For each of the group instances the worker that is to do it.
        restart : bool
            Whether each is stopped before and started again afterwards.

        Raises
        ------
        StateError, ClusterError
            As `backup` does. What is deleted already stays so: clear once more.
        """
        gone = self._order("clear-stopped" if restart else "clear", hosts).values()
        names = sorted({name for one in gone for name in one}, key=lambda name: (int(name.partition("__")[0]), name))
        message = f"revisions are deleted: {', '.join(names) or 'there were none'}"
        _log.info("%s", message)
        self._note(Announce("app-revisions-deleted", app or "", message, app=app or "", user=CALLER.get()))
        return names

    def _order(self, kind: Kind, hosts: Mapping[str, str], revision: str = "") -> dict[str, list[str]]:
        with self._slots:
            given = {instance: self._book.give(worker, kind, instance, revision) for instance, worker in hosts.items()}
            late = wait(given.values(), timeout=self._timeout_s).not_done
        if late:
            self._book.take_back(late)
            slow = ", ".join(f"{instance} ({hosts[instance]})" for instance, one in given.items() if one in late)
            raise ClusterError(
                f"{kind} was not reported within {self._timeout_s:g} s for {slow}",
                hint="if a worker has gone, its groups move in a moment; then try again",
            )
        return {instance: outcome.result() for instance, outcome in given.items()}
