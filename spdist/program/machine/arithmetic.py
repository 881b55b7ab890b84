"""Java's arithmetic, and functions of numbers, as the text of programs calls them.

Compiled together with a program, as `spdist.program.machine.kernels`; no function raises.
"""

from __future__ import annotations

import math

import numba
import numpy
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = [
    "HOW",
    "angle",
    "arc_cosine",
    "arc_sine",
    "arc_tangent",
    "bits",
    "ceiling",
    "cosine",
    "cube_root",
    "deviation",
    "deviation_add",
    "deviation_remove",
    "divide",
    "exponent",
    "exponential",
    "f32",
    "floor",
    "greater",
    "hyperbolic_cosine",
    "hyperbolic_sine",
    "hyperbolic_tangent",
    "is_infinite",
    "key_bits",
    "lesser",
    "logarithm",
    "logarithm10",
    "loop",
    "power",
    "quotient",
    "remainder",
    "remainder_real",
    "remove_long",
    "root",
    "round_int",
    "round_long",
    "signum",
    "sine",
    "tangent",
    "to_int",
    "to_long",
    "with_sign",
    "wrap32",
    "wrapping_add",
    "wrapping_mul",
    "wrapping_sub",
]

#: How everything is compiled: no exceptions of numpy, no contraction of floats, without the GIL, not for callers in C.
HOW = {"error_model": "numpy", "nogil": True, "cache": True, "no_cfunc_wrapper": True}
loop = numba.njit(**HOW)  # type: ignore[call-overload]

#: Those of the C library, which Python calls; what numba has for them may differ in the last bit.
_cbrt = numba.types.ExternalFunction("cbrt", numba.float64(numba.float64))
_pow = numba.types.ExternalFunction("pow", numba.float64(numba.float64, numba.float64))

_EXACT = 2**52
_LONG_MAX = 2**63 - 1
_LONG_MIN = -(2**63)


@intrinsic
def _unknown(typing, value):  # type: ignore[no-untyped-def]
    """Return a double that the compiler knows nothing of: of some powers it makes products, which are rounded else."""

    def code(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        ir = cgutils.ir  # type: ignore[attr-defined]
        word = ir.IntType(64)
        same = ir.FunctionType(word, [word])
        moved = builder.asm(same, "", "=r,0", [builder.bitcast(arguments[0], word)], side_effect=False)
        return builder.bitcast(moved, ir.DoubleType())

    return numba.float64(numba.float64), code


@loop
def f32(value):  # type: ignore[no-untyped-def]
    """Return the number rounded to a float."""
    return numpy.float64(numpy.float32(value))


@loop
def wrap32(value):  # type: ignore[no-untyped-def]
    """Return the lower 32 bits of a whole number, as an int."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


# numba says of sums, differences and products of signed numbers that they never overflow, so LLVM takes `a + 2 > 0` for
# `a > -2`. Of unsigned ones it says nothing, and their bits are the same.


@loop
def wrapping_add(left, right):  # type: ignore[no-untyped-def]
    """Add longs as Java does."""
    return numpy.int64(numpy.uint64(left) + numpy.uint64(right))


@loop
def wrapping_sub(left, right):  # type: ignore[no-untyped-def]
    """Subtract longs as Java does."""
    return numpy.int64(numpy.uint64(left) - numpy.uint64(right))


@loop
def wrapping_mul(left, right):  # type: ignore[no-untyped-def]
    """Multiply longs as Java does."""
    return numpy.int64(numpy.uint64(left) * numpy.uint64(right))


@loop
def divide(left, right):  # type: ignore[no-untyped-def]
    """Divide whole numbers, towards zero; `right` is not 0."""
    if right == -1:
        # The least long by -1 traps in the processor; negated it wraps to itself, as in Java.
        return wrapping_sub(0, left)
    quotient = left // right
    # `//` rounds down, Java towards zero.
    if quotient < 0 and quotient * right != left:
        quotient += 1
    return quotient


@loop
def remainder(left, right):  # type: ignore[no-untyped-def]
    """Return what is left of whole numbers, with the sign of the dividend; `right` is not 0."""
    if right == -1:
        # The division behind it would trap for the least long here, too.
        return left * 0
    rest = left % right
    if rest != 0 and (left < 0) != (right < 0):
        rest -= right
    return rest


@loop
def remainder_real(left, right):  # type: ignore[no-untyped-def]
    """Return what is left of reals, with the sign of the dividend."""
    return numpy.fmod(left, right)


@loop
def to_int(value):  # type: ignore[no-untyped-def]
    """Return Java's ``(int) double``."""
    if value != value:
        return numpy.int64(0)
    if value >= 2147483647.0:
        return numpy.int64(2147483647)
    return numpy.int64(-2147483648) if value <= -2147483648.0 else numpy.int64(value)


@loop
def to_long(value):  # type: ignore[no-untyped-def]
    """Return Java's ``(long) double``."""
    if value != value:
        return numpy.int64(0)
    if value >= 9.223372036854775807e18:
        return numpy.int64(_LONG_MAX)
    return numpy.int64(_LONG_MIN) if value <= -9.223372036854775808e18 else numpy.int64(value)


@loop
def bits(value):  # type: ignore[no-untyped-def]
    """Return the bits of a double, as a word of a key."""
    return numpy.float64(value).view(numpy.int64)


@loop
def remove_long(total, value):  # type: ignore[no-untyped-def]
    """Subtract as Siddhi's sum does: through double where that may not be exact, within the range of long."""
    if -_EXACT < value < _EXACT and -2 * _EXACT < total < 2 * _EXACT:
        rest = total - value
        if -_EXACT < rest < _EXACT:
            return rest
    real = float(total) - float(value)
    if real >= 9.223372036854775807e18:
        return numpy.int64(_LONG_MAX)
    if real <= -9.223372036854775808e18:
        return numpy.int64(_LONG_MIN)
    return numpy.int64(real)


@loop
def deviation_add(count, mean, squares, total, value):  # type: ignore[no-untyped-def]
    """Add to the slots of a standard deviation; see `spdist.functions.aggregators.std_dev_form`."""
    count += 1
    if count == 1:
        return count, value, 0.0, value
    # Some windows let a value leave before it comes, so `count` was -1: it is not added, what it has taken off stays.
    if count == 0:
        return count, mean, squares, total
    total += value
    fresh = total / count
    return count, fresh, squares + (value - mean) * (value - fresh), total


@loop
def deviation_remove(count, mean, squares, total, value):  # type: ignore[no-untyped-def]
    """Take off the slots of a standard deviation."""
    count -= 1
    if count == 0:
        return count, 0.0, 0.0, 0.0
    total -= value
    fresh = total / count
    return count, fresh, squares - (value - mean) * (value - fresh), total


@loop
def deviation(count, squares):  # type: ignore[no-untyped-def]
    """Return the standard deviation of at least one value."""
    if count == 1:
        return 0.0
    variance = squares / count
    return math.sqrt(variance) if variance >= 0 else math.nan


@loop
def key_bits(value):  # type: ignore[no-untyped-def]
    """Return a double as the key of a group: those are one group that Java writes alike."""
    return bits(value) if value == value else bits(math.nan)


# Functions of reals: without errors, as `spdist.functions.maths` has them.


@loop
def arc_cosine(value):  # type: ignore[no-untyped-def]
    """Return the angle whose cosine it is."""
    return math.acos(value)


@loop
def arc_sine(value):  # type: ignore[no-untyped-def]
    """Return the angle whose sine it is."""
    return math.asin(value)


@loop
def arc_tangent(value):  # type: ignore[no-untyped-def]
    """Return the angle whose tangent it is."""
    return math.atan(value)


@loop
def angle(y, x):  # type: ignore[no-untyped-def]
    """Return the angle of a point."""
    return math.atan2(y, x)


@loop
def sine(value):  # type: ignore[no-untyped-def]
    """Return the sine."""
    return math.sin(value)


@loop
def cosine(value):  # type: ignore[no-untyped-def]
    """Return the cosine."""
    return math.cos(value)


@loop
def tangent(value):  # type: ignore[no-untyped-def]
    """Return the tangent."""
    return math.tan(value)


@loop
def hyperbolic_sine(value):  # type: ignore[no-untyped-def]
    """Return the hyperbolic sine."""
    if value != value:
        return value
    return math.sinh(value) if abs(value) < 710 else math.copysign(math.inf, value)


@loop
def hyperbolic_cosine(value):  # type: ignore[no-untyped-def]
    """Return the hyperbolic cosine."""
    return math.cosh(value)


@loop
def hyperbolic_tangent(value):  # type: ignore[no-untyped-def]
    """Return the hyperbolic tangent."""
    return math.tanh(value)


@loop
def cube_root(value):  # type: ignore[no-untyped-def]
    """Return the number whose third power it is."""
    return _cbrt(value)


@loop
def power(base, exponent):  # type: ignore[no-untyped-def]
    """Return a number to a power; 1 to an infinite one is not a number."""
    # C's `pow` gives 1 for some of these.
    if exponent != exponent or (abs(base) == 1 and (exponent == math.inf or exponent == -math.inf)):
        return math.nan
    return _pow(_unknown(base), _unknown(exponent))  # type: ignore[call-arg]


@loop
def exponent(value):  # type: ignore[no-untyped-def]
    """Return the exponent of a double: of 0 and what is near it -1023, of what is not finite 1024."""
    # Bits 52 to 62 are the exponent, biased by 1,023; the sign is above them.
    return ((bits(value) >> 52) & 2047) - 1023


@loop
def is_infinite(value):  # type: ignore[no-untyped-def]
    """Tell whether it is infinite."""
    return value == math.inf or value == -math.inf


@loop
def exponential(value):  # type: ignore[no-untyped-def]
    """Return e to this power."""
    return math.exp(value)


@loop
def logarithm(value):  # type: ignore[no-untyped-def]
    """Return the natural logarithm."""
    return math.log(value) if value > 0 else -math.inf if value == 0 else math.nan


@loop
def logarithm10(value):  # type: ignore[no-untyped-def]
    """Return the logarithm to base 10."""
    return math.log10(value) if value > 0 else -math.inf if value == 0 else math.nan


@loop
def quotient(left, right):  # type: ignore[no-untyped-def]
    """Divide reals, as Java does."""
    return left / right


@loop
def root(value):  # type: ignore[no-untyped-def]
    """Return the square root."""
    return math.sqrt(value) if value >= 0 else math.nan


@loop
def floor(value):  # type: ignore[no-untyped-def]
    """Return the greatest whole number that is not above."""
    return numpy.floor(value)


@loop
def ceiling(value):  # type: ignore[no-untyped-def]
    """Return the least whole number that is not below."""
    return numpy.ceil(value)


@loop
def greater(left, right):  # type: ignore[no-untyped-def]
    """Return the greater one, the first of equal ones."""
    if left != left or right != right:
        return math.nan
    return right if right > left else left


@loop
def lesser(left, right):  # type: ignore[no-untyped-def]
    """Return the lesser one, the first of equal ones."""
    if left != left or right != right:
        return math.nan
    return right if right < left else left


@loop
def with_sign(value, sign):  # type: ignore[no-untyped-def]
    """Return a number with the sign of another."""
    return math.copysign(value, sign)


@loop
def signum(value):  # type: ignore[no-untyped-def]
    """Return -1, 0 or 1."""
    return numpy.int64(value > 0) - numpy.int64(value < 0)


@loop
def _half_up(value):  # type: ignore[no-untyped-def]
    # Not the floor of value + 0.5: that sum is rounded itself, so 0.49999999999999994 would become 1.
    whole = numpy.floor(value)
    return numpy.int64(whole) + numpy.int64(value - whole >= 0.5)


@loop
def round_int(value):  # type: ignore[no-untyped-def]
    """Round halves up, within the range of int."""
    if value != value:
        return numpy.int64(0)
    if not -2147483648.0 < value < 2147483647.0:
        return numpy.int64(-2147483648 if value < 0 else 2147483647)
    return _half_up(value)


@loop
def round_long(value):  # type: ignore[no-untyped-def]
    """Round halves up, within the range of long."""
    if value != value:
        return numpy.int64(0)
    if not -9.223372036854775808e18 < value < 9.223372036854775807e18:
        return numpy.int64(_LONG_MIN) if value < 0 else numpy.int64(_LONG_MAX)
    return _half_up(value)
