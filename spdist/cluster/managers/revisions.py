"""Revisions of a whole app: the leader has the workers keep, list or go back to the state of each of its groups.

A revision of all groups is one moment: each group's part is taken after those of all groups that read of it. So none
has heard of what another one's part does not know (`spdist.runtime.persistence`). Going back is the other way round:
each group is told what those before it had put out after the revision, and passes over that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait

from spdist.cluster.leader.state import ManagerState
from spdist.cluster.leader.status import deployment_status, deployment_statuses
from spdist.cluster.managers.orders import Kind, OrderBook
from spdist.cluster.managers.slots import CallerSlots
from spdist.cluster.protocol.messages import Announce
from spdist.cluster.protocol.wire import OutcomeMessage
from spdist.cluster.security.access import CALLER
from spdist.errors import ClusterError, ErrorKind, NotFoundError, SpdistError
from spdist.planning.levels import levels
from spdist.transports.retracted import Undone

__all__ = ["AppRevisions", "Hosts", "revision_hosts", "revision_name"]

_log = logging.getLogger("spdist.cluster.manager")

#: For each group instance the worker that is to see to it; instances in levels, see `spdist.planning.levels`.
Hosts = Sequence[Mapping[str, str]]

#: How long the parts of a revision that failed are waited for to be deleted, s.
_DELETE_S = 10.0


def revision_name(app: str, at_ms: int) -> str:
    """Return WSO2's name of a revision: ``<millis>__<app>``."""
    return f"{at_ms}__{app}"


def revision_hosts(state: ManagerState, app: str | None, now_ms: int) -> Hosts:
    """Return for each group instance of `app`, or of all apps, its worker, or any while it waits for one; in levels.

    Raises
    ------
    NotFoundError
        The app is not deployed.
    ClusterError
        No worker has joined.
    """
    statuses = deployment_statuses(state, now_ms) if app is None else (deployment_status(state, app, now_ms),)
    workers = [member.report.id for member in state.members if not member.report.leaving]
    hosts: list[dict[str, str]] = []
    for status in statuses:
        if status.groups and not workers:
            raise ClusterError(
                f"no worker has joined that could see to the state of {status.name}", code=ErrorKind.NO_WORKERS
            )
        known = {group.app_name: group.worker or workers[0] for group in status.groups}
        order = levels(state.deployments.by_name[status.name].assignments)
        hosts += [{name: known[name] for name in level if name in known} for level in order]
    return hosts


class AppRevisions:
    """Gives the orders and waits for their outcomes.

    A revision of an app has one name in all its group instances. It counts as kept when all of them have it.

    Parameters
    ----------
    book : OrderBook
        Where orders are given.
    timeout_s : float
        How long the workers may take for all groups: each finishes its batch before it goes back.
    note : callable
        Is told what was done.
    most : int
        How many requests may wait for workers; each keeps a thread waiting. More are refused (`ErrorKind.BUSY`).
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
        self._slots = CallerSlots(most, "requests about revisions")

    def backup(self, app: str, hosts: Hosts, at_ms: int) -> str:
        """Have the state of all groups of `app` kept as of one moment, and return the name of the revision.

        Where it fails, nothing is kept.

        Parameters
        ----------
        app : str
            The app.
        hosts : Hosts
            Its group instances and their workers.
        at_ms : int
            Now, ms since epoch.

        Raises
        ------
        StateError
            A group has no state yet, or it cannot be kept.
        ClusterError
            A worker did not report in time.
        """
        revision, deadline_s = revision_name(app, at_ms), self._deadline_s()
        asked: dict[str, str] = {}
        # For all levels: whoever asks between two of them must not get in the way of the rest.
        with self._slots:
            try:
                # Readers first, so that no part has heard of what the parts of its producers do not know
                for level in reversed(hosts):
                    # Before the order: where it fails, some groups of this level may have kept their part
                    asked |= level
                    self._order("backup", level, deadline_s, revision)
            except SpdistError:
                self._delete(asked, revision)
                raise
        self._say("app-backed-up", app, f"revision {revision} is kept")
        return revision

    def revisions(self, hosts: Hosts) -> list[str]:
        """Return the revisions that all groups have, oldest first; raises as `backup` does."""
        with self._slots:
            return self._kept(hosts)

    def _kept(self, hosts: Hosts) -> list[str]:
        outcomes = self._order("revisions", _all(hosts), self._deadline_s())
        kept = [outcome.revisions for outcome in outcomes.values()]
        # A name that only some have is no moment of the whole app, such as what a failed backup has left
        return [name for name in kept[0] if all(name in names for names in kept)] if kept else []

    def restore(self, app: str, hosts: Hosts, revision: str) -> None:
        """Have all groups of `app` go back to `revision`.

        Raises
        ------
        NotFoundError
            Not all of them have it; nothing was changed.
        StateError, ClusterError
            As `backup` does. Groups that went back already stay there: go back once more.
        """
        with self._slots:
            # Not `revisions`, which would take a second slot
            known = self._kept(hosts)
            if revision not in known:
                hint = f"its revisions: {', '.join(known) or 'none'}"
                raise NotFoundError(f"{app} has no revision {revision}", hint=hint)
            deadline_s, undone = self._deadline_s(), list[Undone]()
            for level in hosts:
                outcomes = self._order("restore", level, deadline_s, revision, undone)
                # Levels further on read what these have put out, so their orders say what to pass over
                undone += [one for outcome in outcomes.values() for one in outcome.undone]
        self._say("app-restored", app, f"{app} goes on from revision {revision}")

    def clear(self, app: str | None, hosts: Hosts, *, restart: bool) -> list[str]:
        """Have all revisions of `app`, or of all apps, deleted, and return the names of those that were there.

        What runs goes on from its present state, which is none of them.

        Parameters
        ----------
        app : str, optional
            The app.
        hosts : Hosts
            Its group instances, or all.
        restart : bool
            Whether each is stopped before and started again afterwards.

        Raises
        ------
        StateError, ClusterError
            As `backup` does. What is deleted already stays so: clear once more.
        """
        with self._slots:
            outcomes = self._order("clear-stopped" if restart else "clear", _all(hosts), self._deadline_s())
        found = {name for outcome in outcomes.values() for name in outcome.revisions}
        names = sorted(found, key=lambda name: (int(name.partition("__")[0]), name))
        self._say("app-revisions-deleted", app or "", f"revisions are deleted: {', '.join(names) or 'there were none'}")
        return names

    def _say(self, kind: str, app: str, message: str) -> None:
        _log.info("%s", message)
        self._note(Announce(kind, app, message, app=app, user=CALLER.get()))

    def _delete(self, hosts: Mapping[str, str], revision: str) -> None:
        """Delete what is kept of a revision that failed; a worker that does not answer keeps its part, unlisted."""
        try:
            self._order("delete", hosts, time.monotonic() + _DELETE_S, revision)
        except SpdistError as error:
            _log.warning("parts of revision %s, which failed, may be left: %s", revision, error.message)

    def _deadline_s(self) -> float:
        return time.monotonic() + self._timeout_s

    def _order(
        self, kind: Kind, hosts: Mapping[str, str], deadline_s: float, revision: str = "", undone: Sequence[Undone] = ()
    ) -> dict[str, OutcomeMessage]:
        given = {
            instance: self._book.give(worker, kind, instance, revision, undone) for instance, worker in hosts.items()
        }
        late = wait(given.values(), timeout=max(0.0, deadline_s - time.monotonic())).not_done
        if late:
            self._book.take_back(late)
            slow = ", ".join(f"{instance} ({hosts[instance]})" for instance, one in given.items() if one in late)
            raise ClusterError(
                f"{kind} was not reported within {self._timeout_s:g} s for {slow}",
                hint="if a worker has gone, its groups move in a moment; then try again",
            )
        return {instance: outcome.result() for instance, outcome in given.items()}


def _all(hosts: Hosts) -> dict[str, str]:
    return {instance: worker for level in hosts for instance, worker in level.items()}
