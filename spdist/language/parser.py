"""SiddhiQL text to syntax tree; the only user of lark.

The grammar is LALR(1) without conflicts and has a contextual lexer, so words are keywords only where the grammar takes
them. Its tables are made at the first use, not at import.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from spdist.errors import SiddhiSyntaxError
from spdist.language import ast
from spdist.language.build_apps import AppBuilder
from spdist.language.lalr import Machine
from spdist.language.places import Places, expand
from spdist.language.syntax_help import explain, word_at

if TYPE_CHECKING:
    from lark import Lark, UnexpectedInput

    from spdist.language.build_expressions import Branch

__all__ = ["parse", "parse_expression", "parse_on_demand", "read_time"]


def parse(text: str, variables: Mapping[str, str] | None = None) -> ast.SiddhiApp:
    """Return the syntax tree of an app.

    Parameters
    ----------
    text : str
        SiddhiQL.
    variables : mapping of str to str, optional
        Values for ``${NAME}`` in `text`. The environment is not read.

    Returns
    -------
    SiddhiApp
        Every node with its span.

    Raises
    ------
    SiddhiSyntaxError
        The text does not follow the grammar, or a variable has no value.
    """
    app: ast.SiddhiApp = _parse(text, "app", variables)
    return app


def parse_expression(text: str, variables: Mapping[str, str] | None = None) -> ast.Expression:
    """Return the syntax tree of an expression, such as ``price > 100 and symbol == 'A'``; see `parse`."""
    expression: ast.Expression = _parse(text, "expression", variables)
    return expression


def read_time(text: str) -> int | None:
    """Return a duration such as ``1 min 30 sec``, as annotations write it, in ms; None where it is none."""
    try:
        literal = parse_expression(text)
    except SiddhiSyntaxError:
        return None
    return literal.milliseconds if isinstance(literal, ast.TimeLiteral) else None


def parse_on_demand(text: str, variables: Mapping[str, str] | None = None) -> ast.OnDemandQuery:
    """Return the syntax tree of an on-demand query, such as ``from T on a > 1 select *``; see `parse`."""
    query: ast.OnDemandQuery = _parse(text, "on_demand", variables)
    return query


@cache
def _lark() -> Lark:
    from lark import Lark

    grammar = files("spdist.language").joinpath("grammar.lark").read_text("utf-8")
    starts = ["app", "expression", "on_demand"]
    return Lark(
        grammar, parser="lalr", lexer="contextual", start=starts, propagate_positions=True, maybe_placeholders=False
    )


@cache
def _machine() -> Machine | None:
    try:
        return Machine(_lark())
    except AttributeError:
        return None  # a lark with other insides: its own loop does the same, in twice the time


def _parse(text: str, start: str, variables: Mapping[str, str] | None) -> Any:
    from lark import UnexpectedInput

    expanded, places = expand(text, variables)
    machine = _machine()
    tree = None if machine is None else machine.run(expanded, start)
    if tree is None:
        # What is wrong, lark says best; a text that it takes after all is as good.
        try:
            tree = _lark().parse(expanded, start=start)
        except UnexpectedInput as error:
            raise _located(error, expanded, places) from None
    try:
        return AppBuilder(places, expanded).build(cast("Branch", tree))
    except RecursionError:
        whole = places.span(0, len(expanded))
        raise SiddhiSyntaxError("The text is nested too deeply", span=whole, text=text) from None


def _located(error: UnexpectedInput, expanded: str, places: Places) -> SiddhiSyntaxError:
    """Say what stands where lark stopped, and what could have stood there."""
    position = error.pos_in_stream if error.pos_in_stream is not None else len(expanded)
    token = getattr(error, "token", None)
    if token is not None and token.type == "$END":
        position = len(expanded.rstrip())
        found = ""
    else:
        found = word_at(expanded, position)
    interactive = getattr(error, "interactive_parser", None)
    expected = set(interactive.accepts()) if interactive is not None else set()
    message, hint = explain(found, expected, expanded[:position])
    return SiddhiSyntaxError(message, span=places.span(position, position + len(found)), hint=hint, text=places.written)
