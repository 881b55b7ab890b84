"""Conditions of queries, and ``#log``, which lets each event pass.

A condition is a branch, or a flag where results cost less than a branch. The loop writes no log: it notes level and
text of each line, and who has called it writes them when it has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spdist.functions.streams import LEVELS
from spdist.language import ast
from spdist.language.types import Type
from spdist.program.arrays import LINES
from spdist.program.expressions import NUMBER, TypedWriter
from spdist.program.functions.computed import OPERATIONS
from spdist.program.functions.forms import may_fail
from spdist.program.parts import Block, Whole, indent
from spdist.program.shape import Query, Read

__all__ = ["Handler", "computes_all", "flagged", "passing", "tested"]

#: A condition or a ``#log``, and what writes expressions over the event.
Handler = tuple[TypedWriter, ast.Expression | ast.StreamFunction]


def passing(whole: Whole, block: Block, handlers: Sequence[Handler]) -> list[str]:
    """Return what is done with an event of a block in front of the window; the next one follows where it ends."""
    lines: list[str] = []
    for writer, one in handlers:
        if isinstance(one, ast.StreamFunction):
            lines += _logged(whole, writer, block, one)
        else:
            test = writer.condition(one)
            lines += [*writer.lines, f"if not ({test}):", "    continue"]
    return lines


def flagged(handlers: Sequence[Handler], flag: str) -> list[str]:
    """Return what tells, under the name of `flag`, whether an event meets the conditions: all are conditions."""
    tests = [writer.condition(one) for writer, one in handlers if not isinstance(one, ast.StreamFunction)]
    return [
        *(line for writer, _ in handlers for line in writer.lines),
        f"{flag} = {' and '.join(f'({test})' for test in tests)}",
    ]


def tested(conditions: Sequence[ast.Expression], writer: Callable[[], TypedWriter], body: list[str]) -> list[str]:
    """Return what is done where conditions hold, each tested where those in front of it do.

    Parameters
    ----------
    conditions : sequence of Expression
        The conditions.
    writer : callable
        Returns a writer of one of them.
    body : list of str
        What is done.
    """
    for condition in reversed(conditions):
        own = writer()
        test = own.condition(condition)
        body = [*own.lines, f"if {test}:", *indent(body)]
    return body


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
    dear = any(isinstance(one, ast.StreamFunction | ast.In) or may_fail(one) for one in asked)
    return all(map(_is_cheap, computed)) and not dear


def _is_cheap(node: ast.Node) -> bool:
    return isinstance(node, OPERATIONS) and not (isinstance(node, ast.Binary) and node.op in ("/", "%"))


def _logged(whole: Whole, writer: TypedWriter, block: Block, handler: ast.StreamFunction) -> list[str]:
    """Return what notes a line for the log."""
    texts = [one for one in handler.call.args if not (isinstance(one, ast.Literal) and one.type is Type.BOOL)]
    level = str(texts[0].value).upper() if len(texts) > 1 and isinstance(texts[0], ast.Literal) else "INFO"
    if level not in LEVELS:
        return []
    value = writer.write(texts[-1] if texts else ast.Literal("", Type.STRING))
    # A line stands there until the call is over, so each event that may come has a place.
    room = f"lines {LINES}"
    whole.count(room, block.most)
    count = f"{whole.arrays.declare(LINES, NUMBER, '1')}[0]"
    levels, numbers = (whole.arrays.declare(f"{LINES}_{name}", NUMBER, room) for name in ("level", "text"))
    number = f"(-1 if {value.null} else {value.text})" if value.null else value.text
    noted = [f"k = {count}", f"{levels}[k] = {LEVELS[level]}", f"{numbers}[k] = {number}", f"{count} = k + 1"]
    return [*writer.lines, *noted]
