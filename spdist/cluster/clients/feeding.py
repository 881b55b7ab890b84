"""Feeds over REST: events are checked here, numbered by their position, and sent in batches that may be repeated."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from spdist.cluster.clients import requests
from spdist.cluster.protocol.rows import to_json_row
from spdist.display import Shown, number_of, table_html
from spdist.errors import ClusterError, ErrorKind, MappingError
from spdist.language.types import Schema

if TYPE_CHECKING:
    from spdist.cluster.clients.asking import Request

__all__ = ["AsyncRemoteFeed", "FeedState", "RemoteFeed"]

#: Of one request: managers take bodies of 1 MiB.
_BATCH_EVENTS = 5_000
_BATCH_BYTES = 768 * 1024
_TOLD = 20

Json = dict[str, Any]
Rows = list[tuple[int, tuple[Any, ...]]]


class FeedingClient(Protocol):
    """Who sends what a feed asks for, and waits for the answer: `spdist.cluster.clients.client.ClusterClient`."""

    def do(self, request: Request[Json], /) -> Json:
        """Ask the leader."""
        ...


class AsyncFeedingClient(Protocol):
    """The same for ``await``: `spdist.cluster.clients.client_async.AsyncClusterClient`."""

    async def do(self, request: Request[Json], /) -> Json:
        """Ask the leader."""
        ...


class FeedState:
    """What a feed sends next, and what it knows of what it has sent. Pure.

    Parameters
    ----------
    app, stream : str
        Where to.
    schema : Schema
        The stream's attributes.
    producer : str, optional
        See `RemoteFeed`.

    State
    -----
    The position that the last answer gave: one number per partition.
    """

    def __init__(self, app: str, stream: str, schema: Schema, producer: str | None = None) -> None:
        self.app = app
        self.stream = stream
        self.schema = schema
        self.producer = producer or f"feed-{uuid.uuid4().hex}"
        self.position: Json = {"sent": 0, "clock": None, "seq": []}

    @property
    def sent(self) -> int:
        """How many events were accepted."""
        return int(self.position["sent"])

    def batches(self, events: Iterable[tuple[int, tuple[Any, ...]]]) -> list[list[str]]:
        """Return events as bodies of requests have them, each as its JSON, as many together as one may have.

        Raises
        ------
        MappingError
            Rows do not fit the stream; names them by their index.
        """
        from spdist.transports.feed import checked_row

        batches: list[list[str]] = []
        wrong: list[str] = []
        # Full at the beginning, so that the first event opens a batch
        size = _BATCH_BYTES
        for number, (ts, row) in enumerate(events):
            try:
                event = json.dumps({"timestamp": ts, "data": to_json_row(checked_row(self.schema, ts, tuple(row)))})
            except MappingError as error:
                wrong.append(f"event {number}: {error.message}")
                continue
            # With a comma and a blank; `json.dumps` writes ASCII, so characters are bytes
            more = len(event) + 2
            if size + more > _BATCH_BYTES or len(batches[-1]) == _BATCH_EVENTS:
                batches.append([])
                size = 0
            batches[-1].append(event)
            size += more
        if wrong:
            told = "; ".join(wrong[:_TOLD]) + (f"; and {len(wrong) - _TOLD} more" if len(wrong) > _TOLD else "")
            raise MappingError(f"{len(wrong)} events do not fit stream {self.stream}: {told}", hint="nothing was sent")
        return batches

    def request(self, events: list[str], advance: int | None = None) -> Request[Json]:
        """Return the request that sends a batch, and promises a time."""
        numbers: Json = {"producer": self.producer, "position": self.position}
        numbers |= {} if advance is None else {"advance": advance}
        return requests.feed(self.app, self.stream, events, **numbers)

    def answered(self, answer: Json) -> None:
        """Take in that a batch was accepted.

        Raises
        ------
        ClusterError
            The answer does not say up to where.
        """
        position = answer.get("position") if isinstance(answer, dict) else None
        if not isinstance(position, dict) or type(position.get("sent")) is not int:
            raise ClusterError(
                f"the answer to a batch of events says nothing of its position: {str(answer)[:200]}",
                code=ErrorKind.UNKNOWN_ERROR,
            )
        self.position = position


class _Feed(Shown):
    """What both kinds of feed show."""

    def __init__(self, state: FeedState) -> None:
        self._state = state

    @property
    def schema(self) -> Schema:
        """The stream's attributes."""
        return self._state.schema

    @property
    def producer(self) -> str:
        """Who numbers these events."""
        return self._state.producer

    @property
    def sent(self) -> int:
        """How many events were accepted so far."""
        return self._state.sent

    def __repr__(self) -> str:
        events = number_of(self.sent, "event")
        return f"{type(self).__name__}({self._state.app}.{self._state.stream}: {events} as {self.producer})"

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        return table_html(("attribute", "type"), self.schema, caption=repr(self))


class RemoteFeed(_Feed):
    """Puts events of one stream into a running app, in event time, over the managers' REST interface.

    It does what `Feed` does, for those who do not reach the topics: the same numbers, the same promises. So a batch
    whose answer got lost is sent again, to whoever leads then, and not counted twice.

    Parameters
    ----------
    client : FeedingClient
        Whom to ask.
    state : FeedState
        App, stream and producer.

    State
    -----
    That of `FeedState`.
    """

    def __init__(self, client: FeedingClient, state: FeedState) -> None:
        super().__init__(state)
        self._client = client

    def send(self, events: Iterable[tuple[int, tuple[Any, ...]]]) -> int:
        """Send ``(timestamp ms, row)`` events and return how many; those that are older than others come late.

        Raises
        ------
        MappingError
            Rows do not fit the stream; nothing was sent.
        SpdistError
            It failed on the way: `sent` says how many were accepted. Send those after them again.
        """
        return sum(self._send(batch) for batch in self._state.batches(events))

    def each(self, events: Iterable[tuple[int, tuple[Any, ...]]]) -> Iterator[int]:
        """Do the same step by step: yields the number of events of each batch when it is accepted."""
        for batch in self._state.batches(events):
            yield self._send(batch)

    def advance(self, ts: int) -> None:
        """Promise that no event older than `ts` ms will follow, so that time passes downstream without events."""
        self._state.answered(self._client.do(self._state.request([], ts)))

    def _send(self, batch: list[str]) -> int:
        self._state.answered(self._client.do(self._state.request(batch)))
        return len(batch)


class AsyncRemoteFeed(_Feed):
    """`RemoteFeed` for ``await``."""

    def __init__(self, client: AsyncFeedingClient, state: FeedState) -> None:
        super().__init__(state)
        self._client = client

    async def send(self, events: Iterable[tuple[int, tuple[Any, ...]]]) -> int:
        """See `RemoteFeed.send`."""
        batches = self._state.batches(events)
        for batch in batches:
            self._state.answered(await self._client.do(self._state.request(batch)))
        return sum(map(len, batches))

    async def advance(self, ts: int) -> None:
        """See `RemoteFeed.advance`."""
        self._state.answered(await self._client.do(self._state.request([], ts)))
