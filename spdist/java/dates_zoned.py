"""Patterns of ``java.time.format.DateTimeFormatter``, and zones: what ``time:timezoneConvert`` needs.

They look like those of `spdist.java.dates` but are strict: a text must fit to its end, numbers stay in their
ranges (only a day past the end of a short month is taken for its last one), and names are told by their case.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from spdist.java.dates import DAYS, MONTHS

__all__ = ["ZonedPattern", "zone_of", "zoned_pattern_of"]

# --- zones -------------------------------------------------------------------------------------------------------

_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?:(?P<h>\d{1,2})|(?P<hh>\d{2}):?(?P<mm>\d{2})(?::?(?P<ss>\d{2}))?)", re.ASCII
)


def _clock(span: timedelta) -> str:
    total = int(span.total_seconds())
    return f"{total // 3600:02d}:{total // 60 % 60:02d}" + (f":{total % 60:02d}" if total % 60 else "")


@lru_cache(maxsize=256)
def zone_of(name: str) -> tzinfo:
    """Return the zone with a name: a region, an offset such as ``+05:30``, or one of Java's short names.

    Raises
    ------
    ValueError
        There is no such zone.
    """
    known = _SHORT.get(name, name)
    if known in ("Z", "UTC", "GMT", "UT"):
        return timezone(timedelta(), known)
    offset = _OFFSET.fullmatch(known)
    if offset is not None:
        hours = int(offset["h"] or offset["hh"])
        span = timedelta(hours=hours, minutes=int(offset["mm"] or 0), seconds=int(offset["ss"] or 0))
        # The bound of Java's ZoneOffset
        if span > timedelta(hours=18):
            raise ValueError(f"'{name}' is too far from UTC")
        # Java calls an offset of zero Z, and one behind UTC nothing at all
        shown = f"{offset['sign']}{_clock(span)}" if span else "" if offset.start("sign") else "Z"
        return timezone(-span if offset["sign"] == "-" else span, known[: offset.start("sign")] + shown)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9~/._+-]+", known):
        raise ValueError(f"'{name}' is no time zone")
    try:
        return ZoneInfo(known)
    except (KeyError, OSError) as error:
        # OSError: some names, such as America, are folders of the zone database
        raise ValueError(f"'{name}' is no time zone") from error


# --- patterns ----------------------------------------------------------------------------------------------------

_TOKENS = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)
_TWO = {"H": "hour", "K": "half_hour", "d": "day", "h": "clock_half", "k": "clock", "m": "minute", "s": "second"}
_WRITES: dict[str, Callable[[datetime], int]] = {
    "A": lambda t: ((t.hour * 60 + t.minute) * 60 + t.second) * 1000 + t.microsecond // 1000,
    "D": lambda t: t.timetuple().tm_yday,
    "H": lambda t: t.hour,
    "K": lambda t: t.hour % 12,
    "L": lambda t: t.month,
    "M": lambda t: t.month,
    "Q": lambda t: (t.month + 2) // 3,
    "d": lambda t: t.day,
    "h": lambda t: t.hour % 12 or 12,
    "k": lambda t: t.hour or 24,
    "m": lambda t: t.minute,
    "n": lambda t: t.microsecond * 1000,
    "q": lambda t: (t.month + 2) // 3,
    "s": lambda t: t.second,
    "u": lambda t: t.year,
    "y": lambda t: t.year,
}
_ERAS = {"AD": 1, "BC": 0, "Anno Domini": 1, "Before Christ": 0}


def _offset(time: datetime, colon: str, zero: str, minutes: bool = True) -> str:
    span = time.utcoffset() or timedelta()
    if not span and zero:
        return zero
    total = int(abs(span).total_seconds())
    shown = f"{total // 3600:02d}"
    if minutes or total % 3600:
        shown += f"{colon}{total // 60 % 60:02d}"
    return ("-" if span < timedelta() else "+") + shown


def _writer(letter: str, width: int) -> Callable[[datetime], str]:
    if letter in "ML" and width > 2:
        return lambda t: {3: MONTHS[t.month - 1][:3], 4: MONTHS[t.month - 1], 5: MONTHS[t.month - 1][:1]}[width]
    if letter in "yu" and width == 2:
        return lambda t: f"{t.year % 100:02d}"
    if letter in _WRITES:
        write = _WRITES[letter]
        return lambda t: f"{write(t):0{width}d}"
    names: dict[str, Callable[[datetime], str]] = {
        "E": lambda t: _cut(DAYS[t.isoweekday() % 7], width),
        "G": lambda t: {4: "Anno Domini", 5: "A"}.get(width, "AD"),
        "O": lambda t: ("GMT" + _short_offset(t, width)) if t.utcoffset() else "GMT",
        # Cut off, not rounded
        "S": lambda t: f"{t.microsecond * 1000:09d}"[:width],
        "V": lambda t: str(t.tzinfo),
        "X": lambda t: _offset(t, ":" if width in (3, 5) else "", "Z", width > 1),
        "Z": lambda t: "GMT" + (_offset(t, ":", "") if t.utcoffset() else "") if width == 4 else _offset_of_z(t, width),
        "a": lambda t: "PM" if t.hour > 11 else "AM",
        "x": lambda t: _offset(t, ":" if width in (3, 5) else "", "", width > 1),
        "z": lambda t: _zone_name(t),
    }
    return names[letter]


def _cut(name: str, width: int) -> str:
    return {4: name, 5: name[:1]}.get(width, name[:3])


def _short_offset(time: datetime, width: int) -> str:
    shown = _offset(time, ":", "")
    return shown if width == 4 else shown[0] + shown[1:].lstrip("0").removesuffix(":00")


def _offset_of_z(time: datetime, width: int) -> str:
    return _offset(time, ":", "Z") if width == 5 else _offset(time, "", "")


def _zone_name(time: datetime) -> str:
    name = time.tzname() or ""
    return name if name[:1].isalpha() or isinstance(time.tzinfo, timezone) else _offset(time, ":", "Z")


_KNOWN = set(_WRITES) | set("EGOSVXZaxz")
_WIDEST = dict.fromkeys("HKdhkms", 2) | {"D": 3, "E": 5, "G": 5, "L": 5, "M": 5, "Q": 2, "a": 1, "q": 2}
_WIDEST |= {"S": 9, "V": 2, "X": 5, "Z": 5, "x": 5, "z": 4, "O": 4}


def _regular(letter: str, width: int, numbers_follow: bool) -> str:
    """Return the regular expression of what a letter reads."""
    if letter in "ML" and width > 2:
        return "|".join(name if width == 4 else name[:3] for name in MONTHS)
    if letter == "E":
        return "|".join(name if width == 4 else name[:3] for name in DAYS)
    if letter in "yu":
        if width == 2:
            return r"\d{2}"
        if width < 4:
            return rf"-?\d{{{width},19}}"
        # SignStyle.EXCEEDS_PAD: a year of more digits than letters needs its sign
        return rf"-\d{{{width},19}}|\+\d{{{width + 1},19}}|\d{{{width}}}" + ("" if numbers_follow else r"(?!\d)")
    if letter == "S":
        return rf"\d{{{width}}}"
    if letter in _WRITES:
        return rf"\d{{{width}}}" if width == 2 and letter not in "DAn" else rf"\d{{{width},19}}"
    texts = {"G": "AD|BC" if width < 4 else "Anno Domini|Before Christ", "a": "AM|PM"}
    return texts.get(letter, r"Z|GMT[+-]?[\d:]*|[+-][\d:]+|[A-Za-z][A-Za-z/_]*")


class ZonedPattern:
    """A pattern that was read: it writes times of a zone, and reads local ones.

    Parameters
    ----------
    text : str
        The pattern.

    Raises
    ------
    ValueError
        It cannot be read.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._writers: list[Callable[[datetime], str]] = []
        self._letters: list[tuple[str, int]] = []
        tokens = [found.group() for found in _TOKENS.finditer(text)]
        regular, depth = "", 0
        for place, token in enumerate(tokens):
            if token in "[]" or token in "{}#'":
                depth += {"[": 1, "]": -1}.get(token, 0)
                if depth < 0 or token in "{}#'":
                    raise ValueError(f"the pattern '{text}' has a '{token}' that does not belong there")
                regular += "(?:" if token == "[" else ")?"
            elif token[0].isascii() and token[0].isalpha():
                regular += f"({self._letter(token, tokens[place + 1 : place + 2])})"
            else:
                literal = token if token[0] != "'" else "'" if token == "''" else token[1:-1].replace("''", "'")
                regular += re.escape(literal)
                self._writers.append(lambda _, literal=literal: literal)  # type: ignore[misc]
        # Java closes the optional parts that are still open at the end
        self._regular = re.compile(regular + ")?" * depth)

    def _letter(self, token: str, behind: list[str]) -> str:
        letter, width = token[0], len(token)
        if letter not in _KNOWN or width > _WIDEST.get(letter, 19):
            raise ValueError(f"the pattern '{self.text}' has '{token}', which is not known")
        self._writers.append(_writer(letter, width))
        self._letters.append((letter, width))
        follows = (
            bool(behind) and behind[0][0] in _WRITES | {"S": None} and not (behind[0][0] in "ML" and len(behind[0]) > 2)
        )
        return _regular(letter, width, follows)

    def write(self, time: datetime) -> str:
        """Return a time with a zone as text."""
        return "".join(write(time) for write in self._writers)

    def read(self, text: str) -> datetime:
        """Return the local time that a text is; raises ValueError where it does not fit, or is none."""
        found = self._regular.fullmatch(text)
        if found is None:
            raise ValueError(f"'{text}' does not fit the pattern '{self.text}'")
        values: dict[str, int] = {}
        for (letter, width), part in zip(self._letters, found.groups(), strict=True):
            if part is not None:
                _take(values, letter, width, part)
        return _resolved(values)


def _take(values: dict[str, int], letter: str, width: int, part: str) -> None:
    if letter in "yu":
        # DateTimeFormatter reads two digits from 2000 on, FastDateFormat around the present
        values["year"] = 2000 + int(part) if width == 2 else int(part)
    elif letter in "ML":
        values["month"] = int(part) if width < 3 else [name[:3] for name in MONTHS].index(part[:3]) + 1
    elif letter == "E":
        values["weekday"] = [name[:3] for name in DAYS].index(part[:3])
    elif letter == "S":
        values["micro"] = int(part.ljust(9, "0")) // 1000
    elif letter == "n":
        values["micro"] = int(part) // 1000
    elif letter in "Ga":
        values["era" if letter == "G" else "half"] = _ERAS.get(part, int(part == "PM"))
    elif letter == "D":
        values["day_of_year"] = int(part)
    elif letter in _TWO:
        values[_TWO[letter]] = int(part)


def _within(values: dict[str, int], name: str, low: int, high: int) -> int | None:
    value = values.get(name)
    if value is not None and not low <= value <= high:
        raise ValueError(f"{value} is no {name}")
    return value


def _hour(values: dict[str, int]) -> int:
    hour, clock = _within(values, "hour", 0, 24), _within(values, "clock", 1, 24)
    half_hour, clock_half = _within(values, "half_hour", 0, 11), _within(values, "clock_half", 1, 12)
    half = values.get("half")
    if hour is None and clock is not None:
        hour = clock % 24
    if half_hour is None and clock_half is not None:
        half_hour = clock_half % 12
    if hour is None:
        if half_hour is None or half is None:
            raise ValueError("there is no hour")
        return half_hour + 12 * half
    if half is not None and half != hour // 12:
        raise ValueError("the hour is not in this half of the day")
    return hour


def _resolved(values: dict[str, int]) -> datetime:
    year = values.get("year")
    if year is None:
        raise ValueError("there is no year")
    if values.get("era") == 0:
        year = 1 - year
    if "day_of_year" in values and "month" not in values:
        day = datetime(year, 1, 1) + timedelta(days=values["day_of_year"] - 1)  # noqa: DTZ001
        if not values["day_of_year"] or day.year != year:
            raise ValueError("the year is not that long")
    else:
        month, number = _within(values, "month", 1, 12), _within(values, "day", 1, 31)
        if month is None or not number:
            raise ValueError("there is no day")
        day = datetime(year, month, min(number, monthrange(year, month)[1]))  # noqa: DTZ001
    if "weekday" in values and day.isoweekday() % 7 != values["weekday"]:
        raise ValueError("this is another day of the week")
    minute, second = _within(values, "minute", 0, 59), _within(values, "second", 0, 59)
    if (second is not None and minute is None) or ("micro" in values and second is None):
        raise ValueError("a part of the time is missing")
    hour, micro = _hour(values), values.get("micro", 0)
    if hour == 24 and (minute or second or micro):
        raise ValueError("a day ends at 24:00")
    return day + timedelta(hours=hour, minutes=minute or 0, seconds=second or 0, microseconds=micro)


@lru_cache(maxsize=256)
def zoned_pattern_of(text: str) -> ZonedPattern:
    """Return the pattern that a text is; raises ValueError where it is none."""
    return ZonedPattern(text)
