"""What a manager would have to run if it led: the stored apps, planned before it takes over.

Planning takes from milliseconds to seconds for each app, and the first one also what the planner itself needs to load.
A manager that began with that when it is elected would lead too late for the workers: they stop their groups when they
have found no leader in time (`spdist.cluster.elections.timing`). So it plans what is new in the database whenever it
looks, and a take-over finds everything done.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Protocol

from spdist.cluster.coordination.store import StoredDeployment
from spdist.cluster.managers.plans import Plans
from spdist.cluster.protocol.messages import AppVersion
from spdist.errors import ClusterError

__all__ = ["Foresight", "StoredApps"]

_log = logging.getLogger("spdist.cluster.manager")


class StoredApps(Protocol):
    """What it needs of the database; `spdist.cluster.coordination.store.CoordinationStore` has it."""

    def versions(self) -> Mapping[str, int]:
        """Return the version of each stored app."""
        ...

    def deployments(self) -> tuple[StoredDeployment, ...]:
        """Return all stored apps."""
        ...


class Foresight:
    """Plans stored apps ahead, in a thread of its own.

    Parameters
    ----------
    store : StoredApps
        The database.
    plans : Plans
        Who plans.
    polling_ms : int
        ``eventPollingInterval``: how often it looks for new versions.

    State
    -----
    The plans of all stored apps: O(apps).
    """

    def __init__(self, store: StoredApps, plans: Plans, polling_ms: int) -> None:
        self._store = store
        self._plans = plans
        self._polling_ms = polling_ms
        self._known: dict[str, tuple[StoredDeployment, AppVersion]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spdist-foresight", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no longer."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def deployments(self) -> tuple[AppVersion, ...]:
        """Read all stored apps and return them planned; only what is new since the last look takes time."""
        # A new dictionary, put in place as a whole: a takeover may call this next to the thread that looks
        known = {row.name: (row, self._planned(row)) for row in self._store.deployments()}
        self._known = known
        return tuple(planned for _, planned in known.values())

    def written_ms(self) -> dict[str, int]:
        """Return when each app was last deployed or updated, as of the last look: ms since epoch."""
        return {name: row.updated_ms for name, (row, _) in self._known.items()}

    def _planned(self, row: StoredDeployment) -> AppVersion:
        before, planned = self._known.get(row.name, (None, None))
        if planned is not None and before == row:
            return planned
        return self._plans.restored(row.name, row.text, row.version, row.desired, row.origins)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if self._store.versions() != {name: row.version for name, (row, _) in self._known.items()}:
                    self.deployments()
            except ClusterError as error:
                _log.debug("what is new in the database is not known: %s", error.message)
            except Exception:
                _log.exception("planning ahead failed; this is a defect")
            self._stop.wait(self._polling_ms / 1000)
