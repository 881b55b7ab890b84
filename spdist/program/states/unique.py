"""What windows of a program hold that have one event of each key, as the operators have it, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from spdist.java.objects import bucket_of
from spdist.language.types import Type
from spdist.operators.base import Arrival, Row
from spdist.operators.core.state_columns import column_of, ranges
from spdist.program.parts import QueryText
from spdist.program.running.running import Running
from spdist.program.states.key_words import key_numbers, known_keys, real_key, words_of
from spdist.program.states.nodes import fill_nodes, link_lists, walked
from spdist.program.windows.kinds import EARLIEST, Batched, Found, Kept, Unique

__all__ = ["UniqueState", "list_keys", "load_keys", "load_sent", "load_unique", "stored_unique"]

_REALS = (Type.FLOAT, Type.DOUBLE)
_TIMES = ("begin", "ending", "reached", "awaited", "flushed")
#: So many buckets show all of a hash.
_ALL = 1 << 32


@dataclass(slots=True)
class UniqueState:
    """What a window holds for one key of a partition.

    Parameters
    ----------
    entries : list of (key, (int, tuple))
        The latest event of each key, or the first one; of a batch those of the open one, in the order of their keys. No
        dictionary, as 0.0 and -0.0 are two keys.
    held : list of (int, tuple)
        The events of a window by length or time, oldest first.
    numbers : list of int
        Theirs, in a window by length.
    passed, number : int
        There: behind which number an event of the same key is looked for, and that of the event that came last.
    torn : bool
        There: whether new events are not held.
    before : list of (int, tuple)
        The batch released last.
    before_keys : list
        Its keys, where it may be released again with others.
    capacity : int
        How many buckets Java's table of a batch has.
    full : bool
        Whether the open period was released before its end.
    times : list of int, bool or None
        Of periods: from when they are counted, the end of the open one, the newest time, when their timeout is over,
        and whether it has released the open one.
    latest : int
        The greatest timestamp that a wake-up was asked for.
    due : list of int
        The wake-ups asked for.
    reset_at : int
        The timestamp of the next sign that totals begin anew; any where nobody looks at it.
    copied : tuple, optional
        The event that this sign copies, as far as somebody looks at it.
    counts : list of tuple of int
        How often each key has come, and after how many rounds it came first, where that is counted.
    total : int
        There: how many events have come.
    """

    entries: list[tuple[Any, Arrival]] = field(default_factory=list)
    held: list[Arrival] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    passed: int = 0
    number: int = 0
    torn: bool = False
    before: list[Arrival] = field(default_factory=list)
    before_keys: list[Any] = field(default_factory=list)
    capacity: int = 16
    full: bool = False
    times: list[int | None] = field(default_factory=lambda: [0, None, 0, 0, False])
    latest: int = EARLIEST
    due: list[int] = field(default_factory=list)
    reset_at: int = EARLIEST
    copied: Row | None = None
    counts: list[tuple[int, int]] = field(default_factory=list)
    total: int = 0


def load_unique(running: Running, query: QueryText, window: Kept, numbers: Any, states: Sequence[UniqueState]) -> None:
    """Take over what a window holds for each key of a partition, by number; wake-ups are asked for elsewhere."""
    unique, prefix = window.unique, query.name
    assert unique is not None
    slides, left = not window.lists_keys, "left" in query.read.lists
    events, gone, keys, place, begins, sizes = _events_of(states, slides, bool(window.span))
    owners = numpy.repeat(numbers, numpy.diff([*begins, len(events)]))
    before, released = [event for state in states for event in state.before], [len(state.before) for state in states]
    if not left:
        before, released = [], [0] * len(states)
    first, last = len(events), len(events) + len(before) + len(gone)
    running.reserve(f"nodes {prefix}", last)
    fill_nodes(running, query, 0, column_of(events), owners, slides)
    fill_nodes(running, query, first, column_of(before), numpy.repeat(numbers, released))
    # From the same place on as the batch before: a window has only one of both
    fill_nodes(running, query, first, column_of(gone), numpy.zeros(len(gone), numpy.int64), False)
    own = load_keys(running, query, unique, keys, numpy.repeat(numbers, [len(state.entries) for state in states]))
    arrays = running.arrays
    arrays[f"{prefix}_free"][:] = (-1, last)
    arrays[f"{prefix}_next"][:last] = numpy.arange(1, last + 1)
    if f"{prefix}_before" in arrays:
        arrays[f"{prefix}_before"][:last] = numpy.arange(-1, last - 1)
    if left:
        ends = first + numpy.cumsum(released)
        link_lists(arrays, prefix, "left", numbers, ends - released, numpy.array(released))
    if slides and not (window.length or window.span):
        # Kept for ever, each key has a list of its own, with one event
        link_lists(arrays, prefix, "head", own, place, numpy.ones(len(own), numpy.int64))
    else:
        arrays[f"{prefix}_node"][own] = place
        arrays[f"{prefix}_place"][place[place >= 0]] = own[place >= 0]
        link_lists(arrays, prefix, "head", numbers, numpy.array(begins), numpy.array(sizes))
    if f"{prefix}_held" in arrays:
        nodes = ranges(numpy.array(begins), numpy.array(sizes))
        arrays[f"{prefix}_held"][nodes] = [number for state in states for number in state.numbers]
    _load_counts(running, query, numbers, states)
    if f"{prefix}_hash" in arrays:
        arrays[f"{prefix}_hash"][place] = [bucket_of(key, _ALL) for key in keys]
    counts = [one for state in states for one in state.counts]
    for part, name in enumerate(("many", "rounds")):
        if f"{prefix}_{name}" in arrays:
            arrays[f"{prefix}_{name}"][place] = [one[part] for one in counts]


def _events_of(
    states: Sequence[UniqueState], slides: bool, by_time: bool
) -> tuple[list[Arrival], list[Arrival], list[Any], Any, list[int], list[int]]:
    """Return what nodes are to hold, given whether events leave a window one by one, and by time.

    That are the events, and those that have left; the keys, with the node of each; and of the list of each state the
    first node, and how many it has.
    """
    begins, sizes = list[int](), list[int]()
    events, gone, keys, nodes = list[Arrival](), list[Arrival](), list[Any](), list[int]()
    for state in states:
        begin = len(events)
        events += state.held
        # By their texts, as a row with NaN is not equal to another one of the same values
        known = {repr(event): place for place, event in enumerate(state.held, begin)}
        for key, event in state.entries:
            node = known.get(repr(event)) if known else None
            if node is None and slides and by_time:
                # Its node is one behind those of all that are held.
                node = _gone(len(gone))
                gone.append(event)
            elif node is None:
                node = len(events)
                events.append(event)
            keys.append(key)
            nodes.append(node)
        begins.append(begin)
        sizes.append(len(state.held) if slides else len(events) - begin)
    place = numpy.array(nodes, numpy.int64)
    place[place < 0] -= len(events)
    return events, gone, keys, place, begins, sizes


def load_sent(running: Running, query: QueryText, window: Kept, numbers: Any, states: Sequence[UniqueState]) -> None:
    """Take over the keys of the batch that was released last, where it may be released again; its events are there."""
    assert window.unique is not None
    if not _releases_again(window):
        return
    keys, sizes = [key for state in states for key in state.before_keys], [len(state.before_keys) for state in states]
    found = load_keys(running, query, window.unique, keys, numpy.repeat(numbers, sizes))
    nodes = ranges(running.arrays[f"{query.name}_left"][numbers], numpy.array(sizes))
    running.arrays[f"{query.name}_place"][nodes] = found


def list_keys(running: Running, query: QueryText, window: Kept) -> None:
    """List the keys of each key of a partition, where a join looks for these in the order of a map."""
    own, more, many = (running.arrays.get(f"{query.name}_{name}") for name in ("own", "more", "owned"))
    if own is None or more is None or many is None or window.found is not Found.MAP or window.unique is None:
        return
    numbers, instances, _ = known_keys(running, query, window.unique)
    own[:], many[:] = -1, 0  # that of a window which somebody has looked at is taken over once more
    for number, instance in zip(numbers.tolist(), instances, strict=True):
        more[number], own[instance] = own[instance], number
        many[instance] += 1


def _releases_again(window: Kept) -> bool:
    """Tell whether the batch that was released last may be released again, so that its keys matter."""
    return isinstance(window, Batched) and window.timeout > 0


def _gone(node: Any) -> Any:
    """Return what stands for the nodes of events that have left, or the nodes; see `windows.unique_text.gone`."""
    return -2 - node


def _load_counts(running: Running, query: QueryText, numbers: Any, states: Sequence[UniqueState]) -> None:
    prefix, arrays = query.name, running.arrays
    names = ["capacity", "full", "latest", "reset_at", "total"]
    if f"{prefix}_held" in arrays:
        names += ["passed", "number", "torn"]
        arrays[f"{prefix}_count"][numbers] = [len(state.entries) for state in states]
    for name in names:
        if f"{prefix}_{name}" in arrays:
            arrays[f"{prefix}_{name}"][numbers] = [getattr(state, name) for state in states]
    if f"{prefix}_came" in arrays:
        arrays[f"{prefix}_came"][numbers] = [state.copied is not None for state in states]
    is_open = [place for place, state in enumerate(states) if state.times[1] is not None]
    for n, name in enumerate(_TIMES):
        if f"{prefix}_{name}" in arrays:
            arrays[f"{prefix}_{name}"][numbers[is_open]] = [states[place].times[n] for place in is_open]


def load_keys(running: Running, query: QueryText, unique: Unique, keys: Sequence[Any], instances: Any) -> Any:
    """Give keys their numbers, each of a key of the partition, and return those."""
    table = f"{query.name}_u"
    running.reserve(f"groups {table}", len(keys))
    type = Type.DOUBLE if unique.type in _REALS else unique.type
    values = [_value(key, type) for key in keys] if unique.as_text and type is not Type.STRING else list(keys)
    found, nulls = running.values.taken(values, type)
    words = [words_of(found, nulls, type), nulls.astype(numpy.int64)]
    if query.keyed is not None:
        words.insert(0, numpy.asarray(instances, numpy.int64))
    return key_numbers(running, f"{table}_k", numpy.stack(words, axis=1))


def _value(key: str, type: Type) -> Any:
    """Return the value that Java writes so."""
    if key == "null":
        return None
    return key == "true" if type is Type.BOOL else real_key(key) if type is Type.DOUBLE else int(key)


def stored_unique(
    running: Running, query: QueryText, window: Kept, count: int, rows: Callable[[Any], list[Arrival]]
) -> list[UniqueState]:
    """Return what a window holds for so many keys of a partition, given what reads events from nodes."""
    prefix, arrays, unique = query.name, running.arrays, window.unique
    assert unique is not None
    found = [UniqueState() for _ in range(count)]
    forever = not (window.lists_keys or window.length or window.span)
    for name in () if forever else query.read.lists:
        for state, nodes in zip(found, _listed(running, query, f"{prefix}_{name}", count), strict=True):
            if name == "left":
                state.before = rows(nodes)
            elif not window.lists_keys:
                state.held = rows(nodes)
                state.numbers = arrays[f"{prefix}_held"][nodes].tolist() if window.length else []
    numbers, instances, keys = known_keys(running, query, unique)
    nodes = arrays[f"{prefix}_head" if forever else f"{prefix}_node"][numbers]
    # Those of a batch, or counted, are in the order in which they came: a node that is free again is used first.
    order = list(range(len(numbers)))
    if window.lists_keys:
        names = dict(zip(numbers.tolist(), keys, strict=True))
        for state, sent in zip(found, _sent(running, query, window, count), strict=True):
            state.before_keys = [names[number] for number in sent]
        # Keys of which only the batch before has an event are in the table, but not in the open batch
        order = [place for place in order if nodes[place] >= 0]
        came = [node for listed in _listed(running, query, f"{prefix}_head", count) for node in listed.tolist()]
        ranks = {node: rank for rank, node in enumerate(came)}
        order.sort(key=lambda place: ranks[int(nodes[place])])
    # `_gone` gives the node of one that has left, and of one that is there less than 0; 0 stands for none
    events = rows(numpy.maximum(numpy.maximum(nodes, _gone(nodes)), 0))
    nothing = (EARLIEST, (None,) * len(query.read.types))
    for place in order:
        found[instances[place]].entries.append((keys[place], nothing if nodes[place] == -1 else events[place]))
        if f"{prefix}_many" in arrays:
            many, rounds = (arrays.get(f"{prefix}_{name}") for name in ("many", "rounds"))
            noted = [0 if one is None else int(one[nodes[place]]) for one in (many, rounds)]
            found[instances[place]].counts.append((noted[0], noted[1]))
    for number, state in enumerate(found):
        _store_counts(running, query, number, state)
    return found


def _sent(running: Running, query: QueryText, window: Kept, count: int) -> list[list[int]]:
    """Return the numbers of the keys of the batch that was released last, where it may be released again."""
    if not _releases_again(window):
        return [[]] * count
    places = running.arrays[f"{query.name}_place"]
    return [places[nodes].tolist() for nodes in _listed(running, query, f"{query.name}_left", count)]


def _store_counts(running: Running, query: QueryText, number: int, state: UniqueState) -> None:
    prefix, arrays = query.name, running.arrays

    def value(name: str, missing: int) -> int:
        return int(arrays[f"{prefix}_{name}"][number]) if f"{prefix}_{name}" in arrays else missing

    if f"{prefix}_held" in arrays:
        state.passed, state.number, state.torn = value("passed", 0), value("number", 0), bool(value("torn", 0))
    state.capacity, state.full, state.latest = value("capacity", 16), bool(value("full", 0)), value("latest", EARLIEST)
    state.reset_at, state.total = value("reset_at", 0), value("total", 0)
    begin, ending, reached, awaited, flushed = (value(name, 0) for name in _TIMES)
    if f"{prefix}_ending" in arrays and ending != EARLIEST:
        state.times = [begin, ending, reached, awaited, flushed != 0]


def _listed(running: Running, query: QueryText, name: str, count: int) -> list[Any]:
    """Return the nodes of the lists of so many keys."""
    arrays = running.arrays
    lengths, order = walked(running, arrays[name][:count], arrays[f"{query.name}_next"])
    return numpy.split(order, numpy.cumsum(lengths))[:-1]
