"""Topics in a Kafka cluster: each of ours is one of Kafka's, a record is a message.

The value of a message is the payload. Next to it, as headers in text: ``spdist-producer``, ``spdist-seq``,
``spdist-count`` and ``spdist-clock``. A message without them comes from outsiders: one payload, numbered by nobody.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from spdist.errors import TransportError, TransportUnavailableError
from spdist.transports.base import Record
from spdist.transports.kafka.offsets import begins_of, ends_of
from spdist.transports.kafka.options import KafkaSettings, python_options
from spdist.transports.kafka.zookeeper import bootstrap_servers
from spdist.transports.names import plain_name
from spdist.transports.payloads.headers import CLOCK, COUNT, PRODUCER, SEQ, outsiders_record, read_numbers
from spdist.transports.topics import check_name, check_offset, check_partition, check_partitions, replaced

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

__all__ = ["KafkaTransport", "headers_of", "kafka_topic", "read_headers", "unanswered"]

T = TypeVar("T")

_MAX_NAME = 249
#: Largest message that we send; topics that we make allow it.
_MAX_MESSAGE_BYTES = 32 * 1024 * 1024
#: Bytes that wait for one request; with less, records of a busy partition cost a round trip each.
_BATCH_BYTES = 512 * 1024
_FETCH_BYTES = 8 * 1024 * 1024
_REQUEST_TIMEOUT_MS = 10_000
_FOR_EVER_MS = 2**31 - 1
#: What a topic of ours is kept like. Kafka deletes by the time of messages, which here is the time of events: it may be
#: years ago.
_TOPIC_CONFIGS = {
    "retention.ms": "-1",
    "cleanup.policy": "delete",
    "max.message.bytes": str(_MAX_MESSAGE_BYTES),
    "message.timestamp.type": "CreateTime",
}
_OURS = frozenset({PRODUCER, SEQ, COUNT, CLOCK})


class KafkaTransport:
    """The topics of one Kafka cluster; implements `spdist.transports.base.Transport`.

    An append is not atomic over its records: where it fails or its process dies, those of a partition that had come
    before stay, and never one without those before it. Whoever appends the same records with the same ids again
    completes it, since readers drop repeats by their ids.

    Parameters
    ----------
    settings : KafkaSettings
        Where the brokers are.

    Notes
    -----
    Thread-safe. A copy that a forked process inherits opens connections of its own. Nothing is connected before the
    first call. All calls wait for at most `KafkaSettings.patience_ms` where no broker answers.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._counts: dict[str, int] = {}
        self._admin: KafkaAdminClient | None = None
        self._producer: KafkaProducer | None = None
        self._consumer: KafkaConsumer | None = None

    def __reduce__(self) -> tuple[type[KafkaTransport], tuple[KafkaSettings]]:
        """Leave connections behind: a copy in another process opens its own."""
        return KafkaTransport, (self.settings,)

    # --------------------------------------------------------------------------------------------------------- topics
    def ensure(self, topic: str, partitions: int, subjects: Sequence[str] = ()) -> int:
        """Create `topic`, or grow it to `partitions`; return its number of partitions.

        Raises
        ------
        TransportError
            The name or the number cannot be, or the brokers refuse.
        """
        from kafka import errors

        check_partitions(topic, partitions)
        name = kafka_topic(topic)
        with self._lock:
            known = self.partitions_of(name)  # asked of the brokers: another process may have changed it
            try:
                if known == 0:
                    wanted = {name: _new_topic(partitions, self.settings.replication)}
                    self._ask(lambda admin: admin.create_topics(wanted, wait_for_metadata=True))
                elif known < partitions:
                    self._ask(lambda admin: admin.create_partitions({name: partitions}))
            except TransportError as error:
                # Somebody else was faster; the loop below sees what they made.
                if not isinstance(error.__cause__, errors.TopicAlreadyExistsError | errors.InvalidPartitionsError):
                    raise
                if known == 0:
                    return self.ensure(topic, partitions)
            return self._known_after(topic, partitions)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of `topic`, 0 where it does not exist."""
        with self._lock:
            count = self._counts[topic] = self.partitions_of(kafka_topic(topic))
            return count

    def partitions_of(self, name: str) -> int:
        """Return the number of partitions of a topic as Kafka calls it, 0 where it does not exist."""
        return self._ask(lambda admin: _count(admin, name))

    # --------------------------------------------------------------------------------------------------------- writing
    def append(self, records: Sequence[Record]) -> None:
        """Append `records` durably: all copies that are in step have them when this returns.

        Raises
        ------
        TransportUnavailableError
            The brokers did not confirm in time; append the same records again.
        TransportError
            A topic or partition is not there or a record is too large (then nothing was appended), or the brokers
            refuse a record (then none of its partition after it was appended).
        """
        for record in records:
            self._check(record.topic, record.partition)
            if len(record.value) > _MAX_MESSAGE_BYTES // 2:
                # Before the first one is sent: a record that can never be taken leaves nothing half done.
                raise TransportError(f"a record of {len(record.value)} bytes is too large for topic {record.topic!r}")
        if records:
            with self._lock:
                self._send(records)

    def _send(self, records: Sequence[Record]) -> None:
        """Send, and wait until all are confirmed; the first that is not ends the producer with all that follow it."""
        producer = self._producing()
        deadline = time.monotonic() + self.settings.patience_ms / 1000
        now = int(time.time() * 1000)
        sent = []
        try:
            for record in records:
                future = producer.send(
                    kafka_topic(record.topic),
                    record.value,
                    headers=headers_of(record),
                    partition=record.partition,
                    # Brokers refuse times in the future.
                    timestamp_ms=min(record.clock, now) if record.clock >= 0 else now,
                )
                # Called by the sending thread before it sends anything else: so there are no gaps in a partition.
                future.add_errback(lambda _: producer._sender.force_close())
                sent.append(future)
            for future in sent:
                future.get(timeout=max(0.001, deadline - time.monotonic()))
        except Exception as error:
            producer, self._producer = self._producer, None
            _drop(producer)
            topics = ", ".join(sorted({record.topic for record in records}))
            raise _told(error, f"appending to {topics}", self.settings) from error

    # --------------------------------------------------------------------------------------------------------- reading
    def read(self, topic: str, partition: int, offset: int, limit: int = 1000) -> list[Record]:
        """Return up to `limit` records of a partition from `offset` on.

        Raises
        ------
        TransportError
            Records from `offset` on were deleted by the brokers; 0 stands for the oldest that is kept.
        """
        from kafka import TopicPartition

        self._check(topic, partition)
        place = TopicPartition(kafka_topic(topic), partition)
        with self._lock:
            return self.reading(lambda consumer: self._fetch(consumer, place, topic, offset, limit))

    def _fetch(self, consumer: KafkaConsumer, place: Any, topic: str, offset: int, limit: int) -> list[Record]:
        from kafka.errors import OffsetOutOfRangeError

        end = ends_of(consumer, [place], self.settings.patience_ms, lambda: self._is_there(topic))[place]
        check_offset(topic, place.partition, offset, end)
        if offset <= 0:
            offset = begins_of(consumer, [place], self.settings.patience_ms)[place]
        if offset >= end or limit <= 0:
            return []
        # A seek throws away what was fetched ahead.
        if consumer.assignment() != {place} or consumer.position(place) != offset:
            consumer.assign([place])
            consumer.seek(place, offset)
        found: list[Record] = []
        deadline = time.monotonic() + self.settings.patience_ms / 1000
        while len(found) < limit and consumer.position(place) < end:
            try:
                messages = consumer.poll(timeout_ms=200, max_records=limit - len(found)).get(place, ())
            except OffsetOutOfRangeError as error:
                start = begins_of(consumer, [place], self.settings.patience_ms)[place]
                raise TransportError(
                    f"topic {topic!r} partition {place.partition}: records {offset} to {start - 1} were deleted",
                    hint="Kafka keeps them for retention.ms and retention.bytes of the topic",
                ) from error
            found += [_record(topic, message) for message in messages]
            if not messages and time.monotonic() > deadline:
                raise TransportUnavailableError(f"{_where(self.settings)} sends nothing of topic {topic!r}", hint=_HINT)
        return found

    def identity(self, topic: str) -> str:
        """Return the id that the brokers have given the topic (KIP-516); empty where they are older than Kafka 2.8."""
        self._check(topic, 0)
        with self._lock:
            (found,) = self._ask(lambda admin: admin.describe_topics([kafka_topic(topic)]))
        if found["error_code"]:
            raise replaced(topic)
        return str(found.get("topic_id") or "")

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return for each partition the offset that the next record will get."""
        from kafka import TopicPartition

        self._check(topic, 0)
        places = [TopicPartition(kafka_topic(topic), n) for n in range(self.partitions(topic))]
        with self._lock:
            found = self.reading(
                lambda consumer: ends_of(consumer, places, self.settings.patience_ms, lambda: self._is_there(topic))
            )
        return {place.partition: end for place, end in found.items()}

    def close(self) -> None:
        """Close all connections; the next call opens them again."""
        with self._lock:
            self._leave_parent()
            clients = [self._producer, self._consumer, self._admin]
            self._forget()
        for client in clients:  # outside of the lock, as it takes a while
            if client is not None:
                client.close()

    # ------------------------------------------------------------------------------------------------------- internals
    def _is_there(self, topic: str) -> None:
        if not self.partitions(topic):
            raise replaced(topic)

    def _forget(self) -> None:
        self._pid, self._counts = os.getpid(), {}
        self._admin = self._producer = self._consumer = None

    def _leave_parent(self) -> None:
        """Forget connections that a fork has copied: they are the parent's."""
        if self._pid != os.getpid():
            self._forget()

    def _check(self, topic: str, partition: int) -> None:
        if partition < self._counts.get(topic, 0) and self._pid == os.getpid() and partition >= 0:
            return
        check_partition(topic, partition, self.partitions(topic), _where(self.settings))

    def _known_after(self, topic: str, partitions: int) -> int:
        """Wait until the brokers tell of the new partitions with their leaders, and return their number."""
        name = kafka_topic(topic)
        deadline, pace = time.monotonic() + self.settings.patience_ms / 1000, threading.Event()
        while True:
            self._ask(lambda admin: admin.wait_for_topics([name], timeout_ms=self.settings.patience_ms))
            if self.partitions(topic) >= partitions or time.monotonic() > deadline:
                return self._counts[topic]
            pace.wait(0.05)

    def _ask(self, call: Callable[[KafkaAdminClient], T]) -> T:
        from kafka import KafkaAdminClient, errors

        self._leave_parent()
        used, self._admin = self._admin is not None, self._admin or self._open(KafkaAdminClient)
        try:
            return call(self._admin)
        except Exception as error:
            told = _told(error, "asking", self.settings)
            if isinstance(told, TransportUnavailableError):  # a new one looks for the brokers patiently
                admin, self._admin = self._admin, None
                admin.close()
            if not (used and isinstance(error, errors.NodeNotReadyError)):  # lost since it was used last
                raise told from error
        return self._ask(call)

    def reading(self, call: Callable[[KafkaConsumer], T]) -> T:
        """Return what somebody asks the brokers, who reads what is committed; what goes wrong is one of our errors."""
        from kafka import KafkaConsumer

        self._leave_parent()
        if self._consumer is None:
            self._consumer = self._open(
                KafkaConsumer,
                doing="reading",
                enable_auto_commit=False,
                auto_offset_reset="none",
                isolation_level="read_committed",
                max_partition_fetch_bytes=_FETCH_BYTES,
                allow_auto_create_topics=False,
            )
        try:
            return call(self._consumer)
        except Exception as error:
            told = _told(error, "reading", self.settings)
            if isinstance(told, TransportUnavailableError):  # one whose task for metadata has failed stays as it is
                consumer, self._consumer = self._consumer, None
                consumer.close()
            raise told from (error.__cause__ if told is error else error)

    def _producing(self) -> KafkaProducer:
        from kafka import KafkaProducer

        self._leave_parent()
        if self._producer is None:
            self._producer = self._open(
                KafkaProducer,
                producer=True,
                acks="all",
                enable_idempotence=True,
                # One request at a time, and no other where one fails for good: else a later record could come without
                # an earlier one, whose repeat readers would then drop.
                max_in_flight_requests_per_connection=1,
                delivery_timeout_ms=_FOR_EVER_MS,
                batch_size=_BATCH_BYTES,
                max_request_size=_MAX_MESSAGE_BYTES,
                max_block_ms=self.settings.patience_ms,
                allow_auto_create_topics=False,
            )
        return self._producer

    def _open(self, client: Callable[..., T], *, producer: bool = False, doing: str = "connecting", **ours: Any) -> T:
        # It tells of every connection that is not there; what comes of it is ours to say.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        servers = [one.strip() for one in bootstrap_servers(self.settings).split(",") if one.strip()]
        options = {
            "bootstrap_servers": servers,
            "bootstrap_timeout_ms": self.settings.patience_ms,
            "request_timeout_ms": min(_REQUEST_TIMEOUT_MS, self.settings.patience_ms),
            "reconnect_backoff_max_ms": 1000,
            **ours,
            **python_options(self.settings.properties, producer=producer),
        }
        try:
            return client(**options)
        except Exception as error:
            raise _told(error, doing, self.settings) from error


_HINT = "is the broker running, and is this its address? spdist goes on where it was once it answers again"


def _drop(producer: KafkaProducer | None) -> None:
    if producer is not None:
        producer._sender.force_close()  # close() waits for what cannot be sent
        producer._sender.join(_REQUEST_TIMEOUT_MS / 1000)
        producer.close(timeout=1)


def _count(admin: KafkaAdminClient, name: str) -> int:
    from kafka import errors

    (found,) = admin.describe_topics([name])
    if found["error_code"] == errors.UnknownTopicOrPartitionError.errno:
        return 0
    if found["error_code"]:
        raise errors.for_code(found["error_code"])(name)
    return len(found["partitions"])


def _new_topic(partitions: int, replication: int) -> dict[str, Any]:
    return {"num_partitions": partitions, "replication_factor": replication, "configs": dict(_TOPIC_CONFIGS)}


def _told(error: Exception, doing: str, settings: KafkaSettings) -> TransportError:
    """Return an error of the Python client as one of ours."""
    from kafka import errors

    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    where = _where(settings)
    # Raised within a call to the client, for example by `look`: it is worded already.
    if isinstance(error, TransportError):
        return error
    if isinstance(error, errors.RetriableError | errors.IllegalStateError | OSError):
        return unanswered(settings, doing, what)
    if isinstance(error, errors.SaslAuthenticationFailedError | errors.AuthorizationError):
        return TransportError(f"{where} refuses while {doing}: {what}", hint="see transports.kafka.properties")
    return TransportError(f"{where} failed while {doing}: {what}")


def unanswered(settings: KafkaSettings, doing: str, told: str) -> TransportUnavailableError:
    """Return the error for brokers that do not answer, given what was done and what the client says."""
    # The clients do not tell a refused login from a broker that is not there.
    secured = settings.properties.get("security.protocol", "PLAINTEXT").upper() != "PLAINTEXT"
    hint = f"are name, password and certificates in the properties right? {_HINT}" if secured else _HINT
    return TransportUnavailableError(f"{_where(settings)} does not answer while {doing} ({told})", hint=hint)


def _where(settings: KafkaSettings) -> str:
    return f"Kafka at {settings.bootstrap_servers or f'the brokers of ZooKeeper {settings.zookeeper_urls}'}"


def kafka_topic(topic: str) -> str:
    """Return the name that `topic` has in Kafka, which allows ASCII letters, digits and ``._-`` only."""
    check_name(topic)
    name = plain_name(topic, also=".")
    if name in (".", ".."):
        name = name.replace(".", "-u2e-")
    if len(name) > _MAX_NAME:
        raise TransportError(f"{topic!r} cannot be the name of a topic", hint=f"Kafka allows {_MAX_NAME} letters")
    return name


def headers_of(record: Record) -> list[tuple[str, bytes]]:
    """Return the headers of a record's message."""
    said = {PRODUCER: record.producer, SEQ: record.seq, COUNT: record.count, CLOCK: record.clock}
    return [(name, str(value).encode()) for name, value in said.items()]


def read_headers(headers: Iterable[tuple[str, bytes | None]]) -> tuple[str, int, int, int] | None:
    """Return producer, seq, count and clock of a message; see `spdist.transports.payloads.headers.read_numbers`."""
    # Letters that are no UTF-8 are an outsider's, too.
    said = {name: (text or b"").decode(errors="replace") for name, text in headers if name in _OURS}
    return read_numbers(said)


def _record(topic: str, message: Any) -> Record:
    value = message.value or b""
    numbers = read_headers(message.headers)
    if numbers is None:
        return outsiders_record(topic, message.partition, value, message.timestamp, message.offset)
    producer, seq, count, clock = numbers
    return Record(topic, message.partition, value, count, producer, seq, clock, message.offset)
