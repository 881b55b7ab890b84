"""Which revision of some group instances is the newest, for those who look at them: asked for now and then."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from spdist.errors import SpdistError
from spdist.runtime.periodic import RevisionSections
from spdist.runtime.persistence import PersistenceStore, open_persistence
from spdist.runtime.revision_files import millis_of

__all__ = ["NewestRevision"]

log = logging.getLogger(__name__)


class NewestRevision:
    """Knows the newest revision; looks again in the background where what it knows is old.

    Parameters
    ----------
    settings : RevisionSections
        Of the node: where revisions are.
    instances : sequence of str
        Whose revisions count.
    every_s : float
        How old what it tells may be, s.
    steady : callable, optional
        A clock for that, s.

    State
    -----
    One name.
    """

    def __init__(
        self,
        settings: RevisionSections,
        instances: Sequence[str],
        every_s: float = 10.0,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._instances = instances
        self._every_s = every_s
        self._steady = steady
        self._lock = threading.Lock()
        self._store: PersistenceStore | None = None
        self._known: str | None = None
        self._looked: float | None = None

    def name(self) -> str | None:
        """Return what is known now, and look again if that is old; never waits."""
        with self._lock:
            now = self._steady()
            if self._looked is None or now - self._looked >= self._every_s:
                # As the look begins: else each who asks meanwhile would begin another one
                self._looked = now
                threading.Thread(target=self.find, name="newest revision", daemon=True).start()
            return self._known

    def find(self) -> str | None:
        """Return the newest revision of all instances, None where there is none or nobody can tell."""
        try:
            store = self._store = self._store or open_persistence(
                self._settings.state_persistence, self._settings.datasources
            )
            names = [name for instance in self._instances for name in store.revisions(instance)[-1:]]
        except SpdistError as error:
            log.debug("the revisions of %s are not known: %s", ", ".join(self._instances), error)
        else:
            self._known = max(names, key=millis_of, default=None)
        return self._known
