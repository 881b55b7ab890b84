"""Loops over the events of a sequence: a chain of states written as one function, its attempts in local variables.

With each event of a sequence every attempt moves on or ends, so each state holds one attempt at most. The loop first
asks all conditions, then moves the attempts; an event that completes one, on which a condition fails, or before which a
timer is due, goes to the automaton, after what waits was put back into its states. The loop exists where one query
alone reads a stream, and all elements of its sequence do: ``every`` at the first one, then single events or counted
ones, single at the end. Both ways leave the same state: tests/properties/test_pattern_laws.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from spdist.operators.core.junction import Drive, Loop, LoopMaker, Receive
from spdist.operators.expressions.codegen import build, indent
from spdist.operators.patterns.groups import CountingState
from spdist.operators.patterns.loops import QuickWriter, careful
from spdist.operators.patterns.pattern import Automaton
from spdist.operators.patterns.states import Partial, Slots, State

__all__ = ["sequence_loop"]


def sequence_loop(automaton: Automaton, stream_id: str, receive: Receive) -> LoopMaker | None:
    """Return the loop over the stream of a sequence; None where there is none.

    Parameters
    ----------
    automaton : Automaton
        The sequence's states, outside of partitions.
    stream_id : str
        The stream.
    receive : Callable
        Receives an event that completes an attempt.
    """
    plan = automaton.plan
    if not plan.strict or automaton.waiting or not _is_chain(automaton, stream_id):
        return None
    chain = _Chain(automaton.states)

    def loop(drive: Drive) -> Loop:
        maker = plan.loops.get(stream_id)
        if maker is None:
            lines, names = _source(QuickWriter(plan), chain.states)
            maker = plan.loops[stream_id] = build(f"{plan.title} loop", lines, names)["make"]
        made: Loop = maker(drive, receive, chain, careful)
        return made

    return loop


def _is_chain(automaton: Automaton, stream_id: str) -> bool:
    first, *others = states = automaton.states
    if automaton.readers[stream_id] != states or automaton.units != states or not others:
        return False
    begins = first.is_plain_first and first.every is first and first.condition.guard is not None
    linked = all(state.next is following for state, following in pairwise(states))
    plain = type(others[-1]) is State and all(type(state) in (State, CountingState) for state in others)
    counts = all(state.least > 0 for state in others if isinstance(state, CountingState))
    bound = any(state.every is not None or state.tells is not None or state.is_start for state in others)
    endless = all(state.within is None for state in states)
    return begins and first.condition.rest is None and linked and plain and counts and not bound and endless


class _Chain:
    """Takes what waits out of the states of a sequence, and puts it back."""

    def __init__(self, states: list[State]) -> None:
        self.states = states
        self.size = len(states)

    def load(self) -> list[Any] | None:
        """Return whether an attempt may begin, and for each state after the first the attempt that has arrived there.

        Returns None where more waits than a loop has variables for, or a result is left of an event that failed.
        """
        found: list[Any] = []
        for position, state in enumerate(self.states):
            if state.returned or len(state.new) > 1:
                return None
            slots = state.new[0].slots if state.new else None
            if slots is not None:
                ahead = position + isinstance(state, CountingState)
                if state.new[0].expired or any(slots[ahead:]):
                    return None
            found.append(slots)
        found[0] = found[0] is not None
        return found

    def store(self, time: int, begun: bool, waiting: Iterable[tuple[Slots | None, Slots | None]]) -> None:
        """Put back what waits after an event.

        Parameters
        ----------
        time : int
            The event's, in ms.
        begun : bool
            Whether it began an attempt.
        waiting : iterable of tuple
            For each state after the first: the attempt that has arrived there, and that which goes on to collect.
        """
        first, *others = self.states
        first.pending, first.new = [], [Partial([None] * self.size, time)] if begun else []
        partials: dict[int, Partial] = {}

        def partial(slots: Slots) -> Partial:
            # One for each list of slots: a counted state shares its attempt with the state after it.
            return partials.setdefault(id(slots), Partial(slots, time))

        for state, (arrived, held) in zip(others, waiting, strict=True):
            state.new = [] if arrived is None else [partial(arrived)]
            state.pending = [] if held is None else [partial(held)]


def _source(writer: QuickWriter, states: list[State]) -> tuple[list[str], dict[str, Any]]:
    """Return the source of ``make``, which returns the loop, and the names it uses."""
    last = len(states) - 1
    new = [f"new_{at}" for at in range(1, last + 1)]
    waiting = ", ".join(f"(new_{at}, {_held(states, at)})" for at in range(1, last + 1))
    first = f"[(at, row){', None' * last}]"
    # From the end, so that one event does not move an attempt twice.
    moving = [line for at in range(last, 0, -1) for line in _moving(states, at)]
    body = [
        *(line for at in range(last, 0, -1) for line in _asking(writer, states, at)),
        "begun_now = False",
        *writer.where(0, ["begun_now = True"], alone=True),
        *moving,
        "begun = begun_now",
        "if begun and new_1 is None:",
        f"    new_1 = {first}",
        "last = at",
    ]
    lines = [
        "def make(drive, receive, chain, careful):",
        "    clock, heap, load, store = drive.clock, drive.heap, chain.load, chain.store",
        "    def process_events(timestamps, rows):",
        "        events = zip(timestamps, rows)",
        "        while True:",
        "            last, slow, state = None, False, load()",
        "            if state is not None:",
        f"                begun, {', '.join(new)} = state",
        *(f"                held_{at} = None" for at in range(1, last) if isinstance(states[at], CountingState)),
        "                try:",
        "                    for at, row in events:",
        "                        if heap and heap[0][0] <= at:",
        "                            slow = True",
        "                            break",
        "                        if at > clock.now:",
        "                            clock.now = at",
        *indent(body, 6),
        "                except Exception:",
        "                    # A condition failed: in the automaton it fails as ever.",
        "                    slow = True",
        "                if last is not None:",
        f"                    store(last, begun, ({waiting},))",
        "                if not slow:",
        "                    return",
        "            else:",
        "                at, row = next(events, (None, None))",
        "                if row is None:",
        "                    return",
        "            careful(receive, drive, ((at, row),))",
        "    return process_events",
    ]
    return lines, writer.bindings.names


def _held(states: list[State], at: int) -> str:
    return f"held_{at}" if isinstance(states[at], CountingState) else "None"


def _asking(writer: QuickWriter, states: list[State], at: int) -> list[str]:
    """Return lines that tell whether an event fits the attempt at a state; where it completes one, they leave."""
    is_last = at == len(states) - 1
    found = writer.where(at, ["slow = True", "break"] if is_last else [f"fits_{at} = True"])
    test = f"new_{at} is not None"
    if isinstance(states[at], CountingState) and at + 1 < len(states) - 1:
        # The next state has taken the event for the same attempt.
        test += f" and not (fits_{at + 1} and new_{at} is new_{at + 1})"
    asked = [f"if {test}:", f"    p = new_{at}", *indent(found)]
    return asked if is_last else [f"fits_{at} = False", *asked]


def _moving(states: list[State], at: int) -> list[str]:
    """Return lines that move the attempt at a state on, or end it."""
    state = states[at]
    if at == len(states) - 1:
        return [f"new_{at} = None"]
    on = [f"if new_{at + 1} is None:", f"    new_{at + 1} = p"]
    if not isinstance(state, CountingState):
        moved = [f"p = new_{at}", f"p[{at}] = (at, row)", *on]
        return [f"if fits_{at}:", *indent(moved), f"new_{at} = None"]
    moved = [f"p = new_{at}", f"if p[{at}] is None:", f"    p[{at}] = []", f"p[{at}].append((at, row))"]
    moved += on if state.least <= 1 else [f"if len(p[{at}]) >= {state.least}:", *indent(on)]
    stays = [f"held_{at} = p"]
    leaves = [f"new_{at} = None"]
    if state.most is not None:
        stays = [f"if len(p[{at}]) != {state.most}:", *indent(stays), "else:", *indent(leaves)]
    return [f"held_{at} = None", f"if fits_{at}:", *indent([*moved, *stays]), "else:", *indent(leaves)]
