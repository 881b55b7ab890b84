"""How an aggregation is read: ``within`` two times, or a pattern of one, ``per`` duration."""

from __future__ import annotations

from collections.abc import Sequence

from spdist.errors import SiddhiAppError, SiddhiTypeError, Span
from spdist.language import ast
from spdist.language.checking.expressions import located
from spdist.language.checking.names import Names
from spdist.language.checking.scope import Scope
from spdist.language.durations import duration_of
from spdist.language.types import Type

__all__ = ["check_range"]


def check_range(
    names: Names, within: Sequence[ast.Expression], per: ast.Expression | None, scope: Scope, span: Span | None
) -> None:
    """Check ``within … per …`` of a join with an aggregation, or of a query that reads one.

    Whether the aggregation has the duration is found when it is read, also where ``per`` is a constant, as in Siddhi.

    Parameters
    ----------
    names : Names
        Takes the errors.
    within : sequence of Expression
        One text with stars, or two times.
    per : Expression, optional
        The duration's word.
    scope : Scope
        What both may name.
    span : Span, optional
        Of the whole, where something is missing.
    """
    if not within or per is None:
        hint = "For example: within '2024-01-** **:**:**' per 'days'"
        names.refuse(SiddhiTypeError, "An aggregation is read with 'within … per …'", span, hint)
        return
    for part in (*within, per):
        names.no_aggregator(part, "'within' and 'per'")
    _check_period(names, per, scope)
    allowed = (Type.STRING,) if len(within) == 1 else (Type.STRING, Type.LONG)
    for bound in within:
        if names.type_of(bound, scope) not in (None, *allowed):
            what = "one text with stars, or two times" if len(within) == 1 else "times as long or string"
            names.refuse(SiddhiTypeError, f"'within' takes {what}", bound.span)


def _check_period(names: Names, per: ast.Expression, scope: Scope) -> None:
    if names.type_of(per, scope) not in (None, Type.STRING):
        names.refuse(SiddhiTypeError, "'per' takes a string", per.span, "For example: per 'days'")
    elif isinstance(per, ast.Literal):
        try:
            duration_of(str(per.value))
        except SiddhiAppError as error:
            names.report(located(error, per.span))
