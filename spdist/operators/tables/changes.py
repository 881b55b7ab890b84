"""How an event changes a row of a table, written as Python: what ``set`` assigns, or the attributes of equal names.

``set`` assigns the attributes in the order of the table's definition, whatever the order of the text, and an expression
sees what was assigned before it. Values are not converted: as in Siddhi an int column may come to hold a long.

Source: io.siddhi.core.table.InMemoryCompiledUpdateSet, described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spdist.functions.forms import Code
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.scope import Scope
from spdist.language.types import Schema
from spdist.operators.base import Row, VirtualClock
from spdist.operators.expressions.codegen import Bindings, Frame, build, indent
from spdist.operators.expressions.expression import ExpressionWriter
from spdist.operators.expressions.lookup import Equality, StoredReader, conjuncts, equalities
from spdist.operators.expressions.readers import RowReader
from spdist.operators.tables.table import Table

__all__ = ["TABLE", "ChangeWriter", "Changed"]

#: From timestamp and row of an event and a row of the table to what that row becomes.
Changed = Callable[[int, Row, Row], Row]
#: The table's place in the scope of a change; the event is source 0.
TABLE = 1


class _ChangingReader(StoredReader):
    """Reads a table's row while ``set`` changes it: what has been assigned has its new value."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.assigned: dict[int, Code] = {}

    def variable(self, variable: ast.Variable) -> Code:
        """Return the code of an attribute."""
        reference = self.scope.resolve(variable)
        if reference.source == self.position and reference.attribute in self.assigned:
            return self.assigned[reference.attribute]
        return super().variable(variable)


class ChangeWriter:
    """Writes what an update does to a row.

    Parameters
    ----------
    title : str
        The query's name.
    update : Update
        As written.
    event, table : Schema
        What is selected, and the attributes of the table.
    scope : Scope
        Of both.
    catalog : Catalog
        Signatures.
    """

    def __init__(
        self, title: str, update: ast.Update, event: Schema, table: Schema, scope: Scope, catalog: Catalog
    ) -> None:
        self.title = title
        self.update = update
        self.scope = scope
        self.catalog = catalog
        self._bindings = Bindings()
        self._lines: list[str] = []
        # Source of each attribute of the new row.
        self._parts = self._assigned(table) if update.set else self._selected(event, table)
        # Then the event's row serves as it is, with no new tuple for each event.
        whole = self._parts == [f"row[{position}]" for position in range(len(event))]
        self._row = "row" if whole else f"({', '.join(self._parts)},)"

    def _assigned(self, table: Schema) -> list[str]:
        frame = Frame()
        outer = RowReader(self.scope, self.catalog, frame)
        reader = _ChangingReader(self.scope, TABLE, self.catalog, frame, "held", outer)
        writer = ExpressionWriter(reader, frame, self._bindings)
        # Of two values for one attribute the last one counts.
        last = {table.names.index(item.variable.name): item.expression for item in self.update.set}
        for position, expression in sorted(last.items()):
            code = writer.write(expression)
            self._lines += [*frame.assignments(), f"new_{position} = {code.text}"]
            reader.assigned[position] = Code(f"new_{position}", code.type, code.nullable, atom=True, exact=code.exact)
        return [f"new_{position}" if position in last else f"held[{position}]" for position in range(len(table))]

    @staticmethod
    def _selected(event: Schema, table: Schema) -> list[str]:
        selected = {name: f"row[{position}]" for position, name in enumerate(event.names)}
        return [selected.get(name, f"held[{position}]") for position, name in enumerate(table.names)]

    def changed(self, clock: VirtualClock) -> Changed:
        """Return the function that makes the new row."""
        function = ["def changed(ts, row, held):", *indent([*self._lines, f"return {self._row}"]), "return changed"]
        lines = ["def make(clock):", *indent(function)]
        made: Changed = build(f"{self.title} set", lines, self._bindings.names)["make"](clock)
        return made

    def by_key(self, table: Table, clock: VirtualClock) -> Callable[[int, Row], None] | None:
        """Return the whole change as one function of an event; None where that is not so simple.

        It is where the condition asks for the primary key and for nothing else, and the key stays as it is.
        """
        keys = self._keys(table)
        if keys is None:
            return None
        frame = Frame()
        writer = ExpressionWriter(RowReader(self.scope, self.catalog, frame), frame, self._bindings)
        otherwise = ["    insert(row)", "    return"] if self.update.or_insert else ["    return"]
        body: list[str] = []
        for number, position in enumerate(table.key):
            code = writer.write(keys[position].value)
            body += [*frame.assignments(), f"key{number} = {code.text}"]
            # Null finds its row only where a key may be null.
            if code.nullable and not table.null_keys:
                body += [f"if key{number} is None:", *otherwise]
        names = [f"key{number}" for number in range(len(table.key))]
        key = names[0] if len(names) == 1 else f"({', '.join(names)})"
        body += [f"number = keys.get({key})", "if number is None:", *otherwise]
        body += ["held = rows[number][1]", *self._lines, f"new = {self._row}", "rows[number] = (number, new)"]
        body += ["for index in indexes.values():", "    index.replace(number, held, new)"]
        lines = [
            "def make(clock, keys, rows, indexes, insert):",
            *indent(["def change(ts, row):", *indent(body), "return change"]),
        ]
        maker = build(f"{self.title} by key", lines, self._bindings.names)["make"]
        made: Callable[[int, Row], None] = maker(clock, table.keys, table.rows, table.indexes, table.insert)
        return made

    def _keys(self, table: Table) -> dict[int, Equality] | None:
        """Return the equality for each attribute of the primary key, where nothing else is asked and the key stays."""
        keys = {each.attribute: each for each in equalities(self.update.on, self.scope, TABLE, self.catalog)}
        if not table.key or set(keys) != set(table.key) or len(list(conjuncts(self.update.on))) != len(keys):
            return None
        return keys if all(self._keeps(keys[position]) for position in table.key) else None

    def _keeps(self, equality: Equality) -> bool:
        """Tell whether the attribute of an equality has its old value in the new row."""
        source = self._parts[equality.attribute]
        if source == f"held[{equality.attribute}]":
            return True
        value = equality.value
        return isinstance(value, ast.Variable) and source == f"row[{self.scope.resolve(value).attribute}]"
