"""Payloads of JSON as columns, by a compiled loop over their bytes; only imported where there is numba.

Importing it compiles it, which takes some seconds the first time on a machine.

The loop takes objects of plain values, alone or in an array, and of these only what it is sure to read as the mapping
does; of every other payload it says so. Nothing here raises or reads beyond what it is given.

Source: RFC 8259, The JavaScript Object Notation; W. D. Clinger, How to Read Floating Point Numbers Accurately: a whole
number below 2^53 times or by a power of ten up to the 22nd is rounded once, so it is the nearest double.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy
from numba import types
from numba.extending import intrinsic

from spdist.mapping.bounds import MAX_EVENTS
from spdist.mapping.json_columns import BOOL, DOUBLE, FLOAT, LONG, MISSING, TEXT, THERE, WRITTEN
from spdist.mapping.json_writing import AROUND, MOST_BYTES, SLACK, odd_reals, payloads
from spdist.mapping.payload_reader import SURELY_REAL

__all__ = ["AROUND", "MOST_BYTES", "SLACK", "columns", "odd_reals", "payloads"]

_TENS = numpy.array([float(10**power) for power in range(23)])
_EXACT = numpy.uint64(1 << 53)
#: Below it one more digit fits into 64 bits.
_ROOM, _TOO_LARGE = numpy.uint64(10**18), numpy.uint64(2**64 - 1)
#: By kinds.
_MOST = numpy.array([0, 2**31 - 1, 2**63 - 1], numpy.uint64)
_LONGEST = 1 << 30
_NULL, _TRUE, _ALSE = tuple(b"null"), tuple(b"true"), tuple(b"alse")

_octets = types.Array(numba.uint8, 1, "C", readonly=True)
_places = types.Array(numba.int32, 1, "C", readonly=True)
_part = numba.njit(nogil=True, error_model="numpy")


@intrinsic
def _loaded(_typing: Any, data: Any, at: Any) -> Any:
    """Return the byte at an address: to give an array to a function costs more than what that does with it."""

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        octet = context.get_value_type(types.uint8)
        return builder.load(builder.inttoptr(builder.add(*arguments), octet.as_pointer()))

    return types.uint8(types.int64, types.int64), code


#: As it is called, without what numba gives it.
_octet: Any = _loaded


@_part
def _behind_space(data, at, end):  # type: ignore[no-untyped-def]
    """Return where what is not white space begins."""
    while at < end:
        octet = _octet(data, at)
        if octet > 32 or (octet != 32 and octet != 10 and octet != 13 and octet != 9):
            return at
        at += 1
    return at


@_part
def _is(data, at, end, octet):  # type: ignore[no-untyped-def]
    return at < end and _octet(data, at) == octet


@_part
def _behind_word(data, at, end, words, begin, stop):  # type: ignore[no-untyped-def]
    """Return where what stands in `words` from `begin` to `stop` ends in the data; -1 where something else is there."""
    size = stop - begin
    if size > end - at:
        return -1
    for number in range(size):
        if _octet(data, at + number) != _octet(words, begin + number):
            return -1
    return at + size


@_part
def _behind_letters(data, at, end, letters):  # type: ignore[no-untyped-def]
    """Return where four letters end; -1 where something else is there."""
    if end - at < len(letters):
        return -1
    for number in range(len(letters)):
        if _octet(data, at + number) != letters[number]:
            return -1
    return at + len(letters)


@_part
def _behind_digits(data, at, end, whole):  # type: ignore[no-untyped-def]
    """Return where digits end, at least one, and the number that `whole` becomes by them; the greatest if too large."""
    begin = at
    while at < end and numpy.uint8(_octet(data, at) - 48) < 10:
        digit = numpy.uint64(_octet(data, at) - 48)
        whole = _TOO_LARGE if whole >= _ROOM else whole * numpy.uint64(10) + digit
        at += 1
    return (at if at > begin else -1), whole


@_part
def _number(data, at, end):  # type: ignore[no-untyped-def]
    """Return where a number ends, or -1, its digits as a whole number, the power of ten, and whether it is a real."""
    # 45 is a minus: `whole` has no sign, which the caller reads itself.
    at += _is(data, at, end, 45)
    is_real, power = False, numpy.int64(0)
    first = at
    at, whole = _behind_digits(data, at, end, numpy.uint64(0))
    # JSON has no leading zeros (48 is one): Python's reader refuses them, so must this.
    if at > first + 1 and _octet(data, first) == 48:
        at = -1
    if at > 0 and _is(data, at, end, 46):
        is_real, first = True, at + 1
        at, whole = _behind_digits(data, first, end, whole)
        # Each digit behind the point is one negative power of ten of the whole number that all digits make.
        power = first - at
    if at > 0 and (_is(data, at, end, 101) or _is(data, at, end, 69)):
        is_real, at = True, at + 1
        down = _is(data, at, end, 45)
        at += down or _is(data, at, end, 43)
        at, written = _behind_digits(data, at, end, numpy.uint64(0))
        # Far beyond any exponent of a double, and small enough to be added to `power` without overflow.
        written = min(written, numpy.uint64(_LONGEST))
        power += numpy.int64(written) * (-1 if down else 1)
    return at, whole, power, is_real


@_part
def _behind_name(data, at, end, words, begin, stop):  # type: ignore[no-untyped-def]
    """Return where the value of a member of that name begins; -1 where the next member has another one."""
    at = _behind_word(data, at, end, words, begin, stop)
    if at < 0:
        return -1
    at = _behind_space(data, at, end)
    return _behind_space(data, at + 1, end) if _is(data, at, end, 58) else -1


@_part
def _behind_brace(data, at, end):  # type: ignore[no-untyped-def]
    """Return where the first member of an object begins; -1 where there is no object."""
    at = _behind_space(data, at, end)
    return _behind_space(data, at + 1, end) if _is(data, at, end, 123) else -1


@_part
def _behind_braces(data, at, end, depth):  # type: ignore[no-untyped-def]
    """Return where what is behind so many closing braces begins; -1 where something else is there, or `at` is."""
    while at >= 0 and depth:
        at = _behind_space(data, at, end)
        at, depth = (at + 1 if _is(data, at, end, 125) else -1), depth - 1
    return at if at < 0 else _behind_space(data, at, end)


@_part
def _text(data, at, end):  # type: ignore[no-untyped-def]
    """Return where a text without escapes ends, or -1."""
    if not _is(data, at, end, 34):
        return -1
    at += 1
    while at < end:
        octet = _octet(data, at)
        if octet == 34:
            return at + 1
        # A control character, which JSON forbids, or a backslash (92): escapes are the mapping's.
        if octet < 32 or octet == 92:
            return -1
        at += 1
    return -1


@_part
def _real(whole, power, is_negative, is_float):  # type: ignore[no-untyped-def]
    """Return a real number, and whether it is surely what the mapping reads."""
    value = numpy.float64(whole)
    # One rounding only: a power of ten up to the 22nd is an exact double, see Clinger in the module's docstring.
    value = value / _TENS[numpy.uintp(-power)] if power < 0 else value * _TENS[numpy.uintp(power)]
    value = -value if is_negative else value
    if not is_float:
        return value, True
    # A float -0 is read otherwise: the mapping makes a zero without a sign of it.
    return numpy.float64(numpy.float32(value)), abs(value) < SURELY_REAL and not (is_negative and value == 0)


@_part
def _whole(whole, is_negative, most):  # type: ignore[no-untyped-def]
    """Return a whole number, and whether it is not beyond those of its type, of which `most` is the greatest."""
    # Of -2^63 the digits alone wrap to the number itself, and its negation is itself again.
    number = numpy.int64(whole)
    return (-number if is_negative else number), whole <= most + numpy.uint64(is_negative)


@_part
def _value(data, at, end, kind, is_read):  # type: ignore[no-untyped-def]
    """Read a value; `is_read`: it is read from its text, so that a whole number is a double, too.

    Returns
    -------
    int
        Where it ends; -1 where it is to be read otherwise.
    int
        What is known of it.
    int, float
        The number that it is.
    """
    if _is(data, at, end, 110):
        return _behind_letters(data, at, end, _NULL), MISSING, 0, 0.0
    if kind == TEXT:
        return _text(data, at, end), WRITTEN, 0, 0.0
    if kind == BOOL:
        if _is(data, at, end, 116):
            return _behind_letters(data, at, end, _TRUE), THERE, 1, 0.0
        return (_behind_letters(data, at + 1, end, _ALSE) if _is(data, at, end, 102) else -1), THERE, 0, 0.0
    is_negative = _is(data, at, end, 45)
    at, whole, power, is_real = _number(data, at, end)
    # A whole number is no double to the mapping, except in arrays, where values are read from their text; 0 may be -0.
    is_whole = not is_real and kind == DOUBLE
    if at < 0 or (is_real and kind <= LONG) or (is_whole and not (is_read and 0 < whole <= _EXACT)):
        return -1, MISSING, 0, 0.0
    # Kinds are ordered: TEXT, INT and LONG come before the reals, and TEXT has returned above.
    if kind <= LONG:
        number, is_sure = _whole(whole, is_negative, _MOST[kind])
        return (at if is_sure else -1), THERE, number, 0.0
    if whole <= _EXACT and -len(_TENS) < power < len(_TENS):
        real, is_sure = _real(whole, power, is_negative, kind == FLOAT)
        return (at if is_sure else -1), THERE, 0, real
    return at, WRITTEN, 0, 0.0


@numba.njit(
    numba.void(
        _octets,
        _places,
        numba.int64,
        _octets,
        types.Array(numba.int64, 1, "C"),
        types.Array(numba.int64, 1, "C"),
        types.Array(numba.int64, 2, "C"),
        types.Array(numba.float64, 2, "C"),
        types.Array(numba.uint8, 2, "C"),
        types.Array(numba.uint8, 2, "C"),
        types.Array(numba.int32, 2, "C"),
        types.Array(numba.boolean, 1, "C"),
        types.Array(numba.int64, 1, "C"),
    ),
    nogil=True,
    cache=True,
    error_model="numpy",
)
def columns(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0915 (to give an array to a function costs more)
    data, bounds, largest, words, word_ends, kinds, numbers, reals, known, texts, ends, doubts, counts
):
    """Read payloads into columns.

    Parameters
    ----------
    data, bounds : array of uint8, array of int32
        The payloads one behind the other; where each begins, and the last one ends.
    largest : int
        How large a payload may be, bytes.
    words, word_ends : array of uint8, array of int64
        The attributes' names in quotes, and that of the envelope; where each begins, and the last one ends.
    kinds : array of int64
        Of each attribute.
    numbers, reals : arrays of int64 and float64, a row for each attribute
        The same memory: the values that are numbers.
    known : array of uint8, a row for each attribute
        What is known of each value.
    texts, ends : arrays of uint8 and int32, a row for each attribute
        The texts one behind the other; 0 first, then where each ends.
    doubts : array of bool
        Whether the payload is to be read otherwise; then it has one row, which means nothing.
    counts : array of int64
        How many rows the payload has. There is room for one of each payload at least.
    """
    width, most = len(kinds), len(known[0])
    start, spelled, envelope = data.ctypes.data, words.ctypes.data, word_ends[width]
    seen, row, mark = numpy.full(width, -1), 0, 0
    for payload in range(len(doubts)):
        end, first = numpy.int64(bounds[payload + 1]), row
        at = _behind_space(start, numpy.int64(bounds[payload]), end) if end - bounds[payload] <= largest else -1
        is_array = at >= 0 and _is(start, at, end, 91)
        at += is_array
        while at >= 0:
            mark, left, depth = mark + 1, width, 1
            at = _behind_brace(start, at, end)
            for attribute in range(width):
                known[attribute, row], ends[attribute, row + 1] = MISSING, ends[attribute, row]
            inner = -1 if at < 0 else _behind_name(start, at, end, spelled, envelope, word_ends[width + 1])
            inner = -1 if inner < 0 else _behind_brace(start, inner, end)
            if inner >= 0:
                at, depth = inner, 2
            while at >= 0:
                # In the order of the stream, for the most part.
                member, attribute, at = at, width - left, -1
                for _ in range(width):
                    attribute = attribute if attribute < width else 0
                    at = _behind_name(start, member, end, spelled, word_ends[attribute], word_ends[attribute + 1])
                    if at >= 0:
                        break
                    attribute += 1
                if at < 0 or seen[attribute] == mark:
                    at = -1
                    break
                seen[attribute], left, begin, kind = mark, left - 1, at, kinds[attribute]
                at, what, number, real = _value(start, at, end, kind, is_array)
                known[attribute, row] = what
                if kind in (FLOAT, DOUBLE):
                    reals[attribute, row] = real
                else:
                    numbers[attribute, row] = number
                if what == WRITTEN and at >= 0:
                    quote = kind == TEXT
                    place = ends[attribute, row] - begin - quote
                    for octet in range(begin + quote, at - quote):
                        texts[attribute, place + octet] = data[octet]
                    ends[attribute, row + 1] = place + at - quote
                at = at if at < 0 else _behind_space(start, at, end)
                if at < 0 or not _is(start, at, end, 44):
                    break
                at = _behind_space(start, at + 1, end)
            at = -1 if left > 0 else _behind_braces(start, at, end, depth)
            row += at >= 0
            if at < 0 or not is_array or not _is(start, at, end, 44):
                break
            # Of each payload behind this one there is to be room for a row, too: what is cut short here is not read.
            at = at + 1 if row + len(doubts) - payload <= most else -1
        if is_array and at >= 0:
            at = _behind_space(start, at + 1, end) if row > first and _is(start, at, end, 93) else -1
        doubts[payload] = at != end or row == first or row - first > MAX_EVENTS
        if doubts[payload]:
            row = first + 1
            known[:, first], ends[:, row] = MISSING, ends[:, first]
        counts[payload] = row - first
