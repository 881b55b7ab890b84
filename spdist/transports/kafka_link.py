"""Kafka for what Spark does not do for the sinks and sources of users: a writer, and a look at topics."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from spdist.errors import TransportError, TransportUnavailableError
from spdist.transports.kafka_options import KafkaSettings, python_options
from spdist.transports.options import Options

__all__ = ["KafkaAccess", "KafkaTopics", "KafkaWriter", "answering", "partitions_of"]

# It tells of every connection that is not there; what comes of it is ours to say.
_log = logging.getLogger("kafka")

_PATIENCE_MS = 10_000
#: How long to look for a topic that may not be there.
_LOOK_MS = 3_000
_PAIR = re.compile(r"\s*([^:,\s]+)\s*:\s*([^,]*)")


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """Where the brokers are.

    Parameters
    ----------
    servers : tuple of str
        ``bootstrap.servers``.
    properties : dict of str to str
        ``optional.configuration='k:v,k:v'``: settings of Kafka's clients with their Java names.
    """

    servers: tuple[str, ...]
    properties: dict[str, str]

    @classmethod
    def of(cls, read: Options) -> KafkaAccess:
        """Read the options of a source or sink; raises AppValidationError where one is wrong."""
        written = read.needed("bootstrap.servers", "localhost:9092")
        servers = tuple(one.strip() for one in written.split(",") if one.strip())
        properties = {name: value.strip() for name, value in _PAIR.findall(read.text("optional.configuration"))}
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
        return f"Kafka at {', '.join(self.servers)}: {type(error).__name__} {error}".rstrip()


class KafkaWriter:
    """Sends messages in order, each confirmed by all copies that are in step.

    Parameters
    ----------
    access : KafkaAccess
        Where to.
    """

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._producer: KafkaProducer | None = None

    def send(
        self, messages: Sequence[tuple[str, int | None, bytes | None, bytes, Mapping[str, str]]]
    ) -> tuple[int, str | None]:
        """Send topic, partition (None for the producer's choice), key, value and headers of each.

        Returns
        -------
        int, str or None
            How many were certainly taken, and what stopped the next one.
        """
        done = 0
        try:
            if self._producer is None:
                self._producer = KafkaProducer(
                    acks="all",
                    enable_idempotence=True,
                    max_in_flight_requests_per_connection=1,
                    max_block_ms=_PATIENCE_MS,
                    **self._access.arguments(producer=True),
                )
            futures = [
                self._producer.send(
                    topic,
                    value,
                    key=key,
                    partition=partition,
                    headers=[(name, text.encode()) for name, text in headers.items()],
                )
                for topic, partition, key, value, headers in messages
            ]
            self._producer.flush(timeout=2 * _PATIENCE_MS / 1000)
            for future in futures:
                future.get(timeout=_PATIENCE_MS / 1000)
                done += 1
        except (KafkaError, OSError, AssertionError) as error:
            self.close()
            return done, self._access.told(error)
        return done, None

    def close(self) -> None:
        """Close the connections; the next call opens them again."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(timeout=1)


class KafkaTopics:
    """Looks at the topics of users: what partitions they have, where those begin and end.

    Parameters
    ----------
    access : KafkaAccess
        Where the brokers are.
    """

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
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
            begins, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
        except (KafkaError, OSError) as error:
            self.close()
            raise TransportUnavailableError(self._access.told(error)) from error
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
            if consumer.end_offsets([place])[place] <= offset:
                return []
            found = consumer.poll(timeout_ms=_PATIENCE_MS).get(place, ())
        except (KafkaError, OSError) as error:
            self.close()
            raise TransportUnavailableError(self._access.told(error)) from error
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
                isolation_level="read_committed",
                allow_auto_create_topics=False,
                **self._access.arguments(),
            )
        return self._consumer


def partitions_of(settings: KafkaSettings, topics: Iterable[str]) -> dict[str, int]:
    """Return the numbers of partitions of those topics that are there; brokers that make topics by themselves do so.

    Brokers that do not answer have none.
    """
    access = KafkaAccess(tuple(settings.bootstrap_servers.split(",")), settings.properties)
    found: dict[str, int] = {}
    try:
        producer = KafkaProducer(max_block_ms=_LOOK_MS, **access.arguments(producer=True))
    except (KafkaError, OSError):
        return found
    try:
        for topic in topics:
            with contextlib.suppress(KafkaError, OSError, AssertionError):
                found[topic] = len(producer.partitions_for(topic) or ())
    finally:
        producer.close(timeout=1)
    return {topic: count for topic, count in found.items() if count}


def answering(servers: str, timeout_s: float) -> bool:
    """Tell whether one of the brokers ``host:port``, with commas between them, takes a connection."""
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        with (
            contextlib.suppress(OSError, ValueError),
            socket.create_connection((host.strip("[]"), int(port)), timeout_s),
        ):
            return True
    return False
