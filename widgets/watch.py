"""What panels know of a cluster: one watch for each, whatever shows it; its answers, and the history behind them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from spdist.errors import ClusterError, NotFoundError
from widgets.poller import Inquiry, Poller
from widgets.trends import Figures, Trends

if TYPE_CHECKING:
    from spdist.cluster.client import ClusterClient
    from spdist.cluster.local import LocalCluster
    from spdist.cluster.overview import AppStatus, ClusterStatus

__all__ = ["Cluster", "ClusterView", "ClusterWatch", "watch_of"]

Json = dict[str, Any]
Cluster: TypeAlias = "ClusterClient | LocalCluster"

_JOURNAL_EVERY_S = 5.0
_REVISIONS_EVERY_S = 10.0


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
    """

    status: ClusterStatus
    at_s: float
    figures: Mapping[str, Figures]


class ClusterWatch:
    """Asks a cluster for all panels that show it.

    Parameters
    ----------
    client : ClusterClient
        Over whose connections it asks, once each: who leads next is seen with the next look.

    State
    -----
    The poller's answers, and the history of the figures.
    """

    def __init__(self, client: ClusterClient) -> None:
        self._client = client.with_patience(0.0)
        self.poller = Poller()
        self._trends = Trends()
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

    def app(self, name: str) -> AppStatus:
        """Return how an app is doing; NotFoundError where none of that name is deployed."""
        found = next((app for app in self.status().status.apps if app.name == name), None)
        if found is None:
            raise NotFoundError(f"no app {name} is deployed")
        return found

    def topology(self, app: str, version: int | None = None) -> Json:
        """Return ``GET /managers/topology/{app}`` of a version of the app, of any that was there if that is None."""
        return self._of_version("topology", app, version, lambda: self._client.deployment(app).topology())

    def text(self, app: str, version: int) -> str:
        """Return the text of a version of an app."""

        def ask() -> Json:
            return {"text": self._client.deployment(app).text(), "version": version}

        return str(self._of_version("text", app, version, ask)["text"])

    def revisions(self, app: str) -> list[str]:
        """Return the revisions of an app, oldest first."""
        return self.poller.answer(
            Inquiry(("revisions", app), lambda: self._client.deployment(app).revisions(), _REVISIONS_EVERY_S)
        )

    def journal(self, limit: int, **wanted: Any) -> Sequence[Mapping[str, Any]]:
        """Return the last entries of the journal, newest first; see `ClusterClient.journal`."""
        key = ("journal", limit, *sorted(wanted.items()))
        return self.poller.answer(Inquiry(key, lambda: self._client.journal(limit=limit, **wanted), _JOURNAL_EVERY_S))

    def _of_version(self, what: str, app: str, version: int | None, ask: Any) -> Json:
        """Return an answer that does not change as long as the app has the version that it names."""
        answer: Json = self.poller.answer(Inquiry((what, app), ask, math.inf), math.inf)
        if version is not None and answer["version"] != version:
            answer = self.poller.answer(Inquiry((what, app), ask))
        return answer

    def _look(self) -> ClusterView:
        status, now_s = self._client.status(), time.monotonic()
        with self._noting:
            self._trends.note(status, now_s)
            return ClusterView(status, now_s, self._trends.figures(now_s))


_LOCK = threading.Lock()
_WATCHES: WeakKeyDictionary[Any, ClusterWatch] = WeakKeyDictionary()


def watch_of(cluster: Cluster) -> ClusterWatch:
    """Return the watch of a cluster, or of its client: the same one for both.

    Raises
    ------
    ClusterError
        It is a `LocalCluster` that was never started.
    """
    client: Any = getattr(cluster, "client", cluster)
    if not hasattr(client, "with_patience"):
        raise ClusterError(f"{cluster!r} cannot be asked", hint="start it first")
    with _LOCK:
        if client not in _WATCHES:
            _WATCHES[client] = ClusterWatch(client)
        return _WATCHES[client]
