"""Sinks that stay on this machine: the log, and in-memory topics that other apps listen to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from spdist.connectors.sending import SinkContext
from spdist.mapping.passing import ChunkPayload
from spdist.transports.base import Record, Transport
from spdist.transports.delivery import Delivery
from spdist.transports.payloads.payload import pack_value, unpack_value

__all__ = ["InMemorySink", "in_memory_topic", "open_sink", "read_in_memory"]


class InMemorySink:
    """Carries what an app publishes on an in-memory topic to the other apps that listen, in whatever process.

    It goes through an embedded topic, which is there as soon as somebody listens; before that, as in one process, what
    is published is lost.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Append the payloads whose topics somebody listens to."""
        records = []
        heard: dict[str, bool] = {}
        for delivery in deliveries:
            topic = in_memory_topic(delivery.options.get("topic", ""))
            if topic not in heard:
                # Not remembered from call to call: somebody may have begun to listen since.
                heard[topic] = self._transport.partitions(topic) > 0
            if heard[topic]:
                records.append(Record(topic, 0, _packed(delivery.payload), 1, delivery.producer, delivery.seq))
        if records:
            self._transport.append(records)

    def close(self) -> None:
        """Do nothing: the transport belongs to others."""


def in_memory_topic(topic: str) -> str:
    """Return the embedded topic that carries the in-memory topic of that name."""
    return f"inMemory.{topic}"


def read_in_memory(value: bytes) -> Any:
    """Return the payload of a record that `InMemorySink` appended."""
    kind, payload = json.loads(value)
    found = unpack_value(payload)
    return ChunkPayload((ts, tuple(row)) for ts, row in found) if kind == "events" else found


def _packed(payload: Any) -> bytes:
    if isinstance(payload, ChunkPayload):
        return json.dumps(["events", pack_value([(ts, row) for ts, row in payload])]).encode()
    return json.dumps(["payload", pack_value(payload)]).encode()


def open_sink(_options: Mapping[str, str], context: SinkContext) -> InMemorySink:
    """Return the sink of a destination."""
    return InMemorySink(context.transport)
