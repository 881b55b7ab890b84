"""Counts what comes out while things fail."""

from __future__ import annotations

from spdist.transports.base import Repeats, Transport

__all__ = ["Results"]


class Results:
    """Counts the events of a topic without reading any record twice.

    State
    -----
    ``repeated``: events that were in the topic before; readers of ours drop those.
    """

    def __init__(self, transport: Transport, topic: str) -> None:
        self._transport, self._topic = transport, topic
        self._at, self._count, self._repeats = 0, 0, Repeats()
        self.repeated = 0

    def count(self) -> int:
        while self._transport.partitions(self._topic) and (
            records := self._transport.read(self._topic, 0, self._at, 500)
        ):
            self._at = records[-1].offset + 1
            repeated = sum(self._repeats.fresh(record) for record in records)
            self._count += sum(record.count for record in records) - repeated
            self.repeated += repeated
        return self._count
