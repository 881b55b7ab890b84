"""``in``: whether a table has a row that meets a condition, written as one Python expression.

``(T.k == k and T.n > n) in T`` becomes a lookup of ``k`` in an index of the table and a test of what it finds.

Source: io.siddhi.core.executor.condition.InConditionExpressionExecutor, described in our own words.
"""

from __future__ import annotations

from spdist.functions.forms import Code
from spdist.language import ast
from spdist.language.checking.scope import AttributeSource
from spdist.language.types import Type
from spdist.operators.expressions.expression import WRITERS, ExpressionWriter
from spdist.operators.expressions.lookup import StoredReader, ask
from spdist.operators.expressions.pushdown import names_store
from spdist.operators.tables.stores import Store

__all__ = ["membership"]


class _InlineReader(StoredReader):
    """Reads a store's row where no statement can stand: inside an expression."""

    def variable(self, variable: ast.Variable) -> Code:
        """Return the code of an attribute."""
        reference = self.scope.resolve(variable)
        if reference.source != self.position:
            return self.outer.variable(variable)
        return Code(f"{self.row}[{reference.attribute}]", reference.type, atom=True)

    def bare(self, variable: ast.Variable) -> str:
        """Return source of an attribute that is only passed on."""
        return self.variable(variable).text


def membership(writer: ExpressionWriter, node: ast.In) -> Code:
    """Return the code of ``condition in table``.

    Parameters
    ----------
    writer : ExpressionWriter
        Writes the expression around it, whose names the condition may use.
    node : In
        The expression.
    """
    reader = writer.reader
    store: Store = reader.catalog.stores[node.table]
    scope = reader.scope.with_table(AttributeSource(node.table, node.table, store.schema, "table"))
    position = len(scope.sources) - 1
    asked = ask(store, node.operand, scope, position, reader.catalog)
    rest = asked.rest(node.operand)
    nulls = asked.nulls and not any(names_store(part, scope, position) for part in rest)
    tests: list[str] = []
    parts: list[str] = []
    for value in asked.values:
        code = writer.write(value)
        name = writer.temporary()
        needed = asked.exact and code.nullable and not nulls
        # A tuple of one is true whatever it holds: only the assignment is wanted of it.
        tests.append(f"({name} := {code.text}) is not None" if needed else f"(({name} := {code.text}),)")
        parts.append(name)
    rows = f"{writer.bind(asked.rows, f'rows_of_{node.table}')}({asked.key(parts)})"
    if rest:
        held = writer.temporary()
        inner = _InlineReader(scope, position, reader.catalog, writer.frame, held, reader)
        condition = " and ".join(ExpressionWriter(inner, writer.frame, writer.bindings).condition(p) for p in rest)
        tests.append(f"any({condition} for _, {held} in {rows})")
    else:
        tests.append(f"bool({rows})")
    return Code(f"({' and '.join(tests)})", Type.BOOL, nullable=False)


WRITERS[ast.In] = membership
