"""The states of a pattern that wait for an event *not* to come.

Source: io.siddhi.core.query.input.stream.state.AbsentStreamPreStateProcessor and AbsentLogicalPreStateProcessor with
their post processors, described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from spdist.operators.base import Row, Timer, VirtualClock
from spdist.operators.patterns.groups import SideState
from spdist.operators.patterns.states import ElementCondition, Partial, State

__all__ = ["ABSENT", "AbsenceState", "AbsentLogicalState", "Surroundings"]

#: Stands in the slot of an absence that was long enough.
ABSENT = (-1, ())


class Surroundings(Protocol):
    """What a waiting state needs from the app."""

    clock: VirtualClock

    def timer(self, wake: Callable[[int], None]) -> Timer:
        """Return a timer for this state."""
        ...

    def matched(self, partial: Partial) -> None:
        """Take a complete match."""
        ...


class AbsenceState(State):
    """``not S[condition] for t``: a partial moves on after `waiting` ms in which no such event came.

    As the first element it waits from the start of the app (or of the partition key), and anew after each event.

    State
    -----
    ``deadline``: when the last wait that began is over; ``active``: False once the only attempt was used; wake-ups.
    """

    def __init__(
        self, slot: int, size: int, condition: ElementCondition, strict: bool, waiting: int, around: Surroundings
    ) -> None:
        super().__init__(slot, size, condition, strict)
        self.waiting = waiting
        self.around = around
        self.timer = around.timer(self.wake)
        self.active = True
        self.started = False
        self.deadline = 0

    @property
    def is_absent(self) -> bool:
        """Whether the state waits for an event not to come."""
        return True

    def begin(self) -> None:
        """Begin to wait, where this is the first element; called once."""
        if not self.started:
            self.started = True
            if self.is_start and self.active:
                self._wait_from(self.around.clock.now)

    def _wait_from(self, time: int) -> None:
        self.deadline = time + self.waiting
        self.timer.notify_at(self.deadline)

    def add(self, partial: Partial) -> None:
        """Let a partial begin to wait."""
        if not self.active:
            return
        if self.strict:
            # In a sequence the newest attempt takes the place of the one before.
            self.new = []
        self.new.append(partial)
        if not self.is_start:
            self._wait_from(partial.timestamp)

    def add_every(self, partial: Partial) -> None:
        """Let a copy of a partial begin to wait."""
        super().add_every(partial)
        self._wait_from(partial.timestamp)

    def reset(self) -> None:
        """Before each event of a sequence: drop the partials that were not continued, and start over."""
        self.pending = []
        if self.is_start:
            if self.strict and self.every is None and self.next is not None and self.next.pending:
                return
            self.start()

    def offer(self, timestamp: int, row: Row) -> list[Partial]:
        """Offer an event: partials that it fits have waited in vain."""
        if self.active:
            super().offer(timestamp, row)
        return []

    @property
    def _ends_attempts(self) -> bool:
        return False

    def _moved(self, partial: Partial, timestamp: int) -> None:
        partial.timestamp = timestamp
        self.returned = True
        if self.is_start and self.every is self:
            self.add_every(partial)
        self._wait_from(timestamp)

    def wake(self, due: int) -> None:
        """Let the partials whose wait is over move on, in order."""
        if not self.active:
            return
        self._admit()
        over = self._over(due)
        if self.within_every is not None:
            self.within_every.update()
        for partial in over:
            self._send(partial)
        now = self.around.clock.now
        if now > self.waiting + due:
            self.deadline = now + self.waiting
        if not over and self.deadline < due:
            self._wait_from(due)

    def _admit(self) -> None:
        """Let those who arrived join; the first element makes its own partial where none waits."""
        makes = self.is_start and not self.new and not self.pending
        if makes and self.strict and self.every is None and self.deadline > 0:
            makes = False
        if makes:
            self.add(Partial([None] * self.size))
        elif self.strict and self.new:
            self.reset()
        self.update()

    def _over(self, due: int) -> list[Partial]:
        over: list[Partial] = []
        kept: list[Partial] = []
        for partial in self.pending:
            if self.too_old(partial, due):
                if self.within_every is not None and self.every is not None and self.every is not self:
                    self.every.add_every(partial)
                continue
            # What no event has begun has no time of its own to wait from.
            end = self.deadline if partial.timestamp == -1 else partial.timestamp + self.waiting
            if due >= end:
                partial.timestamp = due
                over.append(partial)
            else:
                kept.append(partial)
        self.pending = kept
        return over

    def _send(self, partial: Partial) -> None:
        if self.is_last:
            self.around.matched(partial)
        if self.next is not None:
            self.next.add(partial)
        if self.every is not None:
            self.every.add_every(partial)
        elif self.is_start:
            self.active = False
        if self.tells is not None:
            self.tells()

    def flags(self) -> list[Any]:
        """Return what is remembered besides partials."""
        return [*super().flags(), self.active, self.started, self.deadline, self.timer.snapshot()]

    def set_flags(self, flags: list[Any]) -> None:
        """Take over what `flags` returned."""
        *rest, self.active, self.started, self.deadline, due = flags
        super().set_flags(rest)
        self.timer.restore(due)


class AbsentLogicalState(SideState):
    """``not S`` or ``not S for t`` as one side of ``and`` or ``or``.

    State
    -----
    ``arrived``: when an unwanted event came last, 0 where none; ``active``: False once the only attempt was used;
    wake-ups.
    """

    def __init__(
        self,
        slot: int,
        size: int,
        condition: ElementCondition,
        strict: bool,
        needs_both: bool,
        waiting: int | None,
        around: Surroundings,
    ) -> None:
        super().__init__(slot, size, condition, strict, needs_both)
        self.waiting = waiting
        self.around = around
        self.timer = around.timer(self.wake)
        self.active = True
        self.started = False
        self.arrived = 0

    @property
    def is_absent(self) -> bool:
        """Whether the state waits for an event not to come."""
        return True

    def begin(self) -> None:
        """Begin to wait, where this is the first element; called once."""
        if not self.started:
            self.started = True
            if self.is_start and self.waiting is not None and self.active:
                self.timer.notify_at(self.around.clock.now + self.waiting)

    def add(self, partial: Partial) -> None:
        """Let a partial wait at both sides."""
        if not self.active:
            return
        super().add(partial)
        if not self.is_start and self.waiting is not None:
            self.timer.notify_at(partial.timestamp + self.waiting)
            partner = self.partner
            if isinstance(partner, AbsentLogicalState) and partner.waiting is not None:
                partner.timer.notify_at(partial.timestamp + partner.waiting)

    def add_every(self, partial: Partial) -> None:
        """Let a copy start over at both sides, waiting from its last event."""
        # A whole copy, of which only the two sides are emptied.
        copy = partial.restart(len(partial.slots))
        held = copy.slots[self.slot]
        if held is not None:
            copy.timestamp = held[0]
        copy.slots[self.slot] = copy.slots[self.partner.slot] = None
        self.new.append(copy)
        self.partner.new.append(copy)

    # An unwanted event comes.

    def offer(self, timestamp: int, row: Row) -> list[Partial]:
        """Offer an event: partials that it fits are no longer absent here."""
        if not self.active:
            return []
        kept: list[Partial] = []
        for partial in self.pending:
            slots = partial.slots
            if not self.needs_both and slots[self.partner.slot] is not None:
                continue  # the other side has come
            before = slots[self.slot]
            fits = self.test is None or self.test(slots, timestamp, row)
            if fits:
                slots[self.slot] = (timestamp, row)
                self.returned = True
                self.arrived = timestamp
                if self.waiting is not None or (self.strict and self.needs_both and self.every is not None):
                    slots[self.slot] = before
            leaves = self.watched.returned
            if leaves:
                self.watched.returned = False
                if self.strict and partial in self.partner.pending:
                    self.partner.pending.remove(partial)
            if not fits:
                slots[self.slot] = before
            if not leaves and (fits or not self.strict):
                kept.append(partial)
        self.pending = kept
        return []

    def lets_pass(self, partial: Partial) -> bool:
        """Tell the partner whether this side is settled for a partial: its event has not come, long enough."""
        if self.strict and self.every is None and self.arrived > 0:
            return False
        if self.waiting is not None:
            return partial.slots[self.slot] is not None
        if self.every is None:
            return partial.slots[self.slot] is None
        # The unwanted event came first: this attempt is over, and another one starts.
        if self.arrived > 0:
            self.arrived = 0
            self.start()
            return False
        return True

    # The wait is over.

    def wake(self, due: int) -> None:
        """Let the partials whose wait is over move on, where the other side lets them."""
        waiting = self.waiting
        if not self.active or waiting is None:
            return
        sent = False
        if due >= self.arrived + waiting:
            self._admit()
            over, fallen = self._over(due, waiting)
            if fallen is not None and self.within_every is not None:
                self.within_every.add_every(fallen)
                self.within_every.update()
            for partial in over:
                sent = True
                partial.timestamp = due
                self._send(partial)
            self.arrived = 0
        if self.every is not None or (not sent and self.is_start):
            self.timer.notify_at((self.arrived or self.around.clock.now) + waiting)

    def _admit(self) -> None:
        if self.is_start and self.strict and not self.new and not self.pending:
            self.add(Partial([None] * self.size))
        elif self.strict and self.new:
            self.reset()
        self.update()

    def _over(self, due: int, waiting: int) -> tuple[list[Partial], Partial | None]:
        """Return the partials that move on, and the last one that was too old."""
        over: list[Partial] = []
        kept: list[Partial] = []
        fallen = None
        for partial in self.pending:
            slots = partial.slots
            if self.too_old(partial, due):
                fallen = partial
                continue
            since = partial.timestamp if slots[self.slot] is None else slots[self.slot][0]
            if due < since + waiting:
                kept.append(partial)
                continue
            partner_came = slots[self.partner.slot] is not None
            if self.needs_both and partner_came:
                over.append(partial)
            elif not partner_came:
                # For `and` the other side may go on by itself now; `or` needs no more.
                slots[self.slot] = ABSENT
                if not self.needs_both:
                    over.append(partial)
        self.pending = kept
        return over, fallen

    def _send(self, partial: Partial) -> None:
        if self.is_last:
            self.around.matched(partial)
        if self.next is not None:
            self.next.add(partial)
        if self.every is not None:
            self.every.add_every(partial)
        elif self.is_start:
            self.active = False
            if not self.needs_both and isinstance(self.partner, AbsentLogicalState):
                self.partner.active = False
        if self.tells is not None:
            self.tells()

    def flags(self) -> list[Any]:
        """Return what is remembered besides partials."""
        return [*super().flags(), self.active, self.started, self.arrived, self.timer.snapshot()]

    def set_flags(self, flags: list[Any]) -> None:
        """Take over what `flags` returned."""
        *rest, self.active, self.started, self.arrived, due = flags
        super().set_flags(rest)
        self.timer.restore(due)
