"""The states of the automaton behind patterns and sequences, and the partial matches that move through them.

A *partial* is one attempt to match: a list of slots, one for each element of the pattern. Each state keeps the partials
that wait for its event (``pending``) and those that arrived since (``new``), which join them before the next event. A
partial moves on when an event fits; under ``every`` a copy stays behind to start over. Partials are shared between
states where Siddhi shares them (both sides of ``and``; a counted state and the one after it), so identity matters.

Source: io.siddhi.core.query.input.stream.state.StreamPreStateProcessor and its post processor, described in our own
words; quirks that its cases show are kept and named where they live.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from spdist.operators.base import Row

__all__ = ["ANYTHING", "NOT_KNOWN", "Bound", "ElementCondition", "Partial", "Slots", "State", "waiting_order"]

Slots = list[Any]


@dataclass(frozen=True, slots=True)
class Bound:
    """A comparison of a number of the event with a number that a partial brings, such as ``price > e1.price``.

    Parameters
    ----------
    op : str
        ``<``, ``<=``, ``>`` or ``>=``, the event's number on the left.
    attribute : int
        Where the event's number is.
    bound_of : Callable[[Iterable[Partial]], Any]
        From partials to what an event must compare with to fit any of them; None where no event can fit one, for null
        and NaN compare with nothing. What a partial brings does not change while it waits.
    """

    op: str
    attribute: int
    bound_of: Callable[[Iterable[Partial]], Any]

    def joined(self, known: Any, arrived: Any) -> Any:
        """Return the bound of some partials and of others, from those of each."""
        if known is None or arrived is None:
            return known if arrived is None else arrived
        return min(known, arrived) if self.op in (">", ">=") else max(known, arrived)


@dataclass(frozen=True, slots=True)
class ElementCondition:
    """What an event must meet to fit an element.

    Parameters
    ----------
    test : Callable[[Slots, int, Row], bool], optional
        The whole condition, given the partial's slots; None where any event fits.
    guard : Callable[[int, Row], bool], optional
        The part of it that looks at the event only.
    rest : Callable[[Slots, int, Row], bool], optional
        What is left of it where `guard` holds.
    fitting : Callable[[dict, int, Row], list], optional
        For a state with an index: those of the partials with the event's key which meet the rest; None where all do.
    event_key : int, optional
        The attribute of the event that must equal…
    partial_key : Callable[[Slots], Any], optional
        … a value of the partial, which does not change while the partial waits. Null equals nothing.
    bound : Bound, optional
        A comparison that the condition asks for, where one can tell for many partials together that none of them fits.
    """

    test: Callable[[Slots, int, Row], bool] | None = None
    guard: Callable[[int, Row], bool] | None = None
    rest: Callable[[Slots, int, Row], bool] | None = None
    fitting: Callable[[dict[int, Any], int, Row], list[Any]] | None = None
    event_key: int | None = None
    partial_key: Callable[[Slots], Any] | None = None
    bound: Bound | None = None


ANYTHING = ElementCondition()

#: A span of time that holds no time.
NOT_KNOWN = (1, 0)
_FOR_EVER = (-(2**63), 2**63)


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
        slots = self.slots
        return Partial(
            [*slots[:first], *[None] * (len(slots) - first)] if first else [None] * len(slots), self.timestamp
        )


class State:
    """An element that takes one event: ``e=S[condition]``.

    Parameters
    ----------
    slot : int
        Where its event goes.
    size : int
        Number of slots of a partial.
    condition : ElementCondition
        What an event must meet.
    strict : bool
        True in sequences, where an event that does not fit ends the attempt.

    State
    -----
    ``pending`` and ``new``: partials that wait here, unbounded without ``within``; flags.
    """

    def __init__(self, slot: int, size: int, condition: ElementCondition, strict: bool) -> None:
        self.slot = slot
        self.size = size
        self.condition = condition
        self.test = condition.test
        self.strict = strict
        # How the states hang together; set by `spdist.operators.patterns.pattern`.
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
        # From when to when nothing in `pending` is too old, so that it need not be looked at.
        self.calm = NOT_KNOWN
        self.oldest: Partial | None = None
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

    @cached_property
    def idles(self) -> bool:
        """Whether nothing happens here as long as no partial waits: that need not be asked then."""
        return not self.is_start and not self.is_absent

    @property
    def is_replaced(self) -> bool:
        """Whether, before an event of a sequence, what has arrived simply takes the place of what waited."""
        return self._is_plain and not self.is_start

    @cached_property
    def restless(self) -> bool:
        """Whether `update` does something also where no partial has arrived."""
        return not self._is_plain

    @property
    def _is_plain(self) -> bool:
        return type(self) is State

    @property
    def is_plain_first(self) -> bool:
        """Whether an event that this first state refuses by itself leaves nothing here and brings nothing out.

        Where the state that it watches for results takes several events or none, what was refused may be a result.
        """
        return self._is_plain and self.is_start and self.tells is None and self.watched._is_plain

    @property
    def expires(self) -> bool:
        """Whether partials that wait here may become too old; in a plain first state their first event is missing."""
        return self.within is not None and not (self.is_start and type(self) is State)

    def add(self, partial: Partial) -> None:
        """Let a partial wait here."""
        # In a sequence one attempt waits at a state; the first that arrives stays.
        if not (self.strict and self.new):
            self.new.append(partial)

    def add_every(self, partial: Partial) -> None:
        """Let a copy of a partial start over here."""
        self.new.append(partial.restart(self.slot))

    def update(self) -> None:
        """Let the partials that arrived join those that wait, in the order of their last events."""
        if self.new:
            if len(self.new) > 1:
                self.new.sort(key=waiting_order)
            self.pending += self.new
            self.new = []

    # Partials go.

    def too_old(self, partial: Partial, time: int) -> bool:
        """Tell whether ``within`` has passed since the partial's first event."""
        if self.within is None:
            return False
        slots = partial.slots
        for slot in self.start_slots:
            held = slots[slot]
            if held is not None:
                first = held[0][0] if isinstance(held, list) else held[0]
                # Either way: a late event can also lie too far before the first one.
                if not -self.within <= first - time <= self.within:
                    return True
        return False

    def calm_span(self) -> tuple[int, int]:
        """Return from when to when nothing in `pending` is too old: only what waits longest there is looked at."""
        return self._span(self.pending[0] if self.pending else None)

    def keeps(self, time: int) -> bool:
        """Tell whether `expire` would do nothing."""
        low, high = self.calm_span()
        if not low <= time <= high:
            return False
        for partial in self.new:
            low, high = self._span(partial)
            if not low <= time <= high:
                return False
        return True

    def _span(self, oldest: Partial | None) -> tuple[int, int]:
        """Return from when to when a partial is not too old; nothing is sure of one without its first event."""
        within = self.within
        if oldest is None or within is None:
            return NOT_KNOWN if within is None else _FOR_EVER
        if len(self.start_slots) == 1:
            held = oldest.slots[self.start_slots[0]]
            if type(held) is tuple:
                return held[0] - within, held[0] + within
        starts = [oldest.slots[slot] for slot in self.start_slots]
        times = [held[0][0] if isinstance(held, list) else held[0] for held in starts if held is not None]
        # Where none of the first events is too far away.
        return (max(times) - within, min(times) + within) if times else NOT_KNOWN

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
        # A partial that two states share falls only once.
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
            # In a sequence the event ends what waits; and a result left over from a failure is found below.
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
            # An event here completes the pattern where what follows needs none, as `B<0:>` does.
            if self.watched.returned:
                self.watched.returned = False
                complete.append(partial)
            if not fits:
                self._unfit(partial, kept)
        # What a state lets through may put partials into `new`, never into `pending`.
        self.pending = kept
        return complete

    def accept(self, timestamp: int, row: Row) -> list[Partial]:
        """Give an event that fits all partials to them; return those that are complete now, in order.

        For a first state that is plain, and where attempts start over.
        """
        complete: list[Partial] = []
        watched, following, size = self.watched, self.next, self.size
        for partial in self.pending:
            partial.slots[self.slot] = (timestamp, row)
            partial.timestamp = timestamp
            if following is None:
                self.returned = True
            else:
                following.add(partial)
            self.new.append(Partial([None] * size, timestamp))
            if watched.returned:
                watched.returned = False
                complete.append(partial)
        self.pending = []
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


def waiting_order(partial: Partial) -> tuple[bool, int]:
    """Return what partials that arrived are sorted by: their last events, those without any last."""
    return partial.timestamp == -1, partial.timestamp
