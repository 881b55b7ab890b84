"""The list of managers that are alive: kept in the database by each of them, told to workers and to people."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from spdist.cluster.coordination.store import ManagerRow
from spdist.errors import ClusterError

__all__ = ["Registry", "RegistryStore"]

_log = logging.getLogger("spdist.cluster.manager")


class RegistryStore(Protocol):
    """What a registry needs of the database; `spdist.cluster.coordination.store.CoordinationStore` has it."""

    def heartbeat_manager(self, node_id: str, url: str) -> None:
        """Note that this manager is alive."""
        ...

    def live_managers(self, max_age_ms: int) -> tuple[ManagerRow, ...]:
        """Return the managers that are alive."""
        ...


class Registry:
    """Registers this manager and learns of the others, in a thread apart from the election: it delays no renewal.

    Parameters
    ----------
    store : RegistryStore
        The database.
    me : ManagerRow
        Id and base URL of this manager.
    polling_ms : int
        ``eventPollingInterval``: how often.
    listed_ms : int
        Others stay on the list for this long after they were last seen.
    """

    def __init__(self, store: RegistryStore, me: ManagerRow, polling_ms: int, listed_ms: int) -> None:
        self._store = store
        self._me = me
        self._polling_ms = polling_ms
        self._listed_ms = listed_ms
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spdist-registry", daemon=True)
        #: as of the last time that the database answered
        self.managers: tuple[ManagerRow, ...] = (me,)

    def start(self) -> None:
        """Begin to register."""
        self._thread.start()

    def stop(self) -> None:
        """Register no longer."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._store.heartbeat_manager(self._me.node_id, self._me.url)
                self.managers = self._store.live_managers(self._listed_ms)
            except ClusterError as error:
                # Who leads is not affected; that the database is away is said by the election.
                _log.debug("the list of managers stays as it is: %s", error.message)
            self._stop.wait(self._polling_ms / 1000)
