"""What a loop asks for while it runs: room, or in which order the keys of a partition get what has no key."""

from __future__ import annotations

import numpy

from spdist.java.objects import set_order
from spdist.program.partition_text import ordered_partition
from spdist.program.running.rooms import Rooms
from spdist.program.states.key_words import key_texts

__all__ = ["answer"]


def answer(running: Rooms, name: str, more: int, count: int) -> None:
    """Do what somebody asks for; see `Rooms.ask`."""
    number = ordered_partition(name)
    if number is None:
        running.ask(name, more, count)
    else:
        _order_keys(running, number)


def _order_keys(running: Rooms, partition: int) -> None:
    """Write the numbers of a partition's keys in the order in which they get what has no key: O(keys)."""
    arrays, name = running.arrays, f"p{partition}"
    (type,) = {one.type for one in running.program.shape.partitions if one.number == partition}
    slots, created = arrays[f"{name}_slots"], arrays[f"{name}_meta"][0]
    numbers = numpy.sort(slots[slots >= 0])
    keys = dict(zip(key_texts(running, arrays[f"{name}_keys"][numbers], type), numbers.tolist(), strict=True))
    arrays[f"{name}_order"][: len(keys)] = [keys[key] for key in set_order(keys)]
    arrays[f"{name}_sorted"][:] = created, len(keys)
