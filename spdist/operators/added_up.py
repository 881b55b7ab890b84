"""Queries that do nothing but to add up and count what is in a window: those that are columns' work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spdist.language import ast
from spdist.language.types import Type
from spdist.mapping.read_rows import ReadRows
from spdist.operators.base import Row
from spdist.operators.selector import is_aggregator

if TYPE_CHECKING:
    from spdist.operators.query import SingleStreamPlan

__all__ = ["ALIKE", "WHOLE", "AddedUp", "added_up", "only_selects"]

#: What is selected: an aggregator, or an empty text for the attribute itself; and the attribute.
Items = tuple[tuple[str, int], ...]
#: The types of whole numbers.
WHOLE = (Type.INT, Type.LONG)
#: The types whose values are one key where they are equal: others may be written alike, and not be.
ALIKE = (Type.STRING, Type.BOOL, *WHOLE)


@dataclass(frozen=True, slots=True)
class AddedUp:
    """What a query adds up, and how it groups that.

    Parameters
    ----------
    keys : tuple of int
        The attributes that are the key of a group; none where all events are one.
    items : tuple of (str, int)
        What is selected: an aggregator, or an empty text for the attribute itself; and the attribute.
    types : tuple of Type
        Of the attributes.
    """

    keys: tuple[int, ...]
    items: Items
    types: tuple[Type, ...]

    @property
    def read(self) -> frozenset[int]:
        """The attributes that are looked at."""
        return frozenset((*self.keys, *(attribute for name, attribute in self.items if name != "count")))

    def columns(self, rows: Sequence[Row]) -> ReadRows | None:
        """Return rows as columns of what is looked at; None where a value is not of its type."""
        return ReadRows.of(rows, self.types, self.read)


def only_selects(plan: SingleStreamPlan) -> bool:
    """Tell whether new events of a stream, behind at most a window, are all that a query selects from."""
    select = plan.checked.query.select
    if plan.before or plan.after or plan.chosen.filters or plan.reads_window or plan.events != "current":
        return False
    return not (plan.rate is not None or select.having or select.order_by or select.limit or select.offset)


def added_up(plan: SingleStreamPlan) -> AddedUp | None:
    """Return what a query selects that only adds up and counts what is in its window.

    None where it does anything else: filters, another clause, an aggregator or an expression that is not among these.
    """
    select, source = plan.checked.query.select, plan.scope.sources[0]
    if not only_selects(plan):
        return None
    types = tuple(source.schema.types)
    keys = tuple(plan.scope.resolve(variable).attribute for variable in select.group_by)
    if any(types[key] not in ALIKE for key in keys):
        return None  # those are one group that are written alike
    items = []
    for item in select.items:
        expression = item.expression
        if isinstance(expression, ast.Variable):
            items.append(("", plan.scope.resolve(expression).attribute))
            if types[items[-1][1]] is Type.OBJECT:
                return None  # may change
            continue
        if not (isinstance(expression, ast.FunctionCall) and is_aggregator(expression)):
            return None
        argument = expression.args[0] if len(expression.args) == 1 else None
        if expression.id == "count" and not expression.args:
            items.append(("count", 0))
        elif expression.id in ("sum", "avg") and isinstance(argument, ast.Variable):
            items.append((expression.id, plan.scope.resolve(argument).attribute))
        else:
            return None
    return AddedUp(keys, tuple(items), types) if items else None
