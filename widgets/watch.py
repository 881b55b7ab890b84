"""What panels know of a cluster: one watch for each, whatever shows it; its answers, and the history behind them."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from spdist.cluster.clients import requests
from spdist.errors import ClusterError, NotFoundError
from spdist.panels.absent import Absent, Attendance
from spdist.panels.poller import Inquiry, Poller
from spdist.panels.trends import Figures, Trends

if TYPE_CHECKING:
    from spdist.cluster.clients.asking import Request
    from spdist.cluster.clients.client import ClusterClient
    from spdist.cluster.clients.overview import AppStatus, ClusterStatus
    from spdist.cluster.processes.local import LocalCluster

__all__ = ["Cluster", "ClusterView", "ClusterWatch", "watch_of"]

T = TypeVar("T")
Json = dict[str, Any]
Cluster: TypeAlias = "ClusterClient | LocalCluster"

#: For each wait on the network; a machine may be busy.
_TIMEOUT_S = 3.0
_JOURNAL_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster at one moment, and what came before it.

    Parameters
    ----------
    status : ClusterStatus
        Nodes and apps.
    at_s : float
        When it was asked for (monotonic clock, s).
    figures : mapping of str to Figures
        The last ten minutes of each group instance.
    absent : tuple of Absent
        Nodes that were there in the last ten minutes, and that the leader does not know.
    """

    status: ClusterStatus
    at_s: float
    figures: Mapping[str, Figures]
    absent: tuple[Absent, ...] = ()

    def app(self, name: str) -> AppStatus:
        """Return how an app is doing; NotFoundError where none of that name is deployed."""
        found = next((app for app in self.status.apps if app.name == name), None)
        if found is None:
            raise NotFoundError(f"no app {name} is deployed")
        return found


class ClusterWatch:
    """Asks a cluster for all panels that show it.

    Parameters
    ----------
    client : ClusterClient
        Whom to ask; who has no client any more has no watch either.

    State
    -----
    The poller's answers, the history of the figures, and who was there lately.
    """

    def __init__(self, client: ClusterClient) -> None:
        # Weak: `_WATCHES` has this watch for as long as the client lives, which it must not keep alive.
        self._client = weakref.ref(client)
        self.poller = Poller()
        self._trends, self._attendance = Trends(), Attendance()
        self._noting = threading.Lock()

    def status(self, max_age_s: float = 0.0) -> ClusterView:
        """Return nodes and apps; as for all that follows, see `Poller.answer` for how old it may be.

        Raises
        ------
        Awaited
            It is not known yet.
        SpdistError
            Why it is not known.
        """
        return self.poller.answer(Inquiry("status", self._look), max_age_s)

    def topology(self, app: str, version: int | None = None) -> Json:
        """Return ``GET /managers/topology/{app}`` of a version of the app, of any that was there if that is None."""
        key, request = ("topology", app), requests.topology(app)
        drawn = self._answer(key, request, math.inf, math.inf)
        return drawn if version in (None, drawn["version"]) else self._answer(key, request, 0.0)

    def text(self, app: str, version: int) -> str:
        """Return the text of a version of an app: the one that runs now."""
        return self._answer(("text", app, version), requests.app_text(app), math.inf, math.inf)

    def journal(self, limit: int, **wanted: Any) -> Sequence[Mapping[str, Any]]:
        """Return the last entries of the journal, newest first; see `ClusterClient.journal`."""
        key = ("journal", limit, *sorted(wanted.items()))
        return self._answer(key, requests.journal(limit, **wanted), _JOURNAL_EVERY_S)

    def _answer(self, key: Hashable, request: Request[T], every_s: float, max_age_s: float = 0.0) -> T:
        return self.poller.answer(Inquiry(key, lambda: self._ask(request), every_s), max_age_s)

    def _look(self) -> ClusterView:
        status, now_s = self._ask(requests.status()), time.monotonic()
        with self._noting:
            self._trends.note(status, now_s)
            absent = self._attendance.note(status, now_s)
            return ClusterView(status, now_s, self._trends.figures(now_s), absent)

    def _ask(self, request: Request[T]) -> T:
        """Ask each manager once: who leads next is seen with the next look."""
        client = self._client()
        if client is None:
            raise ClusterError("nobody has this client any more", hint="make another panel")
        return client.glance(request, _TIMEOUT_S)


_LOCK = threading.Lock()
_WATCHES: weakref.WeakKeyDictionary[Any, ClusterWatch] = weakref.WeakKeyDictionary()


def watch_of(cluster: Cluster) -> ClusterWatch:
    """Return the watch of a cluster, or of its client: the same one for both.

    Raises
    ------
    ClusterError
        It is a `LocalCluster` that was never started.
    """
    client: Any = getattr(cluster, "client", cluster)
    if not hasattr(client, "glance"):
        raise ClusterError(f"{cluster!r} cannot be asked", hint="start it first")
    with _LOCK:
        if client not in _WATCHES:
            _WATCHES[client] = ClusterWatch(client)
        return _WATCHES[client]
