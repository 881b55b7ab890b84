"""Messages of Kafka for a task, without a broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from spdist.engine.spark.source import _range_record
from spdist.transports.kafka.fetching import KafkaReader
from spdist.transports.kafka.record_batches import FetchedMessages
from spdist.transports.payloads.payload import to_batch

__all__ = ["FetchedTopic", "Message"]

#: Partition, offset, time and value.
Message = tuple[int, int, int, bytes | None]


class FetchedTopic(KafkaReader):
    """A topic that has some messages, in any order of their partitions.

    Parameters
    ----------
    name : str
        Our name of the topic.
    messages : sequence of Message
        What it has.
    keys : sequence of bytes or None, optional
        Of each message.
    """

    def __init__(self, name: str, messages: Sequence[Message], keys: Sequence[bytes | None] | None = None) -> None:
        super().__init__({})
        self._name = name
        self._there = list(messages)
        self._keys = keys

    def ranges(self, messages: Sequence[Message], now: int) -> Any:
        """What our source hands over for some of the messages, in a batch at `now`."""
        told = []
        for partition, run in groupby(messages, lambda one: one[0]):
            offsets = [offset for _, offset, *_ in run]
            told.append(_range_record(now, self._name, partition, offsets[0], offsets[-1] + 1))
        return to_batch(told)

    def messages(self, topic: str, partition: int, begin: int, end: int) -> Iterator[FetchedMessages]:
        """Yield the messages of some offsets."""
        assert topic == self._name
        places = [
            place for place, (own, offset, *_) in enumerate(self._there) if own == partition and begin <= offset < end
        ]
        found = [self._there[place] for place in places]
        yield FetchedMessages(
            pa.array([offset for _, offset, *_ in found], pa.int64()),
            pa.array([sent for _, _, sent, _ in found], pa.int64()),
            pa.array([value or b"" for *_, value in found], pa.binary()),
            None if self._keys is None else [self._keys[place] for place in places],
        )
