"""The handle of one deployed app, as `ClusterClient.deploy` returns it."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spdist.cluster.clients import requests
from spdist.cluster.clients.calling import LeaderClient
from spdist.cluster.clients.overview import AppStatus
from spdist.display import Shown, headline_html, note_html
from spdist.errors import DeploymentTimeoutError, EngineError, ErrorKind, SpdistError
from spdist.line import Line

if TYPE_CHECKING:
    from spdist.cluster.clients.feeding import RemoteFeed
    from spdist.engine.replay.evidence import Evidence
    from spdist.planning.updates.change import TopologyChange
    from spdist.transports.reading import ReadEvent

__all__ = ["AppClient", "Deployment", "gone", "reached"]

_LOOK_S = 0.2
#: Who waits for less is told nothing.
_SILENT_S = 1.0


class AppClient(LeaderClient, ABC):
    """What a handle asks; `spdist.cluster.clients.client.ClusterClient` says what the methods do."""

    @abstractmethod
    def nodes(self) -> dict[str, Any]:
        """Return leader, term, managers and workers."""

    @abstractmethod
    def feed(self, app: str | Deployment, stream: str, producer: str | None = None) -> RemoteFeed:
        """Return a feed that puts events into a stream."""

    @abstractmethod
    def read(self, app: str | Deployment, stream: str) -> list[ReadEvent]:
        """Return all events of a published stream so far."""

    @abstractmethod
    def tail(self, app: str | Deployment, stream: str, after: str = "", *, follow: bool = False) -> Iterator[ReadEvent]:
        """Yield the events of a published stream."""

    @abstractmethod
    def query(self, app: str | Deployment, text: str) -> list[tuple[Any, ...]]:
        """Put a query on demand and return its rows."""

    @abstractmethod
    def clear_revisions(self, app: str | Deployment | None = None) -> list[str]:
        """Delete the revisions of an app, or of all apps."""


class Deployment(Shown):
    """An app of a cluster. It is only the name and the client: any number of handles may stand for one app.

    Parameters
    ----------
    client : AppClient
        Whom to ask.
    name : str
        The app's name.
    change : TopologyChange, optional
        What became of groups and elements, where this handle comes from an update of a running app.

    State
    -----
    The status that was seen last.
    """

    def __init__(self, client: AppClient, name: str, change: TopologyChange | None = None) -> None:
        self.name = name
        self.change = change
        self._client = client
        self._seen: AppStatus | None = None

    @property
    def client(self) -> AppClient:
        """Whom it asks."""
        return self._client

    def __repr__(self) -> str:
        return f"Deployment({self.name!r})"

    def __str__(self) -> str:
        return self._text_and_html()[0]

    def _repr_html_(self) -> str:
        return self._text_and_html()[1]

    def _text_and_html(self) -> tuple[str, str]:
        status, note = self._glance()
        text, html = (repr(self), headline_html(repr(self))) if status is None else status._text_and_html()
        return (f"{note}\n{text}", note_html(note) + html) if note else (text, html)

    def _glance(self) -> tuple[AppStatus | None, str]:
        """Return how it is doing, or what was seen last and why that is not how it is now."""
        try:
            self._seen = self._client.glance(requests.app_status(self.name))
        except SpdistError as error:
            return self._seen, f"{'as it was last seen: ' if self._seen else ''}{error.message}"
        return self._seen, ""

    def status(self) -> AppStatus:
        """Return how the app and each of its groups are doing now.

        Raises
        ------
        NotFoundError
            It is not deployed.
        """
        self._seen = self._client.do(requests.app_status(self.name))
        return self._seen

    def wait(self, state: str = "RUNNING", timeout_s: float = 60.0, *, quiet: bool = False) -> Deployment:
        """Return this handle when the app is in `state`; tells on one line how far it is, where that takes longer.

        Parameters
        ----------
        state : str
            ``RUNNING``: every group has committed a batch. Also ``WAITING``, ``DEPLOYING``, ``UNREACHABLE``,
            ``FAILED``.
        timeout_s : float
            How long to wait.
        quiet : bool
            Whether to tell nothing meanwhile; in a script it is told on standard error.

        Raises
        ------
        EngineError
            A group has failed twice in a row, or for good, while another state is waited for; says why.
        DeploymentTimeoutError
            Not in time; says what each group was doing.
        """
        began_s, line = time.monotonic(), Line(sys.stderr)
        try:
            while True:
                status, waited_s = self.status(), time.monotonic() - began_s
                if waited_s >= _SILENT_S and not quiet:
                    line.show(f"{waited_s:.0f} s: {status.progress_text()}")
                if reached(status, state, timeout_s, over=waited_s >= timeout_s):
                    return self
                time.sleep(_LOOK_S)
        finally:
            line.end()

    def text(self) -> str:
        """Return the app's SiddhiQL as it was sent."""
        return self._client.do(requests.app_text(self.name))

    def topology(self) -> dict[str, Any]:
        """Return groups, topics, strategies and placement, as ``GET /managers/topology/{app}`` gives them."""
        return self._client.do(requests.topology(self.name))

    def feed(self, stream: str, producer: str | None = None) -> RemoteFeed:
        """Return a feed that puts events into a stream; see `ClusterClient.feed`."""
        return self._client.feed(self, stream, producer)

    def read(self, stream: str) -> list[ReadEvent]:
        """Return all events of a published stream so far, each with its id; see `ClusterClient.read`."""
        return self._client.read(self, stream)

    def tail(self, stream: str, after: str = "", *, follow: bool = False) -> Iterator[ReadEvent]:
        """Yield the events of a published stream; see `ClusterClient.tail`."""
        return self._client.tail(self, stream, after, follow=follow)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """Put a query on demand and return its rows; see `ClusterClient.query`."""
        return self._client.query(self, text)

    def explain(
        self,
        stream: str,
        which: int | Sequence[Any] | Mapping[str, Any] = -1,
        *,
        id: str | None = None,
        attributes: Sequence[str] | None = None,
        budget: int | None = None,
        scripts: bool | None = None,
    ) -> Evidence:
        """Return why an event came out: the events from outside that caused it, with their places in topics.

        The state of a group holds its inputs since the older of its two newest snapshots. They are fetched from the
        workers and replayed here, in virtual time, as of `Result.explain`; the running app is not touched. Causes that
        another group has put out are explained by what that one was given, and so on back to what came from outside.
        Where a cause lies before the older snapshot, the result says that the state of then was needed.

        Without any one of the causes the event is not there. Where states were needed, or a live app's groups heard of
        each other later than in one process, that holds for each group by itself, and `Evidence.notes` says so.

        Parameters
        ----------
        stream : str
            A stream that queries write, published or not.
        which : int, sequence or mapping
            An event as `read` and `tail` give it, ``(timestamp ms, row)``; its row; some of its values by name; or its
            place among those that come out of what is kept. Of several that fit the last is meant.
        id : str, optional
            The id of the event, such as ``event.id`` of one that `read` and `tail` return. Or the one under which a
            receiver has got it: the header ``spdist-id`` of a message of Kafka or NATS, or of an HTTP request, the id
            column of a sink of type ``spark``, or the one that a worker logs when it drops a message. Where the message
            holds several events, `which` is meant among those. It is looked for in what the group's present state
            holds: one that began anew (another ``spdist-origin``) gives the same numbers again.
        attributes : sequence of str, optional
            Those whose values matter, by default all; leave out what is never the same, such as a UUID.
        budget : int, optional
            How many events may be replayed, by default two million, about a minute's work. Where they do not suffice,
            ``minimal`` of the result is False.
        scripts : bool, optional
            As of `spdist.run`: functions that the app defines in Python run here.

        Raises
        ------
        NotFoundError
            No such event or message comes out of what is kept, or nothing is. Of a group that runs as Spark Columns it
            is Kafka that keeps it: one message explains a result, and where it is gone that is said.
        StateError
            Another event comes out now: the app depends on a database, or on a function with a state of its own.
        ClusterUnreachableError
            A worker does not answer.

        Examples
        --------
        >>> app.explain("Alerts", {"room": "attic"})  # doctest: +SKIP
        >>> app.explain("Alerts", id="Rooms-alert-1#0:17")  # doctest: +SKIP
        """
        from spdist.cluster.clients.explaining import explain

        return explain(
            self._client, self.name, stream, which, id=id, attributes=attributes, budget=budget, scripts=scripts
        )

    def backup(self) -> str:
        """Have the state of all groups kept under a name, as of one moment, and return that: the revision.

        They go on meanwhile. Where one cannot be kept, none is.

        Raises
        ------
        StateError
            A group has no state yet, or it cannot be kept.
        ClusterError
            A worker did not report in time.
        """
        return self._client.do(requests.backup(self.name))

    def revisions(self) -> list[str]:
        """Return the revisions that are kept, oldest first."""
        return self._client.do(requests.revisions(self.name))

    def clear_revisions(self) -> list[str]:
        """Delete the revisions that are kept, and return their names; what runs goes on."""
        return self._client.clear_revisions(self)

    def restore(self, revision: str) -> None:
        """Take all groups back to a revision; they go on from the positions in their topics that belong to it.

        What they had published since they pass over. What has left the app cannot be unsent: it comes again, under the
        same ids.

        Raises
        ------
        NotFoundError
            There is no such revision.
        """
        self._client.do(requests.restore(self.name, revision))

    def undeploy(self, timeout_s: float = 60.0) -> None:
        """Remove the app from the cluster, and wait until no worker runs a group of it. Its topics and state stay.

        Parameters
        ----------
        timeout_s : float
            How long to wait for the workers; 0 does not wait.

        Raises
        ------
        NotFoundError
            It is not deployed.
        DeploymentTimeoutError
            A worker still runs a group of it.
        """
        self._client.do(requests.undeploy(self.name))
        deadline_s = time.monotonic() + timeout_s
        while timeout_s and not gone(self.name, self._client.nodes(), timeout_s, over=time.monotonic() >= deadline_s):
            time.sleep(_LOOK_S)


def reached(status: AppStatus, state: str, timeout_s: float, *, over: bool) -> bool:
    """Return whether an app is in the state that is waited for, and raise where waiting is of no use, or `over`."""
    if status.state == state:
        return True
    failed = [g for g in status.groups if g.state == "FAILED" or g.failures > 1]
    if status.state == "FAILED" or failed:
        reasons = "; ".join(f"{g.name}: {g.reason}" for g in failed) or status.reason
        raise EngineError(f"app {status.name} has failed: {reasons}", code=ErrorKind.QUERY_FAILED)
    if over:
        raise DeploymentTimeoutError(
            f"app {status.name} is {status.state}, not {state}, after {timeout_s:g} s:\n{status}", hint=_to_do(status)
        )
    return False


def _to_do(status: AppStatus) -> str:
    if status.groups and not any(group.worker for group in status.groups):
        return (
            "no worker has a group of it; start one: `python -m spdist worker --conf conf/worker`, or notebooks/"
            "worker.ipynb, whose settings name the managers of this cluster"
        )
    return "wait longer, or look at the logs of the workers named above"


def gone(app: str, nodes: dict[str, Any], timeout_s: float, *, over: bool) -> bool:
    """Return whether no worker runs a group of an app that is undeployed, and raise where waiting is `over`."""
    if app not in nodes["undeploying"]:
        return True
    if over:
        raise DeploymentTimeoutError(
            f"app {app} is undeployed, but after {timeout_s:g} s a worker may still run a group of it",
            hint="it ends at the latest when its worker is removed; spdist's nodes show who that is",
        )
    return False
