"""What a broker sends, as columns: the messages of record batches, without those of transactions that were aborted.

Source: Kafka's documentation, message format, record batch and record; for aborted transactions KIP-98.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy
import pyarrow as pa
from aiokafka import codec
from aiokafka.record.memory_records import MemoryRecords
from crc32c import crc32c

from spdist.errors import TransportError
from spdist.mapping.kernels import Kernels

__all__ = ["FetchedMessages", "compile_later", "following_offset", "messages_of"]

#: Of each batch: offset of its first message, length of what follows, epoch of the leader, version.
_BEGIN = struct.Struct(">qiib")
#: In those of version 2 behind that: checksum, attributes, number of the last message in it, first and greatest time,
#: producer, its epoch and number, and how many messages there are.
_HEADER = struct.Struct(">Ihiqqqhii")
_PREFIX, _CHECKED_AT, _RECORDS_AT = 12, 21, _BEGIN.size + _HEADER.size
_CODEC, _BROKERS_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_DECODERS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


@dataclass(frozen=True, slots=True)
class FetchedMessages:
    """Messages of one partition in the order of their offsets: parallel columns.

    Parameters
    ----------
    offsets, times : pyarrow.Int64Array
        Of each message; times in ms.
    values : pyarrow.BinaryArray
        The payloads; one that is missing is empty.
    keys : list of bytes or None, optional
        Where they are wanted.
    headers : list, optional
        Where they are wanted: of each message pairs of a name and bytes or None.
    """

    offsets: Any
    times: Any
    values: Any
    keys: list[bytes | None] | None = None
    headers: list[Sequence[tuple[str, bytes | None]]] | None = None

    @classmethod
    def of(cls, listed: Sequence[tuple[int, int, bytes, bytes | None]]) -> FetchedMessages:
        """Return messages, at least one, of which offset, time, payload and key are known one by one."""
        offsets, times, values, keys = (list(column) for column in zip(*listed, strict=True))
        return cls(pa.array(offsets, pa.int64()), pa.array(times, pa.int64()), pa.array(values, pa.binary()), keys)

    def __len__(self) -> int:
        """Return how many messages there are."""
        return len(self.offsets)


class _Batch(NamedTuple):
    """Where a batch is; of those before version 2 nothing else is known."""

    at: int
    end: int
    version: int
    base: int = 0
    attributes: int = 0
    first_time: int = 0
    last_time: int = 0
    producer: int = -1
    size: int = 0


def compile_later() -> None:
    """Let a thread compile, or load, what reads messages many times as fast; who reads meanwhile does not wait."""
    _KERNELS.load_later()


def following_offset(raw: bytes, offset: int) -> int:
    """Return the offset behind the last whole batch that a broker has sent for `offset`; that one where there is none.

    A broker ends where it may send no more bytes, also inside of a batch.
    """
    following = offset
    for at, _, version in _places(raw):
        base = _BEGIN.unpack_from(raw, at)[0]
        # Before version 2 a message, or many that are compressed as one, has the number of the last.
        last = base + _HEADER.unpack_from(raw, at + _BEGIN.size)[2] if version >= 2 else base
        # The number of the last message stands there also where compaction has removed that message.
        following = max(following, last + 1)
    return following


def messages_of(
    raw: bytes,
    begin: int,
    stop: int,
    aborted: Sequence[tuple[int, int]] = (),
    *,
    keys: bool = False,
    headers: bool = False,
    checked: bool = True,
) -> FetchedMessages:
    """Return the messages of whole batches, of offsets from `begin` on and before `stop`.

    Parameters
    ----------
    raw : bytes
        What a broker has sent.
    begin, stop : int
        The wanted offsets.
    aborted : sequence of (int, int)
        Transactions that were aborted: their producer, and the offset of their first message.
    keys, headers : bool
        Whether they are wanted.
    checked : bool
        Whether checksums are looked at.

    Raises
    ------
    TransportError
        A batch is damaged, or compressed in a way that nothing here can read.
    """
    compiled = not headers and _KERNELS.loops is not None
    parts = []
    committed = _committed(_batches(raw, checked), aborted)
    # Neighbours of one kind are read together; the order of offsets is kept.
    for is_compiled, batches in groupby(committed, lambda one: compiled and one.version == 2):
        parts.append((_columns if is_compiled else _one_by_one)(raw, list(batches), begin, stop, keys, headers))
    if len(parts) == 1:
        return parts[0]
    offsets, times, values = (
        pa.concat_arrays([pa.array([], type), *(getattr(part, name) for part in parts)]) for name, type in _TYPES
    )
    return FetchedMessages(
        offsets,
        times,
        values,
        [key for part in parts for key in part.keys or ()] if keys else None,
        [some for part in parts for some in part.headers or ()] if headers else None,
    )


_TYPES = (("offsets", pa.int64()), ("times", pa.int64()), ("values", pa.binary()))


def _places(raw: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield where each whole batch begins and ends, and its version."""
    at, size = 0, len(raw)
    # The version, which says how long a header is, is the last byte of what all versions begin with.
    while at + _RECORDS_AT <= size or (at + _BEGIN.size <= size and raw[at + _BEGIN.size - 1] < 2):
        _, length, _, version = _BEGIN.unpack_from(raw, at)
        end = at + _PREFIX + length
        # The broker has cut the last batch off; it comes whole with the next request.
        if end > size:
            return
        if length < (_RECORDS_AT if version >= 2 else _BEGIN.size) - _PREFIX:
            raise TransportError(f"Kafka has sent a batch of {length} bytes", hint=_DAMAGED)
        yield at, end, version
        at = end


_DAMAGED = "the topic is damaged there: look at the disk of its broker"


def _batches(raw: bytes, checked: bool) -> Iterator[_Batch]:
    for at, end, version in _places(raw):
        if version < 2:
            yield _Batch(at, end, version)
            continue
        base = _BEGIN.unpack_from(raw, at)[0]
        crc, attributes, _, first, last, producer, _, _, count = _HEADER.unpack_from(raw, at + _BEGIN.size)
        if checked and crc32c(memoryview(raw)[at + _CHECKED_AT : end]) != crc:
            raise TransportError(f"the checksum of Kafka's batch from offset {base} on is wrong", hint=_DAMAGED)
        yield _Batch(at, end, version, base, attributes, first, last, producer, max(0, count))


def _committed(batches: Iterator[_Batch], aborted: Sequence[tuple[int, int]]) -> Iterator[_Batch]:
    """Yield the batches that have messages for readers: neither marks of transactions, nor what was aborted."""
    # The earliest at the end, where pop is cheap.
    waiting = sorted(((first, producer) for producer, first in aborted), reverse=True)
    open_ones: set[int] = set()
    for batch in batches:
        # A transaction begins with a batch of its own.
        while waiting and waiting[-1][0] <= batch.base:
            open_ones.add(waiting.pop()[1])
        # The mark ends the transaction, whether it was aborted or not; the next of this producer may be committed.
        if batch.attributes & _CONTROL:
            open_ones.discard(batch.producer)
        elif not (batch.attributes & _TRANSACTIONAL and batch.producer in open_ones):
            yield batch


def _records_of(raw: bytes, batch: _Batch) -> tuple[Any, int, int]:
    """Return the bytes of a batch's records, where they begin in them and where they end."""
    which = batch.attributes & _CODEC
    if not which:
        return raw, batch.at + _RECORDS_AT, batch.end
    name = _DECODERS.get(which)
    if name is None or not getattr(codec, f"has_{name}")():
        hint = "pip install cramjam, or let the producer compress with gzip"
        raise TransportError(f"Kafka's messages are compressed by {name or f'codec {which}'}", hint=hint)
    try:
        found = bytes(getattr(codec, f"{name}_decode")(raw[batch.at + _RECORDS_AT : batch.end]))
    except Exception as error:
        told = f"Kafka's batch from offset {batch.base} on is no {name}: {error}"
        raise TransportError(told, hint=_DAMAGED) from error
    return found, 0, len(found)


def _columns(
    raw: bytes, batches: Sequence[_Batch], begin: int, stop: int, keys: bool, _headers: bool
) -> FetchedMessages:
    """Return the messages of batches of version 2, by a compiled loop."""
    loops = _KERNELS.loops
    found, values, known = [], [], list[bytes | None]()
    # Batches that are not compressed share the bytes that were sent: their columns are made together, without a copy.
    for data, own in groupby(((*_records_of(raw, batch), batch) for batch in batches), lambda one: one[0]):
        octets, some = numpy.frombuffer(data, numpy.uint8), list(own)
        # A record has seven bytes at least.
        columns = numpy.empty((6, sum(min(batch.size, end - at) for _, at, end, batch in some)), numpy.int64)
        filled = 0
        for _, at, end, batch in some:
            time = batch.last_time if batch.attributes & _BROKERS_TIME else -1
            # The header is not trusted: more records than bytes there cannot be.
            count = min(batch.size, end - at)
            first = batch.base, batch.first_time, time
            filled = loops.records(octets, at, end, count, *first, begin, stop, columns, filled)
            if filled < 0:
                raise TransportError(f"Kafka's batch from offset {batch.base} on has no records", hint=_DAMAGED)
        columns = columns[:, :filled]
        found.append(columns[:2])
        values.append(_binary(loops.copied, octets, columns[2], columns[3]))
        if keys:
            places = zip(columns[4].tolist(), columns[5].tolist(), strict=True)
            known += [data[at : at + length] if length >= 0 else None for at, length in places]
    offsets, times = numpy.concatenate(found, axis=1)
    return FetchedMessages(pa.array(offsets), pa.array(times), pa.concat_arrays(values), known if keys else None)


def _binary(copied: Any, octets: Any, begins: Any, lengths: Any) -> Any:
    """Return parts of some bytes as a `pyarrow.BinaryArray`."""
    into = numpy.empty(int(lengths.clip(0).sum()), numpy.uint8)
    ends = numpy.empty(len(begins) + 1, numpy.int32)
    copied(octets, begins, lengths, ends, into)
    return pa.Array.from_buffers(pa.binary(), len(begins), [None, pa.py_buffer(ends), pa.py_buffer(into)])


def _one_by_one(
    raw: bytes, batches: Sequence[_Batch], begin: int, stop: int, keys: bool, headers: bool
) -> FetchedMessages:
    """Return the messages of batches as the client reads them."""
    found = []
    for batch in batches:
        if batch.version >= 2:
            _records_of(raw, batch)  # says what is wrong
        try:
            records = MemoryRecords(raw[batch.at : batch.end])
            while records.has_next():
                found += [one for one in records.next_batch() if begin <= one.offset < stop]
        except Exception as error:  # the client has one for each way in which bytes can be wrong
            told = f"Kafka's batch from offset {batch.base} on has no records: {type(error).__name__}: {error}"
            raise TransportError(told, hint=_DAMAGED) from error
    return FetchedMessages(
        pa.array([one.offset for one in found], pa.int64()),
        pa.array([one.timestamp for one in found], pa.int64()),
        pa.array([one.value or b"" for one in found], pa.binary()),
        [one.key for one in found] if keys else None,
        [one.headers for one in found] if headers else None,
    )


# Loops over bytes, compiled where there is numba. They neither raise nor read beyond what they are given: a record that
# does not fit into its batch ends the loop.


@cache
def _compiled() -> SimpleNamespace:
    """Compile the loops, which takes two seconds the first time on a machine; raises ImportError without numba."""
    import numba
    from numba.extending import register_jitable

    octets, ends = numba.types.Array(numba.uint8, 1, "C", readonly=True), numba.types.Array(numba.int32, 1, "C")
    numbers, columns = (numba.types.Array(numba.int64, width, "C") for width in (1, 2))
    kernel = partial(numba.njit, nogil=True, cache=True)
    register_jitable(_varint)
    return SimpleNamespace(
        records=kernel(numba.int64(octets, *(numba.int64,) * 8, columns, numba.int64))(_records),
        copied=kernel(numba.void(octets, numbers, numbers, ends, numba.types.Array(numba.uint8, 1, "C")))(_copied),
    )


def _varint(data: Any, at: Any, end: Any) -> Any:
    """Return a number, zigzag in groups of seven bits, and where it ends: -1 where that is behind `end`."""
    shift, value = numpy.uint64(0), numpy.uint64(0)
    while at < end and shift < 64:
        octet = numpy.uint64(data[numpy.uintp(at)])
        at += 1
        # In unsigned 64 bits: numba would make a float of mixed signs.
        value |= (octet & numpy.uint64(0x7F)) << shift
        if octet < 0x80:
            return numpy.int64(value >> numpy.uint64(1)) ^ -numpy.int64(value & numpy.uint64(1)), at
        shift += numpy.uint64(7)
    return numpy.int64(0), numpy.int64(-1)


def _records(  # type: ignore[no-untyped-def]  # noqa: PLR0913 (a loop over bytes knows nothing but numbers)
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
            # With LogAppendTime the broker's time counts and not that of the producer.
            columns[1, place] = first_time + later if time < 0 else time
            columns[2, place] = at
            columns[3, place] = value
            columns[4, place] = key_at
            columns[5, place] = key
            filled += 1
        # By the length of the record and not by what was read: headers at its end are passed over.
        at = following
    return filled


def _copied(data, begins, lengths, ends, into):  # type: ignore[no-untyped-def]
    """Copy parts of `data` one behind the other; `ends` has where the one before, and then each of them, ends."""
    at = numpy.int64(0)
    ends[0] = 0
    for number in range(len(begins)):
        begin = begins[numpy.uintp(number)]
        for place in range(max(lengths[numpy.uintp(number)], 0)):
            into[numpy.uintp(at)] = data[numpy.uintp(begin + place)]
            at += 1
        ends[numpy.uintp(number + 1)] = at


#: Until they are compiled, and without numba, messages are read one by one.
_KERNELS = Kernels(_compiled, "Kafka's messages are read one by one")
