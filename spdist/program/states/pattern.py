"""The partial matches of a program as those of the operators, and back.

The state is what `spdist.operators.patterns.pattern.Automaton.snapshot` returns: all partial matches, and for each
element which of them wait there, which have arrived, and its flags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from spdist.operators.core.state_columns import (
    Column,
    ListColumn,
    NumberColumn,
    StructColumn,
    nothing,
    numbers_of,
)
from spdist.program.parts import QueryText
from spdist.program.patterns.shape import Matched, Step
from spdist.program.running.running import Running
from spdist.program.states.dues import load_dues, stored_dues
from spdist.program.states.key_words import key_numbers
from spdist.program.states.nodes import walked
from spdist.program.states.partials import LoadedMatches, StoredMatches, constants
from spdist.program.states.pattern_cells import fresh_cells, load_cells, stored_cells

__all__ = ["fresh_pattern", "held_events", "load_pattern", "stored_patterns"]


def fresh_pattern(pattern: Matched) -> Any:
    """Return the state of a pattern that has seen nothing and has not begun."""
    if pattern.states is not None:
        return fresh_cells(pattern)
    return [[[], []], [[[], [], _flags(pattern.steps[n], (0, []))] for n in pattern.order]]


def _flags(step: Step, waits: tuple[int, list[int]]) -> list[Any]:
    """Return what an element behind the first one remembers; an absence also until when, and the wake-ups."""
    absent = step.absent or step.waiting is not None
    return [False, False, *([False] if step.counted else [True, True, *waits] if absent else [])]


def load_pattern(running: Running, query: QueryText, numbers: Any, states: Column) -> None:
    """Take over the partial matches: of each key of the partition, by number; or of the app, of number 0.

    Raises
    ------
    ValueError
        The state is one that a program has no form for: a result is left over from an event that failed.
    """
    pattern = query.read
    assert isinstance(pattern, Matched)
    if pattern.states is not None:
        load_cells(running, query, numbers, states)
        return
    matches, elements = states.parts(2)
    of_slots = [element.parts(3) for element in elements.parts(int(elements.sizes()[0]))]
    _load_flags(running, query, pattern, numbers, of_slots)
    found = LoadedMatches(running, query, numbers, matches)
    listed = []
    for n in pattern.listed:
        waiting, arrived, _ = of_slots[pattern.steps[n].slot]
        listed += [(n, True, found.waiting(waiting))] * (not pattern.strict) + [(n, False, found.waiting(arrived))]
    if found.load():
        for n, waits, those in listed:
            _link(running, query, pattern, found, n, waits, *found.nodes(those))


def _load_flags(
    running: Running, query: QueryText, pattern: Matched, numbers: Any, of_slots: Sequence[Sequence[Column]]
) -> None:
    """Take over which keys wait for a first event, until when absences wait, and their wake-ups."""
    arrays, prefix = running.arrays, query.name
    flags = [own.parts(int(own.sizes()[0])) for *_, own in of_slots]
    # In front only one side of a pair looks for results; those of the other one stay, and nobody shows them.
    told = [own[1] for slot, own in enumerate(flags) if slot != 1 or len(pattern.starts) == 1]
    if any(numbers_of(one)[0].any() for one in told):
        raise ValueError("a result is left over from an event that failed")
    began, _ = numbers_of(flags[0][0])
    waiting, arrived, _ = of_slots[0]
    # A sequence under `every` makes its first attempt anew with each event.
    anew = numpy.ones(len(numbers), bool) if pattern.strict and pattern.repeated > 0 else began == 0
    if 0 not in pattern.listed:
        anew = anew | (waiting.sizes() > 0) | (arrived.sizes() > 0)
    arrays[f"{prefix}_open"][numbers] = anew
    for operator, n in enumerate(pattern.absences):
        *_, deadlines, dues = flags[n]
        arrays[f"{prefix}_until{n}"][numbers] = numbers_of(deadlines)[0]
        load_dues(running, query, numbers, dues, operator)


def _link(
    running: Running,
    query: QueryText,
    pattern: Matched,
    found: LoadedMatches,
    n: int,
    waits: bool,
    nodes: Any,
    owners: Any,
) -> None:
    """Put nodes into the lists of an element where they belong, in their order; each in that of its key."""
    prefix, arrays, kernels, step = query.name, running.arrays, running.compiled.kernels, pattern.steps[n]
    # Where a match may wait at several elements, each of them has links of its own
    number = n if pattern.shares else ""
    if pattern.strict:
        arrays[f"{prefix}_new{n}"][owners] = nodes
        return
    if step.lingers:
        behind = range(step.slot + 1, min(step.slot + 3, len(pattern.order)))
        others = behind if step.partner is None else [pattern.steps[step.partner].slot]
        over = numpy.zeros(len(nodes), bool)
        for slot in others:
            over |= found.came(slot)[nodes]
        arrays[f"{prefix}_in{n}"][nodes] = 1 + over
        ends = [arrays[f"{prefix}_over{n}_{name}"] for name in ("first", "last", "before", "next")]
        kernels.all_appended(*ends, owners[over], nodes[over])
    links = arrays[f"{prefix}_before{number}"], arrays[f"{prefix}_next{number}"]
    if not waits:
        ends = [arrays[f"{prefix}_new{n}"], arrays[f"{prefix}_newest{n}"]]
        if pattern.shares:
            kernels.all_appended(*ends, *links, owners, nodes)
        else:
            kernels.all_inserted_by_time(*ends, *links, arrays[f"{prefix}_ts"], owners, nodes)
        return
    if step.waiting is not None and not pattern.shares:
        # In which order they are is not known: all are looked at until they have gone.
        arrays[f"{prefix}_mixed{n}"][owners] = 1
    kernels.all_appended(arrays[f"{prefix}_head{n}"], arrays[f"{prefix}_tail{n}"], *links, owners, nodes)
    if step.key is not None:
        nodes, owners = _link_by_key(running, query, n, number, step.key.earlier, nodes, owners)
    if step.bound is not None:
        name = f"{prefix}_p_{step.bound.earlier}"
        values = arrays[name][nodes]
        # No NaN is an edge, as nothing is less or more
        known = (arrays[f"{name}_n"][nodes] == 0) & (values == values)
        edge = numpy.minimum if step.bound.least else numpy.maximum
        edge.at(arrays[f"{prefix}_e{n}"], owners[known], values[known])


def _link_by_key(
    running: Running, query: QueryText, n: int, number: int | str, earlier: int, nodes: Any, owners: Any
) -> tuple[Any, Any]:
    """Put nodes into the lists of those with one value; return these nodes, and the lists. Null is in none."""
    prefix, arrays = query.name, running.arrays
    arrays[f"{prefix}_of{number}"][nodes] = -1
    known = arrays[f"{prefix}_p_{earlier}_n"][nodes] == 0
    nodes, owners = nodes[known], owners[known]
    words = [owners] * (query.keyed is not None) + [arrays[f"{prefix}_p_{earlier}"][nodes].astype(numpy.int64)]
    buckets = key_numbers(running, f"{prefix}_x{n}", numpy.stack(words, axis=1))
    arrays[f"{prefix}_of{number}"][nodes] = buckets
    ends = arrays[f"{prefix}_x{n}_head"], arrays[f"{prefix}_x{n}_tail"]
    links = arrays[f"{prefix}_left{number}"], arrays[f"{prefix}_right{number}"]
    running.compiled.kernels.all_appended(*ends, *links, buckets, nodes)
    return nodes, buckets


def stored_patterns(running: Running, query: QueryText, count: int) -> Column:
    """Return the states of a pattern: of so many keys of its partition, by number; or one."""
    pattern, arrays = query.read, running.arrays
    assert isinstance(pattern, Matched)
    if pattern.states is not None:
        return stored_cells(running, query, count)
    opened = arrays.get(f"{query.name}_open")
    # The operators' empty match, which waits for a first event: a program has no node for it
    waits = numpy.ones(count, bool) if opened is None else opened[:count] != 0
    matches = StoredMatches(running, query, waits)
    listed: dict[tuple[int, int], ListColumn] = {}
    for n in pattern.listed:
        for kind, name in _kinds(pattern):
            found = matches.places(n, *_nodes(running, query, pattern, n, name, count))
            listed[pattern.steps[n].slot, kind] = found
    slots = []
    for slot, n in enumerate(pattern.order):
        waiting, arrived = (listed.get((slot, kind), nothing(count)) for kind in (0, 1))
        flags = constants(_flags(pattern.steps[n], (0, [])), count)
        if slot < len(pattern.starts):
            flags[0], arrived = NumberColumn(numpy.ones(count, bool)), _behind_empty(waits, arrived)
        if slot in pattern.absences:
            deadlines = NumberColumn(arrays[f"{query.name}_until{slot}"][:count])
            flags = constants(_flags(pattern.steps[slot], (0, [])), count)
            flags[-2:] = deadlines, stored_dues(running, query, count, pattern.absences.index(slot))
        slots.append(StructColumn(list, [waiting, arrived, StructColumn(list, flags)]))
    return StructColumn(list, [matches.columns(), StructColumn(list, slots)])


def _behind_empty(waits: Any, places: Column) -> ListColumn:
    """Return where matches are, with the empty match, which is the first of its key, in front of those of some keys."""
    lengths = places.sizes()
    begins = (numpy.cumsum(lengths) - lengths)[waits]
    held = numpy.insert(numbers_of(places.items_held())[0], begins, 0)
    return ListColumn(list, NumberColumn(lengths + waits), NumberColumn(held))


def _kinds(pattern: Matched) -> list[tuple[int, str]]:
    """Return the lists of an element, each with its place in the state."""
    return [(1, "new")] if pattern.strict else [(0, "head"), (1, "new")]


def held_events(running: Running, query: QueryText) -> int:
    """Return how many events there are in partial matches, as `spdist.engine.local.rows.count_rows` counts them."""
    pattern = query.read
    assert isinstance(pattern, Matched)
    held, seen = 0, set[int]()
    for n in pattern.listed if pattern.states is None else ():
        for _, name in _kinds(pattern):
            heads = running.arrays.get(f"{query.name}_{name}{n}")
            if heads is None:
                continue
            _, nodes = _nodes(running, query, pattern, n, name, len(heads))
            if not pattern.shares:
                held += sum(step.waiting is None for step in pattern.steps[:n]) * len(nodes)
            seen |= set(nodes.tolist()) if pattern.shares else set()
    nodes = numpy.array(sorted(seen), numpy.int64)
    if pattern.states is not None:
        nodes = numpy.flatnonzero(running.arrays[f"{query.name}_refs"][: int(running.arrays[f"{query.name}_free"][1])])
    for n, step in enumerate(pattern.steps if pattern.shares else ()):
        if step.counted:
            held += int(running.arrays[f"{query.name}_count{n}"][nodes].sum())
        else:
            held += int((running.arrays[f"{query.name}_bits"][nodes] >> step.slot & 1).sum())
    return held


def _nodes(running: Running, query: QueryText, pattern: Matched, n: int, name: str, count: int) -> tuple[Any, Any]:
    """Return how many nodes so many lists of an element have, and the nodes, one list after the other."""
    arrays, prefix = running.arrays, query.name
    heads = arrays.get(f"{prefix}_{name}{n}")
    if heads is None:
        return numpy.zeros(count, numpy.int64), numpy.zeros(0, numpy.int64)
    following = f"{prefix}_next{n if pattern.shares else ''}"
    # Of a sequence one match waits at an element, so its lists have no links
    links = numpy.full(len(arrays[f"{prefix}_next"]), -1) if pattern.strict else arrays[following]
    return walked(running, heads[:count], links)
