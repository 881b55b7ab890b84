"""Topics in memory: a transport for tests that run many small pipelines in one process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spdist.transports.base import Record


class MemoryTransport:
    """Implements `spdist.transports.base.Transport` for well-behaved callers."""

    def __init__(self) -> None:
        self.topics: dict[str, list[list[Record]]] = {}

    def ensure(self, topic: str, partitions: int, subjects: Sequence[str] = ()) -> int:
        known = self.topics.setdefault(topic, [])
        known.extend([] for _ in range(partitions - len(known)))
        return len(known)

    def partitions(self, topic: str) -> int:
        return len(self.topics.get(topic, ()))

    def append(self, records: Sequence[Record]) -> None:
        for record in records:
            partition = self.topics[record.topic][record.partition]
            partition.append(replace(record, offset=len(partition)))

    def read(self, topic: str, partition: int, offset: int, limit: int = 1000) -> list[Record]:
        return self.topics[topic][partition][offset : offset + limit]

    def end_offsets(self, topic: str) -> dict[int, int]:
        return {number: len(records) for number, records in enumerate(self.topics[topic])}

    def close(self) -> None:
        pass
