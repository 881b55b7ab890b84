"""Tables of keys and of texts over flat arrays, and the texts of some rows; only imported where there is numba.

What is about keys the text of programs calls, and is compiled with it; what is about texts Python does
(`spdist.program.running.values`). No function raises, none allocates: whoever calls has made room before.

A table of keys is five arrays. ``slots`` has the number of a key, or -1, at the place that its hash says or behind it
(linear probing; its length is a power of two, at least twice the number of keys). ``keys`` has `width` words of each
number, one after the other. ``meta`` is: the lowest number that was never given, the first free number (-1: none), how
many keys there are, the seed of the hash, and how many slots there are less one: the array may be longer. ``after``
links the free numbers. ``word`` is what is looked for.

A text is read eight bytes at a time, and its bytes are only compared where it is longer than seven: the hash of a
shorter one, with its length, is a permutation of what it consists of. A number of the table is a row of it, so one
gathering serves what a query passes on, from Arrow's columns, and what it computes, from the table.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from spdist.program.machine.arithmetic import loop

__all__ = [
    "SLACK",
    "bounds_gathered",
    "find",
    "find_all",
    "forget_from",
    "forgotten",
    "hashed",
    "known",
    "number_texts",
    "refill",
    "refill_texts",
    "release",
    "slot_1",
    "slot_2",
    "slot_3",
    "texts_gathered",
]

_WORD = 8
#: So many bytes more than the texts have must be there to write to.
SLACK = _WORD


# Keys.


@loop
def hashed(word, start, width, seed):  # type: ignore[no-untyped-def]
    """Return the hash of `width` words."""
    mixed = numpy.uint64(seed)
    for place in range(start, start + width):
        mixed = (mixed ^ numpy.uint64(word[place])) * numpy.uint64(0x9E3779B97F4A7C15)
        # The low bits of a product come from low bits alone, and masks take low bits: high ones are folded in.
        mixed ^= mixed >> numpy.uint64(29)
    return mixed


@loop
def _place(slots, keys, meta, word, width):  # type: ignore[no-untyped-def]
    """Return the slot of a key, or the free one that it would get."""
    mask = meta[4]
    slot = numpy.int64(hashed(word, 0, width, meta[3]) & numpy.uint64(mask))
    # This ends: half of the slots at least are free.
    while slots[slot] >= 0:
        number = slots[slot]
        same = True
        for place in range(width):
            if keys[number * width + place] != word[place]:
                same = False
                break
        if same:
            break
        slot = (slot + 1) & mask
    return slot


@loop
def known(slots, keys, meta, word, width):  # type: ignore[no-untyped-def]
    """Return the number of a key, -1 where it has none."""
    return slots[_place(slots, keys, meta, word, width)]


@loop
def find(slots, keys, meta, after, word, width):  # type: ignore[no-untyped-def]
    """Return the number of a key; a new key gets one."""
    slot = _place(slots, keys, meta, word, width)
    number = slots[slot]
    if number >= 0:
        return number
    number = meta[1]
    if number >= 0:
        meta[1] = after[number]
    else:
        number = meta[0]
        meta[0] += 1
    meta[2] += 1
    for place in range(width):
        keys[number * width + place] = word[place]
    slots[slot] = number
    return number


# Where the text looks for a key itself: words are values there. Arrays that are given to a function cost some ns each.


@loop
def _mixed(mixed, value):  # type: ignore[no-untyped-def]
    """Return the hash with one word more; see `hashed`."""
    mixed = (mixed ^ numpy.uint64(value)) * numpy.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> numpy.uint64(29))


@loop
def slot_1(seed, mask, first):  # type: ignore[no-untyped-def]
    """Return the slot where a key of one word is, or behind which."""
    return numpy.int64(_mixed(numpy.uint64(seed), first) & numpy.uint64(mask))


@loop
def slot_2(seed, mask, first, second):  # type: ignore[no-untyped-def]
    """Return the slot where a key of two words is, or behind which."""
    return numpy.int64(_mixed(_mixed(numpy.uint64(seed), first), second) & numpy.uint64(mask))


@loop
def slot_3(seed, mask, first, second, third):  # type: ignore[no-untyped-def]
    """Return the slot where a key of three words is, or behind which."""
    return numpy.int64(_mixed(_mixed(_mixed(numpy.uint64(seed), first), second), third) & numpy.uint64(mask))


@loop
def forgotten(slots, keys, meta, number, width):  # type: ignore[no-untyped-def]
    """Forget a key; its number is not given out again."""
    mask = meta[4]
    hole = numpy.int64(hashed(keys, number * width, width, meta[3]) & numpy.uint64(mask))
    # Its number stands for its words: one comparison for each slot.
    while slots[hole] != number:
        hole = (hole + 1) & mask
    # Those behind it move up where their hash allows it, so that probing never meets a hole before them.
    slot = (hole + 1) & mask
    while slots[slot] >= 0:
        home = numpy.int64(hashed(keys, slots[slot] * width, width, meta[3]) & numpy.uint64(mask))
        if ((slot - home) & mask) >= ((slot - hole) & mask):
            slots[hole] = slots[slot]
            hole = slot
        slot = (slot + 1) & mask
    slots[hole] = -1
    meta[2] -= 1


@loop
def release(slots, keys, meta, after, number, width):  # type: ignore[no-untyped-def]
    """Forget a key; its number is free again."""
    forgotten(slots, keys, meta, number, width)
    after[number] = meta[1]
    meta[1] = number


@loop
def forget_from(slots, keys, meta, width, first):  # type: ignore[no-untyped-def]
    """Forget all keys of a table, whose numbers are those from `first` on; new ones get the numbers behind them."""
    mask = meta[4]
    for number in range(first, meta[0]):
        slot = numpy.int64(hashed(keys, number * width, width, meta[3]) & numpy.uint64(mask))
        while slots[slot] != number:
            slot = (slot + 1) & mask
        # A hole hides none of the next ones: they are looked for by number, past free slots too.
        slots[slot] = -1
    meta[2] = 0


@loop
def refill(slots, fresh, keys, width, seed):  # type: ignore[no-untyped-def]
    """Put all keys of a table into a larger one."""
    mask = len(fresh) - 1
    for place in range(len(slots)):
        number = slots[place]
        if number >= 0:
            slot = numpy.int64(hashed(keys, number * width, width, seed) & numpy.uint64(mask))
            while fresh[slot] >= 0:
                slot = (slot + 1) & mask
            fresh[slot] = number


@loop
def find_all(slots, keys, meta, after, words, width, word, found):  # type: ignore[no-untyped-def]
    """Write the number of each key into `found`; new keys get one."""
    mask = meta[4]
    for row in range(len(found)):
        first = row * width
        # As `_place`: a function that is given arrays costs more than this.
        mixed = numpy.uint64(meta[3])
        for place in range(first, first + width):
            mixed = (mixed ^ numpy.uint64(words[place])) * numpy.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> numpy.uint64(29)
        slot = numpy.int64(mixed & numpy.uint64(mask))
        number = slots[slot]
        while number >= 0:
            same = True
            for place in range(width):
                if keys[number * width + place] != words[first + place]:
                    same = False
                    break
            if same:
                break
            slot = (slot + 1) & mask
            number = slots[slot]
        if number < 0:
            for place in range(width):
                word[place] = words[first + place]
            number = find(slots, keys, meta, after, word, width)
        found[row] = number


# Texts.


@intrinsic
def _eight_bytes(_typing: Any, data: Any, place: Any) -> Any:
    """Return eight bytes of an array, the first one lowest; a loop over bytes costs three times as much."""

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        array = context.make_array(data)(context, builder, arguments[0])
        bytes_there = builder.gep(array.data, [arguments[1]])
        word = builder.load(builder.bitcast(bytes_there, ir.IntType(64).as_pointer()), align=1)
        return word if sys.byteorder == "little" else builder.bswap(word)

    return types.uint64(data, place), code


#: As it is called, without what numba gives it.
_word_at: Any = _eight_bytes


# All of this stands in one function: one that is given arrays costs as much as the look-up.
@loop
def number_texts(begins, data, slots, starts, arena, hashes, meta, numbers):  # type: ignore[no-untyped-def]
    """Write the number of each text into `numbers`; new texts get one.

    Parameters
    ----------
    begins, data : array
        Arrow's offsets and bytes.
    slots, starts, arena, hashes, meta
        The table: as that of keys, with the bytes of each number in ``arena[starts[n]:starts[n + 1]]`` and its hash;
        ``meta`` is the number of texts and the seed.
    numbers : array
        One for each text.

    Returns
    -------
    int
        How many texts have their number: fewer than asked for where there is no room for the next one.
    """
    mask, seed, size = len(slots) - 1, numpy.uint64(meta[1]), len(data)
    for row in range(len(numbers)):
        begin, end = numpy.int64(begins[row]), numpy.int64(begins[row + 1])
        length, place, mixed = end - begin, begin, seed
        while place + _WORD <= end:
            mixed = (mixed ^ _word_at(data, place)) * numpy.uint64(0xD6E8FEB86659FD93)
            mixed ^= mixed >> numpy.uint64(32)
            place += _WORD
        if place + _WORD <= size:
            # Seven bytes at most are left, so the shift is less than the word.
            bits = numpy.uint64(8 * (end - place))
            word = _word_at(data, place) & ((numpy.uint64(1) << bits) - numpy.uint64(1))
        else:
            # Behind the last eight bytes of the data nothing may be read.
            word = numpy.uint64(0)
            for before in range(end - 1, place - 1, -1):
                word = word << numpy.uint64(8) | numpy.uint64(data[before])
        # The length has the highest byte, which the last seven bytes leave free.
        mixed = (mixed ^ word ^ (numpy.uint64(length) << numpy.uint64(56))) * numpy.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> numpy.uint64(32)
        mixed *= numpy.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> numpy.uint64(29)
        slot = numpy.int64(mixed & numpy.uint64(mask))
        number = numpy.int64(-1)
        while slots[slot] >= 0:
            there = slots[slot]
            at = starts[there]
            if hashes[there] == mixed and starts[there + 1] - at == length:
                # Short texts of one length and one hash are one text.
                same, compared = True, length if length < _WORD else 0
                while same and compared + _WORD <= length:
                    same = _word_at(arena, at + compared) == _word_at(data, begin + compared)
                    compared += _WORD
                while same and compared < length:
                    same = arena[at + compared] == data[begin + compared]
                    compared += 1
                if same:
                    number = there
                    break
            slot = (slot + 1) & mask
        if number < 0:
            number = meta[0]
            if number + 1 >= len(starts) or 2 * (number + 1) > len(slots) or starts[number] + length > len(arena):
                return row
            at = starts[number]
            for copied in range(length):
                arena[at + copied] = data[begin + copied]
            starts[number + 1] = at + length
            hashes[number] = mixed
            slots[slot] = number
            meta[0] += 1
        numbers[row] = number
    return len(numbers)


@loop
def refill_texts(slots, hashes, count):  # type: ignore[no-untyped-def]
    """Put all texts into a larger table, which is empty."""
    mask = len(slots) - 1
    for number in range(count):
        slot = numpy.int64(hashes[number] & numpy.uint64(mask))
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = number


@intrinsic
def _eight_bytes_copied(_typing: Any, into: Any, place: Any, data: Any, begin: Any) -> Any:
    """Copy eight bytes from one array to another."""

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        written, there, read, here = arguments
        word = ir.IntType(64).as_pointer()
        source = builder.gep(context.make_array(data)(context, builder, read).data, [here])
        target = builder.gep(context.make_array(into)(context, builder, written).data, [there])
        copied = builder.load(builder.bitcast(source, word), align=1)
        builder.store(copied, builder.bitcast(target, word), align=1)
        return context.get_dummy_value()

    return types.void(into, place, data, begin), code


#: As it is called, without what numba gives it.
_word_copied: Any = _eight_bytes_copied


@loop
def bounds_gathered(begins, rows, bounds):  # type: ignore[no-untyped-def]
    """Write where the texts of some rows begin and end when they stand one behind the other.

    Parameters
    ----------
    begins : array
        Where each text begins, and the last one ends; read only.
    rows : array
        Which texts.
    bounds : array
        One place more than there are rows.

    Returns
    -------
    int
        How many bytes they have together; where that is more than 2**31 - 1, the bounds are wrong. -1: there is no such
        row.
    """
    at, texts = 0, numpy.uintp(len(begins) - 1)
    bounds[0] = 0
    for place in range(len(rows)):
        row = numpy.uintp(rows[place])
        if row >= texts:
            return -1
        at += begins[row + numpy.uintp(1)] - begins[row]
        bounds[place + 1] = at
    return at


@loop
def texts_gathered(begins, data, rows, bounds, gathered):  # type: ignore[no-untyped-def]
    """Write the bytes of the texts of some rows.

    Parameters
    ----------
    begins, data : array
        Where each text begins, and the bytes; read only.
    rows : array
        Which texts.
    bounds : array
        What `bounds_gathered` has written.
    gathered : array
        As many bytes as that has returned, and `SLACK`.
    """
    size = len(data)
    for place in range(len(rows)):
        begin, at = numpy.int64(begins[numpy.uintp(rows[place])]), numpy.int64(bounds[place])
        length = bounds[place + 1] - at
        copied = 0
        # What is written behind a text is not yet the next one.
        while copied < length and begin + copied + _WORD <= size:
            _word_copied(gathered, at + copied, data, begin + copied)
            copied += _WORD
        while copied < length:
            gathered[at + copied] = data[begin + copied]
            copied += 1


def _compile() -> None:
    """Compile both, or load them, for Arrow's columns and for the table: no event waits for it."""
    data = types.Array(types.uint8, 1, "C", readonly=True)
    rows, bounds = (types.Array(kind, 1, "C") for kind in (types.int64, types.int32))
    for kind in (types.int32, types.int64):
        begins = types.Array(kind, 1, "C", readonly=True)
        bounds_gathered.compile((begins, rows, bounds))
        texts_gathered.compile((begins, data, rows, bounds, types.Array(types.uint8, 1, "C")))


_compile()
