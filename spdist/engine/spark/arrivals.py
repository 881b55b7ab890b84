"""What arrives in a task in one batch: records of ours, Kafka's messages as such, the tick, and the positions.

Our source says in a control record where a batch ends, and in others which messages of Kafka it has, which are fetched
here. Messages of topics that users' own sources read are no records yet: what follows one another in a partition is
made one record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from spdist.engine.island.messages import Mapped, Messages
from spdist.engine.shards.columns import from_batch
from spdist.engine.shards.state import Positions
from spdist.engine.spark.kafka_source import KafkaReader
from spdist.engine.spark.source import control_record, is_control, is_range, read_control, read_range, read_rejected
from spdist.transports.base import Record
from spdist.transports.kafka.transport import read_headers
from spdist.transports.payloads.headers import outsiders_record

__all__ = ["Arrivals"]


class Arrivals:
    """Reads the Arrow batches of one task.

    Parameters
    ----------
    mapped : mapping of str to Mapped, optional
        What reads the topics of users' own sources.
    kafka : KafkaReader, optional
        Who fetches messages, where there are some.

    State
    -----
    ``tick`` and ``positions`` of what has been read so far; ``messages``: how many of Kafka's, by topic; ``rejected``:
    how many others have rejected, by stream.
    """

    def __init__(self, mapped: Mapping[str, Mapped] | None = None, kafka: KafkaReader | None = None) -> None:
        self._mapped = mapped or {}
        self._kafka = kafka
        self.tick = 0
        self.positions: Positions = {}
        self.messages: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()

    def records(self, batches: Iterable[Any]) -> Iterator[Record]:
        """Yield the records of all batches in order, without control records."""
        for batch in batches:
            for record in from_batch(batch):
                if is_control(record):
                    self.apply_control(record)
                elif is_range(record):
                    yield from self._fetched(record)
                else:
                    yield record

    def control(self, rejected: Mapping[str, int] | None = None) -> Record:
        """Return what has been said of the batch as a control record, and what was `rejected` here."""
        return control_record(self.tick, self.positions, rejected)

    def apply_control(self, control: Record) -> None:
        """Take over what a control record says."""
        tick, positions = read_control(control)
        self.tick = max(self.tick, tick)
        self.rejected.update(read_rejected(control))
        for topic, offsets in positions.items():
            for partition, offset in offsets.items():
                self._reach(topic, partition, offset)

    def _reach(self, topic: str, partition: int, offset: int) -> None:
        known = self.positions.setdefault(topic, {})
        known[partition] = max(offset, known.get(partition, offset))

    def _fetched(self, told: Record) -> Iterator[Record]:
        """Yield the records of the messages that are to be fetched."""
        assert self._kafka is not None
        topic, partition, begin, end = read_range(told)
        self.tick = max(self.tick, told.clock)
        users = self._mapped.get(topic)
        for some in self._kafka.messages(topic, partition, begin, end):
            self.messages[topic] += len(some)
            if users is not None:
                messages = Messages(topic, partition, some.offsets, some.times, some.values, some.keys)
                yield from users.records(users.timely(messages, told.clock))
            else:
                columns = some.offsets.to_pylist(), some.values.to_pylist(), some.headers or (), some.times.to_pylist()
                for offset, value, headers, sent in zip(*columns, strict=True):
                    yield _message(topic, partition, offset, value, headers, sent)
        self._reach(topic, partition, end)


def _message(
    topic: str, partition: int, offset: int, value: bytes, headers: Iterable[tuple[str, bytes | None]], sent: int
) -> Record:
    numbers = read_headers(headers)
    if numbers is None:
        return outsiders_record(topic, partition, value, sent, offset)
    producer, seq, count, clock = numbers
    return Record(topic, partition, value, count, producer, seq, clock, offset)
