"""The ``math:`` functions of siddhi-execution-math, with Java's results at the edges of their domains.

Almost all take any number and give a double; null gives null. What Python refuses (the logarithm of 0, a power that
overflows) is NaN or infinite, as ``java.lang.Math`` has it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from functools import wraps
from hashlib import blake2b
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import NUMERIC, Given, aggregator, function, signature
from spdist.functions.core import parse_double, parse_int, parse_long
from spdist.functions.forms import Code, Site
from spdist.java.numbers import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, float32
from spdist.language import ast
from spdist.language.types import Type

__all__ = ["draw_random", "draw_seeded", "percentile_of"]

_REALS = frozenset({Type.FLOAT, Type.DOUBLE})
_INTEGERS = frozenset({Type.INT, Type.LONG})
_DOUBLE, _STRING = Type.DOUBLE, frozenset({Type.STRING})

Real = Callable[..., float]


def _unless_null(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return `compute` with null for null."""

    @wraps(compute, assigned=("__name__", "__doc__"))
    def guarded(*arguments: Any) -> Any:
        return None if None in arguments else compute(*arguments)

    return guarded


def _real(compute: Real) -> Callable[..., float]:
    """Return a function of doubles that is NaN outside of its domain and infinite where it overflows."""

    @wraps(compute, assigned=("__name__", "__doc__"))
    def computed(*arguments: float) -> float:
        try:
            return float(compute(*map(float, arguments)))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return computed


# --- functions of one number or of two ---------------------------------------------------------------------------


def _logarithm(value: float) -> float:
    return -math.inf if value == 0 else math.log(value)


def _logarithm_of_base(value: float, base: float) -> float:
    if base == 1:
        raise ArithmeticError("a logarithm has no base 1")
    return _divided(_logarithm(value), _logarithm(base))


def _divided(left: float, right: float) -> float:
    if right:
        return left / right
    return math.nan if left == 0 or left != left else math.copysign(math.inf, left) * math.copysign(1.0, right)


def _log10(value: float) -> float:
    return -math.inf if value == 0 else math.log10(value)


def _sinh(value: float) -> float:
    # `math.sinh` overflows from there on, and `_real` would lose the sign of the infinity.
    return math.sinh(value) if abs(value) < 710 else math.copysign(math.inf, value) if value == value else value


def _power(base: float, exponent: float) -> float:
    if exponent != exponent or (abs(base) == 1 and math.isinf(exponent)):
        return math.nan
    # Python's remainder is not negative here, so negative exponents can be odd as well.
    odd = exponent % 2 == 1
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:
        if base == 0:
            return math.copysign(math.inf, base) if odd else math.inf
        return math.nan


def _whole(rounded: Callable[[float], int]) -> Real:
    # The sign of zero is kept: the ceiling of -0.5 is -0.0.
    return lambda value: math.copysign(rounded(value), value) if math.isfinite(value) else value


def _greater(left: float, right: float) -> float:
    return math.nan if left != left or right != right else max(left, right)


def _lesser(left: float, right: float) -> float:
    return math.nan if left != left or right != right else min(left, right)


#: Each with its form in compiled programs.
_OF_ONE: dict[str, tuple[Real, str]] = {
    "abs": (abs, "abs({0})"),
    "acos": (math.acos, "arc_cosine({0})"),
    "asin": (math.asin, "arc_sine({0})"),
    "cbrt": (math.cbrt, "cube_root({0})"),
    "ceil": (_whole(math.ceil), "ceiling({0})"),
    "cos": (math.cos, "cosine({0})"),
    "cosh": (math.cosh, "hyperbolic_cosine({0})"),
    "exp": (math.exp, "exponential({0})"),
    "floor": (_whole(math.floor), "floor({0})"),
    "ln": (_logarithm, "logarithm({0})"),
    "log10": (_log10, "logarithm10({0})"),
    "log2": (lambda value: _logarithm(value) / math.log(2), f"logarithm({{0}}) / {math.log(2)!r}"),
    "sin": (math.sin, "sine({0})"),
    "sinh": (_sinh, "hyperbolic_sine({0})"),
    "sqrt": (math.sqrt, "root({0})"),
    "tan": (math.tan, "tangent({0})"),
    "tanh": (math.tanh, "hyperbolic_tangent({0})"),
    "toDegrees": (math.degrees, f"{{0}} * {180 / math.pi!r}"),
    "toRadians": (math.radians, f"{{0}} * {math.pi / 180!r}"),
}
_OF_TWO: dict[str, tuple[Real, str]] = {
    "copySign": (math.copysign, "with_sign({0}, {1})"),
    "log": (_logarithm_of_base, ""),  # it fails where the base is 1
    "max": (_greater, "greater({0}, {1})"),
    "min": (_lesser, "lesser({0}, {1})"),
    "power": (_power, "power({0}, {1})"),
}
_REALS_ONLY = {"acos", "asin", "ceil"}


def _of_reals(name: str, takes: tuple[frozenset[Type], ...], compute: Real, typed: str) -> None:
    reals = typed.format(*(f"float({{{place}}})" for place, _ in enumerate(takes)))
    of = function(f"math:{name}", signature(f"math:{name}", (takes, _DOUBLE)), typed=reals)
    of(_unless_null(_real(compute)))


for _name, (_compute, _typed) in _OF_ONE.items():
    _of_reals(_name, (_REALS if _name in _REALS_ONLY else NUMERIC,), _compute, _typed)
for _name, (_compute, _typed) in _OF_TWO.items():
    _of_reals(_name, (NUMERIC, NUMERIC), _compute, _typed)


def _typed_angle(arguments: Sequence[Given]) -> str:
    return "angle(float({0}), float({1}))" if len(arguments) == 2 else "arc_tangent(float({0}))"


@function("math:atan", signature("math:atan", ((NUMERIC,), _DOUBLE), ((NUMERIC, NUMERIC), _DOUBLE)), typed=_typed_angle)
@_unless_null
def atan(value: float, *x: float) -> float:
    """Give the angle whose tangent it is; of two numbers that of the point (x, y), written ``math:atan(y, x)``."""
    return math.atan2(value, x[0]) if x else math.atan(value)


# --- kinds of numbers --------------------------------------------------------------------------------------------


@function("math:signum", signature("math:signum", ((NUMERIC,), Type.INT)), typed="signum({0})")
@_unless_null
def signum(value: float) -> int:
    """Give -1, 0 or 1."""
    return (value > 0) - (value < 0)


@function("math:getExponent", signature("math:getExponent", ((NUMERIC,), Type.INT)), typed="exponent(float({0}))")
@_unless_null
def get_exponent(value: float) -> int:
    """Give the exponent of the number as a double: of 0 it is -1023, of what is not finite 1024."""
    if not math.isfinite(value):
        return 1024
    return max(math.frexp(value)[1] - 1, -1023) if value else -1023


def _typed_round(arguments: Sequence[Given]) -> str:
    return "round_int({0})" if arguments[0].type is Type.FLOAT else "round_long({0})"


@function(
    "math:round",
    signature("math:round", ((Type.FLOAT,), Type.INT), ((_DOUBLE,), Type.LONG)),
    inline=True,
    typed=_typed_round,
)
def round_half_up(site: Site, arguments: tuple[Code, ...]) -> Code:
    """Round to the nearest whole number, halves up: a float gives an int, a double a long, held to their ranges."""
    (value,) = arguments
    if value.type is Type.FLOAT:
        return _called(site, _round_to_int, value, Type.INT)
    return _called(site, _round_to_long, value, Type.LONG)


def _called(site: Site, compute: Callable[..., Any], value: Code, type: Type) -> Code:
    return Code(f"{site.bind(compute, compute.__name__)}({value.text})", type)


def _rounded(value: float, low: int, high: int) -> int:
    if value != value:
        return 0
    if not low < value < high:
        return low if value < 0 else high
    whole = math.floor(value)
    return whole + (value - whole >= 0.5)


@_unless_null
def _round_to_int(value: float) -> int:
    return _rounded(value, INT_MIN, INT_MAX)


@_unless_null
def _round_to_long(value: float) -> int:
    return _rounded(value, LONG_MIN, LONG_MAX)


@function("math:isNan", signature("math:isNan", ((_REALS,), Type.BOOL)), typed="{0} != {0}")
def is_nan(value: float | None) -> bool:
    """Tell whether it is not a number; false for null."""
    return value is not None and math.isnan(value)


@function("math:isInfinite", signature("math:isInfinite", ((_REALS,), Type.BOOL)), typed="is_infinite({0})")
def is_infinite(value: float | None) -> bool:
    """Tell whether it is infinite; false for null."""
    return value is not None and math.isinf(value)


# --- numbers as text ---------------------------------------------------------------------------------------------


@_unless_null
def _bits_of_int(value: int, spec: str) -> str:
    return format(value & 0xFFFF_FFFF, spec)


@_unless_null
def _bits_of_long(value: int, spec: str) -> str:
    return format(value & 0xFFFF_FFFF_FFFF_FFFF, spec)


@_unless_null
def _hex_of_real(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return _hexadecimal(value.hex())


def _hexadecimal(text: str) -> str:
    mantissa, exponent = text.split("p")
    whole, _, fraction = mantissa.partition(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}p{int(exponent)}"


_LEAST_NORMAL_FLOAT = 2.0**-126


@_unless_null
def _hex_of_float32(value: float) -> str:
    if not 0 < abs(value) < _LEAST_NORMAL_FLOAT:
        return str(_hex_of_real(value))
    # Numbers too small for a float's full precision are written with its least exponent: so many 2**-149ths.
    sign = "-" if value < 0 else ""
    digits = f"{int(abs(value) * 2.0**149) << 1:06x}".rstrip("0")
    return f"{sign}0x0.{digits}p-126"


def _based(name: str, spec: str, takes: frozenset[Type]) -> None:
    @function(f"math:{name}", signature(f"math:{name}", ((takes,), Type.STRING)), inline=True)
    def form(site: Site, arguments: tuple[Code, ...]) -> Code:
        (value,) = arguments
        if value.type in _REALS:
            return _called(site, _hex_of_float32 if value.type is Type.FLOAT else _hex_of_real, value, Type.STRING)
        bits = _bits_of_int if value.type is Type.INT else _bits_of_long
        return Code(f"{site.bind(bits, bits.__name__)}({value.text}, {spec!r})", Type.STRING)


# Negative numbers as their two's complement, of 32 or 64 bits.
_based("bin", "b", _INTEGERS)
_based("oct", "o", _INTEGERS)
_based("hex", "x", NUMERIC)

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


_PREFIXES = {2: "0b", 8: "0o", 16: "0x"}


@function("math:conv", signature("math:conv", ((_STRING, Type.INT, Type.INT), Type.STRING)))
@_unless_null
def conv(text: str, source: int, target: int) -> str:
    """Write an int that is given to one base in another, 10 where that is not from 2 to 36."""
    target = target if 2 <= target <= 36 else 10
    # What Python reads and Java does not.
    prefixed = text.lstrip("+-").lower().startswith(_PREFIXES.get(source, " "))
    if not 2 <= source <= 36 or text.strip() != text or "_" in text or prefixed:
        raise ValueError(f"'{text}' is no number to base {source}")
    number = int(text, source)
    if not INT_MIN <= number <= INT_MAX:
        raise ValueError(f"'{text}' is out of the range of int")
    digits, rest = "", abs(number)
    while rest or not digits:
        rest, digit = divmod(rest, target)
        digits = _DIGITS[digit] + digits
    return f"-{digits}" if number < 0 else digits


def _parser(name: str, parse: Callable[[str], Any], type: Type) -> None:
    @function(f"math:{name}", signature(f"math:{name}", ((_STRING,), type)))
    @_unless_null
    def parsed(text: str) -> Any:
        value = parse(text)
        if value is None:
            raise ValueError(f"'{text}' is no {type}")
        return float32(value) if type is Type.FLOAT else value


_parser("parseInt", parse_int, Type.INT)
_parser("parseLong", parse_long, Type.LONG)
_parser("parseFloat", parse_double, Type.FLOAT)
_parser("parseDouble", parse_double, Type.DOUBLE)


# --- constants and chance ----------------------------------------------------------------------------------------


def _constant(name: str, value: float) -> None:
    @function(f"math:{name}", signature(f"math:{name}", ((), _DOUBLE)), inline=True, typed=repr(value))
    def form(_site: Site, _arguments: tuple[Code, ...]) -> Code:
        return Code(repr(value), _DOUBLE, nullable=False, atom=True, literal=value)


_constant("e", math.e)
_constant("pi", math.pi)


def draw_random(clock: Any) -> float:
    """Return the next number of an app from 0 to below 1: the same in a replay, others in copies of the app."""
    clock.drawn += 1
    seed = f"{clock.identity}\0{clock.now}\0{clock.drawn}\0random".encode()
    # 53 bits are what a double holds below 1.
    return (int.from_bytes(blake2b(seed, digest_size=8).digest(), "big") >> 11) / float(1 << 53)


# Java's java.util.Random: a linear congruential generator of 48 bits.
_MULTIPLIER, _INCREMENT, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1


def draw_seeded(clock: Any, name: str, seed: int) -> float:
    """Return the next double of the sequence `name`, which began as ``new java.util.Random(seed)``."""
    state = clock.sequences.get(name, (seed ^ _MULTIPLIER) & _MASK)
    high = state = (state * _MULTIPLIER + _INCREMENT) & _MASK
    clock.sequences[name] = state = (state * _MULTIPLIER + _INCREMENT) & _MASK
    # As `Random.nextDouble`: 26 bits of the first step and 27 of the second.
    return float(((high >> 22) << 27) + (state >> 21)) / (1 << 53)


def _resolve_rand(types: tuple[Type, ...], expressions: tuple[ast.Expression, ...] = ()) -> Type:
    if len(types) > 1 or not set(types) <= _INTEGERS or not all(isinstance(e, ast.Literal) for e in expressions):
        raise SiddhiTypeError("'math:rand' takes no argument or a constant whole number", hint="write math:rand(42)")
    return _DOUBLE


@function("math:rand", _resolve_rand, inline=True)
def rand(site: Site, arguments: tuple[Code, ...]) -> Code:
    """Give a number by chance, from 0 to below 1; of a seed the sequence of ``java.util.Random``.

    Without a seed it is drawn like ``UUID()``, so that a replay gives the same. Source: RandomFunctionExtension.
    """
    if arguments:
        seed = arguments[0].literal
        call = f"({site.clock()}, {f'{site.place()}:{seed}'!r}, {seed})"
        return Code(f"{site.bind(draw_seeded, 'draw_seeded')}{call}", _DOUBLE, nullable=False)
    return Code(f"{site.bind(draw_random, 'draw_random')}({site.clock()})", _DOUBLE, nullable=False)


# --- a percentile ------------------------------------------------------------------------------------------------


def percentile_of(ordered: list[float], percent: float) -> float:
    """Return the percentile of sorted numbers as Siddhi finds it.

    It is the number at the place that is so many percent of their count, rounded half up; where that place is whole,
    the mean of the number there and the next.
    """
    place = percent * len(ordered) / 100
    whole = math.floor(place)
    if place != whole:
        return ordered[max(math.floor(place + 0.5) - 1, 0)]
    return ordered[-1] if whole == len(ordered) else (ordered[whole - 1] + ordered[whole]) / 2


def _resolve_percentile(types: tuple[Type, ...], expressions: tuple[ast.Expression, ...] = ()) -> Type:
    percent = expressions[1] if len(expressions) == 2 else None
    if len(types) != 2 or types[0] not in NUMERIC or types[1] is not _DOUBLE or not isinstance(percent, ast.Literal):
        raise SiddhiTypeError(
            "'math:percentile' takes a number and a constant double", hint="write math:percentile(value, 97.0)"
        )
    if not 0 < float(str(percent.value)) <= 100:
        raise SiddhiTypeError(f"a percentile is above 0 and at most 100, not {percent.value}")
    return _DOUBLE


@aggregator("math:percentile", _resolve_percentile)
class Percentile:
    """The percentile of the numbers of a group that have not left; null fails the event, and nothing has no percentile.

    State
    -----
    The percentage and the numbers in order: O(events held); adding and removing takes O(events held) too.

    Notes
    -----
    Source: io.siddhi.extension.execution.math.PercentileFunctionExtension. There all groups and partitions of a query
    share one list of numbers, and an event that leaves nothing behind takes its whole chunk with it; here they do not.
    """

    @staticmethod
    def initial() -> list[Any]:
        """Return a state without numbers."""
        return [None, []]

    @staticmethod
    def add(state: list[Any], value: tuple[float | None, float]) -> list[Any]:
        """Take in a number."""
        insort(state[1], float(_given(value[0])), key=_java_order)
        state[0] = value[1]
        return state

    @staticmethod
    def remove(state: list[Any], value: tuple[float | None, float]) -> list[Any]:
        """Take out a number."""
        del state[1][bisect_left(state[1], _java_order(float(_given(value[0]))), key=_java_order)]
        return state

    @staticmethod
    def result(state: list[Any]) -> float | None:
        """Return the percentile; null where there is no number."""
        return percentile_of(state[1], state[0]) if state[1] else None


def _java_order(value: float) -> tuple[bool, float, float]:
    """Return what orders a double as Java's ``Double.compareTo``: -0.0 comes before 0.0, and NaN is last."""
    return (True, 0.0, 0.0) if math.isnan(value) else (False, value, math.copysign(1.0, value))


def _given(value: float | None) -> float:
    if value is None:
        raise ValueError("'math:percentile' takes no null")
    return value
