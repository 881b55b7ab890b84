"""What the results of a query do to a table of a program: insert, delete, update, and update or insert.

The meaning is that of `spdist.operators.tables.writes` and `spdist.operators.tables.changes`.
"""

from __future__ import annotations

from functools import partial

from spdist.language import ast
from spdist.language.checking.changes import change_scope
from spdist.language.checking.scope import Scope
from spdist.operators.expressions.pushdown import conjuncts
from spdist.program.expressions import NotTyped, TypedWriter, Value
from spdist.program.parts import Block, QueryText, Whole, indent
from spdist.program.queries.filter_text import tested
from spdist.program.tables.member_text import contained
from spdist.program.tables.shape import LoopTable, rows_of
from spdist.program.tables.text import TableText

__all__ = ["ChangeText"]

#: The table's place in the scope of a change; the result is source 0.
_TABLE = 1


class ChangeText:
    """Writes what the results of a query do to a table.

    Parameters
    ----------
    whole : Whole
        The text.
    query : QueryText
        The query.
    table : LoopTable
        The table.
    block : Block
        The results of one chunk.
    """

    def __init__(self, whole: Whole, query: QueryText, table: LoopTable, block: Block) -> None:
        self._whole = whole
        self._block = block
        self._table = table
        self._checked = query.read.checked
        self._output = self._checked.query.output
        self._rows = TableText(whole, table)
        self._event, self._row = whole.name(), whole.name()
        self._scope: Scope = change_scope(self._checked.output, table.id, table.schema, self._checked.scope.tables)
        self._condition: ast.Expression | None = None
        if isinstance(self._output, ast.Update | ast.Delete):
            self._condition = self._output.on
        self._search = rows_of(self._condition, self._scope, _TABLE, table)

    def lines(self) -> list[str]:
        """Return what is done with a chunk of results, one after the other."""
        output = self._output
        if isinstance(output, ast.Delete):
            return self._each(self._found(self._rows.deletes(self._row)))
        if not isinstance(output, ast.Update):
            return self._each(self._inserted())
        changed, values = self._changed(output)
        moves = self._moves(output)
        change = self._rows.moves if moves else self._rows.changes
        update = [*changed, *change(self._row, values)] or ["pass"]
        if not output.or_insert:
            return self._each(self._found(update))
        hit = self._whole.name()
        looks = [f"{hit} = False", *self._found([f"{hit} = True", *update])]
        if self._by_key(output) and not moves:
            return self._each([*looks, f"if not {hit}:", *indent(self._inserted())])
        # Siddhi lets a whole chunk update the table before it inserts: what it inserts must not be found there
        return self._with_fresh(looks, hit, [*changed, *self._rows.stores(self._row, values)])

    def _each(self, body: list[str]) -> list[str]:
        return [f"for {self._event} in range({self._block.begin}, {self._block.end}):", *indent(body)]

    def _with_fresh(self, looks: list[str], hit: str, update: list[str]) -> list[str]:
        """Return what updates rows, or inserts them: those of a chunk meet among themselves before they go in.

        Parameters
        ----------
        looks : list of str
            What updates rows of the table with a result.
        hit : str
            The name that says whether there were any.
        update : list of str
            What updates a row that is not in the table yet.
        """
        first, last, after = self._whole.name(), self._whole.name(), f"{self._table.name}_after"
        row, following = self._row, self._whole.name()
        meets = tested(list(conjuncts(self._condition)), self._writer, [f"{hit} = True", *update])
        merged = [
            f"{following} = {first}",
            f"while {following} >= 0:",
            f"    {row} = {following}",
            f"    {following} = {after}[{row}]",
            *indent(meets),
        ]
        fresh = [
            *self._made(),
            # Fresh rows are linked as those of the table, in which they are not yet
            f"{after}[{row}] = -1",
            f"if {first} < 0:",
            f"    {first} = {row}",
            "else:",
            f"    {after}[{last}] = {row}",
            f"{last} = {row}",
        ]
        return [
            f"{first} = {last} = -1",
            *self._each(
                [*looks, f"if not {hit}:", *indent(merged), f"if not {hit}:", *indent(fresh)],
            ),
            f"while {first} >= 0:",
            f"    {row} = {first}",
            # Read before the row goes in, which writes its link
            f"    {first} = {after}[{row}]",
            *indent(self._rows.inserts(row)),
        ]

    # Rows.

    def _found(self, body: list[str]) -> list[str]:
        """Return what is done with each row that meets the condition."""
        search, writer = self._search, self._writer()
        meets = tested(search.rest, self._writer, body)
        if not search.index:
            return self._rows.every(self._row, meets)
        keys = [writer.kept(writer.write(value)) for value in search.values]
        return [*writer.lines, *self._rows.found(search.index, keys, search.nulls, self._row, meets)]

    def _inserted(self) -> list[str]:
        """Return what inserts the result."""
        return [*self._made(), *self._rows.inserts(self._row)]

    def _made(self) -> list[str]:
        """Return what makes a row of the result."""
        table, block = self._table, self._block
        self._whole.count(self._rows.room, block.most)
        if table.key and not table.null_keys:
            self._must_be_known(table.key[0])
        return self._rows.makes(self._row, [(place, self._result(place)) for place in range(len(table.schema))])

    # Values.

    def _result(self, place: int) -> Value:
        """Return an attribute of the result."""
        block = self._block
        values, nulls = self._whole.attribute(block.owner, place, block.types[place], block.room)
        return Value(f"{values}[{self._event}]", f"{nulls}[{self._event}] != 0", block.types[place])

    def _writer(self, assigned: dict[int, Value] | None = None) -> TypedWriter:
        """Return a writer of expressions over the result and the row, with the values that were assigned to it."""

        def variable(named: ast.Variable) -> Value:
            found = self._scope.resolve(named)
            if found.source != _TABLE:
                return self._result(found.attribute)
            return (assigned or {}).get(found.attribute) or self._rows.value(found.attribute, self._row)

        timestamp = f"{self._block.timestamp}[{self._event}]"
        writer = TypedWriter(variable, timestamp, self._whole.name, self._whole.text_number, missing=_no_event)
        writer.contains = partial(self._contains, writer)
        return writer

    def _contains(self, writer: TypedWriter, node: ast.In) -> Value:
        """Return whether another table has a row; this one changes row by row, and operators look before they do."""
        if node.table == self._table.id:
            raise NotTyped("'in' of the table that is changed", node.span)
        return contained(self._whole, self._scope, writer, node)

    def _changed(self, output: ast.Update) -> tuple[list[str], list[tuple[int, Value]]]:
        """Return what computes the new values of a row, and these: of the attributes that do not stay."""
        stays = self._staying(output)
        if not output.set:
            names = enumerate(self._checked.output.names)
            places = {self._table.schema.names.index(name): place for place, name in names}
            return [], [(at, self._result(place)) for at, place in sorted(places.items()) if at not in stays]
        assigned: dict[int, Value] = {}
        lines: list[str] = []
        for at, expression in self._assigned(output):
            writer = self._writer(assigned)
            value = writer.write(expression)
            # In a name of its own: a value must not name arrays of the row, which are written one after the other
            value = value if value.literal is not None else writer.computed(value.text, value.null, value.type)
            type = self._table.schema.types[at]
            if value.type is not type:
                raise NotTyped(f"a value of {value.type} as {type}", expression.span)
            lines += writer.lines
            # As in Siddhi what is assigned next sees the new value
            assigned[at] = value
        return lines, [(at, value) for at, value in assigned.items() if at not in stays]

    def _moves(self, output: ast.Update) -> bool:
        """Tell whether an update may change a primary key; raises NotTyped where it may be that of several rows."""
        table = self._table
        if set(table.key) <= self._staying(output) | self._untouched(output):
            return False
        if self._search.index != table.key:
            raise NotTyped("an update that may change several primary keys", self._checked.query.span)
        if not table.null_keys:
            self._must_be_known(self._source_of(output, table.key[0]))
        return True

    def _source_of(self, output: ast.Update, at: int) -> int | None:
        """Return which attribute of the result an attribute of the row becomes; None where it is computed."""
        if not output.set:
            return self._checked.output.names.index(self._table.schema.names[at])
        given = dict(self._assigned(output))[at]
        read = self._scope.resolve(given) if isinstance(given, ast.Variable) else None
        return None if read is None or read.source == _TABLE else read.attribute

    def _must_be_known(self, place: int | None) -> None:
        """Have an attribute of the result never be null: the operators fail where a numeric primary key is."""
        origin = None if place is None else self._block.origins[place]
        if origin is None:
            raise NotTyped("a primary key that may be null", self._checked.query.span)
        self._whole.must_be_known(origin)

    def _assigned(self, output: ast.Update) -> list[tuple[int, ast.Expression]]:
        """Return what ``set`` assigns, in the order of the table."""
        names = self._table.schema.names
        return sorted({names.index(item.variable.name): item.expression for item in output.set}.items())

    def _untouched(self, output: ast.Update) -> set[int]:
        """Return the attributes that nothing is written to."""
        every = set(range(len(self._table.schema)))
        if output.set:
            return every - {at for at, _ in self._assigned(output)}
        return {at for at in every if self._table.schema.names[at] not in self._checked.output.names}

    def _staying(self, output: ast.Update) -> set[int]:
        """Return the attributes that are written as what they were looked up by: they have that value already."""
        found = set()
        assigned = dict(self._assigned(output))
        for at, value in zip(self._search.index, self._search.values, strict=True):
            if not isinstance(value, ast.Variable):
                continue
            read = self._scope.resolve(value)
            if output.set:
                given = assigned.get(at)
                same = isinstance(given, ast.Variable) and self._scope.resolve(given) == read
            else:
                same = self._checked.output.names[read.attribute] == self._table.schema.names[at]
            if same and read.type is self._table.schema.types[at]:
                found.add(at)
        return found

    def _by_key(self, output: ast.Update) -> bool:
        """Tell whether the condition asks for the primary key and nothing else, so that chunks make no difference."""
        key = self._table.key
        return bool(key) and self._search.index == key and not self._search.rest


def _no_event(node: ast.IsNullEvent) -> str:
    raise NotTyped("'is null' of an event", node.span)
