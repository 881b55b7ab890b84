"""Revisions that are taken from time to time while a group runs (``state.persistence.intervalInMin``).

Each group takes its own. One of the whole app, which is one moment, is what the leader has them keep.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from spdist.config.datasources import Datasource
from spdist.config.sections import StatePersistence
from spdist.errors import SpdistError
from spdist.planning.topology import Assignment
from spdist.runtime.persistence import PersistenceStore, open_persistence

__all__ = ["PeriodicRevisions", "RevisionSections", "periodic_revisions"]

log = logging.getLogger(__name__)


class RevisionSections(Protocol):
    """What a node's settings say of revisions."""

    @property
    def state_persistence(self) -> StatePersistence:
        """Where and how often they are kept."""
        ...

    @property
    def datasources(self) -> Mapping[str, Datasource]:
        """The databases that may be meant."""
        ...


def periodic_revisions(settings: RevisionSections, assignments: Sequence[Assignment]) -> PeriodicRevisions:
    """Return what keeps revisions of some group instances, as ``state.persistence`` says: none unless `enabled`.

    Raises
    ------
    ConfigError
        The store that is named there cannot be used.
    """
    chosen = settings.state_persistence
    store = open_persistence(chosen, settings.datasources) if chosen.enabled else None
    return PeriodicRevisions(store, [(one.name, one.app) for one in assignments], chosen.interval_min * 60.0)


class PeriodicRevisions:
    """Keeps a revision of some group instances at regular intervals, in a thread of its own.

    Parameters
    ----------
    store : PersistenceStore or None
        Where revisions are kept; None: nothing is done.
    instances : sequence of (instance, app)
        What is kept.
    interval_s : float
        How long to wait between two revisions.
    now_ms : Callable, optional
        The clock, for names of revisions: ms since epoch.
    """

    def __init__(
        self,
        store: PersistenceStore | None,
        instances: Sequence[tuple[str, str]],
        interval_s: float,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._store = store
        self._instances = instances
        self._interval_s = interval_s
        self._now_ms = now_ms
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin; the first revision is taken one interval from now."""
        if self._store is None:
            return
        names = ", ".join(instance for instance, _ in self._instances)
        self._thread = threading.Thread(target=self._run, name=f"revisions of {names}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Take no more; a revision that is being taken is finished in the background."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            self.take()

    def take(self) -> None:
        """Take a revision of each instance now; what cannot be kept is told, and tried again next time."""
        store = self._store
        for instance, app in self._instances if store is not None else ():
            assert store is not None
            revision = f"{self._now_ms()}__{app}"
            try:
                store.save(instance, revision)
            except SpdistError as error:
                log.warning("revision %s of %s: %s", revision, instance, error.message)
            except Exception:  # it would end the thread, and with it all revisions to come
                log.exception("revision %s of %s", revision, instance)
