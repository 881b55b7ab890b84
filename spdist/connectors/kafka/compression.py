"""How the batches of a sink are compressed: ``compression.type``, and ``compression.gzip.level`` and its like.

The client would compress on the thread that speaks to the brokers, and with lz4 at a level that takes fifty times as
long as the one that Java's clients use where nothing is said. Here it is done where batches are made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import cramjam
import lz4.frame
from aiokafka.codec import snappy_encode
from aiokafka.record.default_records import DefaultRecordBatch

from spdist.connectors.kafka.records import SentBatch
from spdist.errors import TransportError

__all__ = ["Compression"]

_TYPE = "compression.type"


@dataclass(frozen=True, slots=True)
class _Codec:
    """A codec: its number in a batch, its levels from the least to the highest, the usual one, what compresses."""

    number: int
    least: int
    highest: int
    usual: int
    compress: Callable[[Any, int], Any]


def _lz4(records: Any, level: int) -> Any:
    # Blocks that do not refer to one another, as KIP-57 has them. Java's clients compress fast at the level 9, which is
    # the usual one, and at no other.
    return lz4.frame.compress(records, compression_level=0 if level == 9 else level, block_linked=False)


_CODECS = {
    "gzip": _Codec(
        DefaultRecordBatch.CODEC_GZIP, 1, 9, 6, lambda records, level: cramjam.gzip.compress(records, level=level)
    ),
    "snappy": _Codec(DefaultRecordBatch.CODEC_SNAPPY, 0, 0, 0, lambda records, _: snappy_encode(records)),
    "lz4": _Codec(DefaultRecordBatch.CODEC_LZ4, 1, 17, 9, _lz4),
    "zstd": _Codec(
        DefaultRecordBatch.CODEC_ZSTD,
        -131072,
        22,
        3,
        lambda records, level: cramjam.zstd.compress(records, level=level),
    ),
}


@dataclass(frozen=True, slots=True)
class Compression:
    """A codec and its level.

    Notes
    -----
    Source: KIP-390 for the levels and those that are usual.
    """

    codec: _Codec
    level: int

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Compression | None:
        """Return what settings of Kafka's producers ask for, with their Java names; None where nothing is compressed.

        Raises
        ------
        TransportError
            There is no such codec, or it has no such level.
        """
        name = properties.get(_TYPE, "none").strip()
        if name == "none":
            return None
        if name not in _CODECS:
            raise TransportError(f"Kafka's {_TYPE} must be none, {', '.join(_CODECS)}, not {name!r}")
        codec, key = _CODECS[name], f"compression.{name}.level"
        if name == "snappy" or key not in properties:
            return cls(codec, codec.usual)
        written = properties[key].strip()
        # -1 is what Java has for gzip's usual one
        if name == "gzip" and written == "-1":
            return cls(codec, codec.usual)
        try:
            level = int(written)
        except ValueError:
            level = codec.highest + 1
        if not codec.least <= level <= codec.highest:
            raise TransportError(
                f"Kafka's {key} must be a whole number from {codec.least} to {codec.highest}, not {written!r}"
            )
        return cls(codec, level)

    def compressed(self, batch: SentBatch) -> SentBatch:
        """Return a batch compressed, or as it is where that saves nothing."""
        records = memoryview(self.codec.compress(batch.records, self.level))
        return replace(batch, records=records, codec=self.codec.number) if len(records) < len(batch.records) else batch
