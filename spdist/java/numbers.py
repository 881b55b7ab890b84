"""Java's numbers in Python: 32- and 64-bit wrapping, 32-bit floats, truncating division, and how Java writes numbers.

Values keep their Python form (int, float, bool, str, None); what Siddhi's static types say about width and rounding is
done here, by functions that generated code calls only where plain Python would give another result.
"""

from __future__ import annotations

import math
import re
from array import array
from typing import Any

from spdist.java.failures import ClassCastError

__all__ = [
    "INT_MAX",
    "INT_MIN",
    "LONG_MAX",
    "LONG_MIN",
    "as_double",
    "as_float",
    "as_int",
    "as_long",
    "divide_integers",
    "double_to_int",
    "double_to_long",
    "float32",
    "long_to_float32",
    "no_number",
    "refuse_cast",
    "remainder_integers",
    "remainder_reals",
    "sure_bool",
    "sure_int",
    "sure_long",
    "sure_real",
    "text_of",
    "text_of_float32",
    "whole_number",
    "wrap32",
    "wrap64",
]

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

# One machine float as scratch: storing rounds to 32 bits as C does, three times faster than struct.
_SCRATCH = array("f", [0.0])
_EXACT_IN_DOUBLE = 2**53
# So many digits are in the range of a long for certain
_WHOLE = re.compile(r"\s*-?[0-9]{1,18}\s*")


def wrap32(value: int) -> int:
    """Return `value` as a Java ``int``: the low 32 bits, signed."""
    return ((value + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000


def wrap64(value: int) -> int:
    """Return `value` as a Java ``long``: the low 64 bits, signed."""
    return ((value + 0x8000_0000_0000_0000) & 0xFFFF_FFFF_FFFF_FFFF) - 0x8000_0000_0000_0000


def whole_number(text: str, least: int = LONG_MIN, most: int = LONG_MAX) -> int | None:
    """Return the whole number that an option or setting is, or None where it is none, or too small or too large.

    That are up to 18 of the digits 0 to 9, and possibly a minus sign in front; spaces around them do not matter.
    """
    number = int(text) if _WHOLE.fullmatch(text) else None
    return number if number is not None and least <= number <= most else None


def float32(value: float) -> float:
    """Return `value` rounded to the nearest 32-bit float; what is too large becomes infinite."""
    # One scratch serves all threads: CPython switches them at calls and jumps back, of which there are none here
    _SCRATCH[0] = value
    return _SCRATCH[0]


def long_to_float32(value: int) -> float:
    """Return the ``long`` `value` as a float, rounded once (Java's ``(float) long``), not first to a double."""
    # A double holds each of these exactly, so the float is the only rounding
    if -_EXACT_IN_DOUBLE <= value <= _EXACT_IN_DOUBLE:
        return float32(value)
    # Round to odd: the sticky bit keeps the second rounding from seeing a tie that is none.
    # 40 bits are more than the 24 of a float and fewer than the 53 of a double
    shift = abs(value).bit_length() - 40
    high = abs(value) >> shift
    if abs(value) & ((1 << shift) - 1):
        high |= 1
    return math.copysign(float32(math.ldexp(high, shift)), value)


def double_to_int(value: float) -> int:
    """Return Java's ``(int) double``: towards zero, held to the range, NaN is 0."""
    if value != value:
        return 0
    if value >= INT_MAX:
        return INT_MAX
    return INT_MIN if value <= INT_MIN else int(value)


def double_to_long(value: float) -> int:
    """Return Java's ``(long) double``: towards zero, held to the range, NaN is 0."""
    if value != value:
        return 0
    if value >= LONG_MAX:
        return LONG_MAX
    return LONG_MIN if value <= LONG_MIN else int(value)


def divide_integers(left: int, right: int) -> int:
    """Return the quotient towards zero; `right` is not 0."""
    # Python rounds down and Java towards zero, which differs where the signs do
    return left // right if (left >= 0) == (right > 0) else -(-left // right)


def remainder_integers(left: int, right: int) -> int:
    """Return the remainder with the sign of `left`; `right` is not 0."""
    size = right if right > 0 else -right
    return left % size if left >= 0 else -(-left % size)


def remainder_reals(left: float, right: float) -> float:
    """Return the remainder with the sign of `left`; NaN where `left` is infinite; `right` is not 0."""
    # math.fmod raises for an infinite left side
    return math.nan if math.isinf(left) else math.fmod(left, right)


def no_number(*operands: Any) -> Any:
    """Raise what arithmetic on a string or a boolean raises: it compiles in SiddhiQL and fails for each event."""
    wrong = [value for value in operands if isinstance(value, bool) or not isinstance(value, int | float)]
    raise ClassCastError((wrong or operands)[0], "Number")


def sure_bool(value: Any) -> bool:
    """Return whether `value` is true; null counts as false. Raises ClassCastError for what is no boolean."""
    if value is None or value is True or value is False:
        return value is True
    raise ClassCastError(value, "Boolean")


def refuse_cast(named: str, actual: str, value: Any) -> Any:
    """Raise what reading a value as `named` raises in Java, where it is sure to be of another type."""
    raise TypeError(f"{value!r} is of type {actual}, not {named}")


def sure_int(value: Any) -> int:
    """Return `value` where it is an ``int``; raises ClassCastError for anything else."""
    if type(value) is int and INT_MIN <= value <= INT_MAX:
        return value
    raise ClassCastError(value, "Integer")


def sure_long(value: Any) -> int:
    """Return `value` where it is a whole number; raises ClassCastError for anything else."""
    if type(value) is int:
        return value
    raise ClassCastError(value, "Long")


def sure_real(value: Any) -> float:
    """Return `value` where it is a ``float`` or ``double``; raises ClassCastError for anything else."""
    if type(value) is float:
        return value
    raise ClassCastError(value, "Double")


def _number(value: Any) -> int | float:
    if type(value) is int or type(value) is float:
        return value
    return no_number(value)  # type: ignore[no-any-return]


def as_int(value: Any) -> int:
    """Return a number of any type as ``int``, as ``Number.intValue()`` does; raises TypeError for anything else."""
    number = _number(value)
    return wrap32(number) if isinstance(number, int) else double_to_int(number)


def as_long(value: Any) -> int:
    """Return a number of any type as ``long``, as ``Number.longValue()`` does; raises TypeError for anything else."""
    number = _number(value)
    return number if isinstance(number, int) else double_to_long(number)


def as_float(value: Any) -> float:
    """Return a number of any type as ``float``; raises TypeError for anything else."""
    number = _number(value)
    return long_to_float32(number) if isinstance(number, int) else float32(number)


def as_double(value: Any) -> float:
    """Return a number of any type as ``double``; raises TypeError for anything else."""
    return float(_number(value))


def _java_digits(digits: str, exponent: int, sign: str) -> str:
    """Write ``0.digits × 10**exponent`` as Java does: plain between 1e-3 and 1e7, else with ``E``."""
    if -3 < exponent <= 7:
        if exponent <= 0:
            return f"{sign}0.{'0' * -exponent}{digits}"
        whole = digits[:exponent].ljust(exponent, "0")
        return f"{sign}{whole}.{digits[exponent:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _java_real(shortest: str) -> str:
    """Turn a shortest decimal as Python writes it into Java's form."""
    sign = "-" if shortest.startswith("-") else ""
    mantissa, _, power = shortest.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    exponent = int(power or 0) + len(whole)
    digits = whole + fraction
    stripped = digits.lstrip("0")
    exponent -= len(digits) - len(stripped)
    stripped = stripped.rstrip("0")
    return _java_digits(stripped, exponent, sign) if stripped else f"{sign}0.0"


def _java_whole(value: float, significant: int) -> str | None:
    """Return a large whole number as Java 17 writes it: rounded where its bits end, often with more digits than needed.

    None where the shortest decimal is what Java writes too. `significant` is how many bits the type has.
    """
    magnitude = abs(value)
    if not 2.0 ** (significant + 1) <= magnitude < 2.0**63:
        return None
    number = int(magnitude)
    # Java's FloatingDecimal: how many decimal digits the bits beyond the significant ones cannot tell
    scarce = int((number.bit_length() - significant - 2) * _DIGITS_PER_BIT)
    number, rest = divmod(number, 10**scarce)
    number += rest >= 10**scarce // 2 if scarce else 0
    digits = str(number)
    return _java_digits(digits.rstrip("0"), len(digits) + scarce, "-" if value < 0 else "")


_DIGITS_PER_BIT = math.log10(2.0)
_LEAST = 5e-324
#: Below it a 32-bit float has fewer digits.
_LEAST_NORMAL32 = 2.0**-126


def _double_text(value: float) -> str:
    if 0.001 <= value < 1e7 or -1e7 < value <= -0.001:
        return repr(value)  # where both write plain decimals, they write the same
    if not math.isfinite(value):
        return _not_finite(value)
    # Java writes at least two digits of it, where the shortest decimal has one
    if abs(value) == _LEAST:
        return "4.9E-324" if value > 0 else "-4.9E-324"
    return _java_whole(value, 53) or _java_real(repr(value))


def _not_finite(value: float) -> str:
    if value != value:
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def text_of(value: Any) -> str:
    """Return `value` as ``String.valueOf`` does for string, int, long, double, bool and null.

    Floats are written as doubles; for ``float`` attributes use `text_of_float32`.
    """
    if type(value) is str:
        return value
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if type(value) is float:
        return _double_text(value)
    return str(value)


def text_of_float32(value: Any) -> str:
    """Return a ``float`` as Java writes it: the shortest decimal that a 32-bit float tells from its neighbours."""
    if type(value) is not float:
        return text_of(value)
    if not math.isfinite(value):
        return _not_finite(value)
    narrow = float32(value)
    whole = _java_whole(narrow, 24)
    if whole is not None:
        return whole
    # Six digits tell all decimals of six digits or fewer apart, but for the smallest numbers.
    for precision in range(6 if _LEAST_NORMAL32 <= abs(narrow) < math.inf else 1, 10):
        shortest = f"{value:.{precision}g}"
        if float32(float(shortest)) == narrow:
            if "e" in shortest or not 0.001 <= abs(narrow) < 1e7:
                return _java_real(shortest)
            return shortest if "." in shortest else f"{shortest}.0"
    return _java_real(repr(value))
