"""The conditions in front of a query's window: a branch, or a flag where results cost less than a branch."""

from __future__ import annotations

from collections.abc import Sequence

from spdist.language import ast
from spdist.program.expressions import TypedWriter
from spdist.program.functions import may_fail
from spdist.program.parts import Block
from spdist.program.shape import Query, Read

__all__ = ["Condition", "computes_all", "flagged", "passing"]

#: What is computed in a few steps without a branch.
_CHEAP = (ast.Variable, ast.Literal, ast.TimeLiteral, ast.Binary, ast.Not, ast.IsNull)
#: A condition, and what writes it.
Condition = tuple[TypedWriter, ast.Expression]


def passing(conditions: Sequence[Condition]) -> list[str]:
    """Return what goes on with the next event where one does not meet the conditions."""
    return [line for lines, test in _written(conditions) for line in (*lines, f"if not ({test}):", "    continue")]


def flagged(conditions: Sequence[Condition], flag: str) -> list[str]:
    """Return what tells, under the name of `flag`, whether an event meets the conditions."""
    written = _written(conditions)
    tests = " and ".join(f"({test})" for _, test in written)
    return [*(line for lines, _ in written for line in lines), f"{flag} = {tests}"]


def computes_all(read: Query, block: Block) -> bool:
    """Tell whether results are computed of all events, also where one does not meet the conditions.

    A branch that goes either way costs more than some additions and comparisons that nobody wants. Then there is at
    most one result for each event, it depends on nothing else, and nothing of it fails.

    Parameters
    ----------
    read : Query
        The query.
    block : Block
        The events that it reads.
    """
    select = read.checked.query.select
    if not isinstance(read, Read) or not read.filters or read.window is not None or not block.single:
        return False
    if select.group_by or select.having or block.guard or block.leaves:
        return False
    asked = [node for one in read.filters for node in one.walk()]
    computed = [node for item in select.items for node in item.expression.walk()]
    return all(map(_is_cheap, computed)) and not any(isinstance(one, ast.In) or may_fail(one) for one in asked)


def _is_cheap(node: ast.Node) -> bool:
    return isinstance(node, _CHEAP) and not (isinstance(node, ast.Binary) and node.op in ("/", "%"))


def _written(conditions: Sequence[Condition]) -> list[tuple[list[str], str]]:
    """Return of each condition its statements, and the test."""
    tests = [writer.condition(one) for writer, one in conditions]
    return [(writer.lines, test) for (writer, _), test in zip(conditions, tests, strict=True)]
