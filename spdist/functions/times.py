"""The ``time:`` functions of siddhi-execution-time.

Times are texts under a pattern (`spdist.java.dates`) or milliseconds since 1970, all in UTC. The current time is
that of the app's clock, never the machine's. Null gives null; a text that does not fit its pattern fails the event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import Given, function, signature
from spdist.functions.forms import Code, Site
from spdist.java.calendars import MILLISECONDS, Weeks, add_unit, day_of, weeks_of
from spdist.java.dates import pattern_of
from spdist.java.dates_zoned import zone_of, zoned_pattern_of
from spdist.java.numbers import wrap32
from spdist.language import ast
from spdist.language.types import Type

__all__: list[str] = []

Types = tuple[Type, ...]
Expressions = tuple[ast.Expression, ...]
Codes = tuple[Code, ...]

_STRING, _INT, _LONG = Type.STRING, Type.INT, Type.LONG
_DEFAULT = "yyyy-MM-dd HH:mm:ss.SSS"
_DATE, _SECONDS = "yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss"


def _unless_null(compute: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(compute, assigned=("__name__", "__doc__"))
    def guarded(*arguments: Any) -> Any:
        return None if None in arguments else compute(*arguments)

    return guarded


def _constants(id: str, positions: tuple[int, ...], *overloads: tuple[tuple[Any, ...], Type]) -> Callable[..., Type]:
    """Return a resolver that also wants constants at some positions, counted from the end where negative."""
    resolve = signature(id, *overloads)

    def checked(types: Types, expressions: Expressions = ()) -> Type:
        result = resolve(types, expressions)
        for position in positions:
            if position < len(expressions) and not isinstance(expressions[position], ast.Literal):
                raise SiddhiTypeError(f"argument {position + 1} of '{id}' must be a constant")
        return result

    return checked


# --- now ---------------------------------------------------------------------------------------------------------


def _now(id: str, pattern: str) -> None:
    @function(id, signature(id, ((), _STRING)), inline=True)
    def form(site: Site, _arguments: Codes) -> Code:
        write = site.bind(pattern_of(pattern).write, id.partition(":")[2])
        return Code(f"{write}({site.clock()}.now)", _STRING, nullable=False)


_now("time:currentDate", _DATE)
_now("time:currentTime", "HH:mm:ss")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _now_in_zone(time: int, zone: str) -> str:
    return zoned_pattern_of(_SECONDS).write((_EPOCH + timedelta(milliseconds=time)).astimezone(zone_of(zone)))


@function(
    "time:currentTimestamp",
    _constants("time:currentTimestamp", (0,), ((), _STRING), ((_STRING,), _STRING)),
    inline=True,
)
def current_timestamp(site: Site, arguments: Codes) -> Code:
    """Write the app's clock as ``yyyy-MM-dd HH:mm:ss``, in UTC or in a zone."""
    if not arguments:
        write = site.bind(pattern_of(_SECONDS).write, "current_timestamp")
        return Code(f"{write}({site.clock()}.now)", _STRING, nullable=False)
    write = site.bind(_now_in_zone, "now_in_zone")
    return Code(f"{write}({site.clock()}.now, {arguments[0].text})", _STRING, nullable=False)


def _write(time: int, pattern: str) -> str:
    return pattern_of(pattern).write(time)


@function("time:utcTimestamp", signature("time:utcTimestamp", ((), _STRING), ((_STRING,), _STRING)), inline=True)
def utc_timestamp(site: Site, arguments: Codes) -> Code:
    """Write the app's clock under a pattern, by default as ``yyyy-MM-dd HH:mm:ss``."""
    pattern = arguments[0].text if arguments else repr(_SECONDS)
    return Code(f"{site.bind(_write, 'write_time')}({site.clock()}.now, {pattern})", _STRING, nullable=False)


def _read(text: str, pattern: str = _DEFAULT) -> int:
    return pattern_of(pattern).read(text)


def _timestamp_of(now: int, text: str | None, *pattern: str | None) -> int | None:
    if text is None or None in pattern:
        # Siddhi takes a lone null for no argument.
        return None if pattern else now
    return _read(text, *pattern)  # type: ignore[arg-type]


@function(
    "time:timestampInMilliseconds",
    signature("time:timestampInMilliseconds", ((), _LONG), ((_STRING,), _LONG), ((_STRING, _STRING), _LONG)),
    inline=True,
)
def timestamp_in_milliseconds(site: Site, arguments: Codes) -> Code:
    """Give the milliseconds of a text, or of the app's clock."""
    now = f"{site.clock()}.now"
    if not arguments:
        return Code(now, _LONG, nullable=False)
    call = f"{site.bind(_timestamp_of, 'timestamp_of')}({now}, {', '.join(a.text for a in arguments)})"
    return Code(call, _LONG)


# --- days --------------------------------------------------------------------------------------------------------


@function("time:date", signature("time:date", ((_STRING, _STRING), _STRING)))
@_unless_null
def date(text: str, pattern: str) -> str:
    """Give the day of a text as ``yyyy-MM-dd``; the pattern cannot be left out, as in Siddhi."""
    return _write(_read(text, pattern), _DATE)


@function("time:dayOfWeek", signature("time:dayOfWeek", ((_STRING,), _STRING), ((_STRING, _STRING), _STRING)))
@_unless_null
def day_of_week(text: str, pattern: str | None = None) -> str:
    """Give the English name of a text's day of the week; without a pattern only the day is read."""
    time = _read(text, pattern) if pattern is not None else _read(_first_word(text), _DATE)
    return _write(time, "EEEE")


def _first_word(text: str) -> str:
    # Java's split gives nothing for a text of blanks only.
    if text and not text.strip(" "):
        raise IndexError("there is no day in a text of blanks")
    return text.split(" ")[0]


def _between(one: int, other: int) -> int:
    days = abs(one - other) // MILLISECONDS
    return days if one >= other else -days


@function(
    "time:dateDiff",
    signature(
        "time:dateDiff",
        ((_STRING, _STRING, _STRING, _STRING), _LONG),
        ((_STRING, _STRING), _LONG),
        ((_LONG, _LONG), _LONG),
    ),
    typed=lambda arguments: "days_between({0}, {1})" if arguments[0].type is _LONG else "",
)
@_unless_null
def date_diff(one: Any, other: Any, pattern: str = _DEFAULT, other_pattern: str = _DEFAULT) -> int:
    """Give the whole days from the second time to the first."""
    if isinstance(one, int):
        return _between(one, other)
    return _between(_read(one, pattern), _read(other, other_pattern))


@function(
    "time:dateFormat",
    signature(
        "time:dateFormat",
        ((_STRING, _STRING, _STRING), _STRING),
        ((_STRING, _STRING), _STRING),
        ((_LONG, _STRING), _STRING),
    ),
)
@_unless_null
def date_format(time: Any, pattern: str, read_by: str = _DEFAULT) -> str:
    """Write a time under another pattern."""
    read = time if isinstance(time, int) else _read(time, read_by)
    return _write(read, pattern)


# --- moving and taking apart -------------------------------------------------------------------------------------

_MOVES = (
    ((_STRING, _INT, _STRING), _STRING),
    ((_LONG, _INT, _STRING), _STRING),
    ((_STRING, _INT, _STRING, _STRING), _STRING),
)


def _move(id: str, sign: int, folding: bool) -> None:
    """Register ``dateAdd`` or ``dateSub``; `folding`: whether milliseconds take a unit in small letters."""

    def moved(time: Any, amount: int, unit: str, pattern: str = _DEFAULT) -> str:
        if isinstance(time, int):
            return str(add_unit(time, wrap32(sign * amount), unit.upper() if folding else unit))
        return _write(add_unit(_read(time, pattern), wrap32(sign * amount), unit.upper()), pattern)

    function(id, _constants(id, (2,), *_MOVES))(_unless_null(moved))


_move("time:dateAdd", 1, folding=False)
_move("time:dateSub", -1, folding=True)


def _part(time: int, unit: str, weeks: Weeks, years: int) -> int:
    # Python's `divmod` rounds down, so also a time before 1970 has a day and a moment in it.
    number, rest = divmod(time, MILLISECONDS)
    day = day_of(number)
    parts: dict[str, Callable[[], int]] = {
        "YEAR": lambda: years + (day.year if day.year > 0 else 1 - day.year),
        "QUARTER": lambda: (day.month - 1) // 3 + 1,
        "MONTH": lambda: day.month,
        "WEEK": lambda: weeks.of_year(number)[1],
        "DAY": lambda: day.day,
        "HOUR": lambda: rest // 3_600_000,
        "MINUTE": lambda: rest // 60_000 % 60,
        "SECOND": lambda: rest // 1000 % 60,
    }
    return parts[unit]() if unit in parts else 0


_EXTRACTS = (
    ((_STRING, _STRING), _INT),
    ((_STRING, _STRING, _STRING), _INT),
    ((_STRING, _STRING, _STRING, _STRING), _INT),
    ((_LONG, _STRING), _INT),
    ((_LONG, _STRING, _STRING), _INT),
)


def _resolve_extract(types: Types, expressions: Expressions = ()) -> Type:
    number = types[:1] == (_LONG,)
    result = _constants("time:extract", (1, 2) if number else (0, 3), *_EXTRACTS)(types, expressions)
    place = 2 if number else 3
    locale = expressions[place] if len(expressions) > place else None
    if isinstance(locale, ast.Literal):
        try:
            weeks_of(str(locale.value))
        except ValueError as error:
            raise SiddhiTypeError(str(error), hint="a locale is written 'en_GB'") from error
    return result


def _typed_extract(arguments: Sequence[Given]) -> str:
    time, unit = arguments[:2]
    if time.type is not _LONG or unit.literal is None:
        return ""
    locale = str(arguments[2].literal) if len(arguments) > 2 else ""
    weeks, years = weeks_of(locale), 543 if locale == "th_TH" else 0
    typed = {
        "YEAR": f"year_of({{0}}) + {years}",
        "QUARTER": "(month_of({0}) + 2) // 3",
        "MONTH": "month_of({0})",
        "WEEK": f"week_of({{0}}, {weeks.first}, {weeks.least})",
        "DAY": "day_of({0})",
        "HOUR": "{0} // 3600000 % 24",
        "MINUTE": "{0} // 60000 % 60",
        "SECOND": "{0} // 1000 % 60",
    }
    return typed.get(str(unit.literal).upper(), "0")


@function("time:extract", _resolve_extract, inline=True, typed=_typed_extract)
def extract(site: Site, arguments: Codes) -> Code:
    """Give a part of a time: of a text under a pattern, or of milliseconds; weeks are counted as the locale does."""
    number = arguments[0].type is _LONG
    unit, time = (arguments[1], arguments[0]) if number else (arguments[0], arguments[1])
    locale = str(arguments[-1].literal) if len(arguments) == (3 if number else 4) else ""
    weeks, name = weeks_of(locale), str(unit.literal).upper()
    # Java's calendar of Thailand is the Buddhist one.
    years = 543 if locale == "th_TH" else 0

    def part(value: Any, pattern: str = _DEFAULT) -> int:
        return _part(value if number else _read(value, pattern), name, weeks, years)

    patterns = [arguments[2].text] if not number and len(arguments) > 2 else []
    call = f"{site.bind(_unless_null(part), 'part_of_time')}({', '.join([time.text, *patterns])})"
    return Code(call, _INT)


@function(
    "time:timezoneConvert",
    signature(
        "time:timezoneConvert",
        ((_STRING, _STRING, _STRING), _STRING),
        ((_STRING, _STRING, _STRING, _STRING), _STRING),
    ),
)
@_unless_null
def timezone_convert(text: str, pattern: str, target: str, source: str = "UTC") -> str:
    """Write a local time of one zone as that of another, under the same pattern."""
    form = zoned_pattern_of(pattern)
    return form.write(form.read(text).replace(tzinfo=zone_of(source)).astimezone(zone_of(target)))
