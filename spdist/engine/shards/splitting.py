"""Splitting records by key: each shard gets its share of the rows, and all of what else a record says.

A part of a record keeps the record's ids, promise and offset, and its count, so that a shard drops repeats and learns
how far time has come as if it had got the whole. Its payload holds the rows of that shard, with their places in the
whole (``__place``); a share without rows has no payload. Columns are split as columns: no row is looked at but for its
key, and of equal keys only one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spdist.language.types import Schema
from spdist.mapping.rejected import RejectCounter
from spdist.transports.base import Record
from spdist.transports.payloads.payload import PLACE, Payload, arrow_bytes, column_values
from spdist.transports.routing import key_text

__all__ = ["Splitter", "shard_of", "shards_of"]


def shard_of(text: str, shards: int) -> int:
    """Return the shard of a key with this text.

    Another hash than that of partitions: else all keys of a topic partition would meet in few shards.
    """
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) % shards


def shards_of(column: Any, text: Callable[[Any], str], shards: int, metadata: dict[bytes, bytes] | None = None) -> Any:
    """Return the shard of each value of an attribute's column, as an Arrow array; of equal ones only one is looked at.

    Parameters
    ----------
    column : pyarrow.Array
        The values.
    text : Callable
        Writes one; see `spdist.transports.routing.key_text`.
    shards : int
        How many there are.
    metadata : dict, optional
        Of the column's field.
    """
    coded = column.dictionary_encode()
    known = [shard_of(text(value), shards) for value in column_values(coded.dictionary, metadata)]
    return pa.array(known, pa.int32()).take(coded.indices).fill_null(shard_of(text(None), shards))


class Splitter:
    """Splits the records of one stream.

    Parameters
    ----------
    schema : Schema
        The stream's attributes.
    key : str or None
        The attribute that decides; None where any share will do, as long as a repeated event meets its first copy.
    shards : int
        How many there are.
    messages : bool
        Whether records are messages of a user's topic, that are put together now so and now so.
    adapts, foreign : bool
        See `Payload`.
    """

    def __init__(
        self,
        schema: Schema,
        key: str | None,
        shards: int,
        *,
        messages: bool = False,
        adapts: bool = False,
        foreign: bool = False,
    ) -> None:
        self._messages = messages
        #: Events of outsiders' messages that are left out; a message that cannot be read shard 0 counts.
        self.rejected = RejectCounter("a topic")
        self._payload = Payload(schema, self.rejected.add, adapts=adapts, foreign=foreign)
        self._key = key
        self._shards = shards
        self._text = str if key is None else key_text(schema.types[schema.names.index(key)])

    def split(self, record: Record) -> list[Record]:
        """Return the parts of a record, one for each shard."""
        if not record.count or not record.value:
            return [record] * self._shards
        try:
            batch = self._payload.read(record.value)
            owners = self._owners(record, batch)
        except Exception:
            # Shard 0 says so, once, and drops it where others than groups may have written it.
            return [record, *[_part(record, b"")] * (self._shards - 1)]
        places = pa.array(range(batch.num_rows), pa.int64())
        whole = batch.append_column(pa.field(PLACE, pa.int64(), nullable=False), places)
        return [_part(record, _encode(whole, share)) if share else _part(record, b"") for share in owners]

    def _owners(self, record: Record, batch: Any) -> list[list[int]]:
        """Return which rows belong to each shard."""
        shares: list[list[int]] = [[] for _ in range(self._shards)]
        for row, shard in enumerate(self._shard_of_rows(record, batch)):
            shares[shard].append(row)
        return shares

    def _shard_of_rows(self, record: Record, batch: Any) -> Iterable[int]:
        if self._key is None and self._messages:
            # Repeated messages may come in records that are cut elsewhere; the offset of a message stays
            return (order % self._shards for order in batch.column("__order").to_pylist())
        if self._key is None:
            # By its number, which an event keeps: of a producer that of its id, else that of its record
            first = record.seq if record.producer else record.offset
            return ((first + row) % self._shards for row in range(batch.num_rows))
        metadata = batch.schema.field(self._key).metadata
        found: list[int] = shards_of(batch.column(self._key), self._text, self._shards, metadata).to_pylist()
        return found


def _part(record: Record, value: bytes) -> Record:
    # Decoded events are those of the whole record: the share is decoded from its own payload
    return replace(record, value=value, events=None)


def _encode(batch: Any, rows: list[int]) -> bytes:
    return arrow_bytes(batch if len(rows) == batch.num_rows else batch.take(pa.array(rows, pa.int64())))
