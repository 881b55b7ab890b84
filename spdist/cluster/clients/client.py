"""The client of a cluster: apps go in, states and events come out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from spdist.cluster.clients import requests
from spdist.cluster.clients.asking import Reply, UnreachableNode, may_follow
from spdist.cluster.clients.calling import Caller
from spdist.cluster.clients.handle import AppClient, Deployment
from spdist.cluster.clients.requests import EventPage
from spdist.errors import SiddhiAppError

if TYPE_CHECKING:
    from spdist.cluster.clients.feeding import RemoteFeed
    from spdist.cluster.clients.overview import ClusterStatus
    from spdist.language.ast import SiddhiApp
    from spdist.transports.reading import ReadEvent

__all__ = ["FOLLOW_S", "LOOK_S", "PAGE", "Caller", "ClusterClient", "Reply", "UnreachableNode", "may_follow"]

Json = dict[str, Any]
#: Events of a page, and how long a reader that follows lets a manager wait for more.
PAGE = 5_000
FOLLOW_S = 10.0
#: Between two looks, where a manager does not wait: too many readers do.
LOOK_S = 0.2


class ClusterClient(AppClient):
    """A cluster as its users see it: apps go in, states come out. Finds the leader, also after a failover.

    Parameters
    ----------
    managers : sequence of str
        Base URLs of managers; one that answers is enough.
    username, password : str
        A user of ``auth.configs``.
    trust_file : Path, optional
        PEM file with the authorities to trust for https.
    certificate : Certificate, path or pair of paths, optional
        For nodes that ask for one: a PEM file with its key, or certificate and key.
    patience_s : float
        How long a call looks for a leader before it gives up.
    bearer : callable, optional
        Returns the token of an identity provider that is shown in place of name and password.

    State
    -----
    In which order managers are asked: first who answered last as the leader, at the end who did not answer at all.
    """

    # ------------------------------------------------------------------------------------------------------------- apps
    def deploy(self, app: str | SiddhiApp, *, replace: bool = True) -> Deployment:
        """Hand an app to the cluster; it is stored when this returns, and `Deployment.wait` tells when it runs.

        Parameters
        ----------
        app : str or SiddhiApp
            SiddhiQL with ``@app:name``.
        replace : bool
            Whether an app of that name is replaced; so running a notebook's cell again changes nothing. What became of
            its groups and elements is the `change` of the handle then.

        Raises
        ------
        SiddhiAppError
            The app is wrong; ``errors`` holds all that was found, and each shows the place.
        ClusterError
            The name is taken, and `replace` is False.
        ClusterError
            No manager leads, or the cluster cannot do it.
        """
        text = requests.text_of(app)
        try:
            done = self.do(requests.deploy(text, replace))
        except SiddhiAppError as error:
            raise error.show_in(text) from None
        return Deployment(self, done.name, done.change)

    def deployment(self, name: str) -> Deployment:
        """Return the handle of an app, deployed or not; it is only a name and this client."""
        return Deployment(self, name)

    def apps(self) -> list[str]:
        """Return the names of all deployed apps."""
        return self.do(requests.apps())

    def query(self, app: str | Deployment, text: str) -> list[tuple[Any, ...]]:
        """Put a query on demand to a running app, such as ``from T on a > 1 select *``, and return its rows.

        Raises
        ------
        SiddhiAppError
            The query does not follow the grammar, or means nothing in the app.
        NotFoundError
            No such app is deployed, or no group of it keeps what the query names.
        """
        try:
            return self.do(requests.query(_name(app), text))
        except SiddhiAppError as error:
            raise error.show_in(text) from None

    def query_named(self, app: str | Deployment, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Do the same; return the names of the attributes, and the rows."""
        try:
            return self.do(requests.query_named(_name(app), text))
        except SiddhiAppError as error:
            raise error.show_in(text) from None

    def clear_revisions(self, app: str | Deployment | None = None) -> list[str]:
        """Delete the revisions of an app, or of all apps, and return their names; what runs goes on."""
        return self.do(requests.clear_revisions(None if app is None else _name(app)))

    # ---------------------------------------------------------------------------------------------------------- streams
    def feed(self, app: str | Deployment, stream: str, producer: str | None = None) -> RemoteFeed:
        """Return a feed that puts events into a stream of a deployed app.

        Parameters
        ----------
        app : str or Deployment
            The app.
        stream : str
            A stream that nothing in the app fills.
        producer : str, optional
            A new one if left out. A feed that was interrupted may be started again under the same name and send the
            same events from the beginning: what had arrived is not counted twice.

        Raises
        ------
        ClusterError
            The stream is not fed from outside.
        """
        from spdist.cluster.clients.feeding import FeedState, RemoteFeed

        name = _name(app)
        state = FeedState(name, stream, self.events(name, stream, "end").schema, producer)
        # Who is told now that nothing may be fed here need not find out with the first event.
        self.do(requests.feed(name, stream, []))
        return RemoteFeed(self, state)

    def events(
        self,
        app: str | Deployment,
        stream: str,
        after: str = "",
        limit: int = PAGE,
        wait_s: float = 0.0,
    ) -> EventPage:
        """Return the next events of a published stream, and the cursor to go on with.

        Parameters
        ----------
        app, stream
            The app, and which of its streams.
        after : str
            `EventPage.next` of the page before; empty for the beginning, ``end`` for what comes from now on.
        limit : int
            So many events at most, 1 .. 10,000.
        wait_s : float
            How long to wait for one where there is none, 0 .. 30.

        Raises
        ------
        ClusterError
            The stream stays inside its group; says how to publish it. Or `after` is no cursor of it.
        """
        return self.do(requests.events(_name(app), stream, after, limit, wait_s))

    def read(self, app: str | Deployment, stream: str) -> list[ReadEvent]:
        """Return all events of a published stream so far, in order, as ``(timestamp ms, row)``.

        Raises
        ------
        ClusterError
            The stream stays inside its group; says how to publish it.
        """
        pages = []
        after, ended = "", False
        while not ended:
            page = self.do(requests.events(_name(app), stream, after, PAGE, keys=True))
            pages.append(page)
            after, ended = page.next, page.ended
        return requests.in_order(pages)

    def tail(self, app: str | Deployment, stream: str, after: str = "", *, follow: bool = False) -> Iterator[ReadEvent]:
        """Yield the events of a published stream, each once, as they come; see `events`.

        Parameters
        ----------
        app, stream, after
            As for `events`.
        follow : bool
            Whether to wait for more where there are none, for ever.
        """
        for page in self.pages(app, stream, after, follow=follow):
            yield from page.events

    def pages(
        self, app: str | Deployment, stream: str, after: str = "", *, follow: bool = False
    ) -> Iterator[EventPage]:
        """Yield the same page by page; where nothing has come for a while that is one without events."""
        while True:
            began_s = time.monotonic()
            page = self.events(app, stream, after, wait_s=FOLLOW_S if follow else 0.0)
            yield page
            after = page.next
            if page.ended and not follow:
                return
            if not page.events and time.monotonic() - began_s < LOOK_S:
                time.sleep(LOOK_S)

    # ------------------------------------------------------------------------------------------------------------ nodes
    def nodes(self) -> Json:
        """Return leader, term, managers and workers, as ``GET /managers/nodes`` gives them."""
        return self._seen(self.do(requests.nodes()))

    def leader(self) -> str:
        """Return the base URL of the manager that leads."""
        nodes = self.nodes()
        url: str = next(m["url"] for m in nodes["managers"] if m["leads"])
        return url

    def status(self, *, patient: bool = True) -> ClusterStatus:
        """Return nodes and apps as a value that shows itself in a notebook or as text; one request.

        Parameters
        ----------
        patient : bool
            Whether to look for a leader for as long as calls of this client do, or to ask each manager once.
        """
        status = (self.do if patient else self.glance)(requests.status())
        self._managers.term = status.term
        return status

    def cordon(self, worker: str, *, drain: bool = False) -> None:
        """Have a worker given nothing new; with `drain` what it has goes elsewhere."""
        self.do(requests.cordon(worker, drain))

    def drain(self, worker: str) -> None:
        """Empty a worker: what it has goes elsewhere, and it is given nothing new."""
        self.cordon(worker, drain=True)

    def uncordon(self, worker: str) -> None:
        """Have a worker given groups again."""
        self.do(requests.uncordon(worker))

    def rebalance(self, *, dry_run: bool = True) -> list[Json]:
        """Have groups moved to where there is room; return the moves (``group``, ``from``, ``to``, ``reason``).

        Parameters
        ----------
        dry_run : bool
            Whether to say only which would be moved.
        """
        return self.do(requests.rebalance(dry_run))

    # ------------------------------------------------------------------------------------------------------------ looks
    def journal(self, *, limit: int = 100, **wanted: Any) -> list[Json]:
        """Return what the cluster has decided, newest first.

        Parameters
        ----------
        limit : int
            So many entries at most.
        **wanted
            ``app``, ``kind``, ``since``, ``until`` (ms) and ``before`` (the id of an entry): only such.
        """
        return self.do(requests.journal(limit, **wanted))

    def logs(self, node: str | None = None, *, limit: int = 100, **wanted: Any) -> list[Json]:
        """Return the last log records of a node, or of all that answer, each with its ``node``.

        Parameters
        ----------
        node : str, optional
            Its id; all nodes if left out.
        limit : int
            So many records of each at most.
        **wanted
            ``app``, ``group``, ``level`` and ``since`` (ms): only such.

        Raises
        ------
        NotFoundError
            There is no such node.
        """
        asked, request = requests.asked_of(self.managers[0], self.nodes(), node), requests.logs(limit, **wanted)
        return requests.with_nodes(node, [self.ask_node(one, request) for one in asked])

    def metrics(self, node: str | None = None) -> dict[str, str]:
        """Return the figures of a node, or of all that answer, by its id, in Prometheus' format."""
        asked = requests.asked_of(self.managers[0], self.nodes(), node)
        return requests.that_answered(node, [self.ask_node(one, requests.metrics()) for one in asked])


def _name(app: str | Deployment) -> str:
    return app if isinstance(app, str) else app.name
