"""The durations of aggregations, the words that mean them, and periods as annotations write them.

Source: io.siddhi.query.api.aggregation.TimePeriod and Expression.Time, described in our own words.
"""

from __future__ import annotations

import re
from typing import Final

from spdist.errors import AppValidationError
from spdist.java.numbers import whole_number

__all__ = ["DURATIONS", "LENGTHS", "duration_of", "period"]

#: From the finest to the coarsest.
DURATIONS: Final = ("second", "minute", "hour", "day", "month", "year")
#: In ms; of months and years, as periods count them.
LENGTHS: Final = {
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "month": 2_592_000_000,
    "year": 31_536_000_000,
}

_WORDS = {
    "sec": "second",
    "second": "second",
    "seconds": "second",
    "min": "minute",
    "minute": "minute",
    "minutes": "minute",
    "h": "hour",
    "hour": "hour",
    "hours": "hour",
    "day": "day",
    "days": "day",
    "month": "month",
    "months": "month",
    "year": "year",
    "years": "year",
}


def duration_of(word: str) -> str:
    """Return the duration that a word means: ``sec``, ``Minutes`` and others.

    Raises
    ------
    AppValidationError
        It means none.
    """
    duration = _WORDS.get(word.lower())
    if duration is None:
        raise AppValidationError(f"'{word}' is no duration", hint=f"It is one of {', '.join(DURATIONS)}.")
    return duration


def period(text: str) -> int:
    """Return the ms of a period such as ``'10 sec'``: a whole number and one unit; a month has 30 days, a year 365.

    Raises
    ------
    AppValidationError
        It is none.
    """
    number, unit = re.search(r"\d+", text), re.search(r"\D+", text)
    count = None if number is None else whole_number(number.group())
    if count is None or unit is None:
        raise AppValidationError(f"'{text}' is no period", hint="For example: '10 sec'")
    return count * LENGTHS[duration_of(unit.group().strip())]
