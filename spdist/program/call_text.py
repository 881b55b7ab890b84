"""Calls out of the loop: elements without a typed form, and the timers of operators among those of the program."""

from __future__ import annotations

from spdist.language import ast
from spdist.language.types import Schema
from spdist.program.arrays import FAILURES, Arrays
from spdist.program.called import Called, CallSite
from spdist.program.expressions import NUMBER, NotTyped, TypedWriter, Value
from spdist.program.machine.shared import SHARED
from spdist.program.parts import Block, QueryText, Whole, indent
from spdist.program.timer_text import NEVER, declares_timers

__all__ = ["CallWriter", "begun", "counts_lost", "declares_shared", "failing_site", "fired_in_turn"]


def declares_shared(arrays: Arrays, timed: bool) -> None:
    """Declare what the loop and the operators tell each other, until when timers have fired, too."""
    if timed:
        declares_timers(arrays)
    arrays.declare("shared", NUMBER, str(SHARED))


class CallWriter:
    """Writes the call of an element with the events of a block.

    Parameters
    ----------
    whole : Whole
        The text.
    element : Called
        The element.
    block : Block
        The events.
    site : int
        The number of the place.
    schema : Schema
        The attributes of the stream.
    nested : bool
        Whether operators have brought the events.
    timed : bool
        Whether the program has timers.
    """

    def __init__(
        self, whole: Whole, element: Called, block: Block, site: int, schema: Schema, nested: bool, timed: bool
    ) -> None:
        self._whole = whole
        self._element = element
        self._block = block
        self._number = site
        self._schema = schema
        self._event = whole.name()
        self._conditions = self._tests()
        given = not block.source
        if not given:
            # The operators get whole rows, so every attribute must be there
            for place, type in enumerate(block.types):
                whole.attribute(block.owner, place, type, block.room)
        picked = ""
        if self._conditions:
            picked, room = f"picked{site}", f"picked {site}"
            whole.arrays.declare(picked, NUMBER, room)
            whole.count(room, block.most)
        #: What is known of the place.
        self.site = CallSite(element, block.stream, block.owner, block.types, given, nested, picked)
        #: The program's time goes in front of what may ask for wake-ups.
        self._tells = ["timers_until[0] = until"] if timed else []

    def lines(self, rest: list[str]) -> list[str]:
        """Return the call, given who gets the events after it, unless the element fails."""
        call = f"called(callback, {self._number}, {self._block.begin}, {self._block.end})"
        if not self._conditions:
            return [*self._tells, *([f"if {call} == 0:", *indent(rest)] if rest else [call])]
        # Only what meets the conditions is made rows of, and where nothing does, nobody is called
        count, failed = self._whole.name(), self._whole.name()
        return [
            f"{count} = 0",
            f"for {self._event} in range({self._block.begin}, {self._block.end}):",
            *indent(self._conditions),
            f"    {self.site.picked}[{count}] = {self._event}",
            f"    {count} += 1",
            f"{failed} = 0",
            f"if {count} > 0:",
            f"    shared[PICKED] = {count}",
            *indent(self._tells),
            f"    {failed} = {call}",
            *([f"if {failed} == 0:", *indent(rest)] if rest else []),
        ]

    def _tests(self) -> list[str]:
        """Return what goes on with the next event where one does not meet the conditions, as far as they are typed."""
        block = self._block

        def variable(named: ast.Variable) -> Value:
            place = self._schema.names.index(named.name)
            values, nulls = self._whole.attribute(block.owner, place, block.types[place], block.room)
            return Value(f"{values}[{self._event}]", f"{nulls}[{self._event}] != 0", block.types[place])

        lines: list[str] = []
        for condition in self._element.filters.get(block.stream, ()):
            timestamp = f"{block.timestamp}[{self._event}]"
            writer = TypedWriter(variable, timestamp, self._whole.name, self._whole.text_number)
            try:
                test = writer.condition(condition)
            except NotTyped:
                break  # what stands behind it must not be looked at before it
            lines += [*writer.lines, f"if not ({test}):", "    continue"]
        return lines


def begun() -> list[str]:
    """Return what is told of an event when it comes; of one that operators bring, its cause is known."""
    return [
        "if fires != NESTED:",
        f"    shared[NUMBER], shared[RUNG], shared[ELEMENT] = 0, {NEVER}, NO_ELEMENT",
        "shared[NOW] = now",
    ]


def fired_in_turn(blocks: dict[int, list[str]]) -> list[str]:
    """Return what wakes all that is due before a chunk, of operators, too, given what wakes each query.

    As in `spdist.operators.timers`: what is due first is first, then the query that was written first.
    """
    wakes = ["shared[NOW] = now", "called(callback, WAKE, 0, 0)", "now = shared[NOW]"]
    if not blocks:
        return [
            "if fires != NESTED:",
            "    shared[CAUSE] = c",
            "while fires == FIRES and shared[NEXT_DUE] <= until_of[c]:",
            "    shared[LIMIT], shared[OWN_DUE] = until_of[c], NEVER_DUE",
            *indent(wakes),
        ]
    choices: list[str] = []
    for number, lines in blocks.items():
        choices += [f"if block == {number}:", *indent(lines)]
    return [
        "if fires != NESTED:",
        "    shared[CAUSE] = c",
        "while fires == FIRES:",
        "    own_due = timers[3] if timers[0] > 0 else NEVER_DUE",
        "    if own_due > until_of[c] and shared[NEXT_DUE] > until_of[c]:",
        "        break",
        "    if shared[NEXT_DUE] < own_due or (shared[NEXT_DUE] == own_due and shared[NEXT_ELEMENT] < timers[4]):",
        "        shared[LIMIT], shared[OWN_DUE], timers_until[0] = until_of[c], own_due, until",
        *indent(indent(wakes)),
        # The operators' timers move on until when all have fired
        "        until = timers_until[0]",
        "        continue",
        "    due, block, key = timers[3], timers[4], timers[5]",
        "    timer_gone(timers)",
        "    if due > now:",
        "        now = due",
        "    if now != shared[FIRED]:",
        "        shared[FIRED], shared[FIRED_NUMBER] = now, 0",
        "    shared[NUMBER], shared[RUNG], shared[NOW] = shared[FIRED_NUMBER], now, now",
        *indent(choices),
        "    shared[FIRED_NUMBER] = shared[NUMBER]",
        "if fires == FIRES and until_of[c] > until:",
        "    until = until_of[c]",
    ]


def counts_lost(whole: Whole, number: int, block: Block) -> list[str]:
    """Return what notes that the query with a number has failed on the events of a block, which come from one."""
    whole.count(f"lost {FAILURES}", block.most)
    count = f"{whole.arrays.declare(FAILURES, NUMBER, '1')}[0]"
    stores = [
        f"{whole.arrays.declare(f'failed_{name}', NUMBER, f'lost {FAILURES}')}[k] = {text}"
        for name, text in {"cause": whole.cause, "query": str(number)}.items()
    ]
    return [f"k = {count}", *stores, f"{count} = k + 1"]


def failing_site(query: QueryText, block: Block) -> CallSite:
    """Return the place where a query's operators are called with events of a source that it fails on."""
    element = Called((query.read.checked.name,), (block.stream,), NotTyped("an event that it fails on"))
    return CallSite(element, block.stream, block.owner, block.types, given=True, nested=False, picked="")
