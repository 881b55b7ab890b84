"""A server's part in its group: servers of type ``ha`` with one ``groupId`` elect the one that runs the apps.

It is the election of managers, in the same table (`spdist.cluster.elections.election`), with another holder of the
lease.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from spdist.clock import Clock
from spdist.cluster.coordination.store import open_store
from spdist.cluster.elections.candidate import Candidate
from spdist.cluster.elections.election import ElectionTiming
from spdist.cluster.elections.leadership import Leadership
from spdist.config import Config
from spdist.errors import StoreUnavailableError

__all__ = ["ServerGroup"]


class ServerGroup:
    """The election among the servers of a group.

    Parameters
    ----------
    config : Config
        Of a server of type ``ha``.
    leadership : Leadership
        Is told who is the active one.
    clock : Clock
        Its steady reading only.

    Raises
    ------
    ConfigError
        The database cannot be used; nothing was opened.
    """

    def __init__(self, config: Config, leadership: Leadership, clock: Clock) -> None:
        self.id = config.cluster.group_id
        self._node = config.carbon.id
        self._leadership = leadership
        self._clock = clock
        self._timing = ElectionTiming(config.cluster.heartbeat_interval_ms, config.cluster.heartbeat_max_retry)
        source = config.datasources[config.cluster.datasource]
        self._store = open_store(source, self.id, self._timing.round_ms)
        self._candidate: Candidate | None = None

    def join(self, url: str, load: Callable[[], None]) -> None:
        """Take part from now on; the database may still be away.

        Parameters
        ----------
        url : str
            Where this server is reached.
        load : callable
            Sees to it that all apps are known, before this server runs them; what it raises gives the term up.

        Raises
        ------
        ClusterError
            The tables of the database cannot be used.
        """
        with contextlib.suppress(StoreUnavailableError):  # the candidate goes on trying
            self._store.prepare()

        def loaded(term: int) -> tuple[tuple[()], None, dict[str, bool]]:
            load()
            return (), None, {}

        self._candidate = Candidate(self._store, self._leadership, self._node, url, self._clock, self._timing, loaded)
        self._candidate.start()

    def check(self) -> None:
        """Raise the ClusterError by which this server can take part no longer, if there is one."""
        if self._candidate is not None and self._candidate.failure is not None:
            raise self._candidate.failure

    def leave(self) -> None:
        """Take part no longer, and let another server take over; nothing runs here any more. May be called twice."""
        candidate, self._candidate = self._candidate, None
        if candidate is not None:
            candidate.stop()
            # Before it is handed back: another server may begin at that moment
            self._leadership.end()
            candidate.resign()

    def close(self) -> None:
        """Let go of the database."""
        self._store.close()
