"""What a distributed app becomes: execution groups, their instances, and the topics between them. Values only.

Names are stable: they derive from the app's text alone, so planning the same app again gives the same groups, instances
and topics, and state is found again. Source: WSO2 SP 4.x distributed deployment (behaviour), random names mended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from spdist.display import Shown, number_of
from spdist.planning.updates.origin import FIRST, Origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spdist.planning.updates.change import TopologyChange


class Strategy(Enum):
    """How the events of a topic reach the instances of a group."""

    #: every instance receives every event
    ALL = "ALL"
    #: each event goes to exactly one instance
    ROUND_ROBIN = "ROUND_ROBIN"
    #: events with equal key always go to the same instance
    FIELD_GROUPING = "FIELD_GROUPING"


def subjects(transport: str, topic: str, strategy: Strategy, partitions: int) -> tuple[str, ...]:
    """Return the names that the partitions of a topic have on the wire: on NATS a keyed one has a subject for each."""
    if transport == "nats" and strategy is Strategy.FIELD_GROUPING:
        return tuple(f"{topic}_{number}" for number in range(partitions))
    return (topic,)


class Kind(Enum):
    """What a name of an app stands for; WSO2's words, in which a trigger is a stream."""

    STREAM = "STREAM"
    #: kept in a store
    TABLE = "TABLE"
    INMEMORYTABLE = "INMEMORYTABLE"
    WINDOW = "WINDOW"
    AGGREGATION = "AGGREGATION"
    TRIGGER = "TRIGGER"


@dataclass(frozen=True, slots=True)
class GroupInput:
    """A stream that a group reads, or what its instances hold themselves and read: a table, window, trigger ….

    Parameters
    ----------
    stream : str
        Its name in the app.
    strategy : Strategy
        How events are spread over the group's instances.
    topic : str
        Where it is read from; empty for what is no stream. Where the group reads a user's own source, the topic into
        which a source puts what comes in, each instance's into its own partition.
    partitions : int
        Partitions of that topic.
    key : str, optional
        The attribute in the topic's name: a FIELD_GROUPING reader's own key, by whose value partitions are chosen; for
        others that of the readers with which they share the topic.
    producers : tuple of str
        Names of the group instances that publish it; empty where outsiders feed the topic.
    user_source : bool
        True where the stream's own ``@source`` is read.
    kind : Kind
        What it is.
    offered : int
        WSO2's offered parallelism: the shares that its readers agree on, or the group's own instances.
    """

    stream: str
    strategy: Strategy
    topic: str
    partitions: int
    key: str | None = None
    producers: tuple[str, ...] = ()
    user_source: bool = False
    kind: Kind = Kind.STREAM
    offered: int = 1

    def assigned(self, index: int, parallel: int) -> tuple[int, ...]:
        """Return the partitions that instance `index` (0-based) of `parallel` reads.

        ALL: every partition. Otherwise a contiguous share, the last instance taking the rest, as WSO2 does. Of what a
        user's source brings, each instance its own.
        """
        if self.user_source:
            return (index,)
        if self.strategy is Strategy.ALL:
            return tuple(range(self.partitions))
        # 0 where there are fewer partitions than instances: then the last one reads all of them
        share = self.partitions // parallel
        end = self.partitions if index == parallel - 1 else (index + 1) * share
        return tuple(range(index * share, end))


@dataclass(frozen=True, slots=True)
class Publishing:
    """One topic to which a group publishes a stream, and how it chooses the partition."""

    strategy: Strategy
    parallel: int
    topic: str
    partitions: int
    key: str | None = None


@dataclass(frozen=True, slots=True)
class GroupOutput:
    """A stream that a group publishes: for other groups and, with ``@sink``, for the world.

    Parameters
    ----------
    stream : str
        Its name in the app.
    publishing : tuple of Publishing
        The topics, each once.
    user_sink : bool
        True where the stream has a ``@sink``.
    subscribers : tuple of Publishing
        The same as WSO2 counts it: one entry for each group that reads it whole or in turn, then one for each key.
    """

    stream: str
    publishing: tuple[Publishing, ...] = ()
    user_sink: bool = False
    subscribers: tuple[Publishing, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupInstance:
    """One copy of an execution group: name ``<App>-<group>-<i>`` with i from 1, and its SiddhiQL text."""

    name: str
    text: str


def shard_names(instance: str, shards: int) -> tuple[str, ...]:
    """Return under which names the shards of an instance publish: its own where there is one."""
    return (instance,) if shards == 1 else tuple(f"{instance}/{number}" for number in range(1, shards + 1))


@dataclass(frozen=True, slots=True)
class ExecutionGroup:
    """Queries that run together.

    Parameters
    ----------
    name : str
        ``<App>-<group>``.
    parallel : int
        Number of instances.
    inputs : tuple of GroupInput
        The streams that come from elsewhere.
    outputs : tuple of GroupOutput
        The streams that go elsewhere.
    instances : tuple of GroupInstance
        Its copies.
    receiver : bool
        True for a passthrough group: it only reads a user's source.
    why : str
        Says in a sentence why it is a group.
    holds : tuple of GroupInput
        What its queries read that its instances hold themselves: tables, windows, triggers, aggregations.
    stores : tuple of str
        Tables and windows that its queries change.
    aggregations : tuple of str
        Those that are computed here.
    faults : tuple of str
        Streams of which comes back, to the first instance, what could not be sent or read: the topic ``<App>.!<S>``.
    shards : int
        Into how many parts each instance splits its work by key, see `spdist.planning.sharding`.
    """

    name: str
    parallel: int
    inputs: tuple[GroupInput, ...]
    outputs: tuple[GroupOutput, ...]
    instances: tuple[GroupInstance, ...]
    receiver: bool = False
    why: str = ""
    holds: tuple[GroupInput, ...] = ()
    stores: tuple[str, ...] = ()
    aggregations: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    shards: int = 1

    def echoes(self, one: GroupInput) -> tuple[str, ...]:
        """Return as whom the group publishes what it also reads of others as `one`; else nothing."""
        publishes = any(output.stream == one.stream and output.publishing for output in self.outputs)
        names = (shard_names(instance.name, self.shards) for instance in self.instances)
        return tuple(name for of_instance in names for name in of_instance) if publishes and one.producers else ()


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic between groups, or one that outsiders feed or read.

    Parameters
    ----------
    name : str
        As the transport calls it.
    partitions : int
        Number of partitions.
    payload : str
        What producers put into it: ``arrow`` between groups, ``xml`` where outsiders feed it over a broker. Readers of
        what outsiders feed understand Arrow, XML and JSON alike.
    """

    name: str
    partitions: int
    payload: str = "arrow"


class TopologyViews(Protocol):
    """What is made of topologies."""

    def text(self, topology: Topology, /) -> str:
        """Return it for a terminal."""
        ...

    def html(self, topology: Topology, /) -> str:
        """Return it for a notebook."""
        ...

    def listed(self, topology: Topology, /) -> dict[str, Any]:
        """Return it as JSON values."""
        ...

    def compared(self, before: Topology, after: Topology, /) -> TopologyChange:
        """Return what becomes of groups and topics."""
        ...


@dataclass(frozen=True, slots=True)
class Topology(Shown):
    """All groups of an app in their order, and all topics they need.

    Parameters
    ----------
    app : str
        Its name.
    playback : bool
        Whether only events move its clock.
    groups : tuple of ExecutionGroup
        Passthrough groups first, those of aggregations last.
    topics : tuple of Topic
        All of them.
    transport : str
        What carries them: ``log``, ``kafka`` or ``nats``.
    creates_topics : bool
        False with ``@app:transportChannelCreationEnabled('false')``: topics must be there.
    idle_ms : int
        ``idle.time`` of ``@app:playback``: after so long without an event the clock goes on by itself; 0 for never.
    """

    #: How topologies are shown and compared; `spdist.planning` says it, so that the value does not know.
    views: ClassVar[TopologyViews]

    app: str
    playback: bool
    groups: tuple[ExecutionGroup, ...]
    topics: tuple[Topic, ...]
    transport: str = "log"
    creates_topics: bool = True
    idle_ms: int = 0

    def assignments(self) -> tuple[Assignment, ...]:
        """Return what each instance must be told to run, in the order of groups and instances."""
        return tuple(
            Assignment(
                name=instance.name,
                app=self.app,
                group=group.name,
                text=instance.text,
                playback=self.playback,
                receiver=group.receiver,
                inputs=self._assigned(group, index, echoes),
                outputs=tuple(AssignedOutput(o.stream, o.publishing) for o in group.outputs if o.publishing),
                shards=group.shards,
                creates_topics=self.creates_topics,
                idle_ms=self.idle_ms,
            )
            for group in self.groups
            # A list of one, so that it is computed once for a group and not for each instance
            for echoes in [[group.echoes(one) for one in group.inputs]]
            for index, instance in enumerate(group.instances)
        )

    def _assigned(
        self, group: ExecutionGroup, index: int, echoes: Sequence[tuple[str, ...]]
    ) -> tuple[AssignedInput, ...]:
        """Return what an instance reads; the first alone hears what comes back, which has one partition.

        `echoes` are those of the group's inputs, the same for all its instances.
        """
        read = [
            AssignedInput(
                one.stream,
                one.topic,
                one.assigned(index, group.parallel),
                one.producers,
                echo,
                "log" if one.user_source else self.transport,
                one.user_source,
                self._subjects(one),
            )
            for one, echo in zip(group.inputs, echoes, strict=True)
        ]
        if index == 0:
            read += [AssignedInput(f"!{name}", f"{self.app}.!{name}", (0,)) for name in group.faults]
        return tuple(read)

    def _subjects(self, one: GroupInput) -> tuple[str, ...]:
        if self.transport != "nats" or one.producers or one.user_source:
            return ()
        return subjects(self.transport, one.topic, one.strategy, one.partitions)

    def holders(self, name: str) -> tuple[str, ...]:
        """Return the instances that hold the table, window or aggregation `name`: queries on demand go to the first."""
        return tuple(
            instance.name
            for group in self.groups
            if name in group.stores or name in group.aggregations or any(one.stream == name for one in group.holds)
            for instance in group.instances
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form of ``spdist plan --json``."""
        return self.views.listed(self)

    def diff(self, other: Topology) -> TopologyChange:
        """Return what becomes of groups and topics where `other` replaces this."""
        return self.views.compared(self, other)

    def __str__(self) -> str:
        return self.views.text(self)

    def __repr__(self) -> str:
        instances = number_of(sum(len(group.instances) for group in self.groups), "instance")
        groups, topics = number_of(len(self.groups), "group"), number_of(len(self.topics), "topic")
        return f"Topology({self.app}: {groups}, {instances}, {topics})"

    def _repr_html_(self) -> str:
        return self.views.html(self)


@dataclass(frozen=True, slots=True)
class AssignedInput:
    """A stream that one instance reads: `partitions` of `topic`; `producers` as in `GroupInput`.

    ``own`` names the instances of its own group where those publish the stream too: their events are passed over, since
    queries of a group hear each other without a topic, and those of others are not published again. ``source`` is True
    where the stream's ``@source`` in the text fills the topic, through a source of this instance; such
    a topic is on the embedded log, others on ``transport``: of Kafka's, Spark's own connector reads them. ``subjects``
    are the names by which outsiders who feed the topic know its first partitions, where they differ from the topic's.

    ``into`` is set for a topic of the user's, which holds messages and no records: its events come in as if they came
    through that topic, and ``number`` says which ``@source`` of the stream has the mapping, from 0. No plan names such
    topics: they are found when the instance starts.

    ``drains`` is True where the topic is no longer of the plan: it is read to its end, and its producers are not waited
    for.
    """

    stream: str
    topic: str
    partitions: tuple[int, ...]
    producers: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    transport: str = "log"
    source: bool = False
    subjects: tuple[str, ...] = ()
    into: str = ""
    number: int = 0
    drains: bool = False

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AssignedInput:
        """Rebuild it from its JSON form; fields that only newer versions know are missing in older ones."""
        return cls(
            data["stream"],
            data["topic"],
            tuple(data["partitions"]),
            tuple(data["producers"]),
            tuple(data.get("own", ())),
            data.get("transport", "log"),
            data.get("source", False),
            tuple(data.get("subjects", ())),
            data.get("into", ""),
            data.get("number", 0),
            data.get("drains", False),
        )


@dataclass(frozen=True, slots=True)
class AssignedOutput:
    """A stream that one instance publishes."""

    stream: str
    publishing: tuple[Publishing, ...]


#: How streams begin that nobody else feeds: those of commands to an app, and fault streams.
_OWN = ("spdist:", "!")


@dataclass(frozen=True, slots=True)
class Assignment:
    """Everything a worker needs to run one group instance; crosses the wire as plain JSON (`to_dict`, `from_dict`).

    ``creates_topics`` is False where the topics that it reads and publishes must be there already. ``origin`` says
    where it begins, if an update of the running app brought it; for ``idle_ms`` see `Topology`.
    """

    name: str
    app: str
    group: str
    text: str
    playback: bool
    inputs: tuple[AssignedInput, ...]
    outputs: tuple[AssignedOutput, ...]
    receiver: bool = False
    shards: int = 1
    creates_topics: bool = True
    origin: Origin = FIRST
    idle_ms: int = 0

    @property
    def fed_streams(self) -> tuple[str, ...]:
        """The streams whose events others than groups send, users' sources and outsiders, in alphabetical order."""
        fed = {one.stream for one in self.inputs if one.into or not one.producers}
        return tuple(sorted(stream for stream in fed if not stream.startswith(_OWN)))

    @property
    def places(self) -> set[tuple[str, int]]:
        """The topic partitions that it reads."""
        return {(read.topic, number) for read in self.inputs for number in read.partitions}

    def to_dict(self) -> dict[str, Any]:
        """Return the assignment as JSON values."""

        def plain(value: Any) -> Any:
            if isinstance(value, Enum):
                return value.value
            if isinstance(value, dict):
                return {k: plain(v) for k, v in value.items()}
            if isinstance(value, (list, tuple)):
                return [plain(v) for v in value]
            return value

        out: dict[str, Any] = plain(asdict(self))
        return out

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Assignment:
        """Rebuild an assignment from `to_dict`."""

        def publishing(p: dict[str, Any]) -> Publishing:
            return Publishing(Strategy(p["strategy"]), p["parallel"], p["topic"], p["partitions"], p["key"])

        return cls(
            name=data["name"],
            app=data["app"],
            group=data["group"],
            text=data["text"],
            playback=data["playback"],
            inputs=tuple(map(AssignedInput.from_dict, data["inputs"])),
            outputs=tuple(
                AssignedOutput(o["stream"], tuple(publishing(p) for p in o["publishing"])) for o in data["outputs"]
            ),
            receiver=data["receiver"],
            shards=data.get("shards", 1),
            creates_topics=data.get("creates_topics", True),
            origin=Origin.from_dict(data["origin"]) if "origin" in data else FIRST,
            idle_ms=data.get("idle_ms", 0),
        )
