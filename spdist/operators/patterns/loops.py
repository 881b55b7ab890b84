"""Loops over the events of a pattern: what an event does not change is told without asking state by state.

Most events fit no element: they begin no attempt, and no attempt waits for them. A loop is generated that tells so from
the conditions themselves, an index and bounds (see `spdist.operators.patterns.states.Bound`), and hands all others to
the automaton. It exists for a stream that only the pattern's query reads; `spdist.operators.patterns.sequence_loops`
has the one for sequences. Both ways give the same results and leave the same state:
tests/properties/test_pattern_laws.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spdist.operators.core.junction import Drive, Loop, LoopMaker, Receive
from spdist.operators.expressions.codegen import Bindings, Frame, build, indent
from spdist.operators.expressions.expression import ExpressionWriter
from spdist.operators.expressions.readers import ElementReader
from spdist.operators.patterns.conditions import nested
from spdist.operators.patterns.index import IndexedState
from spdist.operators.patterns.pattern import Automaton, PatternPlan
from spdist.operators.patterns.states import Bound, Partial, State

__all__ = ["QuickWriter", "careful", "pattern_loop"]

_FOR_EVER = (-(2**63), 2**63)
_NEVER = (1, 0)


class QuickWriter:
    """Writes the conditions of a pattern's elements into a loop over events ``row``.

    Parameters
    ----------
    plan : PatternPlan
        The pattern.
    """

    def __init__(self, plan: PatternPlan) -> None:
        self.plan = plan
        self.bindings = Bindings()

    def where(self, position: int, inside: Sequence[str], alone: bool = False) -> list[str]:
        """Return lines that run those `inside` where the condition of an element holds.

        Parameters
        ----------
        position : int
            The element.
        inside : Sequence[str]
            Lines.
        alone : bool
            Whether only what looks at the event is asked; else the slots of the partial are in ``p``.
        """
        parts = self.plan.parts.get(position)
        if parts is None:
            return list(inside)
        frame = Frame()
        reader = ElementReader(parts.scope, self.plan.catalog, frame, self.bindings, self.plan.slots, own=position)
        writer = ExpressionWriter(reader, frame, self.bindings)
        return nested(parts.alone if alone else parts.whole, writer, frame, inside)


def careful(receive: Receive, drive: Drive, events: Any) -> None:
    """Take single events without any loop: a result that an event which failed has left behind is still to be shown."""
    clock, heap, move, failed = drive.clock, drive.heap, drive.move, drive.failed
    for at, row in events:
        if heap and heap[0][0] <= at:
            move(at)
        elif at > clock.now:
            clock.now = at
        try:
            receive(at, row)
        except Exception as error:
            failed(((at, row),), error)


def pattern_loop(automaton: Automaton, stream_id: str, receive: Receive) -> LoopMaker | None:
    """Return the loop over a stream of a pattern; None where there is none.

    Parameters
    ----------
    automaton : Automaton
        The pattern's states, outside of partitions.
    stream_id : str
        The stream.
    receive : Callable
        Receives an event that changes something.
    """
    plan, readers = automaton.plan, automaton.readers[stream_id]
    if plan.strict or automaton.waiting or not all(_is_quick(state) for state in readers):
        return None
    calm = _Calm(automaton, stream_id)

    def loop(drive: Drive) -> Loop:
        maker = plan.loops.get(stream_id)
        if maker is None:
            maker = plan.loops[stream_id] = _made(plan, stream_id, readers)
        made: Loop = maker(drive, receive, calm, careful)
        return made

    return loop


def _is_quick(state: State) -> bool:
    """Tell whether a loop can tell that an event does nothing at a state."""
    if state.is_start:
        return state.is_plain_first and state.condition.guard is not None
    return type(state) in (State, IndexedState)


class _Bounded:
    """A state without an index that keeps the bound of what waits there.

    State
    -----
    ``edge``: the bound, or one that is less strict; None where no event can fit.
    """

    def __init__(self, state: State, bound: Bound) -> None:
        self.state = state
        self.bound = bound
        self.edge: Any = None
        self._seen: tuple[list[Partial], Partial] | None = None

    def update(self) -> None:
        """Let the partials that arrived join those that wait."""
        arrived = self.state.new
        # First, while only those wait that were there before.
        self.see()
        self.state.update()
        self.edge = self.bound.joined(self.edge, self.bound.bound_of(arrived))
        self._seen = self.state.pending, self.state.pending[-1]

    def see(self) -> None:
        """Take note of what waits now; what has only left the front is no matter."""
        pending = self.state.pending
        if not pending:
            self.edge = self._seen = None
        elif self._seen is None or self._seen[0] is not pending or self._seen[1] is not pending[-1]:
            self.edge = self.bound.bound_of(pending)
            self._seen = pending, pending[-1]


class _Calm:
    """What is done with the states before an event of a stream is offered to them, and when that need not be done."""

    def __init__(self, automaton: Automaton, stream_id: str) -> None:
        self.states = tuple(automaton.states)
        self.expiring = tuple(state for state in automaton.states if state.expires)
        readers = automaton.readers[stream_id]
        self.waiting: tuple[State | _Bounded, ...] = tuple(_bounded(s) for s in readers if not s.is_start)
        self.updating = [(s, s) for s in readers if s.is_start] + [
            (held.state if isinstance(held, _Bounded) else held, held) for held in self.waiting
        ]
        self.bounded = [held for held in self.waiting if isinstance(held, _Bounded)]

    def unsure(self) -> bool:
        """Tell whether a result is left over from an event that failed."""
        return any(state.returned for state in self.states)

    def prepare(self, timestamp: int) -> tuple[int, int]:
        """Drop what is too old, let new partials join, and return what `span` does."""
        for state in self.expiring:
            if not state.keeps(timestamp):
                state.expire(timestamp)
        for state, updated in self.updating:
            if state.new:
                updated.update()
        return self.span()

    def span(self) -> tuple[int, int]:
        """Return from when to when `prepare` would do nothing, where the bounds of what waits are known."""
        for held in self.bounded:
            held.see()
        low, high = _FOR_EVER
        for state in self.expiring:
            if state.new:
                return _NEVER
            since, until = state.calm_span()
            low, high = max(low, since), min(high, until)
        return _NEVER if any(state.new for state, _ in self.updating) else (low, high)


def _bounded(state: State) -> State | _Bounded:
    bound = state.condition.bound
    return state if bound is None or isinstance(state, IndexedState) else _Bounded(state, bound)


def _made(plan: PatternPlan, stream_id: str, readers: Sequence[State]) -> Callable[..., Any]:
    writer = QuickWriter(plan)
    asking: list[str] = []
    unpacked: list[str] = []
    for state in readers:
        position = plan.slots.index(state.slot)
        if state.is_start:
            asking = [*writer.where(position, ["fits = True"], alone=True)]
    asking += [*_PREPARING, "if not fits:"]
    number = 0
    for state in readers:
        if not state.is_start:
            lines, setup = _waiting(writer, plan.slots.index(state.slot), state, number)
            asking += indent(lines)
            unpacked += setup
            number += 1
    asking += ["    if not fits:", "        continue"]
    # An event that the automaton got may have changed what waits: the empty span has all looked at anew.
    body = [*_CLOCK, "fits = False", *asking, "asks = True", "receive(at, row)", "low, high = 1, 0", "asks = False"]
    lines = [
        "def make(drive, receive, calm, careful):",
        "    clock, heap, move, failed = drive.clock, drive.heap, drive.move, drive.failed",
        "    prepare, span = calm.prepare, calm.span",
        *indent(unpacked),
        "    def process_events(timestamps, rows):",
        "        events = zip(timestamps, rows)",
        "        while not calm.unsure():",
        "            asks = False",
        "            try:",
        "                low, high = span()",
        "                for at, row in events:",
        *indent(body, 5),
        "                return",
        "            except Exception as error:",
        "                if asks:",
        "                    failed(((at, row),), error)",
        "                    continue",
        "            # A condition failed: in the automaton it fails as ever.",
        "            careful(receive, drive, ((at, row),))",
        "        careful(receive, drive, events)",
        "    return process_events",
    ]
    made: Callable[..., Any] = build(f"{plan.title} loop", lines, writer.bindings.names)["make"]
    return made


def _waiting(writer: QuickWriter, position: int, state: State, number: int) -> tuple[list[str], list[str]]:
    """Return lines that tell whether an event may fit a partial that waits at a state, and what they need."""
    name, condition = f"state_{number}", state.condition
    found = writer.where(position, ["fits = True"], alone=True)
    setup = [f"{name} = calm.waiting[{number}]"]
    bound = condition.bound
    if isinstance(state, IndexedState):
        setup += [f"bounds_{number} = {name}.bounds", f"keys_{number} = {name}.by_key"]
        if bound is None:
            return [f"if row[{condition.event_key}] in keys_{number}:", *indent(found)], setup
        known = f"bounds_{number}.get(row[{condition.event_key}])"
    elif bound is None:
        return [f"if {name}.pending:", *indent(found)], setup
    else:
        known = f"{name}.edge"
    value = f"(own := row[{bound.attribute}]) is not None and own {bound.op} edge"
    return [f"edge = {known}", f"if edge is not None and {value}:", *indent(found)], setup


_PREPARING = ("if not low <= at <= high:", "    low, high = prepare(at)")
_CLOCK = (
    "if heap and heap[0][0] <= at:",
    "    asks = True",
    "    move(at)",
    "    low, high = span()",
    "    asks = False",
    "elif at > clock.now:",
    "    clock.now = at",
)
