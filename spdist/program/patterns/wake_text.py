"""What the text of a pattern does when the wait of an absence is over, where matches go from state to state."""

from __future__ import annotations

from spdist.operators.patterns.absence import AbsenceState, AbsentLogicalState
from spdist.operators.patterns.states import State
from spdist.program.expressions import NUMBER
from spdist.program.joins.demand_text import Demand
from spdist.program.parts import Block, QueryText, Whole, indent
from spdist.program.patterns.cells import PatternCells
from spdist.program.patterns.element_text import ElementWriter
from spdist.program.patterns.match_text import MatchWriter
from spdist.program.patterns.nodes import when
from spdist.program.queries.chunk_text import Buffers

__all__ = ["StateWakes"]


class StateWakes(ElementWriter):
    """Writes the wake-ups of a pattern whose matches go from state to state.

    Parameters
    ----------
    whole, query, block, key
        As for `QueryWriter`.
    """

    def __init__(self, whole: Whole, query: QueryText, block: Block, key: str) -> None:
        super().__init__(whole, query, block, key)
        assert self._pattern.states is not None
        self._states = self._pattern.states.states
        self._units = self._pattern.states.units
        self._waiting = self._pattern.states.waiting
        self._cells = self._lists = PatternCells(whole, query, self._at)
        self._demand = Demand(whole.arrays, query.name, Buffers.of_results(whole, query).room)
        self._output: MatchWriter | None = None
        #: Source of what is alike for the results that one state gives for one event.
        self._cause = ""

    def _asks(self, units: int) -> list[str]:
        """Return what asks for room for so many partial matches more, each with two cells, a wake-up and a result."""
        count = self._output.count if self._output is not None and self._output.wanted else "0"
        return self._demand.asks(str(units), count, ["break"])

    def _matches(self, by_event: bool) -> MatchWriter:
        given = self.whole, self.query, self.block, self.key, self.groups, self._writer
        return MatchWriter(*given, by_event=by_event)

    def _matched(self, cause: str, timed: bool) -> list[str]:
        assert self._output is not None
        return self._put_out(self._output, f"{self.prefix}_ts[d]", cause, timed)

    def _woken(self, state: State, n: int) -> list[str]:
        """Return what is done when the wait of an absence is over."""
        self._output = self._matches(by_event=False) if state.is_last else None
        self._late = ""
        assert isinstance(state, AbsenceState | AbsentLogicalState)
        lines = self._woken_alone(state) if isinstance(state, AbsenceState) else self._woken_side(state)
        body = ["d = -1", *self._asks(4 * len(self._states)), *lines]
        # A loop of one turn, as `_asks` ends it by `break` where there is no room.
        body = ["for _ in range(1):", *indent(when([self._cells.active(state)], body))]
        return self._cells.timers[n].wakes(body if self._output is None else self._output.hands_over(body))

    def _each(self, state: State, body: list[str]) -> tuple[list[str], str]:
        """Return what is done with all who wait at a state, and the name of the list of those who go on then.

        They stay where ``stays`` is true, and go on where ``over`` is.
        """
        cell, behind, head, at = self.whole.name(), self.whole.name(), self._cells.order(state.slot)[0], self._at
        going = self.whole.arrays.declare(f"{self.prefix}_going", NUMBER, "1", "-1")
        gone = self.whole.arrays.declare(f"{self.prefix}_gone", NUMBER, "1", "-1")
        lines = [
            f"{cell} = {head}[{at}]",
            f"{head}[{at}] = -1",
            f"while {cell} >= 0:",
            f"    {behind}, d = {self._cells.after}[{cell}], {self._cells.of}[{cell}]",
            *indent(self._asks(2 * len(self._states) + 2)),
            "    stays = over = False",
            *indent(body),
            "    if stays:",
            f"        cell_stays({self._cells.waiting(state)}, {self._cells.after}, {cell})",
            "    elif over:",
            # They go on when all have been looked at, as in the operators: what follows may bring others here.
            f"        cell_stays({going}, {gone}, 0, {self._cells.after}, {cell})",
            "    else:",
            f"        {self._cells.gone(cell)}",
            f"    {cell} = {behind}",
        ]
        return lines, going

    def _sends(self, state: AbsenceState | AbsentLogicalState, going: str) -> list[str]:
        """Return what lets all go on whose wait is over."""
        cell, cells = self.whole.name(), self._cells
        lines = [f"{self.prefix}_ts[d] = due"]
        lines += self._matched("0", timed=True) if state.is_last and self._output is not None else []
        lines += cells.adds(state.next) if state.next is not None else []
        if state.every is not None:
            lines += cells.repeats(state.every)
        elif state.is_start:
            lines.append(f"{cells.active(state)} = 0")
            if isinstance(state, AbsentLogicalState) and not state.needs_both:
                lines += [f"{cells.active(state.partner)} = 0"] * isinstance(state.partner, AbsentLogicalState)
        body = [f"d = {cells.of}[{cell}]", *self._asks(2 * len(self._states) + 2), *lines, *cells.tells(state)]
        loop = [f"while {cell} >= 0:", *indent([*body, f"{cell} = {cells.after}[{cell}]"])]
        return [f"{cell} = {going}[0]", *loop, f"cells_go({going}, 0, {cells.all})"]

    def _admits(self, state: State, makes: bool, tests: list[str]) -> list[str]:
        """Return what lets those who arrived join; a state that `makes` attempts does where none is there."""
        cells, nobody = self._cells, (self._cells.nobody_comes(state), self._cells.nobody_waits(state))
        lines = when([*nobody, *tests], cells.made(state, self.whole.name())) if makes else []
        if state.strict:
            lines += [f"{'el' * bool(lines)}if not ({cells.nobody_comes(state)}):", *indent(cells.resets(state))]
        return [*lines, *cells.updates(state)]

    def _woken_alone(self, state: AbsenceState) -> list[str]:
        cells, prefix, waiting = self._cells, self.prefix, state.waiting
        until, anew = cells.deadline(cells.elements[state.slot]), state.within_every
        once = [f"{until} <= 0"] if state.strict and state.every is None else []
        wait = f"due >= ({until} if {prefix}_ts[d] == -1 else {prefix}_ts[d] + {waiting})"
        body = [f"over = {wait}", "stays = not over"]
        if state.within is not None:
            again = anew is not None and state.every is not None and state.every is not state
            fallen = cells.repeats(state.every) if again and state.every is not None else ["pass"]
            body = [f"if {cells.too_old('due')}:", *indent(fallen), "else:", *indent(body)]
        over, going = self._each(state, body)
        some = self.whole.name()
        return [
            *self._admits(state, state.is_start, once),
            *over,
            *(cells.updates(anew) if anew is not None else []),
            f"{some} = {going}[0] >= 0",
            *self._sends(state, going),
            f"if now > due + {waiting}:",
            f"    {until} = now + {waiting}",
            f"if not {some} and {until} < due:",
            *indent(cells.waits(state, "due")),
        ]

    def _woken_side(self, state: AbsentLogicalState) -> list[str]:
        cells, prefix, waiting, partner = self._cells, self.prefix, state.waiting, state.partner
        came, since, some, fell = cells.deadline(cells.elements[state.slot]), cells.since(state), self.whole.name(), ""
        absent = [f"{prefix}_bits[d] |= {1 << state.slot}", f"{since} = -1"]
        both = [f"if {cells.has(partner)}:", "    over = True", "else:", *indent(absent)]
        either = [f"if not ({cells.has(partner)}):", *indent([*absent, "over = True"])]
        body = [
            f"if due < ({since} if {cells.has(state)} else {prefix}_ts[d]) + {waiting}:",
            "    stays = True",
            "else:",
            *indent(both if state.needs_both else either),
        ]
        nodes, anew, repeated = f"{prefix}_refs, {prefix}_free, {prefix}_next", state.within_every, list[str]()
        if state.within is not None:
            fell = self.whole.name()
            falls = [f"if {fell} >= 0:", f"    node_goes({fell}, {nodes})", f"{fell} = d", f"{prefix}_refs[d] += 1"]
            body = [
                f"if {cells.too_old('due')}:",
                *indent(falls if anew is not None else ["pass"]),
                "else:",
                *indent(body),
            ]
            if anew is not None:
                again = [f"d = {fell}", *cells.repeats(anew), *cells.updates(anew), f"node_goes(d, {nodes})"]
                repeated = when([f"{fell} >= 0"], again)
        over, going = self._each(state, body)
        lines = [
            *([f"{fell} = -1"] if repeated else []),
            *self._admits(state, state.is_start and state.strict, []),
            *over,
            *repeated,
            f"{some} = {going}[0] >= 0",
            *self._sends(state, going),
            f"{came} = 0",
        ]
        asks = cells.timers[cells.elements[state.slot]].asks(f"({came} if {came} != 0 else now) + {waiting}")
        again = [asks] if state.every is not None else when([f"not {some}"], [asks]) if state.is_start else []
        return [f"{some} = False", f"if due >= {came} + {waiting}:", *indent(lines), *again]
