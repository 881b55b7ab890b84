"""Aggregations whose events the loop adds itself: what their groups have, and what is known of what is open."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from spdist.extension import catalog, lookup
from spdist.language import ast
from spdist.language.checking.checked import CheckedAggregation
from spdist.language.checking.expressions import type_of
from spdist.language.types import Type
from spdist.operators.aggregations.buckets import BucketPlan
from spdist.operators.aggregations.columns import Layout, layout_of
from spdist.operators.selection.selector import is_aggregator
from spdist.program.expressions import NotTyped
from spdist.program.windows.shape import filters_of

__all__ = [
    "BEGIN",
    "COUNT",
    "DIRTY",
    "END",
    "ENDED",
    "HIGH",
    "LENGTH",
    "LOW",
    "NEXT_END",
    "OPEN",
    "Bucketed",
    "bucketed",
]

#: The places of the array ``…_open``: when the clock leaves the open bucket, ms.
END = 0
#: The start and the end of the bucket of the time that was aggregated by last, ms.
LOW = 1
HIGH = 2
#: How long each bucket is, ms; 0 where a calendar says that.
LENGTH = 3
#: How many groups there are, with those of buckets that have ended; whether what is open has any that the operators
#: do not have as they are now.
COUNT = 4
DIRTY = 5
#: Which group is the first one of what is open; the buckets before it have ended, so many times.
BEGIN = 6
ENDED = 7
#: When the clock leaves the open bucket of the next duration, ms: the operators are called then. Before that a bucket
#: that ends is only noted; where it may not be, this is the least long.
NEXT_END = 8
#: How many places there are.
OPEN = 9

_REALS = (Type.FLOAT, Type.DOUBLE)


@dataclass(frozen=True, slots=False, eq=False)
class Bucketed:
    """An aggregation in memory: adding an event to an open bucket of the finest duration stands in the loop.

    Parameters
    ----------
    number : int
        Its place among the aggregations of the app.
    checked : CheckedAggregation
        The aggregation.
    plan : BucketPlan
        The slots of a group, as the operators have them.
    filters : tuple of Expression
        The conditions that an event must meet.
    """

    number: int
    checked: CheckedAggregation
    plan: BucketPlan
    filters: tuple[ast.Expression, ...]

    @property
    def name(self) -> str:
        """The prefix of its arrays."""
        return f"b{self.number}"

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the attributes of its stream."""
        return self.checked.scope.sources[0].schema.types

    @cached_property
    def slot_types(self) -> tuple[Type, ...]:
        """The types of the values in the slots of a group; of sets that of what is counted."""
        return tuple(self._type(slot.kind, slot.column) for slot in self.plan.slots)

    def _type(self, kind: str, column: int) -> Type:
        if kind == "count":
            return Type.LONG
        if column >= len(self.types):
            return type_of(self.plan.computed[column - len(self.types)], self.checked.scope, catalog(False))
        type = self.types[column]
        return type if kind != "sum" else Type.DOUBLE if type in _REALS else Type.LONG

    @property
    def sets(self) -> dict[int, str]:
        """The tables of groups and values that count different values, by the place of the slot."""
        return {n: f"{self.name}_d{n}" for n, slot in enumerate(self.plan.slots) if slot.kind == "set"}

    @cached_property
    def layout(self) -> Layout | None:
        """How buckets that have ended are columns; None where operators get them one by one."""
        return layout_of(self.plan)

    @property
    def first(self) -> int:
        """Where the key begins among the words of a group: behind the start of its bucket, where events have a time."""
        return int(self.plan.by is not None)

    @property
    def width(self) -> int:
        """How many words a group has: the start of its bucket, where events have a time, values, which are null."""
        nulls = any(type is not Type.STRING for type in self.plan.group_types)
        return self.first + len(self.plan.group) + nulls


def bucketed(checked: CheckedAggregation, number: int) -> Bucketed:
    """Return an aggregation as a program has it.

    Raises
    ------
    NotTyped
        Something in it has no typed form (yet): buckets that are kept outside or shared by nodes, a time that is
        written as text, and what has none in queries.
    """
    definition = checked.definition
    stores = (one.get("type") or "" for one in ast.find_annotations(definition.annotations, "store"))
    if checked.by_id or any(store.lower() != "in-memory" for store in stores):
        raise NotTyped("an aggregation that is kept outside", definition.span)
    single = definition.input
    assert single is not None
    filters = filters_of(single.before, single.span)
    for expression in (*filters, *(item.expression for item in checked.select.items)):
        for node in expression.walk():
            if isinstance(node, ast.FunctionCall) and not is_aggregator(node) and lookup("function", node.id) is None:
                raise NotTyped(f"the function {node.id}()", node.span)
    made = Bucketed(number, checked, BucketPlan(checked, catalog(False)), filters)
    # Behind the attributes stands what is computed: the time is, where it is given as a text
    if made.plan.by is not None and made.plan.by >= len(made.types):
        raise NotTyped("a time that is written as text", definition.span)
    if Type.OBJECT in (*made.slot_types, *made.plan.group_types):
        raise NotTyped("an object in an aggregation", definition.span)
    return made
