"""Which partition an event belongs to: the same answer everywhere, so that equal keys always meet.

Source: WSO2's ``partitioned`` distribution strategy, which takes Java's ``String.hashCode`` of the key's text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from spdist.java.numbers import text_of, text_of_float32, wrap32
from spdist.language.types import Type

__all__ = ["java_hash", "key_partition", "key_text"]


def java_hash(text: str) -> int:
    """Return Java's ``String.hashCode`` of `text`: over UTF-16 units, wrapped to 32 bits, signed."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        # Java's int wraps: only the last 32 bits are carried on.
        value = (value * 31 + (high << 8 | low)) & 0xFFFF_FFFF
    return wrap32(value)


@lru_cache(maxsize=65_536)
def key_partition(text: str, partitions: int) -> int:
    """Return the partition, 0 … `partitions` - 1, of a key whose value has this text.

    ``abs(hash % partitions)`` with Java's remainder, which takes the sign of the hash: never out of range, unlike
    ``abs(hash) % partitions``, which fails for the one hash whose absolute value is no int.
    """
    return abs(java_hash(text)) % partitions


def key_text(kind: Type) -> Callable[[Any], str]:
    """Return the function that writes a key of type `kind` as Java does; null becomes ``null``."""
    return text_of_float32 if kind is Type.FLOAT else text_of
