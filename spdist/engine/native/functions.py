"""The functions of SiddhiQL that Spark computes as Columns: one form each, under the keys of `planning.native.NATIVE`.

A form gives the value and the condition under which the local engine's function fails, and with it the event. All
arguments are computed in Siddhi, so an argument that fails fails the call, except the value that ``ifThenElse`` leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from spdist.engine.native.values import (
    SPARK_TYPES,
    converted,
    held,
    is_false,
    is_true,
    let,
    long,
    part_of,
    real,
    units_of,
)
from spdist.java.bounds import MOST_CHARACTERS
from spdist.java.numbers import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN
from spdist.language.types import Type

__all__ = ["FORMS", "ONCE", "Form", "Native", "any_fails"]


@dataclass(frozen=True, slots=True)
class Native:
    """An expression as Columns.

    Parameters
    ----------
    value : Column
        The value; of no meaning where it fails.
    type : Type
        Its type.
    fails : Column, optional
        True where the event fails, never null; None where it cannot.
    literal : Any
        The value, where it is a constant of the text.
    atom : bool
        Whether the value is an attribute or constant, and may be written several times.
    """

    value: Column
    type: Type
    fails: Column | None = None
    literal: Any = None
    atom: bool = False


#: From the result's type, the event's timestamp and the arguments to value and condition of failure (of its own).
Form = Callable[[Type, Column, tuple[Native, ...]], tuple[Column, Column | None]]


def any_fails(*conditions: Column | None) -> Column | None:
    """Return the condition that one of several holds; None where there is none."""
    known = [condition for condition in conditions if condition is not None]
    return reduce(lambda left, right: left | right, known) if known else None


def _plain(compute: Callable[..., Column]) -> Form:
    """Return the form of a function that never fails by itself."""
    return lambda _type, _timestamp, arguments: (compute(*(a.value for a in arguments)), None)


def _needs_all(compute: Callable[..., Column], unless: Callable[..., Column] | None = None) -> Form:
    """Return the form of a function that fails where an argument is null, or where `unless` does not hold."""

    def form(_type: Type, _timestamp: Column, arguments: tuple[Native, ...]) -> tuple[Column, Column | None]:
        values = [a.value for a in arguments]
        # A constant is never null, so it adds nothing to the condition.
        fails = any_fails(*(a.value.isNull() for a in arguments if a.literal is None))
        if unless is not None:
            fails = any_fails(fails, is_false(unless(*values)))
        return compute(*values), fails

    return form


def _of_doubles(compute: Callable[..., Column]) -> Form:
    """Return the form of a function of numbers taken as doubles; null gives null."""
    return lambda _type, _timestamp, arguments: (compute(*(a.value.cast("double") for a in arguments)), None)


# --- of the core -------------------------------------------------------------------------------------------------


def _cast(type: Type, _timestamp: Column, arguments: tuple[Native, ...]) -> tuple[Column, None]:
    return arguments[0].value.cast(SPARK_TYPES[type]), None


def _convert(type: Type, _timestamp: Column, arguments: tuple[Native, ...]) -> tuple[Column, None]:
    return converted(arguments[0].value, arguments[0].type, type), None


def _choose(_type: Type, _timestamp: Column, arguments: tuple[Native, ...]) -> tuple[Column, None]:
    condition, then, otherwise = arguments
    return F.when(is_true(condition.value), then.value).otherwise(otherwise.value), None


def _instance_of(asked: Type) -> Form:
    def form(_type: Type, _timestamp: Column, arguments: tuple[Native, ...]) -> tuple[Column, None]:
        (value,) = arguments
        return (value.value.isNotNull() if value.type is asked else F.lit(False)), None

    return form


def _extreme(first: float, better: Callable[[Column, Column], Column]) -> Form:
    """Return the form of ``maximum`` or ``minimum``: Siddhi begins with `first`, and leaves out null and NaN."""

    def step(best: Column, value: Column) -> Column:
        return F.when(better(value, best), value).otherwise(best)

    def form(type: Type, _timestamp: Column, arguments: tuple[Native, ...]) -> tuple[Column, None]:
        if len(arguments) == 1:
            return arguments[0].value, None
        best = real(first)
        for argument in arguments:
            value = F.nanvl(argument.value.cast("double"), F.lit(None).cast("double"))
            best = let([best, value], step)
        if type in (Type.INT, Type.LONG):
            return let([best], lambda known: held(known, type)), None
        return best.cast(SPARK_TYPES[type]), None

    return form


# --- of numbers --------------------------------------------------------------------------------------------------


def _rounded_away(whole: Callable[[Column], Column]) -> Callable[[Column], Column]:
    """Return ``ceil`` or ``floor`` as doubles, with the sign of zero."""

    def compute(value: Column) -> Column:
        # From 2**52 on each double is whole; it may leave the range of the long that `ceil` gives, so 1 stands in.
        large = F.isnan(value) | (F.abs(value) >= real(2.0**52))
        result = whole(F.when(large, real(1.0)).otherwise(value)).cast("double")
        # Zero times the value is zero with the value's sign.
        return F.when(large, value).when(result == real(0.0), value * real(0.0)).otherwise(result)

    return compute


def _greater(left: Column, right: Column) -> Column:
    # Java's `Math.max` gives NaN where one is NaN, as the sum does; to Spark NaN is above all numbers.
    return F.when(F.isnan(left) | F.isnan(right), left + right).when(right > left, right).otherwise(left)


def _lesser(left: Column, right: Column) -> Column:
    return F.when(F.isnan(left) | F.isnan(right), left + right).when(right < left, right).otherwise(left)


def _either(compute: Callable[[Column, Column], Column]) -> Form:
    def form(_type: Type, _timestamp: Column, arguments: tuple[Native, ...]) -> tuple[Column, None]:
        left, right = (a.value.cast("double") for a in arguments)
        return F.when(left.isNotNull() & right.isNotNull(), compute(left, right)), None

    return form


def _signum(value: Column) -> Column:
    positive = (value > real(0.0)) & ~F.isnan(value)
    sign = F.when(positive, F.lit(1)).when(value < real(0.0), F.lit(-1)).otherwise(F.lit(0))
    return F.when(value.isNotNull(), sign)


def _round(type: Type, _timestamp: Column, arguments: tuple[Native, ...]) -> tuple[Column, None]:
    value, name = arguments[0].value.cast("double"), SPARK_TYPES[type]
    low, high = (INT_MIN, INT_MAX) if type is Type.INT else (LONG_MIN, LONG_MAX)
    inside = ~F.isnan(value) & (value > real(float(low))) & (value < real(float(high)))
    whole = F.floor(F.when(inside, value).otherwise(real(0.0)))
    # Not the floor of value + 0.5: that sum is rounded itself, so 0.49999999999999994 would become 1.
    up = F.when(value - whole.cast("double") >= real(0.5), long(1)).otherwise(long(0))
    return (
        F.when(inside, F.try_add(whole, up).try_cast(name))
        .when(F.isnan(value), F.lit(0).cast(name))
        .when(value < real(0.0), F.lit(low).cast(name))
        .when(value.isNotNull(), F.lit(high).cast(name))
    ), None


def _based(write: Callable[[Column], Column]) -> Form:
    def form(_type: Type, _timestamp: Column, arguments: tuple[Native, ...]) -> tuple[Column, None]:
        (value,) = arguments
        bits = value.value.cast("bigint")
        # Java writes an int with 32 bits; as a long a negative one would have 64.
        return write(bits.bitwiseAND(long(0xFFFF_FFFF)) if value.type is Type.INT else bits), None

    return form


def _parsed(type: Type, _timestamp: Column, arguments: tuple[Native, ...]) -> tuple[Column, Column]:
    text = arguments[0].value
    number = converted(text, Type.STRING, type)
    return number, text.isNotNull() & number.isNull()


def _constant(value: float) -> Form:
    return lambda _type, _timestamp, _arguments: (real(value), None)


# --- of texts ----------------------------------------------------------------------------------------------------


def _concat(_type: Type, _timestamp: Column, arguments: tuple[Native, ...]) -> tuple[Column, None]:
    # Unlike `concat`, this leaves nulls out.
    return F.concat_ws("", *(converted(a.value, a.type, Type.STRING) for a in arguments)), None


def _contains(_type: Type, _timestamp: Column, arguments: tuple[Native, ...]) -> tuple[Column, Column | None]:
    text, part = arguments
    # Siddhi asks for the part only where there is a text.
    fails = None if part.literal is not None else text.value.isNotNull() & part.value.isNull()
    return F.contains(text.value, part.value), fails


def _char_frequency(text: Column, character: Column) -> Column:
    return (F.char_length(text) - F.char_length(F.replace(text, character, F.lit("")))).cast("bigint")


def _part(text: Column, begin: Column, *length: Column) -> Column:
    first = begin.cast("bigint")
    return part_of(text, first, first + length[0].cast("bigint") if length else units_of(text).cast("bigint"))


def _char_at(text: Column, index: Column) -> Column:
    return part_of(text, index.cast("bigint"), index.cast("bigint") + long(1))


def _cut(compute: Callable[..., Column]) -> Form:
    return _needs_all(compute, lambda *arguments: compute(*arguments).isNotNull())


def _locate(part: Column, text: Column) -> Column:
    # Spark counts characters, from 1; Java UTF-16 units, from 0.
    place = F.position(part, text)
    return F.when(place <= F.lit(0), F.lit(-1)).otherwise(units_of(F.substring(text, F.lit(1), place - F.lit(1))))


def _regexp(_type: Type, _timestamp: Column, arguments: tuple[Native, ...]) -> tuple[Column, Column]:
    text, regex = arguments
    # `rlike` looks for a part of the text, and `$` would also fit in front of a line break at the end.
    return text.value.rlike(rf"\A(?:{regex.literal})\z"), text.value.isNull()


def _repeat(text: Column, times: Column) -> Column:
    return F.when(_may_be_repeated(text, times), F.repeat(text, F.greatest(times, F.lit(0))))


def _may_be_repeated(text: Column, times: Column) -> Column:
    # The product of two ints may leave their range.
    return F.char_length(text).cast("bigint") * times.cast("bigint") <= long(MOST_CHARACTERS)


FORMS: dict[str, Form] = {
    "cast": _cast,
    "coalesce": _plain(F.coalesce),
    "convert": _convert,
    "default": _plain(F.coalesce),
    "eventTimestamp": lambda _type, timestamp, _arguments: (timestamp, None),
    "ifThenElse": _choose,
    "instanceOfBoolean": _instance_of(Type.BOOL),
    "instanceOfDouble": _instance_of(Type.DOUBLE),
    "instanceOfFloat": _instance_of(Type.FLOAT),
    "instanceOfInteger": _instance_of(Type.INT),
    "instanceOfLong": _instance_of(Type.LONG),
    "instanceOfString": _instance_of(Type.STRING),
    # Java's Double.MIN_VALUE is the least positive double, not the least one.
    "maximum": _extreme(5e-324, lambda value, best: value > best),
    "minimum": _extreme(1.7976931348623157e308, lambda value, best: value < best),
    "math:abs": _of_doubles(F.abs),
    "math:bin": _based(F.bin),
    "math:ceil": _of_doubles(_rounded_away(F.ceil)),
    "math:e": _constant(math.e),
    "math:floor": _of_doubles(_rounded_away(F.floor)),
    "math:hex": _based(lambda bits: F.lower(F.hex(bits))),
    "math:isInfinite": _of_doubles(lambda value: F.abs(value) == real(math.inf)),
    "math:isNan": _of_doubles(F.isnan),
    "math:max": _either(_greater),
    "math:min": _either(_lesser),
    "math:oct": _based(lambda bits: F.conv(F.hex(bits), 16, 8)),
    "math:parseDouble": _parsed,
    "math:parseFloat": _parsed,
    "math:parseInt": _parsed,
    "math:parseLong": _parsed,
    "math:pi": _constant(math.pi),
    "math:round": _round,
    "math:signum": _of_doubles(_signum),
    "math:sqrt": _of_doubles(F.sqrt),
    "math:toDegrees": _of_doubles(lambda value: value * real(180.0 / math.pi)),
    "math:toRadians": _of_doubles(lambda value: value * real(math.pi / 180.0)),
    "str:charAt": _cut(_char_at),
    "str:charFrequency": _needs_all(_char_frequency, lambda _text, character: units_of(character) == F.lit(1)),
    "str:coalesce": _plain(F.coalesce),
    "str:concat": _concat,
    "str:contains": _contains,
    "str:length": _needs_all(units_of),
    "str:locate": _needs_all(_locate),
    "str:regexp": _regexp,
    "str:repeat": _needs_all(_repeat, _may_be_repeated),
    "str:reverse": _needs_all(F.reverse),
    "str:substr": _cut(_part),
    "str:trim": _needs_all(lambda text: F.btrim(text, F.lit("".join(map(chr, range(0x21)))))),
}

#: Functions whose form names each argument once.
ONCE = frozenset({"cast", "coalesce", "default", "ifThenElse", "str:coalesce", "str:concat", "str:contains"})
ONCE |= frozenset(id for id in FORMS if id.startswith("instanceOf"))
