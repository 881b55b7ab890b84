"""The rows of tables as operators have them, and back (`spdist.operators.tables.table.Table.snapshot`)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy

from spdist.language.types import Type
from spdist.operators.core.state_columns import Column, ListColumn, NumberColumn, StructColumn
from spdist.operators.expressions.pushdown import Every, NullTest, Some, Test
from spdist.program.parts import Program
from spdist.program.running.running import Running
from spdist.program.states.key_words import key_numbers, words_of
from spdist.program.states.nodes import runs, walked
from spdist.program.tables.shape import LoopTable
from spdist.program.tables.text import COUNT, MOST, NEXT, REFUSED, TableIndex, indexes_of

__all__ = ["FRESH_TABLE", "clear_table", "load_table", "nodes_meeting", "row_nodes", "stored_table", "used_tables"]

#: How values are compared.
_COMPARED = {"==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
#: The state of a table without rows.
FRESH_TABLE = (0, 0, (), 0)


def load_table(running: Running, table: LoopTable, state: Column) -> None:
    """Take over the rows of a table, which has none in the program, from a column of one value.

    Raises
    ------
    TypeError, ValueError, OverflowError
        A value is not of its type; nothing has changed then.
    """
    arrays, name, types = running.arrays, table.name, table.schema.types
    # Older states do not say how many rows there were at most
    _, refused, rows, *most = state.parts(int(state.sizes()[0]))
    _, values = rows.items_held().parts(2)
    columns = [
        running.values.loaded(own, type, exactly=True)
        for own, type in zip(values.parts(len(types)), types, strict=True)
    ]
    count = len(values)
    running.reserve(f"rows {name}", count)
    for place, (numbers, nulls) in enumerate(columns):
        arrays[f"{name}_{place}"][:count], arrays[f"{name}_{place}_n"][:count] = numbers, nulls
    # Only the order of rows matters, so they are numbered anew from 0 on
    nodes = numpy.arange(count)
    arrays[f"{name}_number"][:count] = nodes
    arrays[f"{name}_before"][:count], arrays[f"{name}_after"][:count] = nodes - 1, nodes + 1
    if count:
        arrays[f"{name}_after"][count - 1] = -1
        arrays[f"{name}_first"][0], arrays[f"{name}_last"][0] = 0, count - 1
    arrays[f"{name}_free"][:] = -1, count
    info = arrays[f"{name}_info"]
    info[COUNT], info[NEXT] = count, count
    info[MOST], info[REFUSED] = most[0].values()[0] if most else 0, refused.values()[0]
    for index in indexes_of(table):
        _load_index(running, table, index, count)


def _load_index(running: Running, table: LoopTable, index: TableIndex, count: int) -> None:
    """Put the first rows, which are in the order of the table, into an index."""
    arrays, name = running.arrays, index.name
    words = numpy.zeros((count, index.width), numpy.int64)
    missing = numpy.zeros(count, bool)
    for at, place in enumerate(index.attributes):
        nulls = arrays[f"{table.name}_{place}_n"][:count] != 0
        words[:, at] = words_of(arrays[f"{table.name}_{place}"][:count], nulls, table.schema.types[place])
        if index.nulls:
            words[:, -1] += nulls.astype(numpy.int64) << at
        missing |= nulls
    order = numpy.arange(count) if index.nulls else numpy.flatnonzero(~missing)
    of = arrays[f"{name}_of"]
    of[:count] = -1
    of[order] = key_numbers(running, name, words[order])
    sorted_by_key, begins, ends, same = runs(of[order])
    order = order[sorted_by_key]
    keys = of[order]
    arrays[f"{name}_first"][keys[begins]] = order[begins]
    if not index.unique:
        arrays[f"{name}_last"][keys[ends]] = order[ends]
        arrays[f"{name}_previous"][order] = -1
        arrays[f"{name}_next"][order] = -1
        arrays[f"{name}_next"][order[:-1][same]] = order[1:][same]
        arrays[f"{name}_previous"][order[1:][same]] = order[:-1][same]


def used_tables(program: Program) -> list[LoopTable]:
    """Return the tables that a program has."""
    return [table for table in program.shape.tables.values() if f"{table.name}_info" in program.arrays.declared]


def row_nodes(running: Running, table: LoopTable) -> Any:
    """Return the nodes of the rows of a table, in its order."""
    arrays, name = running.arrays, table.name
    _, order = walked(running, arrays[f"{name}_first"][:1], arrays[f"{name}_after"])
    return order


def nodes_meeting(running: Running, table: LoopTable, test: Test, values: Sequence[Any]) -> Any:
    """Return the nodes of the rows of a table that meet a test, in its order."""
    nodes = row_nodes(running, table)
    return nodes[_met(running, table, nodes, test, values)]


def _met(running: Running, table: LoopTable, nodes: Any, test: Test, values: Sequence[Any]) -> Any:
    """Return which nodes meet a test, as an array of bools."""
    if isinstance(test, Every | Some):
        parts = [_met(running, table, nodes, part, values) for part in test.parts]
        return (numpy.logical_and if isinstance(test, Every) else numpy.logical_or).reduce(parts)
    nulls = running.arrays[f"{table.name}_{test.attribute}_n"][nodes] != 0
    if isinstance(test, NullTest):
        return nulls
    value = values[test.value]
    if table.schema.types[test.attribute] is Type.STRING:
        try:
            value = running.texts.number(value)
        except UnicodeEncodeError:  # half a character, which no row of a program has
            return numpy.zeros(len(nodes), bool)
    return ~nulls & _COMPARED[test.op](running.arrays[f"{table.name}_{test.attribute}"][nodes], value)


def stored_table(running: Running, table: LoopTable, nodes: Any = None) -> Column:
    """Return the rows of a table as its operators have them, a column of one value; they are numbered anew.

    Where nodes are given, only these rows are there: in the order of the table, as if it had the others, too.
    """
    arrays, name = running.arrays, table.name
    info = arrays[f"{name}_info"].copy()
    if nodes is None:
        nodes = row_nodes(running, table)
    else:
        info[MOST] = max(info[MOST], info[COUNT])
    columns = [
        running.values.stored(arrays[f"{name}_{place}"][nodes], arrays[f"{name}_{place}_n"][nodes], type)
        for place, type in enumerate(table.schema.types)
    ]
    count = NumberColumn(numpy.array([len(nodes)]))
    numbered = StructColumn(tuple, [NumberColumn(numpy.arange(len(nodes))), StructColumn(tuple, columns)])
    refused, most = (NumberColumn(info[[place]]) for place in (REFUSED, MOST))
    return StructColumn(list, [count, refused, ListColumn(list, count, numbered), most])


def clear_table(running: Running, table: LoopTable) -> None:
    """Let a table have no rows."""
    arrays, name = running.arrays, table.name
    arrays[f"{name}_free"][:] = -1, 0
    arrays[f"{name}_info"][:] = 0
    arrays[f"{name}_first"][0] = arrays[f"{name}_last"][0] = -1
    for index in indexes_of(table):
        arrays[f"{index.name}_slots"][:] = -1
        # The seed of the hash and the number of slots behind these stay
        arrays[f"{index.name}_meta"][:3] = 0, -1, 0
        arrays[f"{index.name}_first"][:] = -1
        if not index.unique:
            arrays[f"{index.name}_last"][:] = -1
