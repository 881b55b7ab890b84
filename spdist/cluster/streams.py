"""Events into and out of deployed apps, and questions to them, for whoever reaches the cluster's topics."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from spdist.cluster.plans import Plans, plan_text
from spdist.cluster.questions import Question, holders_of
from spdist.cluster.topics import fed_topic, published_topic, stream_schema
from spdist.errors import OnDemandQueryError
from spdist.planning.limits import UNLIMITED

if TYPE_CHECKING:
    from spdist.language.types import Schema
    from spdist.transports.base import Transport
    from spdist.transports.feed import Feed
    from spdist.transports.opening import TransportSettings

__all__ = ["Streams"]


class Streams:
    """Finds the topics of streams from the text of their app, and reads and writes them.

    Parameters
    ----------
    topics : TransportSettings
        Where the cluster's topics are.
    """

    def __init__(self, topics: TransportSettings) -> None:
        self._settings = topics
        # What is deployed has been accepted; functions that it defines run where it does, never here.
        self._plans = Plans(partial(plan_text, scripts=True, transport=topics.kind, limits=UNLIMITED))
        self._transport: Transport | None = None

    def close(self) -> None:
        """Let go of files and connections."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def feed(self, text: str, stream: str, producer: str | None) -> Feed:
        """Return a feed into a stream of the app `text`; its topic is made if no worker has done so yet.

        Raises
        ------
        ClusterError
            The stream is not fed from outside.
        """
        from spdist.transports.feed import Feed

        topic = fed_topic(self._plans.topology(text), stream)
        topics = self._topics()
        topics.ensure(topic.name, topic.partitions)
        return Feed(topics, topic.name, stream_schema(text, stream), producer, topic.key)

    def read(self, text: str, stream: str) -> list[tuple[int, tuple[Any, ...]]]:
        """Return all events so far of a published stream of the app `text`.

        Raises
        ------
        ClusterError
            The stream stays inside its group.
        """
        topic = published_topic(self._plans.topology(text), stream)
        return self.read_topic(topic.name, stream_schema(text, stream))

    def read_topic(self, topic: str, schema: Schema) -> list[tuple[int, tuple[Any, ...]]]:
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

    def _topics(self) -> Transport:
        if self._transport is None:
            from spdist.transports.opening import open_transport

            self._transport = open_transport(self._settings)
        return self._transport
