"""Where the partial matches of a pattern stand as those of the operators do: in cells, in two lists of each state.

One list has those that wait at a state, the other one those that have arrived there; a match may stand in several.
The meaning is that of `spdist.operators.patterns.states`, whose methods the ones here are named after.
"""

from __future__ import annotations

from spdist.operators.patterns.absence import AbsenceState, AbsentLogicalState
from spdist.operators.patterns.groups import CountingState, SideState
from spdist.operators.patterns.states import State
from spdist.program.expressions import FLAG, NUMBER
from spdist.program.parts import QueryText, Whole, indent
from spdist.program.patterns.lists import PatternLists
from spdist.program.patterns.nodes import when

__all__ = ["PatternCells"]


class PatternCells(PatternLists):
    """Writes what brings the partial match of node ``d`` from one state to another one.

    Parameters
    ----------
    whole, query, at
        As for `PatternNodes`.
    """

    def __init__(self, whole: Whole, query: QueryText, at: str) -> None:
        super().__init__(whole, query, at, "")
        prefix, room = query.name, f"nodes {query.name}_c"
        of, after = (whole.arrays.declare(f"{prefix}_c_{name}", NUMBER, room, "-1") for name in ("of", "next"))
        free = whole.arrays.free_list(f"{prefix}_c_free")
        #: What functions are given of cells and nodes: to make a cell, and to give one back.
        self.cells = f"{of}, {after}, {free}, {prefix}_refs"
        self.all = f"{self.cells}, {prefix}_free, {prefix}_next"
        self.of, self.after = of, after
        #: The element of each state.
        self.elements = self._pattern.order

    # Lists and flags.

    def waiting(self, state: State) -> str:
        """Return the list of those who wait at a state: its ends, and its number."""
        return f"{', '.join(self.order(state.slot))}, {self._at}"

    def coming(self, state: State) -> str:
        """Return the list of those who have arrived at a state."""
        return f"{', '.join(self.arrived(state.slot))}, {self._at}"

    def nobody_waits(self, state: State) -> str:
        """Return the condition under which nobody waits at a state."""
        return f"{self.order(state.slot)[0]}[{self._at}] < 0"

    def nobody_comes(self, state: State) -> str:
        """Return the condition under which nobody has arrived at a state."""
        return f"{self.arrived(state.slot)[0]}[{self._at}] < 0"

    def flag(self, state: State, name: str, fill: str = "0") -> str:
        """Return source of a flag of a state: `begun`, `said`, `over`, or `active`."""
        flag = self._whole.arrays.declare(f"{self._prefix}_{name}{state.slot}", FLAG, self._query.instances, fill)
        return f"{flag}[{self._at}]"

    def active(self, state: State) -> str:
        """Return source of whether an absence still looks at events: the only attempt of one may be used up."""
        return self.flag(state, "active", "1")

    def said(self, state: State) -> str:
        """Return source of whether a state has completed a match."""
        return self.flag(state, "said")

    def has(self, state: State) -> str:
        """Return the condition under which the match has an event of a state."""
        return f"{self._prefix}_bits[d] & {1 << state.slot} != 0"

    def since(self, state: State) -> str:
        """Return source of the timestamp of what stands in the slot of an absence."""
        return self.first(self.elements[state.slot])

    def gone(self, cell: str) -> str:
        """Return what gives a cell back, and lets its match go."""
        return f"cell_goes({cell}, {self.all})"

    def emptied(self, state: State) -> str:
        """Return what lets all go who wait at a state."""
        return f"cells_go({self.order(state.slot)[0]}, {self._at}, {self.all})"

    # Slots.

    def filled(self, state: State, time: str) -> list[str]:
        """Return what notes that the match has an event of a state."""
        n = self.elements[state.slot]
        timed = n in self._pattern.starts or isinstance(state, AbsentLogicalState)
        lines = [f"{self._prefix}_bits[d] |= {1 << state.slot}"]
        return [*lines, *([f"{self.first(n)} = {time}"] if timed else [])]

    def cleared(self, state: State) -> list[str]:
        """Return what lets the match have no event of a state."""
        lines = [f"{self._prefix}_bits[d] &= ~{1 << state.slot}", *self._nulls(self.elements[state.slot], "d")]
        return [f"if {self.has(state)}:", *indent(lines)]

    def _nulls(self, n: int, node: str) -> list[str]:
        places = [place for place in range(len(self._pattern.types)) if self._pattern.step_of(place) == n]
        return [f"{self.kept_arrays(place)[1]}[{node}] = 1" for place in places if self.wanted(place)]

    def _copied(self, node: str, slots: set[int]) -> list[str]:
        """Return what makes a copy of the match, with what stands in some slots."""
        prefix, pattern = self._prefix, self._pattern
        lines = [f"{node} = allot({prefix}_free, {prefix}_next)"]
        lines += [f"{prefix}_{name}[{node}] = 0" for name in ("refs", "expired")]
        lines += [f"{prefix}_ts[{node}] = {prefix}_ts[d]"]
        lines += [f"{prefix}_bits[{node}] = {prefix}_bits[d] & {sum(1 << slot for slot in slots)}"]
        for state in self._states:
            n, own = self.elements[state.slot], list[tuple[str, str]]()
            if isinstance(state, CountingState):
                own.append((self.counted(n), "0"))
            if n in pattern.starts or isinstance(state, AbsentLogicalState):
                own.append((self.first(n), "0"))
            for source, nothing in own:
                lines.append(f"{source.removesuffix('[d]')}[{node}] = {source if state.slot in slots else nothing}")
            if state.slot not in slots:
                lines += self._nulls(n, node)
                continue
            for place in range(len(pattern.types)):
                if pattern.step_of(place) == n and self.wanted(place):
                    lines += [f"{name}[{node}] = {name}[d]" for name in self.kept_arrays(place)]
        return lines

    @property
    def _states(self) -> list[State]:
        assert self._pattern.states is not None
        return self._pattern.states.states

    # What the states do, as methods of theirs.

    def starts(self, state: State) -> list[str]:
        """Return what puts an attempt without events into a first state, and another one where attempts start over."""
        if not state.is_start:
            return []
        begun, node = self.flag(state, "begun"), self._whole.name()
        follows = state.strict and state.next is not None and state.next.is_absent
        made = [f"{begun} = 1", *self.made(state, node)]
        return made if state.every is not None or follows else when([f"{begun} == 0"], made)

    def made(self, state: State, node: str) -> list[str]:
        """Return what lets an attempt without events arrive."""
        # A sequence, or a pair in front, has room for one attempt only: another one goes nowhere.
        unwanted = [f"if {self._prefix}_refs[d] == 0:", f"    give_back({self._prefix}_free, {self._prefix}_next, d)"]
        return [f"{node} = d", *self.begins("-1"), *self.adds(state), *unwanted, f"d = {node}"]

    def begins_waiting(self, state: State) -> list[str]:
        """Return what lets a first state begin to wait."""
        if not state.is_start:
            return []
        if isinstance(state, AbsenceState):
            return when([self.active(state)], self.waits(state, "now"))
        if isinstance(state, AbsentLogicalState) and state.waiting is not None:
            return when([self.active(state)], [self._asks(state, f"now + {state.waiting}")])
        return []

    def waits(self, state: State, time: str) -> list[str]:
        """Return what lets the wait of an absence begin at a time."""
        return self.waits_from(self.elements[state.slot], time)

    def _asks(self, state: State, due: str) -> str:
        return self.timers[self.elements[state.slot]].asks(due)

    def adds(self, state: State) -> list[str]:
        """Return what lets the match arrive at a state."""
        joins = f"cell_joins({self.coming(state)}, {self.cells}, d)"
        match state:
            case AbsentLogicalState():
                lines = self._adds_pair(state)
                if not state.is_start and state.waiting is not None:
                    timed = [state, *([state.partner] if isinstance(state.partner, AbsentLogicalState) else [])]
                    waits = [(one, one.waiting) for one in timed if one.waiting is not None]
                    lines += [self._asks(one, f"{self._prefix}_ts[d] + {waiting}") for one, waiting in waits]
                return when([self.active(state)], lines)
            case SideState():
                return self._adds_pair(state)
            case AbsenceState():
                emptied = [f"cells_go({self.arrived(state.slot)[0]}, {self._at}, {self.all})"] if state.strict else []
                begins = [] if state.is_start else self.waits(state, f"{self._prefix}_ts[d]")
                return when([self.active(state)], [*self._kept([*emptied, joins]), *begins])
            case CountingState():
                nothing = f"{self._prefix}_bits[d] & {1 << state.slot} == 0"
                enough = [] if state.least else when([nothing], self.leads(state))
                return [*when([self.nobody_comes(state)] if state.strict else [], [joins]), *enough]
        return when([self.nobody_comes(state)] if state.strict else [], [joins])

    def _kept(self, lines: list[str]) -> list[str]:
        """Return lines in which the match stays, also where it stood in nothing but what they empty."""
        if len(lines) == 1:
            return lines
        going = f"node_goes(d, {self._prefix}_refs, {self._prefix}_free, {self._prefix}_next)"
        # One more who has the node: it must not be free, and so another match, before it arrives.
        return [f"{self._prefix}_refs[d] += 1", *lines, going]

    def _adds_pair(self, state: SideState) -> list[str]:
        lines: list[str] = []
        for side in (state, state.partner):
            single = [self.nobody_comes(side)] if state.is_start or state.strict else []
            lines += when(single, [f"cell_joins({self.coming(side)}, {self.cells}, d)"])
        return lines

    def repeats(self, state: State) -> list[str]:
        """Return what lets a copy of the match start over at a state."""
        node = self._whole.name()
        slots, sides = set(range(state.slot)), [state]
        lines: list[str] = []
        if isinstance(state, SideState):
            sides = [state, state.partner]
            if isinstance(state, AbsentLogicalState):
                slots = set(range(len(self._states)))
                lines = [f"if {self.has(state)}:", f"    {self._prefix}_ts[{node}] = {self.since(state)}"]
            slots -= {state.slot, state.partner.slot}
        lines = [*self._copied(node, slots), *lines]
        lines += [f"cell_joins({self.coming(side)}, {self.cells}, {node})" for side in sides]
        return [*lines, *(self.waits(state, f"{self._prefix}_ts[{node}]") if isinstance(state, AbsenceState) else [])]

    def leads(self, state: State) -> list[str]:
        """Return what lets the match go on behind a state."""
        return [
            *([f"{self.said(state)} = 1"] if state.is_last else []),
            *(self.adds(state.next) if state.next is not None else []),
            *(self.repeats(state.every) if state.every is not None else []),
        ]

    def moves(self, state: State, time: str) -> list[str]:
        """Return what lets a match go on whose event has come."""
        return [f"{self._prefix}_ts[d] = {time}", *self.leads(state), *self.tells(state)]

    def tells(self, state: State) -> list[str]:
        """Return what tells a counted element in front, which may have no event, that it starts over."""
        if state.tells is None:
            return []
        told = next(one for one in self._states if isinstance(one, CountingState) and one.start_over == state.tells)
        return [f"{self.flag(told, 'over')} = 1"]

    def resets(self, state: State) -> list[str]:
        """Return what is done at a state before each event of a sequence: what was not continued goes."""
        lines = [self.emptied(state)]
        if isinstance(state, SideState):
            lines = [self.emptied(state.partner), *lines]
        if state.is_start:
            tests = [] if isinstance(state, AbsenceState) else [self.nobody_comes(state)]
            if state.strict and state.every is None and state.next is not None:
                tests.append(self.nobody_waits(state.next))
            lines += when(tests, self.starts(state))
        if isinstance(state, SideState) and state.needs_both:
            sizes = (f"cells({self.order(one.slot)[0]}, {self._at}, {self.after})" for one in (state, state.partner))
            return when([" == ".join(sizes)], lines)
        return lines

    def updates(self, state: State) -> list[str]:
        """Return what lets those who have arrived at a state wait there."""
        sides, lines = [state], list[str]()
        if isinstance(state, CountingState) and any(one.tells == state.start_over for one in self._states):
            over = self.flag(state, "over")
            lines = when([over], [f"{over} = 0", *self.starts(state)])
        if isinstance(state, SideState):
            sides = [state, state.partner]
        for side in sides:
            lists = ", ".join([*self.order(side.slot), self.arrived(side.slot)[0]])
            arrive = f"cells_arrive({lists}, {self._at}, {self.of}, {self.after}, {self._prefix}_ts)"
            lines += [f"if not {self.nobody_comes(side)}:", f"    {arrive}"]
        return lines

    def expires(self, state: State, now: str) -> list[str]:
        """Return what drops those at a state who are too old; the last one of a repetition starts over."""
        cell, behind, fell = self._whole.name(), self._whole.name(), self._whole.name()
        anew = state.within_every
        falls = [f"{self._prefix}_expired[d] = 1"]
        nodes = f"{self._prefix}_refs, {self._prefix}_free, {self._prefix}_next"
        if anew is not None:
            falls += [
                f"if {fell} >= 0:",
                f"    node_goes({fell}, {nodes})",
                f"{fell} = d",
                f"{self._prefix}_refs[d] += 1",
            ]
        falls = [f"if {self._prefix}_expired[d] == 0:", *indent(falls), self.gone(cell)]
        head, new, at = self.order(state.slot)[0], self.arrived(state.slot)[0], self._at
        lines = [
            f"{cell} = {head}[{at}]",
            f"while {cell} >= 0:",
            f"    d = {self.of}[{cell}]",
            f"    if not {self.too_old(now)}:",
            # As in Siddhi only the head is looked at: who waits behind a younger one stays.
            "        break",
            f"    {head}[{at}] = {self.after}[{cell}]",
            *indent(falls),
            f"    {cell} = {head}[{at}]",
            f"{cell} = {new}[{at}]",
            f"{new}[{at}] = -1",
            f"while {cell} >= 0:",
            f"    d, {behind} = {self.of}[{cell}], {self.after}[{cell}]",
            f"    if {self.too_old(now)}:",
            *indent(indent(falls)),
            "    else:",
            f"        cell_stays({self.coming(state)}, {self.after}, {cell})",
            f"    {cell} = {behind}",
        ]
        if anew is None:
            return lines
        repeated = [f"d = {fell}", *self.repeats(anew), *self.updates(anew), f"node_goes(d, {nodes})"]
        return [f"{fell} = -1", *lines, *when([f"{fell} >= 0"], repeated)]
