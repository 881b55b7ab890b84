"""The windows of a join's sides as its operators have them, and back; and the keys by which events are found there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from spdist.language.types import Type
from spdist.operators.core.state_columns import Column
from spdist.program.joins.shape import Joined
from spdist.program.joins.side_text import SideText, sides_of
from spdist.program.parts import QueryText
from spdist.program.running.running import Running
from spdist.program.shape import Read
from spdist.program.states.key_words import key_numbers, words_of
from spdist.program.states.nodes import runs, walked
from spdist.program.states.window import fresh_window, load_window, stored_windows

__all__ = ["fresh_sides", "load_index", "load_sides", "side_keys", "stored_sides"]


def load_sides(running: Running, query: QueryText, numbers: Any, windows: Sequence[Column]) -> None:
    """Take over what the sides hold: of each key of the partition, by number, the left window and the right one."""
    for side in query.sides:
        if side.read.window is not None:
            load_window(running, side, numbers, windows[side.operator])
            load_index(running, side)


def stored_sides(running: Running, query: QueryText, count: int) -> list[Column]:
    """Return the windows of each side, of so many keys of the partition."""
    return [stored_windows(running, side, count) for side in query.sides]


def fresh_sides(join: Joined) -> list[Any]:
    """Return the windows of both sides that have seen nothing."""
    reads = (side.read for side in sides_of(QueryText(join, None)))
    return [fresh_window(read) for read in reads if isinstance(read, Read)]


def side_keys(running: Running, side: QueryText) -> list[tuple[Any, Any]]:
    """Return the array of the keys by which events are found, with the places of each word that is a text."""
    table = running.program.arrays.tables.get(f"{side.name}_k")
    if table is None or not isinstance(side, SideText):
        return []
    slots, keys = running.arrays[f"{side.name}_k_slots"], running.arrays[f"{side.name}_k_keys"]
    numbers, first = slots[slots >= 0] * table.width, table.width - len(side.own.search.index)
    types = [side.read.types[place] for place in side.own.search.index]
    return [(keys, numbers + first + word) for word, type in enumerate(types) if type is Type.STRING]


def load_index(running: Running, side: QueryText) -> None:
    """Have the events of a side be found by their keys, in the order of their lists."""
    assert isinstance(side, SideText)
    name, arrays, places, window = side.name, running.arrays, side.own.search.index, side.own.window
    if f"{name}_of" not in arrays or window is None:
        return
    count = int(arrays[f"{name}_free"][1])
    running.reserve(f"groups {name}", count)
    instances = _instances(running, name, window.found_in, count)
    words, known = [], instances >= 0
    if side.keyed is not None:
        words.append(instances)
    for place in places:
        values, nulls = arrays[f"{name}_w_{place}"][:count], arrays[f"{name}_w_{place}_n"][:count] != 0
        words.append(words_of(values, nulls, side.read.types[place]))
        # Null equals nothing, so an event with a null in its key is found by none
        known &= ~nulls
    nodes = numpy.flatnonzero(known)
    numbers = key_numbers(running, f"{name}_k", numpy.stack(words, axis=1)[nodes])
    first, last, size, link, of = (arrays[f"{name}_{part}"] for part in ("first", "last", "size", "link", "of"))
    of[:count] = -1
    of[nodes], link[nodes] = numbers, -1
    order, begins, ends, same = runs(numbers)
    nodes, numbers = nodes[order], numbers[order]
    link[nodes[:-1][same]] = nodes[1:][same]
    first[numbers[begins]], last[numbers[ends]] = nodes[begins], nodes[ends]
    size[:] = numpy.bincount(numbers, minlength=len(size))


def _instances(running: Running, name: str, list: str, count: int) -> Any:
    """Return of each event of a side the number of its key of the partition; -1 where it is not in the list."""
    heads, found = running.arrays[f"{name}_{list}"], numpy.full(count, -1, numpy.int64)
    lengths, order = walked(running, heads, running.arrays[f"{name}_next"])
    found[order] = numpy.repeat(numpy.arange(len(heads)), lengths)
    return found
