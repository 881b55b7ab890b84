"""The topics between groups: who publishes what where, and who reads it.

All groups are wired to all others whatever their order in the text, so a consumer may stand before its producer (WSO2
SP silently leaves such a consumer without input). A stream that a group produces reaches the queries of the same
instance directly, and other groups through a topic; a group that also produces the stream reads only the others there.

Topics are named as WSO2 SP 4.x names them on Kafka: ``<App>.<Stream>.<key>`` where a group of several instances splits
the stream by a key, and then everyone reads that one; ``<App>.<Stream>`` otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spdist.errors import Span
from spdist.language.ast import Annotation, StreamDefinition, find_annotations
from spdist.planning.elements import Problems
from spdist.planning.subscriptions import Definitions, Group, Subscription
from spdist.planning.topology import GroupInput, GroupOutput, Publishing, Strategy, Topic

__all__ = ["Wiring", "check_cycles", "wire"]

Subscriptions = Mapping[str, Mapping[str, Subscription]]


@dataclass(slots=True)
class Wiring:
    """Inputs and outputs by group name, and all topics in the order of the text."""

    inputs: dict[str, list[GroupInput]] = field(default_factory=dict)
    outputs: dict[str, list[GroupOutput]] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Stream:
    """A stream with the groups that write it and those that read it through a topic."""

    name: str
    producers: tuple[Group, ...]
    readers: tuple[tuple[Group, Subscription], ...]

    def sources(self, reader: Group) -> tuple[Group, ...]:
        """Return the groups whose events `reader` gets through a topic."""
        return tuple(group for group in self.producers if group is not reader)


def wire(
    app: str, groups: tuple[Group, ...], subscriptions: Subscriptions, definitions: Definitions, problems: Problems
) -> Wiring:
    """Return how `groups` of `app` are connected, cycles included; what cannot be connected goes to `problems`."""
    wiring = Wiring({g.name: [] for g in groups}, {g.name: [] for g in groups})
    owners: dict[str, str] = {}
    sinks: list[tuple[_Stream, list[Publishing]]] = []
    for name in _streams(groups, subscriptions, definitions):
        stream = _stream(name, groups, subscriptions)
        _check_local(stream, groups, problems)
        channels = _channels(app, stream, definitions, problems)
        for channel in channels.values():
            owners[channel.topic] = name
            wiring.topics[channel.topic] = Topic(channel.topic, channel.partitions)
        for group, subscription in stream.readers:
            wiring.inputs[group.name].append(_input(stream, group, subscription, channels))
        _publish(stream, channels, wiring)
        sinks.append((stream, _sinks(stream, definitions, problems)))
    for stream, publishing in sinks:
        _add_sinks(stream, publishing, owners, wiring, definitions, problems)
    _check_echoes(groups, wiring, problems)
    return wiring


def _streams(groups: tuple[Group, ...], subscriptions: Subscriptions, definitions: Definitions) -> list[str]:
    """All streams: defined ones in the order of the text, then inferred ones as they are met."""
    used = [name for group in groups for name in (*subscriptions[group.name], *group.writes(definitions))]
    defined = [name for name, definition in definitions.items() if isinstance(definition, StreamDefinition)]
    return list(dict.fromkeys([*defined, *used]))


def _stream(name: str, groups: tuple[Group, ...], subscriptions: Subscriptions) -> _Stream:
    producers = tuple(g for g in groups if any(p.target and p.target.id == name for p in g.parts))
    readers = []
    for group in groups:
        found = subscriptions[group.name].get(name)
        # a group that alone produces the stream hands it on itself
        if found is not None and producers != (group,):
            readers.append((group, found))
    return _Stream(name, producers, tuple(readers))


def _check_local(stream: _Stream, groups: tuple[Group, ...], problems: Problems) -> None:
    """Several instances cannot split, or all see, what each of them produces for itself."""
    for group in groups:
        if group.parallel == 1 or group not in stream.producers:
            continue
        for element in group.elements:
            users = [part for part in element.parts if any(ref.id == stream.name for ref in part.inputs)]
            if element.is_partition and users:
                problems.add(
                    f"{element.label} reads '{stream.name}', which its own group '{group.name}' produces with parallel "
                    f"'{group.parallel}': each instance would see only its own events",
                    users[0].query.input.span or element.node.span,
                    "give the partition an execGroup of its own, so that the stream is published between the two",
                )


def _channels(app: str, stream: _Stream, definitions: Definitions, problems: Problems) -> dict[str | None, Publishing]:
    """Return the topics that carry `stream`, by key (None for the one without a key)."""
    if not stream.readers:
        return {}
    keys = list(dict.fromkeys(s.key for _, s in stream.readers if s.strategy is Strategy.FIELD_GROUPING))
    if not stream.producers and len(keys) > 1:
        problems.unsupported(
            f"stream '{stream.name}' is fed from outside and split by {len(keys)} keys ({', '.join(map(str, keys))}); "
            "whoever feeds it would have to feed it once for each",
            definitions[stream.name].span,
            f"copy it first: from {stream.name} select * insert into {stream.name}Copy, and split the copy",
        )
    taking_turns = [g.parallel for g, s in stream.readers if s.strategy is Strategy.ROUND_ROBIN]
    if not keys:
        parallel = max(group.parallel for group, _ in stream.readers)
        strategy, partitions = (Strategy.ROUND_ROBIN, max(taking_turns)) if taking_turns else (Strategy.ALL, 1)
        return {None: Publishing(strategy, parallel, f"{app}.{stream.name}", partitions)}
    channels: dict[str | None, Publishing] = {}
    for number, key in enumerate(keys):
        sharing = [g.parallel for g, s in stream.readers if s.strategy is Strategy.FIELD_GROUPING and s.key == key]
        partitions = max([*sharing, *(taking_turns if number == 0 else [])])
        topic = f"{app}.{stream.name}.{key}"
        channels[key] = Publishing(Strategy.FIELD_GROUPING, partitions, topic, partitions, key)
    return channels


def _channel_of(subscription: Subscription, channels: Mapping[str | None, Publishing]) -> Publishing:
    """Return what it reads: its key's topic; without a key the topic that has none or, failing that, the first."""
    if subscription.strategy is Strategy.FIELD_GROUPING:
        return channels[subscription.key]
    return next(iter(channels.values()))


def _input(
    stream: _Stream, group: Group, subscription: Subscription, channels: Mapping[str | None, Publishing]
) -> GroupInput:
    channel = _channel_of(subscription, channels)
    producers = tuple(name for source in stream.sources(group) for name in source.instances)
    return GroupInput(stream.name, subscription.strategy, channel.topic, channel.partitions, channel.key, producers)


def _publish(stream: _Stream, channels: Mapping[str | None, Publishing], wiring: Wiring) -> None:
    for producer in stream.producers:
        wanted = {_channel_of(s, channels).topic for reader, s in stream.readers if reader is not producer}
        publishing = tuple(channel for channel in channels.values() if channel.topic in wanted)
        if publishing:
            wiring.outputs[producer.name].append(GroupOutput(stream.name, publishing))


def _check_echoes(groups: tuple[Group, ...], wiring: Wiring, problems: Problems) -> None:
    """Refuse a group that would read back what it publishes: it has handed those events on already."""
    for group in groups:
        read = {one.topic: one.stream for one in wiring.inputs[group.name]}
        for topic in (p.topic for output in wiring.outputs[group.name] for p in output.publishing):
            if topic in read:
                problems.unsupported(
                    f"group '{group.name}' both publishes stream '{read[topic]}' and reads it from others; telling "
                    "its own events from theirs is not built yet",
                    group.elements[0].node.span,
                    "let one of the two groups insert into another stream, and copy that into this one",
                )


def check_cycles(groups: tuple[Group, ...], wiring: Wiring, problems: Problems) -> None:
    """Refuse groups that feed each other where time comes from events only: each would wait for the others' clocks."""
    feeders = {g.name: {p.rpartition("-")[0] for i in wiring.inputs[g.name] for p in i.producers} for g in groups}
    before = {name: _all_before(name, feeders) for name in feeders}
    reported: set[str] = set()
    for group in groups:
        cycle = [g.name for g in groups if g.name in before[group.name] and group.name in before[g.name]]
        if group.name in cycle and group.name not in reported:
            reported |= set(cycle)
            names = " and ".join(f"'{name}'" for name in cycle)
            problems.unsupported(
                f"the groups {names} feed each other; with @app:playback each would wait for ever for the other's time",
                group.elements[0].node.span,
                "give their queries the same execGroup",
            )


def _all_before(name: str, feeders: Mapping[str, set[str]]) -> set[str]:
    """Return the groups from which events can come to group `name`, through any number of others."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = feeders[waiting.pop()] - found
        found |= new
        waiting += new
    return found


# --- sinks of users
def _sinks(stream: _Stream, definitions: Definitions, problems: Problems) -> list[Publishing]:
    """Return the topics that the stream's own ``@sink`` annotations name."""
    found = []
    definition = definitions.get(stream.name)
    for sink in find_annotations(definition.annotations if definition else (), "sink"):
        if topic := _sink_topic(stream, sink, problems):
            found.append(Publishing(Strategy.ALL, 1, topic, 1))
    return found


def _sink_topic(stream: _Stream, sink: Annotation, problems: Problems) -> str | None:
    kind, topic, span = sink.get("type"), sink.get("topic"), sink.span
    if kind != "embedded":
        problems.unsupported(
            f"stream '{stream.name}' has a @sink of type '{kind}', which is not built yet",
            span,
            "publish to the embedded log: @sink(type='embedded', topic='MyApp.Results')",
        )
    elif not topic:
        problems.add(f"the @sink of stream '{stream.name}' names no topic", span, "write topic='MyApp.Results'")
    elif not stream.producers:
        problems.add(
            f"stream '{stream.name}' has a @sink, but no query inserts into it",
            span,
            "insert into it, or put the @sink on a stream that a query fills",
        )
    else:
        return topic
    return None


def _add_sinks(
    stream: _Stream,
    publishing: list[Publishing],
    owners: dict[str, str],
    wiring: Wiring,
    definitions: Definitions,
    problems: Problems,
) -> None:
    for sink in publishing:
        owner = owners.setdefault(sink.topic, stream.name)
        if owner != stream.name:
            problems.add(
                f"the @sink of stream '{stream.name}' publishes to '{sink.topic}', the topic of stream '{owner}'",
                _span(definitions, stream.name),
                "give the sink a topic of its own",
            )
        wiring.topics.setdefault(sink.topic, Topic(sink.topic, sink.partitions))
    if publishing:
        for producer in stream.producers:
            outputs = wiring.outputs[producer.name]
            known = next((o for o in outputs if o.stream == stream.name), None)
            before = known.publishing if known else ()
            # a sink on the topic that carries the stream anyway adds nothing
            more = tuple(s for s in dict.fromkeys(publishing) if s.topic not in {p.topic for p in before})
            output = GroupOutput(stream.name, before + more, user_sink=True)
            wiring.outputs[producer.name] = [o for o in outputs if o is not known] + [output]


def _span(definitions: Definitions, name: str) -> Span | None:
    definition = definitions.get(name)
    return definition.span if definition else None
