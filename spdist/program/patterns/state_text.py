"""The block of a pattern whose partial matches go on from state to state, as those of the operators do.

These are the ones that begin without a bound in the events of a call: behind absences in front and repetitions further
back, and where those that are too old begin anew; and sequences with more than single events at their ends. The loop
asks for room before each event, each partial match and each wake-up (`spdist.program.joins.demand_text`).
"""

from __future__ import annotations

from collections.abc import Sequence

from spdist.language import ast
from spdist.operators.patterns.absence import AbsenceState, AbsentLogicalState
from spdist.operators.patterns.groups import CountingState, SideState
from spdist.operators.patterns.states import State
from spdist.program.expressions import FLAG, NUMBER
from spdist.program.parts import Block, Most, QueryText, Whole, asked, indent
from spdist.program.patterns.nodes import when
from spdist.program.patterns.shape import Matched
from spdist.program.patterns.wake_text import StateWakes

__all__ = ["StateWriter", "begins_waiting"]


class StateWriter(StateWakes):
    """Writes the block of a pattern, for the events of one stream that it reads; the node of a partial match is ``d``.

    Parameters
    ----------
    whole, query, block, key
        As for `QueryWriter`.
    """

    def lines(self) -> list[str]:
        """Return the block, with those of its readers."""
        self._counts()
        streams = {
            state.slot: self._pattern.steps[n].stream
            for state, n in zip(self._states, self._pattern.order, strict=True)
        }
        reading = [state for state in self._states if streams[state.slot] == self.block.stream]
        alone = len(reading) == 1
        results = None
        # What an earlier state leads to counts only where the last one that reads this stream completes the pattern.
        if (alone or reading[-1].is_last) and any(map(_completes, reading)):
            results = self._output = self._matches(by_event=not alone)
        # Where one state alone reads the stream, results come behind the last event of a chunk.
        self._late = self.whole.arrays.declare(f"{self.prefix}_done", NUMBER, "1", "-1") if alone and results else ""
        body = [*self._asks(4 * len(self._states)), *self._prepared(reading)]
        for place, state in enumerate(reversed(reading)):
            # What one state gives for one event is a chunk, so both are in the number that results are told apart by.
            self._cause = f"{self._event} * {len(reading)} + {place}"
            body += self._offered(state)
        if self.block.guard:
            body = [f"if not ({self.block.guard.format(self._event)}):", "    continue", *body]
        loop = [f"for {self._event} in range({self.block.begin}, {self.block.end}):", *indent(body)]
        if results is None:
            return loop
        return results.hands_over([*loop, *(self._done_late() if alone else [])])

    def expires(self) -> list[str]:
        """Return nothing: what is too old goes with the next event."""
        return []

    def timers(self) -> list[list[str]]:
        """Return, for each absence, what is done when the wait of a key is over."""
        return [self._woken(self._states[self._pattern.steps[n].slot], n) for n in self._pattern.absences]

    def begins(self) -> list[str]:
        """Return what begins with the first event of a key: an attempt in the first state, and its wait."""
        ready = f"{self.whole.arrays.declare(f'{self.prefix}_ready', FLAG, self.query.instances)}[{self._at}]"
        lines = [line for state in self._states for line in self._cells.starts(state)]
        lines += [line for state in self._waiting for line in self._cells.begins_waiting(state)]
        lines = [f"{ready} = 1", "d = -1", *self._asks(4 * len(self._states)), *lines]
        # A loop of one turn, as `asks` ends it by `break` where there is no room.
        return [f"if {ready} == 0:", "    for _ in range(1):", *indent(indent(lines))]

    def _counts(self) -> None:
        """Take note of how much room there must be for what is asked for."""
        name = self.query.name
        one = Most({asked(name): 1})
        for room in (*(f"{kind} {name}" for kind in ("nodes", "dues", "groups", "pairs")), "timers"):
            self.whole.count(room, one)
        self.whole.count(f"nodes {name}_c", one + one)

    # Matches.

    def _shown(self, state: State) -> list[str]:
        """Return what puts the match out where a state has completed it."""
        if not (state.watched.is_last or isinstance(state.watched, AbsenceState)):
            return []
        said = self._cells.said(state.watched)
        shown: list[str] = []
        if self._output is not None and _completes(state):
            shown = self._noted() if self._late else self._matched(self._cause, timed=False)
        return [f"if {said} != 0:", f"    {said} = 0", *indent(shown)]

    def _noted(self) -> list[str]:
        """Return what notes the match as one that is put out behind the last event of the chunk."""
        last = self.whole.arrays.declare(f"{self.prefix}_done_last", NUMBER, "1", "-1")
        events = self.whole.arrays.declare(f"{self.prefix}_done_at", NUMBER, f"nodes {self.query.name}_c")
        return [
            f"cell_joins({self._late}, {last}, 0, {self._cells.cells}, d)",
            f"{events}[{last}[0]] = {self._event}",
        ]

    def _done_late(self) -> list[str]:
        """Return what puts out the matches that the events of a chunk have completed."""
        cell, first, events = self.whole.name(), f"{self._late}[0]", f"{self.prefix}_done_at"
        body = [
            f"d, {self._event} = {self._cells.of}[{cell}], {events}[{cell}]",
            *self._matched("0", timed=False),
        ]
        loop = [f"while {cell} >= 0:", *indent([*body, f"{cell} = {self._cells.after}[{cell}]"])]
        return [f"{cell} = {first}", *loop, f"cells_go({self._late}, 0, {self._cells.all})"]

    # Events.

    def _prepared(self, reading: list[State]) -> list[str]:
        """Return what drops what is too old, and lets new attempts join, before an event is offered."""
        expiring = [state for state in self._states if state.expires]
        lines = [line for state in expiring for line in self._cells.expires(state, self.timestamp)]
        if self._pattern.strict:
            lines += [line for state in reversed(self._units) for line in self._cells.resets(state)]
        updated = self._units if self._pattern.strict else reading
        return ["d = -1", *lines, *(line for state in updated for line in self._cells.updates(state))]

    def _offered(self, state: State) -> list[str]:
        """Return what offers the event to those who wait at a state."""
        match state:
            case AbsentLogicalState():
                return when([self._cells.active(state)], self._offered_each(state, self._unwanted(state)))
            case SideState():
                return self._offered_each(state, self._paired(state))
            case CountingState():
                return self._offered_each(state, self._counted(state))
            case AbsenceState():
                return when([self._cells.active(state)], self._offered_each(state, self._single(state)))
        return self._offered_each(state, self._single(state))

    def _offered_each(self, state: State, body: list[str]) -> list[str]:
        """Return what is done with all who wait at a state, who stay where ``stays`` is true then."""
        cell, behind, head, at = self.whole.name(), self.whole.name(), self._cells.order(state.slot)[0], self._at
        step = self._pattern.steps[self._cells.elements[state.slot]]
        wanted, idle = self.whole.name(), list[str]()
        if type(state) is State and not state.strict and step.alone:
            # Where the event cannot fit anybody, all stay.
            said = f"{self._cells.said(state.watched)} != 0" if state.watched.is_last else "False"
            idle = [f"{wanted} = {said}", *self._fitting(state, wanted, step.alone)]
        lines = [
            f"{cell} = {head}[{at}]",
            # Whoever stays is put behind those before: so the list is in its order again.
            f"{head}[{at}] = -1",
            f"while {cell} >= 0:",
            f"    {behind}, d = {self._cells.after}[{cell}], {self._cells.of}[{cell}]",
            *indent(self._asks(2 * len(self._states) + 2)),
            *indent(body),
            "    if stays:",
            f"        cell_stays({self._cells.waiting(state)}, {self._cells.after}, {cell})",
            "    else:",
            f"        {self._cells.gone(cell)}",
            f"    {cell} = {behind}",
        ]
        return [*idle, *when([wanted], lines)] if idle else lines

    def _fitting(self, state: State, name: str, conditions: Sequence[ast.Expression] | None = None) -> list[str]:
        """Return what sets a name to true where the event meets the conditions of a state, or some of them."""
        n = self._cells.elements[state.slot]
        step = self._pattern.steps[n]
        return self._where((*step.alone, *step.rest) if conditions is None else conditions, n, [f"{name} = True"])

    def _stored(self, state: State) -> list[str]:
        """Return what puts the event into the slot of a state."""
        n = self._cells.elements[state.slot]
        stores = [] if isinstance(state, AbsenceState | AbsentLogicalState) else self._stores(self._pattern.bases[n], n)
        return [*stores, *self._cells.filled(state, self.timestamp)]

    def _single(self, state: State) -> list[str]:
        """Return what is done with the match that waits for one event, or for it not to come."""
        cells, ends = self._cells, state.strict and not isinstance(state, AbsenceState)
        moved = cells.moves(state, self.timestamp)
        if isinstance(state, AbsenceState):
            again = cells.repeats(state) if state.is_start and state.every is state else []
            waits = cells.waits(state, self.timestamp)
            moved = [f"{self.prefix}_ts[d] = {self.timestamp}", f"{cells.said(state)} = 1", *again, *waits]
        unfit = [*cells.cleared(state), *([] if ends else ["stays = True"])]
        unfit += cells.tells(state) if state.strict else []
        return [
            "stays = fits = False",
            *self._fitting(state, "fits"),
            *when(["fits"], [*self._stored(state), *moved]),
            *self._shown(state),
            *when(["not fits"], unfit),
        ]

    def _counted(self, state: CountingState) -> list[str]:
        """Return what is done with the match that collects events."""
        cells, n, prefix = self._cells, self._cells.elements[state.slot], self.prefix
        count = cells.counted(n)
        following = [one.slot for one in self._states[state.following]]
        over = f"{prefix}_bits[d] & {sum(1 << slot for slot in following)} == 0" if following else "True"
        lines = [
            *self._shifted(n, count),
            *when([f"{count} == 0"], cells.filled(state, self.timestamp)),
            f"{count} += 1",
            f"{prefix}_ts[d] = {self.timestamp}",
        ]
        if state.strict:
            if state.next is not None:
                lines += when([f"{count} >= {state.least}"], cells.adds(state.next))
            most = [] if state.most is None else [f"{count} != {state.most}"]
            lines += when(most, cells.adds(state))
        else:
            leaves = ["leaves = True"] if state.is_last else []
            lines += when([f"{count} == {state.least}"], [*cells.leads(state), *leaves])
        if state.most is not None:
            lines.append(f"leaves = leaves or ({count} >= {state.least} and {count} == {state.most})")
        body = [
            *self._fitting(state, "fits"),
            *when(["fits"], lines),
            *self._shown(state),
            f"stays = not leaves{' and fits' if state.strict else ''}",
        ]
        return ["stays = fits = leaves = False", *when([over], body)]

    def _paired(self, state: SideState) -> list[str]:
        """Return what is done with the match that waits for one side of ``and`` or ``or``."""
        cells, partner = self._cells, state.partner
        told = [f"{cells.said(partner)} = 1"] if partner.is_last and state.watched is partner else []
        moved = [*cells.moves(state, self.timestamp), *told]
        came = moved if not state.needs_both else [*self._passes(partner), *when(["passes"], moved)]
        body = [
            *self._fitting(state, "fits"),
            *when(["fits"], [*self._stored(state), *came]),
            *self._shown(state),
            *when(["not fits"], [*cells.cleared(state), *([] if state.strict else ["stays = True"])]),
        ]
        tests = [] if state.needs_both else [f"not ({cells.has(partner)})"]
        return ["stays = fits = False", *when(tests, body)]

    def _passes(self, side: SideState) -> list[str]:
        """Return what tells whether the other side lets the match go on."""
        cells = self._cells
        if not isinstance(side, AbsentLogicalState):
            return [f"passes = {cells.has(side)}"]
        came = cells.deadline(cells.elements[side.slot])
        if side.strict and side.every is None:
            has = cells.has(side) if side.waiting is not None else f"not ({cells.has(side)})"
            return [f"passes = {came} <= 0 and ({has})"]
        if side.waiting is not None:
            return [f"passes = {cells.has(side)}"]
        if side.every is None:
            return [f"passes = not ({cells.has(side)})"]
        return [f"passes = {came} <= 0", "if not passes:", *indent([f"{came} = 0", *cells.starts(side)])]

    def _unwanted(self, state: AbsentLogicalState) -> list[str]:
        """Return what is done with the match that waits for an event not to come, next to another side."""
        cells, prefix, partner = self._cells, self.prefix, state.partner
        since, bit = cells.since(state), 1 << state.slot
        came = [f"{cells.said(state)} = 1", f"{cells.deadline(cells.elements[state.slot])} = {self.timestamp}"]
        if not (state.waiting is not None or (state.strict and state.needs_both and state.every is not None)):
            came += [f"{prefix}_bits[d] |= {bit}", f"{since} = {self.timestamp}"]
        leaving = [f"{cells.said(state.watched)} = 0", "leaves = True"]
        if state.strict:
            other = self.whole.name()
            found = f"cell_of({cells.waiting(partner)}, {cells.of}, {cells.after}, d)"
            leaving += [f"{other} = {found}", f"if {other} >= 0:", f"    {cells.gone(other)}"]
        body = [
            *self._fitting(state, "fits"),
            *when(["fits"], came),
            *when([f"{cells.said(state.watched)} != 0"], leaving),
            f"stays = not leaves{' and fits' if state.strict else ''}",
        ]
        tests = [] if state.needs_both else [f"not ({cells.has(partner)})"]
        return ["stays = fits = leaves = False", *when(tests, body)]


def _completes(state: State) -> bool:
    """Tell whether matches may be complete when an event is offered to a state: absences show none then."""
    return state.watched.is_last and not isinstance(state, AbsenceState | AbsentLogicalState)


def begins_waiting(whole: Whole, query: QueryText, key: str) -> list[str]:
    """Return what lets a pattern begin with the key of a partition that is new."""
    pattern = query.read
    if not isinstance(pattern, Matched) or pattern.states is None:
        return []
    return StateWriter(whole, query, Block("", "", pattern.types, "", "", "", (), ""), key).begins()
