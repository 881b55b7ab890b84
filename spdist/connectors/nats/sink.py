"""``@sink(type='nats')``: messages on a subject of a NATS server; with ``jetstream='true'`` its stream confirms each.

The header ``Nats-Msg-Id`` is the same when a delivery is sent again: JetStream drops repeats within its window.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from spdist.config.allowed import Allowed
from spdist.connectors.nats.link import NatsLink, NatsSourceSettings
from spdist.connectors.sending import SendError, SinkContext
from spdist.transports.delivery import Delivery
from spdist.transports.event_log import encoded
from spdist.transports.options import Options
from spdist.transports.payloads.headers import ID_HEADER

__all__ = ["NatsSink", "open_sink"]

#: Words with dots between them. What an event brings must not end the line of the protocol.
_SUBJECT = re.compile(r"[^\s\x00-\x1f\x7f.*>]+(\.[^\s\x00-\x1f\x7f.*>]+)*")


class NatsSink:
    """Publishes on the subject in ``destination``.

    Parameters
    ----------
    options : mapping of str to str
        ``destination``; ``server.urls``, ``auth.type`` and what belongs to it, see `NatsSourceSettings`; ``jetstream``.
    allowed : Allowed
        The secrets and files that the app may refer to.

    State
    -----
    A connection.
    """

    def __init__(self, options: Mapping[str, str], allowed: Allowed | None = None) -> None:
        read = Options(options, "the @sink of type 'nats'", allowed=allowed or Allowed())
        read.needed("destination", "orders")
        self._confirmed = read.flag("jetstream", False)
        self._link = NatsLink(NatsSourceSettings.of(read))

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Publish in order; returns when the server, or its stream, has all messages."""
        subjects = [one.options["destination"] for one in deliveries]
        # Those before a bad subject are sent first: deliveries are in order.
        good = next((number for number, one in enumerate(subjects) if not _SUBJECT.fullmatch(one)), len(subjects))
        messages = [
            (one.options["destination"], encoded(one.payload), {"Nats-Msg-Id": one.id, ID_HEADER: one.id})
            for one in deliveries[:good]
        ]
        done, error = self._link.publish(messages, self._confirmed)
        if error is not None:
            raise SendError(f"NATS does not take a message: {error}", done)
        if good < len(subjects):
            raise SendError(f"{subjects[good]!r} is no subject that messages can be sent to", good, lasting=True)

    def close(self) -> None:
        """Close the connection."""
        self._link.close()


def open_sink(options: Mapping[str, str], context: SinkContext) -> NatsSink:
    """Return the sink of a destination."""
    return NatsSink(options, context.allowed)
