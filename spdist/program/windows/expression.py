"""The windows that a condition over what they hold bounds, ``expression`` and ``expressionBatch``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy

from spdist.errors import SiddhiAppError
from spdist.extension import catalog
from spdist.language import ast
from spdist.operators.core.state_columns import Column, NumberColumn, StructColumn, ValueColumn, nothing
from spdist.operators.windows.condition import parsed_condition
from spdist.program.expressions import NUMBER, NotTyped, Value
from spdist.program.parts import Event, QueryText, indent
from spdist.program.registry import WINDOWS
from spdist.program.running.running import Running
from spdist.program.shape import Read
from spdist.program.states.nodes import stored_list
from spdist.program.states.totals import packed, unpack
from spdist.program.states.window import ListStates, Loaded, noted_numbers
from spdist.program.windows.batch_text import BatchWriter
from spdist.program.windows.condition_text import ConditionText, Seen, WindowBound
from spdist.program.windows.kinds import Sliding, WindowCall, constant_of
from spdist.program.windows.text import WindowWriter

__all__ = ["BoundBatchWriter", "BoundWriter", "Bounded"]


@WINDOWS.typed("expression", "expressionBatch")
@dataclass(frozen=True, slots=True)
class Bounded(Sliding):
    """A window that holds as many of the latest events as its condition allows, or batches of them."""

    bound: WindowBound = field(kw_only=True)

    @classmethod
    def of(cls, given: WindowCall) -> Bounded:
        """Return what an app says."""
        window = given.call
        text, *options = window.args
        if not isinstance(text, ast.Literal):
            raise NotTyped(f"the window {window.id} by a text that events bring", window.span)
        try:
            condition, own = parsed_condition(str(text.value), given.scope.sources[0], catalog(False))
        except SiddhiAppError:  # it calls a function that the app defines
            raise NotTyped(f"the window {window.id} by what is no condition here", window.span) from None
        bound = WindowBound(
            str(text.value),
            condition,
            own,
            window.span,
            gathers=window.id == "expressionBatch",
            includes=options[0] if options else None,
            passes=len(options) > 1 and constant_of(options[1]) is True,
        )
        return cls(bound=bound)

    @property
    def writer(self) -> type[BoundWriter] | type[BoundBatchWriter]:
        """What writes it."""
        return BoundBatchWriter if self.gathers else BoundWriter

    @property
    def states(self) -> BoundStates:
        """What knows its state."""
        return BoundStates(self)

    @property
    def compared(self) -> set[int]:
        """The attributes of events held that say which of them leave."""
        return set(self.bound.compared)

    @property
    def is_even(self) -> bool:
        """Whether all events leave that come, and no others."""
        return False

    @property
    def one_by_one(self) -> bool:
        """Whether an event that comes lets one leave at most, and time lets none."""
        return False

    @property
    def leaves_early(self) -> bool:
        """Whether an event may leave before it comes: it does not meet the condition by itself."""
        return True

    @property
    def gathers(self) -> bool:
        """Whether events leave together, as a batch that its condition ends, and are taken off the totals then."""
        return self.bound.gathers

    @property
    def opens(self) -> bool:
        """Whether it shows an open batch to who looks into it, and notes that."""
        return self.gathers and not self.bound.passes

    @property
    def lists(self) -> tuple[str, ...]:
        """What it holds: all of it, or the open batch and the one released last; one that passes is both."""
        return ("head",) if not self.gathers else ("head", "left") if self.opens else ("left",)


class BoundWriter(WindowWriter):
    """Writes what happens in a window ``expression``; see `WindowWriter`.

    Notes
    -----
    An event that does not meet the condition by itself leaves before its own result, so all that leaves does so when
    the new event's group is known.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        assert isinstance(self.window, Bounded)
        self._condition = ConditionText(self.whole, self.query, self.window.bound, self.key)

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what lets the new event enter."""
        self._came: Seen = read, timestamp
        self._leaving = leaving
        return self._comes_last(read, timestamp)

    def changes(self) -> list[str]:
        """Return what lets the oldest events leave until the condition holds."""
        head, first, goes = f"{self.prefix}_head[{self.key}]", self.whole.name(), self.whole.name()
        counted, holds = self._condition.holds((self._came, self._seen(head), self._came), enters=True)
        left, met = self._condition.holds((self._seen("d"), self._seen(first), self._came), enters=False)
        leaves = [
            *self._oldest(),
            # Where nothing is left, the condition sees the event that leaves as the first one, as in the operator
            f"{first} = {head} if {head} >= 0 else d",
            *left,
            f"{goes} = {head} >= 0 and not ({met})",
            *self._left(self._leaving),
        ]
        return [*counted, f"{goes} = not ({holds})", f"while {goes}:", *indent(leaves)]

    def _seen(self, node: str) -> Seen:
        return partial(self.kept_at, node=node), f"{self.prefix}_ts[{node}]"


class BoundBatchWriter(BatchWriter):
    """Writes what happens in a window ``expressionBatch``; see `BatchWriter`.

    Notes
    -----
    ``q_head`` is the open batch, and ``q_left`` the one released last, whose events are in the totals; where events
    pass when they come, ``q_left`` is the open one. An event enters the list before the condition is tested: where the
    batch ends it is the last one of that. One that does not meet the condition by itself leaves before it comes, and
    never again.
    """

    def _declare(self) -> None:
        super()._declare()
        window = self.query.read.window
        assert isinstance(window, Bounded)
        self._condition = ConditionText(self.whole, self.query, window.bound, self.key)
        self._bound = self._condition.bound
        #: The node of the event; whether it ends the batch, is alone in it, and is released with it; the last released.
        self._fresh, self._ends, self._alone, self._goes_too, self._last = (self.whole.name() for _ in range(5))

    def _wanted(self) -> list[int]:
        window = self.query.read.window
        assert window is not None
        return sorted({*super()._wanted(), *window.compared})

    def takes(self, event: Event) -> list[str]:
        """Return what is done with an event."""
        where = "left" if self._bound.passes else "head"
        head, came = f"{self.prefix}_{where}[{self.key}]", (event.read, event.timestamp)
        seen = came, (partial(self._kept_at, node=head), f"{self.prefix}_ts[{head}]"), came
        counted, holds = self._condition.holds(seen, enters=True)
        # The condition's totals count the event that ends a batch for the next one: they begin anew with it
        again, _ = self._condition.holds(seen, enters=True)
        included, test = ([], "") if self._bound.includes is None else self._condition.includes(came)
        ended = [
            *self._condition.begins_anew(),
            *again,
            f"{self._alone} = {head} == {self._fresh}",
            *included,
            f"{self._goes_too} = {self._alone}{f' or ({test})' if test else ''}",
        ]
        chunk = self._passing(event) if self._bound.passes else self._released(event)
        released = self._results.hands_over(self._chunk(chunk))
        lines = [*self._holds(event, where), f"{self._fresh} = d", *counted, f"{self._ends} = not ({holds})"]
        if not self._bound.passes:
            return [*lines, f"if {self._ends}:", *indent([*ended, *released])]
        # What follows reads both for each event, also where no batch ends
        none = f"{self._alone}, {self._goes_too} = False, False"
        return [*lines, none, f"if {self._ends}:", *indent(ended), *released]

    def _released(self, event: Event) -> list[str]:
        """Return what lets the batch before leave, and the events of the open one enter."""
        prefix, fresh, last, at = self.prefix, self._fresh, self._last, self.whole.name()
        head, left = (f"{prefix}_{name}[{self.key}]" for name in ("head", "left"))
        head_size, left_size = (f"{prefix}_{name}_size[{self.key}]" for name in ("head", "left"))
        joins = [
            *self._joins(event.read),
            f"if {left} < 0:",
            f"    {left} = d",
            "else:",
            f"    {prefix}_next[{prefix}_left_end[{self.key}]] = d",
            f"{prefix}_left_end[{self.key}] = d",
        ]
        notes, seen, drops = self._looks(at)
        comes = [
            f"{at} = {prefix}_ts[d] if d == {fresh} and not {self._alone} else now",
            *seen,
            *([f"if not {self._alone}:", *indent(noted)] if (noted := self._joins(self._kept)) else []),
            *self._adds_up(self._kept, at),
            f"{prefix}_ts[d], {last} = now, d",
            f"d = {prefix}_next[d]",
        ]
        return [
            f"if {self._alone}:",
            f"    d = {fresh}",
            *indent(joins),
            *self._each("left", self._gone()),
            *notes,
            f"d, {last} = {head}, -1",
            f"while d >= 0 and ({self._goes_too} or d != {fresh}):",
            *indent(comes),
            *self._frees("left"),
            # The event that has ended the batch is the first one of the next, unless it belongs to it
            f"{left_size} = {head_size} if {self._goes_too} else {head_size} - 1",
            *drops,
            f"if {left_size} > 0 and not {self._alone}:",
            f"    {left}, {prefix}_left_end[{self.key}], {prefix}_next[{last}] = {head}, {last}, -1",
            "else:",
            f"    {left_size} = 0",
            f"{head}, {head_size} = {fresh}, 1",
            f"if {self._goes_too}:",
            f"    {head}, {head_size} = -1, 0",
        ]

    def _looks(self, at: str) -> tuple[list[str], list[str], list[str]]:
        """Return what is done about the events of the open batch that somebody has looked at, where that is noted.

        They keep their timestamps, and never leave. `at` is the name of the timestamp with which an event comes;
        returned is what stands before the loop over the batch, what is done for an event, and what lets them go.
        """
        if not (self.query.notes_looks and "head" in self.query.read.lists):
            return [], [], []
        prefix, key, seen = self.prefix, self.key, self.whole.name()
        looked = f"{self.whole.arrays.declare(f'{prefix}_looked', NUMBER, self.query.instances)}[{key}]"
        goes = [
            f"d = {prefix}_head[{key}]",
            f"{prefix}_head[{key}], {prefix}_next[d], {prefix}_free[0] = {prefix}_next[d], {prefix}_free[0], d",
            f"{looked} -= 1",
            f"{prefix}_left_size[{key}] -= 1",
        ]
        known = [f"if {seen} > 0:", f"    {at}, {seen} = {prefix}_ts[d], {seen} - 1"]
        return [f"{seen} = {looked}"], known, [f"while {looked} > 0:", *indent(goes)]

    def _passing(self, event: Event) -> list[str]:
        """Return what lets an event come, and the batch leave that has ended: behind the event where that is in it."""
        prefix, fresh, last, when, at = self.prefix, self._fresh, self._last, self.whole.name(), self.whole.name()
        left, size = (f"{prefix}_left{part}[{self.key}]" for part in ("", "_size"))
        leaves = [*self._gone(), f"{last} = d", f"d = {prefix}_next[d]"]
        return [
            f"d = {fresh}",
            *self._joins(event.read),
            # What lets a batch leave stands in the text once: it runs in front of the event, or behind it
            f"for {when} in range(2):",
            f"    if {self._ends} and ({when} == 1) == ({self._goes_too} and not {self._alone}):",
            f"        d, {last} = {left}, -1",
            f"        while d >= 0 and ({self._goes_too} or d != {fresh}):",
            *indent(indent(indent(leaves))),
            f"    if {when} == 0:",
            f"        {at} = now if {self._alone} else {event.timestamp}",
            *indent(indent(self._adds_up(event.read, at))),
            f"if {self._goes_too}:",
            *indent(self._frees("left")),
            f"elif {self._ends}:",
            f"    {prefix}_next[{last}], {prefix}_free[0] = {prefix}_free[0], {left}",
            f"    {left}, {size} = {fresh}, 1",
        ]

    def _gone(self) -> list[str]:
        """Return what is done for the event of node ``d``, which leaves."""
        prefix, groups = self.prefix, self.groups
        shown = self._results.emits(Event(self._kept, "now", "gone"), True)
        return groups.passes(self._kept, groups.leaves(self._kept, f"{prefix}_ts[d]", f"{prefix}_g[d]", shown))

    def _joins(self, read: Callable[[int], Value]) -> list[str]:
        """Return what notes the group of the event of node ``d``, which will leave."""
        groups = self.groups
        if not groups.aggregated:
            return []
        group = self.whole.arrays.declare(f"{self.prefix}_g", NUMBER, self._nodes, "-1")
        return groups.passes(read, [*groups.finds(read), f"{group}[d] = {groups.number}", *groups.counts()])

    def _adds_up(self, read: Callable[[int], Value], timestamp: str) -> list[str]:
        """Return what adds an event to the totals, and puts its result out."""
        groups = self.groups
        event = Event(read, timestamp, groups.number)
        return groups.passes(read, [*groups.finds(read), *self._adds(event), *self._results.emits(event, False)])


class BoundStates(ListStates):
    """The state of a window that a condition bounds: the events held, the condition's text, and its aggregators."""

    window: Bounded

    def loaded(self, read: Read, states: Column) -> Loaded:
        """Return what is held, and how many events of the open batch somebody has looked at."""
        if not self.window.gathers:
            return Loaded({"head": states.parts(2)[0]})
        head, left, _, looked, _ = states.parts(5)
        return Loaded({"head": head, "left": left}, {"looked": looked})

    def stored(self, running: Running, query: QueryText, count: int) -> Column:
        """Return the states of so many keys of a partition, by number; or one."""
        head, left = (stored_list(running, query, name, count) for name in ("head", "left"))
        text, slots = [self.window.bound.text] * count, packed(running, query.bounding, numpy.arange(count))
        condition = StructColumn(list, [ValueColumn(text), slots])
        if not self.window.gathers:
            return StructColumn(list, [replace(head, kind=deque), condition])
        looked = NumberColumn(noted_numbers(running, query, "looked", count))
        return StructColumn(list, [head, left, nothing(count), looked, condition])

    def fresh(self, read: Read) -> Any:
        """Return the state of a window that has seen nothing."""
        return [[], [], [], 0, [None, []]] if self.window.gathers else [deque(), [None, []]]

    def load_more(self, running: Running, query: QueryText, numbers: Any, states: Column, found: Loaded) -> None:
        """Take over the aggregators of the condition."""
        *_, condition = states.parts(5 if self.window.gathers else 2)
        _, totals = condition.parts(2)
        unpack(running, query, query.bounding, numbers, totals)
