"""Calendar buckets, and the times that people write: ``within '2024-06-** **:**:**'``, ``per 'days'``.

Seconds and minutes are counted from the epoch; hours, days, months and years are those of a calendar in a time zone.

Source: io.siddhi.core.util.IncrementalTimeConverterUtil and io.siddhi.core.executor.incremental, described in our own
words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

from spdist.errors import SiddhiTypeError, UndefinedNameError
from spdist.language.durations import LENGTHS, duration_of

__all__ = ["Calendar", "granularity", "instant", "time_range"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_INSTANT = re.compile(r"(\d{4})-(\d{2})-(\d{2}) (\d{2}):(\d{2}):(\d{2})(?: ([+-]\d{2}):(\d{2}))?", re.ASCII)
_PATTERN = re.compile(
    r"\d{4}-(\d{2}|\*\*)-(\d{2}|\*\*)\s(\d{2}|\*\*):(\d{2}|\*\*):(\d{2}|\*\*)(\s[+-]\d{2}:\d{2})?", re.ASCII
)
_FORMATS = "'2024-06-01 13:45:00', or with a zone: '2024-06-01 13:45:00 +05:30'"
#: Zone offsets go to 18 hours.
_FURTHEST = timedelta(hours=18)
#: After so long the calendar repeats itself, ms: 400 years.
_CYCLE = 146_097 * LENGTHS["day"]
#: Where Python's calendar is left, by some zone or a bucket's end: the begin of the years 2 and 9999, ms.
_EARLY, _LATE = -62_104_060_800_000, 253_370_764_800_000


# --- written times ---------------------------------------------------------------------------------------------------


def instant(text: str) -> int:
    """Return the ms since the epoch of ``yyyy-MM-dd HH:mm:ss``, in GMT or followed by an offset such as ``+05:30``.

    Raises
    ------
    SiddhiTypeError
        The text is no such time.
    """
    return _written(text)[0]


def _written(text: str) -> tuple[int, tzinfo]:
    written = _INSTANT.fullmatch(text.strip())
    if written is None:
        raise SiddhiTypeError(f"'{text}' is no time", hint=f"For example: {_FORMATS}")
    year, month, day, hour, minute, second = (int(part) for part in written.groups()[:6])
    zone: tzinfo = UTC
    later = 0
    try:
        if written[7] is not None:
            zone = _offset(written[7], written[8])
        elif (hour, minute, second) == (24, 0, 0):
            hour, later = 0, LENGTHS["day"]
        elif (hour, minute, second) == (23, 59, 60):
            second = 59  # a leap second is the second before it
        # The year 0, which Python does not have, is like the year 400
        moment = datetime(year or 400, month, day, hour, minute, second, tzinfo=zone)
    except ValueError as error:
        raise SiddhiTypeError(f"'{text}' is no time: {error}") from None
    return _milliseconds(moment) + later - (0 if year else _CYCLE), zone


def _offset(hours: str, minutes: str) -> timezone:
    size = timedelta(hours=int(hours[1:]), minutes=int(minutes))
    if int(minutes) > 59 or size > _FURTHEST:
        raise ValueError(f"there is no offset {hours}:{minutes}")
    return timezone(-size if hours[0] == "-" else size)


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def time_range(*bounds: int | str | None) -> tuple[int, int]:
    """Return start and end (exclusive), in ms, of what stands behind ``within``.

    Parameters
    ----------
    *bounds : int or str
        One text, in which stars stand for all seconds, minutes … of what is in front of them
        (``'2024-06-** **:**:**'`` is all of June); or two times, each as ms or as text.

    Raises
    ------
    SiddhiTypeError
        A text is no time, or the start is not before the end.
    """
    if any(bound is None for bound in bounds):
        raise SiddhiTypeError("a bound of 'within' is null")
    if len(bounds) == 1:
        return _starred(str(bounds[0]).strip())
    start, end = (bound if isinstance(bound, int) else instant(str(bound)) for bound in bounds)
    if start >= end:
        raise SiddhiTypeError(f"'within' starts at {start}, which is not before its end at {end}")
    return start, end


def _starred(text: str) -> tuple[int, int]:
    written = _PATTERN.fullmatch(text)
    parts = [] if written is None else list(written.groups()[:5])
    fixed = next((i for i, part in enumerate(parts) if part == "**"), len(parts))
    if written is None or any(part != "**" for part in parts[fixed:]):
        hint = "For example: '2024-06-** **:**:**', with a zone '2024-06-01 **:**:** +05:30'"
        raise SiddhiTypeError(f"'{text}' is no range of time", hint=hint)
    lowest = ("01", "01", "00", "00", "00")
    month, day, hour, minute, second = (part if part != "**" else low for part, low in zip(parts, lowest, strict=True))
    start, zone = _written(f"{text[:4]}-{month}-{day} {hour}:{minute}:{second}{written[6] or ''}")
    unit = ("year", "month", "day", "hour", "minute", "second")[fixed]
    return start, _bucket(start, unit, zone)[1] if unit in ("month", "year") else start + LENGTHS[unit]


# --- calendar --------------------------------------------------------------------------------------------------------


def _bucket(time: int, unit: str, zone: tzinfo) -> tuple[int, int]:
    """Return start and end (exclusive) of the hour, day, month or year of a time, all in ms."""
    shift = 0
    if not _EARLY <= time < _LATE:
        shift = (time - (_EARLY if time < _EARLY else _LATE - _CYCLE)) // _CYCLE * _CYCLE
    began = _beginning((_EPOCH + (time - shift) * _MILLISECOND).astimezone(zone).replace(tzinfo=None), unit)
    start, end = (_milliseconds(local.replace(tzinfo=zone)) for local in (began, _following(began, unit)))
    return start + shift, end + shift


def _beginning(local: datetime, unit: str) -> datetime:
    """Return when the hour, day, month or year of a time on the wall began: of an hour that comes twice, the first."""
    kept = {"minute": 0, "second": 0, "microsecond": 0, "fold": 0}
    if unit != "hour":
        kept["hour"] = 0
    if unit in ("month", "year"):
        kept["day"] = 1
    if unit == "year":
        kept["month"] = 1
    return local.replace(**kept)  # type: ignore[arg-type]


def _following(began: datetime, unit: str) -> datetime:
    """Return when the next hour, day, month or year begins on the wall, given when this one began."""
    if unit in ("hour", "day"):
        return began + timedelta(milliseconds=LENGTHS[unit])
    if unit == "year" or began.month == 12:
        return began.replace(year=began.year + 1, month=1)
    return began.replace(month=began.month + 1)


class Calendar:
    """When the buckets of each duration begin and end, in one time zone: by the clock on the wall, as in Siddhi.

    Where clocks are set back an hour that comes twice is one bucket, and a day has 25 hours.

    Parameters
    ----------
    zone : str
        Name of a time zone, ``GMT`` by default.

    Raises
    ------
    SiddhiTypeError
        There is no such zone.
    """

    def __init__(self, zone: str = "GMT") -> None:
        self.zone = zone
        self._zone: tzinfo = UTC if zone in ("GMT", "UTC") else _zone(zone)

    def length(self, duration: str) -> int:
        """Return how long all buckets of a duration are, ms, where they begin at multiples of that; else 0."""
        even = duration in ("second", "minute") or (self._zone is UTC and duration in ("hour", "day"))
        return LENGTHS[duration] if even else 0

    def bucket(self, duration: str) -> Callable[[int], tuple[int, int]]:
        """Return what gives start and end (exclusive) of the bucket in which a time lies, all in ms."""
        length = self.length(duration)
        if length:

            def even(time: int) -> tuple[int, int]:
                start = time - time % length
                return start, start + length

            return even

        return lambda time: _bucket(time, duration, self._zone)


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo  # an app that stays with GMT needs no time zone data

    try:
        return ZoneInfo(name)
    except Exception as error:
        raise SiddhiTypeError(f"there is no time zone '{name}'") from error


def granularity(per: Any, durations: tuple[str, ...], aggregation: str) -> str:
    """Return the duration that ``per`` asks for.

    Parameters
    ----------
    per : str
        The word, such as ``days``; None where it is null.
    durations : tuple of str
        Those that the aggregation has.
    aggregation : str
        Its id.

    Raises
    ------
    AppValidationError
        The word means no duration.
    UndefinedNameError
        The aggregation does not have it.
    """
    if per is None:
        raise SiddhiTypeError("'per' is null")
    duration = duration_of(str(per))
    if duration not in durations:
        hint = f"It has: {', '.join(durations)}."
        raise UndefinedNameError(f"'{aggregation}' has no values per {duration}", hint=hint)
    return duration
