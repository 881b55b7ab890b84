"""Orders, as the text of programs calls them; compiled together with a program, as `spdist.program.machine.kernels`."""

from __future__ import annotations

import numpy

from spdist.program.machine.arithmetic import loop

__all__ = [
    "bucket_of",
    "digits_hash",
    "float_hash",
    "nulls_last",
    "real_place",
    "sort_places",
    "text_hash",
    "text_is_less",
    "whole_hash",
    "word_hash",
]

_MOST = 2**63 - 1
_NAN = 0x7FF8000000000000


@loop
def real_place(value):  # type: ignore[no-untyped-def]
    """Return a whole number for a real: NaN is behind all, and 0.0 behind -0.0."""
    if value != value:
        return numpy.int64(_NAN)
    bits = numpy.float64(value).view(numpy.int64)
    # Of negative doubles the greater bits are the lesser number, so all but the sign are turned.
    return bits if bits >= 0 else bits ^ numpy.int64(_MOST)


@loop
def text_is_less(starts, content, one, other):  # type: ignore[no-untyped-def]
    """Tell whether the text with one number comes before another one, by the units of UTF-16 as in Java."""
    place, end = starts[one], starts[one + 1]
    place_2, end_2 = starts[other], starts[other + 1]
    while place < end and place_2 < end_2:
        byte, byte_2 = content[place], content[place_2]
        if byte != byte_2:
            # What has two units begins with a smaller one than what is behind the surrogates.
            if byte >= 0xEE and byte_2 >= 0xEE and (byte >= 0xF0) != (byte_2 >= 0xF0):
                return byte >= 0xF0
            return byte < byte_2
        place += 1
        place_2 += 1
    return end - place < end_2 - place_2


@loop
def sort_places(places, spare, words, starts, content, begin, end, texts):  # type: ignore[no-untyped-def]
    """Sort places stably by a whole number for each; that is a text's number where `texts` is 1, or 2 for descending.

    Texts are in `content`, each from its place in `starts` on.
    """
    width = 1
    while width < end - begin:
        for low in range(begin, end, 2 * width):
            left, middle, high = low, min(low + width, end), min(low + 2 * width, end)
            right = middle
            for place in range(low, high):
                takes_left = right >= high
                if not takes_left and left < middle:
                    one, other = words[places[left]], words[places[right]]
                    if not texts:
                        # Of equal ones the left one is first, so what an earlier sort has done stays.
                        takes_left = one <= other
                    elif texts == 1:
                        takes_left = not text_is_less(starts, content, other, one)
                    else:
                        takes_left = not text_is_less(starts, content, one, other)
                if takes_left:
                    spare[place] = places[left]
                    left += 1
                else:
                    spare[place] = places[right]
                    right += 1
        for place in range(begin, end):
            places[place] = spare[place]
        width *= 2


@loop
def nulls_last(places, spare, nulls, begin, end):  # type: ignore[no-untyped-def]
    """Put the places of what is null behind the others, which stay in their order."""
    kept, late = begin, 0
    for place in range(begin, end):
        if nulls[places[place]]:
            spare[late] = places[place]
            late += 1
        else:
            places[kept] = places[place]
            kept += 1
    for place in range(late):
        places[kept + place] = spare[place]


# Hash codes of Java, as whole numbers without sign: what keys are in the order of (`spdist.java.objects.hash_of`).


@loop
def text_hash(code, starts, content, number):  # type: ignore[no-untyped-def]
    """Return the hash code of the text with a number, over its units of UTF-16, behind a text that has one."""
    place, end = starts[number], starts[number + 1]
    while place < end:
        point, more = numpy.int64(content[place]), 0
        if point >= 0xF0:
            point, more = point & 0x07, 3
        elif point >= 0xE0:
            point, more = point & 0x0F, 2
        elif point >= 0xC0:
            point, more = point & 0x1F, 1
        for following in range(place + 1, place + 1 + more):
            point = (point << 6) | (numpy.int64(content[following]) & 0x3F)
        place += 1 + more
        if point > 0xFFFF:
            point -= 0x10000
            code = (31 * code + 0xD800 + (point >> 10)) & 0xFFFFFFFF
            point = 0xDC00 + (point & 0x3FF)
        code = (31 * code + point) & 0xFFFFFFFF
    return code


@loop
def digits_hash(code, value):  # type: ignore[no-untyped-def]
    """Return the hash code of a whole number as a text, behind a text that has one."""
    size = numpy.uint64(value)
    if value < 0:
        # 45 is the minus sign, 48 the digit 0. The least long has no positive number: its size has no sign.
        code, size = (31 * code + 45) & 0xFFFFFFFF, numpy.uint64(0) - numpy.uint64(value)
    unit = numpy.uint64(1)
    while size // unit >= numpy.uint64(10):
        unit *= numpy.uint64(10)
    while unit > numpy.uint64(0):
        code = (31 * code + 48 + numpy.int64(size // unit)) & 0xFFFFFFFF
        size %= unit
        unit //= numpy.uint64(10)
    return code


@loop
def whole_hash(value):  # type: ignore[no-untyped-def]
    """Return the hash code of a whole number."""
    if -(2**31) <= value < 2**31:
        return value & 0xFFFFFFFF
    return word_hash(value)


@loop
def float_hash(value):  # type: ignore[no-untyped-def]
    """Return the hash code of a float."""
    known = value if value == value else numpy.nan
    return numpy.int64(numpy.float32(known).view(numpy.uint32))


@loop
def word_hash(word):  # type: ignore[no-untyped-def]
    """Return the hash code of 64 bits: a whole number that is none of 32 bits, or those of a double."""
    return (word ^ (word >> 32)) & 0xFFFFFFFF


@loop
def bucket_of(code, buckets):  # type: ignore[no-untyped-def]
    """Return in which of so many buckets, a power of two, a hash code belongs (`spdist.java.objects.bucket_of`)."""
    # As `HashMap.hash` spreads a hash code.
    return (code ^ (code >> 16)) & (buckets - 1)
