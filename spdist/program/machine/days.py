"""Java's calendar in whole numbers, as the text of programs calls it: `spdist.java.calendars` of milliseconds.

Compiled together with a program, as `spdist.program.machine.arithmetic`; no function raises.
"""

from __future__ import annotations

import numpy

from spdist.program.machine.arithmetic import loop

__all__ = ["day_of", "days_between", "month_of", "week_of", "year_of"]

_DAY = 86_400_000
#: The first day of the Gregorian calendar in Java, 15 October 1582, in days since 1970; before, it is the Julian one.
_CUTOVER = -141_427
#: How many days of each calendar lie between the begin of year 0 and 1970.
_GREGORIAN_EPOCH, _JULIAN_EPOCH = 719_528, 719_530
_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


@loop
def days_between(one, other):  # type: ignore[no-untyped-def]
    """Return the whole days from the second time to the first; the difference may leave the range of long."""
    if one >= other:
        return numpy.int64((numpy.uint64(one) - numpy.uint64(other)) // numpy.uint64(_DAY))
    return -numpy.int64((numpy.uint64(other) - numpy.uint64(one)) // numpy.uint64(_DAY))


@loop
def _first_of_year(year, julian):  # type: ignore[no-untyped-def]
    before = year + 3
    if julian:
        return 365 * year + before // 4 - _JULIAN_EPOCH
    return 365 * year + before // 4 - (year + 99) // 100 + (year + 399) // 400 - _GREGORIAN_EPOCH


@loop
def _first_of_month(year, month, julian):  # type: ignore[no-untyped-def]
    leap = year % 4 == 0 and (julian or year % 100 != 0 or year % 400 == 0)
    return _first_of_year(year, julian) + _BEFORE_MONTH[month - 1] + (1 if leap and month > 2 else 0)


@loop
def _year(number):  # type: ignore[no-untyped-def]
    """Return the year of a day, 0 for 1 BC."""
    julian = number < _CUTOVER
    year = (number + _JULIAN_EPOCH) * 4 // 1461 if julian else (number + _GREGORIAN_EPOCH) * 400 // 146_097
    while _first_of_year(year, julian) > number:
        year -= 1
    while _first_of_year(year + 1, julian) <= number:
        year += 1
    return year


@loop
def _month(number, year):  # type: ignore[no-untyped-def]
    month = 12
    while _first_of_month(year, month, number < _CUTOVER) > number:
        month -= 1
    return month


@loop
def year_of(time):  # type: ignore[no-untyped-def]
    """Return the year that people write: before Christ it is counted backwards."""
    year = _year(time // _DAY)
    return year if year > 0 else 1 - year


@loop
def month_of(time):  # type: ignore[no-untyped-def]
    """Return the month."""
    number = time // _DAY
    return _month(number, _year(number))


@loop
def day_of(time):  # type: ignore[no-untyped-def]
    """Return the day of the month."""
    number = time // _DAY
    year = _year(number)
    return number - _first_of_month(year, _month(number, year), number < _CUTOVER) + 1


@loop
def _week_1(year, first, least):  # type: ignore[no-untyped-def]
    """Return the first day of week 1 of a year."""
    begin = _first_of_year(year, False)
    if begin < _CUTOVER:
        begin = _first_of_year(year, True)
    last = begin + 6
    # Day 0 was a Thursday, 5 where Sunday is 1: this is the last day of that name among the first seven of the year.
    start = last - ((last + 4) % 7 + 1 - first) % 7
    return start - 7 if start - begin >= least else start


@loop
def week_of(time, first, least):  # type: ignore[no-untyped-def]
    """Return the week of the year: weeks begin on a day, 1 for Sunday; of the first so many days are in the year."""
    number = time // _DAY
    year = _year(number)
    if number < _week_1(year, first, least):
        year -= 1
    elif number >= _week_1(year + 1, first, least):
        year += 1
    return (number - _week_1(year, first, least)) // 7 + 1
