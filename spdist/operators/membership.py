"""``in``: whether a table has a row that meets a condition, written as one Python expression.

``(T.k == k and T.n > n) in T`` becomes a lookup of ``k`` in an index of the table and a test of what it finds.

Source: io.siddhi.core.executor.condition.InConditionExpressionExecutor, described in our own words.
"""

from __future__ import annotations

from spdist.functions.forms import Code
from spdist.language import ast
from spdist.language.scope import Source
from spdist.language.types import Type
from spdist.operators.expression import ExpressionWriter
from spdist.operators.finding import StoredReader, conjuncts, equalities
from spdist.operators.stores import Store

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
    scope = reader.scope.with_table(Source(node.table, node.table, store.schema, "table"))
    position = len(scope.sources) - 1
    keys = equalities(node.operand, scope, position, reader.catalog)
    index = store.index(tuple(key.attribute for key in keys)) if keys else None
    used = {} if index is None else {key.attribute: key for key in keys if key.attribute in index.attributes}
    answered = [key.condition for key in used.values()]
    rest = [part for part in conjuncts(node.operand) if not any(part is each for each in answered)]
    tests: list[str] = []
    parts: list[str] = []
    for attribute in () if index is None else index.attributes:
        code = writer.write(used[attribute].value)
        name = writer.temporary()
        needed = code.nullable and not (index is not None and index.nulls and not rest)
        tests.append(f"({name} := {code.text}) is not None" if needed else f"(({name} := {code.text}),)")
        parts.append(name)
    key = parts[0] if len(parts) == 1 else f"({', '.join(parts)})" if parts else ""
    rows = writer.bind(store.contents if index is None else index.lookup, f"rows_of_{node.table}")
    if rest:
        held = writer.temporary()
        inner = _InlineReader(scope, position, reader.catalog, writer.frame, held, reader)
        condition = " and ".join(ExpressionWriter(inner, writer.frame, writer.bindings).condition(p) for p in rest)
        tests.append(f"any({condition} for _, {held} in {rows}({key}))")
    else:
        tests.append(f"bool({rows}({key}))")
    return Code(f"({' and '.join(tests)})", Type.BOOL, nullable=False)
