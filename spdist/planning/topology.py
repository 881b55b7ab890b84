"""What a distributed app becomes: execution groups, their instances, and the topics between them. Values only.

Names are stable: they derive from the app's text alone, so planning the same app again gives the same groups, instances
and topics, and state is found again. Source: WSO2 SP 4.x distributed deployment (behaviour), random names mended.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Strategy(Enum):
    """How the events of a topic reach the instances of a group."""

    #: every instance receives every event
    ALL = "ALL"
    #: each event goes to exactly one instance
    ROUND_ROBIN = "ROUND_ROBIN"
    #: events with equal key always go to the same instance
    FIELD_GROUPING = "FIELD_GROUPING"


@dataclass(frozen=True, slots=True)
class GroupInput:
    """A stream that a group reads.

    Parameters
    ----------
    stream : str
        Its name in the app.
    strategy : Strategy
        How events are spread over the group's instances.
    topic : str
        Where it is read from; empty where the group reads a user's own source.
    partitions : int
        Partitions of that topic (WSO2: offered parallelism).
    key : str, optional
        The attribute whose value chooses the partition, where the topic has one: a FIELD_GROUPING reader's own key, or
        that of the readers with which another one shares the topic.
    producers : tuple of str
        Names of the group instances that publish it; empty where outsiders feed the topic.
    user_source : bool
        True where the stream's own ``@source`` is read.
    """

    stream: str
    strategy: Strategy
    topic: str
    partitions: int
    key: str | None = None
    producers: tuple[str, ...] = ()
    user_source: bool = False

    def assigned(self, index: int, parallel: int) -> tuple[int, ...]:
        """Return the partitions that instance `index` (0-based) of `parallel` reads.

        ALL: every partition. Otherwise a contiguous share, the last instance taking the rest, as WSO2 does.
        """
        if self.strategy is Strategy.ALL:
            return tuple(range(self.partitions))
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
    """A stream that a group publishes: for other groups (`publishing`) and, with ``@sink``, for the world."""

    stream: str
    publishing: tuple[Publishing, ...] = ()
    user_sink: bool = False


@dataclass(frozen=True, slots=True)
class GroupInstance:
    """One copy of an execution group: name ``<App>-<group>-<i>`` with i from 1, and its SiddhiQL text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ExecutionGroup:
    """Queries that run together. ``name`` is ``<App>-<group>``; ``why`` says in a sentence why it is a group."""

    name: str
    parallel: int
    inputs: tuple[GroupInput, ...]
    outputs: tuple[GroupOutput, ...]
    instances: tuple[GroupInstance, ...]
    receiver: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic between groups, or one that outsiders feed or read."""

    name: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Topology:
    """All groups of an app in their order, and all topics they need."""

    app: str
    playback: bool
    groups: tuple[ExecutionGroup, ...]
    topics: tuple[Topic, ...]

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
                inputs=tuple(
                    AssignedInput(i.stream, i.topic, i.assigned(index, group.parallel), i.producers)
                    for i in group.inputs
                    if not i.user_source
                ),
                outputs=tuple(AssignedOutput(o.stream, o.publishing) for o in group.outputs if o.publishing),
            )
            for group in self.groups
            for index, instance in enumerate(group.instances)
        )

    def __str__(self) -> str:
        from spdist.planning.drawing import to_text

        return to_text(self)

    def _repr_html_(self) -> str:
        from spdist.planning.drawing import to_html

        return to_html(self)


@dataclass(frozen=True, slots=True)
class AssignedInput:
    """A stream that one instance reads: `partitions` of `topic`; `producers` as in `GroupInput`."""

    stream: str
    topic: str
    partitions: tuple[int, ...]
    producers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AssignedOutput:
    """A stream that one instance publishes."""

    stream: str
    publishing: tuple[Publishing, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """Everything a worker needs to run one group instance; crosses the wire as plain JSON (`to_dict`, `from_dict`)."""

    name: str
    app: str
    group: str
    text: str
    playback: bool
    inputs: tuple[AssignedInput, ...]
    outputs: tuple[AssignedOutput, ...]
    receiver: bool = False

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
            inputs=tuple(
                AssignedInput(i["stream"], i["topic"], tuple(i["partitions"]), tuple(i["producers"]))
                for i in data["inputs"]
            ),
            outputs=tuple(
                AssignedOutput(o["stream"], tuple(publishing(p) for p in o["publishing"])) for o in data["outputs"]
            ),
            receiver=data["receiver"],
        )
