"""The condition over what a window holds that bounds it, such as ``last.at - first.at < 1000``.

The aggregators of the condition stand next to the window's list, once for each key of the partition. They are brought
up to date where the condition asks for them: one behind ``and`` or ``or`` only where that leaves it open, as in the
operators (`spdist.operators.selection.aggregates`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from spdist.errors import Span
from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import Scope
from spdist.language.types import Type
from spdist.operators.selection.aggregates import aggregates_in
from spdist.operators.selection.selector import is_aggregator
from spdist.program.aggregators import typed_form
from spdist.program.expressions import NotTyped, TypedWriter, Value
from spdist.program.parts import Aggregate, QueryText, Whole
from spdist.program.queries.group_text import declared, first_values, updated

__all__ = ["ConditionText", "Seen", "WindowBound"]

#: An event that a condition looks at: what reads an attribute, and source of its timestamp.
Seen = tuple[Callable[[int], Value], str]
#: The function whose arguments behind the first one are only computed where it wants them.
_CHOOSING = "ifThenElse"


@dataclass(frozen=True)
class WindowBound:
    """The condition over what a window holds that bounds it.

    Parameters
    ----------
    text : str
        The condition, as the app has it.
    condition : Expression
        The condition.
    scope : Scope
        What its names mean: the event that enters or leaves, the first and the last one held; these have their
        timestamp behind the attributes.
    span : Span, optional
        Where the window stands.
    gathers : bool
        Whether events leave together, as a batch that ends where the condition does not hold; else the oldest ones do.
    includes : Expression, optional
        Whether the event that ends a batch belongs to it.
    passes : bool
        Whether an event is put out when it comes, and the batch only leaves together.
    """

    text: str
    condition: ast.Expression
    scope: Scope = field(compare=False)
    span: Span | None = None
    gathers: bool = False
    includes: ast.Expression | None = None
    passes: bool = False

    @cached_property
    def compared(self) -> frozenset[int]:
        """The attributes of events held that it looks at."""
        named = (self.scope.resolve(node) for node in self.condition.walk() if isinstance(node, ast.Variable))
        held, width = (1,) if self.gathers else (0, 1), len(self.scope.sources[0].schema)
        return frozenset(one.attribute for one in named if one.source in held and one.attribute < width)


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
    bound : WindowBound
        The condition.
    key : str
        Source of the number of the partition's key.
    """

    def __init__(self, whole: Whole, query: QueryText, bound: WindowBound, key: str) -> None:
        self.bound = bound
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
        form = typed_form(call.id, types, leaving=True)
        if form is None or form.pairs:
            raise NotTyped(f"the aggregator {call.id}() in the condition of a window", self.bound.span)
        prefix, room = f"{self._query.name}{name}", self._query.instances
        return declared(self._whole.arrays, self._query, form, prefix, room, types[0] if types else None)

    def holds(self, seen: tuple[Seen, Seen, Seen], enters: bool) -> tuple[list[str], str]:
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

    def includes(self, came: Seen) -> tuple[list[str], str]:
        """Return source of whether the event that ends a batch belongs to it."""
        assert self.bound.includes is not None
        writer = self._writer((came,))
        test = writer.condition(self.bound.includes)
        return writer.lines, test

    def _writer(
        self, seen: Sequence[Seen], aggregate: Callable[[ast.FunctionCall], Value | None] = lambda call: None
    ) -> AskedWriter:
        width = len(self._query.read.types)

        def variable(named: ast.Variable) -> Value:
            found = self.bound.scope.resolve(named)
            read, timestamp = seen[found.source]
            return Value(timestamp, "", Type.LONG) if found.attribute == width else read(found.attribute)

        return AskedWriter(variable, seen[0][1], self._whole.name, self._whole.text_number, aggregate)
