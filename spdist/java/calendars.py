"""Java's calendar: days by number, weeks of a locale, fields that may be out of range, and moving by units.

Days are counted from 1970-01-01. As in ``java.util.GregorianCalendar`` days before 1582-10-15 are those of the Julian
calendar, and a field beyond its range moves the next larger one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from spdist.java.numbers import wrap32, wrap64

__all__ = ["MILLISECONDS", "Day", "Fields", "Weeks", "add_unit", "day_number", "day_of", "weekday", "weeks_of"]

#: Milliseconds of a day.
MILLISECONDS = 86_400_000

# 1582-10-15, the first day of the Gregorian calendar
_CUTOVER = -141_427
#: From 1 January of year 0 of each calendar to 1970-01-01.
_GREGORIAN_EPOCH, _JULIAN_EPOCH = 719_528, 719_530
_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


@dataclass(frozen=True, slots=True)
class Day:
    """A day as people write it; `year` is 0 for 1 BC."""

    year: int
    month: int
    day: int
    day_of_year: int


def _first_of_year(year: int, julian: bool) -> int:
    # Year 0 is a leap year, so of the years before this one (year + 3) // 4 are divisible by 4
    before = year + 3
    if julian:
        return 365 * year + before // 4 - _JULIAN_EPOCH
    return 365 * year + before // 4 - (year + 99) // 100 + (year + 399) // 400 - _GREGORIAN_EPOCH


def _is_leap(year: int, julian: bool) -> bool:
    return year % 4 == 0 and (julian or year % 100 != 0 or year % 400 == 0)


def _number(year: int, month: int, day: int, julian: bool) -> int:
    leap = month > 2 and _is_leap(year, julian)
    return _first_of_year(year, julian) + _BEFORE_MONTH[month - 1] + leap + day - 1


def day_number(year: int, month: int = 1, day: int = 1) -> int:
    """Return the number of a day; month and day may be out of range."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    number = _number(year, month, day, julian=False)
    return number if number >= _CUTOVER else _number(year, month, day, julian=True)


def day_of(number: int) -> Day:
    """Return the day with a number."""
    julian = number < _CUTOVER
    # An estimate by the 146,097 days of 400 Gregorian years, which the loops then put right
    year = (number + _GREGORIAN_EPOCH) * 400 // 146_097
    while _first_of_year(year, julian) > number:
        year -= 1
    while _first_of_year(year + 1, julian) <= number:
        year += 1
    month = 12
    while _number(year, month, 1, julian) > number:
        month -= 1
    return Day(year, month, number - _number(year, month, 1, julian) + 1, number - day_number(year) + 1)


def weekday(number: int) -> int:
    """Return the day of the week, from 1 for Sunday to 7 for Saturday."""
    # 1970-01-01 was a Thursday
    return (number + 4) % 7 + 1


def days_of_month(year: int, month: int) -> int:
    """Return how many days a month has, as far as adding months asks."""
    return day_number(year, month + 1) - day_number(year, month)


# --- weeks -------------------------------------------------------------------------------------------------------

_SUNDAY_FOUR = "PT"
_MONDAY_FOUR = (
    "AD AN AT AX BE BG CH CZ DE DK EE ES FI FJ FO FR GB GF GG GI GP GR HU IE IM IS IT JE LI LT LU MC MQ NL NO PL RE RU "
    "SE SJ SK SM VA"
)
_SATURDAY = "AE AF BH DJ DZ EG IQ IR JO KW LY OM QA SD SY"
_FRIDAY = "MV"
_SUNDAY = (
    "AG AS AU BD BR BS BT BW BZ CA CN CO DM DO ET GT GU HK HN ID IL IN JM JP KE KH KR LA MH MM MO MT MX MZ NI NP PA PE "
    "PH PK PR PY SA SG SV TH TT TW UM US VE VI WS YE ZA ZW"
)
_LOCALE = re.compile(r"(?:[a-z]{2,3})?(?:_(?:[A-Z]{2}|\d{3})?(?:_[^_].*)?)?")


@dataclass(frozen=True, slots=True)
class Weeks:
    """How a country counts weeks.

    Parameters
    ----------
    first : int
        The day of the week on which they begin, 1 for Sunday.
    least : int
        How many days of the first week must be in the new year or month.
    """

    first: int = 1
    least: int = 1

    def _begin(self, number: int) -> int:
        return number - (weekday(number) - self.first) % 7

    def start(self, first_of_period: int) -> int:
        """Return the first day of week 1 of a year or month."""
        # The one week that begins within the first seven days; if it leaves enough of them, the week before counts
        begin = self._begin(first_of_period + 6)
        return begin - 7 if begin - first_of_period >= self.least else begin

    def of_month(self, number: int) -> int:
        """Return the week of the month."""
        return (number - self.start(number - day_of(number).day + 1)) // 7 + 1

    def of_year(self, number: int) -> tuple[int, int]:
        """Return the year that the day's week belongs to, and the number of the week in it."""
        year = day_of(number).year
        if number < self.start(day_number(year)):
            year -= 1
        elif number >= self.start(day_number(year + 1)):
            year += 1
        return year, (number - self.start(day_number(year))) // 7 + 1


def weeks_of(locale: str) -> Weeks:
    """Return how weeks are counted under a locale such as ``en_GB``.

    Raises
    ------
    ValueError
        The text is no locale.
    """
    if not _LOCALE.fullmatch(locale) or locale in ("_",):
        raise ValueError(f"'{locale}' is no locale")
    country = locale.split("_")[1] if "_" in locale else ""
    if country == _SUNDAY_FOUR:
        return Weeks(1, 4)
    if country in _MONDAY_FOUR.split():
        return Weeks(2, 4)
    if not country or country in _SUNDAY.split():
        return Weeks(1, 1)
    if country in _SATURDAY.split():
        return Weeks(7, 1)
    return Weeks(6, 1) if country == _FRIDAY else Weeks(2, 1)


# --- moving ------------------------------------------------------------------------------------------------------

_SPANS = {"SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": MILLISECONDS, "WEEK": 7 * MILLISECONDS}
_MONTHS = {"MONTH": 1, "QUARTER": 3}


def add_unit(time: int, amount: int, unit: str) -> int:
    """Return a time moved by some units; months and years keep to the end of a shorter month.

    Parameters
    ----------
    time : int
        Milliseconds since 1970, UTC.
    amount : int
        How many.
    unit : str
        ``SECOND``, ``MINUTE``, ``HOUR``, ``DAY``, ``WEEK``, ``MONTH``, ``QUARTER`` or ``YEAR``; any other text moves
        nothing.

    Notes
    -----
    What is beyond a long wraps, as in Java.
    """
    if unit in _SPANS:
        return wrap64(time + amount * _SPANS[unit])
    if unit != "YEAR" and unit not in _MONTHS:
        return time
    number, rest = divmod(time, MILLISECONDS)
    day = day_of(number)
    # Years and months are ints there
    years, months = (amount, 0) if unit == "YEAR" else (0, wrap32(amount * _MONTHS[unit]))
    months = wrap32(day.month - 1 + months)
    year, month = wrap32(day.year + years) + months // 12, months % 12 + 1
    return wrap64(day_number(year, month, min(day.day, days_of_month(year, month))) * MILLISECONDS + rest)


# --- fields ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Fields:
    """What was read of a time: fields in the order in which they were set, for of some only the last one counts.

    Parameters
    ----------
    values : dict[str, int]
        ``era`` (0 for BC), ``year``, ``month``, ``day``, ``day_of_year``, ``weekday``, ``week``, ``week_of_month``,
        ``weekday_in_month``, ``hour`` (of the day), ``half_hour`` (of the half day), ``half`` (1 for PM), ``minute``,
        ``second``, ``millisecond``, ``offset`` (ms).
    """

    values: dict[str, int] = field(default_factory=dict)

    def set(self, name: str, value: int) -> None:
        """Take in a field, as the latest."""
        self.values.pop(name, None)
        self.values[name] = value

    def _stamp(self, *names: str) -> int:
        # As the stamps of java.util.Calendar: 0 for what was not set, else the later the larger
        order = list(self.values)
        return max(order.index(name) for name in names) + 1 if all(name in order for name in names) else 0

    def time(self, weeks: Weeks) -> int:
        """Return the milliseconds since 1970 that the fields give together."""
        get = self.values.get
        rest = ((self._hour() * 60 + get("minute", 0)) * 60 + get("second", 0)) * 1000 + get("millisecond", 0)
        return self._day(weeks) * MILLISECONDS + rest - get("offset", 0)

    def _hour(self) -> int:
        # Where no hour of the day was read, the hour of the half day or AM and PM alone are enough
        half = max(self._stamp("half_hour"), self._stamp("half")) if not self._stamp("hour") else 0
        if half or self._stamp("half_hour", "half") > self._stamp("hour"):
            return self.values.get("half_hour", 0) + 12 * self.values.get("half", 0)
        return self.values.get("hour", 0)

    def _day(self, weeks: Weeks) -> int:
        get = self.values.get
        year = get("year", 1970)
        if get("era", 1) == 0:
            year = 1 - year
        first = day_number(year, get("month", 1))
        # Calendar.selectFields: of the ways to name a day, the one whose fields were set last counts
        stamps = {
            "day": self._stamp("day"),
            "week_of_month": self._stamp("week_of_month", "weekday"),
            "weekday_in_month": self._stamp("weekday_in_month", "weekday"),
            "day_of_year": self._stamp("day_of_year"),
            "week": self._stamp("week", "weekday"),
        }
        if not any(stamps.values()):
            # No way is complete: a week without a weekday is enough, then a weekday without a week
            stamps = {name: self._stamp(name) for name in ("week_of_month", "weekday_in_month", "week")}
            if "weekday" in self.values and not any(stamps.values()):
                stamps["weekday_in_month"] = self._stamp("weekday")
        best = max(stamps, key=lambda name: stamps[name])
        if not stamps[best] or best == "day":
            return day_number(year, get("month", 1), get("day", 1))
        if best == "day_of_year":
            return day_number(year) + get("day_of_year", 1) - 1
        day = get("weekday", weeks.first)
        if best == "weekday_in_month":
            return self._nth(first, get("month", 1), year, day)
        begin = weeks.start(day_number(year) if best == "week" else first)
        return begin + (day - weeks.first) % 7 + 7 * (get(best, 1) - 1)

    def _nth(self, first: int, month: int, year: int, day: int) -> int:
        count = self.values.get("weekday_in_month", 1)
        # A negative number counts from the end of the month
        last = 7 * count if count >= 0 else days_of_month(year, month) + 7 * (count + 1)
        on_or_before = first + last - 1
        return on_or_before - (weekday(on_or_before) - day) % 7
