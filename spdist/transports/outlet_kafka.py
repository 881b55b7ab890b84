"""``@sink(type='kafka')``: a message for each payload, with its id in the header ``spdist-id``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spdist.transports.delivery import ID_HEADER, Delivery
from spdist.transports.event_log import shown
from spdist.transports.kafka_link import KafkaAccess, KafkaWriter
from spdist.transports.options import Options
from spdist.transports.outlets import SendError

__all__ = ["KafkaOutlet"]


class KafkaOutlet:
    """Sends messages to the topic in ``topic``.

    Parameters
    ----------
    options : mapping of str to str
        ``bootstrap.servers``, ``topic``; ``partition.no`` (without it the key chooses, or the client), ``key``,
        ``optional.configuration``.

    State
    -----
    A connection.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        read = Options(options, "the @sink of type 'kafka'")
        read.needed("topic", "orders")
        self._writer = KafkaWriter(KafkaAccess.of(read))

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Send in order; returns when the brokers have confirmed all."""
        messages = []
        for number, one in enumerate(deliveries):
            partition = one.options.get("partition.no", "")
            if partition and not partition.isdecimal():
                if number == 0:
                    raise SendError(f"'{partition}' is no partition", 0, lasting=True)
                break
            key = one.options.get("key")
            place = (one.options["topic"], int(partition) if partition else None)
            messages.append((*place, None if key is None else key.encode(), _bytes(one.payload), {ID_HEADER: one.id}))
        done, why = self._writer.send(messages)
        if why is not None:
            raise SendError(why, done)
        if len(messages) < len(deliveries):
            raise SendError("what follows names no partition", len(messages))

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


def _bytes(payload: Any) -> bytes:
    return payload if isinstance(payload, bytes) else shown(payload).encode()
