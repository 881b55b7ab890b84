"""``in``: whether a table of a program has a row that meets a condition; as `operators.expressions.membership`."""

from __future__ import annotations

from spdist.language import ast
from spdist.language.checking.scope import Scope
from spdist.language.types import Type
from spdist.program.expressions import NotTyped, TypedWriter, Value
from spdist.program.parts import Whole
from spdist.program.queries.filter_text import tested
from spdist.program.tables.shape import membership_of
from spdist.program.tables.text import TableText

__all__ = ["contained"]


def contained(whole: Whole, scope: Scope, writer: TypedWriter, node: ast.In) -> Value:
    """Return whether a table has such a row; raises NotTyped where the table is none of the program.

    Parameters
    ----------
    whole : Whole
        The text.
    scope : Scope
        What the expression around it may name.
    writer : TypedWriter
        Writes that expression.
    node : In
        The condition, and the name of the table.
    """
    table = whole.table(node.table)
    if table is None:
        raise NotTyped(f"the table '{node.table}'", node.span)
    rows, hit, row = TableText(whole, table), whole.name(), whole.name()
    inside, position, search = membership_of(node, scope, table)

    def variable(named: ast.Variable) -> Value:
        found = inside.resolve(named)
        return rows.value(found.attribute, row) if found.source == position else writer.write(named)

    def inside_writer() -> TypedWriter:
        return TypedWriter(variable, writer.timestamp, whole.name, whole.text_number, missing=_no_event)

    body = tested(search.rest, inside_writer, [f"{hit} = True"])
    keys = [writer.kept(writer.write(value)) for value in search.values]
    # The first row that meets the condition answers the question
    goes_on = f"not {hit}"
    if search.index:
        looks = rows.found(search.index, keys, search.nulls, row, body, goes_on)
    else:
        looks = rows.every(row, body, goes_on)
    writer.lines += [f"{hit} = False", *looks]
    return Value(hit, "", Type.BOOL)


def _no_event(node: ast.IsNullEvent) -> str:
    raise NotTyped("'is null' of an event", node.span)
