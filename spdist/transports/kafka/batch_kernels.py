"""Records of Kafka's batches as columns, by a compiled loop over their bytes; only imported where there is numba.

Importing it compiles it, which takes two seconds the first time on a machine.

Nothing here raises or reads beyond what it is given: a record that does not fit into its batch ends the loop.

Source: Kafka's documentation, message format, record.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy

__all__ = ["copied", "records"]

_bytes = numba.types.Array(numba.uint8, 1, "C", readonly=True)
_numbers = numba.types.Array(numba.int64, 1, "C")
_columns = numba.types.Array(numba.int64, 2, "C")


def _kernel(signature: Any = None) -> Any:
    """Return what compiles a function: while this module is imported where its types are given."""
    return numba.njit(signature, nogil=True, cache=True)


@_kernel()
def _varint(data, at, end):  # type: ignore[no-untyped-def]
    """Return a number, zigzag in groups of seven bits, and where it ends: -1 where that is behind `end`."""
    shift, value = numpy.uint64(0), numpy.uint64(0)
    while at < end and shift < 64:
        octet = numpy.uint64(data[numpy.uintp(at)])
        at += 1
        value |= (octet & numpy.uint64(0x7F)) << shift
        if octet < 0x80:
            return numpy.int64(value >> numpy.uint64(1)) ^ -numpy.int64(value & numpy.uint64(1)), at
        shift += numpy.uint64(7)
    return numpy.int64(0), numpy.int64(-1)


@_kernel(numba.int64(_bytes, *(numba.int64,) * 8, _columns, numba.int64))
def records(  # type: ignore[no-untyped-def]  # noqa: PLR0913 (a loop over bytes knows nothing but numbers)
    data, at, end, count, base, first_time, time, begin, stop, columns, filled
):
    """Write the records of a batch, those of wanted offsets, behind the columns' rows so far.

    Parameters
    ----------
    data : array of uint8
        The bytes.
    at, end : int
        Where the records begin and end in them.
    count : int
        How many records there are.
    base, first_time : int
        The batch's first offset and time; those of records are differences from them.
    time : int
        The time of all records, ms, where the broker has set it; else -1.
    begin, stop : int
        The offsets that are wanted: from `begin` on, and before `stop`.
    columns : array of int64
        Six rows: offset, time, where the value begins and its length, where the key begins and its length; a length
        is -1 where there is none.
    filled : int
        How many records the columns have.

    Returns
    -------
    int
        How many they have then; -1 where a record does not fit into its batch.
    """
    for _ in range(count):
        length, at = _varint(data, at, end)
        following = at + length
        if at < 0 or length < 1 or following > end:
            return -1
        later, at = _varint(data, at + 1, following)  # behind a byte of attributes, which mean nothing yet
        number, at = (numpy.int64(0), at) if at < 0 else _varint(data, at, following)
        key, at = (numpy.int64(0), at) if at < 0 else _varint(data, at, following)
        key_at = at
        if at < 0 or key > following - at:
            return -1
        value, at = _varint(data, at + max(key, 0), following)
        if at < 0 or value > following - at:
            return -1
        offset = base + number
        if begin <= offset < stop:
            place = numpy.uintp(filled)
            columns[0, place] = offset
            columns[1, place] = first_time + later if time < 0 else time
            columns[2, place] = at
            columns[3, place] = value
            columns[4, place] = key_at
            columns[5, place] = key
            filled += 1
        at = following
    return filled


@_kernel(
    numba.void(
        _bytes,
        _numbers,
        _numbers,
        numba.types.Array(numba.int32, 1, "C"),
        numba.types.Array(numba.uint8, 1, "C"),
    )
)
def copied(data, begins, lengths, ends, into):  # type: ignore[no-untyped-def]
    """Copy parts of `data` one behind the other; `ends` has where the one before, and then each of them, ends."""
    at = numpy.int64(0)
    ends[0] = 0
    for number in range(len(begins)):
        begin = begins[numpy.uintp(number)]
        for place in range(max(lengths[numpy.uintp(number)], 0)):
            into[numpy.uintp(at)] = data[numpy.uintp(begin + place)]
            at += 1
        ends[numpy.uintp(number + 1)] = at
