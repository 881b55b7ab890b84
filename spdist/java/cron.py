"""Cron expressions as Quartz reads them: when the next firing is, as pure calculation in UTC.

Six or seven fields: seconds, minutes, hours, day of month, month, day of week (1 = SUN … 7 = SAT), and possibly year.
A field is ``*``, or a list of numbers, names, ranges (which may wrap around: ``FRI-MON``) and steps (``0/15``,
``10-40/5``, ``*/15``). Exactly one of the two day fields is ``?``. Day of month also knows ``L`` (last day), ``L-3``,
``LW`` and ``15W`` (weekday nearest to it, in the same month); day of week also knows ``L`` (7), ``6L`` (last Friday of
the month) and ``6#3`` (third Friday).

Source: org.quartz.CronExpression, described in our own words.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Final

from spdist.errors import SiddhiTypeError
from spdist.java.numbers import whole_number

__all__ = ["CronExpression"]

_SECOND, _DAY = 1000, 86_400_000
_EPOCH = date(1970, 1, 1).toordinal()
#: Quartz looks no further than a hundred years beyond the machine's clock; here the end does not depend on it.
_LAST_YEAR: Final = 2199

_HINT = "a cron expression is 'second minute hour day-of-month month day-of-week [year]', such as '0 0/5 * * * ?'"
_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = {name: i for i, name in enumerate(_MONTH_NAMES, 1)}
_DAYS = {name: i for i, name in enumerate(_DAY_NAMES, 1)}

_STEPPED = re.compile(r"(?:(?P<all>\*)|(?P<low>\w+)(?:-(?P<high>\w+))?)?(?:/(?P<step>\d{1,18}))?")
_LAST = re.compile(r"L(?:-(?P<before>\d{1,18}))?(?P<weekday>W)?")
_NEAREST = re.compile(r"(?P<day>\d+)W")
_LAST_DAY = re.compile(r"(?P<day>[1-7]|[A-Z]{3})L")
_NTH_DAY = re.compile(r"(?P<day>\d|[A-Z]{3})#(?P<nth>[1-5])")


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: dict[str, int]

    def number(self, text: str) -> int:
        value = self.names.get(text, whole_number(text))
        if value is None or not self.low <= value <= self.high:
            raise _refused(f"'{text}' is no {self.name}")
        return value

    def values(self, part: str) -> set[int]:
        """Return the values of one item of a list."""
        found = _STEPPED.fullmatch(part)
        if not part or found is None:
            raise _refused(f"'{part}' is no {self.name}")
        # As in Quartz, a step behind a name counts for nothing.
        named = not (found["low"] or "0").isdecimal()
        step = 0 if named else int(found["step"] or 0)
        if step > self.high and self.name != "year":
            raise _refused(f"a step of {step} is too long for a {self.name}")
        if found["low"] is None:
            return set(range(self.low, self.high + 1, step or 1))
        low = self.number(found["low"])
        if found["high"] is None:
            return set(range(low, self.high + 1, step)) if step else {low}
        high = self.number(found["high"])
        if high < low and self.name == "year":
            raise _refused("a range of years must not end before it begins")
        size = self.high - self.low + 1
        # A range that wraps goes on past the largest value; the remainder brings it back to the smallest
        stop = high if high >= low else high + size
        return {(value - self.low) % size + self.low for value in range(low, stop + 1, step or 1)}


_SECONDS = _Field("second", 0, 59, {})
_MINUTES = _Field("minute", 0, 59, {})
_HOURS = _Field("hour", 0, 23, {})
_DAYS_OF_MONTH = _Field("day of the month", 1, 31, {})
_MONTHS_OF_YEAR = _Field("month", 1, 12, _MONTHS)
_DAYS_OF_WEEK = _Field("day of the week", 1, 7, _DAYS)
_YEARS = _Field("year", 1970, _LAST_YEAR, {})


def _refused(reason: str) -> SiddhiTypeError:
    return SiddhiTypeError(reason, hint=_HINT)


def _listed(field: _Field, text: str) -> tuple[int, ...]:
    values: set[int] = set()
    for part in text.split(","):
        values |= field.values(part)
    return tuple(sorted(values))


class CronExpression:
    """When something is to happen, over and over.

    Parameters
    ----------
    text : str
        Six or seven fields, in upper or lower case.

    Raises
    ------
    SiddhiTypeError
        The text is no such expression.

    Examples
    --------
    >>> CronExpression("0/5 * * * * ?").next_after(1_000)
    5000
    """

    __slots__ = ("_hours", "_minutes", "_month_days", "_months", "_seconds", "_week_days", "_years", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        fields = text.upper().split()
        if not 6 <= len(fields) <= 7:
            raise _refused(f"'{text}' has {len(fields)} fields")
        second, minute, hour, month_day, month, week_day = fields[:6]
        self._seconds = _listed(_SECONDS, second)
        self._minutes = _listed(_MINUTES, minute)
        self._hours = _listed(_HOURS, hour)
        self._months = _listed(_MONTHS_OF_YEAR, month)
        self._years = _listed(_YEARS, fields[6] if len(fields) == 7 else "*")
        if (month_day == "?") == (week_day == "?"):
            raise _refused("exactly one of day of the month and day of the week must be '?'")
        self._month_days = None if month_day == "?" else _MonthDays(month_day)
        self._week_days = None if week_day == "?" else _WeekDays(week_day)

    def first_from(self, start_ms: int) -> int | None:
        """Return when it is first due for somebody who begins to wait at `start_ms`; None where never.

        Parameters
        ----------
        start_ms : int
            In ms since epoch. A second that has begun counts: what is due in it happens immediately.
        """
        due = self.next_after(start_ms - _SECOND)
        return None if due is None else max(due, start_ms)

    def next_after(self, ms: int) -> int | None:
        """Return the first time later than the second of `ms` (ms since epoch, UTC); None where there is none."""
        # No year before 1970 can be named, so the search begins with its first second at the earliest
        time = max(ms, -1) // _SECOND * _SECOND + _SECOND
        day, moment = divmod(time, _DAY)
        today = date.fromordinal(_EPOCH + day)
        if self._falls_on(today):
            later = self._time_from(moment)
            if later is not None:
                return day * _DAY + later
        following = next(self._days_after(today), None)
        first = self._time_from(0)
        return None if following is None or first is None else (following.toordinal() - _EPOCH) * _DAY + first

    def _falls_on(self, day: date) -> bool:
        return day.year in self._years and day.month in self._months and day.day in self._days_of(day.year, day.month)

    def _days_after(self, today: date) -> Iterator[date]:
        for year in self._years[bisect_left(self._years, today.year) :]:
            for month in self._months:
                if (year, month) < (today.year, today.month):
                    continue
                for day in self._days_of(year, month):
                    if (year, month, day) > (today.year, today.month, today.day):
                        yield date(year, month, day)

    def _days_of(self, year: int, month: int) -> list[int]:
        if self._month_days is not None:
            return self._month_days.of(year, month)
        assert self._week_days is not None
        return self._week_days.of(year, month)

    def _time_from(self, moment: int) -> int | None:
        """Return the first time of day at or after `moment`, both in ms since midnight."""
        hour, rest = divmod(moment // _SECOND, 3600)
        minute, second = divmod(rest, 60)
        for h in self._hours[bisect_left(self._hours, hour) :]:
            # Only in the hour that was asked for does the minute count, and only in that minute the second
            for m in self._minutes[bisect_left(self._minutes, minute) if h == hour else 0 :]:
                at = bisect_left(self._seconds, second) if (h, m) == (hour, minute) else 0
                if at < len(self._seconds):
                    return ((h * 60 + m) * 60 + self._seconds[at]) * _SECOND
        return None


class _MonthDays:
    """The field day of month."""

    def __init__(self, text: str) -> None:
        self.days: tuple[int, ...] = ()
        self.before_last: int | None = None
        self.weekday = False
        last = _LAST.fullmatch(text)
        if last is not None:
            self.before_last = int(last["before"] or 0)
            self.weekday = last["weekday"] is not None
            if self.before_last > 30:
                raise _refused(f"no month has a day {self.before_last} days before its last one")
            return
        plain = [_NEAREST.sub(r"\g<day>", part) for part in text.split(",")]
        self.weekday = plain != text.split(",")
        self.days = _listed(_DAYS_OF_MONTH, ",".join(plain))
        if self.weekday:
            # As in Quartz, which looks for the weekday nearest to one day only.
            self.days = self.days[:1]

    def of(self, year: int, month: int) -> list[int]:
        """Return the days that are meant in one month, in order."""
        # Days that the month lacks are left out before a weekday is looked for
        first_weekday, length = monthrange(year, month)
        days = [length - self.before_last] if self.before_last is not None else [d for d in self.days if d <= length]
        days = [d for d in days if d >= 1]
        if self.weekday:
            return [_nearest_weekday(d, (first_weekday + d - 1) % 7, length) for d in days]
        return days


def _nearest_weekday(day: int, weekday: int, length: int) -> int:
    """Return the working day nearest to a day of a month, within the month; 0 is Monday."""
    if weekday == 5:
        return day + 2 if day == 1 else day - 1
    if weekday == 6:
        return day - 2 if day == length else day + 1
    return day


class _WeekDays:
    """The field day of week."""

    def __init__(self, text: str) -> None:
        self.last = False
        self.nth = 0
        parts = []
        if "L" in text and "," in text:
            raise _refused("'L' cannot stand in a list of days of the week")
        for part in text.split(","):
            last, nth = _LAST_DAY.fullmatch(part), _NTH_DAY.fullmatch(part)
            if part == "L":
                parts.append("7")
            elif last is not None:
                self.last = True
                parts.append(last["day"])
            elif nth is not None:
                if self.nth:
                    raise _refused("only one day of the week can have a '#'")
                self.nth = int(nth["nth"])
                parts.append(nth["day"])
            else:
                parts.append(part)
        days = _listed(_DAYS_OF_WEEK, ",".join(parts))
        # With '#' Quartz looks for one day of the week only.
        self.days = frozenset(days[:1] if self.nth else days)

    def of(self, year: int, month: int) -> list[int]:
        """Return the days that are meant in one month, in order."""
        first_weekday, length = monthrange(year, month)
        # monthrange counts weekdays from 0 for Monday, Quartz from 1 for Sunday
        days = [d for d in range(1, length + 1) if (first_weekday + d) % 7 + 1 in self.days]
        if self.last:
            return days[-1:]
        if self.nth:
            return days[self.nth - 1 : self.nth]
        return days
