"""The rows of tables as operators have them, and back (`spdist.operators.tables.table.Table.snapshot`)."""

from __future__ import annotations

from typing import Any

import numpy

from spdist.language.types import Type
from spdist.operators.base import Row
from spdist.program.expressions import is_typed
from spdist.program.running.running import Running
from spdist.program.states.key_words import key_numbers, words_of
from spdist.program.states.nodes import walked
from spdist.program.tables.shape import LoopTable
from spdist.program.tables.text import COUNT, MOST, NEXT, REFUSED, TableIndex, indexes_of

__all__ = ["FRESH_TABLE", "clear_table", "load_table", "row_nodes", "stored_table", "used_tables"]

#: The state of a table without rows.
FRESH_TABLE = (0, 0, (), 0)


def load_table(running: Running, table: LoopTable, state: Any) -> None:
    """Take over the rows of a table, which has none in the program.

    Raises
    ------
    TypeError
        A value is not of its type; nothing has changed then.
    """
    arrays, name = running.arrays, table.name
    _, refused, numbered, *most = state
    rows = [row for _, row in numbered]
    columns = [_values(rows, place, type) for place, type in enumerate(table.schema.types)]
    count = len(rows)
    running.reserve(f"rows {name}", count)
    for place, (values, type) in enumerate(zip(columns, table.schema.types, strict=True)):
        arrays[f"{name}_{place}"][:count], arrays[f"{name}_{place}_n"][:count] = running.values.taken(values, type)
    # Only the order of rows matters, so they are numbered anew from 0 on
    nodes = numpy.arange(count)
    arrays[f"{name}_number"][:count] = nodes
    arrays[f"{name}_before"][:count], arrays[f"{name}_after"][:count] = nodes - 1, nodes + 1
    if count:
        arrays[f"{name}_after"][count - 1] = -1
        arrays[f"{name}_first"][0], arrays[f"{name}_last"][0] = 0, count - 1
    arrays[f"{name}_free"][:] = -1, count
    info = arrays[f"{name}_info"]
    info[COUNT], info[MOST], info[NEXT], info[REFUSED] = count, most[0] if most else 0, count, refused
    for index in indexes_of(table):
        _load_index(running, table, index, count)


def _values(rows: list[Row], place: int, type: Type) -> list[Any]:
    values = [row[place] for row in rows]
    if not all(value is None or is_typed(value, type) for value in values):
        raise TypeError("a value of a table is not of its type")
    return values


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
    # Stable: the rows of a key stay in the order of the table
    order = order[numpy.argsort(of[order], kind="stable")]
    keys = of[order]
    same = keys[1:] == keys[:-1]
    # Cut, as there may be no rows at all
    begins = numpy.append(True, ~same)[: len(order)]
    arrays[f"{name}_first"][keys[begins]] = order[begins]
    if not index.unique:
        ends = numpy.append(~same, True)[: len(order)]
        arrays[f"{name}_last"][keys[ends]] = order[ends]
        arrays[f"{name}_previous"][order] = -1
        arrays[f"{name}_next"][order] = -1
        arrays[f"{name}_next"][order[:-1][same]] = order[1:][same]
        arrays[f"{name}_previous"][order[1:][same]] = order[:-1][same]


def used_tables(running: Running) -> list[LoopTable]:
    """Return the tables that the program has."""
    tables = running.program.shape.tables.values()
    return [table for table in tables if f"{table.name}_info" in running.arrays]


def row_nodes(running: Running, table: LoopTable) -> Any:
    """Return the nodes of the rows of a table, in its order."""
    arrays, name = running.arrays, table.name
    _, order = walked(running, arrays[f"{name}_first"][:1], arrays[f"{name}_after"])
    return order


def stored_table(running: Running, table: LoopTable) -> Any:
    """Return the rows of a table as its operators have them; they are numbered anew."""
    arrays, name = running.arrays, table.name
    nodes, info = row_nodes(running, table), arrays[f"{name}_info"]
    columns = []
    for place, type in enumerate(table.schema.types):
        nulls = arrays[f"{name}_{place}_n"][nodes]
        columns.append(running.values.shown(arrays[f"{name}_{place}"][nodes], nulls, type))
    rows = list(enumerate(zip(*columns, strict=True)))
    return [len(rows), int(info[REFUSED]), rows, int(info[MOST])]


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
