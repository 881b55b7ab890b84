"""Records as Arrow columns: how they go through Spark and into segments."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spdist.transports.base import Record

__all__ = [
    "RECORD_DDL",
    "ROUTED_DDL",
    "arrow_without_pandas",
    "from_batch",
    "from_routed",
    "to_batch",
    "to_routed",
    "unpacked",
]

_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("count", pa.int32()),
        ("producer", pa.string()),
        ("seq", pa.int64()),
        ("clock", pa.int64()),
        ("value", pa.binary()),
    ]
)
#: The same in Spark's words.
RECORD_DDL = (
    "topic string, partition int, offset bigint, count int, producer string, seq bigint, clock bigint, value binary"
)

#: On the way to the islands: Spark partition and number of the shard first.
ROUTED_DDL = f"target int, shard int, {RECORD_DDL}"


def to_batch(records: Sequence[Record]) -> Any:
    """Return `records` as one Arrow batch."""
    columns = zip(
        *((r.topic, r.partition, r.offset, r.count, r.producer, r.seq, r.clock, r.value) for r in records), strict=True
    )
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=_SCHEMA)


def from_batch(batch: Any) -> Iterator[Record]:
    """Yield the records of a batch in order."""
    columns = [batch.column(name).to_pylist() for name in _SCHEMA.names]
    for topic, partition, offset, count, producer, seq, clock, value in zip(*columns, strict=True):
        yield Record(topic, partition, value, count, producer, seq, clock, offset)


def unpacked(value: bytes) -> Iterator[Record]:
    """Yield the records of batches in Arrow's bytes in order."""
    with pa.ipc.open_stream(value) as reader:
        for batch in reader:
            yield from from_batch(batch)


def to_routed(routed: Sequence[tuple[int, int, Record]]) -> Any:
    """Return ``(Spark partition, number of the shard, record)`` as one Arrow batch."""
    targets, shards, records = zip(*routed, strict=True)
    batch = to_batch(records)
    places = [pa.array(targets, pa.int32()), pa.array(shards, pa.int32())]
    return pa.record_batch([*places, *batch.columns], names=["target", "shard", *batch.schema.names])


def from_routed(batch: Any, target: int) -> Iterator[tuple[int, Record]]:
    """Yield number of the shard and record of each row for a Spark partition, in order."""
    batch = batch.filter(pc.equal(batch.column("target"), target))
    return zip(batch.column("shard").to_pylist(), from_batch(batch), strict=True)


def arrow_without_pandas() -> None:
    """Keep pyarrow from importing pandas in this process, where nobody needs it.

    It would, the first time a list becomes an array: 45 MB of memory and half a second of start for each of the many
    small processes that Spark starts. Once it has looked in vain it does not look again.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, hidden := _Hidden())
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(hidden)


class _Hidden(MetaPathFinder):
    """Makes pandas look as if it were not installed."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Refuse pandas, know nothing else."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is hidden while pyarrow looks for it", name=fullname)
