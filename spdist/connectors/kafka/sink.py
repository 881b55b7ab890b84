"""``@sink(type='kafka')``: a message for each payload, with its id in the header ``spdist-id``.

A message that is sent again after a failure has the same id, and goes to the same partition: whoever must not see one
twice drops repeats by their ids.

A batch of some thousand messages is made and sent as one thing (`spdist.connectors.kafka.records`, `aiokafka`): a
message with its id costs less than half a microsecond. Each batch is confirmed by all copies that are in step. The
producer is idempotent and has one batch of a partition on its way, while the next waits for that and others are made,
so messages of a partition stay in their order, and none is doubled as long as it lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from itertools import count
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    CorruptRecordException,
    InvalidTopicError,
    KafkaError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
)
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.types import Int16, Int32, String
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from crc32c import crc32c

from spdist.connectors.kafka.compression import Compression
from spdist.connectors.kafka.link import KafkaAccess
from spdist.connectors.kafka.records import (
    OutgoingMessages,
    PartitionMessages,
    SentBatch,
    batches,
    behind,
    messages_of,
)
from spdist.connectors.sending import SendError, SinkContext
from spdist.errors import TransportError
from spdist.java.numbers import whole_number
from spdist.transports.delivery import KEEPS_EVENTS, Delivery, on_error_of
from spdist.transports.kafka.options import asyncio_options
from spdist.transports.loops import end_other_tasks
from spdist.transports.options import Options

__all__ = ["KafkaSink", "KafkaWriter", "Refused", "open_sink"]

# It tells of every connection that is not there; what comes of it is ours to say.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

#: Bytes of a batch, where ``batch.size`` says nothing: little below what brokers take where nobody says more. As one
#: batch waits for the one before, large ones send twice as fast as those of a quarter.
_BATCH_BYTES = 900 << 10
#: Batches of a partition that may be with the client, which sends one of them at a time, when one more is given to it.
_WAITING = 1
_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
#: What lies in a message, and trying again does not change.
_REFUSED = (*_TOO_LARGE, CorruptRecordException, InvalidTopicError, PolicyViolationError)
_CHECKSUM = struct.Struct(">I")
_NAME = String("utf-8")
_END_S = 2.0
#: How long to look for a topic that may not be there.
_LOOK_S = 3.0
#: How long brokers are waited for where nothing says it: ``delivery.timeout.ms``, and where the events can be kept.
_PATIENCE_MS, _KEPT_PATIENCE_MS = 3_600_000, 10_000
#: How long sending may take before the status says so; between two looks; between two tries: s.
_LONG_S, _SLICE_S, _AGAIN_S = 5.0, 0.1, 0.5


class KafkaSink:
    """Sends messages to the topic in ``topic``.

    While no broker takes them it waits, and says so, as long as ``delivery.timeout.ms`` says, an hour by default; where
    ``on.error`` keeps the events, ten seconds. After that, ``on.error`` decides.

    Parameters
    ----------
    options : mapping of str to str
        ``bootstrap.servers``, ``topic``; ``partition.no`` (without it the key chooses, or they take turns), ``key``,
        ``optional.configuration``.
    context : SinkContext
        Whether to stop waiting, and who is told; the secrets and files that the app may refer to.

    State
    -----
    A connection.
    """

    def __init__(self, options: Mapping[str, str], context: SinkContext) -> None:
        read = Options(options, "the @sink of type 'kafka'", allowed=context.allowed)
        read.needed("topic", "orders")
        access = KafkaAccess.of(read)
        self._context = context
        self._servers = ", ".join(access.servers)
        said = whole_number(access.properties.get("delivery.timeout.ms", ""), 0)
        # Where the events are kept elsewhere there is no reason to hold up all others for an hour.
        default = _KEPT_PATIENCE_MS if on_error_of(options) in KEEPS_EVENTS else _PATIENCE_MS
        self._patience_s = (default if said is None else said) / 1000
        try:
            self._writer = KafkaWriter(access)
        except TransportError as error:
            raise read.wrong("optional.configuration", f"cannot be used: {error.message}", error.hint) from error

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Send in order; returns when the brokers have confirmed all."""
        messages, bad = messages_of(deliveries)
        there, count = 0, sum(len(some.values) for some in messages)
        waiting = _BrokerWait(self._context, f"the @sink of stream '{deliveries[0].stream}' (kafka)")
        try:
            while there < count:
                done, why = self._sent(behind(messages, there), waiting)
                there += done
                if isinstance(why, Refused):
                    raise SendError(str(why), there, why.lasting)
                if done:
                    waiting.over()
                if why is not None:
                    waiting.say(f"Kafka at {self._servers}: {type(why).__name__} {why}".rstrip())
                    if waiting.seconds > self._patience_s:
                        # Lasting: the wait was here, and `Sinks` is not to try again and again after it.
                        raise SendError(waiting.why, there, lasting=True)
                    self._context.pause(_AGAIN_S)
        finally:
            waiting.over()
        # Only after all before it are there: deliveries are in order.
        if bad is not None:
            raise SendError(bad, count, lasting=True)

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    def _sent(self, messages: Sequence[OutgoingMessages], waiting: _BrokerWait) -> tuple[int, Exception | None]:
        """Send; return how many are there and what stopped the next one."""
        sending = self._writer.begin(messages)
        while not wait((sending,), _SLICE_S).done:
            try:
                self._context.go_on()
            except TransportError:
                # What is on its way must not arrive after somebody else has begun to send the same.
                self._writer.abandon()
                raise
            if waiting.seconds > self._patience_s:
                self._writer.abandon()
                return 0, TimeoutError("does not answer")
            if waiting.seconds > _LONG_S:
                waiting.say(f"Kafka at {self._servers} does not answer")
        return sending.result()


class _BrokerWait:
    """Since when a sink waits for its brokers, and who has been told."""

    def __init__(self, context: SinkContext, sink: str) -> None:
        self._context = context
        self._sink = sink
        self._since = time.monotonic()
        self.why = ""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._since

    def say(self, why: str) -> None:
        if not self.why:
            self._context.waiting(f"{self._sink} waits: {why}")
        self.why = why

    def over(self) -> None:
        self._since = time.monotonic()
        if self.why:
            self.why = ""
            self._context.waiting(None)


class Refused(Exception):
    """The brokers answer, and do not take a message; `lasting` where they never will."""

    def __init__(self, message: str, lasting: bool) -> None:
        super().__init__(message)
        self.lasting = lasting


class _Signed(_DefaultRecordBatchBuilderPy):  # type: ignore[misc]
    """The client's own batch, whose header and records are never put together: that is done once, for a request.

    The checksum is the processor's, which takes a tenth of the time.
    """

    def __init__(self, batch: SentBatch) -> None:
        # Version 2 of the format, no transaction; -1 for a producer that is not known yet.
        super().__init__(2, batch.codec, 0, -1, -1, 0, 0)
        self._first_timestamp = self._max_timestamp = int(time.time() * 1000)
        self._num_records, self._last_offset = batch.count, batch.count - 1
        self._records = batch.records

    def build(self) -> tuple[bytes, memoryview]:
        """Return the header and the records."""
        header = bytearray(self.HEADER_STRUCT.size)
        self.HEADER_STRUCT.pack_into(
            header,
            0,
            0,  # where it will stand, which the broker says
            len(header) + len(self._records) - self.AFTER_LEN_OFFSET,
            self.NO_PARTITION_LEADER_EPOCH,
            self._magic,
            0,  # the checksum of what follows it
            self._get_attributes(),
            self._last_offset,
            self._first_timestamp,
            self._max_timestamp,
            self._producer_id,
            self._producer_epoch,
            self._base_sequence,
            self._num_records,
        )
        # Of the header from the attributes on, then of the records, without a copy of both together.
        checksum = crc32c(self._records, crc32c(header[self.ATTRIBUTES_OFFSET :]))
        _CHECKSUM.pack_into(header, self.CRC_OFFSET, checksum)
        return bytes(header), self._records


class _Records(BatchBuilder):  # type: ignore[misc]
    """A batch whose records are there already: the client puts its header before them, and signs them."""

    def __init__(self, batch: SentBatch) -> None:
        super().__init__(len(batch.records), batch.codec)
        # The client reads from it how many messages the batch has, and numbers the next one of this producer by that.
        self._relative_offset = batch.count
        self._builder = _Signed(batch)
        self.close()

    def _set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        self._builder.set_producer_state(producer_id, producer_epoch, base_sequence)


class _Pieces:
    """The bytes of a request in pieces, in front of which the client puts its header, and then the size of all.

    The client alone would copy a batch eight times, which takes longer than all that the broker does with it.
    """

    def __init__(self, pieces: Sequence[Any], in_front: int = 2) -> None:
        self._pieces = pieces
        self._in_front = in_front

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    def __radd__(self, before: bytes) -> _Pieces | bytes:
        pieces = (before, *self._pieces)
        return _Pieces(pieces, self._in_front - 1) if self._in_front > 1 else b"".join(pieces)


class _Produce(ProduceRequest):  # type: ignore[misc]
    """The client's own request, whose batches are `_Records`."""

    @classmethod
    def of(cls, request: ProduceRequest) -> _Produce:
        """Return another one's request."""
        return cls(request._transactional_id, request._required_acks, request._timeout, request._topics)

    def build(self, request_struct_class: type[Any]) -> Any:
        """Return the request in a version, of those that idempotent producers send."""
        made = super().build(request_struct_class)
        made.encode = lambda: _Pieces(list(self._pieces()))
        return made

    def _pieces(self) -> Iterator[Any]:
        yield _NAME.encode(self._transactional_id)
        yield Int16.encode(self._required_acks) + Int32.encode(self._timeout) + Int32.encode(len(self._topics))
        for topic, places in self._topics:
            yield _NAME.encode(topic) + Int32.encode(len(places))
            for partition, pieces in places:
                yield Int32.encode(partition) + Int32.encode(sum(map(len, pieces)))
                yield from pieces


def _sending_pieces(producer: AIOKafkaProducer) -> None:
    """Have a producer send requests that are put together once."""
    send = producer.client.send

    async def sent(node: int, request: Any, **group: Any) -> Any:
        return await send(node, _Produce.of(request) if isinstance(request, ProduceRequest) else request, **group)

    producer.client.send = sent


class KafkaWriter:
    """Sends messages in order to one Kafka cluster.

    Parameters
    ----------
    access : KafkaAccess
        Where the brokers are.

    Raises
    ------
    TransportError
        Batches cannot be compressed as its properties say.

    State
    -----
    A thread with the connections, opened when they are used and again after an error.
    """

    def __init__(self, access: KafkaAccess) -> None:
        self._compression = Compression.of(access.properties)
        self._options = access.arguments(producer=True)
        self._limit = int(self._options.get("batch_size", _BATCH_BYTES))
        self._partition_of = DefaultPartitioner()
        self._producer: AIOKafkaProducer | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kafka", daemon=True)
        self._thread.start()

    def begin(self, messages: Sequence[OutgoingMessages]) -> Future[tuple[int, Exception | None]]:
        """Begin to send, in order; while brokers are away it goes on until they are back, or `abandon`.

        Returns
        -------
        Future
            How many are certainly there, and what stopped the next one.
        """
        return asyncio.run_coroutine_threadsafe(self._send(messages), self._loop)

    def abandon(self) -> None:
        """Forget what is on its way, and the connections."""
        dropping = asyncio.run_coroutine_threadsafe(self._dropped(), self._loop)
        with contextlib.suppress(TimeoutError):
            dropping.result(2 * _END_S)

    def close(self) -> None:
        """Close the connections and end the thread."""
        if self._loop.is_closed():
            return
        self.abandon()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_S)
        self._loop.close()

    async def _send(self, messages: Sequence[OutgoingMessages]) -> tuple[int, Exception | None]:
        count = sum(len(some.values) for some in messages)
        try:
            producer = await self._connected()
            # Partitions of all topics first: what cannot go anywhere stops those behind it before anything is sent.
            parts, stopped = await self._parts(producer, messages)
        except (KafkaError, OSError, TimeoutError, TransportError) as error:
            await self._dropped()
            return 0, error
        writing = (self._write(producer, *place, own) for place, own in parts.items())
        # Partitions are independent: each goes on where another one fails, and the least number that is missing counts.
        failed = [stop for stop in await asyncio.gather(*writing) if stop is not None]
        if failed:
            # What is behind a batch that failed would be out of its producer's order.
            await self._dropped()
        return min([*failed, stopped or (count, None)], key=lambda stop: stop[0])

    async def _parts(
        self, producer: AIOKafkaProducer, messages: Iterable[OutgoingMessages]
    ) -> tuple[dict[tuple[str, int], list[PartitionMessages]], tuple[int, Exception] | None]:
        """Return what goes to each topic and partition; also what goes nowhere: the number of the first, and why."""
        parts: dict[tuple[str, int], list[PartitionMessages]] = {}
        start = 0
        for some in messages:
            try:
                # As a list, so that a refusal comes here and not after some parts are noted.
                shares = list(self._shares(some, await _partitions(producer, some.topic)))
            except Refused as error:
                return parts, (start, error)
            for partition, places in shares:
                if places:
                    parts.setdefault((some.topic, partition), []).append(PartitionMessages(some, start, places))
            start += len(some.values)
        return parts, None

    def _shares(self, some: OutgoingMessages, partitions: list[int]) -> Iterator[tuple[int, range]]:
        """Yield each partition and the places of the messages that go there, the same whenever they are sent."""
        whole, count = range(len(some.values)), len(partitions)
        if some.partition is not None:
            if some.partition not in partitions:
                raise Refused(f"topic '{some.topic}' has no partition {some.partition}", lasting=False)
            yield some.partition, whole
        elif some.key is not None:
            yield self._partition_of(some.key, partitions, partitions), whole
        else:
            for turn, partition in enumerate(partitions):
                # By the number of the delivery, so that a repeat goes to the partition of its first try.
                yield partition, whole[(turn - some.first) % count :: count]

    async def _write(
        self, producer: AIOKafkaProducer, topic: str, partition: int, parts: Iterable[PartitionMessages]
    ) -> tuple[int, Exception | None] | None:
        """Write to one partition; return the number of the first message that is not there, and why, if one is not."""
        made = batches(parts, self._limit)
        if self._compression is not None:
            made = map(self._compression.compressed, made)
        # In a thread of its own, while the loop sends those before.
        making = asyncio.create_task(asyncio.to_thread(next, made, None))
        sent: deque[tuple[SentBatch, asyncio.Future[Any]]] = deque()

        async def confirmed(left: int) -> None:
            while len(sent) > left:
                await sent[0][1]
                sent.popleft()

        try:
            for number in count():
                if (batch := await making) is None:
                    break
                making = asyncio.create_task(asyncio.to_thread(next, made, None))
                # Brokers may refuse a batch and take the next; but not when they have one of this producer's, and so
                # know by its numbers that one is missing.
                await confirmed(_WAITING if number > 1 else 0)
                records = _Records(batch)
                sent.append((batch, await producer.send_batch(records, topic, partition=partition)))
            await confirmed(0)
        except (KafkaError, OSError, TimeoutError) as error:
            failed = sent[0][0] if sent else batch
            assert failed is not None
            return failed.begin, self._judged(error, failed.count)
        finally:
            making.cancel()
            for _, there in sent:
                there.cancel()
        return None

    def _judged(self, error: Exception, count: int) -> Exception | None:
        """Return what stopped a batch of so many messages; None where a smaller one is to be tried."""
        if isinstance(error, _TOO_LARGE) and count > 1:
            # The topic may take less than the brokers' default; for all later batches, too.
            self._limit = max(1, self._limit // 8)
            return None
        return Refused(_told(error), lasting=True) if isinstance(error, _REFUSED) else error

    async def _connected(self) -> AIOKafkaProducer:
        if self._producer is None:
            producer = AIOKafkaProducer(
                **asyncio_options(self._options),
                bootstrap_servers=self._options["bootstrap_servers"],
                acks="all",
                enable_idempotence=True,
            )
            _sending_pieces(producer)
            # Before it starts: one that never reaches its brokers is to be stopped by `_dropped`, too.
            self._producer = producer
            await producer.start()
        return self._producer

    async def _dropped(self) -> None:
        """End whatever runs on the thread: a producer that cannot reach its brokers ends by itself only when it has."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await end_other_tasks()
            with contextlib.suppress(KafkaError, OSError, TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(producer.stop(), _END_S)
            await end_other_tasks()


async def _partitions(producer: AIOKafkaProducer, topic: str) -> list[int]:
    """Return the partitions of a topic; brokers that make topics by themselves do so."""
    try:
        return sorted(await asyncio.wait_for(producer.partitions_for(topic), _LOOK_S))
    except TimeoutError:
        # Brokers answer, and do not know the topic; without an answer it is they who are away.
        if await producer.client.force_metadata_update():
            raise Refused(f"there is no topic '{topic}'", lasting=False) from None
        raise


def _told(error: Exception) -> str:
    return f"{type(error).__name__} {error}".rstrip()


def open_sink(options: Mapping[str, str], context: SinkContext) -> KafkaSink:
    """Return the sink of a destination."""
    return KafkaSink(options, context)
