"""Which patterns and sequences there are, and whether their partial matches wait in lists, by keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from spdist.language import ast
from spdist.language.checking.checked import CheckedQuery
from spdist.language.checking.scope import Reference, Scope, filter_conditions
from spdist.language.types import Type
from spdist.operators.expressions.lookup import INDEXABLE, conjuncts
from spdist.operators.patterns.absence import AbsenceState, AbsentLogicalState
from spdist.operators.patterns.groups import CountingState, SideState
from spdist.operators.patterns.states import State
from spdist.operators.patterns.structure import PatternStates, pattern_states
from spdist.program.expressions import NotTyped
from spdist.program.read_shape import LoopWindow
from spdist.program.windows.shape import shows_snapshots

__all__ = ["AttributeBound", "Key", "Matched", "Step", "matched"]

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NUMBERS = (Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE)


@dataclass(frozen=True, slots=True)
class Key:
    """An equality between the arriving event and an earlier one, as places: partial matches are found by it."""

    own: int
    earlier: int


@dataclass(frozen=True, slots=True)
class AttributeBound:
    """A comparison of the arriving event's number, on the left, with that of an earlier event, as places.

    Where the event does not fit the easiest of all partial matches, none is looked at.
    """

    op: str
    own: int
    earlier: int

    @property
    def least(self) -> bool:
        """Whether the easiest one is the least."""
        return self.op in (">", ">=")


@dataclass(frozen=True, slots=True)
class Step:
    """An element that one event matches, or that waits for such an event not to come.

    Parameters
    ----------
    stream : str
        What it reads.
    scope : Scope
        What its conditions may name.
    alone : tuple of Expression
        The conditions that look at the arriving event only.
    rest : tuple of Expression
        The other ones, without the key.
    key : Key, optional
        An equality among its conditions; None in a sequence, where one match waits at most.
    bound : AttributeBound, optional
        A comparison among `rest`.
    waiting : int, optional
        How long no such event may come, ms; None where one must come.
    counted : bool
        Whether several events match it.
    least, most : int
        How many, then; `most` None: without end.
    slot : int
        Its place in a match, as the operators have it: of two sides of ``and`` or ``or`` the second one is first.
    partner : int, optional
        The other side of an ``and`` or ``or``.
    both : bool
        Whether both sides must come.
    absent : bool
        Whether it is a side that must not come before the other one does.
    """

    stream: str
    scope: Scope
    alone: tuple[ast.Expression, ...]
    rest: tuple[ast.Expression, ...]
    key: Key | None
    bound: AttributeBound | None
    waiting: int | None = None
    counted: bool = False
    least: int = 1
    most: int | None = 1
    slot: int = 0
    partner: int | None = None
    both: bool = False
    absent: bool = False

    @property
    def lingers(self) -> bool:
        """Whether matches may still be in its lists that have gone on, until an event is offered to it."""
        return self.counted or (self.partner is not None and not self.both)

    @property
    def optional(self) -> bool:
        """Whether a match may have no event of it, or has not yet when the condition of another one is asked."""
        return self.counted or self.partner is not None


@dataclass(frozen=True, slots=True)
class Matched:
    """A query over a pattern or sequence.

    Its attributes have places: those of the first element, then those of the second one, and so on; of a counted
    element those of its last event. Behind them are places for other events of counted elements, as they are asked for.

    Parameters
    ----------
    number : int
        Its place in the app.
    checked : CheckedQuery
        The query.
    steps : tuple of Step
        The elements.
    bases : tuple of int
        The place of the first attribute of each element; at the end the number of all.
    strict : bool
        Whether it is a sequence: an event that does not fit ends an attempt.
    repeated : int
        How many elements `every` stands in front of.
    within : int
        How long after its first event a match may be complete, ms; 0: for ever.
    states : PatternStates, optional
        Where matches go on as those of the operators do, one after the other: how these states hang together. None
        where they wait in lists.
    """

    number: int
    checked: CheckedQuery
    steps: tuple[Step, ...]
    bases: tuple[int, ...]
    strict: bool
    repeated: int
    within: int
    states: PatternStates | None = field(default=None, compare=False)
    #: The other events of counted elements that have places: element, whether counted from the last one, and index.
    others: list[tuple[int, bool, int]] = field(default_factory=list, compare=False)

    #: A pattern has no window, and puts out nothing that has left one.
    window = None
    events = "current"
    puts_out_current = True
    puts_out_expired = False
    renews = False
    lists: tuple[str, ...] = ()

    @property
    def timed(self) -> bool:
        """Whether it waits for events not to come."""
        return bool(self.absences)

    @property
    def shares(self) -> bool:
        """Whether a partial match may wait at several elements."""
        return self.states is not None or any(step.optional for step in self.steps)

    def may_lack(self, n: int) -> bool:
        """Tell whether a match may have no event of an element, or not yet when that of another one is tested."""
        return self.states is not None or self.steps[n].optional

    @property
    def order(self) -> list[int]:
        """The elements in the order of their slots."""
        return sorted(range(len(self.steps)), key=lambda n: self.steps[n].slot)

    @property
    def starts(self) -> tuple[int, ...]:
        """The elements that a match begins with: one, or both sides of an ``and`` or ``or``."""
        return (0,) if self.steps[0].partner is None else (1, 0)

    @property
    def listed(self) -> list[int]:
        """The elements where partial matches are in lists."""
        return [n for n in self.order if n not in self.starts or self.steps[n].optional]

    def following(self, n: int) -> int:
        """Return the element behind one; the number of all behind the last one."""
        return max(n, self.steps[n].partner or 0) + 1

    def is_last(self, n: int) -> bool:
        """Tell whether an element completes matches."""
        return self.following(n) == len(self.steps)

    def begins_anew(self, n: int) -> bool:
        """Tell whether another match begins where one is too old at an element."""
        return bool(self.repeated) and n in self.starts if self.shares else n < self.repeated

    @property
    def waits(self) -> bool:
        """Whether matches are complete also when time has passed, and not only when an event comes."""
        return self.states is not None or self.steps[-1].waiting is not None

    @property
    def absences(self) -> list[int]:
        """The elements that wait for an event not to come."""
        waiting = [n for n, step in enumerate(self.steps) if step.waiting is not None]
        if self.states is None:
            return waiting
        # Their places are those of their timers, so of one time the one fires first that does among operators.
        made = [state.slot for state in self.states.waiting]
        return sorted(waiting, key=lambda n: made.index(self.steps[n].slot))

    @property
    def shortest_wait(self) -> int | None:
        """The shortest wait that may follow one of its own kind while no event comes, ms; None where none may."""
        found = [] if self.states is None else [self.steps[n].waiting for n in self.absences]
        return min(filter(None, found), default=None)

    @property
    def streams(self) -> tuple[str, ...]:
        """What it reads, each once."""
        return tuple(dict.fromkeys(step.stream for step in self.steps))

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the attributes, by place."""
        sources = self.checked.scope.sources
        own = [sources[element] for element, *_ in self.others]
        return tuple(type for source in (*sources, *own) for type in source.schema.types)

    @property
    def star(self) -> tuple[int, ...]:
        """The places of what ``select *`` means."""
        return tuple(self.place(one, first=True) for one in self.checked.scope.star())

    @property
    def leaving(self) -> bool:
        """Whether aggregators have the form of those that events can leave, as the operators have them."""
        return self.within > 0

    def place(self, reference: Reference, first: bool = False) -> int:
        """Return the place of what a name means: of a counted element the `first` or the last event, without index."""
        if reference.multiple:
            raise NotTyped("the list of the values of a counted element")
        index = reference.index
        if not self.steps[reference.source].counted:
            if index is not None and index.position:
                raise NotTyped("an index of an element that is one event")
            return self.bases[reference.source] + reference.attribute
        if index is None:
            return self.indexed(reference.source, not first, 0) + reference.attribute
        return self.indexed(reference.source, index.from_last, index.position) + reference.attribute

    def indexed(self, element: int, from_last: bool, index: int) -> int:
        """Return the place of the first attribute of an event of a counted element."""
        if from_last and not index:
            return self.bases[element]
        if (element, from_last, index) not in self.others:
            self.others.append((element, from_last, index))
        before = self.others[: self.others.index((element, from_last, index))]
        return self.bases[-1] + sum(self.width(one) for one, *_ in before)

    def known_place(self, element: int, from_last: bool, index: int) -> int | None:
        """Return the place of the first attribute of an event of a counted element; None where nothing reads it."""
        known = (from_last and not index) or (element, from_last, index) in self.others
        return self.indexed(element, from_last, index) if known else None

    def named(self, place: int) -> tuple[int, int, int]:
        """Return the element whose attribute has a place, the index of its event (negative: from the end), and it."""
        if place < self.bases[-1]:
            element = self.step_of(place)
            return element, -1, place - self.bases[element]
        for element, from_last, index in self.others:
            base = self.indexed(element, from_last, index)
            if place < base + self.width(element):
                return element, -1 - index if from_last else index, place - base
        raise AssertionError("a place without an attribute")

    def width(self, element: int) -> int:
        """Return how many attributes an element has."""
        return self.bases[element + 1] - self.bases[element]

    def step_of(self, place: int) -> int:
        """Return the element whose attribute has a place."""
        if place < self.bases[-1]:
            return next(n for n in range(len(self.steps)) if place < self.bases[n + 1])
        return self.named(place)[0]


def matched(checked: CheckedQuery, given: ast.PatternInput, number: int, windows: Mapping[str, LoopWindow]) -> Matched:
    """Return a query over a pattern, also of what these named windows release: there all events are new ones.

    Raises
    ------
    NotTyped
        Something in it has no typed form.
    """
    if checked.query.output.events == "expired":  # none ever does
        raise NotTyped("events that leave a pattern", checked.query.span)
    if given.within is not None and given.within.milliseconds <= 0:
        raise NotTyped("a pattern within no time", given.span)
    scope, strict = checked.scope, given.kind == "sequence"
    bases = tuple(accumulate((len(source.schema) for source in scope.sources), initial=0))
    shape = pattern_states(given, scope)
    in_lists = _wait_in_lists(shape.states, strict)
    if not in_lists:
        _copied(shape.states, given)
    steps = tuple(_step(shape, n, bases, windows, keyed=in_lists and not strict) for n in range(shape.plan.size))
    within = 0 if given.within is None else given.within.milliseconds
    states = None if in_lists else shape
    pattern = Matched(number, checked, steps, bases, strict, _repeated(shape.states), within, states)
    if shows_snapshots(checked) and pattern.shares and within:
        # What is too old at one element, and complete all the same, would be a result that leaves.
        raise NotTyped("a snapshot of what may be too old at one of several elements", given.span)
    alone = len(steps) == 1 or (len(steps) == 2 and steps[0].partner is not None)
    if within and alone and any((one.counted and not one.least) or one.absent for one in steps):
        # In a chunk that lasts longer, operators have let go on what is too old when its next event comes.
        raise NotTyped("a single element that may be there without an event, within a time", given.span)
    for item in checked.query.select.items:
        for node in item.expression.walk():
            if isinstance(node, ast.Variable):
                pattern.place(scope.resolve(node))  # all that is put out has a place from the beginning
    return pattern


def _repeated(states: Sequence[State]) -> int:
    """Return how many elements `every` in front repeats."""
    ends = [state for state in states if state.every is not None]
    return 1 if ends and all(state.is_start for state in ends) else max((state.slot + 1 for state in ends), default=0)


def _wait_in_lists(states: Sequence[State], strict: bool) -> bool:
    """Tell whether partial matches can wait in lists, by keys: no more of them begin than events come."""
    first, last, repeated = states[0], states[-1], _repeated(states)
    starts = [state for state in states if state.is_start]
    counted = [state for state in (first, last) if isinstance(state, CountingState)]
    pairs = [state for state in states if isinstance(state, SideState)]
    absences = [state for state in pairs if isinstance(state, AbsentLogicalState)]
    several = bool(pairs) or any(isinstance(state, CountingState) for state in states)
    anew = repeated and first.within is not None
    return not (
        any(state.every is not None and not state.every.is_start for state in states)
        or any(isinstance(state, AbsenceState) and (state.is_start or strict) for state in states)
        or any(one.waiting is not None or not one.needs_both or one.partner in absences for one in absences)
        or (strict and (pairs or counted or repeated > 1))
        or any(state.least == 0 for state in counted)
        or (repeated > 1 and several)
        # One that is too old begins anew, also where another one has begun.
        or (anew and isinstance(first, CountingState) and first.least != first.most)
        or (anew and isinstance(first, SideState) and not first.needs_both)
        or (repeated and any(state in absences for state in starts))
    )


def _copied(states: Sequence[State], given: ast.PatternInput) -> None:
    """Look at what becomes of counted elements where an attempt is repeated.

    Raises
    ------
    NotTyped
        Attempts would share the events of an element that still collects, or wait for no time.
    """
    for repeated in {id(state.every): state.every for state in states if state.every is not None}.values():
        own = next(state for state in states if state is repeated)
        waits = isinstance(own, AbsenceState | AbsentLogicalState) or (isinstance(own, CountingState) and not own.least)
        before = any(isinstance(state, CountingState) for state in states[: own.slot])
        behind = isinstance(own, AbsentLogicalState) and any(isinstance(state, CountingState) for state in states)
        if (before and (waits or own.within is not None)) or (behind and own.within is not None):
            raise NotTyped("a repetition of what a counted element still collects for", given.span)
    for state in states:
        if isinstance(state, AbsenceState | AbsentLogicalState) and state.waiting is not None and state.waiting <= 0:
            raise NotTyped("an absence for no time", given.span)


def _step(
    shape: PatternStates, position: int, bases: tuple[int, ...], windows: Mapping[str, LoopWindow], keyed: bool
) -> Step:
    plan, scope = shape.plan, shape.plan.scope
    element, slot, partner = plan.elements[position], plan.slots[position], plan.partners.get(position)
    state, own = shape.states[slot], scope.of_element(position, partner)
    parts = [part for condition in filter_conditions(element) for part in conjuncts(condition)]
    alone = tuple(part for part in parts if _is_own(part, own, position))
    rest = [part for part in parts if part not in alone]
    key = None
    for part in tuple(rest) if keyed else ():
        pair = _pair(part, ("==",), own, position, INDEXABLE, partner)
        if pair is not None:
            _, arriving, earlier = pair
            key = Key(bases[position] + arriving.attribute, bases[earlier.source] + earlier.attribute)
            rest.remove(part)  # Whoever is found by the key meets it
            break
    found = (_pair(part, tuple(_MIRRORED), own, position, _NUMBERS, partner) for part in rest)
    bound = next((_bound(*pair, bases) for pair in found if pair is not None), None)
    id = scope.sources[position].stream_id
    stream = windows[id].checked.target if id in windows else id
    step = Step(stream, own, alone, tuple(rest), key, bound, slot=slot)
    match state:
        case CountingState():
            return replace(step, counted=True, least=state.least, most=state.most)
        case AbsenceState():
            return replace(step, waiting=state.waiting)
        case SideState():
            absent = isinstance(state, AbsentLogicalState)
            waiting = state.waiting if isinstance(state, AbsentLogicalState) else None
            return replace(step, partner=partner, both=state.needs_both, absent=absent, waiting=waiting)
    return step


def _is_own(part: ast.Expression, scope: Scope, position: int) -> bool:
    if any(isinstance(node, ast.IsNullEvent) for node in part.walk()):
        return False
    # With an index even its own element's event may be an earlier one.
    named = (scope.resolve(node) for node in part.walk() if isinstance(node, ast.Variable))
    return all(one.source == position and one.index is None for one in named)


def _bound(op: str, own: Reference, earlier: Reference, bases: tuple[int, ...]) -> AttributeBound:
    return AttributeBound(op, bases[own.source] + own.attribute, bases[earlier.source] + earlier.attribute)


def _pair(
    part: ast.Expression,
    ops: tuple[str, ...],
    scope: Scope,
    position: int,
    types: tuple[Type, ...],
    partner: int | None,
) -> tuple[str, Reference, Reference] | None:
    """Return a comparison of an attribute of the event, on the left, with one of an earlier event, of the same type."""
    if not (isinstance(part, ast.Binary) and part.op in ops):
        return None
    if not (isinstance(part.left, ast.Variable) and isinstance(part.right, ast.Variable)):
        return None
    left, right = scope.resolve(part.left), scope.resolve(part.right)
    for op, own, earlier in ((part.op, left, right), (_MIRRORED.get(part.op, part.op), right, left)):
        plain = own.index is None and earlier.index is None and not scope.sources[earlier.source].multiple
        plain = plain and earlier.source != partner  # its event may come meanwhile
        if plain and own.source == position and earlier.source < position and own.type is earlier.type in types:
            return op, own, earlier
    return None
