"""What arrives in a task in one batch: records of every transport as records of ours, the tick, and the positions.

The embedded log says where a batch ends in a control record. Over Kafka the messages themselves say it, and the time of
a batch that brings no control record is that of the batch, which Spark keeps for a repetition. Messages of topics that
users' own sources read are no records yet: what follows one another in a partition is made one record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from spdist.engine.island.packing import Mapped, Messages
from spdist.engine.shards.columns import from_batch, unpacked
from spdist.engine.shards.state import Positions
from spdist.engine.spark.source import control_record, is_control, read_control, read_rejected
from spdist.transports.base import Record
from spdist.transports.payloads.headers import outsiders_record, read_numbers

__all__ = ["Arrivals"]


class Arrivals:
    """Reads the Arrow batches of one task.

    Parameters
    ----------
    mapped : mapping of str to Mapped, optional
        What reads the topics of users' own sources.

    State
    -----
    ``tick`` and ``positions`` of what has been read so far; ``messages``: how many of Kafka's, by topic; ``rejected``:
    how many others have rejected, by stream.
    """

    def __init__(self, mapped: Mapping[str, Mapped] | None = None) -> None:
        self._mapped = mapped or {}
        self.tick = 0
        self.positions: Positions = {}
        self.messages: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()

    def records(self, batches: Iterable[Any]) -> Iterator[Record]:
        """Yield the records of all batches in order, without control records."""
        for batch in batches:
            if "sent" not in batch.schema.names:
                yield from self._narrow(from_batch(batch))
                continue
            for topic, partition, part in _runs(batch):
                users = self._mapped.get(topic)
                self.messages[topic] += part.num_rows
                if topic == "":
                    for value in part.column("value").to_pylist():
                        yield from self._narrow(unpacked(value))
                elif users is not None:
                    yield from self._messages(users, topic, partition, part)
                else:
                    yield from self._between_groups(topic, partition, part)

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

    def _narrow(self, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            if is_control(record):
                self.apply_control(record)
            else:
                yield record

    def _between_groups(self, topic: str, partition: int, batch: Any) -> Iterator[Record]:
        self.tick = max(self.tick, batch.column("batch_time")[0].as_py())
        names = ("offset", "value", "headers", "sent")
        for offset, value, headers, sent in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
            self._reach(topic, partition, offset + 1)
            yield _message(topic, partition, offset, value or b"", headers or (), sent)

    def _messages(self, users: Mapped, topic: str, partition: int, batch: Any) -> Iterator[Record]:
        now: int = batch.column("batch_time")[0].as_py()
        self.tick = max(self.tick, now)
        offsets, sent, values = (batch.column(name) for name in ("offset", "sent", "value"))
        self._reach(topic, partition, offsets[-1].as_py() + 1)
        keys = None
        if "headers" in batch.schema.names and batch.column("headers").null_count == 0:
            keys = [headers[0]["value"] for headers in batch.column("headers").to_pylist()]
        messages = Messages(topic, partition, offsets, sent, values.fill_null(b""), keys)
        yield from users.records(users.timely(messages, now))


def _message(
    topic: str, partition: int, offset: int, value: bytes, headers: Iterable[Mapping[str, Any]], sent: int
) -> Record:
    said = {one["key"]: (one["value"] or b"").decode(errors="replace") for one in headers}
    numbers = read_numbers(said)
    if numbers is None:
        return outsiders_record(topic, partition, value, sent, offset)
    producer, seq, count, clock = numbers
    return Record(topic, partition, value, count, producer, seq, clock, offset)


def _runs(batch: Any) -> Iterator[tuple[str, int, Any]]:
    """Yield topic, partition and rows of what follows one another in a batch and is of one partition.

    Packed records have none: an empty topic.
    """
    if not batch.num_rows:
        return
    topics, partitions = batch.column("topic"), batch.column("partition")
    topics = (topics.fill_null("") if topics.null_count else topics).dictionary_encode()
    names = topics.dictionary.to_pylist()
    if len(names) == 1 and len(partitions.unique()) == 1:
        yield names[0], partitions[0].as_py(), batch
        return
    start = 0
    for (number, partition), run in groupby(zip(topics.indices.to_pylist(), partitions.to_pylist(), strict=True)):
        length = sum(1 for _ in run)
        yield names[number], partition, batch.slice(start, length)
        start += length
