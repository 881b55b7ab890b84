"""Messages as the records of Kafka's batches, thousands together, by Arrow: without the GIL.

The client would make them one by one, and far more slowly; it puts its header before the records of a batch, and
compresses and signs them.

Source: Kafka's documentation, message format, record batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, pairwise
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from spdist.mapping.columns import OCTETS, bounds, joined, octets_of
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
    """Records that are sent as one: how many there are, and the number of the first of all."""

    begin: int
    count: int
    records: memoryview


def messages_of(deliveries: Sequence[Delivery]) -> tuple[list[OutgoingMessages], str | None]:
    """Return what deliveries are as messages, up to the first that names no partition, and what is wrong with that."""
    together = isinstance(deliveries, Deliveries)
    runs = [deliveries] if together else [list(run) for _, run in groupby(deliveries, _place)]
    messages: list[OutgoingMessages] = []
    for run in runs:
        first = run[0]
        partition, key = first.options.get("partition.no", ""), first.options.get("key")
        if partition and not partition.isdecimal():
            return messages, f"'{partition}' is no partition"
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
        sizes = records.most_bytes()
        room = max(1, int(_TOGETHER * limit * len(sizes) / int(sizes.sum())))
        cuts = list(_cuts(sizes, limit - _HEADER_BYTES))
        made = records.made(cuts)
        ends, values = bounds(made), memoryview(made.buffers()[2])
        for begin, end in pairwise(cuts):
            yield SentBatch(int(records.places[begin]), end - begin, values[ends[begin] : ends[end]])


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


def _cuts(sizes: Any, room: int) -> Iterator[int]:
    """Yield where batches begin that have room for so many bytes, and where the last of them ends."""
    ends = sizes.cumsum()
    begin, count = 0, len(sizes)
    while begin < count:
        yield begin
        full = int(numpy.searchsorted(ends, room + (ends[begin - 1] if begin else 0), "right"))
        begin = min(max(full, begin + 1), begin + _MOST)
    yield count


class _RecordColumns:
    """The records of messages, as columns of what they are made of."""

    def __init__(self, parts: Sequence[PartitionMessages]) -> None:
        counts = [len(part.places) for part in parts]
        of_each = [part.messages for part in parts]
        cuts = [slice(part.places.start, part.places.stop, part.places.step) for part in parts]
        self.places = numpy.concatenate([part.start + _array(part.places) for part in parts])
        values = _values([one.values[cut] for one, cut in zip(of_each, cuts, strict=True)])
        numbers = numpy.concatenate([_array(one.numbers[cut]) for one, cut in zip(of_each, cuts, strict=True)])
        texts = pa.array(numbers).cast(pa.large_string()).cast(OCTETS)
        source = _repeated([one.source for one in of_each], counts)
        key = _repeated([_NO_KEY if one.key is None else _varint(len(one.key)) + one.key for one in of_each], counts)
        lengths, id_lengths = _lengths(values), _lengths(source) + _lengths(texts)
        #: What follows the number of a record in its batch, and how many bytes.
        self._pieces = (key, _varints(lengths), values, _BEFORE_ID, _varints(id_lengths), source, texts)
        self._sizes = sum(map(_lengths, self._pieces), numpy.zeros(len(values), numpy.int64))

    def most_bytes(self) -> Any:
        """Return how many bytes each record has at most."""
        bodies = self._sizes + len(_PLAIN) + _NUMBER_BYTES
        return bodies + _widths(bodies)

    def made(self, cuts: Sequence[int]) -> Any:
        """Return the records, numbered anew from each cut; the first of them is 0 and the last where all end."""
        numbers = numpy.concatenate([numpy.arange(end - begin) for begin, end in pairwise(cuts)])
        sizes = self._sizes + len(_PLAIN) + _widths(numbers)
        return joined(_varints(sizes), _PLAIN, _SMALL.take(pa.array(numbers)), *self._pieces)


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
