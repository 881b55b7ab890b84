"""Queries that add up what is in a sliding window, many events at once.

Where a query does nothing but that, and shows only new events, what a run of events puts out follows from columns of
their values. The window is columns then, too (`spdist.operators.sliding_totals`): what an event costs does not depend
on how many others are held, or for how many keys. Events that go one by one, for whatever reason, find the state in the
form that those know; going over from one form to the other takes as long as looking at all of it, and is done at most
once for so many events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy

from spdist.mapping.read_rows import ReadRows
from spdist.operators.added_up import added_up
from spdist.operators.at_once import AtOnce
from spdist.operators.base import Arrival, Row, Timer, VirtualClock
from spdist.operators.junction import StreamPart
from spdist.operators.parameters import constant_values
from spdist.operators.selector import Sink
from spdist.operators.sliding_totals import SlidingPlan, SlidingState, Slots
from spdist.operators.window_length import LengthWindow
from spdist.operators.window_time import TimeWindow

if TYPE_CHECKING:
    from spdist.operators.query import SingleStreamPlan

__all__ = ["SlidingRuns", "sliding_plan", "window_state"]

#: Fewer events than this do not make a query go over to columns.
FEWEST = 256
_NEVER = -(2**63)


class OneByOne(Protocol):
    """The query as it takes events one by one."""

    @property
    def timer(self) -> Timer | None:
        """The timer that it needs for its window."""
        ...

    def give(self) -> tuple[Slots, list[Arrival]]:
        """Return totals and events held, those of a group in order."""
        ...

    def forget(self) -> None:
        """Hold nothing, and wait for nothing."""
        ...

    def keep(self, slots: Slots, events: list[Arrival]) -> None:
        """Take totals and events over."""
        ...


class SlidingRuns(AtOnce):
    """A query's state as columns, and who takes runs of events with it.

    Parameters
    ----------
    plan : SlidingPlan
        What the query adds up.
    stream : str
        What it reads.
    query : OneByOne
        Its other form.
    sink : Sink
        Where results go.
    clock : VirtualClock
        The app's.

    State
    -----
    That of the query while it is in columns.
    """

    def __init__(self, plan: SlidingPlan, stream: str, query: OneByOne, sink: Sink, clock: VirtualClock) -> None:
        self._plan = plan
        self._stream = stream
        self._query = query
        self._sink = sink
        self._clock = clock
        self._state: SlidingState | None = None

    @property
    def timer(self) -> Timer | None:
        """The timer of the window."""
        return self._query.timer

    def take(self, parts: Mapping[str, StreamPart]) -> bool:
        """Take events at once; see `spdist.operators.junction.TakesParts`."""
        part, target = parts[self._stream], self._sink.straight()
        pick = None if target is None else target.picker()
        if pick is None or not self._is_worth_while(len(part.times), FEWEST):
            return False
        rows = self._columns(part.rows)
        state = None if rows is None else self._entered()
        stamps = part.times if part.stamps is None else part.stamps
        shown = None if state is None or rows is None else state.take(rows, stamps, part.times, self._clock.now)
        if shown is None or rows is None:
            return False
        numbers = numpy.arange(len(part.times) + 1)
        pick(rows.selecting(shown), numbers, numbers[:-1], None)
        return True

    def _columns(self, rows: Sequence[Row]) -> ReadRows | None:
        """Return the events as columns; None where there is a null in what is looked at."""
        plan = self._plan
        own = plan.columns(rows)
        return None if own is None or own.has_nulls((*plan.keys, *plan.added)) else own

    def _entered(self) -> SlidingState | None:
        """Return the state in columns; None where there is something in it that has no place there."""
        if self._state is None:
            slots, events = self._query.give()
            self._state = SlidingState.of(self._plan, slots, events)
            if self._state is None:
                self._owed = len(events)
            else:
                self.ahead = True
                self._query.forget()
        return self._state

    def settle(self) -> None:
        """Give the state back to the query, for events that go one by one."""
        if self._state is not None:
            slots, events = self._state.plain()
            self._state, self.ahead = None, False
            self._owed = len(events)
            self._query.keep(slots, events)

    @property
    def held_rows(self) -> int | None:
        """How many events the window holds; None while the query has it."""
        return None if self._state is None else len(self._state.held)

    def snapshot(self) -> dict[str, Any] | None:
        """Return the state as plain data; None while the query has it."""
        return None if self._state is None else self._state.snapshot()

    def restore(self, stored: dict[str, Any] | None) -> None:
        """Take over the state of a snapshot, or none.

        Raises
        ------
        StateError
            It is not whole.
        """
        self._state, self.ahead, self._owed = None, False, 0
        if stored is not None:
            self._query.forget()
            self._state, self.ahead = SlidingState.restored(stored), True
            if self._state.plan != self._plan:
                self.settle()


def window_state(plan: SlidingPlan, events: Sequence[Arrival]) -> Any:
    """Return the state of a window that holds events in order, and waits for each time at which one leaves."""
    if not plan.timed:
        return deque(events)
    due = dict.fromkeys(time + plan.size for time, _ in events)
    return [deque(events), events[-1][0] if events else _NEVER, list(due)]


def sliding_plan(plan: SingleStreamPlan, partition_key: int | None = None) -> SlidingPlan | None:
    """Return how a query adds up what is in its window; None where it is not columns that do so.

    Parameters
    ----------
    plan : SingleStreamPlan
        The query.
    partition_key : int, optional
        The text that is the key of its partition.
    """
    if plan.window not in (LengthWindow, TimeWindow) or plan.loop is None or plan.loop.window is None:
        return None
    added = added_up(plan)
    if added is None or not any(name for name, _ in added.items) or (partition_key is not None and added.keys):
        return None
    assert plan.input.window is not None
    size = constant_values(plan.input.window.args)[0]
    keys = added.keys if partition_key is None else (partition_key,)
    return SlidingPlan(keys, added.items, added.types, size, plan.window is TimeWindow, partition_key is not None)
