"""In which order Java's ``compareTo`` puts values, as what Python compares."""

from __future__ import annotations

from struct import Struct
from typing import Any

from spdist.java.objects import hash_of

__all__ = ["PlaceOfObject", "place_of_real", "place_of_text"]

_DOUBLE, _LONG = Struct(">d"), Struct(">q")
_MOST = 2**63 - 1
# Without the sign, which platforms set differently for NaN: so it is behind infinity
_NAN: int = _LONG.unpack(_DOUBLE.pack(float("nan")))[0] & _MOST


def place_of_real(value: float) -> int:
    """Return the place of a decimal: NaN is behind all, and 0.0 behind -0.0."""
    if value != value:
        return _NAN
    bits: int = _LONG.unpack(_DOUBLE.pack(value))[0]
    # Bits of negatives grow as the number sinks: turning all but the sign round puts them in order
    return bits if bits >= 0 else bits ^ _MOST


def place_of_text(value: str) -> bytes:
    """Return the place of a text: units of UTF-16 are compared, so what has two of them is before U+E000 to U+FFFF."""
    return value.encode("utf-16-be", "surrogatepass")


class PlaceOfObject:
    """The place of an object, of whatever class: Siddhi orders objects by their hash codes, whose difference wraps.

    Parameters
    ----------
    value : object
        It is not null.
    """

    __slots__ = ("_code",)

    def __init__(self, value: Any) -> None:
        self._code = hash_of(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlaceOfObject) and self._code == other._code

    def __hash__(self) -> int:
        return self._code

    def __lt__(self, other: PlaceOfObject) -> bool:
        # Bit 31 is the sign of the difference as an int of Java's
        return (self._code - other._code) & 0x8000_0000 != 0
