"""Messages as the records of Kafka's batches, thousands together, without the GIL.

A compiled loop puts them together; until it is compiled, and without numba, Arrow does. The client would make them one
by one, and far more slowly; it puts its header before the records of a batch, and signs them.

Source: Kafka's documentation, message format, record batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, groupby, pairwise
from types import SimpleNamespace
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from spdist.mapping.columns import OCTETS, bounds, joined, octets_of
from spdist.mapping.json_columns import FEW
from spdist.mapping.kernels import Kernels
from spdist.transports.delivery import Deliveries, Delivery, JsonTexts
from spdist.transports.event_log import encoded
from spdist.transports.payloads.headers import ID_HEADER

__all__ = ["OutgoingMessages", "PartitionMessages", "SentBatch", "batches", "behind", "messages_of", "octets"]

#: Bytes of a batch that are no record.
_HEADER_BYTES = 61
#: Numbers from which on the format writes 2, 3, 4, 5 and more bytes.
_WIDER = [1 << bits for bits in range(6, 62, 7)]
#: Records of a batch, at most, and bytes of their numbers in it.
_MOST, _NUMBER_BYTES = 1 << 14, 3
#: Messages whose records are made together, where nobody knows yet how large they are: the next while these are sent.
_FIRST = 1 << 10
#: So many batches are made of those that follow, but for a little, as they may be larger than those before.
_TOGETHER = 3.95


def _varint(number: int) -> bytes:
    """Return a number from 0 on as the format writes it, seven bits after the other, the sign before all."""
    left, made = number << 1, []
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*made, left))


_SMALL = pa.array(map(_varint, range(_MOST)), OCTETS)
#: Attributes and time of each record: none, and that of its batch; the length of a key that is not there.
_PLAIN, _NO_KEY = b"\0\0", b"\x01"
#: Bytes of a record's numbers, and of what stands between them, at most: sizes, numbers and the digits of an id.
_MOST_AROUND = 60
#: What stands before the length of an id: that there is one header, and its name.
_BEFORE_ID = _varint(1) + _varint(len(ID_HEADER)) + ID_HEADER.encode()


@dataclass(frozen=True, slots=True)
class OutgoingMessages:
    """Messages for one place, in order: parallel columns.

    Parameters
    ----------
    topic : str
        Where to.
    partition : int, optional
        Which partition; without it `key` chooses, and without that they take turns by their numbers.
    key : bytes, optional
        Of each.
    values : sequence
        The payload of each.
    source : bytes
        With what the id of each begins.
    numbers : sequence of int
        With what it goes on. Ids go along in the header ``spdist-id``.
    first : int
        Whose turn it is with the first; the others follow.
    """

    topic: str
    partition: int | None
    key: bytes | None
    values: Sequence[Any]
    source: bytes
    numbers: Sequence[int]
    first: int

    def since(self, place: int) -> OutgoingMessages:
        """Return those from a place on."""
        if not place:
            return self
        values, numbers = self.values[place:], self.numbers[place:]
        return replace(self, values=values, numbers=numbers, first=self.first + place)


@dataclass(frozen=True, slots=True)
class PartitionMessages:
    """Messages of one partition: those of `messages` at `places`, the first of which is number `start` of all."""

    messages: OutgoingMessages
    start: int
    places: range


@dataclass(frozen=True, slots=True)
class SentBatch:
    """Records that are sent as one: how many there are, the number of the first of all, and what compresses them."""

    begin: int
    count: int
    records: memoryview
    codec: int = 0


def messages_of(deliveries: Sequence[Delivery]) -> tuple[list[OutgoingMessages], str | None]:
    """Return what deliveries are as messages, up to the first that names no partition, and what is wrong with that."""
    together = isinstance(deliveries, Deliveries)
    runs = [deliveries] if together else [list(run) for _, run in groupby(deliveries, _place)]
    messages: list[OutgoingMessages] = []
    for run in runs:
        first = run[0]
        partition, key = first.options.get("partition.no", ""), first.options.get("key")
        # Comes with each event where it is filled in: read as `whole_number` would, in a quarter of its time
        if partition and not (len(partition) <= 18 and partition.isdecimal() and partition.isascii()):
            return messages, f"'{partition}' is no partition"
        # A range where numbers follow one another: no list of thousands of them.
        numbers = range(first.seq, first.seq + len(run)) if together else [one.seq for one in run]
        place = first.options["topic"], int(partition) if partition else None, None if key is None else key.encode()
        payloads = run.payloads if isinstance(run, Deliveries) else [one.payload for one in run]
        messages.append(OutgoingMessages(*place, payloads, f"{first.producer}:".encode(), numbers, first.seq))
    return messages, None


def _place(one: Delivery) -> tuple[str | None, ...]:
    return one.producer, *(one.options.get(name) for name in ("topic", "partition.no", "key"))


def behind(messages: Sequence[OutgoingMessages], there: int) -> Sequence[OutgoingMessages]:
    """Return the messages but for the first so many."""
    left = []
    for some in messages:
        if there < len(some.values):
            left.append(some.since(there))
        there = max(0, there - len(some.values))
    return left


def octets(payloads: Sequence[Any]) -> Any:
    """Return the bytes of payloads, see `encoded`, as a `pyarrow.LargeBinaryArray`."""
    if isinstance(payloads, JsonTexts):
        return payloads.octets()
    if set(map(type, payloads)) == {str}:
        return octets_of(payloads)
    return pa.array(map(encoded, payloads), OCTETS)


def batches(parts: Iterable[PartitionMessages], limit: int) -> Iterator[SentBatch]:
    """Yield the records of messages, many together; one that does not even fit alone is a batch, too.

    Not many batches are made at a time, however large messages are: they are sent while the processor still has them
    in its caches, and while the next ones are made.

    Parameters
    ----------
    parts : iterable of PartitionMessages
        What goes to one partition, in order.
    limit : int
        Bytes that a batch may have, before it is compressed.
    """
    left, room = deque(parts), _FIRST
    while left:
        records = _RecordColumns(_cut_off(left, room))
        cuts, ends, made = records.made(limit - _HEADER_BYTES)
        # Messages of the next round, by the mean size of a record in this one.
        room = max(1, int(_TOGETHER * limit * cuts[-1] / ends[-1]))
        for (begin, end), (first, last) in zip(pairwise(cuts), pairwise(ends), strict=True):
            yield SentBatch(int(records.places[begin]), end - begin, made[first:last])


def _cut_off(left: deque[PartitionMessages], room: int) -> list[PartitionMessages]:
    """Cut the first messages off those that are left, at least one and at most so many, and return them."""
    some = []
    while left and room:
        part = left.popleft()
        if len(part.places) > room:
            left.appendleft(replace(part, places=part.places[room:]))
            part = replace(part, places=part.places[:room])
        some.append(part)
        room -= len(part.places)
    return some


#: The first and the last record of each batch, the first and the last byte of each; the bytes.
_Cut = tuple[Sequence[int], Sequence[int], memoryview]


class _RecordColumns:
    """The records of messages, as columns of what they are made of."""

    def __init__(self, parts: Sequence[PartitionMessages]) -> None:
        self._counts = [len(part.places) for part in parts]
        self._of_each = [part.messages for part in parts]
        cuts = [slice(part.places.start, part.places.stop, part.places.step) for part in parts]
        self.places = numpy.concatenate([part.start + _array(part.places) for part in parts])
        self._values = _values([one.values[cut] for one, cut in zip(self._of_each, cuts, strict=True)])
        self._numbers = numpy.concatenate(
            [_array(one.numbers[cut]) for one, cut in zip(self._of_each, cuts, strict=True)]
        )
        self._keys = [_NO_KEY if one.key is None else _varint(len(one.key)) + one.key for one in self._of_each]

    def made(self, room: int) -> _Cut:
        """Return the records, in batches that have room for so many bytes, and numbered anew in each.

        One that does not even fit alone is a batch, too.
        """
        if len(self._values) >= FEW:
            _KERNELS.load_later()
        return self._joined(room) if _KERNELS.loops is None else self._by_loop(_KERNELS.loops, room)

    def _by_loop(self, loops: Any, room: int) -> _Cut:
        own = [piece for key, one in zip(self._keys, self._of_each, strict=True) for piece in (key, one.source)]
        lengths = numpy.array([0, *map(len, own)])
        around = lengths[1:].reshape(-1, 2).sum(1)
        # Of nothing but empty values Arrow has no buffer, which is None.
        begins, content = bounds(self._values), self._values.buffers()[2]
        into = numpy.empty(
            begins[-1] - begins[0] + len(self._values) * (_MOST_AROUND + len(_BEFORE_ID) + int(around.max())),
            numpy.uint8,
        )
        # In the worst case each message is a batch of its own, and then the end.
        cuts = numpy.empty((2, len(self._values) + 1), numpy.int64)
        count = loops.records(
            numpy.frombuffer(content or b"", numpy.uint8),
            begins,
            self._numbers,
            numpy.repeat(numpy.arange(len(self._counts)), self._counts),
            numpy.frombuffer(b"".join(own), numpy.uint8),
            lengths.cumsum(),
            numpy.frombuffer(_BEFORE_ID, numpy.uint8),
            room,
            into,
            cuts,
        )
        first, last = cuts[:, : count + 1].tolist()
        return first, last, into.data

    def _joined(self, room: int) -> _Cut:
        texts = pa.array(self._numbers).cast(pa.large_string()).cast(OCTETS)
        source, key = (
            _repeated([one.source for one in self._of_each], self._counts),
            _repeated(self._keys, self._counts),
        )
        lengths, id_lengths = _lengths(self._values), _lengths(source) + _lengths(texts)
        # What follows the number of a record in its batch, and how many bytes.
        pieces = (key, _varints(lengths), self._values, _BEFORE_ID, _varints(id_lengths), source, texts)
        sizes = sum(map(_lengths, pieces), numpy.zeros(len(lengths), numpy.int64)) + len(_PLAIN)
        # Where a record stands in its batch, and so how wide its number is, is not known before batches are cut.
        bodies = sizes + _NUMBER_BYTES
        cuts = list(_cuts(bodies + _widths(bodies), room))
        numbers = numpy.concatenate([numpy.arange(end - begin) for begin, end in pairwise(cuts)])
        made = joined(_varints(sizes + _widths(numbers)), _PLAIN, _SMALL.take(pa.array(numbers)), *pieces)
        return cuts, bounds(made)[cuts].tolist(), memoryview(made.buffers()[2])


def _cuts(sizes: Any, room: int) -> Iterator[int]:
    """Yield where batches begin that have room for so many bytes, and where the last of them ends."""
    ends = sizes.cumsum()
    begin, count = 0, len(sizes)
    while begin < count:
        yield begin
        full = int(numpy.searchsorted(ends, room + (ends[begin - 1] if begin else 0), "right"))
        begin = min(max(full, begin + 1), begin + _MOST)
    yield count


def _values(parts: Sequence[Sequence[Any]]) -> Any:
    if len(parts) == 1:
        return octets(parts[0])
    if any(isinstance(part, JsonTexts) for part in parts):
        return pa.concat_arrays(list(map(octets, parts)))
    return octets(list(chain.from_iterable(parts)))


def _array(numbers: Sequence[int]) -> Any:
    if isinstance(numbers, range):
        return numpy.arange(numbers.start, numbers.stop, numbers.step)
    return numpy.asarray(numbers, numpy.int64)


def _repeated(pieces: Sequence[bytes], counts: Sequence[int]) -> Any:
    """Return each piece so many times, as octets; bytes where all are the same."""
    if len(set(pieces)) == 1:
        return pieces[0]
    return pa.array(pieces, OCTETS).take(pa.array(numpy.repeat(numpy.arange(len(pieces)), counts)))


def _lengths(piece: Any) -> Any:
    return len(piece) if isinstance(piece, bytes) else pc.binary_length(piece).to_numpy()


def _widths(numbers: Any) -> Any:
    """Return how many bytes the format takes for numbers."""
    return numpy.searchsorted(_WIDER, numbers, "right") + 1


def _varints(numbers: Any) -> Any:
    """Return an array of numbers from 0 on as the format writes them; bytes where all are the same."""
    least, most = int(numbers.min()), int(numbers.max())
    if least == most:
        return _varint(least)
    if most < _MOST:
        return _SMALL.take(pa.array(numbers))
    each = pa.array(numbers).dictionary_encode()
    return pa.array(map(_varint, each.dictionary.to_pylist()), OCTETS).take(each.indices)


# The loop. It neither raises nor looks where memory ends: who asks has made room.


@cache
def _compiled() -> SimpleNamespace:
    """Compile the loop, which takes a second the first time on a machine; raises ImportError without numba."""
    import numba
    from numba.extending import register_jitable

    octets, into = (numba.types.Array(numba.uint8, 1, "C", readonly=readonly) for readonly in (True, False))
    begins = numba.types.Array(numba.int64, 1, "C", readonly=True)
    numbers, cuts = (numba.types.Array(numba.int64, width, "C") for width in (1, 2))
    for part in (_width, _digits, _varint_at, _copied):
        register_jitable(part)
    given = (octets, begins, numbers, numbers, octets, numbers, octets, numba.int64, into, cuts)
    return SimpleNamespace(records=numba.njit(numba.int64(*given), nogil=True, cache=True)(_records))


def _width(number: Any) -> Any:
    """Return how many bytes the format takes for a number from 0 on."""
    # The first byte has six bits of a number and its sign, each further one seven.
    width, number = 1, number >> 6
    while number:
        width, number = width + 1, number >> 7
    return width


def _digits(number: Any) -> Any:
    """Return how many digits a number from 0 on has."""
    digits = 1
    while number >= 10:
        digits, number = digits + 1, number // 10
    return digits


def _varint_at(into: Any, at: Any, number: Any) -> Any:
    """Write a number from 0 on as the format does; return where it ends."""
    # Zigzag: the lowest bit is the sign, which is 0 here.
    left = number << 1
    while left > 0x7F:
        into[numpy.uintp(at)] = left & 0x7F | 0x80
        left >>= 7
        at += 1
    into[numpy.uintp(at)] = left
    return at + 1


def _copied(into: Any, at: Any, octets: Any, begin: Any, end: Any) -> Any:
    """Copy bytes; return where the copy ends."""
    for place in range(end - begin):
        into[numpy.uintp(at + place)] = octets[numpy.uintp(begin + place)]
    return at + end - begin


def _records(values, begins, numbers, parts, own, places, before_id, room, into, cuts):  # type: ignore[no-untyped-def]  # noqa: PLR0913 (a loop over bytes knows nothing but numbers)
    """Write messages as records, batch by batch; return how many batches they are.

    Parameters
    ----------
    values, begins : array of uint8, array of int64
        The payloads; where each begins, and where the last one ends.
    numbers, parts : array of int64
        The number of each message, from 0 on, with which its id ends; to which part it belongs.
    own, places : array of uint8, array of int64
        Of each part how the format writes its key, and with what ids begin; where each of these begins, and the last
        one ends.
    before_id : array of uint8
        What stands before the length of an id.
    room : int
        How many bytes a batch may have, of which each record is taken to number itself with as many as the last can.
    into, cuts : array of uint8, array of int64
        The records; two rows: the first message of each batch and its first byte, and where the last batch ends.
    """
    at, batches, begun, used = numpy.int64(0), 0, 0, 0
    for message in range(len(numbers)):
        begin, end = begins[message], begins[message + 1]
        part = 2 * parts[message]
        key, source, behind = places[part], places[part + 1], places[part + 2]
        digits = _digits(numbers[message])
        id_length = behind - source + digits
        size = (
            source
            - key
            + _width(end - begin)
            + end
            - begin
            + len(before_id)
            + _width(id_length)
            + id_length
            + len(_PLAIN)
        )
        most = size + _NUMBER_BYTES
        # The record's own length stands in front of it, in a width that depends on it.
        most += _width(most)
        if message == 0 or used + most > room or message - begun == _MOST:
            cuts[0, batches], cuts[1, batches] = message, at
            batches, begun, used = batches + 1, message, 0
        used += most
        at = _varint_at(into, at, size + _width(message - begun))
        # The two bytes of `_PLAIN`.
        into[at] = into[at + 1] = 0
        at = _varint_at(into, at + 2, message - begun)
        at = _copied(into, at, own, key, source)
        at = _varint_at(into, at, end - begin)
        at = _copied(into, at, values, begin, end)
        at = _copied(into, at, before_id, 0, len(before_id))
        at = _varint_at(into, at, id_length)
        at = _copied(into, at, own, source, behind)
        left = numbers[message]
        for place in range(digits):
            into[at + digits - 1 - place] = 48 + left % 10
            left //= 10
        at += digits
    cuts[0, batches], cuts[1, batches] = len(numbers), at
    return batches


#: Until they are compiled, and without numba, records are put together by Arrow.
_KERNELS = Kernels(_compiled, "Kafka's records are put together by Arrow")
