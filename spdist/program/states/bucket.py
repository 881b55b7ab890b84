"""Open buckets of an aggregation in a program's arrays, from and to its operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy
import pyarrow as pa

from spdist.java.numbers import text_of
from spdist.language.types import Type
from spdist.mapping.read_rows import ARROW
from spdist.operators.aggregations.aggregation import Aggregation
from spdist.operators.aggregations.buckets import Groups
from spdist.operators.aggregations.columns import plain
from spdist.operators.aggregations.runs import AggregationRuns
from spdist.program.aggregations.bucket_shape import COUNT, DIRTY, END, HIGH, LENGTH, LOW, Bucketed
from spdist.program.aggregations.bucket_text import FAR
from spdist.program.running.running import Running
from spdist.program.states.key_words import key_numbers, real_key, real_values, words_of

__all__ = ["LoopBuckets", "text_places"]

_REALS = (Type.FLOAT, Type.DOUBLE)


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
    What is open, in the arrays: the operators have a copy, as of when they asked last.

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
        open[COUNT] = open[DIRTY] = 0
        rows = [(at, *row) for at, groups in opened.items() if at not in self._far for row in plain(groups).items()]
        if rows:
            self._fill(*zip(*rows, strict=True))

    def _clear(self) -> None:
        arrays, name = self._running.arrays, self._adds.name
        for table in (f"{name}_k", *self._adds.sets.values()):
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
            column = pa.array(values, ARROW[type])
            self._array(f"s{n}")[:count] = running.numbers(column, type)
            if slot.kind != "count":
                self._array(f"s{n}_n")[:count] = column.is_null().to_numpy(zero_copy_only=False)

    def _words(self, starts: Sequence[int], keys: Sequence[Any]) -> Any:
        types = self._adds.plan.group_types
        parts = [keys] if len(types) == 1 else list(zip(*keys, strict=True))
        words = [] if self._adds.plan.by is None else [numpy.array(starts, numpy.int64)]
        bits = numpy.zeros(len(keys), numpy.int64)
        for bit, (type, values) in enumerate(zip(types, parts, strict=True)):
            word, nulls = self._values(map(real_key, values) if type in _REALS else values, type)
            words.append(word)
            if type is not Type.STRING:
                bits += nulls << bit
        return numpy.stack([*words, bits][: self._adds.width], axis=1)

    def _values(self, values: Iterable[Any], type: Type) -> tuple[Any, Any]:
        """Return values as words, and which are null."""
        column = pa.array(list(values), ARROW[type])
        nulls = column.is_null().to_numpy(zero_copy_only=False).astype(numpy.int64)
        return words_of(self._running.numbers(column, type), nulls, type), nulls

    def _fill_pairs(self, table: str, sets: Sequence[set[Any]], type: Type) -> None:
        pairs = [(group, value) for group, values in enumerate(sets) for value in values]
        if not pairs:
            return
        groups, values = zip(*pairs, strict=True)
        words, nulls = self._values(map(real_key, values) if type in _REALS else values, type)
        self._running.reserve(f"pairs {self._adds.name}", len(pairs))
        key_numbers(self._running, table, numpy.stack([numpy.array(groups), words, nulls], axis=1))

    # To the operators.

    def close(self, now: int) -> None:
        """Have the operators close the buckets that have ended at `now`, ms."""
        self.bring(closing=True)
        self.aggregation.roll(now)

    def bring(self, closing: bool = False) -> None:
        """Have the operators know all that was added: as columns where they have those, or close buckets with many."""
        of, open = self.aggregation, self._array("open")
        if not open[DIRTY]:
            return
        open[DIRTY] = 0
        runs = of.runs
        columns = None if runs is None or self._far or not (runs.ahead or closing) else self._columns_of(runs)
        if runs is None or columns is None or not runs.put(columns, of.clock.now):
            if runs is not None:
                runs.settle()
            of.open[0] = {**self._known, **self._stored(), **self._far}
        self._known = of.open[0]
        of.changed()

    def _columns_of(self, runs: AggregationRuns) -> dict[int, tuple[list[Any], list[Any]]] | None:
        """Return keys and columns of slots by the start of the bucket; None where a value is null."""
        count, starts = self.groups, self._starts()
        nulls = (self._array(f"s{n}_n")[:count] for n, (slot, _) in enumerate(self._columns) if slot.kind != "count")
        if any(null.any() for null in nulls):
            return None
        keys, columns = self._keys(), [self._array(f"s{n}")[:count] for n in runs.places]
        made = {}
        for start in dict.fromkeys(starts.tolist()):
            own = numpy.flatnonzero(starts == start)
            made[start] = [keys[place] for place in own.tolist()], [column[own] for column in columns]
        return made

    def _starts(self) -> Any:
        """Return the start of the bucket of each group."""
        if not self.aggregation.by_time:
            return numpy.full(self.groups, self.aggregation.starts[0])
        return self._array("k_keys")[: self.groups * self._adds.width : self._adds.width]

    def entered(self, start: int, end: int) -> None:
        """Take note which bucket the operators have added an event to."""
        self._entered = (start, end) if -FAR < start < FAR else (0, 0)

    def _stored(self) -> dict[int, Groups]:
        made: dict[int, Groups] = {}
        for start, key, own in zip(self._starts().tolist(), self._keys(), self._slots(), strict=True):
            made.setdefault(start, {})[key] = own
        return made

    def _keys(self) -> list[Any]:
        types, width, count = self._adds.plan.group_types, self._adds.width, self.groups
        if not types:
            return [()] * count
        words = self._array("k_keys")[: count * width].reshape(count, width)
        parts = []
        for bit, type in enumerate(types):
            nulls = numpy.zeros(count) if type is Type.STRING else (words[:, -1] >> bit) & 1
            parts.append(self._parts(words[:, bit + (self._adds.plan.by is not None)], nulls, type))
        return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))

    def _parts(self, words: Any, nulls: Any, type: Type) -> list[Any]:
        """Return words as parts of the keys of groups, or as members of sets."""
        if type in _REALS:
            return list(map(text_of, self._plain(real_values(words), nulls, type)))
        return self._plain(words, nulls, type)

    def _plain(self, values: Any, nulls: Any, type: Type) -> list[Any]:
        if type is Type.STRING:
            found: list[Any] = self._running.texts.texts(values).to_pylist()
        else:
            found = (values != 0 if type is Type.BOOL else values).tolist()
        if nulls.any():
            found = [None if null else value for value, null in zip(found, nulls.tolist(), strict=True)]
        return found

    def _slots(self) -> list[list[Any]]:
        count, columns = self.groups, []
        none = numpy.zeros(count)
        for n, (slot, type) in enumerate(self._columns):
            if slot.kind == "set":
                columns.append(self._sets(self._adds.sets[n], type))
            else:
                nulls = none if slot.kind == "count" else self._array(f"s{n}_n")[:count]
                columns.append(self._plain(self._array(f"s{n}")[:count], nulls, type))
        return list(map(list, zip(*columns, strict=True))) if columns else [[] for _ in range(count)]

    def _sets(self, table: str, type: Type) -> list[set[Any]]:
        made: list[set[Any]] = [set() for _ in range(self.groups)]
        count = int(self._running.arrays[f"{table}_meta"][0])
        words = self._running.arrays[f"{table}_keys"][: count * 3].reshape(count, 3)
        for group, member in zip(words[:, 0].tolist(), self._parts(words[:, 1], words[:, 2], type), strict=True):
            made[group].add(member)
        return made


def text_places(running: Running, adds: Bucketed) -> Iterable[tuple[Any, Any]]:
    """Yield each array of an aggregation that has numbers of texts, and where in it."""
    arrays, name = running.arrays, adds.name
    count = int(arrays[f"{name}_open"][COUNT])
    for place, type in enumerate(adds.plan.group_types):
        if type is Type.STRING:
            first = place + (adds.plan.by is not None)
            yield arrays[f"{name}_k_keys"], numpy.arange(count) * adds.width + first
    for n, type in enumerate(adds.slot_types):
        if type is Type.STRING and n in adds.sets:
            pairs = numpy.arange(int(arrays[f"{adds.sets[n]}_meta"][0]))
            yield arrays[f"{adds.sets[n]}_keys"], pairs * 3 + 1
        elif type is Type.STRING:
            yield arrays[f"{name}_s{n}"], numpy.arange(count)
