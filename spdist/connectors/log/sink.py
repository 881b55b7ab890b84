"""``@sink(type='log')``: lines on the logger ``spdist.events``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence

from spdist.connectors.sending import SinkContext
from spdist.transports.delivery import Delivery
from spdist.transports.event_log import events_log, write_log

__all__ = ["LogSink", "open_sink"]


class LogSink:
    """Writes lines on the logger ``spdist.events``, or to stderr in a process that has no logging of its own."""

    def send(self, deliveries: Sequence[Delivery]) -> None:
        """Write a line for each payload."""
        if not events_log.hasHandlers():
            handler = logging.StreamHandler(sys.stderr)
            handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
            events_log.addHandler(handler)
            events_log.setLevel(logging.INFO)
        for delivery in deliveries:
            write_log(delivery.options, delivery.stream, delivery.payload)

    def close(self) -> None:
        """Do nothing."""


def open_sink(_options: Mapping[str, str], _context: SinkContext) -> LogSink:
    """Return the sink of a destination."""
    return LogSink()
