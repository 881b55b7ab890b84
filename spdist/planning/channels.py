"""Rules of topics: their names on each transport, who reads under which name, and whether what is there fits. Pure.

Source: WSO2 SP 4.x, the channels that its Kafka and NATS creators make (names, consumer groups; in our own words).
"""

from __future__ import annotations

from collections.abc import Mapping

from spdist.errors import ChannelError, PlanningError
from spdist.planning.topology import GroupInput, Strategy, Topology

__all__ = ["TRANSPORTS", "check_channels", "consumer_group", "payload_of", "shares_keyed", "subjects", "topic_name"]

#: What carries topics: the embedded log, which names them as Kafka does, Kafka itself, and NATS.
TRANSPORTS = ("log", "kafka", "nats")


def topic_name(transport: str, app: str, stream: str, key: str | None = None) -> str:
    """Return ``<App>.<Stream>`` or ``<App>.<Stream>.<key>``; on NATS, which keeps dots for itself, with ``_``."""
    return ("_" if transport == "nats" else ".").join([app, stream, *([key] if key is not None else [])])


def subjects(transport: str, topic: str, strategy: Strategy, partitions: int) -> tuple[str, ...]:
    """Return the names that the partitions of a topic have on the wire: on NATS a keyed one has a subject for each."""
    if transport == "nats" and strategy is Strategy.FIELD_GROUPING:
        return tuple(f"{topic}_{number}" for number in range(partitions))
    return (topic,)


def shares_keyed(transport: str) -> bool:
    """Tell whether those who split nothing read the keyed topic, where there is one; on NATS they have their own."""
    return transport != "nats"


def consumer_group(group: str, index: int, strategy: Strategy) -> str:
    """Return the name under which instance `index` (0-based) of `group` reads: its own where each reads everything."""
    return f"{group}-{index}" if strategy is Strategy.ALL else group


def payload_of(transport: str, *, fed: bool) -> str:
    """Return what is put into a topic: Arrow between groups; WSO2's XML where outsiders feed it over a broker."""
    return "xml" if fed and transport != "log" else "arrow"


def check_channels(topology: Topology, existing: Mapping[str, int]) -> None:
    """Check the topics that are there against those that an app needs.

    Parameters
    ----------
    topology : Topology
        The app.
    existing : mapping of str to int
        Partitions of each topic that is there.

    Raises
    ------
    ChannelError
        One is missing and may not be made, or has more partitions than the app was planned with: its keys would be
        found elsewhere than where they were put. WSO2 deletes such a topic with its data; we never do.
    """
    found: list[ChannelError] = []
    for topic in topology.topics:
        there = existing.get(topic.name)
        if there is None and not topology.creates_topics:
            message = f"topic '{topic.name}' with {topic.partitions} partitions is missing, and may not be created"
            hint = "create it, or leave out @app:transportChannelCreationEnabled('false')"
            found.append(ChannelError(message, hint=hint))
        elif there is not None and there > topic.partitions and _is_keyed(topology, topic.name):
            message = f"topic '{topic.name}' has {there} partitions; the app needs {topic.partitions}"
            hint = "delete the topic, its events with it, or ask for so many instances"
            found.append(ChannelError(message, hint=hint))
    if len(found) == 1:
        raise found[0]
    if found:
        raise PlanningError("; ".join(str(one.message) for one in found), errors=tuple(found))


def _is_keyed(topology: Topology, topic: str) -> bool:
    readers: list[GroupInput] = [one for group in topology.groups for one in group.inputs if one.topic == topic]
    return any(one.strategy is Strategy.FIELD_GROUPING for one in readers)
