"""Decisions of the scheduler: what is to be done with each time at which a job is due. Pure.

Each such time is decided on once, and in order. The last one, if it is not older than a minute, starts a run, or is
skipped where the job still runs; all before were missed, since nobody looked at the time: the scheduler was down, the
machine slept, or its clock was put forward. Where the clock is put back, by an hour at most, what was decided on stays
decided; by more, and a job begins anew, as it does at first and where its schedule was changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from typing import Protocol

from spdist.jobs.schedules import Schedule

__all__ = ["Action", "Decision", "Due", "Standing", "due", "next_due"]

#: How late a run may begin, ms.
_ON_TIME_MS = 60_000
#: By how much a clock may be put back until what was decided is forgotten, ms.
_BACK_MS = 3_600_000
#: How many times of one look are told as missed each; further ones are told as one.
_MISSED_EACH = 100


class Due(Protocol):
    """What of a job matters here."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def schedule(self) -> Schedule:
        """When it is due."""
        ...

    @property
    def catch_up(self) -> bool:
        """Whether it is run once, late, where times were missed."""
        ...


class Action(StrEnum):
    """What is done."""

    START = "start"
    CATCH_UP = "catch up"
    SKIP = "skip"
    MISS = "miss"
    BEGIN = "begin"


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done with one time, or with all times of a stretch.

    Parameters
    ----------
    job : str
        Its name.
    action : Action
        ``BEGIN`` is about no time: the job is watched from now on.
    due_ms : int
        The time, ms since epoch; with ``CATCH_UP`` the last one that was missed, which has a ``MISS`` as well.
    through_ms : int
        All times later than `due_ms` and not later than this are decided on, too; most often `due_ms` itself.
    """

    job: str
    action: Action
    due_ms: int
    through_ms: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a job stands.

    Parameters
    ----------
    decided_ms : int
        What is due until then has been decided on, ms since epoch.
    schedule : str
        As it was written then.
    running : bool
        Whether it runs now, whoever has started it.
    """

    decided_ms: int
    schedule: str
    running: bool = False


def next_due(job: Due, standing: Standing | None, now_ms: int) -> int | None:
    """Return when `due` decides something about a job next, ms since epoch; None for never, `now_ms` for now."""
    if standing is None or _forgotten(job, standing, now_ms):
        return now_ms
    return _next_after(job.schedule, standing.decided_ms)


# Each look asks for the same jobs and times again.
@lru_cache(maxsize=4096)
def _next_after(schedule: Schedule, ms: int) -> int | None:
    return schedule.next_after(ms)


def due(jobs: Iterable[Due], standings: Mapping[str, Standing], now_ms: int) -> list[Decision]:
    """Return what is to be done now, job by job, the earliest time of each first.

    Parameters
    ----------
    jobs : iterable of Due
        All jobs.
    standings : mapping of str to Standing
        Where those of them stand that have been looked at before.
    now_ms : int
        The wall clock.

    Notes
    -----
    At most 102 decisions for a job: a look after a year takes no longer than one after a day.
    """
    return [one for job in jobs for one in _decided(job, standings.get(job.name), now_ms)]


def _decided(job: Due, standing: Standing | None, now_ms: int) -> Iterator[Decision]:
    if standing is None or _forgotten(job, standing, now_ms):
        yield Decision(job.name, Action.BEGIN, now_ms, now_ms)
        return
    # One ms earlier, as `_times` yields later ones only: what is a minute old exactly is on time.
    last = _newest(job.schedule, max(standing.decided_ms, now_ms - _ON_TIME_MS - 1), now_ms)
    missed = _missed(job.schedule, standing.decided_ms, now_ms if last is None else last - 1)
    yield from (Decision(job.name, Action.MISS, first, through) for first, through in missed)
    if last is not None:
        yield Decision(job.name, Action.SKIP if standing.running else Action.START, last, last)
    elif missed and job.catch_up and not standing.running:
        yield Decision(job.name, Action.CATCH_UP, *missed[-1])


def _forgotten(job: Due, standing: Standing, now_ms: int) -> bool:
    return standing.schedule != str(job.schedule) or now_ms < standing.decided_ms - _BACK_MS


def _newest(schedule: Schedule, since_ms: int, until_ms: int) -> int | None:
    return max(_times(schedule, since_ms, until_ms), default=None)


def _missed(schedule: Schedule, since_ms: int, until_ms: int) -> list[tuple[int, int]]:
    """Return what was due in a stretch of time: the first times each, all others as one stretch."""
    each = [*islice(_times(schedule, since_ms, until_ms), _MISSED_EACH)]
    missed = [(one, one) for one in each]
    if each and (further := schedule.next_after(each[-1])) is not None and further <= until_ms:
        missed.append((further, until_ms))
    return missed


def _times(schedule: Schedule, since_ms: int, until_ms: int) -> Iterator[int]:
    """Yield the times later than `since_ms` and not later than `until_ms`."""
    time = schedule.next_after(since_ms)
    while time is not None and time <= until_ms:
        yield time
        time = schedule.next_after(time)
