"""Kafka for sinks and sources of users that Spark does not serve: a writer, and a reader that keeps no positions."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from spdist.errors import TransportError, TransportUnavailableError
from spdist.transports.kafka_options import python_options
from spdist.transports.options import Options

__all__ = ["KafkaAccess", "KafkaMessage", "KafkaReader", "KafkaWriter"]

# It tells of every connection that is not there; what comes of it is ours to say.
_log = logging.getLogger("kafka")

_PATIENCE_MS = 10_000
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


@dataclass(frozen=True, slots=True)
class KafkaMessage:
    """A message that was read."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    timestamp: int


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


class KafkaReader:
    """Reads partitions of topics from positions that its user keeps.

    Parameters
    ----------
    access : KafkaAccess
        Where from.
    """

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._consumer: KafkaConsumer | None = None
        self._sought = False

    def ends(self, topics: Sequence[str], *, first: bool) -> dict[tuple[str, int], int]:
        """Return where each partition of some topics ends, or begins with `first`.

        Raises
        ------
        TransportError
            A topic is not there, or the brokers do not answer.
        """
        consumer = self._connected()
        try:
            places = []
            for topic in topics:
                found = consumer.partitions_for_topic(topic)
                if not found:
                    raise TransportUnavailableError(f"there is no topic '{topic}' on Kafka yet")
                places += [TopicPartition(topic, number) for number in sorted(found)]
            ends = consumer.beginning_offsets(places) if first else consumer.end_offsets(places)
        except (KafkaError, OSError) as error:
            raise self._lost(error) from error
        return {(place.topic, place.partition): end for place, end in ends.items()}

    def seek(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Read these partitions from now on, from there."""
        consumer = self._connected()
        try:
            places = {TopicPartition(*place): offset for place, offset in positions.items()}
            consumer.assign(list(places))
            for place, offset in places.items():
                consumer.seek(place, offset)
            self._sought = True
        except (KafkaError, OSError) as error:
            raise self._lost(error) from error

    def poll(self, wait_ms: int, most: int) -> list[KafkaMessage]:
        """Return the next messages, of each partition in order; none where none come within `wait_ms`."""
        try:
            found = self._connected().poll(timeout_ms=wait_ms, max_records=most)
        except (KafkaError, OSError) as error:
            raise self._lost(error) from error
        return [
            KafkaMessage(one.topic, one.partition, one.offset, one.key, one.value or b"", one.timestamp)
            for messages in found.values()
            for one in messages
        ]

    @property
    def placed(self) -> bool:
        """Whether `seek` holds; it must be called first, and again after an error."""
        return self._consumer is not None and self._sought

    def close(self) -> None:
        """Close the connections; the next call opens them again."""
        consumer, self._consumer, self._sought = self._consumer, None, False
        if consumer is not None:
            consumer.close()

    def _connected(self) -> KafkaConsumer:
        if self._consumer is None:
            try:
                self._consumer = KafkaConsumer(
                    enable_auto_commit=False,
                    auto_offset_reset="none",
                    isolation_level="read_committed",
                    allow_auto_create_topics=False,
                    **self._access.arguments(),
                )
            except (KafkaError, OSError) as error:
                raise TransportUnavailableError(self._access.told(error)) from error
        return self._consumer

    def _lost(self, error: Exception) -> TransportError:
        self.close()
        return TransportUnavailableError(self._access.told(error))
