"""The states of the automaton behind patterns and sequences, and the partial matches that move through them.

A *partial* is one attempt to match: a list of slots, one for each element of the pattern. Each state keeps the partials
that wait for its event (``pending``) and those that arrived since (``new``), which join them before the next event. A
partial moves on when an event fits; under ``every`` a copy stays behind to start over. Partials are shared between
states where Siddhi shares them (both sides of ``and``; a counted state and the one after it), so identity matters.

Source: io.siddhi.core.query.input.stream.state.StreamPreStateProcessor and its post processor, described in our own
words; quirks that its cases show are kept and named where they live.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from spdist.operators.base import Row

__all__ = ["ANYTHING", "Condition", "IndexedState", "Partial", "Slots", "State"]

Slots = list[Any]


@dataclass(frozen=True, slots=True)
class Condition:
    """What an event must meet to fit an element.

    Parameters
    ----------
    test : Callable[[Slots, int, Row], bool], optional
        The whole condition, given the partial's slots; None where any event fits.
    guard : Callable[[int, Row], bool], optional
        The part of it that looks at the event only.
    rest : Callable[[Slots, int, Row], bool], optional
        What is left of it where `guard` holds, and, for a state with an index, the keys are equal.
    event_key : Callable[[int, Row], Any], optional
        A value of the event that must equal…
    partial_key : Callable[[Slots], Any], optional
        … a value of the partial, which does not change while the partial waits. Null equals nothing.
    """

    test: Callable[[Slots, int, Row], bool] | None = None
    guard: Callable[[int, Row], bool] | None = None
    rest: Callable[[Slots, int, Row], bool] | None = None
    event_key: Callable[[int, Row], Any] | None = None
    partial_key: Callable[[Slots], Any] | None = None


ANYTHING = Condition()


class Partial:
    """One attempt to match.

    Parameters
    ----------
    slots : list
        For each element of the pattern: None, the event ``(timestamp, row)``, or for counted elements a list of them.
    timestamp : int
        That of the event that came last; -1 where none has come.
    """

    __slots__ = ("expired", "slots", "timestamp")

    def __init__(self, slots: Slots, timestamp: int = -1) -> None:
        self.slots = slots
        self.timestamp = timestamp
        self.expired = False

    def restart(self, first: int) -> Partial:
        """Return a copy without what came at slot `first` and later."""
        return Partial([*self.slots[:first], *[None] * (len(self.slots) - first)], self.timestamp)


class State:
    """An element that takes one event: ``e=S[condition]``.

    Parameters
    ----------
    slot : int
        Where its event goes.
    size : int
        Number of slots of a partial.
    condition : Condition
        What an event must meet.
    strict : bool
        True in sequences, where an event that does not fit ends the attempt.

    State
    -----
    ``pending`` and ``new``: partials that wait here, unbounded without ``within``; flags.
    """

    def __init__(self, slot: int, size: int, condition: Condition, strict: bool) -> None:
        self.slot = slot
        self.size = size
        self.condition = condition
        self.test = condition.test
        self.strict = strict
        # How the states hang together; set by `spdist.operators.pattern`.
        self.is_start = False
        self.is_last = False
        self.next: State | None = None
        self.every: State | None = None
        self.watched: State = self
        self.within: int | None = None
        self.start_slots: tuple[int, ...] = ()
        self.within_every: State | None = None
        self.tells: Callable[[], None] | None = None
        # What it remembers.
        self.pending: list[Partial] = []
        self.new: list[Partial] = []
        self.initialized = False
        self.returned = False

    # Partials come.

    def start(self) -> None:
        """Put the first partial into the first state, and another one where attempts start over."""
        follows_absence = self.strict and self.next is not None and self.next.is_absent
        if self.is_start and (not self.initialized or self.every is not None or follows_absence):
            self.initialized = True
            self.add(Partial([None] * self.size))

    @property
    def is_absent(self) -> bool:
        """Whether the state waits for an event not to come."""
        return False

    def add(self, partial: Partial) -> None:
        """Let a partial wait here."""
        if not (self.strict and self.new):
            self.new.append(partial)

    def add_every(self, partial: Partial) -> None:
        """Let a copy of a partial start over here."""
        self.new.append(partial.restart(self.slot))

    def update(self) -> None:
        """Let the partials that arrived join those that wait, in the order of their last events."""
        if self.new:
            if len(self.new) > 1:
                self.new.sort(key=_waiting_order)
            self.pending += self.new
            self.new = []

    # Partials go.

    def too_old(self, partial: Partial, time: int) -> bool:
        """Tell whether ``within`` has passed since the partial's first event."""
        if self.within is None:
            return False
        for slot in self.start_slots:
            held = partial.slots[slot]
            if held is not None:
                first = held[0] if isinstance(held, list) else held
                if abs(first[0] - time) > self.within:
                    return True
        return False

    def expire(self, time: int) -> None:
        """Drop the partials that are too old; where a repeated group holds this state, its last one starts over."""
        if self.within is None or not (self.pending or self.new):
            return
        fallen = None
        count = 0
        for partial in self.pending:
            # Only the head is looked at: what waits behind a younger partial stays.
            if not self.too_old(partial, time):
                break
            count += 1
            fallen = self._fall(partial, fallen)
        if count:
            del self.pending[:count]
        if self.new:
            kept = []
            for partial in self.new:
                if self.too_old(partial, time):
                    fallen = self._fall(partial, fallen)
                else:
                    kept.append(partial)
            self.new = kept
        if fallen is not None and self.within_every is not None:
            self.within_every.add_every(fallen)
            self.within_every.update()

    @staticmethod
    def _fall(partial: Partial, fallen: Partial | None) -> Partial | None:
        if partial.expired:
            return fallen
        partial.expired = True
        return partial

    def reset(self) -> None:
        """Before each event of a sequence: drop the partials that were not continued, and start over."""
        self.pending = []
        if self.is_start and not self.new:
            if self.strict and self.every is None and self.next is not None and self.next.pending:
                return
            self.start()

    # Events come.

    def offer(self, timestamp: int, row: Row) -> list[Partial]:
        """Offer an event to the partials that wait here; return those that are complete now, in order."""
        pending = self.pending
        if not pending:
            return []
        guard, test = self.condition.guard, self.condition.rest
        if guard is not None and not guard(timestamp, row):
            if not self.strict and not self.watched.returned:
                return []
            test = _nothing_fits
        complete: list[Partial] = []
        kept: list[Partial] = []
        for partial in pending:
            fits = test is None or test(partial.slots, timestamp, row)
            if fits:
                partial.slots[self.slot] = (timestamp, row)
                self._moved(partial, timestamp)
            if self.watched.returned:
                self.watched.returned = False
                complete.append(partial)
            if not fits:
                self._unfit(partial, kept)
        # What a state lets through may put partials into `new`, never into `pending`.
        self.pending = kept
        return complete

    def _unfit(self, partial: Partial, kept: list[Partial]) -> None:
        partial.slots[self.slot] = None
        if not (self.strict and self._ends_attempts):
            kept.append(partial)
        if self.strict and self.tells is not None:
            self.tells()

    @property
    def _ends_attempts(self) -> bool:
        return True

    def _moved(self, partial: Partial, timestamp: int) -> None:
        """Let a partial whose event came go on."""
        partial.timestamp = timestamp
        self._go_on(partial)
        if self.tells is not None:
            self.tells()

    def _go_on(self, partial: Partial) -> None:
        if self.is_last:
            self.returned = True
        if self.next is not None:
            self.next.add(partial)
        if self.every is not None:
            self.every.add_every(partial)

    # Storing.

    def held(self) -> Collection[Partial]:
        """Return the partials that wait here, in order."""
        return self.pending

    def wait_again(self, partials: Iterable[Partial]) -> None:
        """Take over the partials that waited here."""
        self.pending = list(partials)

    def flags(self) -> list[Any]:
        """Return what is remembered besides partials."""
        return [self.initialized, self.returned]

    def set_flags(self, flags: list[Any]) -> None:
        """Take over what `flags` returned."""
        self.initialized, self.returned = flags


def _nothing_fits(_slots: Slots, _timestamp: int, _row: Row) -> bool:
    return False


def _waiting_order(partial: Partial) -> tuple[bool, int]:
    return partial.timestamp == -1, partial.timestamp


class IndexedState(State):
    """A state of a pattern that finds the partials an event may fit by a value that both must share.

    State
    -----
    ``by_key``: the waiting partials by that value; ``order``: all of them, for expiry.
    """

    def __init__(self, slot: int, size: int, condition: Condition) -> None:
        super().__init__(slot, size, condition, strict=False)
        self.order: OrderedDict[int, Partial] = OrderedDict()
        self.by_key: dict[Any, dict[int, Partial]] = {}

    def update(self) -> None:
        """Let the partials that arrived join those that wait, in the order of their last events."""
        super().update()
        if self.pending:
            arrived, self.pending = self.pending, []
            self._index(arrived)

    def _index(self, partials: Iterable[Partial]) -> None:
        assert self.condition.partial_key is not None
        for partial in partials:
            self.order[id(partial)] = partial
            key = self.condition.partial_key(partial.slots)
            if key is not None:
                self.by_key.setdefault(key, {})[id(partial)] = partial

    def _forget(self, partial: Partial) -> None:
        assert self.condition.partial_key is not None
        del self.order[id(partial)]
        key = self.condition.partial_key(partial.slots)
        if key is not None:
            bucket = self.by_key[key]
            del bucket[id(partial)]
            if not bucket:
                del self.by_key[key]

    def expire(self, time: int) -> None:
        """Drop the partials that are too old; where a repeated group holds this state, its last one starts over."""
        order = self.order
        while order:
            partial = next(iter(order.values()))
            if not self.too_old(partial, time):
                break
            self._forget(partial)
            self.pending.append(partial)
        # What is in `pending` now is too old: the common rules apply to it and to what has just arrived.
        super().expire(time)

    def offer(self, timestamp: int, row: Row) -> list[Partial]:
        """Offer an event to the partials that share its value."""
        condition = self.condition
        assert condition.event_key is not None
        bucket = self.by_key.get(condition.event_key(timestamp, row))
        if bucket is None or (condition.guard is not None and not condition.guard(timestamp, row)):
            return []
        rest = condition.rest
        fitting = [p for p in bucket.values() if rest is None or rest(p.slots, timestamp, row)]
        complete: list[Partial] = []
        for partial in fitting:
            self._forget(partial)
            partial.slots[self.slot] = (timestamp, row)
            self._moved(partial, timestamp)
            if self.returned:
                self.returned = False
                complete.append(partial)
        return complete

    def held(self) -> Collection[Partial]:
        """Return the partials that wait here, in order."""
        return self.order.values()

    def wait_again(self, partials: Iterable[Partial]) -> None:
        """Take over the partials that waited here."""
        self.order.clear()
        self.by_key.clear()
        self._index(partials)
