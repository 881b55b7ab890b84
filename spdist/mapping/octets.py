"""Many pieces of bytes, or bits, in one Arrow array: what is read, put together and sent without the GIL."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["OCTETS", "bits", "bounds", "joined", "octets_of", "octets_within"]

#: The type of the arrays, with offsets of 64 bits: what a batch puts out may be more than 2 GiB.
OCTETS = pa.large_binary()
_NOTHING = pa.scalar(b"", OCTETS)


def octets_of(texts: Sequence[str]) -> Any:
    """Return texts in UTF-8; half a character is a question mark, as in Java."""
    try:
        return pa.array(texts, pa.large_string()).cast(OCTETS)
    except UnicodeEncodeError:
        return pa.array([text.encode(errors="replace") for text in texts], OCTETS)


def octets_within(bounds: Any, values: Any) -> Any:
    """Return what lies between `bounds`, an int64 array with one more than there are pieces, in a buffer of bytes."""
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(values)]
    return pa.LargeBinaryArray.from_buffers(OCTETS, len(bounds) - 1, buffers)


def bits(flags: Any) -> Any:
    """Return flags, an array of bools, as a buffer of bits: which values there are, or bools as values."""
    return pa.py_buffer(numpy.packbits(flags, bitorder="little"))


def bounds(octets: Any) -> Any:
    """Return where the pieces of an array that `joined` has made begin in its buffer of values, and where all end."""
    return numpy.frombuffer(octets.buffers()[1], numpy.int64)[: len(octets) + 1]


def joined(*pieces: Any) -> Any:
    """Return pieces joined row by row: arrays, at least one, and bytes that are the same in each row.

    The rows of the array that is returned follow one another in its buffer of values.
    """
    parts: list[Any] = []
    for same, some in groupby(pieces, lambda piece: isinstance(piece, bytes)):
        run = list(some)
        parts += [pa.scalar(b"".join(run), OCTETS)] if same else run
    return pc.binary_join_element_wise(*parts, _NOTHING)
