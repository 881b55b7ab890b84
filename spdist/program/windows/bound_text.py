"""Windows of a program that a condition over what they hold bounds, such as ``last.at - first.at < 1000``.

The aggregators of the condition stand next to the window's list, once for each key of the partition. They are brought
up to date where the condition asks for them: one behind ``and`` or ``or`` only where that leaves it open, as in the
operators (`spdist.operators.selection.aggregates`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.expressions import type_of
from spdist.language.types import Type
from spdist.operators.selection.aggregates import aggregates_in
from spdist.operators.selection.selector import is_aggregator
from spdist.program.aggregators import typed_form
from spdist.program.expressions import NUMBER, NotTyped, TypedWriter, Value
from spdist.program.parts import Aggregate, Event, QueryText, Whole, indent
from spdist.program.queries.group_text import declared, first_values, updated
from spdist.program.shape import Sliding
from spdist.program.windows.batch_text import BatchWriter
from spdist.program.windows.kinds import WindowBound
from spdist.program.windows.text import WindowWriter

__all__ = ["BoundBatchWriter", "BoundWriter"]

#: An event that a condition looks at: what reads an attribute, and source of its timestamp.
_Seen = tuple[Callable[[int], Value], str]
#: The function whose arguments behind the first one are only computed where it wants them.
_CHOOSING = "ifThenElse"


class AskedWriter(TypedWriter):
    """Writes a condition: what holds aggregators is only computed where it is asked for."""

    #: How many conditions around a part leave it open whether that is asked for.
    asked = 0

    def apart(self, expression: ast.Expression) -> tuple[Value, list[str]]:
        """Return a value, and its statements where they must only be executed if it is wanted."""
        if not aggregates_in(expression):
            return super().apart(expression)
        before, self.lines = self.lines, []
        self.asked += 1
        value = self.write(expression)
        self.asked -= 1
        own, self.lines = self.lines, before
        return value, own

    def _call(self, node: ast.FunctionCall) -> Value:
        if self.asked and node.id != _CHOOSING and not is_aggregator(node) and aggregates_in(node):
            raise NotTyped(f"the function {node.id}() of an aggregator that is asked for some events only")
        return super()._call(node)


class ConditionText:
    """Writes the condition of a window, and its aggregators.

    Parameters
    ----------
    whole : Whole
        The text.
    query : QueryText
        The query; it is told the aggregators.
    key : str
        Source of the number of the partition's key.
    """

    def __init__(self, whole: Whole, query: QueryText, key: str) -> None:
        window = query.read.window
        assert isinstance(window, Sliding) and window.bound is not None
        self.bound: WindowBound = window.bound
        self._whole = whole
        self._query = query
        self._key = key
        nodes = (node for node in self.bound.condition.walk() if isinstance(node, ast.FunctionCall))
        calls = filter(is_aggregator, nodes)
        self._found = [(call, self._declared(call, f"_e{number}")) for number, call in enumerate(calls)]
        query.bounding = [aggregate for _, aggregate in self._found]

    def _declared(self, call: ast.FunctionCall, name: str) -> Aggregate:
        """Return an aggregator, and declare its arrays."""
        types = tuple(type_of(argument, self.bound.scope, catalog(False)) for argument in call.args)
        form = None if call.namespace else typed_form(call.name, types, leaving=True)
        if form is None or form.pairs:
            raise NotTyped(f"the aggregator {call.id}() in the condition of a window", self.bound.span)
        prefix, room = f"{self._query.name}{name}", self._query.instances
        return declared(self._whole.arrays, self._query, form, prefix, room, types[0] if types else None)

    def holds(self, seen: tuple[_Seen, _Seen, _Seen], enters: bool) -> tuple[list[str], str]:
        """Return what counts an event, and source of whether the condition holds.

        Parameters
        ----------
        seen : tuple
            The event that enters or leaves, the first one held, and the last one.
        enters : bool
            Whether it enters.
        """

        def aggregate(call: ast.FunctionCall) -> Value | None:
            found = next((one for node, one in self._found if node is call), None)
            if found is None:
                return None
            if found.form.strict and self._writer(seen).write(call.args[0]).null:
                raise NotTyped(f"the aggregator {call.id}() of what may be null")
            writer.lines += updated(self._writer(seen), call, found, self._key, enters=enters)
            result, null = (found.filled(text, self._key) for text in (found.form.result, found.form.null))
            return writer.kept(Value(result, null, found.form.type))

        writer = self._writer(seen, aggregate)
        try:
            test = writer.condition(self.bound.condition)
        except NotTyped as why:
            raise NotTyped(f"{why.reason} in the condition of a window", self.bound.span) from None
        return writer.lines, test

    def begins_anew(self) -> list[str]:
        """Return what lets the aggregators be those of nothing."""
        lines: list[str] = []
        for _, one in self._found:
            lines += first_values(one, self._key)
            lines += [one.filled(line, self._key) for line in one.form.reset]
        return lines

    def includes(self, came: _Seen) -> tuple[list[str], str]:
        """Return source of whether the event that ends a batch belongs to it."""
        assert self.bound.includes is not None
        writer = self._writer((came,))
        test = writer.condition(self.bound.includes)
        return writer.lines, test

    def _writer(
        self, seen: Sequence[_Seen], aggregate: Callable[[ast.FunctionCall], Value | None] = lambda call: None
    ) -> AskedWriter:
        width = len(self._query.read.types)

        def variable(named: ast.Variable) -> Value:
            found = self.bound.scope.resolve(named)
            read, timestamp = seen[found.source]
            return Value(timestamp, "", Type.LONG) if found.attribute == width else read(found.attribute)

        return AskedWriter(variable, seen[0][1], self._whole.name, self._whole.text_number, aggregate)


class BoundWriter(WindowWriter):
    """Writes what happens in a window ``expression``; see `WindowWriter`.

    Notes
    -----
    An event that does not meet the condition by itself leaves before its own result, so all that leaves does so when
    the new event's group is known.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._condition = ConditionText(self._whole, self._query, self._key)

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what lets the new event enter."""
        self._came: _Seen = read, timestamp
        self._leaving = leaving
        return self._comes_last(read, timestamp)

    def changes(self) -> list[str]:
        """Return what lets the oldest events leave until the condition holds."""
        head, first, goes = f"{self._prefix}_head[{self._key}]", self._whole.name(), self._whole.name()
        counted, holds = self._condition.holds((self._came, self._seen(head), self._came), enters=True)
        left, met = self._condition.holds((self._seen("d"), self._seen(first), self._came), enters=False)
        leaves = [
            *self._oldest(),
            f"{first} = {head} if {head} >= 0 else d",
            *left,
            f"{goes} = {head} >= 0 and not ({met})",
            *self._left(self._leaving),
        ]
        return [*counted, f"{goes} = not ({holds})", f"while {goes}:", *indent(leaves)]

    def _seen(self, node: str) -> _Seen:
        return partial(self.kept_at, node=node), f"{self._prefix}_ts[{node}]"


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
        self._condition = ConditionText(self._whole, self._query, self._key)
        self._bound = self._condition.bound
        #: The node of the event; whether it ends the batch, is alone in it, and is released with it; the last released.
        self._fresh, self._ends, self._alone, self._goes_too, self._last = (self._whole.name() for _ in range(5))

    def _wanted(self) -> list[int]:
        window = self._query.read.window
        assert window is not None
        return sorted({*super()._wanted(), *window.compared})

    def takes(self, event: Event) -> list[str]:
        """Return what is done with an event."""
        where = "left" if self._bound.passes else "head"
        head, came = f"{self._prefix}_{where}[{self._key}]", (event.read, event.timestamp)
        seen = came, (partial(self._kept_at, node=head), f"{self._prefix}_ts[{head}]"), came
        counted, holds = self._condition.holds(seen, enters=True)
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
        none = f"{self._alone}, {self._goes_too} = False, False"
        return [*lines, none, f"if {self._ends}:", *indent(ended), *released]

    def _released(self, event: Event) -> list[str]:
        """Return what lets the batch before leave, and the events of the open one enter."""
        prefix, fresh, last, at = self._prefix, self._fresh, self._last, self._whole.name()
        head, left = (f"{prefix}_{name}[{self._key}]" for name in ("head", "left"))
        head_size, left_size = (f"{prefix}_{name}_size[{self._key}]" for name in ("head", "left"))
        joins = [
            *self._joins(event.read),
            f"if {left} < 0:",
            f"    {left} = d",
            "else:",
            f"    {prefix}_next[{prefix}_left_end[{self._key}]] = d",
            f"{prefix}_left_end[{self._key}] = d",
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
            f"{left_size} = {head_size} if {self._goes_too} else {head_size} - 1",
            *drops,
            f"if {left_size} > 0 and not {self._alone}:",
            f"    {left}, {prefix}_left_end[{self._key}], {prefix}_next[{last}] = {head}, {last}, -1",
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
        if not (self._query.notes_looks and "head" in self._query.read.lists):
            return [], [], []
        prefix, key, seen = self._prefix, self._key, self._whole.name()
        looked = f"{self._whole.arrays.declare(f'{prefix}_looked', NUMBER, self._query.instances)}[{key}]"
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
        prefix, fresh, last, when, at = self._prefix, self._fresh, self._last, self._whole.name(), self._whole.name()
        left, size = (f"{prefix}_left{part}[{self._key}]" for part in ("", "_size"))
        leaves = [*self._gone(), f"{last} = d", f"d = {prefix}_next[d]"]
        return [
            f"d = {fresh}",
            *self._joins(event.read),
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
        prefix, groups = self._prefix, self._groups
        shown = self._results.emits(Event(self._kept, "now", "gone"), True)
        return groups.passes(self._kept, groups.leaves(self._kept, f"{prefix}_ts[d]", f"{prefix}_g[d]", shown))

    def _joins(self, read: Callable[[int], Value]) -> list[str]:
        """Return what notes the group of the event of node ``d``, which will leave."""
        groups = self._groups
        if not groups.aggregated:
            return []
        group = self._whole.arrays.declare(f"{self._prefix}_g", NUMBER, self._nodes, "-1")
        return groups.passes(read, [*groups.finds(read), f"{group}[d] = {groups.number}", *groups.counts()])

    def _adds_up(self, read: Callable[[int], Value], timestamp: str) -> list[str]:
        """Return what adds an event to the totals, and puts its result out."""
        groups = self._groups
        event = Event(read, timestamp, groups.number)
        return groups.passes(read, [*groups.finds(read), *self._adds(event), *self._results.emits(event, False)])
