"""Columns as payloads of JSON, by a compiled loop over rows; only imported where there is numba.

Importing it compiles it, which takes some seconds the first time on a machine. All of it is one file, as what is kept
of that is known by the file of the loop alone.

Nothing here looks where memory ends: who asks has made room, and up to `SLACK` bytes behind what is written, or read,
are touched.

Source: R. Giulietti, The Schubfach way to render doubles. It needs no rounded powers of ten here: of the numbers that
Java writes as plain decimals, and of larger ones up to 2^53, the power is a whole number below 2^64, and products are
exact.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from spdist.mapping.json_columns import DOUBLE, FLOAT, INT, LONG, TEXT

__all__ = ["AROUND", "MOST_BYTES", "SLACK", "odd_reals", "payloads"]

#: Bytes behind what is written, and behind what is copied, that are touched, too.
SLACK = 8
#: Bytes of the longest value that is no text, and of what stands around a text, or around an event.
MOST_BYTES, AROUND = 26, 2

_octets = types.Array(numba.uint8, 1, "C", readonly=True)
_numbers = types.Array(numba.int64, 1, "C")
_rows = types.Array(numba.int64, 2, "C")
_part = numba.njit(nogil=True, error_model="numpy")
_U = numpy.uint64


def _memory(width: int, kind: Any) -> tuple[Any, Any]:
    """Return what reads, and what writes, so many bits at an address."""

    def pointer(builder: Any, at: Any) -> Any:
        return builder.inttoptr(at, ir.IntType(width).as_pointer())

    @intrinsic
    def read(_typing: Any, at: Any) -> Any:
        def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            # Addresses are anywhere in a buffer: without align=1 LLVM may assume a multiple of the width.
            return builder.load(pointer(builder, arguments[0]), align=1)

        return kind(types.int64), code

    @intrinsic
    def write(_typing: Any, at: Any, value: Any) -> Any:
        def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            builder.store(arguments[1], pointer(builder, arguments[0]), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, kind), code

    return read, write


_octet_at, _put_octet = _memory(8, types.uint8)
_, _put_pair = _memory(16, types.uint16)
_half_at, _ = _memory(32, types.int32)
_word_at, _put_word = _memory(64, types.uint64)


@intrinsic
def _scaled(_typing: Any, number: Any, ten: Any, shift: Any) -> Any:
    """Return a product without its last `shift` bits, at most 63; its last bit is set where one of those is, too."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide, word = ir.IntType(128), ir.IntType(64)
        # So it is known not to be beyond a word.
        shift = builder.and_(arguments[2], ir.Constant(word, 63))
        first, second, by = (builder.zext(one, wide) for one in (*arguments[:2], shift))
        product = builder.mul(first, second)
        left = builder.lshr(product, by)
        lost = builder.icmp_unsigned("!=", builder.shl(left, by), product)
        return builder.or_(builder.trunc(left, word), builder.zext(lost, word))

    return types.uint64(types.uint64, types.uint64, types.uint64), code


#: As it is called, without what numba gives it.
_product: Any = _scaled


@_part
def _rounded(number, ten, shift, is_word):  # type: ignore[no-untyped-def]
    """Return the same; `is_word`: of a product below 2^64."""
    if not is_word:
        return _product(number, ten, shift)
    left = number * ten >> shift
    return left | _U(left << shift != number * ten)


_HIDDEN, _FRACTION, _SIGN = _U(1 << 52), _U((1 << 52) - 1), _U(1 << 63)
#: The bits of a double that a float has not; how many.
_BEYOND_FLOAT, _NARROWED = _U((1 << 29) - 1), _U(29)
#: Of 2^0, 2^-1 …: the power of ten by which a number with so large a last bit is multiplied.
_POWERS = numpy.array([next(power for power in range(20) if 10**power >= 1 << shift) for shift in range(63)])
_TENS = numpy.array([10**power for power in range(20)], numpy.uint64)
_PAIRS = numpy.frombuffer(b"".join(b"%02d" % number for number in range(100)), numpy.uint16).copy()
_INFINITE, _PLAIN_FROM, _PLAIN_TO, _SHORTEST_TO = (
    _U(one.view(numpy.uint64)) for one in numpy.array([numpy.inf, 0.001, 1e7, 2.0**53])
)
_0, _1, _2, _3, _4, _10, _40, _52, _100 = (_U(one) for one in (0, 1, 2, 3, 4, 10, 40, 52, 100))
_MANY = _U(10**8)
_EXPONENT, _BIAS = _U(0x7FF), 1075


@_part
def _is_odd(bits, is_float):  # type: ignore[no-untyped-def]
    """Tell whether a finite real, given by its bits, is none of those that `_real` writes."""
    size = bits & ~_SIGN
    if size == _0 or size >= _INFINITE:
        return False
    if is_float:
        return size < _PLAIN_FROM or size >= _PLAIN_TO or (size & _BEYOND_FLOAT) != _0
    return size < _PLAIN_FROM or size >= _SHORTEST_TO


@_part
def _shortest(number, shift, is_float):  # type: ignore[no-untyped-def]
    """Return the fewest digits that tell `number` / 2^`shift` from its neighbours, and how many are behind the point.

    What is between it and the middle of the way to a neighbour is taken for it. Those middles have more digits than any
    that is looked at, as the number has a fraction. For the few powers of two that have one, which have a neighbour
    below them that is nearer, it comes to the same.

    Parameters
    ----------
    number, shift : uint64
        The mantissa, and how many bits are behind its point, at least one of them set.
    is_float : bool
        Whether it is the mantissa of a float.
    """
    behind = _POWERS[numpy.int64(shift)]
    # Times four: a bit for the middles, half a last bit away, and one for what `_rounded` has cut off.
    ten, four = _TENS[behind], number * _4
    lower = _rounded(four - _2, ten, shift, is_float)
    value = _rounded(four, ten, shift, is_float)
    upper = _rounded(four + _2, ten, shift, is_float)
    digits = value // _4
    # A multiple of ten between the middles has a digit less; there is one at most, as they are less than ten apart.
    fewer = digits // _10
    below, above = lower <= fewer * _40, fewer * _40 + _40 <= upper
    if below != above:
        return fewer + _U(above), behind - 1
    # At least one of two neighbours fits; of both the nearer one is taken, and the even one where they are as near.
    below, above = lower <= digits * _4, digits * _4 + _4 <= upper
    if below != above:
        return digits + _U(above), behind
    middle = digits * _4 + _2
    return digits + _U(value > middle or (value == middle and (digits & _1) != _0)), behind


@_part
def _padded(at, number, width):  # type: ignore[no-untyped-def]
    """Write a number in so many digits."""
    end = at + width
    while end - at >= 2:
        left = number // _100
        end -= 2
        _put_pair(end, _PAIRS[number - left * _100])
        number = left
    if end > at:
        _put_octet(at, numpy.uint8(48) + numpy.uint8(number))
    return at + width


@_part
def _counted(at, number):  # type: ignore[no-untyped-def]
    """Write a number in as many digits as it has."""
    width = 1
    while width < len(_TENS) and number >= _TENS[width]:
        width += 1
    return _padded(at, number, width)


@_part
def _whole(at, number):  # type: ignore[no-untyped-def]
    """Write a whole number; return where it ends."""
    if number < 0:
        _put_octet(at, numpy.uint8(45))
        # Negated without sign: the least long has no positive counterpart of 64 signed bits.
        return _counted(at + 1, _0 - _U(number))
    return _counted(at, _U(number))


@_part
def _letters(at, letters):  # type: ignore[no-untyped-def]
    for number in range(len(letters)):
        _put_octet(at + number, numpy.uint8(letters[number]))
    return at + len(letters)


_NULL, _ZERO, _TRUE, _FALSE = tuple(b"null"), tuple(b"0.0"), tuple(b"true"), tuple(b"false")


@_part
def _real(at, bits, is_float):  # type: ignore[no-untyped-def]
    """Write a real that is not odd, as Java does, null where JSON has none; return where it ends.

    Parameters
    ----------
    at : int
        The address.
    bits : uint64
        The double.
    is_float : bool
        Whether it is a float, which takes fewer digits.
    """
    size = bits & ~_SIGN
    if size >= _INFINITE:
        return _letters(at, _NULL)
    if size != bits:
        _put_octet(at, numpy.uint8(45))
        at += 1
    if size == _0:
        return _letters(at, _ZERO)
    number, shift = (size & _FRACTION) | _HIDDEN, _U(_BIAS) - (size >> _52)
    if is_float:
        number, shift = number >> _NARROWED, shift - _NARROWED
    if number & ((_1 << shift) - _1) == _0:
        digits, behind = number >> shift, 0
    else:
        digits, behind = _shortest(number, shift, is_float)
    # The digits have no zeros at their end in Java's text; eight at a time first, as large numbers have many.
    if digits % _10 == _0:
        while digits % _MANY == _0:
            digits, behind = digits // _MANY, behind - 8
        while digits % _10 == _0:
            digits, behind = digits // _10, behind - 1
    if size >= _PLAIN_TO:
        return _scientific(at, digits, behind)
    if behind <= 0:
        at = _counted(at, digits * _TENS[-behind])
        _put_octet(at, numpy.uint8(46))
        _put_octet(at + 1, numpy.uint8(48))
        return at + 2
    # No whole number is between the number and its digits: that would have fewer.
    before = number >> shift
    at = _counted(at, before)
    _put_octet(at, numpy.uint8(46))
    return _padded(at + 1, digits - before * _TENS[behind], behind)


@_part
def _scientific(at, digits, behind):  # type: ignore[no-untyped-def]
    """Write digits with one before the point, and an exponent."""
    # One byte further right, so that the first digit can move left and leave its place to the point.
    end = _counted(at + 1, digits)
    width = end - at - 1
    _put_octet(at, _octet_at(at + 1))
    _put_octet(at + 1, numpy.uint8(46))
    if width == 1:
        _put_octet(end, numpy.uint8(48))
        end += 1
    _put_octet(end, numpy.uint8(69))
    return _counted(end + 1, _U(width - 1 - behind))


@_part
def _truth(at, is_true):  # type: ignore[no-untyped-def]
    """Write a bool; return where it ends."""
    return _letters(at, _TRUE) if is_true else _letters(at, _FALSE)


@_part
def _null(at):  # type: ignore[no-untyped-def]
    """Write null; return where it ends."""
    return _letters(at, _NULL)


@_part
def _copied(at, source, length):  # type: ignore[no-untyped-def]
    """Copy bytes behind which `SLACK` more may be read, and which end before `at`; return where the copy ends."""
    # Whole words, also the last one: what it writes too much is overwritten by what follows, or is in `SLACK`.
    for place in range(0, length, 8):
        _put_word(at + place, _word_at(source + place))
    return at + length


_ONES, _HIGH = _U(0x0101010101010101), _U(0x8080808080808080)
_SPACES, _QUOTES, _BACKSLASHES = (_ONES * _U(octet) for octet in b' "\\')
_HEX = numpy.frombuffer(b"0123456789abcdef", numpy.uint8).copy()
#: What stands behind a backslash for a byte below a blank; 0 where it has no letter.
_LETTERS = numpy.array([{8: 98, 9: 116, 10: 110, 12: 102, 13: 114}.get(octet, 0) for octet in range(32)], numpy.uint8)


@_part
def _perhaps_escaped(word):  # type: ignore[no-untyped-def]
    """Tell whether one of eight bytes may need an escape; a wrong yes costs a little time."""
    quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
    found = ((word - _SPACES) & ~word) | ((quotes - _ONES) & ~quotes) | ((backslashes - _ONES) & ~backslashes)
    return (found & _HIGH) != _0


@_part
def _text(at, source, length, spare):  # type: ignore[no-untyped-def]
    """Write a text in quotes; return where it ends, and how much of `spare` is left.

    Parameters
    ----------
    at, source, length : int
        Where to; the bytes in UTF-8.
    spare : int
        How many bytes escapes may take in addition; where it gets less than 0, nothing that is written is of any use.
    """
    _put_octet(at, numpy.uint8(34))
    at, place = at + 1, 0
    while place + 8 <= length:
        word = _word_at(source + place)
        if _perhaps_escaped(word):
            break
        _put_word(at, word)
        at, place = at + 8, place + 8
    while place < length and spare >= 0:
        octet = _octet_at(source + place)
        place += 1
        if octet >= 32 and octet != 34 and octet != 92:
            _put_octet(at, octet)
            at += 1
            continue
        _put_octet(at, numpy.uint8(92))
        letter = octet if octet >= 32 else _LETTERS[octet]
        if letter:
            _put_octet(at + 1, letter)
            at, spare = at + 2, spare - 1
        else:
            _put_octet(at + 1, numpy.uint8(117))
            _put_octet(at + 2, numpy.uint8(48))
            _put_octet(at + 3, numpy.uint8(48))
            _put_octet(at + 4, _HEX[octet >> 4])
            _put_octet(at + 5, _HEX[octet & 15])
            at, spare = at + 6, spare - 5
    _put_octet(at, numpy.uint8(34))
    return at + 1, spare


@_part
def _is_null(valid, place):  # type: ignore[no-untyped-def]
    return valid != 0 and (_octet_at(valid + (place >> 3)) >> (place & 7)) & 1 == 0


@numba.njit(numba.int64(_numbers, _numbers), nogil=True, cache=True, error_model="numpy")
def odd_reals(column, places):  # type: ignore[no-untyped-def]
    """Write at which places of a column of reals others write what stands there; return how many they are.

    Parameters
    ----------
    column : array of int64
        See `payloads`.
    places : array of int64
        As many as there are rows.
    """
    found, kind, values, valid, first = 0, column[0], column[1], column[2], column[3]
    for row in range(len(places)):
        if not _is_null(valid, first + row):
            # Written always and counted only where it is odd: else the next row takes the same place.
            places[found] = row
            found += _is_odd(_word_at(values + 8 * (first + row)), kind == FLOAT)
    return found


@_part
def _value_written(at, kind, values, place, texts, spare):  # type: ignore[no-untyped-def]
    """Write a value that is not null and no real."""
    if kind == TEXT:
        # The offsets of Arrow's string have 32 bits.
        begin, end = _half_at(values + 4 * place), _half_at(values + 4 * place + 4)
        return _text(at, texts + begin, end - begin, spare)
    if kind == LONG:
        return _whole(at, numpy.int64(_word_at(values + 8 * place))), spare
    if kind == INT:
        return _whole(at, numpy.int64(_half_at(values + 4 * place))), spare
    return _truth(at, (_octet_at(values + (place >> 3)) >> (place & 7)) & 1 != 0), spare


@numba.njit(
    numba.boolean(_rows, _octets, _rows, _numbers, numba.int64, types.Array(numba.uint8, 1, "C"), _numbers),
    nogil=True,
    cache=True,
    error_model="numpy",
)
def payloads(columns, words, places, bounds, spare, into, ends):  # type: ignore[no-untyped-def]
    """Write rows as payloads; several that are one payload are an array.

    Parameters
    ----------
    columns : array of int64, a row for each attribute
        Its kind; the addresses of its values, and of which there are, 0 where there are all; which of them is the first
        one. Of texts: where each begins, as values, and the address of their bytes. Of reals: the addresses of the
        texts of odd ones, one behind the other, and of where each of them ends.
    words, places : array of uint8, array of int64
        What stands in front of each attribute, and behind the last one, with room behind each; for each where it begins
        and how many bytes it has.
    bounds : array of int64
        At which row each payload begins, and where the last one ends.
    spare : int
        How many bytes there are for escapes.
    into, ends : array of uint8, array of int64
        The payloads one behind the other; where the first begins, and where each ends.

    Returns
    -------
    bool
        False where there are more escapes than there is room for; then nothing that is written is of any use.
    """
    width, spelled = len(columns), numpy.int64(words.ctypes.data)
    start = numpy.int64(into.ctypes.data)
    #: Of each attribute the last real, where it was written, and how many bytes; and of odd ones how many there were.
    seen = numpy.zeros((4, width), numpy.int64)
    bits, written, lengths, odd = seen[0], seen[1], seen[2], seen[3]
    at, ends[0] = start, 0
    for payload in range(len(bounds) - 1):
        begin, end = bounds[payload], bounds[payload + 1]
        several = end - begin > 1
        for row in range(begin, end):
            if several:
                _put_octet(at, numpy.uint8(91 if row == begin else 44))
                at += 1
            for attribute in range(width):
                at = _copied(at, spelled + places[attribute, 0], places[attribute, 1])
                kind, values, texts = columns[attribute, 0], columns[attribute, 1], columns[attribute, 4]
                place = columns[attribute, 3] + row
                if _is_null(columns[attribute, 2], place):
                    at = _null(at)
                elif kind in (FLOAT, DOUBLE):
                    here = _word_at(values + 8 * place)
                    # Results of one event have many values in common.
                    if lengths[attribute] and numpy.int64(here) == bits[attribute]:
                        at = _copied(at, written[attribute], lengths[attribute])
                        continue
                    first = at
                    if _is_odd(here, kind == FLOAT):
                        where = columns[attribute, 5] + 8 * odd[attribute]
                        told = numpy.int64(_word_at(where))
                        at = _copied(at, texts + told, numpy.int64(_word_at(where + 8)) - told)
                        odd[attribute] += 1
                        lengths[attribute] = 0
                    else:
                        at = _real(at, here, kind == FLOAT)
                        bits[attribute], written[attribute], lengths[attribute] = numpy.int64(here), first, at - first
                else:
                    at, spare = _value_written(at, kind, values, place, texts, spare)
                    if spare < 0:
                        return False
            at = _copied(at, spelled + places[width, 0], places[width, 1])
        if several:
            _put_octet(at, numpy.uint8(93))
            at += 1
        ends[payload + 1] = at - start
    return True
