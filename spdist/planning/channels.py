"""Rules of topics: their names on each transport, who reads under which name, and whether what is there fits. Pure.

Source: WSO2 SP 4.x, the channels that its Kafka and NATS creators make (names, consumer groups; in our own words).
"""

from __future__ import annotations

from collections.abc import Mapping

from spdist.errors import PlanningError, PlanningRule, Span
from spdist.language.ast import SiddhiApp, find_annotations
from spdist.language.parsing.parser import parse
from spdist.planning.topology import GroupInput, Strategy, Topic, Topology

__all__ = [
    "CREATION",
    "TRANSPORTS",
    "asks_for_channels",
    "check_channels",
    "consumer_group",
    "payload_of",
    "shares_keyed",
    "topic_name",
]

#: What carries topics: the embedded log, which names them as Kafka does, Kafka itself, and NATS.
TRANSPORTS = ("log", "kafka", "nats")
#: The annotation that says whether topics are made.
CREATION = "app:transportChannelCreationEnabled"


def topic_name(transport: str, app: str, stream: str, key: str | None = None) -> str:
    """Return ``<App>.<Stream>`` or ``<App>.<Stream>.<key>``; on NATS, which keeps dots for itself, with ``_``."""
    return ("_" if transport == "nats" else ".").join([app, stream, *([key] if key is not None else [])])


def shares_keyed(transport: str) -> bool:
    """Tell whether those who split nothing read the keyed topic, where there is one; on NATS they have their own."""
    return transport != "nats"


def consumer_group(group: str, index: int, strategy: Strategy) -> str:
    """Return the name under which instance `index` (0-based) of `group` reads: its own where each reads everything."""
    return f"{group}-{index}" if strategy is Strategy.ALL else group


def payload_of(transport: str, *, fed: bool) -> str:
    """Return what is put into a topic: Arrow between groups; WSO2's XML where outsiders feed it over a broker."""
    return "xml" if fed and transport != "log" else "arrow"


def asks_for_channels(topology: Topology) -> bool:
    """Tell whether it matters which topics are there: where none may be made, or some are split by a key."""
    return not topology.creates_topics or any(_is_keyed(topology, topic.name) for topic in topology.topics)


def check_channels(topology: Topology, existing: Mapping[str, int], text: str = "") -> None:
    """Check the topics that are there against those that an app needs.

    Parameters
    ----------
    topology : Topology
        The app.
    existing : mapping of str to int
        Partitions of each topic that is there.
    text : str
        The app's; with it errors name the line of the stream, or of the annotation that forbids to make topics.

    Raises
    ------
    PlanningError
        One is missing or too small and may not be made, or has more partitions than the app was planned with: its keys
        would be found elsewhere than where they were put. WSO2 deletes such a topic with its data; we never do.
        Its code is `PlanningRule.CHANNEL`; where several do not fit it holds them.
    """
    # Topics of users' sources are of the embedded log, not of the broker that was asked what is there
    fed = {one.topic for group in topology.groups for one in group.inputs if one.user_source}
    found: list[tuple[Topic, str, str]] = []
    for topic in topology.topics:
        there = existing.get(topic.name, 0)
        if topic.name not in fed and there < topic.partitions and not topology.creates_topics:
            fault = f"has {there} partitions, and may not grow" if there else "is missing, and may not be created"
            message = f"topic '{topic.name}' with {topic.partitions} partitions {fault}"
            hint = "create it, or leave out @app:transportChannelCreationEnabled('false')"
            found.append((topic, message, hint))
        elif there > topic.partitions and _is_keyed(topology, topic.name):
            message = f"topic '{topic.name}' has {there} partitions; the app needs {topic.partitions}"
            hint = "delete the topic, its events with it, or ask for so many instances"
            found.append((topic, message, hint))
    if not found:
        return
    app = parse(text) if text else None
    errors = tuple(
        PlanningError(
            message,
            hint=hint,
            span=app and _place(app, topology, topic.name),
            text=text or None,
            code=PlanningRule.CHANNEL,
        )
        for topic, message, hint in found
    )
    if len(errors) == 1:
        raise errors[0]
    raise PlanningError("; ".join(str(one.message) for one in errors), errors=errors)


def _place(app: SiddhiApp, topology: Topology, topic: str) -> Span | None:
    """Return where the app defines the topic's stream, or else forbids that topics are made."""
    streams = {one.stream for group in topology.groups for one in group.inputs if one.topic == topic}
    defined = [one.span for one in app.definitions if one.name in streams]
    forbidding = [one.span for one in find_annotations(app.annotations, CREATION)]
    return next(iter([*defined, *forbidding]), None)


def _is_keyed(topology: Topology, topic: str) -> bool:
    readers: list[GroupInput] = [one for group in topology.groups for one in group.inputs if one.topic == topic]
    return any(one.strategy is Strategy.FIELD_GROUPING for one in readers)
