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

_INSTANT = re.compile(r"(\d{4})-(\d{2})-(\d{2}) (\d{2}):(\d{2}):(\d{2})(?: ([+-]\d{2}):(\d{2}))?")
_PATTERN = re.compile(
    r"\d{4}-(\d{2}|\*\*)-(\d{2}|\*\*)\s(\d{2}|\*\*):(\d{2}|\*\*):(\d{2}|\*\*)(\s[+-]\d{2}:\d{2})?", re.ASCII
)
_FORMATS = "'2024-06-01 13:45:00', or with a zone: '2024-06-01 13:45:00 +05:30'"
#: Zone offsets go to 18 hours.
_FURTHEST = timedelta(hours=18)


# --- written times ---------------------------------------------------------------------------------------------------


def instant(text: str) -> int:
    """Return the ms since the epoch of ``yyyy-MM-dd HH:mm:ss``, in GMT or followed by an offset such as ``+05:30``.

    Raises
    ------
    SiddhiTypeError
        The text is no such time.
    """
    return _milliseconds(_moment(text))


def _moment(text: str) -> datetime:
    written = _INSTANT.fullmatch(text.strip())
    if written is None:
        raise SiddhiTypeError(f"'{text}' is no time", hint=f"For example: {_FORMATS}")
    year, month, day, hour, minute, second = (int(part) for part in written.groups()[:6])
    zone: tzinfo = UTC
    later = timedelta()
    try:
        if written[7] is not None:
            zone = _offset(written[7], written[8])
        elif (hour, minute, second) == (24, 0, 0):
            hour, later = 0, timedelta(days=1)
        return datetime(year, month, day, hour, minute, second, tzinfo=zone) + later
    except (ValueError, OverflowError) as error:
        raise SiddhiTypeError(f"'{text}' is no time: {error}") from None


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
    start = _moment(f"{text[:4]}-{month}-{day} {hour}:{minute}:{second}{written[6] or ''}")
    unit = ("year", "month", "day", "hour", "minute", "second")[fixed]
    began = _milliseconds(start)
    if unit in ("month", "year"):
        return began, _milliseconds(_following(start, unit))
    return began, began + LENGTHS[unit]


# --- calendar --------------------------------------------------------------------------------------------------------


def _beginning(moment: datetime, unit: str) -> datetime:
    """Return when the hour, day, month or year of a local time began."""
    kept = {"minute": 0, "second": 0, "microsecond": 0}
    if unit != "hour":
        kept["hour"] = 0
    if unit in ("month", "year"):
        kept["day"] = 1
    if unit == "year":
        kept["month"] = 1
    return moment.replace(**kept)  # type: ignore[arg-type]


def _following(began: datetime, unit: str) -> datetime:
    """Return when the next month or year begins, given when this one began."""
    if unit == "year" or began.month == 12:
        return began.replace(year=began.year + 1, month=1)
    return began.replace(month=began.month + 1)


class Calendar:
    """When the buckets of each duration begin and end, in one time zone.

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

        def local(time: int) -> tuple[int, int]:
            began = _beginning((_EPOCH + time * _MILLISECOND).astimezone(self._zone), duration)
            return _milliseconds(began), _milliseconds(self._end(began, duration))

        return local

    def _end(self, began: datetime, duration: str) -> datetime:
        if duration in ("month", "year"):
            return _following(began, duration)
        if duration == "day":
            # By the clock on the wall: a day in which clocks change has 23 or 25 hours.
            return (began.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=self._zone)
        # By elapsed time: an hour has 60 minutes also where clocks change.
        return (began.astimezone(UTC) + timedelta(hours=1)).astimezone(self._zone)


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
