"""Open buckets of an aggregation in a program's arrays, from and to its operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy

from spdist.java.numbers import text_of
from spdist.language.types import Type
from spdist.operators.aggregations.aggregation import Aggregation
from spdist.operators.aggregations.buckets import Groups
from spdist.operators.aggregations.columns import GroupColumns, Slot, plain
from spdist.operators.core.group_keys import Keys
from spdist.program.aggregations.bucket_shape import (
    BEGIN,
    COUNT,
    DIRTY,
    END,
    ENDED,
    HIGH,
    LENGTH,
    LOW,
    NEXT_END,
    Bucketed,
)
from spdist.program.aggregations.bucket_text import FAR
from spdist.program.running.running import Running
from spdist.program.states.key_words import key_numbers, real_key, real_values, words_of

__all__ = ["LoopBuckets", "text_places"]

_REALS = (Type.FLOAT, Type.DOUBLE)
#: So few keys are kept where no open bucket has them any more.
_FEW_KEYS = 1024
#: No bucket ends before that.
_NEVER = -(2**63)


class LoopBuckets:
    """The open buckets of the finest duration while the loop adds events (`operators.aggregations.aggregation.Adder`).

    Parameters
    ----------
    running : Running
        Has the arrays.
    adds : Bucketed
        What they are.
    aggregation : Aggregation
        The operators, which have all other buckets; and these when they ask for them (`bring`).

    State
    -----
    What is open, in the arrays: the operators have a copy, as of when they asked last. What has ended is in them only
    while the loop runs. The keys of what has ended, until they are many more than those of the operators' open buckets.

    Notes
    -----
    The operators may close what is open at any time (a purge, a query): the clock is behind the end of the bucket then,
    so the next event is one that they are called with, and what they have then is taken over.
    """

    def __init__(self, running: Running, adds: Bucketed, aggregation: Aggregation) -> None:
        self._running = running
        self._adds = adds
        self.aggregation = aggregation
        self._columns = list(zip(adds.plan.slots, adds.slot_types, strict=True))
        slots = () if adds.layout is None else adds.layout.slots
        #: The slots that are columns of buckets that have ended.
        self._summed = [(n, slot) for n, slot in enumerate(slots) if isinstance(slot, Slot)]
        #: The numbers of the keys that the table of those has.
        self._numbers: Any = None
        self._forget_keys()
        #: What the operators have; buckets that arrays have no place for; the bucket that they entered last.
        self._known: dict[int, Any] = {}
        self._far: dict[int, Any] = {}
        self._entered = 0, 0

    @property
    def groups(self) -> int:
        """How many groups there are in the arrays."""
        return int(self._array("open")[COUNT])

    def _array(self, name: str) -> Any:
        return self._running.arrays[f"{self._adds.name}_{name}"]

    # From the operators.

    def load(self) -> None:
        """Take over what the operators have."""
        of, open = self.aggregation, self._array("open")
        self._known = opened = of.open[0]
        self._far = {start: groups for start, groups in opened.items() if of.by_time and not -FAR < start < FAR}
        self._clear()
        open[END], (open[LOW], open[HIGH]), open[LENGTH] = of.ends[0], self._entered, of.length
        open[COUNT] = open[DIRTY] = open[BEGIN] = 0
        open[NEXT_END] = self._next_end()
        rows = [(at, *row) for at, groups in opened.items() if at not in self._far for row in plain(groups).items()]
        if rows:
            self._fill(*zip(*rows, strict=True))

    def _next_end(self) -> int:
        """Return until when the loop may only note that a bucket has ended."""
        of = self.aggregation
        if self._adds.layout is None or not of.length or self._far:
            return _NEVER
        return of.ends[1] if len(of.ends) > 1 else FAR

    def _clear(self) -> None:
        for table in (f"{self._adds.name}_k", *self._adds.sets.values()):
            self._empty(table)

    def _empty(self, table: str) -> None:
        arrays = self._running.arrays
        if table in self._running.program.arrays.tables:
            arrays[f"{table}_slots"][:] = -1
            arrays[f"{table}_meta"][:3] = (0, -1, 0)

    def _fill(self, starts: Sequence[int], keys: Sequence[Any], groups: Sequence[Sequence[Any]]) -> None:
        running, name, count = self._running, self._adds.name, len(keys)
        running.reserve(f"groups {name}", count)
        if self._adds.width:
            key_numbers(running, f"{name}_k", self._words(starts, keys))
        self._array("open")[COUNT] = count
        for n, (slot, type) in enumerate(self._columns):
            values = [slots[n] for slots in groups]
            if slot.kind == "set":
                self._fill_pairs(self._adds.sets[n], values, type)
                continue
            self._array(f"s{n}")[:count], nulls = running.values.taken(values, type)
            if slot.kind != "count":
                self._array(f"s{n}_n")[:count] = nulls

    def _words(self, starts: Sequence[int], keys: Sequence[Any]) -> Any:
        types = self._adds.plan.group_types
        parts = [keys] if len(types) == 1 else list(zip(*keys, strict=True))
        words = [] if not self._adds.first else [numpy.array(starts, numpy.int64)]
        bits = numpy.zeros(len(keys), numpy.int64)
        for bit, (type, values) in enumerate(zip(types, parts, strict=True)):
            word, nulls = _values(self._running, map(real_key, values) if type in _REALS else values, type)
            words.append(word)
            if type is not Type.STRING:
                bits += nulls << bit
        return numpy.stack([*words, bits][: self._adds.width], axis=1)

    def _fill_pairs(self, table: str, sets: Sequence[set[Any]], type: Type) -> None:
        pairs = [(group, value) for group, values in enumerate(sets) for value in values]
        if not pairs:
            return
        groups, values = zip(*pairs, strict=True)
        words, nulls = _values(self._running, map(real_key, values) if type in _REALS else values, type)
        self._running.reserve(f"pairs {self._adds.name}", len(pairs))
        key_numbers(self._running, table, numpy.stack([numpy.array(groups), words, nulls], axis=1))

    # To the operators: what has ended.

    def collect(self) -> None:
        """Give the operators the buckets of which the loop has noted that they have ended."""
        open = self._array("open")
        if open[ENDED]:
            self._give_ended()
            self.aggregation.roll(int(open[END] - open[LENGTH]))
            self._known = self.aggregation.open[0]

    def close(self, now: int) -> None:
        """Have the operators close the buckets that have ended at `now`, ms."""
        open = self._array("open")
        if open[DIRTY] and self._adds.layout is not None and not self._far:
            open[DIRTY] = 0
            self._array("ended")[2 * open[ENDED] : 2 * open[ENDED] + 2] = open[COUNT], open[END]
            open[ENDED], open[BEGIN] = open[ENDED] + 1, open[COUNT]
            self._give_ended()
        else:
            self.bring()
        self.aggregation.roll(now)

    def _give_ended(self) -> None:
        open, of = self._array("open"), self.aggregation
        ended = self._array("ended")[: 2 * open[ENDED]].reshape(-1, 2).tolist()
        of.open[0] = {}
        for start, groups in self._ended(ended):
            of.close_bucket(start, groups)
        open[ENDED] = 0
        self._move_to_front(int(open[BEGIN]), int(open[COUNT]))
        if len(self._numbered) > self._enough:
            self._forget_many_keys()

    def _ended(self, ended: Sequence[tuple[int, int]]) -> Iterator[tuple[int, Groups | GroupColumns]]:
        """Yield the start and the groups of each bucket that has ended, given behind which group each did, and when."""
        layout, count = self._adds.layout, ended[-1][0]
        columns = self._whole_columns(count)
        if layout is None or columns is None:
            made = list(zip(self._keys(count), self._slots(count), strict=True))
            for start, places in self._by_start(ended):
                yield start, dict(made[place] for place in numpy.arange(count)[places].tolist())
            return
        numbers = self._key_numbers(count)
        for start, places in self._by_start(ended):
            yield start, GroupColumns(layout, self._numbered, numbers[places], [column[places] for column in columns])

    def _by_start(self, ended: Sequence[tuple[int, int]]) -> Iterator[tuple[int, Any]]:
        """Yield the start of each bucket that has ended, in the order in which they came, and where its groups are."""
        of, begin = self.aggregation, 0
        starts = self._starts(ended[-1][0])
        for count, end in ended:
            if begin == count:
                continue
            if not of.by_time:
                yield end - of.length if of.length else of.starts[0], slice(begin, count)
            elif (starts[begin:count] == starts[begin]).all():
                yield int(starts[begin]), slice(begin, count)
            else:
                found, first, which = numpy.unique(starts[begin:count], return_index=True, return_inverse=True)
                places = numpy.split(begin + which.argsort(kind="stable"), numpy.bincount(which).cumsum()[:-1])
                yield from ((int(found[n]), places[n]) for n in first.argsort().tolist())
            begin = count

    def _whole_columns(self, count: int) -> list[Any] | None:
        """Return the columns of the first groups, so many; None where one has no value, or numpy's order is another."""
        nulls = (self._array(f"s{n}_n")[:count] for n, (slot, _) in enumerate(self._columns) if slot.kind != "count")
        if any(null.any() for null in nulls):
            return None
        made = [self._array(f"s{n}")[:count].astype(slot.type) for n, slot in self._summed]
        return made if all(slot.takes(own) for (_, slot), own in zip(self._summed, made, strict=True)) else None

    def _move_to_front(self, begin: int, count: int) -> None:
        """Have the groups from `begin` on be the first ones."""
        arrays, left, width = self._running.arrays, count - begin, self._adds.width
        for n, (slot, _) in enumerate(self._columns):
            for name in (f"s{n}",) if slot.kind == "count" else (f"s{n}", f"s{n}_n"):
                own = self._array(name)
                # A copy, as both parts may overlap
                own[:left] = own[begin:count].copy()
        self._clear()
        if left and width:
            words = self._array("k_keys")[begin * width : count * width].copy()
            key_numbers(self._running, f"{self._adds.name}_k", words.reshape(left, width))
        open = arrays[f"{self._adds.name}_open"]
        open[BEGIN], open[COUNT] = 0, left

    # The keys of what has ended.

    def _key_numbers(self, count: int) -> Any:
        """Return the numbers of the keys of the first groups, so many."""
        running, adds, table = self._running, self._adds, f"{self._adds.name}_q_k"
        own = adds.width - adds.first
        if not own:
            return numpy.zeros(count, numpy.int64)
        running.reserve(f"groups {adds.name}_q", count)
        words = self._array("k_keys")[: count * adds.width].reshape(count, adds.width)[:, adds.first :]
        found = key_numbers(running, table, words)
        known, count = len(self._numbers), int(running.arrays[f"{table}_meta"][0])
        if count > known:
            new = running.arrays[f"{table}_keys"][known * own : count * own].reshape(-1, own)
            self._numbers = numpy.concatenate(
                [self._numbers, self._numbered.add(_keys_of(self._running, self._adds, new))]
            )
        return self._numbers[found]

    def texts_changed(self) -> None:
        """Take note that texts have other numbers: what keys mean is asked again."""
        self._numbers = numpy.zeros(0, numpy.int64)
        self._empty(f"{self._adds.name}_q_k")

    def _forget_keys(self) -> None:
        """Give keys numbers anew; those of what has ended mean what they did."""
        layout = self._adds.layout
        self._numbered = Keys((), ()) if layout is None else layout.numbered(() if layout.keys else [()])
        self._enough = _FEW_KEYS
        self.texts_changed()

    def _forget_many_keys(self) -> None:
        """Forget keys where there are many more than in the open buckets of the operators."""
        used = sum(map(len, self.aggregation.open[1].values())) if len(self.aggregation.open) > 1 else 0
        if len(self._numbered) > 2 * used:
            self._forget_keys()
        self._enough = max(_FEW_KEYS, 2 * used)

    # To the operators: what is open.

    def bring(self) -> None:
        """Have the operators know all that was added."""
        self.collect()
        of, open = self.aggregation, self._array("open")
        # They may close what is open.
        open[NEXT_END] = _NEVER
        if open[DIRTY]:
            open[DIRTY] = 0
            of.open[0] = {**self._known, **self._stored(), **self._far}
            self._known = of.open[0]
            of.changed()

    def _starts(self, count: int) -> Any:
        """Return the start of the bucket of each of the first groups, so many."""
        if not self.aggregation.by_time:
            return numpy.full(count, self.aggregation.starts[0])
        return self._array("k_keys")[: count * self._adds.width : self._adds.width]

    def entered(self, start: int, end: int) -> None:
        """Take note which bucket the operators have added an event to."""
        self._entered = (start, end) if -FAR < start < FAR else (0, 0)

    def _stored(self) -> dict[int, Groups]:
        made: dict[int, Groups] = {}
        count = self.groups
        for start, key, own in zip(self._starts(count).tolist(), self._keys(count), self._slots(count), strict=True):
            made.setdefault(start, {})[key] = own
        return made

    def _keys(self, count: int) -> list[Any]:
        """Return the keys of the first groups, so many."""
        if not self._adds.plan.group_types:
            return [()] * count
        width = self._adds.width
        words = self._array("k_keys")[: count * width].reshape(count, width)
        return _keys_of(self._running, self._adds, words[:, self._adds.first :])

    def _slots(self, count: int) -> list[list[Any]]:
        """Return the slots of the first groups, so many."""
        columns = []
        none = numpy.zeros(count)
        for n, (slot, type) in enumerate(self._columns):
            if slot.kind == "set":
                columns.append(self._sets(self._adds.sets[n], type))
            else:
                nulls = none if slot.kind == "count" else self._array(f"s{n}_n")[:count]
                columns.append(_plain(self._running, self._array(f"s{n}")[:count], nulls, type))
        return list(map(list, zip(*columns, strict=True))) if columns else [[] for _ in range(count)]

    def _sets(self, table: str, type: Type) -> list[set[Any]]:
        made: list[set[Any]] = [set() for _ in range(self.groups)]
        count = int(self._running.arrays[f"{table}_meta"][0])
        words = self._running.arrays[f"{table}_keys"][: count * 3].reshape(count, 3)
        for group, member in zip(
            words[:, 0].tolist(), _parts(self._running, words[:, 1], words[:, 2], type), strict=True
        ):
            made[group].add(member)
        return made


def _values(running: Running, values: Iterable[Any], type: Type) -> tuple[Any, Any]:
    """Return values as words, and which are null."""
    found, missing = running.values.taken(list(values), type)
    nulls = missing.astype(numpy.int64)
    return words_of(found, nulls, type), nulls


def _keys_of(running: Running, adds: Bucketed, words: Any) -> list[Any]:
    parts = []
    for bit, type in enumerate(adds.plan.group_types):
        nulls = numpy.zeros(len(words)) if type is Type.STRING else (words[:, -1] >> bit) & 1
        parts.append(_parts(running, words[:, bit], nulls, type))
    return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))


def _parts(running: Running, words: Any, nulls: Any, type: Type) -> list[Any]:
    """Return words as parts of the keys of groups, or as members of sets."""
    if type in _REALS:
        return list(map(text_of, _plain(running, real_values(words), nulls, type)))
    return _plain(running, words, nulls, type)


def _plain(running: Running, values: Any, nulls: Any, type: Type) -> list[Any]:
    if type is Type.STRING:
        found: list[Any] = running.texts.texts(values).to_pylist()
    else:
        found = (values != 0 if type is Type.BOOL else values).tolist()
    if nulls.any():
        found = [None if null else value for value, null in zip(found, nulls.tolist(), strict=True)]
    return found


def text_places(running: Running, adds: Bucketed) -> Iterable[tuple[Any, Any]]:
    """Yield each array of an aggregation that has numbers of texts, and where in it."""
    arrays, name = running.arrays, adds.name
    count = int(arrays[f"{name}_open"][COUNT])
    for place, type in enumerate(adds.plan.group_types):
        if type is Type.STRING:
            yield arrays[f"{name}_k_keys"], numpy.arange(count) * adds.width + adds.first + place
    for n, type in enumerate(adds.slot_types):
        if type is Type.STRING and n in adds.sets:
            pairs = numpy.arange(int(arrays[f"{adds.sets[n]}_meta"][0]))
            # Three words of a pair: the group, the value, and whether it is null
            yield arrays[f"{adds.sets[n]}_keys"], pairs * 3 + 1
        elif type is Type.STRING:
            yield arrays[f"{name}_s{n}"], numpy.arange(count)
