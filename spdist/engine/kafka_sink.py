"""What users' Kafka sinks put out, on its way through Spark's own Kafka sink: messages as columns.

Each message bears its id in a header. A batch that is repeated after a failure sends the same messages with the same
ids again: each is there at least once, and whoever must not see one twice drops repeats by their ids. The messages of a
sink to one partition stay in their order, as one task writes them with an idempotent producer.

While the brokers do not answer, Spark's producer tries again for an hour (``delivery.timeout.ms`` and ``max.block.ms``
in ``optional.configuration``); after that the group fails, and its next start sends the batch again: nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa

from spdist.transports.delivery import KEEPS_EVENTS, Deliveries, Outgoing
from spdist.transports.event_log import shown
from spdist.transports.kafka_options import KafkaSettings, spark_options

__all__ = ["MESSAGE_DDL", "KafkaSink", "Reach", "message_batches", "no_message", "written"]

KAFKA = "kafka"
#: Messages beside the counters of a batch. A row holds many that go to one place, numbered from ``first`` on; without a
#: topic it holds none. What they have in common is said once, and Spark makes a row of each (`compile`).
MESSAGE_DDL = "topic string, partition int, key binary, source string, first bigint, messages array<binary>"
_TYPES = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "key": pa.binary(),
    "source": pa.string(),
    "first": pa.int64(),
    "messages": pa.list_(pa.binary()),
}
#: Bounds of an Arrow batch on its way to the JVM: messages, bytes.
_MESSAGES, _BYTES = 10_000, 32 << 20

_HOUR_MS = "3600000"
#: What the user's ``optional.configuration`` may say better.
_DEFAULTS = {
    "linger.ms": "10",
    "batch.size": str(256 << 10),
    "buffer.memory": str(64 << 20),
    "delivery.timeout.ms": _HOUR_MS,
    "max.block.ms": _HOUR_MS,
}
#: What it may not: order, and that nothing is lost, hang on it.
_OURS = {"acks": "all", "enable.idempotence": "true"}
_NOT_OURS = ("key.serializer", "value.serializer", "retries", "max.in.flight.requests.per.connection")
#: ``max.request.size`` of Kafka's clients, and what a message has besides its value.
_LARGEST, _AROUND = 1 << 20, 1024


@dataclass(frozen=True, slots=True)
class KafkaSink:
    """The Kafka cluster to which Spark writes for a query, which can have one.

    Parameters
    ----------
    settings : KafkaSettings
        Where its brokers are.
    texts : frozenset of (str, str)
        How the sinks to it write that: see `written`.
    """

    settings: KafkaSettings
    texts: frozenset[tuple[str, str]] = field(repr=False)

    def takes(self, one: Outgoing) -> bool:
        """Tell whether what a sink puts out goes to this cluster, and the events are not needed where that fails."""
        return one.kind == KAFKA and one.on_error not in KEEPS_EVENTS and written(one.options) in self.texts

    def options(self) -> dict[str, str]:
        """Return the options of Spark's sink."""
        given = {name: value for name, value in self.settings.properties.items() if name not in _NOT_OURS}
        properties = _DEFAULTS | given | _OURS
        return spark_options(KafkaSettings(self.settings.bootstrap_servers, properties))

    @property
    def largest(self) -> int:
        """Return how many bytes the value of a message may have."""
        said = self.settings.properties.get("max.request.size", "")
        return (int(said) if said.isdecimal() else _LARGEST) - _AROUND


def written(options: Mapping[str, str]) -> tuple[str, str]:
    """Return what the options of a sink say of its cluster."""
    return options.get("bootstrap.servers", ""), options.get("optional.configuration", "")


class Reach:
    """Tells messages that Spark's producer can send from those on which it would fail, and the group with it.

    Those are messages to a topic or partition that is not there, and too long ones: one that sends them by itself may
    wait, or give up that message, as ``on.error`` says.

    Parameters
    ----------
    sink : KafkaSink
        Where they go.
    partitions : Callable
        Given topics, returns the numbers of partitions of those that are there.

    State
    -----
    The number of partitions of each topic that was there.
    """

    def __init__(self, sink: KafkaSink, partitions: Callable[[Iterable[str]], Mapping[str, int]]) -> None:
        self._sink = sink
        self._ask = partitions
        self._known: dict[str, int] = {}

    def split(self, outgoing: Iterable[Outgoing]) -> tuple[list[Outgoing], list[Outgoing]]:
        """Return what goes through Spark, and what does not, each in its order."""
        ours: list[Outgoing] = []
        others: list[Outgoing] = []
        for one in outgoing:
            (ours if self._sink.takes(one) else others).append(one)
        if unknown := {one.options.get("topic", "") for one in ours} - self._known.keys():
            self._known.update(self._ask(sorted(unknown)))
        sent: list[Outgoing] = []
        for one in ours:
            (sent if self._sends(one) else others).append(one)
        return sent, others

    def _sends(self, one: Outgoing) -> bool:
        place = one.options.get("partition.no") or "0"
        if not place.isdecimal() or int(place) >= self._known.get(one.options.get("topic", ""), 0):
            return False
        payloads = one.payloads if isinstance(one, Deliveries) else (one.payload,)
        # A character has three bytes at most, or is two units with four.
        longest, bound = _longest(payloads), self._sink.largest - len((one.options.get("key") or "").encode())
        return longest * 4 <= bound or max(len(_bytes(payload)) for payload in payloads) <= bound


def no_message() -> dict[str, Any]:
    """Return the columns of a row that is no message."""
    return {name: pa.nulls(1, kind) for name, kind in _TYPES.items()}


def message_batches(outgoing: Iterable[Outgoing]) -> Iterator[dict[str, Any]]:
    """Yield messages as columns (`MESSAGE_DDL`), in order, some thousands at a time."""
    rows: list[_Row] = []
    messages = size = 0
    for row in (row for one in outgoing for row in _rows(one)):
        longest = _longest(row.payloads) * len(row.payloads)
        if rows and (messages + len(row.payloads) > _MESSAGES or size + longest > _BYTES):
            yield _columns(rows)
            rows, messages, size = [], 0, 0
        rows.append(row)
        messages, size = messages + len(row.payloads), size + longest
    if rows:
        yield _columns(rows)


class _Row(NamedTuple):
    """Messages to one place."""

    options: Mapping[str, str]
    source: str
    first: int
    payloads: Sequence[Any]


def _rows(one: Outgoing) -> Iterator[_Row]:
    if not isinstance(one, Deliveries):
        yield _Row(one.options, one.producer, one.seq, (one.payload,))
        return
    most = max(1, min(_MESSAGES, _BYTES // max(_longest(one.payloads), 1)))
    for begin in range(0, len(one.payloads), most):
        yield _Row(one.options, one.source, one.first + begin, one.payloads[begin : begin + most])


def _columns(rows: Sequence[_Row]) -> dict[str, Any]:
    keys = [row.options.get("key") for row in rows]
    places = [row.options.get("partition.no") for row in rows]
    columns = {
        "topic": [row.options["topic"] for row in rows],
        "partition": [int(place) if place else None for place in places],
        "key": [None if key is None else key.encode() for key in keys],
        "source": [row.source for row in rows],
        "first": [row.first for row in rows],
    }
    made = {name: pa.array(column, _TYPES[name]) for name, column in columns.items()}
    ends = pa.array(accumulate((len(row.payloads) for row in rows), initial=0), pa.int32())
    values = _values(rows[0].payloads if len(rows) == 1 else [one for row in rows for one in row.payloads])
    return made | {"messages": pa.ListArray.from_arrays(ends, values)}


def _longest(payloads: Sequence[Any]) -> int:
    """Return the most characters, or bytes, that a payload has."""
    return (
        max(map(len, payloads)) if set(map(type, payloads)) <= {str, bytes} else max(len(_bytes(p)) for p in payloads)
    )


def _values(payloads: Sequence[Any]) -> Any:
    if set(map(type, payloads)) == {str}:
        return pa.array(payloads, pa.string()).cast(pa.binary())
    return pa.array([_bytes(payload) for payload in payloads], pa.binary())


def _bytes(payload: Any) -> bytes:
    return payload if isinstance(payload, bytes) else shown(payload).encode()
