"""The inputs of a group instance that runs as Spark Columns: it keeps none, so they are those that Kafka still holds.

Where the text that runs now began to read is known: what came before that another text, or an island, has processed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from spdist.config.allowed import Allowed
from spdist.engine.replay.columns_log import TopicMessage
from spdist.engine.shards.places import Place
from spdist.errors import NotFoundError
from spdist.planning.topology import Assignment
from spdist.runtime.kafka_inputs import UserSource, extents_of, user_sources
from spdist.runtime.realtime_checkpoints import Checkpoint, Checkpoints

__all__ = ["ColumnInputs", "RetainedPartition", "column_inputs", "read_messages"]

#: How long messages are gathered for one answer.
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class RetainedPartition:
    """Which messages of a partition are there.

    Parameters
    ----------
    begin : int
        Offset of the first one that Kafka still holds.
    first : int
        Of the first one that the text that runs now has read.
    end : int
        Of the next one that is sent.
    """

    begin: int
    first: int
    end: int

    @property
    def oldest(self) -> int:
        """Offset of the first message that is there and was read."""
        return max(self.begin, self.first)


@dataclass(frozen=True, slots=True)
class ColumnInputs:
    """What there is of the inputs of an instance.

    Parameters
    ----------
    assignment : Assignment
        What processes them.
    topics : mapping
        Of each topic the partitions that it reads, by their numbers.
    """

    assignment: Assignment
    topics: Mapping[str, Mapping[int, RetainedPartition]]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values; like `StoredInputs.to_dict`, with no files."""
        topics = {
            topic: {str(number): asdict(one) for number, one in partitions.items()}
            for topic, partitions in self.topics.items()
        }
        return {"layout": "", "assignment": self.assignment.to_dict(), "shards": [], "topics": topics}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ColumnInputs:
        """Rebuild it from `to_dict`."""
        topics = {
            str(topic): {
                int(number): RetainedPartition(int(one["begin"]), int(one["first"]), int(one["end"]))
                for number, one in partitions.items()
            }
            for topic, partitions in data["topics"].items()
        }
        return cls(Assignment.from_dict(data["assignment"]), topics)


def column_inputs(
    location: Place, instance: str, scripts: bool = False, allowed: Allowed | None = None
) -> ColumnInputs | None:
    """Return what there is of the inputs of a group instance; None where it does not run as Spark Columns.

    Parameters
    ----------
    location : Place
        Below which the states of all instances are.
    instance : str
        Its name.
    scripts : bool
        Whether functions that apps define in Python are known.
    allowed : Allowed, optional
        The secrets and files that the app may refer to; nothing by default.

    Raises
    ------
    TransportError
        A topic is not there.
    TransportUnavailableError
        The brokers do not answer.
    """
    found = Checkpoints(location, instance).newest()
    if found is None:
        return None
    begun = found.begun()
    topics: dict[str, dict[int, RetainedPartition]] = {}
    for source in _sources(found, scripts, allowed):
        for topic, partitions in extents_of(source.reads).items():
            first = begun.get(topic, {})
            topics.setdefault(topic, {}).update(
                {
                    number: RetainedPartition(begin, first.get(number, begin), end)
                    for number, (begin, end) in partitions.items()
                }
            )
    return ColumnInputs(found.assignment, topics)


def read_messages(
    location: Place,
    instance: str,
    place: tuple[str, int, int],
    most: int,
    scripts: bool = False,
    allowed: Allowed | None = None,
) -> list[TopicMessage]:
    """Return some messages that an instance of Spark Columns reads: as many as have `most` bytes, at least one.

    Parameters
    ----------
    location, instance, scripts, allowed
        As of `column_inputs`.
    place : (str, int, int)
        Topic, partition, and the offset of the first of them; where that is gone it is the next one that is there.
    most : int
        Of so many bytes together.

    Raises
    ------
    NotFoundError
        It does not run as Columns, or does not read this topic.
    TransportUnavailableError
        The brokers do not answer.
    """
    from spdist.connectors.kafka.link import KafkaTopics

    topic, partition, offset = place
    found = Checkpoints(location, instance).newest()
    sources = () if found is None else _sources(found, scripts, allowed)
    # Several sources may read a topic, each other partitions of it; without numbers one reads all
    mine = (one.reads for one in sources if topic in one.reads.topics)
    reads = next((one for one in mine if not one.partitions or partition in one.partitions), None)
    if reads is None:
        raise NotFoundError(f"{instance} does not read partition {partition} of topic '{topic}' now", hint="ask again")
    topics = KafkaTopics(reads.access)
    messages: list[TopicMessage] = []
    ends_s = time.monotonic() + _PATIENCE_S
    try:
        begin, end = topics.extents((topic,))[topic].get(partition, (0, 0))
        offset = max(begin, offset)
        while offset < end and most > 0 and time.monotonic() < ends_s:
            for at, sent, _, value in topics.messages(topic, partition, offset):
                if most > 0:
                    messages.append(TopicMessage(topic, partition, at, sent, value))
                    # One more, so that empty messages come to an end, too
                    most -= len(value) + 1
                    offset = at + 1
    finally:
        topics.close()
    return messages


def _sources(found: Checkpoint, scripts: bool, allowed: Allowed | None) -> tuple[UserSource, ...]:
    return user_sources(found.assignment, scripts, allowed)
