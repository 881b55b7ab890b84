"""Patterns and sequences as one automaton: from the text to states, and from events to matches.

The tests of a pattern's elements are written as Python once; each partition key gets states of its own around them.

Source: io.siddhi.core.util.parser.StateInputStreamParser (how states hang together) and the process stream receivers of
io.siddhi.core.query.input.stream.state.receiver (in which order an event is offered), described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.scope import Scope, pattern_elements
from spdist.operators.base import Arrival, Row, Timer, Timers, VirtualClock
from spdist.operators.expressions.expression import unsupported
from spdist.operators.patterns.absence import AbsentLogicalState, AbsentState
from spdist.operators.patterns.conditions import ConditionWriter
from spdist.operators.patterns.groups import CountState, LogicalState
from spdist.operators.patterns.index import IndexedState
from spdist.operators.patterns.rests import PatternRests
from spdist.operators.patterns.states import ANYTHING, Condition, Partial, State

__all__ = ["Automaton", "PatternPlan", "PatternStates", "pattern_states"]

Element = ast.StreamState | ast.AbsentState


@dataclass(frozen=True, slots=True)
class _Segment:
    """A part of a pattern: where partials enter and where they leave it."""

    first: State
    last: State

    def leads_to(self, following: State) -> None:
        for state in self._ends():
            state.next = following
        if isinstance(self.last, CountState) and self.last.is_start and self.last.strict and self.last.least == 0:
            following.tells = self.last.start_over

    def repeats(self) -> None:
        for state in self._ends():
            state.every = self.first

    def completes(self) -> None:
        for state in self._ends():
            state.is_last = True

    def _ends(self) -> tuple[State, ...]:
        return (self.last, self.last.partner) if isinstance(self.last, LogicalState) else (self.last,)


class PatternShape:
    """The elements of a pattern or sequence, without what they ask of events.

    Parameters
    ----------
    input : PatternInput
        The pattern or sequence.
    scope : Scope
        Its elements, in the order of the text.
    """

    def __init__(self, input: ast.PatternInput, scope: Scope) -> None:
        self.input = input
        self.scope = scope
        self.strict = input.kind == "sequence"
        self.elements: list[Element] = [element for element, _ in pattern_elements(input.element)]
        self.slots = _slots(input.element)
        self.size = len(self.elements)
        self.stream_ids = [element.input.stream.id for element in self.elements]
        #: By position, the other side of each side of an ``and`` or ``or``.
        self.partners = _partners(input.element)

    def condition(self, _position: int) -> Condition:
        """Return the condition of an element."""
        return ANYTHING


class PatternPlan(PatternShape):
    """What is known of a pattern before any event comes.

    Parameters
    ----------
    title : str
        The query's name.
    input : PatternInput
        The pattern or sequence.
    scope : Scope
        Its elements, in the order of the text.
    catalog : Catalog
        Signatures.
    """

    def __init__(self, title: str, input: ast.PatternInput, scope: Scope, catalog: Catalog) -> None:
        super().__init__(input, scope)
        self.title = title
        self.catalog = catalog
        #: What makes the loop over a stream, by its id; see `spdist.operators.patterns.loops`.
        self.loops: dict[str, Callable[..., Any]] = {}
        self._conditions = self._written_conditions(title)

    def _written_conditions(self, title: str) -> list[Condition]:
        writer = ConditionWriter(title, self.scope, self.catalog, self.slots)
        counted = [counted for _, counted in pattern_elements(self.input.element)]
        for position, element in enumerate(self.elements):
            plain = isinstance(element, ast.StreamState) and not counted[position] and position not in self.partners
            conditions = list(_filters(element.input))
            writer.add(position, conditions, self.partners.get(position), plain and not self.strict)
        self.parts = writer.parts
        return writer.conditions(self.size)

    def automaton(
        self,
        clock: VirtualClock,
        timer: Callable[[Callable[[int], None]], Timer],
        matched: Callable[[Partial], None],
    ) -> Automaton:
        """Return the states of one partition key, or of the whole app; `matched` takes complete matches."""
        return Automaton(self, PatternStates(self, clock, timer, matched))

    def condition(self, position: int) -> Condition:
        """Return the condition of an element."""
        return self._conditions[position]


def _filters(input: ast.SingleInput) -> Iterator[ast.Expression]:
    if input.window is not None:
        raise unsupported("a window inside a pattern", input.window.span)
    for handler in (*input.before, *input.after):
        if not isinstance(handler, ast.Filter):
            raise unsupported("a stream function inside a pattern", handler.span)
        yield handler.condition


class PatternStates:
    """The states of one automaton, as they hang together; also what waiting states need from the app.

    Parameters
    ----------
    plan : PatternShape
        The elements.
    clock : VirtualClock
        The app's clock.
    timer : callable
        Makes a timer for a state that waits.
    matched : callable
        Takes complete matches.
    """

    def __init__(
        self,
        plan: PatternShape,
        clock: VirtualClock,
        timer: Callable[[Callable[[int], None]], Timer],
        matched: Callable[[Partial], None],
    ) -> None:
        self.plan = plan
        self.clock = clock
        self.timer = timer
        self.matched = matched
        # In the order in which Siddhi makes them, which is that of expiry.
        self.states: list[State] = []
        self.stream_of: dict[int, str] = {}
        self.waiting: list[AbsentState | AbsentLogicalState] = []
        # What a sequence resets and updates: of a pair of `and` or `or` only the second side.
        self.units: list[State] = []
        self._position = 0
        segment = self._segment(plan.input.element, True)
        segment.completes()
        segment.first.watched = segment.last
        if plan.input.within is not None:
            starts = tuple(state.slot for state in self.states if state.is_start)
            for state in self.states:
                state.within = plan.input.within.milliseconds
                state.start_slots = starts

    def _segment(self, element: ast.StateElement, is_start: bool) -> _Segment:
        match element:
            case ast.StreamState() | ast.CountState() | ast.AbsentState():
                state = self._state(element, is_start)
                self.units.append(state)
                return _Segment(state, state)
            case ast.LogicalState():
                return self._pair(element, is_start)
            case ast.EveryState():
                return self._repeated(element, is_start)
            case ast.ChainState():
                return self._chain(element, is_start)
        raise unsupported(f"'{type(element).__name__}' in a pattern", element.span)

    def _state(self, element: ast.StateElement, is_start: bool) -> State:
        position = self._take()
        slot, size, strict = self.plan.slots[position], self.plan.size, self.plan.strict
        condition = self.plan.condition(position)
        state: State
        if isinstance(element, ast.CountState):
            state = CountState(slot, size, condition, strict, element.min, element.max)
        elif isinstance(element, ast.AbsentState):
            if element.waiting is None:
                raise unsupported("'not' without 'for' that is no side of 'and'", element.span)
            state = waiting = AbsentState(slot, size, condition, strict, element.waiting.milliseconds, self)
            self.waiting.append(waiting)
        elif condition.event_key is not None:
            state = IndexedState(slot, size, condition)
        else:
            state = State(slot, size, condition, strict)
        return self._known(state, position, is_start)

    def _take(self) -> int:
        position = self._position
        self._position += 1
        return position

    def _known(self, state: State, position: int, is_start: bool) -> State:
        state.is_start = is_start
        self.states.append(state)
        self.stream_of[id(state)] = self.plan.stream_ids[position]
        return state

    def _pair(self, element: ast.LogicalState, is_start: bool) -> _Segment:
        positions = {id(element.left): self._take(), id(element.right): self._take()}
        left, right = _sides(element)
        first, second = (self._side(side, positions[id(side)], element.op == "and") for side in (left, right))
        first.partner, second.partner = second, first
        self._known(second, positions[id(right)], is_start)
        self._known(first, positions[id(left)], is_start)
        self.units.append(second)
        return _Segment(first, second)

    def _side(self, side: Element, position: int, needs_both: bool) -> LogicalState:
        slot, size, strict = self.plan.slots[position], self.plan.size, self.plan.strict
        condition = self.plan.condition(position)
        if isinstance(side, ast.StreamState):
            return LogicalState(slot, size, condition, strict, needs_both)
        waiting = None if side.waiting is None else side.waiting.milliseconds
        absent = AbsentLogicalState(slot, size, condition, strict, needs_both, waiting, self)
        self.waiting.append(absent)
        return absent

    def _repeated(self, element: ast.EveryState, is_start: bool) -> _Segment:
        states, units = len(self.states), len(self.units)
        segment = self._segment(element.element, is_start)
        segment.repeats()
        for state in self.states[states:]:
            state.within_every = segment.first
        # A sequence resets and updates only the first state of what is repeated.
        self.units[units:] = [segment.first]
        return segment

    def _chain(self, element: ast.ChainState, is_start: bool) -> _Segment:
        parts = _repeated_whole(element.elements) if self.plan.strict else element.elements
        segments = [self._segment(part, is_start and i == 0) for i, part in enumerate(parts)]
        for current, following in pairwise(segments):
            current.leads_to(following.first)
        return _Segment(segments[0].first, segments[-1].last)


def pattern_states(input: ast.PatternInput, scope: Scope) -> PatternStates:
    """Return the states of a pattern as they hang together, which ask nothing of events and are never woken."""
    clock = VirtualClock()
    timers = Timers(clock)
    return PatternStates(PatternShape(input, scope), clock, lambda wake: Timer(timers, (0, 0, 0), wake), lambda _: None)


def _repeated_whole(parts: tuple[ast.StateElement, ...]) -> tuple[ast.StateElement, ...]:
    """Return the parts of a sequence as Siddhi's grammar reads them.

    With an absence in the middle and an event at the end, ``every`` before the first element repeats all but the last.
    """
    first, *middle, last = parts
    has_absence = any(isinstance(part, ast.AbsentState) for part in middle)
    if isinstance(first, ast.EveryState) and has_absence and not isinstance(last, ast.AbsentState):
        return (ast.EveryState(ast.ChainState((first.element, *middle), span=first.span), span=first.span), last)
    return parts


def _sides(element: ast.LogicalState) -> tuple[Element, Element]:
    """Return both sides in Siddhi's order: an absence stands before an event."""
    left, right = element.left, element.right
    swapped = isinstance(right, ast.AbsentState) and isinstance(left, ast.StreamState)
    return (right, left) if swapped else (left, right)


def _slots(element: ast.StateElement) -> list[int]:
    """Return the slot of each element, in the order of the text; Siddhi numbers the second side of a pair first."""
    slots: list[int] = []
    for part in _units_of(element):
        if isinstance(part, ast.LogicalState):
            first = len(slots)
            _, second = _sides(part)
            slots += [first, first + 1] if second is part.left else [first + 1, first]
        else:
            slots.append(len(slots))
    return slots


def _partners(element: ast.StateElement) -> dict[int, int]:
    """Return, by position, the other side of each side of an ``and`` or ``or``."""
    partners: dict[int, int] = {}
    position = 0
    for part in _units_of(element):
        if isinstance(part, ast.LogicalState):
            partners |= {position: position + 1, position + 1: position}
            position += 1
        position += 1
    return partners


def _units_of(element: ast.StateElement) -> Iterator[ast.StateElement]:
    if isinstance(element, ast.EveryState):
        yield from _units_of(element.element)
    elif isinstance(element, ast.ChainState):
        for part in element.elements:
            yield from _units_of(part)
    else:
        yield element


class Automaton:
    """The states of a pattern at work.

    State
    -----
    The partials that wait, each stored once however many states hold it; flags and wake-ups of the states.
    """

    def __init__(self, plan: PatternPlan, builder: PatternStates) -> None:
        self.plan = plan
        self.states = builder.states
        self.units = builder.units
        self.waiting = builder.waiting
        if self.waiting:
            builder.matched = PatternRests(self).noting(builder.matched)
        self.matched = builder.matched
        self.readers: dict[str, list[State]] = {}
        for state in self.states:
            self.readers.setdefault(builder.stream_of[id(state)], []).append(state)

    def start(self) -> None:
        """Put the first partial into the first state, and begin to wait where that waits."""
        for state in self.states:
            state.start()
        for waiting in self.waiting:
            waiting.begin()

    def offering(self, stream_id: str, begin: Callable[[], None] | None = None) -> Callable[[int, Row], None]:
        """Return what takes one event of a stream and offers it to the elements that read it, last element first.

        `begin`, given where several elements read the stream, is called before what an element puts out, and where
        absences wait, before each element.
        """
        readers = tuple(reversed(self.readers[stream_id]))
        # What an earlier element leads to counts only where the last one that reads this stream completes the pattern.
        completes = begin is None or readers[0].is_last
        prepare, matched = self._preparing(stream_id), self.matched
        absences = begin is not None and bool(self.waiting)
        first = readers[-1]
        swiftly = self._swiftly(stream_id, begin)
        if swiftly is not None:
            return swiftly
        guard = first.condition.guard if first.is_plain_first and not absences else None
        watched = first.watched

        def take(timestamp: int, row: Row) -> None:
            # A result left over from an event that failed is shown by the common way only.
            refused = guard is not None and not watched.returned and not guard(timestamp, row)
            prepare(timestamp, refused)
            for state in readers:
                if absences:
                    begin()  # type: ignore[misc]
                elif (not state.pending and state.idles) or (refused and state is first):
                    continue
                complete = state.offer(timestamp, row)
                if complete and completes:
                    if begin is not None:
                        begin()
                    for partial in complete:
                        matched(partial)

        return take

    def many(self, stream_id: str, arrivals: Sequence[Arrival]) -> None:
        """Take the events of one chunk of a stream that one element reads; matches come out after the last one."""
        complete: list[Partial] = []
        state, prepare = self.readers[stream_id][0], self._preparing(stream_id)
        for timestamp, row in arrivals:
            prepare(timestamp, False)
            complete += state.offer(timestamp, row)
        for partial in complete:
            self.matched(partial)

    def _preparing(self, stream_id: str) -> Callable[[int, bool], None]:
        """Return what drops what is too old, and lets new partials join, before an event of a stream is offered.

        It is told whether the first element will refuse the event by itself: an attempt of a sequence that would start
        with it ends at once then, so none is made.
        """
        expiring = tuple(state for state in self.states if state.expires)
        units, readers = tuple(self.units), tuple(self.readers[stream_id])
        first = readers[0]

        def relaxed(timestamp: int, _refused: bool) -> None:
            for state in expiring:
                if not state.keeps(timestamp):
                    state.expire(timestamp)
            for state in readers:
                if state.new or state.restless:
                    state.update()

        def strict(timestamp: int, refused: bool) -> None:
            for state in expiring:
                state.expire(timestamp)
            if refused:
                first.pending, first.new = [], []
            for state in reversed(units):
                if (state.pending or not state.idles) and not (refused and state is first):
                    state.reset()
            for state in units:
                if (state.new or state.restless) and not (refused and state is first):
                    state.update()

        return strict if self.plan.strict else relaxed

    def _swiftly(self, stream_id: str, begin: Callable[[], None] | None) -> Callable[[int, Row], None] | None:
        """Return what `offering` does where attempts begin with every event that the first element likes; else None.

        The elements after it are plain, in sequences also counted ones: their attempts move on or end with each event.
        """
        readers, strict = self.readers[stream_id], self.plan.strict
        first, others = readers[0], tuple(state for state in self.units if state is not readers[0])
        guard = first.condition.guard
        settled = guard is not None and first.condition.rest is None
        simple = all(state.is_replaced for state in (others if strict else readers[1:]))
        begins = first.is_plain_first and first.every is first and first in self.units
        if not (settled and simple and begins) or self.waiting:
            return None
        expiring = tuple(state for state in self.states if state.expires)
        if strict and expiring:
            return None
        later, watched, size = tuple(reversed(readers[1:])), first.watched, first.size
        completes, matched = begin is None or readers[-1].is_last, self.matched

        def take(timestamp: int, row: Row) -> None:
            accepted = guard(timestamp, row)  # type: ignore[misc]
            # A result left over from an event that failed is shown with an attempt, even if that ends at once.
            offered = accepted or watched.returned
            if strict:
                for state in others:
                    if state.new:
                        state.pending, state.new = state.new, []
                    elif state.pending:
                        state.pending = []
                if offered:
                    first.pending, first.new = first.new or [Partial([None] * size)], []
                elif first.new or first.pending:
                    first.pending, first.new = [], []
            else:
                for state in expiring:
                    if not state.keeps(timestamp):
                        state.expire(timestamp)
                for state in readers:
                    if state.new:
                        state.update()
            for state in later:
                if state.pending or not state.idles:
                    complete = state.offer(timestamp, row)
                    if complete and completes:
                        if begin is not None:
                            begin()
                        for partial in complete:
                            matched(partial)
            if offered and first.pending:
                complete = first.accept(timestamp, row) if accepted else first.offer(timestamp, row)
                if complete and completes:
                    if begin is not None:
                        begin()
                    for partial in complete:
                        matched(partial)

        return take

    def snapshot(self) -> Any:
        """Return partials, where they wait, and flags."""
        partials: dict[int, int] = {}
        table: list[Partial] = []

        def number(partial: Partial) -> int:
            if id(partial) not in partials:
                partials[id(partial)] = len(table)
                table.append(partial)
            return partials[id(partial)]

        places = [[[number(p) for p in s.held()], [number(p) for p in s.new], s.flags()] for s in self.states]
        return [_stored(table), places]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        stored, places = state
        table = _revived(stored)
        for element, (pending, new, flags) in zip(self.states, places, strict=True):
            element.wait_again(table[i] for i in pending)
            element.new = [table[i] for i in new]
            element.set_flags(flags)


def _stored(table: list[Partial]) -> Any:
    """Return partials as plain data; lists of counted elements that several partials share are stored once."""
    chains: dict[int, int] = {}
    lists: list[list[Arrival]] = []
    rows = []
    for partial in table:
        slots = []
        for held in partial.slots:
            if isinstance(held, list):
                if id(held) not in chains:
                    chains[id(held)] = len(lists)
                    lists.append(held)
                slots.append(chains[id(held)])
            else:
                slots.append(held)
        rows.append([partial.timestamp, partial.expired, slots])
    return [lists, rows]


def _revived(stored: Any) -> list[Partial]:
    lists, rows = stored
    table = []
    for timestamp, expired, slots in rows:
        partial = Partial([lists[held] if isinstance(held, int) else held for held in slots], timestamp)
        partial.expired = expired
        table.append(partial)
    return table
