"""Events into and out of deployed apps, for whoever sees the directory of the embedded log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdist.cluster.plans import Plans
from spdist.cluster.topics import fed_topic, published_topic, stream_schema

if TYPE_CHECKING:
    from spdist.language.types import Schema
    from spdist.transports.feed import Feed
    from spdist.transports.log import LogTransport

__all__ = ["Streams"]


class Streams:
    """Finds the topics of streams from the text of their app, and reads and writes them.

    Parameters
    ----------
    directory : Path
        ``transports.log.directory`` of the cluster.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._plans = Plans()
        self._transport: LogTransport | None = None

    def close(self) -> None:
        """Let go of files."""
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
        log = self._log()
        log.ensure(topic.name, topic.partitions)
        return Feed(log, topic.name, stream_schema(text, stream), producer, topic.key)

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

        log = self._log()
        return read_events(log, topic, schema) if log.partitions(topic) else []

    def _log(self) -> LogTransport:
        if self._transport is None:
            from spdist.transports.log import LogTransport

            self._transport = LogTransport(self._directory)
        return self._transport
