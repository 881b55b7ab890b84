"""Queries that do nothing but to add up and count what is in a window: those that are columns' work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdist.language import ast
from spdist.language.types import Type
from spdist.operators.selector import is_aggregator

if TYPE_CHECKING:
    from spdist.operators.query import SingleStreamPlan

__all__ = ["Items", "added_up"]

#: What is selected: an aggregator, or an empty text for the attribute itself; and the attribute.
Items = tuple[tuple[str, int], ...]
_ALIKE = (Type.STRING, Type.INT, Type.LONG, Type.BOOL)


def added_up(plan: SingleStreamPlan) -> Items | None:
    """Return what a query selects that only adds up and counts what is in its window.

    None where it does anything else: filters, another clause, an aggregator or an expression that is not among these.
    """
    select, source = plan.checked.query.select, plan.scope.sources[0]
    if plan.before or plan.after or plan.chosen.filters or plan.reads_window or plan.events != "current":
        return None
    if plan.rate is not None or select.having or select.order_by or select.limit or select.offset:
        return None
    types = source.schema.types
    if any(types[plan.scope.resolve(key).attribute] not in _ALIKE for key in select.group_by):
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
    return tuple(items) or None
