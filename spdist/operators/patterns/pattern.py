"""Patterns and sequences as one automaton: from events to matches.

The tests of a pattern's elements are written as Python once; each partition key gets states of its own around them.

Source: the process stream receivers of io.siddhi.core.query.input.stream.state.receiver (in which order an event is
offered), described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.scope import Scope, filter_conditions, pattern_elements
from spdist.operators.base import Arrival, Row, Timer, VirtualClock
from spdist.operators.patterns.conditions import ConditionWriter
from spdist.operators.patterns.repeated_absences import PatternRests
from spdist.operators.patterns.states import ElementCondition, Partial, State
from spdist.operators.patterns.structure import PatternShape, PatternStates

__all__ = ["Automaton", "PatternPlan"]


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

    def _written_conditions(self, title: str) -> list[ElementCondition]:
        writer = ConditionWriter(title, self.scope, self.catalog, self.slots)
        counted = [counted for _, counted in pattern_elements(self.input.element)]
        for position, element in enumerate(self.elements):
            plain = isinstance(element, ast.StreamState) and not counted[position] and position not in self.partners
            conditions = filter_conditions(element)
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

    def condition(self, position: int) -> ElementCondition:
        """Return the condition of an element."""
        return self._conditions[position]


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
        # From the end, so that one event does not fill two elements of one attempt.
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

        def offer(timestamp: int, row: Row) -> None:
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

        return offer

    def process_chunk(self, stream_id: str, arrivals: Sequence[Arrival]) -> None:
        """Process the events of one chunk of a stream that one element reads; matches come out after the last one."""
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
        with it ends immediately then, so none is made.
        """
        expiring = tuple(state for state in self.states if state.expires)
        units, readers = tuple(self.units), tuple(self.readers[stream_id])
        first = readers[0]

        def relaxed(timestamp: int, _refused: bool) -> None:
            for state in expiring:
                # Mostly nothing is too old, which one look at the oldest partial tells.
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

        def offer(timestamp: int, row: Row) -> None:
            accepted = guard(timestamp, row)  # type: ignore[misc]
            # A result left over from an event that failed is shown with an attempt, even if that ends immediately.
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

        return offer

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
