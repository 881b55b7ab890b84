"""The client of a cluster for ``await``: requests and decisions are those of `ClusterClient`. A door to httpx."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx
import tenacity

from spdist.cluster.clients import requests
from spdist.cluster.clients.asking import Reply, Request, Round, UnreachableNode
from spdist.cluster.clients.calling import (
    TIMEOUT_S,
    AnyClient,
    auth_of,
    closed,
    http_settings,
    limit_of,
    reply_of,
    retrying,
    unreachable,
)
from spdist.cluster.clients.client import FOLLOW_S, LOOK_S, PAGE
from spdist.cluster.clients.handle import gone, reached
from spdist.cluster.clients.overview import AppStatus, ClusterStatus
from spdist.errors import SiddhiAppError
from spdist.transports.sockets.tls import CertificateFiles

if TYPE_CHECKING:
    from spdist.cluster.clients.feeding import AsyncRemoteFeed
    from spdist.cluster.clients.requests import Deployed, EventPage
    from spdist.language.ast import SiddhiApp
    from spdist.transports.reading import ReadEvent

__all__ = ["AsyncClusterClient"]

T = TypeVar("T")
Json = dict[str, Any]


class AsyncClusterClient(AnyClient):
    """A cluster as its users see it, for programs with an event loop; apps are called by their names.

    Parameters
    ----------
    managers, username, password, trust_file, certificate, patience_s, bearer
        As `ClusterClient` takes them.

    State
    -----
    In which order managers are asked, see `Managers`.

    Examples
    --------
    >>> async with spdist.connect_async("http://127.0.0.1:9543") as client:  # doctest: +SKIP
    ...     async for ts, row in client.tail("Trades", "Alerts", follow=True):
    ...         print(row)
    """

    def _open(
        self,
        password: str,
        trust_file: Path | None,
        certificate: CertificateFiles | None,
        bearer: Callable[[], str] | None,
    ) -> None:
        auth = auth_of(self._username, password, bearer)
        self._http = httpx.AsyncClient(**http_settings(auth, trust_file, certificate, TIMEOUT_S))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    # ------------------------------------------------------------------------------------------------------------- apps
    async def deploy(self, app: str | SiddhiApp, *, replace: bool = True) -> Deployed:
        """Hand an app to the cluster; `wait` tells when it runs. See `ClusterClient.deploy`."""
        text = requests.text_of(app)
        try:
            return await self.do(requests.deploy(text, replace))
        except SiddhiAppError as error:
            raise error.show_in(text) from None

    async def wait(self, app: str, state: str = "RUNNING", timeout_s: float = 60.0) -> AppStatus:
        """Return how an app is doing when it is in `state`; see `Deployment.wait`."""
        deadline_s = time.monotonic() + timeout_s
        status = await self.app_status(app)
        while not reached(status, state, timeout_s, over=time.monotonic() >= deadline_s):
            await asyncio.sleep(LOOK_S)
            status = await self.app_status(app)
        return status

    async def undeploy(self, app: str, timeout_s: float = 60.0) -> None:
        """Remove an app, and wait until no worker runs a group of it; see `Deployment.undeploy`."""
        await self.do(requests.undeploy(app))
        deadline_s = time.monotonic() + timeout_s
        while timeout_s and not gone(app, await self.nodes(), timeout_s, over=time.monotonic() >= deadline_s):
            await asyncio.sleep(LOOK_S)

    async def apps(self) -> list[str]:
        """Return the names of all deployed apps."""
        return await self.do(requests.apps())

    async def app_status(self, app: str) -> AppStatus:
        """Return how an app and each of its groups are doing now."""
        return await self.do(requests.app_status(app))

    async def app_text(self, app: str) -> str:
        """Return an app's SiddhiQL as it was sent."""
        return await self.do(requests.app_text(app))

    async def topology(self, app: str) -> Json:
        """Return groups, topics, strategies and placement of an app."""
        return await self.do(requests.topology(app))

    async def query(self, app: str, text: str) -> list[tuple[Any, ...]]:
        """Put a query on demand to a running app; see `ClusterClient.query`."""
        try:
            return await self.do(requests.query(app, text))
        except SiddhiAppError as error:
            raise error.show_in(text) from None

    async def backup(self, app: str) -> str:
        """Have the state of all groups of an app kept under a name, and return that: the revision."""
        return await self.do(requests.backup(app))

    async def revisions(self, app: str) -> list[str]:
        """Return the revisions that are kept, oldest first."""
        return await self.do(requests.revisions(app))

    async def clear_revisions(self, app: str | None = None) -> list[str]:
        """Delete the revisions of an app, or of all; see `ClusterClient.clear_revisions`."""
        return await self.do(requests.clear_revisions(app))

    async def restore(self, app: str, revision: str) -> None:
        """Take all groups of an app back to a revision; see `Deployment.restore`."""
        await self.do(requests.restore(app, revision))

    # ---------------------------------------------------------------------------------------------------------- streams
    async def feed(self, app: str, stream: str, producer: str | None = None) -> AsyncRemoteFeed:
        """Return a feed that puts events into a stream; see `ClusterClient.feed`."""
        from spdist.cluster.clients.feeding import AsyncRemoteFeed, FeedState

        state = FeedState(app, stream, (await self.events(app, stream, "end")).schema, producer)
        await self.do(requests.feed(app, stream, []))
        return AsyncRemoteFeed(self, state)

    async def events(self, app: str, stream: str, after: str = "", limit: int = PAGE, wait_s: float = 0.0) -> EventPage:
        """Return the next events of a published stream; see `ClusterClient.events`."""
        return await self.do(requests.events(app, stream, after, limit, wait_s))

    async def read(self, app: str, stream: str) -> list[ReadEvent]:
        """Return all events of a published stream so far, in order; see `ClusterClient.read`."""
        pages = []
        after, ended = "", False
        while not ended:
            page = await self.do(requests.events(app, stream, after, PAGE, keys=True))
            pages.append(page)
            after, ended = page.next, page.ended
        return requests.in_order(pages)

    async def tail(self, app: str, stream: str, after: str = "", *, follow: bool = False) -> AsyncIterator[ReadEvent]:
        """Yield the events of a published stream, each once, as they come; see `ClusterClient.tail`."""
        while True:
            began_s = time.monotonic()
            page = await self.events(app, stream, after, wait_s=FOLLOW_S if follow else 0.0)
            for event in page.events:
                yield event
            after = page.next
            if page.ended and not follow:
                return
            if not page.events and time.monotonic() - began_s < LOOK_S:
                await asyncio.sleep(LOOK_S)

    # ------------------------------------------------------------------------------------------------------------ nodes
    async def nodes(self) -> Json:
        """Return leader, term, managers and workers."""
        return self._seen(await self.do(requests.nodes()))

    async def status(self) -> ClusterStatus:
        """Return nodes and apps as a value."""
        return await self.do(requests.status())

    async def cordon(self, worker: str, *, drain: bool = False) -> None:
        """Have a worker given nothing new; with `drain` what it has goes elsewhere."""
        await self.do(requests.cordon(worker, drain))

    async def drain(self, worker: str) -> None:
        """Empty a worker."""
        await self.cordon(worker, drain=True)

    async def uncordon(self, worker: str) -> None:
        """Have a worker given groups again."""
        await self.do(requests.uncordon(worker))

    async def rebalance(self, *, dry_run: bool = True) -> list[Json]:
        """Have groups moved to where there is room; see `ClusterClient.rebalance`."""
        return await self.do(requests.rebalance(dry_run))

    async def journal(self, *, limit: int = 100, **wanted: Any) -> list[Json]:
        """Return what the cluster has decided, newest first; see `ClusterClient.journal`."""
        return await self.do(requests.journal(limit, **wanted))

    async def logs(self, node: str | None = None, *, limit: int = 100, **wanted: Any) -> list[Json]:
        """Return the last log records of a node, or of all that answer; see `ClusterClient.logs`."""
        asked = requests.asked_of(self.managers[0], await self.nodes(), node)
        request = requests.logs(limit, **wanted)
        answers = [await self._answer_of(one, request) for one in asked]
        return requests.with_nodes(node, answers)

    async def metrics(self, node: str | None = None) -> dict[str, str]:
        """Return the figures of a node, or of all that answer; see `ClusterClient.metrics`."""
        asked = requests.asked_of(self.managers[0], await self.nodes(), node)
        answers = [await self._answer_of(one, requests.metrics()) for one in asked]
        return requests.that_answered(node, answers)

    # ------------------------------------------------------------------------------------------------------- the leader
    async def do(self, request: Request[T]) -> T:
        """Ask the leader and return what it answers; see `ClusterClient.do`."""
        return await tenacity.AsyncRetrying(**retrying(request, self._patience_s))(self._attempt, request)

    async def _attempt(self, request: Request[T]) -> T:
        asked = Round(self._managers, request)
        while True:
            try:
                reply = await self._call(asked.next(), request)
            except UnreachableNode as error:
                asked.unreachable(error)
                continue
            if asked.answered(reply):
                return request.read(reply.body)

    async def _answer_of(self, place: tuple[str, str], request: Request[T]) -> requests.NodeAnswer[T]:
        name, url = place
        try:
            return requests.answer_of(name, url, request, await self._call(url, request))
        except UnreachableNode as error:
            return requests.NodeAnswer(name, None, str(error))

    async def _call(self, url: str, request: Request[Any]) -> Reply:
        try:
            answer = await self._http.request(
                request.method,
                url + request.path,
                content=request.content,
                headers=request.headers,
                params=request.params,
                timeout=limit_of(request.timeout_s),
            )
        except httpx.RequestError as error:
            raise unreachable(url, error) from error
        except RuntimeError as error:
            raise closed(url, error, self._http.is_closed) from None
        return reply_of(answer)
