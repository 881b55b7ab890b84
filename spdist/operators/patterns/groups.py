"""The states of a pattern that take several events, or one of two.

Source: io.siddhi.core.query.input.stream.state.CountPreStateProcessor and LogicalPreStateProcessor with their post
processors, described in our own words.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from spdist.operators.base import Arrival, Row
from spdist.operators.patterns.states import ElementCondition, Partial, State

__all__ = ["CountingState", "SideState"]


class CountingState(State):
    """An element that takes several events: ``e=S<min:max>``.

    A partial that has enough waits here for more and at the next state for its event, at the same time; it leaves here
    when the next state's event has come.
    """

    def __init__(
        self, slot: int, size: int, condition: ElementCondition, strict: bool, least: int, most: int | None
    ) -> None:
        super().__init__(slot, size, condition, strict)
        self.least = least
        self.most = most
        self.starts_over = False
        # Two slots: where a pair follows, either side of it may have come.
        self.following = slice(slot + 1, slot + 3)
        self.nothing = [None] * len(range(size)[self.following])

    @property
    def is_replaced(self) -> bool:
        """Whether, before an event of a sequence, what has arrived simply takes the place of what waited."""
        return not self.is_start

    def add(self, partial: Partial) -> None:
        """Let a partial wait here; where nothing need come, it has enough immediately."""
        if not (self.strict and self.new):
            self.new.append(partial)
        if self.least == 0 and partial.slots[self.slot] is None:
            self._enough(partial)

    def start_over(self) -> None:
        """Remember that the next update starts a new attempt (sequences that may begin with nothing)."""
        self.starts_over = True

    def update(self) -> None:
        """Let the partials that arrived join those that wait."""
        if self.starts_over:
            self.starts_over = False
            self.start()
        super().update()

    def offer(self, timestamp: int, row: Row) -> list[Partial]:
        """Offer an event to the partials that collect here."""
        complete: list[Partial] = []
        kept: list[Partial] = []
        following, nothing = self.following, self.nothing
        for partial in self.pending:
            slots = partial.slots
            if slots[following] != nothing:
                continue  # the next state's event has come
            fits = self.test is None or self.test(slots, timestamp, row)
            leaves = False
            if fits:
                leaves = self._collect(partial, (timestamp, row))
            if self.watched.returned:
                self.watched.returned = False
                complete.append(partial)
            if not leaves and (fits or not self.strict):
                kept.append(partial)
        self.pending = kept
        return complete

    def _collect(self, partial: Partial, event: Arrival) -> bool:
        """Add an event; return whether the partial leaves this state."""
        chain = partial.slots[self.slot]
        if chain is None:
            chain = partial.slots[self.slot] = []
        chain.append(event)
        partial.timestamp = event[0]
        count = len(chain)
        leaves = False
        if self.strict:
            if count >= self.least and self.next is not None:
                self.next.add(partial)
            if count != self.most:
                # Also before it has its least number: Siddhi forgets it then, so that such a sequence never matches.
                self.add(partial)
        # Just then it begins to wait at the next state as well; further events find it there.
        elif count == self.least:
            leaves = self._enough(partial)
        return leaves or (count >= self.least and count == self.most)

    def _enough(self, partial: Partial) -> bool:
        """Let a partial that has its least number go on as well; return whether it leaves this state."""
        self._go_on(partial)
        return self.is_last

    def flags(self) -> list[Any]:
        """Return what is remembered besides partials."""
        return [*super().flags(), self.starts_over]

    def set_flags(self, flags: list[Any]) -> None:
        """Take over what `flags` returned."""
        *rest, self.starts_over = flags
        super().set_flags(rest)


class SideState(State):
    """One side of ``a and b`` or ``a or b``; both sides hold the same partials."""

    partner: SideState

    def __init__(self, slot: int, size: int, condition: ElementCondition, strict: bool, needs_both: bool) -> None:
        super().__init__(slot, size, condition, strict)
        self.needs_both = needs_both

    @cached_property
    def idles(self) -> bool:
        """Return False: each side looks after the other one too."""
        return False

    def add(self, partial: Partial) -> None:
        """Let a partial wait at both sides."""
        partner = self.partner
        if self.is_start or self.strict:
            # Only one at a time: a second one waits for nobody.
            if not self.new:
                self.new.append(partial)
            if not partner.new:
                partner.new.append(partial)
        else:
            self.new.append(partial)
            partner.new.append(partial)

    def add_every(self, partial: Partial) -> None:
        """Let a copy start over at both sides."""
        copy = partial.restart(self.slot)
        copy.slots[self.partner.slot] = None
        self.new.append(copy)
        self.partner.new.append(copy)

    def update(self) -> None:
        """Let the partials that arrived at either side join those that wait."""
        super().update()
        State.update(self.partner)

    def reset(self) -> None:
        """Before each event of a sequence: drop the partials that were not continued, and start over."""
        if self.needs_both and len(self.pending) != len(self.partner.pending):
            return
        self.partner.pending = []
        super().reset()

    def offer(self, timestamp: int, row: Row) -> list[Partial]:
        """Offer an event to the partials that wait for this side."""
        complete: list[Partial] = []
        kept: list[Partial] = []
        for partial in self.pending:
            slots = partial.slots
            if not self.needs_both and slots[self.partner.slot] is not None:
                continue  # the other side has come
            fits = self.test is None or self.test(slots, timestamp, row)
            if fits:
                slots[self.slot] = (timestamp, row)
                self._came(partial, timestamp)
            if self.watched.returned:
                self.watched.returned = False
                complete.append(partial)
            if not fits:
                slots[self.slot] = None
                if not self.strict:
                    kept.append(partial)
        self.pending = kept
        return complete

    def _came(self, partial: Partial, timestamp: int) -> None:
        if self.needs_both and not self.partner.lets_pass(partial):
            return
        self._moved(partial, timestamp)
        if self.partner.is_last and self.watched is self.partner:
            # A pattern that is nothing but this pair looks for results at one side only, so that side is told. Siddhi
            # does so for ``or``; an ``and`` that its first side completes is lost there.
            self.partner.returned = True

    def lets_pass(self, partial: Partial) -> bool:
        """Tell the partner whether this side is settled for a partial."""
        return partial.slots[self.slot] is not None
