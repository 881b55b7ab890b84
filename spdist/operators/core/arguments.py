"""Arguments of handlers and windows that are computed for each event, compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from spdist.errors import SiddhiAppError
from spdist.extension import find
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.expressions import located
from spdist.language.checking.scope import Scope
from spdist.operators.base import Row, VirtualClock
from spdist.operators.expressions.codegen import Bindings, Frame, build, indent
from spdist.operators.expressions.expression import ExpressionWriter
from spdist.operators.expressions.readers import RowReader

__all__ = ["Arguments", "MakeArguments", "compile_arguments", "prepared_window"]

#: From an event to the values of the arguments.
Arguments: TypeAlias = Callable[[int, Row], tuple[Any, ...]]
MakeArguments: TypeAlias = Callable[[VirtualClock], Arguments]


def compile_arguments(
    title: str, expressions: Sequence[ast.Expression], scope: Scope, catalog: Catalog
) -> MakeArguments:
    """Return what makes the function ``arguments(ts, row)`` from the app's clock.

    Parameters
    ----------
    title : str
        What the code is, for tracebacks.
    expressions : Sequence[Expression]
        The arguments.
    scope : Scope
        What they may name: one source.
    catalog : Catalog
        Signatures.
    """
    bindings, frame = Bindings(), Frame()
    writer = ExpressionWriter(RowReader(scope, catalog, frame), frame, bindings)
    values = "".join(f"{writer.write(expression).text}, " for expression in expressions)
    body = ["def arguments(ts, row):", *indent([*frame.assignments(), f"return ({values})"]), "return arguments"]
    made: MakeArguments = build(title, ["def make(clock):", *indent(body)], bindings.names)["make"]
    return made


def prepared_window(title: str, call: ast.FunctionCall, scope: Scope, catalog: Catalog) -> Any:
    """Return what all windows of a call share; see `spdist.operators.base.Window.prepare`.

    Raises
    ------
    SiddhiAppError
        An argument is wrong; with its place.
    """
    try:
        return find("window", call.id).implementation.prepare(title, call, scope, catalog)
    except SiddhiAppError as error:
        raise located(error, call.span) from None
