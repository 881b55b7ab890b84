"""The topics between groups: who publishes what where, and who reads it.

All groups are wired to all others whatever their order in the text, so a consumer may stand before its producer (WSO2
SP silently leaves such a consumer without input). A stream that a group produces reaches the queries of the same
instance directly, and other groups through a topic; a group that also produces the stream reads only the others there.

Topics are named as WSO2 SP 4.x names them: ``<App>.<Stream>.<key>`` where a group of several instances splits the
stream by a key, and then everyone reads that one; ``<App>.<Stream>`` otherwise. See `spdist.planning.channels`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from spdist.errors import PlanningRule
from spdist.language.ast import StreamDefinition
from spdist.planning.channels import payload_of, shares_keyed, topic_name
from spdist.planning.elements import Problems
from spdist.planning.forming import Group
from spdist.planning.receivers import Received
from spdist.planning.subscriptions import Subscription
from spdist.planning.topology import GroupInput, GroupOutput, Kind, Publishing, Strategy, Topic

__all__ = ["Stream", "Wiring", "check_clocks", "check_cycles", "wire"]


@dataclass(slots=True)
class Wiring:
    """Inputs and outputs by group name, and all topics in the order of the text; who filled which topic."""

    inputs: dict[str, list[GroupInput]] = field(default_factory=dict)
    #: of each group by stream
    outputs: dict[str, dict[str, GroupOutput]] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream with the groups that write it and those that read it through a topic."""

    name: str
    producers: tuple[Group, ...]
    readers: tuple[tuple[Group, Subscription], ...]

    def sources(self, reader: Group) -> tuple[Group, ...]:
        """Return the groups whose events `reader` gets through a topic."""
        return tuple(group for group in self.producers if group is not reader)


@dataclass(frozen=True, slots=True)
class _Channels:
    """The topics that carry a stream: one for each key, and the one of those who split nothing, if they have one."""

    keyed: Mapping[str | None, Publishing]
    free: Publishing | None

    def __iter__(self) -> Iterator[Publishing]:
        return iter(dict.fromkeys([*self.keyed.values(), *([self.free] if self.free else [])]))

    def of(self, subscription: Subscription) -> Publishing:
        """Return what a reader reads."""
        if subscription.strategy is Strategy.FIELD_GROUPING:
            return self.keyed[subscription.key]
        # There is one as soon as any reader does not split the stream
        assert self.free is not None
        return self.free


def wire(app: str, received: Received, transport: str, problems: Problems) -> Wiring:
    """Return how the groups of `app` are connected, cycles included; what cannot be connected goes to `problems`."""
    groups = received.groups
    wiring = Wiring({g.name: [] for g in groups}, {g.name: {} for g in groups})
    _read_sources(received, wiring)
    for name in _streams(received):
        stream = wiring.streams[name] = _stream(name, received)
        _check_local(stream, problems)
        if not stream.readers:
            continue
        channels = _channels(app, stream, transport)
        payload = payload_of(transport, fed=not stream.producers)
        for channel in channels:
            wiring.owners[channel.topic] = name
            wiring.topics[channel.topic] = Topic(channel.topic, channel.partitions, payload)
        for group, subscription in stream.readers:
            wiring.inputs[group.name].append(_input(stream, group, subscription, channels))
        for producer in stream.producers:
            if (output := _output(stream, producer, channels)).publishing:
                wiring.outputs[producer.name][name] = output
    for group in groups:
        # Sources were wired first, then stream after stream of the app: a group's own order is that of its text
        order = {name: position for position, name in enumerate(received.subscriptions[group.name])}
        wiring.inputs[group.name].sort(key=lambda one: order[one.stream])
    return wiring


def _read_sources(received: Received, wiring: Wiring) -> None:
    """Give each group that reads a user's source a topic into which a source puts what comes in."""
    for group in received.groups:
        for name, subscription in received.subscriptions[group.name].items():
            if (group.name, name) in received.own:
                topic = received.own[group.name, name]
                # A partition for each instance, since each reads its own copy of the source
                wiring.topics[topic] = Topic(topic, group.parallel)
                wiring.owners[topic] = name
                wiring.inputs[group.name].append(
                    GroupInput(name, subscription.strategy, topic, group.parallel, subscription.key, user_source=True)
                )


def _streams(received: Received) -> list[str]:
    """All streams: defined ones in the order of the text, then inferred ones as they are met."""
    definitions = received.definitions
    used: dict[str, None] = {}
    for group in received.groups:
        used |= {n: None for n, s in received.subscriptions[group.name].items() if s.kind is Kind.STREAM}
        used |= dict.fromkeys(group.writes(definitions))
    defined = [name for name, definition in definitions.items() if isinstance(definition, StreamDefinition)]
    return list(dict.fromkeys([*defined, *used]))


def _stream(name: str, received: Received) -> Stream:
    producers = received.writers.get(name, ())
    # a group that alone produces the stream hands it on itself, and one that reads the source has it
    readers = tuple(
        (group, received.subscriptions[group.name][name])
        for group in received.readers.get(name, ())
        if producers != (group,) and (group.name, name) not in received.own
    )
    return Stream(name, producers, readers)


def _check_local(stream: Stream, problems: Problems) -> None:
    """Several instances cannot split, or all see, what each of them produces for itself."""
    for group in stream.producers:
        if group.parallel == 1:
            continue
        for element in group.elements:
            users = [p for p in element.parts if any(ref.name == stream.name and not ref.fault for ref in p.inputs)]
            if element.is_partition and users:
                problems.add(
                    f"{element.label} reads '{stream.name}', which its own group '{group.name}' produces with parallel "
                    f"'{group.parallel}': each instance would see only its own events",
                    users[0].query.input.span or element.node.span,
                    "give the partition an execGroup of its own, so that the stream is published between the two",
                    PlanningRule.INNER_GROUP_PARTITION,
                )


def _channels(app: str, stream: Stream, transport: str) -> _Channels:
    """Return the topics that carry `stream`; there is at least one reader."""
    keys = dict.fromkeys(s.key for _, s in stream.readers if s.strategy is Strategy.FIELD_GROUPING)
    free = [(group, s) for group, s in stream.readers if s.strategy is not Strategy.FIELD_GROUPING]
    taking_turns = max((group.parallel for group, s in free if s.strategy is Strategy.ROUND_ROBIN), default=0)
    #: the key whose topic those read who split nothing: that of the last partition, where it is split by that
    joint = None
    if free and keys and shares_keyed(transport):
        joint = free[0][1].key if free[0][1].key in keys else list(keys)[-1]
    keyed: dict[str | None, Publishing] = {}
    for key in keys:
        offered = max(g.parallel for g, s in stream.readers if s.strategy is Strategy.FIELD_GROUPING and s.key == key)
        # Those who take turns read the joint topic, where each of them needs a partition of its own
        partitions = max(offered, taking_turns if key == joint else 1)
        topic = topic_name(transport, app, stream.name, key)
        keyed[key] = Publishing(Strategy.FIELD_GROUPING, offered, topic, partitions, key)
    if not free:
        return _Channels(keyed, None)
    if joint is not None:
        return _Channels(keyed, keyed[joint])
    # on Kafka also the key of a partition that is not split among instances is part of the name
    key = free[0][1].key if shares_keyed(transport) else None
    strategy = Strategy.ROUND_ROBIN if taking_turns else Strategy.ALL
    parallel = max(group.parallel for group, _ in free)
    topic = topic_name(transport, app, stream.name, key)
    return _Channels(keyed, Publishing(strategy, parallel, topic, max(taking_turns, 1)))


def _input(stream: Stream, group: Group, subscription: Subscription, channels: _Channels) -> GroupInput:
    channel = channels.of(subscription)
    by_key = subscription.strategy is Strategy.FIELD_GROUPING
    return GroupInput(
        stream.name,
        subscription.strategy,
        channel.topic,
        channel.partitions,
        channel.key if channel.key is not None else subscription.key,
        tuple(name for source in stream.sources(group) for name in source.instances),
        # it is the producer that tells its readers by key how many shares there are
        offered=channel.parallel if by_key and stream.producers else group.parallel,
    )


def _output(stream: Stream, producer: Group, channels: _Channels) -> GroupOutput:
    readers = [(group, s, channels.of(s)) for group, s in stream.readers if group is not producer]
    # What only the producer itself reads reaches its queries without a topic
    wanted = {channel.topic for *_, channel in readers}
    each = [
        Publishing(s.strategy, group.parallel, channel.topic, channel.partitions)
        for group, s, channel in readers
        if s.strategy is not Strategy.FIELD_GROUPING
    ]
    by_key = dict.fromkeys(channel for _, s, channel in readers if s.strategy is Strategy.FIELD_GROUPING)
    publishing = tuple(channel for channel in channels if channel.topic in wanted)
    return GroupOutput(stream.name, publishing, subscribers=(*each, *by_key))


def check_cycles(groups: Sequence[Group], wiring: Wiring, problems: Problems) -> None:
    """Refuse groups that feed each other where time comes from events only: each would wait for the others' clocks."""
    # Instances are called <group>-<i>, and are not split into shards yet
    publishers = {g.name: {p.rpartition("-")[0] for i in wiring.inputs[g.name] for p in i.producers} for g in groups}
    before = {name: _all_before(name, publishers) for name in publishers}
    reported: set[str] = set()
    for group in groups:
        cycle = [g.name for g in groups if g.name in before[group.name] and group.name in before[g.name]]
        if group.name in cycle and group.name not in reported:
            reported |= set(cycle)
            names = " and ".join(f"'{name}'" for name in cycle)
            problems.unsupported(
                f"the groups {names} feed each other; with @app:playback each would wait for ever for the other's time",
                group.span,
                "give their queries the same execGroup",
            )


def check_clocks(groups: Sequence[Group], wiring: Wiring, problems: Problems) -> None:
    """Refuse groups that hear of no event where time comes from events only: their triggers would never fire."""
    for group in groups:
        if not wiring.inputs[group.name]:
            problems.unsupported(
                f"group '{group.name}' reads no stream from elsewhere; with @app:playback its time would never pass",
                group.span,
                "give its queries the execGroup of queries that read the streams",
            )


def _all_before(name: str, publishers: Mapping[str, set[str]]) -> set[str]:
    """Return the groups from which events can come to group `name`, through any number of others."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = publishers[waiting.pop()] - found
        found |= new
        waiting += new
    return found
