"""What group instances read from Kafka: topics between groups, and those of users.

A user's topic is known only to the text of the app; its partitions, and where reading begins in them, only to its
brokers. So both are looked up when the instance starts. Where reading begins the first time is kept in the state.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from spdist.config.allowed import Allowed
from spdist.config.sections import ScriptSettings, Transports
from spdist.connectors.receiving import now_ms
from spdist.engine.island.intake import Mapped
from spdist.engine.island.user_topics import kafka_sources, map_setting, mapped_topics, wants_keys
from spdist.engine.shards.layout import assignment_hash
from spdist.engine.shards.state import Positions
from spdist.engine.spark.query import QuerySettings
from spdist.errors import SpdistError, TransportError
from spdist.planning.compiled import CompiledInstance
from spdist.planning.topology import AssignedInput, Assignment
from spdist.runtime.shard_states import InstanceState
from spdist.runtime.waiting import when_available
from spdist.transports.base import Record, Transport
from spdist.transports.kafka.options import KafkaInput
from spdist.transports.kafka.transport import kafka_topic
from spdist.transports.opening import kafka_settings
from spdist.transports.options import options_of

if TYPE_CHECKING:
    from spdist.connectors.kafka.source import UserTopics

__all__ = [
    "KafkaReads",
    "ReadsFinder",
    "UserReader",
    "UserSource",
    "extents_of",
    "kafka_inputs",
    "reads_before",
    "reads_known",
    "user_sources",
]

log = logging.getLogger(__name__)


class KafkaSections(Protocol):
    """The sections of a node's settings that matter here."""

    @property
    def transports(self) -> Transports: ...

    @property
    def script(self) -> ScriptSettings: ...


#: By topic and partition the offset of the first message and that of the next one.
Extents = Mapping[str, Mapping[int, tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class UserSource:
    """A ``@source(type='kafka')`` of an instance.

    Parameters
    ----------
    into : AssignedInput
        The embedded topic of its stream.
    number : int
        Which of the Kafka sources of that stream, from 0.
    reads : UserTopics
        What its options say.
    keys : bool
        Whether its mapping looks at the keys of messages.
    among_equals : mapping of str to int
        By topic how many sources of the stream before it read that, too, where there are any.
    """

    into: AssignedInput
    number: int
    reads: UserTopics
    keys: bool
    among_equals: Mapping[str, int] = field(default_factory=dict)

    def alias(self, topic: str) -> str:
        """Return our name of a topic: several sources may read one, each with a mapping of its own.

        Another text of the app, with other sources in front, calls it so, too: by this name reading goes on.
        """
        return f"{self.into.topic}@{self.among_equals.get(topic, 0)}:{topic}"

    def assigned(self, topic: str, partitions: tuple[int, ...]) -> AssignedInput:
        """Return partitions of a topic as an input of the instance."""
        into = self.into
        return AssignedInput(
            into.stream, self.alias(topic), partitions, transport="kafka", into=into.topic, number=self.number
        )


@dataclass(frozen=True, slots=True)
class KafkaReads:
    """What instances that share a query read.

    Parameters
    ----------
    assignments : tuple of Assignment
        The instances, with the topics of users among their inputs.
    inputs : dict of str to KafkaInput
        By topic what is read.
    first : dict of str to Positions
        By instance where reading begins in partitions that its state does not know.
    """

    assignments: tuple[Assignment, ...]
    inputs: dict[str, KafkaInput]
    first: dict[str, Positions] = field(default_factory=dict)

    def assignment(self, name: str) -> Assignment:
        """Return an instance by its name."""
        return next(one for one in self.assignments if one.name == name)


def user_sources(
    assignment: Assignment, scripts: bool = False, allowed: Allowed | None = None
) -> tuple[UserSource, ...]:
    """Return the Kafka sources that an instance reads, in the order of the text.

    Parameters
    ----------
    assignment : Assignment
        The instance; its text says it.
    scripts : bool
        Whether functions that apps define in Python are known.
    allowed : Allowed, optional
        The secrets and files that the app may refer to; nothing by default.

    Raises
    ------
    SiddhiAppError
        An option is missing or wrong; shows where.
    """
    if "kafka" not in assignment.text:
        return ()
    instance = CompiledInstance.of(assignment, scripts)
    try:
        return tuple(_sources(instance, allowed))
    except SpdistError as error:
        error.text = error.text or assignment.text
        raise


def _sources(instance: CompiledInstance, allowed: Allowed | None) -> Iterator[UserSource]:
    # Kafka's client in Python takes its time to load: only where it is needed.
    from spdist.connectors.kafka.source import UserTopics

    assignment, checked = instance.assignment, instance.checked
    into = {one.stream: one for one in assignment.inputs if not one.producers and not one.drains}
    for stream, sources in kafka_sources(checked).items():
        before: Counter[str] = Counter()
        for number, source in enumerate(sources) if stream in into else ():
            reads = UserTopics.of(options_of(source, stream, allowed))
            keys = wants_keys(map_setting(checked, stream, source))
            yield UserSource(into[stream], number, reads, keys, dict(before))
            before.update(reads.topics)


def kafka_inputs(
    assignments: Sequence[Assignment],
    section: Transports,
    shares: Callable[[str], int],
    known: Mapping[str, Positions],
    scripts: bool = False,
    allowed: Allowed | None = None,
) -> KafkaReads:
    """Return what is read from Kafka.

    Parameters
    ----------
    assignments : sequence of Assignment
        What shares a query.
    section : Transports
        Where the brokers with the topics between groups are.
    shares : Callable
        Returns how many partitions an embedded topic has: so many instances share the partitions of the user's topics.
    known : mapping of str to Positions
        By instance where its state goes on.
    scripts : bool
        Whether functions that apps define in Python are known.
    allowed : Allowed, optional
        The secrets and files that apps may refer to; nothing by default.

    Raises
    ------
    TransportError
        Nothing says where Kafka is, or a topic or partition is not there.
    TransportUnavailableError
        The brokers of a user's topic do not answer.
    SiddhiAppError
        An option of a source is missing or wrong.
    """
    inputs = _between(assignments, section)
    first: dict[str, Positions] = {}
    made = []
    for assignment in assignments:
        sources = user_sources(assignment, scripts, allowed)
        added: list[AssignedInput] = []
        for source in sources:
            extents = extents_of(source.reads)
            settings = source.reads.settings
            for topic, partitions in extents.items():
                index, count = min(source.into.partitions), max(1, shares(source.into.topic))
                own = {number: extent for number, extent in partitions.items() if number % count == index % count}
                if not own:
                    continue
                alias = source.alias(topic)
                added.append(source.assigned(topic, tuple(own)))
                inputs[alias] = KafkaInput(settings, topic, users=True, keys=source.keys)
                begun = known.get(assignment.name, {}).get(alias)
                first.setdefault(assignment.name, {})[alias] = _first(source.reads, topic, own, begun)
        made.append(replace(assignment, inputs=(*assignment.inputs, *added)))
    return KafkaReads(tuple(made), inputs, first)


def reads_before(
    state: InstanceState,
    reads: KafkaReads,
    section: Transports,
    scripts: bool = False,
    allowed: Allowed | None = None,
) -> KafkaReads:
    """Return what the text that has made the state of an instance reads: `reads` where it is the present one.

    Of users' topics as far as the state knows them; no broker is asked.

    Parameters
    ----------
    state : InstanceState
        Of the instance.
    reads : KafkaReads
        What is read now.
    section : Transports
        Where the brokers with the topics between groups are.
    scripts : bool
        Whether functions that apps define in Python are known.
    allowed : Allowed, optional
        What apps may name of this node.
    """
    made_by = state.made_by()
    if assignment_hash(made_by) == assignment_hash(state.assignment):
        return reads
    return reads_known(made_by, state.positions(), section, scripts, allowed)


def reads_known(
    made_by: Assignment,
    known: Positions,
    section: Transports,
    scripts: bool = False,
    allowed: Allowed | None = None,
) -> KafkaReads:
    """Return what an instance reads, of users' topics as far as its state knows them: see `reads_before`."""
    inputs = _between([made_by], section)
    added = []
    for source in user_sources(made_by, scripts, allowed):
        for topic in source.reads.topics:
            if partitions := known.get(source.alias(topic)):
                added.append(source.assigned(topic, tuple(partitions)))
                inputs[source.alias(topic)] = KafkaInput(source.reads.settings, topic, users=True, keys=source.keys)
    return KafkaReads((replace(made_by, inputs=(*made_by.inputs, *added)),), inputs)


class ReadsFinder:
    """Finds what instances that share a query read from Kafka, and waits for brokers that do not answer.

    Parameters
    ----------
    name : str
        Of the instances together.
    states : sequence of InstanceState
        Where their states are.
    settings : KafkaSections
        Of the node.
    shares, allowed
        See `kafka_inputs`.
    """

    def __init__(
        self,
        name: str,
        states: Sequence[InstanceState],
        settings: KafkaSections,
        shares: Callable[[str], int],
        allowed: Allowed | None = None,
    ) -> None:
        #: Why nothing is read; None where all is well.
        self.problem: str | None = None
        self._name = name
        self._states = states
        self._settings = settings
        self._shares = shares
        self._allowed = allowed

    def find(self, ending: threading.Event) -> KafkaReads | None:
        """Return it; None where `ending` was set while no broker answered. Raises what `kafka_inputs` does."""
        assignments, settings = tuple(state.assignment for state in self._states), self._settings

        def read() -> KafkaReads:
            return kafka_inputs(
                assignments,
                settings.transports,
                self._shares,
                {state.assignment.name: state.begun() for state in self._states},
                settings.script.python_enabled,
                self._allowed,
            )

        return when_available(read, self._name, ending, self.tell)

    def tell(self, problem: str | None) -> None:
        """Take note of why nothing is read; None where all is well."""
        self.problem = problem


class UserReader:
    """Reads topics of users message by message, where that is wanted of a few; other topics are read as they are.

    Parameters
    ----------
    settings : QuerySettings
        Of the query that reads them.
    transport : Transport
        Of all other topics, and for what cannot be read.
    """

    def __init__(self, settings: QuerySettings, transport: Transport) -> None:
        self._settings = settings
        self._transport = transport
        self._mapped: dict[str, Mapped] | None = None

    def read(self, topic: str, partition: int, offset: int) -> list[Record]:
        """Return some records from `offset` on, of users' topics one for each message; see `Transport.read`."""
        users = self._settings.kafka.get(topic)
        if users is None or not users.users:
            return self._transport.read(topic, partition, offset)
        from spdist.connectors.kafka.link import KafkaAccess, KafkaTopics
        from spdist.transports.kafka.record_batches import FetchedMessages

        if self._mapped is None:
            self._mapped = mapped_topics(
                (shard.assignment for shard in self._settings.shards),
                {alias: one.name for alias, one in self._settings.kafka.items()},
                self._transport,
                self._settings.scripts,
            )
        access = KafkaAccess(tuple(users.settings.bootstrap_servers.split(",")), users.settings.properties)
        topics = KafkaTopics(access)
        found: list[Record] = []
        try:
            for at, sent, key, value in topics.messages(users.name, partition, offset):
                mapped = self._mapped[topic]
                messages = mapped.timely(FetchedMessages.of([(at, sent, value, key)]), now_ms())
                # A message without events needs a record all the same: by its offset reading goes on
                found += list(mapped.records(partition, messages)) or [Record(topic, partition, b"", 0, offset=at)]
        finally:
            topics.close()
        return found


def _between(assignments: Sequence[Assignment], section: Transports) -> dict[str, KafkaInput]:
    read = [one for assignment in assignments for one in assignment.inputs if one.transport == "kafka"]
    settings = kafka_settings(section) if read else None
    if read and settings is None:
        raise TransportError(
            f"topic {read[0].topic!r} is in Kafka, and nothing says where that is",
            hint="set transports.kafka.bootstrapServers",
        )
    return {one.topic: KafkaInput(settings, kafka_topic(one.topic), bool(one.producers)) for one in read if settings}


def extents_of(reads: UserTopics) -> Extents:
    """Return what is there of the partitions that a source reads."""
    from spdist.connectors.kafka.link import KafkaTopics

    topics = KafkaTopics(reads.access)
    try:
        found = topics.extents(reads.topics)
    finally:
        topics.close()
    return {topic: _chosen(reads, topic, partitions) for topic, partitions in found.items()}


def _chosen(reads: UserTopics, topic: str, partitions: Mapping[int, tuple[int, int]]) -> Mapping[int, tuple[int, int]]:
    where = f"at {', '.join(reads.access.servers)}"
    if not partitions:
        raise _missing(reads, "topic.list", f"there is no topic '{topic}' {where}", "create it first")
    if missing := [number for number in reads.partitions if number not in partitions]:
        told = f"topic '{topic}' {where} has no partition {missing[0]}"
        raise _missing(reads, "partition.no.list", told, f"it has {len(partitions)}, numbered from 0")
    return {number: partitions[number] for number in reads.partitions or partitions}


def _missing(reads: UserTopics, key: str, told: str, hint: str) -> TransportError:
    span = reads.options.spans.get(key) or reads.options.span
    return TransportError(f"{reads.options.what}: {told}", span=span, hint=hint)


def _first(
    reads: UserTopics, topic: str, extents: Mapping[int, tuple[int, int]], begun: Mapping[int, int] | None
) -> dict[int, int]:
    """Return where reading begins in each partition; one that was added since a state has begun is read from its start.

    Parameters
    ----------
    reads, topic
        The source and the topic.
    extents : mapping
        What is there.
    begun : mapping of int to int, optional
        Where states of the instance go on.
    """
    found = {}
    for number, (begin, end) in extents.items():
        if begun is None:
            found[number] = reads.first(topic, begin, end)
        elif number not in begun:
            found[number] = begin
        else:
            found[number] = max(begun[number], begin)
            if begun[number] > end:
                told = (
                    f"topic '{topic}' was made anew: it ends with message {end - 1}, and {begun[number] - 1} was read"
                )
                raise _missing(reads, "topic.list", told, "give the app a new name, or read another topic")
            if begun[number] < begin:
                log.warning(
                    "topic '%s' partition %d: messages %d to %d were deleted before %s has read them",
                    topic, number, begun[number], begin - 1, reads.options.what,
                )  # fmt: skip
    return found
