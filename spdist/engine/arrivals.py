"""What arrives in a task in one batch: records of every transport as records of ours, the tick, and the positions.

The embedded log says where a batch ends in a control record. Over Kafka the messages themselves say it, and the time of
a batch that brings no control record is that of the batch, which Spark keeps for a repetition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from spdist.engine.columns import from_batch
from spdist.engine.source import control_record, is_control, read_control
from spdist.engine.state import Positions
from spdist.transports.base import Record
from spdist.transports.headers import outsiders_record, read_numbers

__all__ = ["Arrivals"]


class Arrivals:
    """Reads the Arrow batches of one task.

    State
    -----
    ``tick`` and ``positions`` of what has been read so far.
    """

    def __init__(self) -> None:
        self.tick = 0
        self.positions: Positions = {}

    def records(self, batches: Iterable[Any]) -> Iterator[Record]:
        """Yield the records of all batches in order, without control records."""
        for batch in batches:
            wide = "headers" in batch.schema.names
            yield from self._wide(batch) if wide else self._narrow(from_batch(batch))

    def control(self) -> Record:
        """Return what has been said of the batch as a control record."""
        return control_record(self.tick, self.positions)

    def hear(self, control: Record) -> None:
        """Take over what a control record says."""
        tick, positions = read_control(control)
        self.tick = max(self.tick, tick)
        for topic, offsets in positions.items():
            for partition, offset in offsets.items():
                self._reach(topic, partition, offset)

    def _reach(self, topic: str, partition: int, offset: int) -> None:
        known = self.positions.setdefault(topic, {})
        known[partition] = max(offset, known.get(partition, offset))

    def _narrow(self, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            if is_control(record):
                self.hear(record)
            else:
                yield record

    def _wide(self, batch: Any) -> Iterator[Record]:
        beside = (batch.column(name).to_pylist() for name in ("headers", "sent", "batch_time"))
        for record, headers, sent, batch_time in zip(from_batch(batch), *beside, strict=True):
            if batch_time is None:
                yield from self._narrow((record,))
                continue
            self.tick = max(self.tick, batch_time)
            yield self._message(record, headers or (), sent)

    def _message(self, row: Record, headers: Iterable[Mapping[str, Any]], sent: int) -> Record:
        topic, value = row.topic, row.value or b""
        self._reach(topic, row.partition, row.offset + 1)
        said = {one["key"]: (one["value"] or b"").decode(errors="replace") for one in headers}
        numbers = read_numbers(said)
        if numbers is None:
            return outsiders_record(topic, row.partition, value, sent, row.offset)
        producer, seq, count, clock = numbers
        return Record(topic, row.partition, value, count, producer, seq, clock, row.offset)
