"""States of sliding windows that versions 0.13 to 0.18 stored as columns, read as those of today.

There a query over ``length`` or ``time`` that only added up and counted was one map with arrays of numbers: of each
group what it counts and adds up, and of each event in the window its group and the values that leave with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from spdist.errors import StateError

__all__ = ["plain_keys", "plain_query"]

_NEVER = -(2**63)
_WHOLE = ("int", "long")
_Items = Sequence[tuple[str, int]]


def plain_query(stored: Any) -> Any:
    """Return the state of a query (`spdist.operators.queries.query.SingleStreamQuery`), whichever form it has.

    Raises
    ------
    StateError
        It is not whole.
    """
    if not isinstance(stored, Mapping):
        return stored
    keys, _, _, size, timed, _ = stored["sliding"]
    totals, events = _plain(stored)
    slots = totals if keys else {}
    return [[slots, [] if keys else totals[()], {}], _window(events, size, timed), None, []]


def plain_keys(stored: Any) -> Any:
    """Return the states of the keys of a partition (`spdist.operators.partitions.partition`), whichever form they have.

    Raises
    ------
    StateError
        They are not whole.
    """
    if isinstance(stored, Mapping):
        return stored
    (columns,) = stored
    keys, _, _, size, timed, _ = columns["sliding"]
    totals, events = _plain(columns)
    held: dict[str, list[Any]] = {key: [] for key in totals}
    for event in events:
        held[event[1][keys[0]]].append(event)
    # When keys were met was not stored.
    return {
        key: [number, 0, [[[{}, slots, {}], _window(held[key], size, timed), None, []]]]
        for number, (key, slots) in enumerate(totals.items())
    }


def _window(events: Sequence[Any], size: int, timed: bool) -> Any:
    if not timed:
        return deque(events)
    # Events with one timestamp asked for one wake-up.
    due = dict.fromkeys(time + size for time, _ in events)
    return [deque(events), events[-1][0] if events else _NEVER, list(due)]


def _plain(stored: Mapping[str, Any]) -> tuple[dict[Any, list[Any]], list[Any]]:
    """Return the slots of each group's totals, and the events, of which only what is looked at is there."""
    keyed, items, types, *_ = stored["sliding"]
    known, rows = stored["keys"], stored["rows"]
    added = tuple(dict.fromkeys(attribute for name, attribute in items if name in ("sum", "avg")))
    summed = tuple(dict.fromkeys((a, _is_whole(n, types[a])) for n, a in items if n in ("sum", "avg")))
    groups = _numbers(stored["groups"], "<i4", rows).tolist()
    # One list for all is enough: columns are replaced, not written into.
    columns: list[Sequence[Any]] = [[None] * rows] * len(types)
    for place, attribute in enumerate(keyed):
        columns[attribute] = [known[g][place] if len(keyed) > 1 else known[g] for g in groups]
    for attribute, data in zip(added, stored["values"], strict=True):
        columns[attribute] = _numbers(data, "<i8" if types[attribute] in _WHOLE else "<f8", rows).tolist()
    times = [0] * rows if stored["times"] is None else _numbers(stored["times"], "<i8", rows).tolist()
    counts = _numbers(stored["counts"], "<i8", len(known)).tolist()
    pairs = zip(stored["sums"], summed, strict=True)
    sums = [_numbers(data, "<i8" if whole else "<f8", len(known)).tolist() for data, (_, whole) in pairs]
    slots = {}
    for number, key in enumerate(known):
        own = {one: total[number] for one, total in zip(summed, sums, strict=True)}
        if counts[number] or any(own.values()) or not keyed:
            slots[key] = _slots(items, types, counts[number], own)
    return slots, list(zip(times, zip(*columns, strict=True), strict=True))


def _slots(items: _Items, types: Sequence[str], count: int, sums: Mapping[tuple[int, bool], Any]) -> list[Any]:
    slots: list[Any] = []
    for name, attribute in items:
        if name == "count":
            slots.append(count)
        elif name == "avg":
            slots += (sums[attribute, False], count)
        elif name:
            # Where values can leave, a sum counts by twos.
            slots += (sums[attribute, _is_whole(name, types[attribute])], 2 * count + bool(count))
    return slots


def _is_whole(name: str, type: str) -> bool:
    return name == "sum" and type in _WHOLE


def _numbers(data: bytes, kind: str, size: int) -> Any:
    found = numpy.frombuffer(data, kind)
    if len(found) != size:
        raise StateError(f"stored state is damaged: {len(found)} numbers are there in place of {size}")
    return found
