"""SiddhiQL text to syntax tree.

The grammar is LALR(1) without conflicts and has a contextual lexer, so words are keywords only where the grammar takes
them. Its tables are lark's, written down beforehand (`spdist.language.parsing.tables`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from spdist.errors import SiddhiSyntaxError
from spdist.language import ast
from spdist.language.parsing.build_apps import AppBuilder
from spdist.language.parsing.lalr import Machine, Stop
from spdist.language.parsing.places import Places, expand
from spdist.language.parsing.syntax_help import explain, word_at
from spdist.language.parsing.tables import load_tables

if TYPE_CHECKING:
    from spdist.language.parsing.build_expressions import Branch

__all__ = ["following", "parse", "parse_expression", "parse_on_demand", "read_time"]


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


def following(text: str) -> frozenset[str] | None:
    """Return the grammar's terminals that may come behind the beginning of an app; None where it is none already."""
    # No token begins with this sign, so the parser stops there and says what it would have taken.
    # The line end ends a comment, in which the sign would be read over
    stop = _machine().run(f"{text}\n\0", "app")
    return stop.expected if isinstance(stop, Stop) and stop.position > len(text) else None


@cache
def _machine() -> Machine:
    return Machine(load_tables())


def _parse(text: str, start: str, variables: Mapping[str, str] | None) -> Any:
    expanded, places = expand(text, variables)
    tree = _machine().run(expanded, start)
    if isinstance(tree, Stop):
        raise _path_given(text) or _located(tree, expanded, places)
    try:
        return AppBuilder(places, expanded).build(cast("Branch", tree))
    except RecursionError:
        whole = places.span(0, len(expanded))
        raise SiddhiSyntaxError("The text is nested too deeply", span=whole, text=text) from None


#: A name of a file, or a path: one line without what every app has.
_PATH = re.compile(r"\s*([^\s;(){}@'\"]+\.siddhi(ql)?|[^\s;(){}@'\"]*[/\\][^;(){}@'\"\r\n]*\.\w+)\s*")


def _path_given(text: str) -> SiddhiSyntaxError | None:
    """Return the error for a path in the place of a text."""
    if (path := _PATH.fullmatch(text)) is None:
        return None
    message = f"'{path.group(1)}' is a path, not the text of an app"
    return SiddhiSyntaxError(message, hint=f"Read the file: Path({path.group(1)!r}).read_text()")


def _located(stop: Stop, expanded: str, places: Places) -> SiddhiSyntaxError:
    """Say what stands where the text stopped making sense, and what could have stood there."""
    # At the end the place is behind the last word, not behind blanks and lines that follow it
    position = len(expanded.rstrip()) if stop.ended else stop.position
    found = "" if stop.ended else word_at(expanded, position)
    message, hint = explain(found, stop.expected, expanded[:position])
    return SiddhiSyntaxError(message, span=places.span(position, position + len(found)), hint=hint, text=places.written)
