"""How the states of a pattern or sequence hang together: from the elements of its text to states.

Source: io.siddhi.core.util.parser.StateInputStreamParser, described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from spdist.language import ast
from spdist.language.checking.scope import Scope, pattern_elements
from spdist.operators.base import Timer, Timers, VirtualClock
from spdist.operators.expressions.expression import unsupported
from spdist.operators.patterns.absence import AbsenceState, AbsentLogicalState
from spdist.operators.patterns.groups import CountingState, SideState
from spdist.operators.patterns.index import IndexedState
from spdist.operators.patterns.states import ANYTHING, ElementCondition, Partial, State

__all__ = ["Element", "PatternShape", "PatternStates", "pattern_states"]

Element = ast.StreamState | ast.AbsentState


@dataclass(frozen=True, slots=True)
class _Segment:
    """A part of a pattern: where partials enter and where they leave it."""

    first: State
    last: State

    def leads_to(self, following: State) -> None:
        for state in self._ends():
            state.next = following
        if isinstance(self.last, CountingState) and self.last.is_start and self.last.strict and self.last.least == 0:
            following.tells = self.last.start_over

    def repeats(self) -> None:
        for state in self._ends():
            state.every = self.first

    def completes(self) -> None:
        for state in self._ends():
            state.is_last = True

    def _ends(self) -> tuple[State, ...]:
        return (self.last, self.last.partner) if isinstance(self.last, SideState) else (self.last,)


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

    def condition(self, _position: int) -> ElementCondition:
        """Return the condition of an element."""
        return ANYTHING


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
        self.waiting: list[AbsenceState | AbsentLogicalState] = []
        # What a sequence resets and updates: of a pair of `and` or `or` only the second side.
        self.units: list[State] = []
        self._position = 0
        segment = self._segment(plan.input.element, True)
        segment.completes()
        # What follows may need no event, so the first one can complete the pattern.
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
        position = self._next_position()
        slot, size, strict = self.plan.slots[position], self.plan.size, self.plan.strict
        condition = self.plan.condition(position)
        state: State
        if isinstance(element, ast.CountState):
            state = CountingState(slot, size, condition, strict, element.min, element.max)
        elif isinstance(element, ast.AbsentState):
            if element.waiting is None:
                raise unsupported("'not' without 'for' that is no side of 'and'", element.span)
            state = waiting = AbsenceState(slot, size, condition, strict, element.waiting.milliseconds, self)
            self.waiting.append(waiting)
        elif condition.event_key is not None:
            state = IndexedState(slot, size, condition)
        else:
            state = State(slot, size, condition, strict)
        return self._known(state, position, is_start)

    def _next_position(self) -> int:
        position = self._position
        self._position += 1
        return position

    def _known(self, state: State, position: int, is_start: bool) -> State:
        state.is_start = is_start
        self.states.append(state)
        self.stream_of[id(state)] = self.plan.stream_ids[position]
        return state

    def _pair(self, element: ast.LogicalState, is_start: bool) -> _Segment:
        positions = {id(element.left): self._next_position(), id(element.right): self._next_position()}
        left, right = _sides(element)
        first, second = (self._side(side, positions[id(side)], element.op == "and") for side in (left, right))
        first.partner, second.partner = second, first
        self._known(second, positions[id(right)], is_start)
        self._known(first, positions[id(left)], is_start)
        self.units.append(second)
        return _Segment(first, second)

    def _side(self, side: Element, position: int, needs_both: bool) -> SideState:
        slot, size, strict = self.plan.slots[position], self.plan.size, self.plan.strict
        condition = self.plan.condition(position)
        if isinstance(side, ast.StreamState):
            return SideState(slot, size, condition, strict, needs_both)
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
