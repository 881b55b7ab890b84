"""The partial matches of a program as those of the operators, and back.

The state is what `spdist.operators.patterns.pattern.Automaton.snapshot` returns: all partial matches, and for each
element which of them wait there, which have arrived, and its flags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from spdist.operators.core.state_columns import Column, ListColumn, NumberColumn, StructColumn, nothing
from spdist.program.parts import QueryText
from spdist.program.patterns.shape import Matched, Step
from spdist.program.running.running import Running
from spdist.program.states.dues import load_dues, stored_dues
from spdist.program.states.nodes import walked
from spdist.program.states.partials import PlacedMatch, StoredMatches, constants, load_nodes
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


def load_pattern(running: Running, query: QueryText, states: Sequence[tuple[int, Any]]) -> None:
    """Take over the partial matches: of each key of the partition, by number; or of the app, of number 0.

    Raises
    ------
    ValueError
        The state is one that a program has no form for: a result is left over from an event that failed.
    """
    pattern = query.read
    assert isinstance(pattern, Matched)
    if pattern.states is not None:
        load_cells(running, query, states)
        return
    found: list[PlacedMatch] = []
    linked: list[tuple[int, int, bool]] = []
    for number, ((lists, rows), places) in states:
        waiting, arrived, flags = places[0]
        began, left = flags[:2]
        # In front only one side of a pair looks for results; those of the other one stay, and nobody shows them.
        told = [flags[1] for slot, (*_, flags) in enumerate(places) if slot != 1 or len(pattern.starts) == 1]
        if left or any(told):
            raise ValueError("a result is left over from an event that failed")
        # A sequence under `every` makes its first attempt anew with each event.
        anew = not began or (pattern.strict and pattern.repeated > 0)
        waits_first = 0 not in pattern.listed and bool(waiting or arrived)
        running.arrays[f"{query.name}_open"][number] = waits_first or anew
        for operator, n in enumerate(pattern.absences):
            *_, deadline, due = places[n][2]
            running.arrays[f"{query.name}_until{n}"][number] = deadline
            load_dues(running, query, number, due, operator)
        nodes: dict[int, int] = {}
        for n in pattern.listed:
            waiting, arrived, _ = places[pattern.steps[n].slot]
            for waits, those in ((True, () if pattern.strict else waiting), (False, arrived)):
                for place in those:
                    if place not in nodes:
                        nodes[place] = len(found)
                        found.append(PlacedMatch(number, lists, *rows[place]))
                    found[nodes[place]].places += 1
                    linked.append((nodes[place], n, waits))
    if found:
        load_nodes(running, query, pattern, found)
        for node, n, waits in linked:
            _link(running, query, pattern, node, found[node], n, waits)


def _link(
    running: Running, query: QueryText, pattern: Matched, node: int, one: PlacedMatch, n: int, waits: bool
) -> None:
    """Put a node into the lists of an element where it belongs."""
    prefix, arrays, kernels = query.name, running.arrays, running.compiled.kernels
    # Where a match may wait at several elements, each of them has links of its own
    number = n if pattern.shares else ""
    if pattern.strict:
        arrays[f"{prefix}_new{n}"][one.number] = node
        return
    if pattern.steps[n].lingers:
        slot, partner = pattern.steps[n].slot, pattern.steps[n].partner
        others = one.slots[slot + 1 : slot + 3] if partner is None else [one.slots[pattern.steps[partner].slot]]
        over = any(held is not None for held in others)
        arrays[f"{prefix}_in{n}"][node] = 1 + over
        if over:
            ends = [arrays[f"{prefix}_over{n}_{name}"] for name in ("first", "last", "before", "next")]
            kernels.append(*ends, one.number, node)
    links = arrays[f"{prefix}_before{number}"], arrays[f"{prefix}_next{number}"]
    if not waits:
        ends = [arrays[f"{prefix}_new{n}"], arrays[f"{prefix}_newest{n}"]]
        if pattern.shares:
            kernels.append(*ends, *links, one.number, node)
        else:
            kernels.insert_by_time(*ends, *links, arrays[f"{prefix}_ts"], one.number, node)
        return
    if pattern.steps[n].waiting is not None and not pattern.shares:
        # In which order they are is not known: all are looked at until they have gone.
        arrays[f"{prefix}_mixed{n}"][one.number] = 1
    kernels.append(arrays[f"{prefix}_head{n}"], arrays[f"{prefix}_tail{n}"], *links, one.number, node)
    step, bucket = pattern.steps[n], one.number
    if step.key is not None:
        name = f"{prefix}_p_{step.key.earlier}"
        arrays[f"{prefix}_of{number}"][node] = -1
        if arrays[f"{name}_n"][node]:
            return
        words = [one.number] * (query.keyed is not None) + [int(arrays[name][node])]
        table = [arrays[f"{prefix}_x{n}_{part}"] for part in ("slots", "keys", "meta", "after")]
        bucket = int(running.compiled.hash_tables.find(*table, numpy.array(words, numpy.int64), len(words)))
        arrays[f"{prefix}_of{number}"][node] = bucket
        ends = [arrays[f"{prefix}_x{n}_head"], arrays[f"{prefix}_x{n}_tail"]]
        kernels.append(*ends, arrays[f"{prefix}_left{number}"], arrays[f"{prefix}_right{number}"], bucket, node)
    if step.bound is not None:
        name, edges = f"{prefix}_p_{step.bound.earlier}", arrays[f"{prefix}_e{n}"]
        value = arrays[name][node]
        if not arrays[f"{name}_n"][node] and (value < edges[bucket] if step.bound.least else value > edges[bucket]):
            edges[bucket] = value


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
    assert isinstance(places, ListColumn)
    lengths = numpy.array(places.lengths.values(), numpy.int64)
    begins = (numpy.cumsum(lengths) - lengths)[waits]
    held = numpy.insert(numpy.array(places.held.values(), numpy.int64), begins, 0)
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
