"""Events into and out of deployed apps, and questions to them, for whoever reaches the cluster's topics."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from spdist.cluster.managers.plans import Plans, plan_text
from spdist.cluster.managers.questions import Question, holders_of
from spdist.cluster.managers.topics import fed_topic, published_topic, stream_schema, stream_schemas
from spdist.cluster.protocol.cursors import read_cursor, write_cursor
from spdist.errors import MappingError, OnDemandQueryError
from spdist.planning.limits import UNLIMITED

if TYPE_CHECKING:
    from spdist.language.types import Schema
    from spdist.transports.base import Record, Transport
    from spdist.transports.feed import Feed, FeedPosition
    from spdist.transports.opening import TransportSettings
    from spdist.transports.reading import OrderedEvent, ReadEvent

__all__ = ["END", "Page", "StreamAccess"]

_log = logging.getLogger(__name__)
#: Instead of a cursor: what comes from now on.
END = "end"
#: Payloads that are opened for a page.
_PAGE_BYTES = 2 << 20
_KNOWN = 64


@dataclass(frozen=True, slots=True)
class Page:
    """Some events of a stream, and where to go on.

    Parameters
    ----------
    schema : Schema
        The stream's attributes.
    entries : list of OrderedEvent
        In order.
    next : str
        The cursor behind them.
    ended : bool
        Whether that is all that there is now.
    """

    schema: Schema
    entries: list[OrderedEvent]
    next: str
    ended: bool


class StreamAccess:
    """Finds the topics of streams from the text of their app, and reads and writes them. Safe to use from threads.

    Parameters
    ----------
    topics : TransportSettings
        Where the cluster's topics are.
    plans : Plans, optional
        The topologies of apps; planned here if they are left out.
    schemas : callable, optional
        From the text of an app to the attributes of its streams; found here if it is left out.

    State
    -----
    A transport, once it was used; the attributes of the streams of the last apps.
    """

    def __init__(
        self,
        topics: TransportSettings,
        plans: Plans | None = None,
        schemas: Callable[[str], Mapping[str, Schema]] = stream_schemas,
    ) -> None:
        self._settings = topics
        # What is deployed has been accepted; functions that it defines run where it does, never here.
        self._plans = plans or Plans(partial(plan_text, scripts=True, transport=topics.kind, limits=UNLIMITED))
        self._schemas = lru_cache(_KNOWN)(schemas)
        self._transport: Transport | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of files and connections."""
        with self._lock:
            transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def feed(self, text: str, stream: str, producer: str | None = None, position: FeedPosition | None = None) -> Feed:
        """Return a feed into a stream of the app `text`; its topic is made if no worker has done so yet.

        Raises
        ------
        ClusterError
            The stream is not fed from outside.
        """
        from spdist.transports.feed import Feed

        topic = fed_topic(self._plans.topology(text), stream)
        topics = self._topics()
        if topics.partitions(topic.name) < topic.partitions:
            topics.ensure(topic.name, topic.partitions)
        return Feed(topics, topic.name, self._schema(text, stream), producer, topic.key, position=position)

    def page(self, text: str, stream: str, after: str, limit: int) -> Page:
        """Return the next events of a published stream of the app `text`, each of them once.

        Parameters
        ----------
        text, stream : str
            The app, and which of its streams.
        after : str
            `Page.next` of the page before; empty for the beginning, `END` for what comes from now on.
        limit : int
            Of so many events at most.

        Raises
        ------
        ClusterError
            The stream stays inside its group, or `after` is no cursor of it.
        """
        from spdist.transports.payloads.payload import Payload
        from spdist.transports.reading import PartitionPosition, TopicReader

        schema = self._schema(text, stream)
        topic = published_topic(self._plans.topology(text), stream).name
        topics = self._topics()
        if not topics.partitions(topic):
            if after not in ("", END):
                read_cursor("", after)  # it is of a topic that is there no more
            return Page(schema, [], "", True)
        identity = f"{topic} {topics.identity(topic)}"
        if after == END:
            ends = {number: PartitionPosition(offset) for number, offset in topics.end_offsets(topic).items()}
            return Page(schema, [], write_cursor(identity, ends), True)

        def unfit(record: Record, error: MappingError) -> None:
            place = f"offset {record.offset} of partition {record.partition}"
            _log.warning("topic %s, %s holds no events of stream %s: %s", topic, place, stream, error.message)

        # A topic that outsiders write to may hold anything; after an update it holds events of both texts.
        payload = Payload(schema, adapts=True, foreign=True)
        reader = TopicReader(topics, topic, payload, read_cursor(identity, after) if after else {}, unfit)
        entries, ended = reader.page(limit, _PAGE_BYTES)
        return Page(schema, entries, write_cursor(identity, reader.position), ended)

    def read(self, text: str, stream: str) -> list[ReadEvent]:
        """Return all events so far of a published stream of the app `text`.

        Raises
        ------
        ClusterError
            The stream stays inside its group.
        """
        topic = published_topic(self._plans.topology(text), stream)
        return self.read_topic(topic.name, self._schema(text, stream))

    def read_topic(self, topic: str, schema: Schema) -> list[ReadEvent]:
        """Return all events so far of a topic; none if it does not exist yet."""
        from spdist.transports.feed import read_events

        topics = self._topics()
        return read_events(topics, topic, schema) if topics.partitions(topic) else []

    def query(self, text: str, query: str, timeout_s: float) -> list[tuple[Any, ...]]:
        """Put a query on demand to the running app `text` and return its rows.

        Raises
        ------
        SiddhiSyntaxError
            The query does not follow the grammar.
        NotFoundError
            No group of the app holds what it names.
        OnDemandQueryError
            It means nothing in the app, or fails on a row.
        TransportError
            The group does not answer in time.
        """
        from spdist.transports.commands import ask

        holder = holders_of(self._plans.topology(text), Question.read(query).element)[0]
        answer = ask(self._topics(), holder, query, timeout_s)
        if "error" in answer:
            raise OnDemandQueryError(answer["error"]["message"])
        return [tuple(row) for row in answer["rows"]]

    def _schema(self, text: str, stream: str) -> Schema:
        return stream_schema(text, stream, self._schemas)

    def _topics(self) -> Transport:
        with self._lock:
            if self._transport is None:
                from spdist.transports.opening import open_transport

                self._transport = open_transport(self._settings)
            return self._transport
