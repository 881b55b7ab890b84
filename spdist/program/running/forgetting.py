"""Texts and objects that nobody knows any more: their numbers are given out anew, once there are many.

A text keeps its number as long as the key of a partition or of a group has it, or an event in a window; so does an
object, which is no key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from spdist.language.types import Type
from spdist.program.parts import QueryText
from spdist.program.patterns.shape import Matched
from spdist.program.running.running import Running
from spdist.program.running.values import ObjectTable, TextTable
from spdist.program.states.bucket import text_places
from spdist.program.states.join import side_keys
from spdist.program.states.table import row_nodes, used_tables
from spdist.program.tables.text import indexes_of

__all__ = ["forget_values"]

#: So few texts, or objects, are never worth to be looked through.
_FEW = 10_000


def forget_values(running: Running) -> None:
    """Forget the texts that are not used, where there are twice as many as were used last time; likewise objects.

    It costs as much as looking at all of the state, and is done when as many texts have come as there were.
    """
    if _are_many(running.texts):
        _renumber(running.texts, [*_keys(running), *_values(running, Type.STRING)])
        # Keys have other words, so other hashes.
        for table in running.program.arrays.tables:
            running.refill(table)
        running.forget_computed()
    if len(running.values.objects) and _are_many(running.values.objects):
        _renumber(running.values.objects, list(_values(running, Type.OBJECT)))


def _are_many(known: TextTable | ObjectTable) -> bool:
    return len(known) >= max(_FEW, 2 * known.kept)


def _renumber(known: TextTable | ObjectTable, places: list[tuple[Any, Any]]) -> None:
    """Give what is used other numbers, given the arrays that have such numbers, and where."""
    used = [array[rows] for array, rows in places]
    fresh = known.keep(numpy.unique(numpy.concatenate(used)) if used else numpy.zeros(0, numpy.int64))
    for array, rows in places:
        array[rows] = fresh[array[rows]]


def _keys(running: Running) -> Iterator[tuple[Any, Any]]:
    """Yield each array of keys that has numbers of texts, and where in it."""
    arrays = running.arrays
    keyed = {query.keyed.number: query.keyed for query in running.program.queries if query.keyed is not None}
    for number, partition in keyed.items():
        if partition.text:
            yield arrays[f"p{number}_keys"], numpy.arange(int(arrays[f"p{number}_meta"][0]))
    yield from _indexed_rows(running)
    for adds in filter(None, (one.adds for one in running.program.shape.adding)):
        yield from text_places(running, adds)
    for query in running.program.queries:
        types = query.read.types
        yield from _groups(running, query, types, query.name)
        yield from _groups(running, query, types, f"{query.name}_l")
        for aggregate in query.aggregates:
            if aggregate.form.pairs and aggregate.text:
                slots = arrays[f"{aggregate.prefix}_d_slots"]
                yield arrays[f"{aggregate.prefix}_d_keys"], slots[slots >= 0] * 3 + 1
        yield from _indexes(running, query)
        for part in (query, *query.sides, *query.fronts):
            yield from side_keys(running, part)
            yield from _sessions(running, part)
            yield from _unique_keys(running, part)


def _values(running: Running, type: Type) -> Iterator[tuple[Any, Any]]:
    """Yield each array that has values of a type which are numbers of something, and where in it, but those of keys."""
    arrays = running.arrays
    for table in used_tables(running.program):
        nodes = row_nodes(running, table)
        places = (place for place, own in enumerate(table.schema.types) if own is type)
        yield from ((arrays[f"{table.name}_{place}"], nodes) for place in places)
    for query in running.program.queries:
        yield from _limits(running, query, type)
    for query in running.program.parts:
        types = query.read.types
        for place, own in enumerate(types):
            name = f"{query.name}_c_{place}"
            if name in arrays and own is type:
                yield arrays[name], numpy.arange(len(arrays[name]))
        kept = [(place, "w") for place in query.kept] + [(place, "p") for place in range(len(types))]
        for place, part in kept:
            name = f"{query.name}_{part}_{place}"
            if name in arrays and query.type_at(place) is type:
                # Of nodes that are free, too: what they have is no number that is given out.
                used = int(arrays[f"{query.name}_free"][1])
                arrays[name][_free(running, query.name)] = 0
                yield arrays[name], numpy.arange(used)


def _indexed_rows(running: Running) -> Iterator[tuple[Any, Any]]:
    """Yield the texts by which rows of tables are looked for."""
    arrays = running.arrays
    for table in used_tables(running.program):
        texts = {place for place, type in enumerate(table.schema.types) if type is Type.STRING}
        for index in indexes_of(table):
            slots = arrays[f"{index.name}_slots"]
            numbers = slots[slots >= 0] * index.width
            for word, place in enumerate(index.attributes):
                if place in texts:
                    yield arrays[f"{index.name}_keys"], numbers + word


def _limits(running: Running, query: QueryText, type: Type) -> Iterator[tuple[Any, Any]]:
    """Yield what a rate limit holds back."""
    arrays, prefix = running.arrays, f"{query.name}_l"
    for place, own in enumerate(query.read.checked.output.types):
        name = f"{prefix}_{place}"
        if name in arrays and own is type:
            arrays[name][_free(running, prefix)] = 0
            yield arrays[name], numpy.arange(int(arrays[f"{prefix}_free"][1]))


def _groups(running: Running, query: QueryText, types: tuple[Type, ...], prefix: str) -> Iterator[tuple[Any, Any]]:
    name = f"{prefix}_k"
    if name not in running.program.arrays.tables:
        return
    slots = running.arrays[f"{name}_slots"]
    numbers, width = slots[slots >= 0], running.program.arrays.tables[name].width
    first = 0 if query.keyed is None else 1
    for word, place in enumerate(query.grouped):
        if types[place] is Type.STRING:
            yield running.arrays[f"{name}_keys"], numbers * width + first + word


def _indexes(running: Running, query: QueryText) -> Iterator[tuple[Any, Any]]:
    """Yield the keys by which the partial matches of a pattern are found."""
    for n, step in enumerate(query.read.steps if isinstance(query.read, Matched) else ()):
        name = f"{query.name}_x{n}"
        table = running.program.arrays.tables.get(name)
        if step.key is not None and table is not None and query.read.types[step.key.own] is Type.STRING:
            slots = running.arrays[f"{name}_slots"]
            yield running.arrays[f"{name}_keys"], slots[slots >= 0] * table.width + table.width - 1


def _sessions(running: Running, query: QueryText) -> Iterator[tuple[Any, Any]]:
    """Yield the keys of sessions."""
    name = f"{query.name}_s_k"
    if name in running.program.arrays.tables:
        numbers = numpy.arange(int(running.arrays[f"{name}_meta"][0]))
        width = running.program.arrays.tables[name].width
        yield running.arrays[f"{name}_keys"], numbers * width + width - 2


def _unique_keys(running: Running, query: QueryText) -> Iterator[tuple[Any, Any]]:
    """Yield the keys of a window that has one event of each."""
    unique, table = query.unique, f"{query.name}_u_k"
    if unique is not None and unique.type is Type.STRING and table in running.program.arrays.tables:
        slots, width = running.arrays[f"{table}_slots"], running.program.arrays.tables[table].width
        yield running.arrays[f"{table}_keys"], slots[slots >= 0] * width + width - 2


def _free(running: Running, prefix: str) -> Any:
    """Return the nodes of a query's window, or rate limit, that are free."""
    following, found = running.arrays[f"{prefix}_next"], []
    node = int(running.arrays[f"{prefix}_free"][0])
    while node >= 0:
        found.append(node)
        node = int(following[node])
    return numpy.array(found, numpy.int64)
