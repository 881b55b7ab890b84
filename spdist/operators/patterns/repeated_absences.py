"""Absences that repeat themselves: what the wake-ups of a pattern come to while no event comes, found in one step.

``every not S for 1 sec`` in front of another element is woken each second for as long as nothing comes. Mostly that
changes nothing but times: after a few wake-ups all partials and flags are as they were, only some of their times are
later, by one period. From there on each period does the same, so many of them are one step. Where wake-ups put
something out, or partials become more, each period counts and is gone through.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from spdist.operators.base import ALWAYS, NOT_NOW
from spdist.operators.patterns.absence import ABSENT, AbsenceState, AbsentLogicalState
from spdist.operators.patterns.states import Partial, State

__all__ = ["MOST_PARTIALS", "PatternRests"]

log = logging.getLogger(__name__)

#: So many partials are looked at by wake-ups while the clock makes one step; each may look at all that wait.
MOST_PARTIALS = 2_000_000

#: A step of the clock over fewer periods than this is gone through: to compare states costs as much as some wake-ups.
_WORTH_WHILE = 8
#: So many wake-ups are watched without finding that they repeat, and so many partials are compared.
_TRIES = 64
_FEW = 16

#: What `spdist.operators.patterns.pattern.Automaton.snapshot` returns.
_State = Any


class RestingAutomaton(Protocol):
    """The states of a pattern: `spdist.operators.patterns.pattern.Automaton`."""

    @property
    def states(self) -> Sequence[State]:
        """All of them, in the order of the text."""
        ...

    @property
    def waiting(self) -> Sequence[AbsenceState | AbsentLogicalState]:
        """Those that wait for absence."""
        ...

    def snapshot(self) -> Any:
        """Return the state of all."""
        ...

    def restore(self, data: Any, /) -> None:
        """Bring it back."""
        ...


class PatternRests:
    """The rests of all timers of an automaton (`spdist.operators.base.Rests`).

    Parameters
    ----------
    automaton : RestingAutomaton
        The pattern's states, some of which wait for absence.

    State
    -----
    While the clock makes one long step, the states after the latest wake-ups: at most `_TRIES` of at most `_FEW`
    partials.
    """

    def __init__(self, automaton: RestingAutomaton) -> None:
        self.automaton = automaton
        self._waiting = automaton.waiting
        self._positions = [automaton.states.index(state) for state in self._waiting]
        self._longest = max((state.waiting or 0 for state in self._waiting), default=0)
        self._to: int | None = None
        self._tries = 0
        self._looked_at = 0
        self._put_out = False
        #: The state after the latest wake-up that was watched; and after each of those, with the waiting state that was
        #: woken and the time, as long as nothing else has happened since.
        self._latest: _State = None
        self._seen: list[tuple[int, int, _State]] = []
        #: The state, an earlier one, and how many ms lie between both, where they are the same but for times.
        self._found: tuple[_State, _State, int] | None = None
        for number, state in enumerate(self._waiting):
            state.timer.rests = self
            state.timer.wake = self._watched(number, state.timer.wake)

    def noting(self, matched: Callable[[Partial], None]) -> Callable[[Partial], None]:
        """Return what takes matches and remembers that there was one."""

        def noted(partial: Partial) -> None:
            self._put_out = True
            matched(partial)

        return noted

    def calm_until(self, to_ms: int) -> int:
        """See `spdist.operators.base.Rests.calm_until`."""
        # Another step of the clock: events may have come since the last one.
        if to_ms != self._to:
            self._to = to_ms
            self._looked_at = 0
            self._tries = _TRIES if to_ms - self._next_due > _WORTH_WHILE * self._longest else 0
            self._forget()
        if self._looked_at > MOST_PARTIALS:
            return ALWAYS
        if self._found is None:
            return NOT_NOW
        # Another timer may have changed something since it was found.
        if self._found[0] != self.automaton.snapshot():
            self._forget()
            return NOT_NOW
        return ALWAYS

    def skip(self, to_ms: int) -> None:
        """See `spdist.operators.base.Rests.skip`: whole periods are skipped, what is left of the last one is not."""
        if self._found is None:
            if self._looked_at > MOST_PARTIALS:
                log.warning("a pattern has so many attempts that no more absences are looked for until %d", to_ms)
            self._prolong(to_ms)
            return
        now, earlier, period = self._found
        times = (to_ms - self._next_due) // period
        self._forget()
        if times > 0:
            self._tries = _TRIES
            self.automaton.restore(_later(earlier, now, period, times * period, self._positions))

    @property
    def _next_due(self) -> int:
        return min(state.timer.due[0] for state in self._waiting if state.timer.due)

    def _forget(self) -> None:
        self._found = self._latest = None
        self._seen.clear()

    def _prolong(self, to_ms: int) -> None:
        """Have each wait that is over before a time be over after it, whatever it would have led to."""
        moved: set[int] = set()
        for state in self._waiting:
            timer, waiting = state.timer, state.waiting
            if not timer.due or not waiting or timer.due[0] >= to_ms:
                continue
            by = -(-(to_ms - timer.due[0]) // waiting) * waiting
            timer.postpone(by)
            if isinstance(state, AbsenceState):
                state.deadline += by
            for partial in (*state.pending, *state.new):
                if partial.timestamp != -1 and id(partial) not in moved:
                    moved.add(id(partial))
                    partial.timestamp += by

    def _watched(self, number: int, wake: Callable[[int], None]) -> Callable[[int], None]:
        state = self._waiting[number]

        def watched(due: int) -> None:
            self._looked_at += len(state.pending)
            if not self._tries:
                wake(due)
                return
            self._tries -= 1
            before = self._image(None)
            if before is None or before != self._latest:
                self._seen.clear()
            self._put_out = False
            wake(due)
            after = self._latest = self._image(number)
            if after is None or self._put_out:
                self._seen.clear()
                return
            for woken, at, known in reversed(self._seen):
                if woken == number and self._repeats(known, after, due - at, due):
                    self._found = after, known, due - at
                    break
            self._seen.append((number, due, after))

        return watched

    def _image(self, woken: int | None) -> _State:
        """Return the state as it is, or will be when the waiting state that is `woken` is done; None if it is large."""
        if sum(len(state.held()) + len(state.new) for state in self.automaton.states) > _FEW:
            return None
        image = self.automaton.snapshot()
        if woken is not None:
            flags = image[1][self._positions[woken]][2]
            # The wake-up at work is still in the queue: it is taken off only when it is done.
            flags[-1] = flags[-1][1:]
        return image

    def _repeats(self, earlier: _State, now: _State, period: int, due: int) -> bool:
        """Tell whether two states are the same but for times that are later by a period, and will be so again.

        What is decided by comparing times comes out the same each time where those that matter move along, or where
        they are past and stay.
        """
        (lists, rows), places = earlier
        (lists_now, rows_now), places_now = now
        if period <= 0 or due <= period or lists != lists_now or len(rows) != len(rows_now):
            return False
        moved = []
        for (time, *rest), (time_now, *rest_now) in zip(rows, rows_now, strict=True):
            if rest != rest_now or time_now - time not in (0, period):
                return False
            moved.append(time_now != time)
        for position, (place, place_now) in enumerate(zip(places, places_now, strict=True)):
            if place[:2] != place_now[:2]:
                return False
            if position not in self._positions:
                if place[2] != place_now[2]:
                    return False
                continue
            *flags, time, asked = place[2]
            *flags_now, time_now, asked_now = place_now[2]
            if flags != flags_now or [at + period for at in asked] != asked_now:
                return False
            if time_now - time not in (0, period):
                return False
            state = self._waiting[self._positions.index(position)]
            waits = [(rows_now[number], moved[number]) for number in (*place[0], *place[1])]
            if not _goes_on(state, waits, time_now, time_now != time, due):
                return False
        return True


def _goes_on(
    state: AbsenceState | AbsentLogicalState, waits: list[tuple[Any, bool]], time: int, time_moves: bool, due: int
) -> bool:
    """Tell whether what a waiting state decides by times will be decided likewise one period later.

    Parameters
    ----------
    state : AbsenceState or AbsentLogicalState
        The state.
    waits : list
        Its partials as they are stored, and whether their times move.
    time : int
        Its deadline, or when an unwanted event came.
    time_moves : bool
        Whether that moves.
    due : int
        When it was woken.
    """
    for (timestamp, _, slots), moves in waits:
        if not moves and timestamp != -1:
            return False
        if state.within is not None and any(slots[slot] is not None for slot in state.start_slots):
            return False
        if isinstance(state, AbsentLogicalState) and slots[state.slot] not in (None, ABSENT):
            return False
        if isinstance(state, AbsenceState) and timestamp == -1 and not time_moves:
            return False
    if isinstance(state, AbsentLogicalState):
        return time == 0
    return time > 0 if time_moves else time < due


def _later(earlier: _State, now: _State, period: int, by: int, positions: list[int]) -> _State:
    """Return a state with all times later that have moved by a period since an earlier one."""
    (_, rows), places = earlier
    (lists, rows_now), places_now = now

    def later(time: int, time_now: int) -> int:
        return time_now + by if time_now - time == period else time_now

    made = [[later(time, time_now), *rest] for (time, *_), (time_now, *rest) in zip(rows, rows_now, strict=True)]
    places_later = []
    for position, (place, place_now) in enumerate(zip(places, places_now, strict=True)):
        held, new, flags = place_now
        if position in positions:
            *kept, time, asked = flags
            flags = [*kept, later(place[2][-2], time), [at + by for at in asked]]
        places_later.append([held, new, flags])
    return [[lists, made], places_later]
