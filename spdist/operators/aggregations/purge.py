"""``@purge`` of an aggregation: closed buckets that are old enough are removed, duration by duration.

Source: io.siddhi.core.aggregation.IncrementalDataPurger, described in our own words.
"""

from __future__ import annotations

from typing import Any, Protocol

from spdist.language.checking.checked import PurgeSetting
from spdist.language.durations import DURATIONS
from spdist.operators.aggregations.time import Calendar
from spdist.operators.base import Timer

__all__ = ["Purge"]


class _Purged(Protocol):
    """What is purged: an aggregation."""

    @property
    def durations(self) -> tuple[str, ...]: ...

    @property
    def closed(self) -> list[dict[int, Any]]: ...

    @property
    def purging(self) -> PurgeSetting: ...

    def close_ended(self, now: int) -> None: ...

    def unchanged_until(self) -> int: ...

    def removed(self, level: int, before: int) -> None: ...


class Purge:
    """Removes old buckets from time to time.

    Parameters
    ----------
    aggregation : Aggregation
        What is purged.
    calendar : Calendar
        When buckets begin and end.
    timer : Timer
        Calls `run`.

    State
    -----
    When the next purge is due, whether purging has stopped, and for each duration how many groups there were at most
    before buckets were removed.

    Notes
    -----
    As in Siddhi, a duration is purged only where the next coarser one has the bucket that contains the newest one to be
    removed; where it has not, purging stops for good, since something would be lost. The coarsest duration is purged
    when the one before it is: an aggregation of one duration keeps everything.
    """

    def __init__(self, aggregation: _Purged, calendar: Calendar, timer: Timer) -> None:
        self.aggregation = aggregation
        self.calendar = calendar
        self.timer = timer
        self.stopped = False
        self._most = [0] * len(aggregation.durations)
        timer.rests = self

    def calm_until(self, _to_ms: int) -> int:
        """Return when a bucket that is not empty is to be closed, or one is old enough to be removed (`Rests`)."""
        of = self.aggregation
        until = of.unchanged_until()
        if self.stopped:
            return until
        for level, duration in enumerate(of.durations[:-1]):
            kept = of.purging.kept[duration]
            if kept is not None and of.closed[level]:
                until = min(until, min(of.closed[level]) + kept)
        return until

    def skip(self, to_ms: int) -> None:
        """See `spdist.operators.base.Rests`."""
        due, interval = self.timer.due[0], self.aggregation.purging.interval
        assert interval, "only who purges is woken"
        later = -(-(to_ms - due) // interval) * interval
        if later > 0:
            self.timer.postpone(later)
            # As the last one of the purges that are skipped would have done.
            self.aggregation.close_ended(due + later - interval)

    def start(self, now: int) -> None:
        """Begin: the first purge is one interval from now."""
        interval = self.aggregation.purging.interval
        if interval:
            self.timer.notify_at(now + interval)

    def run(self, now: int) -> None:
        """Remove what is too old at `now`."""
        self.aggregation.close_ended(now)
        if not self.stopped:
            self._remove(now)
        self.start(now)

    def _remove(self, now: int) -> None:
        of = self.aggregation
        wanted = False
        for level, duration in enumerate(of.durations):
            kept = of.purging.kept[duration]
            if kept is None:
                continue
            if level + 1 < len(of.durations):
                old = [start for start in of.closed[level] if start <= now - kept]
                wanted = bool(old)
                if old and not self._is_kept_coarser(level, max(old)):
                    self.stopped = True
                    return
            if wanted:
                self._most[level] = self.most(level)
                gone = [start for start in of.closed[level] if start < now - kept]
                for start in gone:
                    del of.closed[level][start]
                if gone:
                    of.removed(level, now - kept)

    def _is_kept_coarser(self, level: int, start: int) -> bool:
        of = self.aggregation
        coarser = DURATIONS[DURATIONS.index(of.durations[level]) + 1]
        first, last = self.calendar.bucket(coarser)(start)
        return any(first <= at <= last for at in of.closed[level + 1])

    def most(self, level: int) -> int:
        """Return how many groups the closed buckets of a duration ever had at a time."""
        return max(self._most[level], sum(map(len, self.aggregation.closed[level].values())))

    def snapshot(self) -> Any:
        """Return the state as plain data."""
        return [self.stopped, self.timer.snapshot(), *self._most]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.stopped, due, *most = state
        # States of before 0.14 do not tell how many groups there were.
        self._most = most or [0] * len(self.aggregation.durations)
        self.timer.restore(due)
