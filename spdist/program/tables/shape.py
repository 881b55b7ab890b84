"""Which tables of an app have a typed form, and how conditions look for their rows."""

from __future__ import annotations

from dataclasses import dataclass

from spdist.language import ast
from spdist.language.checking.changes import change_scope
from spdist.language.checking.checked import CheckedApp, CheckedQuery
from spdist.language.checking.scope import AttributeSource, Scope
from spdist.language.types import Schema, Type
from spdist.operators.expressions.pushdown import names_store
from spdist.operators.tables.table import keyed_attributes
from spdist.program.search import Search, search_of

__all__ = [
    "LoopTable",
    "RowSearch",
    "membership_of",
    "outer_variables",
    "rows_of",
    "tables_of",
]

#: The table's place in the scope of a change; the event is source 0.
_TABLE = 1


@dataclass(frozen=True, slots=True)
class LoopTable:
    """A table in memory.

    Parameters
    ----------
    number : int
        Its place among the tables of the app.
    id : str
        Its name.
    schema : Schema
        Its attributes.
    key : tuple of int
        Positions of the attributes of the primary key; empty where there is none.
    indexes : tuple of tuple of int
        By which attributes rows are looked for, those of the primary key first; each in ascending order but the key.
    """

    number: int
    id: str
    schema: Schema
    key: tuple[int, ...]
    indexes: tuple[tuple[int, ...], ...] = ()

    @property
    def name(self) -> str:
        """The prefix of its arrays."""
        return f"tab{self.number}"

    @property
    def null_keys(self) -> bool:
        """Whether the primary key may be null (`spdist.operators.tables.table.Table.null_keys`)."""
        # By one number rows are in a sorted map, which takes no null as a key; a HashMap does
        return bool(self.key) and not (len(self.key) == 1 and self.schema.types[self.key[0]].numeric)


@dataclass(frozen=True, slots=True)
class RowSearch(Search):
    """How the rows of a table are found that meet a condition.

    Parameters
    ----------
    nulls : bool
        Whether null finds null.
    """

    nulls: bool = False


def rows_of(condition: ast.Expression | None, scope: Scope, position: int, table: LoopTable) -> RowSearch:
    """Return how rows of a table, which stands at `position` in `scope`, are found."""
    found = search_of(condition, scope, position, table.key)
    # Null finds null where Siddhi asks its map for the key, and tests nothing else of the row
    alone = not any(names_store(part, scope, position) for part in found.rest)
    nulls = table.null_keys and found.index == table.key and alone
    return RowSearch(found.index, found.values, found.rest, nulls)


def membership_of(node: ast.In, scope: Scope, table: LoopTable) -> tuple[Scope, int, RowSearch]:
    """Return what the condition of ``in`` may name, the table's place in that, and how its rows are found."""
    inside = scope.with_table(AttributeSource(table.id, table.id, table.schema, "table"))
    position = len(inside.sources) - 1
    return inside, position, rows_of(node.operand, inside, position, table)


def tables_of(checked: CheckedApp, named: set[str]) -> tuple[dict[str, LoopTable], dict[str, str]]:
    """Return those of some tables that have a typed form, with their indexes, and why the others have none."""
    typed: dict[str, LoopTable] = {}
    why: dict[str, str] = {}
    for definition in checked.app.definitions:
        if not isinstance(definition, ast.TableDefinition) or definition.name not in named:
            continue
        key = keyed_attributes(definition, "PrimaryKey")
        table = LoopTable(len(typed), definition.name, definition.schema, key)
        reason = _without_form(definition, table)
        if reason:
            why[definition.name] = reason
        else:
            # A dict, as the order counts: that of the primary key is the first one (`indexes_of`)
            indexes = dict.fromkeys([key] if key else [])
            indexes |= dict.fromkeys(_searched(checked, table))
            typed[definition.name] = LoopTable(table.number, table.id, table.schema, key, tuple(indexes))
    return typed, why


def _without_form(definition: ast.TableDefinition, table: LoopTable) -> str:
    """Return why a table has no typed form; nothing where it has one."""
    if ast.find_annotations(definition.annotations, "Store"):
        return f"the table '{table.id}', which is kept elsewhere"
    if any(table.schema.types[place] is Type.OBJECT for place in table.key):
        return f"the table '{table.id}', whose primary key has an object"
    return ""


def _searched(checked: CheckedApp, table: LoopTable) -> list[tuple[int, ...]]:
    """Return by which attributes queries look for rows of a table."""
    found = []
    for query in _queries(checked):
        output = query.query.output
        if query.target == table.id and isinstance(output, ast.Update | ast.Delete):
            scope = change_scope(query.output, table.id, table.schema, query.scope.tables)
            found.append(rows_of(output.on, scope, _TABLE, table).index)
        if isinstance(query.query.input, ast.JoinInput):
            sources = enumerate(query.scope.sources)
            sides = [position for position, source in sources if source.stream_id == table.id]
            found += [rows_of(query.query.input.on, query.scope, position, table).index for position in sides]
        for node, scope in _memberships(query):
            if node.table == table.id:
                found.append(membership_of(node, scope, table)[2].index)
    return [index for index in found if index]


def _memberships(query: CheckedQuery) -> list[tuple[ast.In, Scope]]:
    """Return where a query looks into tables, and what it may name there, but not where one look is within another one.

    Over one stream that is in front of everything else, where it selects and in ``having``; else where it changes a
    table.
    """
    given, select, output = query.query.input, query.query.select, query.query.output
    read: list[tuple[ast.Expression, Scope]] = []
    if isinstance(given, ast.SingleInput):
        handlers = (*given.before, *given.after)
        read = [(handler.condition, query.scope) for handler in handlers if isinstance(handler, ast.Filter)]
        read += [(item.expression, query.scope) for item in select.items]
        if select.having is not None:
            read.append((select.having, query.scope.results(query.target, query.output)))
    if isinstance(output, ast.Update | ast.Delete):
        table = next(one for one in query.scope.tables if one.stream_id == query.target)
        scope = change_scope(query.output, table.stream_id, table.schema, query.scope.tables)
        changes = (item.expression for item in output.set) if isinstance(output, ast.Update) else ()
        read += [(one, scope) for one in (output.on, *changes) if one is not None]
    found = [(node, scope) for one, scope in read for node in one.walk() if isinstance(node, ast.In)]
    # By identity, as equal nodes may stand at several places
    nested = {id(below) for node, _ in found for below in node.operand.walk()}
    return [(node, scope) for node, scope in found if id(node) not in nested]


def outer_variables(expression: ast.Expression, scope: Scope) -> list[ast.Variable]:
    """Return the variables of an expression but those that mean, within ``in``, attributes of the table's rows."""
    nodes = list(expression.walk())
    of_rows: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.In):
            table = next(one for one in scope.tables if one.stream_id == node.table)
            inside = scope.with_table(table)
            named = [one for one in node.operand.walk() if isinstance(one, ast.Variable)]
            of_rows |= {id(one) for one in named if inside.resolve(one).source == len(scope.sources)}
    return [node for node in nodes if isinstance(node, ast.Variable) and id(node) not in of_rows]


def _queries(checked: CheckedApp) -> list[CheckedQuery]:
    inside = (query for partition in checked.partitions for query in partition.queries)
    return [*checked.queries, *inside]
