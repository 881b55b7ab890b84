"""Schedules: when a job is due, as pure calculation from ms since epoch to ms since epoch.

Three ways to write one: a period (``15min``), an expression of crontab with five fields, and one of Quartz with six or
seven, as in SiddhiQL. The last two go by the clocks of a time zone, and treat their changes alike, as Debian's cron:

- A time that is left out when the clocks go forward is due as soon as they have.
- A time that comes twice when they go back is due the first time only.
- Where minute or hour are ``*`` or have a step (``*/15``), real time counts instead: nothing is left out, and what is
  due every hour is due in each of the two hours, too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import ClassVar, Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from spdist.errors import SiddhiTypeError
from spdist.java.cron import CronExpression

__all__ = ["Crontab", "Period", "Quartz", "Schedule", "cron_schedule"]

_SECOND, _HOUR, _DAY = 1000, 3_600_000, 86_400_000
_UNITS = (("h", _HOUR), ("min", 60_000), ("s", _SECOND), ("ms", 1))
_LONGEST = 500
_CRONTAB = "five fields as in crontab: minute, hour, day of month, month, day of week, such as '0 2 * * *'"
_QUARTZ = (
    "six or seven fields as in SiddhiQL: second, minute, hour, day of month, month, day of week (1 is Sunday) and "
    "possibly year, with '?' for one of the two days, such as '0 0 2 * * ?'"
)


class Schedule(Protocol):
    """When something is due, over and over; ``str`` gives it as people write it, with its zone. Hashable."""

    def __hash__(self) -> int: ...

    def next_after(self, ms: int) -> int | None:
        """Return the first time later than `ms`, both in ms since epoch; None where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Period:
    """All multiples of `period_ms` since epoch: ``15min`` is due at :00, :15, :30 and :45, also after a restart."""

    period_ms: int

    def next_after(self, ms: int) -> int:
        """Return the next multiple; see `Schedule.next_after`."""
        return (ms // self.period_ms + 1) * self.period_ms

    def __str__(self) -> str:
        unit, size = next((unit, size) for unit, size in _UNITS if self.period_ms % size == 0)
        return f"every {self.period_ms // size}{unit}"


def cron_schedule(text: str, zone: str) -> Schedule:
    """Return the schedule of an expression: crontab's with five fields, Quartz' with six or seven.

    Raises
    ------
    ValueError
        It is neither; ends the sentence "… must be".

    Examples
    --------
    >>> nightly = cron_schedule("0 2 * * *", "Europe/Berlin")
    >>> nightly.next_after(0) == cron_schedule("0 0 2 * * ?", "Europe/Berlin").next_after(0) == 3_600_000
    True
    """
    if len(text) > _LONGEST:
        raise ValueError(f"an expression of at most {_LONGEST} characters")
    text = " ".join(text.split())
    fields = text.count(" ") + 1
    schedule = Crontab(text, zone) if fields == 5 else Quartz(text, zone)
    try:
        # Expressions are read when they are asked first; this also tells one that never comes true.
        first = schedule.next_after(0)
    except (CronSimError, SiddhiTypeError) as error:
        reason = error.message if isinstance(error, SiddhiTypeError) else str(error).lower()
        forms = _CRONTAB if fields == 5 else _QUARTZ if fields in (6, 7) else f"{_CRONTAB}, or {_QUARTZ}"
        raise ValueError(f"{forms} ({reason})") from error
    if first is None:
        raise ValueError("an expression that comes true")
    return schedule


# No slots: `cached_property` keeps what it has found in the instance's dictionary.
@dataclass(frozen=True)
class _Clocks:
    """Times that the clocks of a zone show.

    Parameters
    ----------
    text : str
        The expression.
    zone : str
        As in the IANA database.
    """

    text: str
    zone: str

    #: Where minute and hour stand among the fields.
    _times: ClassVar[slice]

    def _shown_after(self, clock: int) -> int | None:
        """Return what clocks show next that is asked for, later than they show `clock`: both as ms, as if in UTC."""
        raise NotImplementedError

    def next_after(self, ms: int) -> int | None:
        """Return the next time; see `Schedule.next_after`."""
        return self._in_real_time(ms) if self._repeats else self._by_the_clock(ms)

    def __str__(self) -> str:
        return f"{self.text} ({self.zone})"

    @cached_property
    def _repeats(self) -> bool:
        return bool(re.search(r"[*/]", "".join(self.text.split()[self._times])))

    def _by_the_clock(self, ms: int) -> int | None:
        clock = ms + self._offset(ms)
        while (found := self._shown_after(clock)) is not None:
            # Of a time that comes twice the first is meant: the second time round it is not later, and passed over.
            if (due := self._moment(found)) > ms:
                return due
            clock = found
        return None

    def _in_real_time(self, ms: int) -> int | None:
        """Return when the clocks next show what is asked for; between two changes of theirs they run steadily."""
        since, offset = ms, self._offset(ms)
        clock = ms + offset
        while (found := self._shown_after(clock)) is not None:
            change = self._change(since, found - offset)
            if change is None:
                return found - offset
            since, offset = change, self._offset(change)
            # A second earlier, since only what is shown later is found: the moment of the change counts, too.
            clock = change + offset - _SECOND
        return None

    def _offset(self, ms: int) -> int:
        """Return by how many ms the clocks are ahead of UTC."""
        ahead = datetime.fromtimestamp(ms // _SECOND, ZoneInfo(self.zone)).utcoffset()
        assert ahead is not None
        return int(ahead.total_seconds()) * _SECOND

    def _moment(self, clock: int) -> int:
        """Return when the clocks show `clock` for the first time, or pass it over."""
        # fold=0: of a time that comes twice the first; one that is left out becomes a moment after the change.
        shown = datetime.fromtimestamp(clock // _SECOND, UTC).replace(tzinfo=ZoneInfo(self.zone))
        moment = int(shown.timestamp()) * _SECOND
        if moment + self._offset(moment) == clock:
            return moment
        return self._change(moment - _DAY, moment) or moment

    def _change(self, since: int, until: int) -> int | None:
        """Return when the clocks are changed first, later than `since` and not later than `until`."""
        offset = self._offset(since)
        while since < until:
            day = min(since + _DAY, until)
            if self._offset(day) != offset:
                # Offsets are the same up to the change and another from it on: it is found by halving.
                seconds = range(since // _SECOND, day // _SECOND + 1)
                return seconds[bisect_left(seconds, True, key=lambda s: self._offset(s * _SECOND) != offset)] * _SECOND
            since = day
        return None


class Crontab(_Clocks):
    """Five fields: minute, hour, day of the month, month, day of the week (0 and 7 are Sunday).

    Names (``MON-FRI``), steps, ``L`` (last day of the month), ``LW``, ``5L`` and ``5#3`` are known. Where both days are
    given, either will do.
    """

    _times = slice(0, 2)

    def _shown_after(self, clock: int) -> int | None:
        # The library's own treatment of zones leaves out times where clocks are changed by half an hour.
        shown = datetime.fromtimestamp(clock // _SECOND, UTC).replace(tzinfo=None)
        found = next(CronSim(self.text, shown), None)
        return None if found is None else int(found.replace(tzinfo=UTC).timestamp()) * _SECOND


class Quartz(_Clocks):
    """Six or seven fields, as in SiddhiQL's triggers; see `spdist.java.cron`."""

    _times = slice(1, 3)

    def _shown_after(self, clock: int) -> int | None:
        return self._expression.next_after(clock)

    @cached_property
    def _expression(self) -> CronExpression:
        return CronExpression(self.text)
