"""Counts what comes out while things fail."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

from spdist.transports.base import Repeats, Transport

__all__ = ["Results", "longest_silence_s"]


def longest_silence_s(came_s: Sequence[float], since_s: float) -> float:
    """Return the longest time without a result that was not over at `since_s`, where results came at these times."""
    times = [*came_s, time.monotonic()]
    return max(later - before for before, later in pairwise(times) if later > since_s)


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
