"""The partial matches of a program as those of the operators, and back.

The state is what `spdist.operators.pattern.Automaton.snapshot` returns: all partial matches, and for each element which
of them wait there, which have arrived, and its flags. Of an event only the attributes are there that are still read;
the timestamp of an event behind the first one is that of the latest.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy
import pyarrow as pa

from spdist.language.types import Type
from spdist.mapping.read_rows import ARROW
from spdist.program.parts import QueryText
from spdist.program.pattern_shape import Matched, Step
from spdist.program.running import Running
from spdist.program.window_state import load_dues, stored_dues

__all__ = ["fresh_pattern", "held_events", "load_pattern", "stored_patterns"]

#: Of an event: its timestamp and its row.
_Slot = tuple[int, tuple[Any, ...]]


def fresh_pattern(pattern: Matched) -> Any:
    """Return the state of a pattern that has seen nothing and has not begun."""
    return [[[], []], [[[], [], _flags(step, (0, []))] for step in pattern.steps]]


def _flags(step: Step, waits: tuple[int, list[int]]) -> list[Any]:
    """Return what an element behind the first one remembers; an absence also until when, and the wake-ups."""
    return [False, False] if step.waiting is None else [False, False, True, True, *waits]


def load_pattern(running: Running, query: QueryText, states: Sequence[tuple[int, Any]]) -> None:
    """Take over the partial matches: of each key of the partition, by number; or of the app, of number 0.

    Raises
    ------
    ValueError
        The state is one that a program has no form for: a result is left over from an event that failed.
    """
    pattern = query.read
    assert isinstance(pattern, Matched)
    found: list[_Place] = []
    for number, ((_, rows), places) in states:
        waiting, arrived, flags = places[0]
        began, left = flags[:2]
        # A sequence under `every` makes its first attempt anew with each event.
        anew = not began or (pattern.strict and pattern.repeated > 0)
        running.arrays[f"{query.name}_open"][number] = bool(waiting or arrived) or anew
        if left or any(flags[1] for *_, flags in places):
            raise ValueError("a result is left over from an event that failed")
        for operator, n in enumerate(pattern.absences):
            *_, deadline, due = places[n][2]
            running.arrays[f"{query.name}_until{n}"][number] = deadline
            load_dues(running, query, number, due, operator)
        for n, (waiting, arrived, _) in enumerate(places[1:], start=1):
            found += [_Place(number, n, True, *rows[i]) for i in (() if pattern.strict else waiting)]
            found += [_Place(number, n, False, *rows[i]) for i in arrived]
    if found:
        _load_nodes(running, query, pattern, found)


class _Place:
    """A partial match, and where it stands: the partition's key, the element, and whether it waits there already."""

    __slots__ = ("element", "number", "slots", "timestamp", "waits")

    def __init__(
        self, number: int, element: int, waits: bool, timestamp: int, _expired: bool, slots: Sequence[_Slot | None]
    ) -> None:
        self.number = number
        self.element = element
        self.waits = waits
        self.timestamp = timestamp
        self.slots = slots

    def value(self, element: int, attribute: int) -> Any:
        """Return an attribute of the event of an element; None where there is none yet."""
        slot = self.slots[element]
        return None if slot is None else slot[1][attribute]


def _load_nodes(running: Running, query: QueryText, pattern: Matched, found: Sequence[_Place]) -> None:
    prefix, total = query.name, len(found)
    running.reserve(f"nodes {prefix}", total)
    arrays = running.arrays
    arrays[f"{prefix}_free"][:] = (-1, total)
    arrays[f"{prefix}_ts"][:total] = [one.timestamp for one in found]
    arrays[f"{prefix}_first"][:total] = [one.slots[0][0] for one in found if one.slots[0] is not None]
    for place, type in enumerate(pattern.types):
        name, element = f"{prefix}_p_{place}", pattern.step_of(place)
        if name in arrays:
            attribute = place - pattern.bases[element]
            column = pa.array([one.value(element, attribute) for one in found], ARROW[type])
            arrays[name][:total] = running.numbers(column, type)
            arrays[f"{name}_n"][:total] = column.is_null().to_numpy(zero_copy_only=False)
    for node, one in enumerate(found):
        if pattern.strict:
            arrays[f"{prefix}_new{one.element}"][one.number] = node
        else:
            _link(running, query, pattern, node, one)


def _link(running: Running, query: QueryText, pattern: Matched, node: int, one: _Place) -> None:
    """Put a node into the lists where it belongs."""
    prefix, arrays, kernels, n = query.name, running.arrays, running.compiled.kernels, one.element
    links = arrays[f"{prefix}_before"], arrays[f"{prefix}_next"]
    if not one.waits:
        ends = arrays[f"{prefix}_new{n}"], arrays[f"{prefix}_newest{n}"]
        kernels.insert_by_time(*ends, *links, arrays[f"{prefix}_ts"], one.number, node)
        return
    if pattern.steps[n].waiting is not None:
        # In which order they are is not known: all are looked at until they have gone.
        arrays[f"{prefix}_mixed{n}"][one.number] = 1
    kernels.append(arrays[f"{prefix}_head{n}"], arrays[f"{prefix}_tail{n}"], *links, one.number, node)
    step, bucket = pattern.steps[n], one.number
    if step.key is not None:
        name = f"{prefix}_p_{step.key.earlier}"
        arrays[f"{prefix}_of"][node] = -1
        if arrays[f"{name}_n"][node]:
            return
        words = [one.number] * (query.keyed is not None) + [int(arrays[name][node])]
        table = [arrays[f"{prefix}_x{n}_{part}"] for part in ("slots", "keys", "meta", "after")]
        bucket = int(kernels.find(*table, numpy.array(words, numpy.int64), len(words)))
        arrays[f"{prefix}_of"][node] = bucket
        ends = arrays[f"{prefix}_x{n}_head"], arrays[f"{prefix}_x{n}_tail"]
        kernels.append(*ends, arrays[f"{prefix}_left"], arrays[f"{prefix}_right"], bucket, node)
    if step.bound is not None:
        name, edges = f"{prefix}_p_{step.bound.earlier}", arrays[f"{prefix}_e{n}"]
        value = arrays[name][node]
        if not arrays[f"{name}_n"][node] and (value < edges[bucket] if step.bound.least else value > edges[bucket]):
            edges[bucket] = value


def stored_patterns(running: Running, query: QueryText, count: int) -> list[Any]:
    """Return the states of a pattern: of so many keys of its partition, by number; or one."""
    pattern = query.read
    assert isinstance(pattern, Matched)
    states = [fresh_pattern(pattern) for _ in range(count)]
    opened = running.arrays.get(f"{query.name}_open")
    for number, ((_, rows), places) in enumerate(states):
        places[0][2] = [True, False]
        if opened is None or opened[number]:
            rows.append([-1, False, [None] * len(pattern.steps)])
            places[0][1] = [0]
        for operator, n in enumerate(pattern.absences):
            deadline = int(running.arrays[f"{query.name}_until{n}"][number])
            places[n][2] = _flags(pattern.steps[n], (deadline, stored_dues(running, query, number, operator)))
    for n in range(1, len(pattern.steps)):
        lists = [(1, "new")] if pattern.strict else [(0, "head"), (1, "new")]
        for kind, name in lists:
            for number, rows in enumerate(_rows(running, query, pattern, n, f"{query.name}_{name}{n}", count)):
                (_, table), places = states[number]
                places[n][kind] = list(range(len(table), len(table) + len(rows)))
                table += rows
    return states


def held_events(running: Running, query: QueryText) -> int:
    """Return how many events there are in partial matches, as `spdist.engine.rows.count_rows` counts them."""
    pattern = query.read
    assert isinstance(pattern, Matched)
    held = 0
    for n in range(1, len(pattern.steps)):
        for name in ("new",) if pattern.strict else ("head", "new"):
            heads = f"{query.name}_{name}{n}"
            if heads in running.arrays:
                events = sum(step.waiting is None for step in pattern.steps[:n])
                held += events * len(_nodes(running, query, pattern, heads, len(running.arrays[heads]))[0])
    return held


def _nodes(running: Running, query: QueryText, pattern: Matched, heads: str, count: int) -> tuple[Any, list[int]]:
    """Return the nodes of so many lists, one list after the other, and where each begins and ends."""
    arrays, prefix = running.arrays, query.name
    order = numpy.empty(int(arrays[f"{prefix}_free"][1]), numpy.int64)
    ends = numpy.zeros(count + 1, numpy.int64)
    links = numpy.full(len(arrays[f"{prefix}_next"]), -1) if pattern.strict else arrays[f"{prefix}_next"]
    running.compiled.kernels.walk(arrays[heads], links, count, order, ends)
    return order[: ends[count]], ends.tolist()


def _rows(running: Running, query: QueryText, pattern: Matched, n: int, heads: str, count: int) -> list[list[Any]]:
    """Return the partial matches of lists, one list for each key."""
    arrays, prefix = running.arrays, query.name
    if heads not in arrays:
        return [[] for _ in range(count)]
    nodes, ends = _nodes(running, query, pattern, heads, count)
    events: list[list[_Slot] | list[None]] = [
        _events(running, query, pattern, element, nodes) if step.waiting is None else [None] * len(nodes)
        for element, step in enumerate(pattern.steps[:n])
    ]
    nothing = [None] * (len(pattern.steps) - n)
    times = arrays[f"{prefix}_ts"][nodes].tolist()
    rows = [[time, False, [*slots, *nothing]] for time, *slots in zip(times, *events, strict=True)]
    return [rows[begin:end] for begin, end in pairwise(ends)]


def _events(running: Running, query: QueryText, pattern: Matched, element: int, nodes: Any) -> list[_Slot]:
    """Return the events of an element in partial matches."""
    arrays, prefix = running.arrays, query.name
    begin, end = pattern.bases[element : element + 2]
    types: tuple[Type, ...] = pattern.types
    columns: list[list[Any]] = []
    for place in range(begin, end):
        name = f"{prefix}_p_{place}"
        known = name in arrays
        columns.append(
            running.column(arrays[name][nodes], arrays[f"{name}_n"][nodes], types[place]).to_pylist()
            if known
            else [None] * len(nodes)
        )
    times = arrays[f"{prefix}_ts" if element else f"{prefix}_first"][nodes].tolist()
    return list(zip(times, zip(*columns, strict=True), strict=True))
