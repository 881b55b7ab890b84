"""Which topic carries a stream of a deployed app, for those who feed it or read it; and whether those there fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from spdist.errors import ClusterError, NotFoundError
from spdist.language.types import Schema
from spdist.planning.channels import asks_for_channels, check_channels
from spdist.planning.topology import GroupInput, Topology

if TYPE_CHECKING:
    from spdist.transports.opening import TransportSettings

__all__ = [
    "StreamTopic",
    "check_topics",
    "fed_topic",
    "published_topic",
    "stream_schema",
    "stream_schemas",
    "topic_ends",
]


@dataclass(frozen=True, slots=True)
class StreamTopic:
    """A topic, its number of partitions, and the attribute that chooses the partition (None: they take turns)."""

    name: str
    partitions: int
    key: str | None = None


def fed_topic(topology: Topology, stream: str) -> StreamTopic:
    """Return the topic into which outsiders put the events of a stream.

    Raises
    ------
    ClusterError
        The stream is not fed from outside, names those that are; or it is split by several keys and so has several
        topics, each of which needs all its events.
    """
    inputs: dict[str, dict[str, GroupInput]] = {}
    for one in (one for group in topology.groups for one in group.inputs if one.topic and not one.producers):
        # By topic: one that several groups read is the same topic
        inputs.setdefault(one.stream, {})[one.topic] = one
    (found, *others) = inputs.get(stream, {}).values() or (None,)
    if others:
        raise ClusterError(
            f"stream {stream} of app {topology.app} has {len(inputs[stream])} topics: {', '.join(inputs[stream])}",
            hint=f"copy it first: from {stream} select * insert into {stream}Copy, and split the copy",
        )
    if found is None:
        known = ", ".join(sorted(inputs)) or "none"
        raise ClusterError(f"stream {stream} of app {topology.app} is not fed from outside", hint=f"those are: {known}")
    return StreamTopic(found.topic, found.partitions, found.key)


def published_topic(topology: Topology, stream: str) -> StreamTopic:
    """Return a topic in which the events of a stream can be read.

    Raises
    ------
    ClusterError
        The stream stays inside its group; names those that do not.
    """
    published = {
        output.stream: StreamTopic(p.topic, p.partitions, p.key)
        for group in topology.groups
        for output in group.outputs
        # The first topic of a stream wins, as it is set last
        for p in reversed(output.publishing)
    }
    if stream in published:
        return published[stream]
    try:
        return fed_topic(topology, stream)
    except ClusterError:
        known = ", ".join(sorted(published)) or "none"
        raise ClusterError(
            f"stream {stream} of app {topology.app} is not published: it stays inside its group",
            hint=f"define it with @sink(type='embedded', topic='{topology.app}.{stream}'); published are: {known}",
        ) from None


def check_topics(topology: Topology, text: str, settings: TransportSettings) -> None:
    """See that the topics that are there fit the app `text`; nobody is asked where that does not matter.

    Raises
    ------
    PlanningError
        They do not fit; see `spdist.planning.channels.check_channels`.
    TransportUnavailableError
        No server says which topics there are.
    """
    if not asks_for_channels(topology):
        return
    from spdist.transports.opening import open_transport

    transport = open_transport(settings)
    try:
        existing = {topic.name: transport.partitions(topic.name) for topic in topology.topics}
    finally:
        transport.close()
    check_channels(topology, existing, text)


def topic_ends(topics: Iterable[str], settings: TransportSettings) -> dict[str, dict[int, int]]:
    """Return the offsets that the next records will get in those of `topics` that exist; asks nobody about none.

    Raises
    ------
    TransportUnavailableError
        No server answers.
    """
    names = tuple(topics)
    if not names:
        return {}
    from spdist.transports.opening import open_transport

    transport = open_transport(settings)
    try:
        return {name: transport.end_offsets(name) for name in names if transport.partitions(name)}
    finally:
        transport.close()


@lru_cache(64)
def stream_schemas(text: str) -> dict[str, Schema]:
    """Return the attributes of all streams of the app `text`.

    Raises
    ------
    SiddhiAppError
        The text is wrong.
    """
    from spdist.extension import catalog
    from spdist.language.checking.checker import check
    from spdist.language.parsing.parser import parse

    return dict(check(parse(text), catalog(scripts=True), text).streams)


def stream_schema(text: str, stream: str, schemas: Callable[[str], Mapping[str, Schema]] = stream_schemas) -> Schema:
    """Return the attributes of a stream of the app `text`; `schemas` returns those of all its streams.

    Raises
    ------
    NotFoundError
        The app has no such stream.
    SiddhiAppError
        The text is wrong.
    """
    known = schemas(text)
    if stream not in known:
        raise NotFoundError(f"the app has no stream {stream}", hint=f"it has: {', '.join(sorted(known))}")
    return known[stream]
