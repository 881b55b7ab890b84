"""What the formatter prints, the parser reads as the same tree."""

from hypothesis import given, settings

from spdist.language import ast
from spdist.language.format import format_app, format_node
from spdist.language.parsing.parser import parse, parse_expression, parse_on_demand
from tests.properties import strategies as trees


@settings(max_examples=300, deadline=None)
@given(trees.expressions)
def test_expressions_come_back(expression: ast.Expression) -> None:
    text = format_node(expression)
    assert parse_expression(text) == expression
    assert format_node(parse_expression(text)) == text


@settings(max_examples=150, deadline=None)
@given(trees.apps())
def test_apps_come_back(app: ast.SiddhiApp) -> None:
    assert parse(format_app(app)) == app


@settings(max_examples=100, deadline=None)
@given(trees.on_demand_queries())
def test_on_demand_queries_come_back(query: ast.OnDemandQuery) -> None:
    assert parse_on_demand(format_node(query)) == query
