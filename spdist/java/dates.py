"""Patterns of ``FastDateFormat`` (commons-lang 3.9): how times are written and read, in UTC and English.

Letters are those of ``java.text.SimpleDateFormat`` as far as commons-lang knows them. Reading is lenient as in Java:
fields may be out of range, what follows the pattern is not looked at, and a number takes as many digits as there are
unless the next field is a number too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

from spdist.java.calendars import MILLISECONDS, Fields, Weeks, day_of, weekday

__all__ = ["DAYS", "MONTHS", "Pattern", "pattern_of"]

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")

#: Two digits of a year are one from here on.
_CENTURY = 1946
_WEEKS = Weeks()
_TOKENS = re.compile(r"'(?:[^']|'')*'|[^A-Za-z']+|([A-Za-z])\1*|'", re.DOTALL)


class _Moment:
    """A time taken apart."""

    __slots__ = ("day", "half_hour", "hour", "number", "rest")

    def __init__(self, time: int) -> None:
        self.number, self.rest = divmod(time, MILLISECONDS)
        self.day = day_of(self.number)
        self.hour = self.rest // 3_600_000
        self.half_hour = self.hour % 12

    @property
    def year(self) -> int:
        """The year of its era."""
        return self.day.year if self.day.year > 0 else 1 - self.day.year

    @property
    def week_year(self) -> int:
        """The year that its week belongs to."""
        return _WEEKS.of_year(self.number)[0]


_NUMBERS: dict[str, Callable[[_Moment], int]] = {
    "D": lambda m: m.day.day_of_year,
    "F": lambda m: (m.day.day - 1) // 7 + 1,
    "H": lambda m: m.hour,
    "K": lambda m: m.half_hour,
    "S": lambda m: m.rest % 1000,
    "W": lambda m: _WEEKS.of_month(m.number),
    "d": lambda m: m.day.day,
    "h": lambda m: m.half_hour or 12,
    "k": lambda m: m.hour or 24,
    "m": lambda m: m.rest // 60_000 % 60,
    "s": lambda m: m.rest // 1000 % 60,
    # From 1 for Monday
    "u": lambda m: (weekday(m.number) + 5) % 7 + 1,
    "w": lambda m: _WEEKS.of_year(m.number)[1],
}


def _writer(letter: str, width: int) -> Callable[[_Moment], str]:
    if letter in _NUMBERS:
        number = _NUMBERS[letter]
        return lambda m: f"{number(m):0{width}d}"
    if letter == "y":
        return (lambda m: f"{m.year % 100:02d}") if width == 2 else lambda m: f"{m.year:0{max(width, 4)}d}"
    if letter == "Y":
        if width == 2:
            # Not what one would expect, but what commons-lang writes.
            return lambda m: chr(m.week_year // 10 + 48) + chr(m.week_year % 10 + 48)
        return lambda m: f"{m.week_year:0{max(width, 4)}d}"
    if letter == "M":
        if width >= 3:
            return lambda m: MONTHS[m.day.month - 1] if width > 3 else MONTHS[m.day.month - 1][:3]
        return lambda m: f"{m.day.month:0{width}d}"
    if letter == "E":
        return lambda m: DAYS[weekday(m.number) - 1] if width > 3 else DAYS[weekday(m.number) - 1][:3]
    if letter == "a":
        return lambda m: "PM" if m.hour > 11 else "AM"
    if letter == "G":
        return lambda m: "AD" if m.day.year > 0 else "BC"
    zone = {"X": "Z", "z": "UTC" if width < 4 else "Coordinated Universal Time", "Z": _OFFSETS.get(width, "+00:00")}
    return lambda _: zone[letter]


_OFFSETS = {1: "+0000", 2: "Z"}

# --- reading -----------------------------------------------------------------------------------------------------

#: Fields that are numbers: what is set, and how the number is changed before.
_FIELDS: dict[str, tuple[str, Callable[[int], int]]] = {
    "D": ("day_of_year", lambda n: n),
    "F": ("weekday_in_month", lambda n: n),
    "H": ("hour", lambda n: n),
    "K": ("half_hour", lambda n: n),
    "M": ("month", lambda n: n),
    "S": ("millisecond", lambda n: n),
    "W": ("week_of_month", lambda n: n),
    "d": ("day", lambda n: n),
    "h": ("half_hour", lambda n: 0 if n == 12 else n),
    "k": ("hour", lambda n: 0 if n == 24 else n),
    "m": ("minute", lambda n: n),
    "s": ("second", lambda n: n),
    "u": ("weekday", lambda n: 1 if n == 7 else n + 1),
    "w": ("week", lambda n: n),
}
_NAMES: dict[str, tuple[str, dict[str, int]]] = {
    "E": ("weekday", {form: n + 1 for n, name in enumerate(DAYS) for form in (name, name[:3])}),
    "G": ("era", {"Before Christ": 0, "Anno Domini": 1, "BC": 0, "AD": 1}),
    "M": ("month", {form: n + 1 for n, name in enumerate(MONTHS) for form in (name, name[:3])}),
    "a": ("half", {"AM": 0, "PM": 1, "A": 0, "P": 1}),
}
_HOUR = 3_600_000
_ZONES = {
    "Coordinated Universal Time": 0,
    "Greenwich Mean Time": 0,
    "UTC": 0,
    "GMT": 0,
    "BST": 1,
    "CEST": 2,
    "CET": 1,
    "EEST": 3,
    "EET": 2,
    "IST": 5.5,
    "JST": 9,
    "MSK": 3,
    "Eastern Standard Time": -5,
    "Eastern Daylight Time": -4,
    "EST": -5,
    "EDT": -4,
    "Central Standard Time": -6,
    "Central Daylight Time": -5,
    "CST": -6,
    "CDT": -5,
    "Mountain Standard Time": -7,
    "Mountain Daylight Time": -6,
    "MST": -7,
    "MDT": -6,
    "Pacific Standard Time": -8,
    "Pacific Daylight Time": -7,
    "PST": -8,
    "PDT": -7,
}
_OFFSET = re.compile(r"(?P<sign>[+-])(?P<hours>\d\d?):?(?P<minutes>\d\d)?", re.ASCII)
_ISO = {1: r"Z|[+-]\d{2}", 2: r"Z|[+-]\d{4}", 3: r"Z|[+-]\d{2}:\d{2}"}

#: From a text and a place to the place behind what was read; None where it does not fit.
Reader = Callable[[str, int, Fields], int | None]


def _offset(text: str) -> int:
    found = _OFFSET.search(text)
    if found is None:
        return 0
    if int(found["hours"]) > 23 or int(found["minutes"] or 0) > 59:
        raise ValueError(f"'{text}' is no offset of a zone")
    size = int(found["hours"]) * _HOUR + int(found["minutes"] or 0) * 60_000
    return -size if found["sign"] == "-" else size


def _reads_literal(literal: str) -> Reader:
    return lambda text, at, _: at + len(literal) if text.startswith(literal, at) else None


def _year_of_two(number: int) -> int:
    century = _CENTURY // 100 * 100 + number
    return number if number >= 100 else century if century >= _CENTURY else century + 100


def _reads_number(letter: str, width: int, limited: bool) -> Reader:
    name, change = _FIELDS[letter] if letter not in "yY" else ("year", _year_of_two if width < 3 else int)

    def read(text: str, at: int, fields: Fields) -> int | None:
        end = len(text)
        if limited:
            end = min(end, at + width)
        else:
            # FastDateParser passes over blanks only where the width is not given
            while at < end and text[at].isspace():
                at += 1
        behind = at
        while behind < end and text[behind].isdecimal():
            behind += 1
        if behind == at:
            return None
        number = int(text[at:behind])
        # Where Java's Integer.parseInt fails
        if number > 2**31 - 1:
            raise ValueError(f"{number} is too large for a part of a date")
        fields.set(name, change(number))
        return behind

    return read


def _reads_name(letter: str) -> Reader:
    name, values = _NAMES[letter]
    known = {form.lower(): value for form, value in values.items()}
    # The longer forms first: March begins with Mar
    forms = re.compile("|".join(sorted(known, key=len, reverse=True)), re.IGNORECASE)

    def read(text: str, at: int, fields: Fields) -> int | None:
        found = forms.match(text, at)
        if found is None:
            return None
        fields.set(name, known[found.group().lower()])
        return found.end()

    return read


def _reads_zone(letter: str, width: int) -> Reader:
    iso = letter == "X" or (letter == "Z" and width == 2)
    # The longer names first, as in `_reads_name`
    names = "|".join(sorted(map(re.escape, _ZONES), key=len, reverse=True))
    if iso:
        pattern = re.compile(_ISO[3 if letter == "Z" else width])
    else:
        pattern = re.compile(rf"[+-]\d{{4}}|GMT[+-]\d\d?:\d\d|{names}", re.IGNORECASE)
    known = {name.lower(): int(hours * _HOUR) for name, hours in _ZONES.items()}

    def read(text: str, at: int, fields: Fields) -> int | None:
        found = pattern.match(text, at)
        if found is None:
            return None
        zone = found.group()
        fields.set("offset", known.get(zone.lower(), _offset(zone)))
        return found.end()

    return read


_READ_AS_TEXT = {"E", "G", "a"}
_LETTERS = set(_FIELDS) | _READ_AS_TEXT | set("yYMXzZ")


class Pattern:
    """A pattern that was read: it writes times, and reads them.

    Parameters
    ----------
    text : str
        The pattern.

    Raises
    ------
    ValueError
        It has a letter that is not known, or a quote that is not closed.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        parts = _parts(text)
        self._writers = [self._literal(part) if literal else _writer(part[0], len(part)) for part, literal in parts]
        # What follows decides how many digits a number takes; nothing follows the last part
        followed = [*pairwise(parts), *([(parts[-1], ("", True))] if parts else [])]
        self._readers = [_reader(part, literal, _is_number(*behind)) for (part, literal), behind in followed]

    @staticmethod
    def _literal(part: str) -> Callable[[_Moment], str]:
        return lambda _: part

    def write(self, time: int) -> str:
        """Return a time (ms since 1970, UTC) as text."""
        moment = _Moment(time)
        return "".join(write(moment) for write in self._writers)

    def read(self, text: str) -> int:
        """Return the time that a text begins with; raises ValueError where it does not fit the pattern."""
        fields, at = Fields(), 0
        for read in self._readers:
            behind = read(text, at, fields)
            if behind is None:
                raise ValueError(f"'{text}' does not fit the pattern '{self.text}'")
            at = behind
        return fields.time(_WEEKS)


def _parts(text: str) -> list[tuple[str, bool]]:
    parts: list[tuple[str, bool]] = []
    at = 0
    while at < len(text):
        found = _TOKENS.match(text, at)
        token = "'" if found is None else found.group()
        at += len(token)
        if token == "'":
            raise ValueError(f"the pattern '{text}' has a quote that is not closed")
        if token[0] == "'":
            inside = "'" if token == "''" else token[1:-1].replace("''", "'")
            parts.append((inside, True))
        elif token[0].isascii() and token[0].isalpha():
            if token[0] not in _LETTERS or (token[0] == "X" and len(token) > 3):
                raise ValueError(f"the pattern '{text}' has '{token}', which is not known")
            parts.append((token, False))
        else:
            parts.append((token, True))
    joined: list[tuple[str, bool]] = []
    for part, literal in parts:
        if literal and joined and joined[-1][1]:
            joined[-1] = (joined[-1][0] + part, True)
        else:
            joined.append((part, literal))
    return joined


def _is_number(part: str, literal: bool) -> bool:
    return not literal and (part[0] in "yY" or (part[0] in _FIELDS and not (part[0] == "M" and len(part) > 2)))


def _reader(part: str, literal: bool, limited: bool) -> Reader:
    if literal:
        return _reads_literal(part)
    if _is_number(part, literal):
        return _reads_number(part[0], len(part), limited)
    return _reads_name(part[0]) if part[0] in _NAMES else _reads_zone(part[0], len(part))


@lru_cache(maxsize=256)
def pattern_of(text: str) -> Pattern:
    """Return the pattern that a text is; raises ValueError where it is none."""
    return Pattern(text)
