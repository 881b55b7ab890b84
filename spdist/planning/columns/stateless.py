"""Which queries are filters, projections and functions only, so that they can be Spark Columns. Pure."""

from __future__ import annotations

from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedApp, CheckedQuery
from spdist.language.checking.expressions import uses_aggregator
from spdist.language.checking.scope import Scope
from spdist.language.types import Type
from spdist.planning.columns.native import Obstacle, obstacle

__all__ = ["query_obstacle"]


def query_obstacle(query: CheckedQuery, checked: CheckedApp, catalog: Catalog) -> Obstacle | None:
    """Return the first thing for which a query needs the engine, or None where all of it can be Spark Columns.

    Parameters
    ----------
    query : CheckedQuery
        The query.
    checked : CheckedApp
        Its app.
    catalog : Catalog
        The signatures of functions.
    """
    return (
        _input(query, checked)
        or _around(query, checked)
        or _handlers(query, catalog)
        or _selection(query.query.select, query.scope, catalog)
    )


def _input(query: CheckedQuery, checked: CheckedApp) -> Obstacle | None:
    source = query.query.input
    if query.partition is not None:
        return Obstacle("the partition", "has an instance of its queries for each key", source.span)
    match source:
        case ast.JoinInput():
            return Obstacle("the join", "keeps the events of its sides", source.span)
        case ast.PatternInput():
            return Obstacle(f"the {source.kind}", "keeps its partial matches", source.span)
        case ast.SingleInput(window=ast.FunctionCall() as window):
            return Obstacle(f"#window.{window.id}()", "keeps events", window.span)
        case ast.SingleInput(stream=stream):
            if stream.id in checked.windows:
                return Obstacle(f"the window '{stream.id}'", "keeps events", stream.span)
            if stream.fault:
                return Obstacle(f"the fault stream '{stream.id}'", "brings events on which a query failed", stream.span)
            return None
    return Obstacle("its input", "is not run", source.span)


def _around(query: CheckedQuery, checked: CheckedApp) -> Obstacle | None:
    rate, output = query.query.rate, query.query.output
    if rate is not None:
        return Obstacle("'output … every'", "holds events back", rate.span)
    if not isinstance(output, ast.InsertInto) or query.target not in checked.streams:
        return Obstacle(f"'{query.target}'", "is kept by the engine and changed by the query", output.span)
    if output.events == "expired":
        return Obstacle("'expired events'", "are those that leave a window", output.span)
    return None


def _handlers(query: CheckedQuery, catalog: Catalog) -> Obstacle | None:
    source = query.query.input
    assert isinstance(source, ast.SingleInput)  # others are no candidates
    for handler in source.before:
        if not isinstance(handler, ast.Filter):
            return Obstacle(f"#{handler.call.id}()", "has no form in Spark", handler.span)
        found = obstacle(handler.condition, query.scope, catalog)
        if found is not None:
            return found
    return None


def _selection(select: ast.Selection, scope: Scope, catalog: Catalog) -> Obstacle | None:
    for item in select.items:
        if uses_aggregator(item.expression, catalog):
            return Obstacle(f"'{item.name}'", "aggregates many events", item.span)
    for clause, said in (("group by", select.group_by), ("order by", select.order_by)):
        if said:
            return Obstacle(f"'{clause}'", "is about the events of a chunk", said[0].span)
    for clause, expression in (("having", select.having), ("limit", select.limit), ("offset", select.offset)):
        if expression is not None:
            return Obstacle(f"'{clause}'", "is computed by the engine's selector", expression.span)
    for item in select.items:
        found = obstacle(item.expression, scope, catalog)
        if found is not None:
            return found
    if not select.items and Type.OBJECT in scope.sources[0].schema.types:
        return Obstacle("'select *'", "hands on objects, which Spark's columns do not hold", select.span)
    return None
