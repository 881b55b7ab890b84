"""Java's numbers and texts as Spark Columns, whatever Spark's ANSI mode says: nothing here throws.

Siddhi's whole numbers wrap around, its conversions hold numbers to their range or give null, and its texts count UTF-16
units. Each form stands for one function of `spdist.java.numbers` or `spdist.functions.core`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache

from pyspark.sql import Column
from pyspark.sql import functions as F

from spdist.java.numbers import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN
from spdist.language.types import Type

__all__ = [
    "SPARK_TYPES",
    "converted",
    "divided",
    "held",
    "is_false",
    "is_true",
    "let",
    "long",
    "part_of",
    "real",
    "remainder",
    "units_of",
    "widened",
    "wrapped",
]

SPARK_TYPES = {
    Type.STRING: "string",
    Type.INT: "int",
    Type.LONG: "bigint",
    Type.FLOAT: "float",
    Type.DOUBLE: "double",
    Type.BOOL: "boolean",
}


def long(value: int) -> Column:
    """Return a constant ``long``."""
    return F.lit(value).cast("bigint")


def real(value: float) -> Column:
    """Return a constant ``double``."""
    return F.lit(value).cast("double")


def is_true(value: Column) -> Column:
    """Return whether `value` is true; null counts as false."""
    return F.coalesce(value, F.lit(False))


def is_false(value: Column) -> Column:
    """Return whether `value` is false or null."""
    return ~is_true(value)


def let(values: Sequence[Column], body: Callable[..., Column]) -> Column:
    """Return ``body(*values)`` with each value computed once, however often `body` names it."""
    if not values:
        return body()
    first, *rest = values

    def named(known: Column) -> Column:
        return let(rest, lambda *more: body(known, *more))

    # The variable of a lambda is computed once: Columns have no other kind of name for a value.
    return F.get(F.transform(F.array(first), named), F.lit(0))


# --- whole numbers -----------------------------------------------------------------------------------------------

_TRIED = {"+": F.try_add, "-": F.try_subtract, "*": F.try_multiply}


def wrapped(op: str, left: Column, right: Column, type: Type) -> Column:
    """Return ``left op right`` for ``+``, ``-``, ``*`` in `type`, an int or long, wrapped as Java does."""
    if type is Type.INT:
        # Two ints fit into a long, whatever is done with them.
        return narrowed(_TRIED[op](left.cast("bigint"), right.cast("bigint")))
    # Null beyond the range: only then decimals compute it; nulls of operands stay nulls there.
    quick = _TRIED[op](left, right)
    return F.coalesce(quick, _wrapped_slowly(op, left, right))


def _wrapped_slowly(op: str, left: Column, right: Column) -> Column:
    # 19 digits hold each long; a product is at most 2**126, which the 38 digits of Spark's decimals hold.
    one, other = left.cast("decimal(19,0)"), right.cast("decimal(19,0)")
    exact = {"+": one + other, "-": one - other, "*": one * other}[op]
    turn = F.lit(str(2**64)).cast("decimal(20,0)")
    low, high = (F.lit(str(bound)).cast("decimal(20,0)") for bound in (LONG_MIN, LONG_MAX))

    def turned(rest: Column) -> Column:
        return F.when(rest > high, rest - turn).when(rest < low, rest + turn).otherwise(rest).try_cast("bigint")

    # The remainder has the sign of `exact` and is less than a turn, so one turn more or less brings it into the range.
    return let([exact % turn], turned)


def narrowed(value: Column) -> Column:
    """Return the low 32 bits of a ``long`` as an ``int``."""
    mask, half = long(0xFFFF_FFFF), long(2**31)
    return ((value.bitwiseAND(mask) + half).bitwiseAND(mask) - half).try_cast("int")


def divided(left: Column, right: Column, type: Type) -> Column:
    """Return the quotient in `type`; null where `right` is 0."""
    if type in (Type.FLOAT, Type.DOUBLE):
        return F.try_divide(left.cast("double"), right.cast("double")).cast(SPARK_TYPES[type])
    one, other = left.cast("bigint"), right.cast("bigint")
    # The least number divided by -1 leaves the range, and wraps.
    quotient = (
        F.when(other == long(0), F.lit(None).cast("bigint"))
        .when(other == long(-1), wrapped("-", long(0), one, Type.LONG))
        # Spark may compute a branch that it does not take: the divisor is never one that throws.
        .otherwise(F.call_function("div", one, F.when(other.isin(0, -1), long(1)).otherwise(other)))
    )
    return narrowed(quotient) if type is Type.INT else quotient


def remainder(left: Column, right: Column, type: Type) -> Column:
    """Return the remainder with the sign of `left`; null where `right` is 0."""
    if type in (Type.FLOAT, Type.DOUBLE):
        return F.try_mod(left.cast("double"), right.cast("double")).cast(SPARK_TYPES[type])
    return F.try_mod(left.cast("bigint"), right.cast("bigint")).try_cast(SPARK_TYPES[type])


# --- from type to type -------------------------------------------------------------------------------------------


def widened(value: Column, source: Type, target: Type) -> Column:
    """Return a number as one of a type that is not narrower."""
    if source is target:
        return value
    return _float_of(value) if target is Type.FLOAT else value.cast(SPARK_TYPES[target])


def _float_of(value: Column) -> Column:
    # Spark's optimizer takes a cast of a long to float and then to double for one to double, which rounds less.
    return F.nanvl(value.cast("float"), F.lit(0).cast("float"))


def converted(value: Column, source: Type, target: Type) -> Column:
    """Return what ``convert(value, 'target')`` gives: null where a text is no such number."""
    if source is target:
        return value
    if target is Type.STRING:
        return value.cast("string")
    if source is Type.STRING:
        return _PARSED[target](value)
    if target is Type.BOOL:
        return value.cast("double") == real(1.0)
    if source is Type.LONG and target is Type.INT:
        return narrowed(value)
    if source in (Type.FLOAT, Type.DOUBLE) and target in (Type.INT, Type.LONG):
        return held(value.cast("double"), target)
    if target is Type.FLOAT and source is not Type.BOOL:
        return _float_of(value) if source is not Type.DOUBLE else value.cast("float")
    return value.cast(SPARK_TYPES[target])


def held(value: Column, target: Type) -> Column:
    """Return Java's ``(int)`` or ``(long)`` of a double: towards zero, held to the range, NaN is 0."""
    low, high = (INT_MIN, INT_MAX) if target is Type.INT else (LONG_MIN, LONG_MAX)
    name = SPARK_TYPES[target]
    return (
        F.when(F.isnan(value), F.lit(0).cast(name))
        # As a double the greatest long is 2**63: whatever is below fits.
        .when(value >= real(float(high)), F.lit(high).cast(name))
        .when(value <= real(float(low)), F.lit(low).cast(name))
        .otherwise(value.try_cast(name))
    )


@cache
def _digits() -> tuple[str, str]:
    """Return all decimal digits but those of ASCII, and what they stand for: Java reads numbers in any of them."""
    found = [c for c in map(chr, range(0x80, sys.maxunicode + 1)) if c.isdecimal()]
    return "".join(found), "".join(str(int(c)) for c in found)


def _whole(type: Type, text: Column) -> Column:
    # Only texts with other characters pay for `translate`; Spark's cast alone would take blanks and fractions.
    plain = F.when(text.rlike(r"\A[\x00-\x7f]*\z"), text).otherwise(F.translate(text, *_digits()))
    return F.when(plain.rlike(r"\A[+-]?[0-9]+\z"), plain.try_cast(SPARK_TYPES[type]))


_BLANK = r"[\x00-\x20]*"
_NUMBER = (
    rf"\A{_BLANK}[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?"
    rf"|0[xX](?:[0-9A-Fa-f]+\.?[0-9A-Fa-f]*|\.[0-9A-Fa-f]+)[pP][+-]?[0-9]+[dDfF]?){_BLANK}\z"
)


def _double(text: Column) -> Column:
    return F.when(text.rlike(_NUMBER), F.btrim(text, F.lit("".join(map(chr, range(0x21))))).try_cast("double"))


_PARSED: dict[Type, Callable[[Column], Column]] = {
    Type.INT: lambda text: _whole(Type.INT, text),
    Type.LONG: lambda text: _whole(Type.LONG, text),
    Type.FLOAT: lambda text: _double(text).cast("float"),
    Type.DOUBLE: _double,
    Type.BOOL: lambda text: text.rlike(r"\A[tT][rR][uU][eE]\z"),
}


# --- texts as UTF-16 units ---------------------------------------------------------------------------------------


def _packed(text: Column) -> Column:
    return F.encode(text, "UTF-16BE")


def units_of(text: Column) -> Column:
    """Return how many UTF-16 units a text has."""
    return F.shiftright(F.octet_length(_packed(text)), 1)


def part_of(text: Column, begin: Column, end: Column) -> Column:
    """Return the units from `begin` to before `end`, longs; half of a character is ``?``; null where there is no such.

    Source: java.lang.String.substring, described in our own words.
    """
    packed, count = _packed(text), units_of(text).cast("bigint")

    def first_byte(at: Column) -> Column:
        return F.hex(F.substring(packed, (at * long(2) + long(1)).try_cast("int"), F.lit(1)))

    inside = (begin >= long(0)) & (begin <= end) & (end <= count)
    filled = begin < end
    # Half a character has no UTF-8: a unit whose first byte is D8 to DB begins one, DC to DF ends one.
    headless = is_true(filled & first_byte(begin).between("DC", "DF"))
    first = F.when(headless, begin + long(1)).otherwise(begin)
    tailless = is_true((first < end) & first_byte(end - long(1)).between("D8", "DB"))
    last = F.when(tailless, end - long(1)).otherwise(end)
    length = (last - first) * long(2)
    body = F.decode(
        F.substring(packed, (first * long(2) + long(1)).try_cast("int"), length.try_cast("int")), "UTF-16BE"
    )
    half, nothing = F.lit("?"), F.lit("")
    whole = F.concat(
        F.when(headless, half).otherwise(nothing),
        F.when(first < last, body).otherwise(nothing),
        F.when(tailless, half).otherwise(nothing),
    )
    return F.when(inside, whole)
