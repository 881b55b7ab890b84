"""``@sink(type='kafka')``: a message for each payload, with its id in the header ``spdist-id``.

A message that is sent again after a failure has the same id, and goes to the same partition: whoever must not see one
twice drops repeats by their ids.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from itertools import groupby

from spdist.connectors.kafka.link import KafkaAccess
from spdist.connectors.kafka.records import OutgoingMessages
from spdist.connectors.kafka.writer import KafkaWriter, Refused
from spdist.connectors.sending import SendError, SinkContext
from spdist.errors import TransportError
from spdist.transports.delivery import KEEPS_EVENTS, Deliveries, Delivery, on_error_of
from spdist.transports.options import Options

__all__ = ["KafkaSink", "behind", "messages_of", "open_sink"]

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
        said = access.properties.get("delivery.timeout.ms", "")
        default = _KEPT_PATIENCE_MS if on_error_of(options) in KEEPS_EVENTS else _PATIENCE_MS
        self._patience_s = (int(said) if said.isdecimal() else default) / 1000
        self._writer = KafkaWriter(access)

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
                        raise SendError(waiting.why, there, lasting=True)
                    self._context.pause(_AGAIN_S)
        finally:
            waiting.over()
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


def messages_of(deliveries: Sequence[Delivery]) -> tuple[list[OutgoingMessages], str | None]:
    """Return what deliveries are as messages, up to the first that names no partition, and what is wrong with that."""
    together = isinstance(deliveries, Deliveries)
    runs = [deliveries] if together else [list(run) for _, run in groupby(deliveries, _place)]
    messages: list[OutgoingMessages] = []
    for run in runs:
        first = run[0]
        partition, key = first.options.get("partition.no", ""), first.options.get("key")
        if partition and not partition.isdecimal():
            return messages, f"'{partition}' is no partition"
        numbers = range(first.seq, first.seq + len(run)) if together else [one.seq for one in run]
        place = first.options["topic"], int(partition) if partition else None, None if key is None else key.encode()
        payloads = run.payloads if isinstance(run, Deliveries) else [one.payload for one in run]
        messages.append(OutgoingMessages(*place, payloads, f"{first.producer}:".encode(), numbers, first.seq))
    return messages, None


def _place(one: Delivery) -> tuple[str | None, ...]:
    return one.producer, *(one.options.get(name) for name in ("topic", "partition.no", "key"))


def behind(messages: Sequence[OutgoingMessages], there: int) -> Sequence[OutgoingMessages]:
    """Return the messages but for the first so many."""
    left = []
    for some in messages:
        if there < len(some.values):
            left.append(some.since(there))
        there = max(0, there - len(some.values))
    return left


def open_sink(options: Mapping[str, str], context: SinkContext) -> KafkaSink:
    """Return the sink of a destination."""
    return KafkaSink(options, context)
