"""Stream functions: what they make of each event of a source is computed outside of the loop, in front of it.

An event becomes several events, one, or none, as with the operators: the conditions in front of the last stream
function, and the functions, are the operators' own. What stands behind them stays in the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spdist.extension import find, is_registered
from spdist.language import ast
from spdist.language.checking.scope import Scope
from spdist.operators.expressions.codegen import Bindings, Frame, build
from spdist.program.expressions import NotTyped
from spdist.program.functions.computed import argument_writer

__all__ = ["Expansion", "expansion_of"]

#: What does more than to compute something.
_ACTING = frozenset({"log"})


@dataclass(frozen=True, slots=True)
class Expansion:
    """What stream functions make of an event.

    Parameters
    ----------
    handlers : tuple of Node
        The stream functions, and the conditions in front of each.
    width : int
        How many attributes the stream has.
    arguments : tuple of int
        The places of those that the handlers name.
    compute : callable
        From their values to the values that are appended: a tuple for each event that the event becomes.
    """

    handlers: tuple[ast.Filter | ast.StreamFunction, ...]
    width: int
    arguments: tuple[int, ...]
    compute: Callable[..., list[tuple[Any, ...]]]


def expansion_of(handlers: Sequence[ast.Filter | ast.StreamFunction], scope: Scope, width: int) -> Expansion:
    """Return what stream functions make of an event.

    Parameters
    ----------
    handlers : sequence of Filter or StreamFunction
        What stands in front of a window, up to the last stream function.
    scope : Scope
        Of the query.
    width : int
        How many attributes the stream has.

    Raises
    ------
    NotTyped
        They have no typed form.
    """
    for one in handlers:
        call = one.call if isinstance(one, ast.StreamFunction) else None
        if call is not None and (call.id in _ACTING or not is_registered("stream function", call.id)):
            raise NotTyped(f"the stream function {call.id}", one.span)
    arguments, compute = _written(handlers, scope, width)
    return Expansion(tuple(handlers), width, arguments, compute)


def _written(
    handlers: Sequence[ast.Filter | ast.StreamFunction], scope: Scope, width: int
) -> tuple[tuple[int, ...], Callable[..., list[tuple[Any, ...]]]]:
    """Return which attributes handlers name, and what makes of these the values that are appended."""
    asked, bindings, row = set[int](), Bindings(), 0

    def argument(variable: ast.Variable) -> str:
        place = scope.resolve(variable).attribute
        if place >= width:
            # What a stream function in front has appended
            return f"row{row}[{place - width}]"
        asked.add(place)
        return f"a{place}"

    writer = argument_writer(scope, argument, Frame(), bindings)
    lines: list[str] = []
    depth = 1
    for one in handlers:
        if isinstance(one, ast.Filter):
            test = f"if {writer.condition(one.condition)}:"
        else:
            values = "".join(f"{writer.write(argument).text}, " for argument in one.call.args)
            name = bindings.bind(find("stream function", one.call.id).implementation, one.call.name)
            # An event becomes as many events as there are rows, also none: so what stands behind is nested
            test = f"for added{row + 1} in {name}({values}):"
        lines.append(f"{'    ' * depth}{test}")
        depth += 1
        if isinstance(one, ast.StreamFunction):
            row += 1
            before = f"*row{row - 1}, " if row > 1 else ""
            lines.append(f"{'    ' * depth}row{row} = ({before}*added{row},)")
    body = [*lines, f"{'    ' * depth}made.append(row{row})", "    return made"]
    arguments = tuple(sorted(asked))
    head = f"def expand({', '.join(f'a{place}' for place in arguments)}):"
    return arguments, build("stream functions", [head, "    made = []", *body], bindings.names)["expand"]
