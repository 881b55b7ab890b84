"""The clock of an app, and what wakes its operators: one heap of timers, which goes past what does nothing.

Source: io.siddhi.core.util.Scheduler, described in our own words.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

__all__ = ["ALWAYS", "MOST_FIRINGS", "NOT_NOW", "Periodic", "Rests", "Timer", "Timers", "VirtualClock"]

log = logging.getLogger(__name__)

#: Of a timer: see there.
Rank = tuple[int, int, int]


class VirtualClock:
    """The time of an app in ms since epoch: it moves only when the app is told to.

    ``drawn`` counts the values that were made to be unique (such as UUIDs); it is part of the app's state, so that a
    replay draws the same ones, and so are ``sequences``, where sequences of random numbers stand. ``identity`` keeps
    those of different apps, and of copies of an app, apart.
    """

    __slots__ = ("drawn", "identity", "now", "sequences")

    def __init__(self, now: int = 0, identity: str = "") -> None:
        self.now = now
        self.drawn = 0
        self.identity = identity
        self.sequences: dict[str, int] = {}


#: What `Rests.calm_until` returns where no wake-up does anything, and where the next one does.
ALWAYS: Final = 2**63
NOT_NOW: Final = -(2**63)
#: So often the periodic timers of an app put something out while its clock makes one step; then they skip the rest.
MOST_FIRINGS: Final = 1_000_000
#: So often an operator may ask for a wake-up that is not later than the one that it is woken for.
_MOST_IN_PLACE = 1000


class Rests(Protocol):
    """What knows which wake-ups of a periodic timer do nothing, and goes past them in one step.

    It costs nothing while time passes evenly, and a clock that jumps over many periods meets no more of them than
    those that put something out.
    """

    def calm_until(self, to_ms: int) -> int:
        """Return a time before which a wake-up does nothing but ask for the next one.

        It holds for as long as nobody else changes what is woken. `to_ms` is how far the clock is about to go.
        """
        ...

    def skip(self, to_ms: int) -> None:
        """Be as if woken at every due time before `to_ms`, without putting anything out."""
        ...


class Timer:
    """The wake-ups of one operator, or of one operator of one partition key.

    A timer is a queue: a wake-up that was asked for later waits behind the ones asked for before it, also where it is
    due earlier, as in Siddhi's scheduler.

    Parameters
    ----------
    timers : Timers
        Where it is kept.
    rank : tuple[int, int, int]
        Among timers due at the same time: place of the query in the app, place of the operator in the query, number of
        the partition key. No two timers of an app share it.
    wake : Callable
        Called with the due time; the clock is at it, or later where the wake-up was asked for too late.

    State
    -----
    ``due``: the times asked for and not yet reached.
    """

    __slots__ = ("due", "rank", "rests", "timers", "wake")

    def __init__(self, timers: Timers, rank: Rank, wake: Callable[[int], None]) -> None:
        self.timers = timers
        self.rank = rank
        self.wake = wake
        self.due: deque[int] = deque()
        #: Set where wake-ups follow one another for ever.
        self.rests: Rests | None = None

    def notify_at(self, due: int) -> None:
        """Ask to be woken at `due`."""
        self.due.append(due)
        # Only the head of the queue is in the heap; `Timers._drain` puts the next one there.
        if len(self.due) == 1:
            self.timers.push(self)

    def cancel(self) -> None:
        """Forget all wake-ups."""
        self.due.clear()

    def postpone(self, by_ms: int) -> None:
        """Have all that was asked for come later."""
        if by_ms and self.due:
            # The entry in the heap is stale from here on; `Timers._is_live` passes over it.
            self.due = deque(due + by_ms for due in self.due)
            self.timers.push(self)

    def snapshot(self) -> list[int]:
        """Return the times asked for, in order."""
        return list(self.due)

    def restore(self, state: Iterable[int]) -> None:
        """Take over the times of a snapshot."""
        self.due = deque(state)
        if self.due:
            self.timers.push(self)


class Periodic:
    """The rests of a timer that is due every `period` ms once its operator has begun (`Rests`).

    Parameters
    ----------
    timer : Timer
        The timer.
    period : int
        In ms.
    calm_until : Callable[[], int]
        As in `Rests`.
    passed : Callable[[int], None]
        Told by how many ms the next wake-up was put off.
    """

    __slots__ = ("_calm_until", "_passed", "period", "timer")

    def __init__(self, timer: Timer, period: int, calm_until: Callable[[], int], passed: Callable[[int], None]) -> None:
        self.timer = timer
        self.period = period
        self._calm_until = calm_until
        self._passed = passed

    def calm_until(self, _to_ms: int) -> int:
        """See `Rests.calm_until`."""
        # With several asked for, they do not follow one another by the period.
        return self._calm_until() if len(self.timer.due) == 1 else NOT_NOW

    def skip(self, to_ms: int) -> None:
        """See `Rests.skip`."""
        # Whole periods: wake-ups stay on their grid.
        later = max(0, -(-(to_ms - self.timer.due[0]) // self.period) * self.period)
        self.timer.postpone(later)
        self._passed(later)


class Timers:
    """All timers of an app, in one heap by due time and rank."""

    __slots__ = ("_firings", "clock", "heap")

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        #: How often periodic timers have put something out in this step of the clock.
        self._firings = 0
        self.heap: list[tuple[int, Rank, Timer]] = []

    def push(self, timer: Timer) -> None:
        """Put a timer with a first wake-up into the heap."""
        heappush(self.heap, (timer.due[0], timer.rank, timer))

    def clear(self) -> None:
        """Forget all wake-ups of all timers."""
        for *_, timer in self.heap:
            timer.cancel()
        self.heap.clear()

    def cancel_of(self, queries: Collection[int]) -> None:
        """Forget all wake-ups of some queries, given by their places in the app."""
        left = []
        for entry in self.heap:
            if entry[1][0] in queries:
                entry[-1].cancel()
            else:
                left.append(entry)
        heapify(left)
        self.heap[:] = left

    @property
    def next_due(self) -> int | None:
        """When the next wake-up is due; None where none is."""
        while self.heap and not self._is_live(self.heap[0]):
            heappop(self.heap)
        return self.heap[0][0] if self.heap else None

    @staticmethod
    def _is_live(entry: tuple[int, Rank, Timer]) -> bool:
        timer = entry[-1]
        return bool(timer.due) and timer.due[0] == entry[0]

    def next_busy(self, until: int) -> int | None:
        """Return when the next wake-up is due that does something, as far as is known; None where after `until`."""
        first = self.next_due
        # Without rests it may do something each time, and nothing is due before it.
        if first is None or first > until or self.heap[0][-1].rests is None:
            return first if first is not None and first <= until else None
        busy = [
            due if timer.rests is None else max(due, timer.rests.calm_until(until))
            for due, _, timer in filter(self._is_live, self.heap)
            if due <= until
        ]
        return min((due for due in busy if due <= until), default=None)

    def is_due(self, time: int, but: Timer | None) -> bool:
        """Tell whether a timer is due at or before `time`, other than the one that is given."""
        # Also a stale first entry is a lower bound of what is due.
        if not self.heap or self.heap[0][0] > time:
            return False
        return any(entry[0] <= time and entry[-1] is not but and self._is_live(entry) for entry in self.heap)

    def fire_until(self, time: int) -> None:
        """Wake everything due at or before `time`, in order, with the clock at each due time.

        Wake-ups that are asked for meanwhile count too. The clock never goes back. Wake-ups that do nothing are
        skipped; after `MOST_FIRINGS` of periodic timers so are all others of those, which is logged.
        """
        self.begin_step()
        while (due := self.next_due) is not None and due <= time:
            self.fire_first(time)

    def begin_step(self) -> None:
        """Begin a step of the clock: so often may periodic timers put something out in it."""
        self._firings = 0

    def fire_first(self, time: int | None) -> None:
        """Wake what is due first, or skip it and others where they do nothing until `time`; None: nothing is skipped.

        Something must be due; see `fire_until`.
        """
        due = self.heap[0][0]
        rests = self.heap[0][-1].rests
        if rests is not None and time is not None:
            if rests.calm_until(time) > due and self._skip_calm(time):
                return
            self._firings += 1
            if self._firings > MOST_FIRINGS:
                self._skip_rest(time, first=self._firings == MOST_FIRINGS + 1)
                return
        timer = heappop(self.heap)[-1]
        if due > self.clock.now:
            self.clock.now = due
        self._drain(timer)

    def _skip_calm(self, time: int) -> bool:
        """Skip what does nothing until the first wake-up that does something; tells whether there was anything."""
        calm: list[tuple[Timer, int]] = []
        until = time + 1
        while (due := self.next_due) is not None and due < until:
            timer = self.heap[0][-1]
            end = due if timer.rests is None else timer.rests.calm_until(time)
            if end <= due:
                until = due
                break
            # Nobody may go past the first that does something: what it puts out may reach the others.
            until = min(until, end)
            calm.append((heappop(self.heap)[-1], due))
        skipped = False
        asked: set[int] = set()
        for timer, before in calm:
            # Timers that share their rests are moved together.
            if before < until and id(timer.rests) not in asked:
                asked.add(id(timer.rests))
                _skip(timer, until)
            # Those that moved have put themselves back into the heap; one whose times have ended is due no more.
            if timer.due and timer.due[0] == before:
                self.push(timer)
            else:
                skipped = True
        return skipped

    def _skip_rest(self, time: int, *, first: bool) -> None:
        """Skip all wake-ups of the next timer until `time`, though they would put something out."""
        timer = heappop(self.heap)[-1]
        if first:
            log.warning(
                "%s: while the clock goes from %d to %d, periodic timers have put something out %d times; what they "
                "would put out until then is left out",
                _owner(timer),
                self.clock.now,
                time,
                MOST_FIRINGS,
            )
        _skip(timer, time + 1)

    def _drain(self, timer: Timer) -> None:
        """Wake one timer for all it has due now; an operator that fails loses this wake-up, as it would an event."""
        waiting, rests, now = timer.due, timer.rests, self.clock.now
        firings = in_place = 0
        while waiting and waiting[0] <= now:
            due, asked = waiting[0], len(waiting)
            if rests is not None and due < now and (firings > MOST_FIRINGS or rests.calm_until(now) > due):
                # First, as `skip` may leave the timer where it is; if it moves, this entry is stale.
                self.push(timer)
                _skip(timer, now + 1)
                return
            # Stays in the queue while it runs: a wake-up asked for meanwhile must not enter the heap a second time.
            try:
                timer.wake(due)
            except Exception:
                log.exception("an operator failed when its timer was due; what it would have put out is lost")
            if timer.due is not waiting or not waiting:  # cancelled or restored by what it caused
                return
            firings += 1
            if len(waiting) > asked and waiting[-1] <= due:
                in_place += 1
                if in_place > _MOST_IN_PLACE:
                    timer.cancel()
                    log.error("%s asks to be woken at %d again and again; its timer is stopped", _owner(timer), due)
                    return
            waiting.popleft()
        if waiting:
            self.push(timer)


def _skip(timer: Timer, to_ms: int) -> None:
    assert timer.rests is not None
    try:
        timer.rests.skip(to_ms)
    except Exception:
        log.exception("%s failed when its timer went past %d", _owner(timer), to_ms)


def _owner(timer: Timer) -> str:
    """Return which operator a timer wakes, for messages."""
    query, operator, _ = timer.rank
    name = getattr(timer.wake, "__qualname__", type(timer.wake).__name__)
    return f"{name.split('.')[0]} (operator {operator} of element {query})"
