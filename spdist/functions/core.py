"""The functions of siddhi-core, written into generated code where that is shorter than a call.

Arguments are computed whether they are needed or not, so one that fails fails the event; only of the two values of
``ifThenElse`` the one that is not chosen is left alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any
from uuid import UUID

from spdist.errors import SiddhiTypeError
from spdist.extension import ANY, NUMERIC, Given, function, signature
from spdist.functions.forms import Code, Site
from spdist.java import numbers, objects
from spdist.java.failures import ClassCastError
from spdist.java.json.text import text_of_object
from spdist.language import ast
from spdist.language.types import Type

__all__ = ["draw_uuid", "parse_double", "parse_int", "parse_long"]

Codes = tuple[Code, ...]

# --- choosing among values ---------------------------------------------------------------------------------------


def _one_type(id: str, types: tuple[Type, ...]) -> Type:
    if not types:
        raise SiddhiTypeError(f"'{id}' needs at least one argument")
    if len(set(types)) > 1:
        given = ", ".join(str(t) for t in types)
        raise SiddhiTypeError(f"the arguments of '{id}' must be of one type, found {given}")
    return types[0]


def _resolve_coalesce(types: tuple[Type, ...], *_: Any) -> Type:
    return _one_type("coalesce", types)


def _first(*values: Any) -> Any:
    for value in values:
        if value is not None:
            return value
    return None


@function("coalesce", _resolve_coalesce, inline=True)
def coalesce(site: Site, arguments: Codes) -> Code:
    """Give the first argument that is not null. Source: CoalesceFunctionExecutor."""
    nullable = all(a.nullable for a in arguments)
    exact = all(a.exact for a in arguments)
    if all(a.atom for a in arguments):
        last = next((n for n, a in enumerate(arguments) if not a.nullable), len(arguments) - 1)
        chain = "".join(f"{a.value} if {a.value} is not None else " for a in arguments[:last])
        return Code(f"({chain}{arguments[last].value})", arguments[0].type, nullable, exact=exact)
    call = f"{site.bind(_first, 'first')}({', '.join(a.text for a in arguments)})"
    return Code(call, arguments[0].type, nullable, exact=exact)


def _resolve_default(types: tuple[Type, ...], expressions: tuple[ast.Expression, ...] = ()) -> Type:
    if len(types) != 2:
        raise SiddhiTypeError("'default' takes an attribute and a constant", hint="write default(attribute, constant)")
    if len(expressions) == 2 and not isinstance(expressions[1], ast.Literal | ast.TimeLiteral):
        raise SiddhiTypeError("the second argument of 'default' must be a constant")
    return _one_type("default", types)


@function("default", _resolve_default, inline=True)
def default(site: Site, arguments: Codes) -> Code:
    """Give the first argument, or the constant where it is null. Source: DefaultFunctionExecutor."""
    return coalesce(site, arguments)


def _resolve_if_then_else(types: tuple[Type, ...], *_: Any) -> Type:
    if len(types) != 3 or types[0] is not Type.BOOL:
        raise SiddhiTypeError("'ifThenElse' takes a condition and two values", hint="write ifThenElse(bool, a, b)")
    return _one_type("ifThenElse", types[1:])


@function("ifThenElse", _resolve_if_then_else, inline=True)
def if_then_else(_site: Site, arguments: Codes) -> Code:
    """Give one of two values; a null condition counts as false. Source: IfThenElseFunctionExecutor."""
    condition, then, otherwise = arguments
    nullable, exact = then.nullable or otherwise.nullable, then.exact and otherwise.exact
    return Code(f"({then.text} if {condition.text} else {otherwise.text})", then.type, nullable, exact=exact)


# --- changing types ----------------------------------------------------------------------------------------------

_NAMED = {t.value: t for t in Type if t is not Type.OBJECT}


def _named_type(id: str, types: tuple[Type, ...], expressions: tuple[ast.Expression, ...]) -> Type:
    name = expressions[1] if len(expressions) == 2 else None
    if len(types) != 2 or not isinstance(name, ast.Literal) or name.type is not Type.STRING:
        raise SiddhiTypeError(f"'{id}' takes a value and the name of a type", hint=f"write {id}(value, 'int')")
    named = _NAMED.get(str(name.value).lower())
    if named is None:
        raise SiddhiTypeError(f"'{id}' does not know the type '{name.value}'", hint=f"it knows {', '.join(_NAMED)}")
    return named


def _resolve_cast(types: tuple[Type, ...], expressions: tuple[ast.Expression, ...] = ()) -> Type:
    return _named_type("cast", types, expressions)


def _resolve_convert(types: tuple[Type, ...], expressions: tuple[ast.Expression, ...] = ()) -> Type:
    named = _named_type("convert", types, expressions)
    if types[0] is Type.OBJECT and named is not Type.STRING:
        raise SiddhiTypeError("an object can only be converted to 'string'", hint="use cast(value, 'type')")
    return named


def _typed_cast(arguments: Sequence[Given]) -> str:
    value, name = arguments
    given, named = value.type, _NAMED[str(name.literal).lower()]
    return "{0}" if given is named or (given is Type.INT and named is Type.LONG) else ""


@function("cast", _resolve_cast, inline=True, typed=_typed_cast)
def cast(site: Site, arguments: Codes) -> Code:
    """Name a type for the checker; only an int becomes a long where that is asked. Source: CastFunctionExecutor."""
    value, name = arguments
    named = _NAMED[str(name.literal).lower()]
    if value.type is Type.OBJECT:
        return Code(f"{site.bind(objects.unbox, 'unbox')}({value.text})", named, exact=False)
    same = value.type is named or (value.type is Type.INT and named is Type.LONG)
    exact = value.exact and same
    foreign = value.type if value.exact and not same and value.type.numeric and named.numeric else None
    return Code(value.value, named, value.nullable, value.atom, value.nulls, exact, None, foreign, value.fallible)


def _unless_null(convert: Any) -> Any:
    def converted(value: Any) -> Any:
        return None if value is None else convert(value)

    return converted


def _parse_integer(low: int, high: int) -> Callable[[str], int | None]:
    def parse(text: str) -> int | None:
        # Java takes a sign and digits; Python would also take blanks and underscores.
        digits = text[1:] if text[:1] in ("+", "-") else text
        if not digits.isdecimal():
            return None
        try:
            number = int(text)
        except ValueError:  # of thousands of digits
            return None
        return number if low <= number <= high else None

    return parse


#: From text to number as Java reads it; None where it is none, or out of range.
parse_int = _parse_integer(numbers.INT_MIN, numbers.INT_MAX)
parse_long = _parse_integer(numbers.LONG_MIN, numbers.LONG_MAX)

# Java's blanks are all up to U+0020; a number may end with its type.
_BLANKS = "".join(map(chr, range(0x21)))
_DECIMAL = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9A-Fa-f]+\.?[0-9A-Fa-f]*|\.[0-9A-Fa-f]+)[pP][+-]?[0-9]+)[dDfF]?")
_NAMED_REAL = re.compile(r"[+-]?(?:NaN|Infinity)")


def parse_double(text: str) -> float | None:
    """Return the number that a text is, as ``Double.parseDouble`` reads it; None where it is none."""
    body = text.strip(_BLANKS)
    found = _DECIMAL.fullmatch(body)
    if found is not None:
        return float(found[1])
    found = _HEXADECIMAL.fullmatch(body)
    if found is not None:
        try:
            return float.fromhex(found[1])
        # Python refuses what Java reads as infinite.
        except OverflowError:
            return -math.inf if body.startswith("-") else math.inf
    return float(body) if _NAMED_REAL.fullmatch(body) else None


def _parse_float(text: Any) -> float | None:
    number = parse_double(text)
    return None if number is None else numbers.float32(number)


_PARSERS = {
    Type.INT: parse_int,
    Type.LONG: parse_long,
    Type.FLOAT: _parse_float,
    Type.DOUBLE: parse_double,
    Type.BOOL: lambda text: text.lower() == "true",
}
_FROM_BOOL = {Type.INT: int, Type.LONG: int, Type.FLOAT: float, Type.DOUBLE: float, Type.BOOL: bool}
_FROM_NUMBER = {
    Type.INT: numbers.as_int,
    Type.LONG: numbers.as_long,
    Type.FLOAT: numbers.as_float,
    Type.DOUBLE: numbers.as_double,
    Type.BOOL: lambda number: number == 1,
}


def _converter(source: Type, target: Type) -> Any:
    if target is Type.STRING:
        if source is Type.OBJECT:
            return _unless_null(text_of_object)
        return _unless_null(numbers.text_of_float32 if source is Type.FLOAT else numbers.text_of)
    table: dict[Type, Any] = _FROM_NUMBER
    if source is Type.STRING:
        table = _PARSERS
    elif source is Type.BOOL:
        table = _FROM_BOOL
    return _unless_null(table[target])


_CONVERTERS = {(source, target): _converter(source, target) for source in Type for target in _NAMED.values()}


_WHOLE, _REALS = (Type.INT, Type.LONG), (Type.FLOAT, Type.DOUBLE)
#: Between numbers and bool, in compiled programs; what a type is not turned into stays as it is.
_TYPED = {
    **{(given, Type.BOOL): "{0} == 1" for given in NUMERIC},
    **{(Type.BOOL, named): "1 if {0} != 0 else 0" for named in _WHOLE},
    **{(Type.BOOL, named): "1.0 if {0} != 0 else 0.0" for named in _REALS},
    **{(given, Type.INT): "to_int({0})" for given in _REALS},
    **{(given, Type.LONG): "to_long({0})" for given in _REALS},
    **{(given, Type.DOUBLE): "float({0})" for given in _WHOLE},
    **{(given, Type.FLOAT): "f32({0})" for given in (*_WHOLE, Type.DOUBLE)},
    (Type.LONG, Type.INT): "wrap32({0})",
    (Type.INT, Type.LONG): "{0}",
    (Type.FLOAT, Type.DOUBLE): "{0}",
}


def _typed_convert(arguments: Sequence[Given]) -> str:
    value, name = arguments
    target = _NAMED[str(name.literal).lower()]
    return "{0}" if value.type is target else _TYPED.get((value.type, target), "")


@function("convert", _resolve_convert, inline=True, typed=_typed_convert)
def convert(site: Site, arguments: Codes) -> Code:
    """Change a value to another type; null where text is no such number. Source: ConvertFunctionExecutor."""
    value, name = arguments
    target = _NAMED[str(name.literal).lower()]
    if value.type is target and value.exact:
        return value
    converter = site.bind(_CONVERTERS[value.type, target], f"{value.type}_to_{target}")
    return Code(f"{converter}({value.text})", target)


# --- extremes of one event ---------------------------------------------------------------------------------------

_GREATEST, _LEAST = 1.7976931348623157e308, 5e-324
_NARROWED = {
    Type.INT: numbers.double_to_int,
    Type.LONG: numbers.double_to_long,
    Type.FLOAT: numbers.float32,
    Type.DOUBLE: float,
}


def _extreme(id: str, first: float, better: Any) -> None:
    """Register ``maximum`` or ``minimum``.

    Siddhi compares as doubles and begins with the *smallest positive* double, or the greatest one: a maximum of several
    is never negative, and where all are null the start itself comes out. A single argument is given as it is.
    """

    def narrowed(narrow: Any) -> Any:
        def extreme(*values: Any) -> Any:
            best = first
            for value in values:
                if value is not None and better(float(value), best):
                    best = float(value)
            return narrow(best)

        return extreme

    by_type = {type: narrowed(narrow) for type, narrow in _NARROWED.items()}

    def resolve(types: tuple[Type, ...], *_: Any) -> Type:
        type = _one_type(id, types)
        if type not in NUMERIC:
            raise SiddhiTypeError(f"'{id}' takes numbers, not {type}")
        return type

    @function(id, resolve, inline=True)
    def form(site: Site, arguments: Codes) -> Code:
        if len(arguments) == 1:
            return arguments[0]
        type = arguments[0].type
        call = f"{site.bind(by_type[type], id)}({', '.join(a.text for a in arguments)})"
        return Code(call, type, nullable=False)


_extreme("maximum", _LEAST, lambda value, best: value > best)
_extreme("minimum", _GREATEST, lambda value, best: value < best)


# --- asking for the type at run time -----------------------------------------------------------------------------


def _instance_of(id: str, asked: Type, holds: Any) -> None:
    """Register one ``instanceOf…``: known types answer when the app is built, objects when the event is there.

    An object's whole number that comes in is an Integer where it fits 32 bits and a Long otherwise, a fraction is a
    Double; for those that were put into lists and maps see `spdist.java.objects`.
    """

    @function(id, signature(id, ((ANY,), Type.BOOL)), inline=True)
    def form(site: Site, arguments: Codes) -> Code:
        (value,) = arguments
        if value.type is not Type.OBJECT and value.exact:
            text = f"({value.text} is not None)" if value.type is asked else "False"
            return Code(text, Type.BOOL, nullable=False)
        return Code(f"{site.bind(holds, id)}({value.text})", Type.BOOL, nullable=False)


_instance_of("instanceOfInteger", Type.INT, objects.is_integer)
_instance_of("instanceOfLong", Type.LONG, objects.is_long)
_instance_of("instanceOfFloat", Type.FLOAT, lambda value: type(value) is objects.Float)
_instance_of("instanceOfDouble", Type.DOUBLE, lambda value: type(value) is float)
_instance_of("instanceOfString", Type.STRING, lambda value: type(value) is str)
_instance_of("instanceOfBoolean", Type.BOOL, lambda value: type(value) is bool)


# --- time and identity -------------------------------------------------------------------------------------------


@function("eventTimestamp", signature("eventTimestamp", ((), Type.LONG)), inline=True)
def event_timestamp(site: Site, _arguments: Codes) -> Code:
    """Give the event's timestamp; for an expired event the time it expired. Source: EventTimestampFunctionExecutor."""
    return Code(site.timestamp(), Type.LONG, nullable=False, atom=True)


@function("currentTimeMillis", signature("currentTimeMillis", ((), Type.LONG)), inline=True)
def current_time_millis(site: Site, _arguments: Codes) -> Code:
    """Give the app's clock, never the machine's. Source: CurrentTimeMillisFunctionExecutor."""
    return Code(f"{site.clock()}.now", Type.LONG, nullable=False)


def draw_uuid(clock: Any) -> str:
    """Return the next UUID of an app: made from the app's identity, its clock and a running number.

    A replay from the same state draws the same ones; apps (and copies of an app) differ by their identity.
    """
    clock.drawn += 1
    seed = f"{clock.identity}\0{clock.now}\0{clock.drawn}".encode()
    return str(UUID(bytes=blake2b(seed, digest_size=16).digest(), version=4))


@function("UUID", signature("UUID", ((), Type.STRING)), inline=True)
def uuid(site: Site, _arguments: Codes) -> Code:
    """Give a text that is different each time, and the same in a replay. Source: UUIDFunctionExecutor."""
    return Code(f"{site.bind(draw_uuid, 'draw_uuid')}({site.clock()})", Type.STRING, nullable=False)


# --- sets --------------------------------------------------------------------------------------------------------


def _set_of(value: Any) -> objects.HashSet:
    return objects.HashSet((value,))


@function("createSet", signature("createSet", ((ANY - {Type.OBJECT},), Type.OBJECT)), inline=True)
def create_set(site: Site, arguments: Codes) -> Code:
    """Give a set with one member. Source: CreateSetFunctionExecutor."""
    (value,) = arguments
    text = value.text
    # In a set values are objects, which keep their Java class: a Long 1 is no Integer 1.
    if value.type in (Type.LONG, Type.FLOAT):
        boxer = objects.box_long if value.type is Type.LONG else objects.box_float
        text = f"{site.bind(boxer, boxer.__name__)}({text})"
    return Code(f"{site.bind(_set_of, 'set_of')}({text})", Type.OBJECT, nullable=False)


@function("sizeOfSet", signature("sizeOfSet", ((Type.OBJECT,), Type.INT)))
def size_of_set(values: Any) -> int:
    """Give the number of members; 0 for null, and what is no set fails the event. Source: SizeOfSetFunctionExecutor."""
    if values is None:
        return 0
    if not isinstance(values, set | frozenset):
        raise ClassCastError(values, "Set")
    return len(values)
