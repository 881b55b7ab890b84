"""What windows of a program hold that have one event of each key, as the operators have it, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy

from spdist.java.objects import bucket_of
from spdist.language.types import Type
from spdist.operators.core.state_columns import (
    Column,
    ListColumn,
    NumberColumn,
    TextColumn,
    ValueColumn,
    nothing,
    numbers_of,
    ranges,
)
from spdist.program.parts import QueryText
from spdist.program.running.running import Running
from spdist.program.states.key_words import (
    key_numbers,
    key_owners,
    known_keys,
    real_key,
    real_words,
    spread_hashes,
    words_of,
    words_of_keys,
)
from spdist.program.states.nodes import events_of_nodes, fill_nodes, link_lists, runs, walked
from spdist.program.states.window import note_numbers
from spdist.program.windows.kinds import EARLIEST, Batched, Found, Kept, Unique

__all__ = ["UniqueState", "list_keys", "load_keys", "load_sent", "load_unique", "stored_unique"]

_REALS = (Type.FLOAT, Type.DOUBLE)
#: What there is one number of for each key of a partition, and what that is where a program has none.
_NOTED = {
    "passed": 0, "number": 0, "torn": 0, "capacity": 16, "full": 0, "latest": EARLIEST, "reset_at": 0, "total": 0,
}  # fmt: skip
#: What is counted of each key.
_COUNTS = "many", "rounds"
#: So many buckets show all of a hash.
_ALL = 1 << 32


@dataclass(frozen=True, slots=True)
class UniqueState:
    """What a window holds for so many keys of a partition.

    Parameters
    ----------
    sizes : numpy.ndarray
        How many keys each of them has that there is one event of.
    keys, events : Column
        These keys of all of them, and the latest event of each, or the first one: (int, tuple); of a batch those of the
        open one, in the order of their keys. No dictionaries, as 0.0 and -0.0 are two keys.
    held : Column
        The events of a window by length or time, a list of each, oldest first.
    numbers : Column, optional
        Theirs, in a window by length.
    before : Column
        The batch released last, a list of each.
    before_keys : Column, optional
        Its keys, where it may be released again with others.
    noted : mapping of str to Column
        What there is one number of, null where the first one stays: in a window by length behind
        which number an event of the same key is looked for (``passed``), that of the event that came last
        (``number``), and whether new events are not held (``torn``); how many buckets Java's table of a batch has
        (``capacity``); whether the open period was released before its end (``full``); the greatest timestamp that a
        wake-up was asked for (``latest``); the timestamp of the next sign that totals begin anew, any where nobody
        looks at it (``reset_at``); how many events have come, where that is counted (``total``); and the times of open
        periods (`spdist.program.windows.external.open_times`).
    copied : Column, optional
        The event that this sign copies, as far as somebody looks at it; null where there is none.
    dues : Column, optional
        The wake-ups asked for.
    counts : sequence of Column
        How often each key has come, and after how many rounds it came first, as far as that is counted.
    """

    sizes: Any
    keys: Column
    events: Column
    held: ListColumn
    before: ListColumn
    numbers: Column | None = None
    before_keys: Column | None = None
    noted: Mapping[str, Column] = field(default_factory=dict)
    copied: Column | None = None
    dues: Column | None = None
    counts: tuple[Column, ...] = ()

    def number(self, name: str) -> Column:
        """Return one number of each key of the partition."""
        found = self.noted.get(name)
        return NumberColumn(numpy.full(len(self.sizes), _NOTED[name])) if found is None else found


def load_unique(running: Running, query: QueryText, window: Kept, numbers: Any, state: UniqueState) -> None:
    """Take over what a window holds for each key of a partition, by number; wake-ups are asked for elsewhere."""
    unique, prefix = window.unique, query.name
    assert unique is not None
    slides, left = not window.lists_keys, "left" in query.read.lists
    held, owners, sizes = state.held.items_held(), numpy.repeat(numbers, state.sizes), state.held.sizes()
    before = state.before if left else nothing(len(numbers))
    place = _places(held, numpy.repeat(numbers, sizes), state.events, owners)
    # Those that are held by their key only have nodes of their own, behind those of the others
    alone = numpy.flatnonzero(place < 0)
    first, released = len(held) + len(alone), before.sizes()
    last = first + int(released.sum())
    running.reserve(f"nodes {prefix}", last)
    fill_nodes(running, query, 0, held, numpy.repeat(numbers, sizes), slides)
    # Where events leave by time, those that are not held have left
    fill_nodes(running, query, len(held), state.events.at(alone), owners[alone], slides and not window.span)
    fill_nodes(running, query, first, before.items_held(), numpy.repeat(numbers, released))
    place[alone] = len(held) + numpy.arange(len(alone))
    if slides and window.span:
        place[alone] = _gone(place[alone])
    own, arrays = load_keys(running, query, unique, state.keys, owners), running.arrays
    arrays[f"{prefix}_free"][:] = (-1, last)
    arrays[f"{prefix}_next"][:last] = numpy.arange(1, last + 1)
    if f"{prefix}_before" in arrays:
        arrays[f"{prefix}_before"][:last] = numpy.arange(-1, last - 1)
    if left:
        link_lists(arrays, prefix, "left", numbers, first + numpy.cumsum(released) - released, released)
    if slides and not (window.length or window.span):
        # Kept for ever, each key has a list of its own, with one event
        link_lists(arrays, prefix, "head", own, place, numpy.ones(len(own), numpy.int64))
    else:
        arrays[f"{prefix}_node"][own] = place
        arrays[f"{prefix}_place"][place[place >= 0]] = own[place >= 0]
        listed = sizes if slides else state.sizes
        link_lists(arrays, prefix, "head", numbers, numpy.cumsum(listed) - listed, listed)
    if state.numbers is not None and f"{prefix}_held" in arrays:
        arrays[f"{prefix}_held"][: len(held)] = numbers_of(state.numbers)[0]
    if f"{prefix}_hash" in arrays:
        arrays[f"{prefix}_hash"][place] = _hashes(running, query, unique, own, state.keys)
    for name, counted in zip(_COUNTS, state.counts, strict=False):
        if f"{prefix}_{name}" in arrays:
            arrays[f"{prefix}_{name}"][place] = numbers_of(counted)[0]
    _load_noted(running, query, numbers, state)


def _hashes(running: Running, query: QueryText, unique: Unique, own: Any, keys: Column) -> Any:
    """Return the spread hash codes of keys, given their numbers, too."""
    if unique.type is Type.STRING:
        texts, nulls = words_of_keys(running, f"{query.name}_u_k", own)[:, -2:].T
        return spread_hashes(running, numpy.ascontiguousarray(texts), nulls)
    return [bucket_of(key, _ALL) for key in keys.values()]


def _load_noted(running: Running, query: QueryText, numbers: Any, state: UniqueState) -> None:
    """Take over what there is one number of for each key of the partition."""
    for name, noted in state.noted.items():
        note_numbers(running, query, name, numbers, noted)
    if f"{query.name}_held" in running.arrays:
        note_numbers(running, query, "count", numbers, NumberColumn(state.sizes))
    if state.copied is not None:
        note_numbers(running, query, "came", numbers, NumberColumn(state.copied.known()))


def _places(held: Column, owners: Any, events: Column, own: Any) -> Any:
    """Return where each of some events stands among those that are held; -1 where it does not.

    Parameters
    ----------
    held, events : Column
        Events: (int, tuple).
    owners, own : numpy.ndarray
        Of each of both the number of its key of the partition.
    """
    place = numpy.full(len(events), -1)
    if not len(held) or not len(events):
        return place
    codes = numpy.concatenate([owners, own])
    (times, rows), (others, other_rows) = held.parts(2), events.parts(2)
    width = int(rows.sizes()[0])
    for pair in [(times, others), *zip(rows.parts(width), other_rows.parts(width), strict=True)]:
        for words in _words(*pair):
            # Numbers of what is alike so far: fewer than there are events, so that their product is a long
            codes = numpy.unique(codes, return_inverse=True)[1] * (len(codes) + 1)
            codes += numpy.unique(words, return_inverse=True)[1]
    codes = numpy.unique(codes, return_inverse=True)[1]
    last = numpy.full(len(codes), -1)
    # Of equal ones the last
    last[codes[: len(held)]] = numpy.arange(len(held))
    return last[codes[len(held) :]]


def _words(first: Column, second: Column) -> Iterable[Any]:
    """Yield words of the values of two columns, one behind the other, which are equal where the values are."""
    if isinstance(first, TextColumn) and isinstance(second, TextColumn):
        known = {text: number for number, text in enumerate(dict.fromkeys([*first.texts, *second.texts]))}
        # Null, which is number -1 of both, stands behind their texts
        yield numpy.concatenate([numpy.array([*map(known.get, one.texts), -1])[one.numbers] for one in (first, second)])
        return
    both = isinstance(first, NumberColumn) and isinstance(second, NumberColumn)
    if both and first.array.dtype.kind == second.array.dtype.kind:  # type: ignore[attr-defined]
        (values, _), (others, _) = numbers_of(first), numbers_of(second)
        values, missing = numpy.append(values, others), ~numpy.append(first.known(), second.known())
        # By their bits, as NaN is one value, and 0.0 another one than -0.0
        yield numpy.where(missing, 0, real_words(values) if values.dtype.kind == "f" else values)
        if missing.any():
            yield missing
        return
    # By what they are written as, as a row with NaN is not equal to another one of the same values
    written = list(map(repr, chain(first.values(), second.values())))
    known = {text: number for number, text in enumerate(dict.fromkeys(written))}
    if len(known) > 1:
        yield numpy.array(list(map(known.__getitem__, written)))


def load_sent(running: Running, query: QueryText, window: Kept, numbers: Any, state: UniqueState) -> None:
    """Take over the keys of the batch that was released last, where it may be released again; its events are there."""
    assert window.unique is not None
    if not _releases_again(window) or state.before_keys is None:
        return
    sizes = state.before.sizes()
    found = load_keys(running, query, window.unique, state.before_keys, numpy.repeat(numbers, sizes))
    nodes = ranges(running.arrays[f"{query.name}_left"][numbers], sizes)
    running.arrays[f"{query.name}_place"][nodes] = found


def list_keys(running: Running, query: QueryText, window: Kept) -> None:
    """List the keys of each key of a partition, where a join looks for these in the order of a map."""
    own, more, many = (running.arrays.get(f"{query.name}_{name}") for name in ("own", "more", "owned"))
    if own is None or more is None or many is None or window.found is not Found.MAP or window.unique is None:
        return
    numbers, instances = key_owners(running, query, f"{query.name}_u_k")
    own[:], many[:] = -1, 0  # that of a window which somebody has looked at is taken over once more
    order, begins, ends, _ = runs(instances)
    listed, those = numbers[order], instances[order]
    # The key that came last is the first of the list
    more[listed] = numpy.where(begins, -1, numpy.append(-1, listed[:-1])[: len(listed)])
    own[those[ends]] = listed[ends]
    many[:] = numpy.bincount(instances, minlength=len(many))


def _releases_again(window: Kept) -> bool:
    """Tell whether the batch that was released last may be released again, so that its keys matter."""
    return isinstance(window, Batched) and window.timeout > 0


def _gone(node: Any) -> Any:
    """Return what stands for the nodes of events that have left, or the nodes; see `windows.unique_text.gone`."""
    return -2 - node


def load_keys(running: Running, query: QueryText, unique: Unique, keys: Column, instances: Any) -> Any:
    """Give keys their numbers, each of a key of the partition, and return those."""
    table = f"{query.name}_u"
    running.reserve(f"groups {table}", len(keys))
    type = Type.DOUBLE if unique.type in _REALS else unique.type
    if unique.as_text and type is not Type.STRING:
        keys = ValueColumn([_value(key, type) for key in keys.values()])
    found, nulls = running.values.loaded(keys, type)
    words = [words_of(found, nulls, type), nulls.astype(numpy.int64)]
    if query.keyed is not None:
        words.insert(0, numpy.asarray(instances, numpy.int64))
    return key_numbers(running, f"{table}_k", numpy.stack(words, axis=1))


def _value(key: str, type: Type) -> Any:
    """Return the value that Java writes so."""
    if key == "null":
        return None
    return key == "true" if type is Type.BOOL else real_key(key) if type is Type.DOUBLE else int(key)


def stored_unique(running: Running, query: QueryText, window: Kept, count: int) -> UniqueState:
    """Return what a window holds for so many keys of a partition, all but its periods."""
    prefix, arrays, unique = query.name, running.arrays, window.unique
    assert unique is not None
    forever = not (window.lists_keys or window.length or window.span)
    held, before, numbers, before_keys = nothing(count), nothing(count), None, None
    if "left" in query.read.lists:
        before, order = _listed(running, query, "left", count)
        if _releases_again(window):
            before_keys = known_keys(running, query, unique, arrays[f"{prefix}_place"][order])
    if not (window.lists_keys or forever):
        held, order = _listed(running, query, "head", count)
        numbers = NumberColumn(arrays[f"{prefix}_held"][order]) if window.length else None
    own, instances = key_owners(running, query, f"{prefix}_u_k")
    nodes = arrays[f"{prefix}_head" if forever else f"{prefix}_node"][own]
    if window.lists_keys:
        # Those of a batch, or counted, are in the order in which they came: a node that is free again is used first.
        # Keys of which only the batch before has an event are in the table, but not in the open batch.
        number_of = numpy.full(len(arrays[f"{prefix}_next"]), -1)
        number_of[nodes[nodes >= 0]] = own[nodes >= 0]
        sizes, nodes = walked(running, arrays[f"{prefix}_head"][:count], arrays[f"{prefix}_next"])
        own = number_of[nodes]
    else:
        order = numpy.argsort(instances, kind="stable")
        own, nodes, sizes = own[order], nodes[order], numpy.bincount(instances, minlength=count)
    # `_gone` gives the node of one that has left, and of one that is there less than 0; -1 stands for none
    events = events_of_nodes(running, query, numpy.maximum(nodes, _gone(nodes)))
    return UniqueState(
        sizes,
        known_keys(running, query, unique, own),
        events,
        held,
        before,
        numbers,
        before_keys,
        {name: NumberColumn(arrays[f"{prefix}_{name}"][:count]) for name in _NOTED if f"{prefix}_{name}" in arrays},
        counts=tuple(
            NumberColumn(arrays[f"{prefix}_{name}"][nodes]) for name in _COUNTS if f"{prefix}_{name}" in arrays
        ),
    )


def _listed(running: Running, query: QueryText, name: str, count: int) -> tuple[ListColumn, Any]:
    """Return the events of the lists of so many keys, and their nodes."""
    arrays, prefix = running.arrays, query.name
    lengths, order = walked(running, arrays[f"{prefix}_{name}"][:count], arrays[f"{prefix}_next"])
    return ListColumn(list, NumberColumn(lengths), events_of_nodes(running, query, order)), order
