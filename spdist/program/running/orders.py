"""What a loop asks for while it runs: room, when cron fires, or in which order keys get what has no key of its own."""

from __future__ import annotations

import numpy

from spdist.java.objects import concurrent_order, set_order
from spdist.program.joins.unique_side import ordered_map
from spdist.program.partition_text import ordered_partition
from spdist.program.running.rooms import Rooms
from spdist.program.states.key_words import key_texts, known_keys

__all__ = ["answer", "firing_of"]

_FIRING = "firing "


def firing_of(query: str) -> str:
    """Return what a query, by its prefix, asks for that wants to know when its window fires next."""
    return f"{_FIRING}{query}"


def answer(running: Rooms, name: str, more: int, count: int) -> None:
    """Do what somebody asks for; see `Rooms.ask`."""
    number, map = ordered_partition(name), ordered_map(name)
    if number is not None:
        _order_keys(running, number)
    elif name.startswith(_FIRING):
        _fire_after(running, name.removeprefix(_FIRING), more)
    elif map is not None:
        _order_map(running, map, more)
    else:
        running.ask(name, more, count)


def _fire_after(running: Rooms, query: str, now: int) -> None:
    """Note when a query's window fires next; at `now` where it never does."""
    (window,) = {one.read.window for one in running.program.queries if one.name == query}
    assert window is not None
    due = window.next_after(now)
    running.arrays[f"{query}_firing"][:] = now, now if due is None else due


def _order_keys(running: Rooms, partition: int) -> None:
    """Write the numbers of a partition's keys in the order in which they get what has no key: O(keys)."""
    arrays, name = running.arrays, f"p{partition}"
    (type,) = {one.type for one in running.program.shape.partitions if one.number == partition}
    slots, created = arrays[f"{name}_slots"], arrays[f"{name}_meta"][0]
    # By number, as they came: Java's order depends on that, too.
    numbers = numpy.sort(slots[slots >= 0])
    keys = dict(zip(key_texts(running, arrays[f"{name}_keys"][numbers], type), numbers.tolist(), strict=True))
    arrays[f"{name}_order"][: len(keys)] = [keys[key] for key in set_order(keys)]
    arrays[f"{name}_sorted"][:] = created, len(keys)


def _order_map(running: Rooms, window: str, key: int) -> None:
    """List the numbers of a window's keys in the order in which Siddhi's map has them: O(own keys)."""
    arrays = running.arrays
    query = next(one for one in running.program.parts if one.name == window)
    assert query.unique is not None
    own = list[int]()
    number = int(arrays[f"{window}_own"][key])
    while number >= 0:
        own.append(number)
        number = int(arrays[f"{window}_more"][number])
    # By number, as they came; see `concurrent_order`.
    own.sort()
    by_key = dict(zip(known_keys(running, query, query.unique, numpy.array(own)).values(), own, strict=True))
    first, *following = [by_key[one] for one in concurrent_order(by_key)]
    arrays[f"{window}_shown"][key], arrays[f"{window}_shown_of"][key] = first, len(by_key)
    arrays[f"{window}_after"][[first, *following]] = [*following, -1]
