"""In which order Java's ``compareTo`` puts values, as what Python compares."""

from __future__ import annotations

from struct import Struct

__all__ = ["place_of_real", "place_of_text"]

_DOUBLE, _LONG = Struct(">d"), Struct(">q")
_MOST = 2**63 - 1
_NAN: int = _LONG.unpack(_DOUBLE.pack(float("nan")))[0] & _MOST


def place_of_real(value: float) -> int:
    """Return the place of a decimal: NaN is behind all, and 0.0 behind -0.0."""
    if value != value:
        return _NAN
    bits: int = _LONG.unpack(_DOUBLE.pack(value))[0]
    return bits if bits >= 0 else bits ^ _MOST


def place_of_text(value: str) -> bytes:
    """Return the place of a text: units of UTF-16 are compared, so what has two of them is before U+E000 to U+FFFF."""
    return value.encode("utf-16-be", "surrogatepass")
