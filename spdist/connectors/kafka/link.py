"""Kafka for what Spark does not do for the sources and sinks of users: what they are told, and a look at topics."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from spdist.errors import TransportError, TransportUnavailableError
from spdist.transports.kafka.offsets import begins_of, ends_of
from spdist.transports.kafka.options import app_properties, python_options
from spdist.transports.options import Options

__all__ = ["KafkaAccess", "KafkaTopics", "create_topics"]

# It tells of every connection that is not there; what comes of it is ours to say.
_log = logging.getLogger("kafka")

_PATIENCE_MS = 10_000
#: How long to look for a topic that may not be there.
_LOOK_MS = 3_000


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """Where the brokers are.

    Parameters
    ----------
    servers : tuple of str
        ``bootstrap.servers``.
    properties : dict of str to str
        ``optional.configuration='k:v,k:v'``, see `app_properties`; not shown, as passwords may be among them.
    """

    servers: tuple[str, ...]
    properties: dict[str, str] = field(repr=False)

    @classmethod
    def of(cls, read: Options) -> KafkaAccess:
        """Read the options of a source or sink; raises AppValidationError where one is wrong."""
        written = read.needed("bootstrap.servers", "localhost:9092")
        servers = tuple(one.strip() for one in written.split(",") if one.strip())
        properties = app_properties(read)
        try:
            python_options(properties)
        except TransportError as error:
            raise read.wrong("optional.configuration", f"cannot be used: {error.message}", error.hint) from error
        return cls(servers, properties)

    def arguments(self, *, producer: bool = False) -> dict[str, Any]:
        """Return what clients are made with."""
        _log.setLevel(logging.CRITICAL)
        return {
            "bootstrap_servers": list(self.servers),
            "bootstrap_timeout_ms": _PATIENCE_MS,
            "request_timeout_ms": _PATIENCE_MS,
            **python_options(self.properties, producer=producer),
        }

    def told(self, error: Exception) -> str:
        """Word an error of a client."""
        return f"Kafka at {', '.join(self.servers)}: {_worded(error)}"

    def away(self, error: Exception) -> TransportUnavailableError:
        """Return the error for brokers that do not answer, with what to do about it."""
        return TransportUnavailableError(
            f"Kafka at {', '.join(self.servers)} does not answer: {_worded(error)}",
            hint="is a broker up there, and is bootstrap.servers right? `spdist services up kafka` runs one here",
        )


def _worded(error: Exception) -> str:
    kind = type(error).__name__
    # What the client says begins with the name of the class, too.
    said = str(error).removeprefix(kind).lstrip(": ").rstrip()
    return f"{kind}: {said}" if said else kind


def create_topics(servers: str, topics: Mapping[str, int]) -> None:
    """Create topics, or see that they are there.

    Parameters
    ----------
    servers : str
        ``bootstrap.servers``.
    topics : mapping of str to int
        Number of partitions by name.

    Raises
    ------
    TransportError
        The brokers do not take a topic: its name, or that there is one with fewer partitions.
    TransportUnavailableError
        They do not answer.
    """
    access = KafkaAccess(tuple(servers.split(",")), {})
    looking = KafkaTopics(access)
    try:
        there = {name: len(partitions) for name, partitions in looking.extents(tuple(topics)).items()}
        if few := [name for name, count in topics.items() if 0 < there[name] < count]:
            raise TransportError(f"topic '{few[0]}' has {there[few[0]]} partitions already", hint="choose another name")
        missing = {
            name: {"num_partitions": count, "replication_factor": -1}
            for name, count in topics.items()
            if not there[name]
        }
        if missing:
            admin = KafkaAdminClient(**access.arguments())
            try:
                admin.create_topics(missing)
            finally:
                admin.close()
    except TransportError:
        raise
    except (KafkaError, OSError) as error:
        raise TransportError(access.told(error)) from error
    finally:
        looking.close()


class KafkaTopics:
    """Looks at the topics of users: what partitions they have, where those begin and end.

    Parameters
    ----------
    access : KafkaAccess
        Where the brokers are.
    creates : bool
        Whether brokers that create topics by themselves are to create one that is asked for.
    """

    def __init__(self, access: KafkaAccess, *, creates: bool = False) -> None:
        self._access = access
        self._creates = creates
        self._consumer: KafkaConsumer | None = None

    def extents(self, topics: Sequence[str]) -> dict[str, dict[int, tuple[int, int]]]:
        """Return for each partition of some topics the offset of its first message and that of its next one.

        A topic that is not there has no partitions.

        Raises
        ------
        TransportUnavailableError
            The brokers do not answer.
        """
        try:
            consumer = self._connected()
            places = [
                TopicPartition(topic, number)
                for topic in topics
                for number in sorted(consumer.partitions_for_topic(topic) or ())
            ]
            begins, ends = begins_of(consumer, places, _PATIENCE_MS), ends_of(consumer, places, _PATIENCE_MS)
        except (KafkaError, OSError) as error:
            # A client whose connection has failed may stay as it is: the next call makes a new one.
            self.close()
            raise self._access.away(error) from error
        found: dict[str, dict[int, tuple[int, int]]] = {topic: {} for topic in topics}
        for place in places:
            found[place.topic][place.partition] = (begins[place], ends[place])
        return found

    def messages(self, topic: str, partition: int, offset: int) -> list[tuple[int, int, bytes | None, bytes]]:
        """Return offset, time in ms, key and value of some messages from `offset` on; none where there are none.

        Raises
        ------
        TransportUnavailableError
            The brokers do not answer.
        """
        place = TopicPartition(topic, partition)
        try:
            consumer = self._connected()
            consumer.assign([place])
            consumer.seek(place, offset)
            if ends_of(consumer, [place], _PATIENCE_MS)[place] <= offset:
                return []
            found = consumer.poll(timeout_ms=_PATIENCE_MS).get(place, ())
        except (KafkaError, OSError) as error:
            self.close()
            raise self._access.away(error) from error
        return [(one.offset, one.timestamp, one.key, one.value or b"") for one in found]

    def close(self) -> None:
        """Close the connections; the next call opens them again."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _connected(self) -> KafkaConsumer:
        if self._consumer is None:
            self._consumer = KafkaConsumer(
                enable_auto_commit=False,
                # Ends are those of the readers, which see committed messages only (`KafkaFetcher`).
                isolation_level="read_committed",
                allow_auto_create_topics=self._creates,
                **self._access.arguments(),
            )
        return self._consumer
