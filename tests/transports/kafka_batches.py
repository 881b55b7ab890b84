"""Record batches as a broker stores them."""

from __future__ import annotations

import struct

from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from crc32c import crc32c

__all__ = ["CODECS", "Message", "batch", "plain", "signed"]

#: Time, key, value and headers.
Message = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def batch(
    base: int, messages: list[Message], codec: str = "none", producer: int = -1, attributes: int = 0, time: int = -1
) -> bytes:
    """A record batch as a broker stores it: from an offset on."""
    builder = _DefaultRecordBatchBuilderPy(2, CODECS[codec], bool(attributes & 0x10), producer, 0, 0, 1 << 30)
    for number, (sent, key, value, headers) in enumerate(messages):
        builder.append(number, sent, key, value, headers)
    made = bytearray(builder.build())
    struct.pack_into(">q", made, 0, base)
    struct.pack_into(">h", made, 21, struct.unpack_from(">h", made, 21)[0] | attributes)
    if time >= 0:
        struct.pack_into(">q", made, 35, time)
    return signed(made)


def signed(made: bytearray) -> bytes:
    struct.pack_into(">I", made, 17, crc32c(bytes(made[21:])))
    return bytes(made)


def plain(*values: bytes, at: int = 1000) -> list[Message]:
    return [(at + number, None, value, []) for number, value in enumerate(values)]
