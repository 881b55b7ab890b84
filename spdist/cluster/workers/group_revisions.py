"""A worker's side of revisions: keeps, lists, restores and deletes the state of single group instances."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from spdist.cluster.managers.revisions import revision_name
from spdist.cluster.protocol.wire import OrderMessage, OutcomeMessage
from spdist.cluster.workers.group_supervisor import GroupSupervisor
from spdist.config import Config
from spdist.transports.base import Transport
from spdist.transports.retracted import Undone

if TYPE_CHECKING:
    from spdist.runtime.revision_files import WentBack

__all__ = ["GroupRevisions", "RevisionStore", "file_store", "open_topics"]


class RevisionStore(Protocol):
    """Where revisions are kept; `spdist.runtime.persistence.FileSystemPersistenceStore` is one."""

    def save(self, instance: str, revision: str) -> None:
        """Keep the present state of a group instance under a name."""
        ...

    def restore(self, instance: str, revision: str, undone: Sequence[Undone] = ()) -> WentBack:
        """Let a group instance, which does not run, go back, and pass over what is undone; return what it undoes."""
        ...

    def delete(self, instance: str, revision: str) -> None:
        """Delete a revision of a group instance, if it is there."""
        ...

    def revisions(self, instance: str) -> list[str]:
        """Return the names of an instance's revisions, oldest first."""
        ...

    def clear(self, instance: str) -> list[str]:
        """Delete all revisions of an instance, and return their names."""
        ...


def file_store(config: Config) -> RevisionStore:
    """Return the store of ``state.persistence``, which all workers see."""
    from spdist.runtime.persistence import open_persistence

    return open_persistence(config.state_persistence, config.datasources)


def open_topics(config: Config) -> Transport:
    """Return the topics between groups."""
    from spdist.transports.opening import open_transport, transport_settings

    return open_transport(transport_settings(config.transports))


class GroupRevisions:
    """What a worker does with revisions, be it ordered by the leader or by an operator at its own interface.

    Parameters
    ----------
    store : RevisionStore
        Where they are kept.
    supervisor : GroupSupervisor
        The groups that run here.
    topics : callable
        Opens the topics between groups.
    """

    def __init__(self, store: RevisionStore, supervisor: GroupSupervisor, topics: Callable[[], Transport]) -> None:
        self._store = store
        self._supervisor = supervisor
        self._topics = topics

    def perform(self, order: OrderMessage) -> OutcomeMessage:
        """Carry out an order; the instance need not be here, since all workers see the state of all groups."""
        known: list[str] = []
        undone: tuple[Undone, ...] = ()
        match order.kind:
            case "backup":
                self._store.save(order.instance, order.revision)
            case "restore":
                undone = self._restore(order.instance, order.revision, order.undone)
            case "delete":
                self._store.delete(order.instance, order.revision)
            case "clear" | "clear-stopped":
                known = self._clear(order.instance, restart=order.kind == "clear-stopped")
            case "revisions":
                known = self._store.revisions(order.instance)
        return OutcomeMessage(id=order.id, revisions=known, undone=list(undone))

    def backup(self, name: str, at_ms: int) -> str:
        """Keep the state of an instance that is here, while it runs, and return the name of the revision.

        Raises
        ------
        NotFoundError
            The instance is not here.
        StateError
            It has no state yet, or cannot be kept.
        """
        revision = revision_name(self._supervisor.group(name).assignment.app, at_ms)
        self._store.save(name, revision)
        return revision

    def revisions(self, name: str) -> list[str]:
        """Return the revisions of an instance that is here, oldest first."""
        self._supervisor.group(name)
        return self._store.revisions(name)

    def restore(self, name: str, revision: str) -> None:
        """Let an instance that is here go back to `revision`; it goes on from there.

        Raises
        ------
        NotFoundError
            The instance is not here, or has no such revision; then nothing was done.
        """
        self._supervisor.group(name)
        self._restore(name, revision)

    def clear(self, name: str, *, restart: bool) -> list[str]:
        """Delete the revisions of an instance that is here, and return their names; `restart`: while it is stopped.

        Raises
        ------
        NotFoundError
            The instance is not here.
        """
        self._supervisor.group(name)
        return self._clear(name, restart=restart)

    def _clear(self, name: str, *, restart: bool) -> list[str]:
        gone: list[str] = []
        if restart:
            self._supervisor.while_stopped(name, lambda: gone.extend(self._store.clear(name)))
        else:
            gone += self._store.clear(name)
        return gone

    def _restore(self, name: str, revision: str, undone: Sequence[Undone] = ()) -> tuple[Undone, ...]:
        """Let an instance go back, and return what readers are to pass over that go back after it."""
        found: list[Undone] = []

        def go_back() -> None:
            went_back = self._store.restore(name, revision, undone)
            # Before the group runs again: its results from then on are not undone
            with contextlib.closing(self._topics()) as topics:
                found.extend(went_back.undone(topics))

        self._supervisor.while_stopped(name, go_back)
        return tuple(found)
