"""Many values of state as columns: what lies at one place of each is one column, whatever holds it there.

A hundred thousand keys, each with a list of its events, are a column of the keys, one of the lists' lengths, and of all
events one for each attribute. So no value is packed or looked at by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from operator import itemgetter
from typing import Any, ClassVar

import numpy

from spdist.java.objects import HashMap

__all__ = [
    "KINDS",
    "Column",
    "HashMapColumn",
    "ListColumn",
    "MapColumn",
    "NumberColumn",
    "StructColumn",
    "TextColumn",
    "UnionColumn",
    "ValueColumn",
    "column_of",
    "in_turn",
    "no_entries",
    "nothing",
    "numbers_of",
    "ranges",
]

#: What holds values in order, by the number under which it is packed.
KINDS: tuple[type, ...] = (list, tuple, deque)
#: What holds values at all.
_HOLDERS = frozenset({*KINDS, dict, HashMap})
#: Lists and tuples of one length have a column for each of their places up to this one.
_WIDEST = 32
#: Tuples of so many lengths have columns of each length for themselves.
_LENGTHS = 4
#: What is nested deeper is packed value by value: a packer goes only so deep.
_DEEPEST = 16
#: What numbers are packed as: the first one of whole numbers that has room for all, or reals, or bools.
_WHOLE, _OTHERS = ("<i1", "<i2", "<i4", "<i8"), {"f": "<f8", "b": "|b1"}


class Column:
    """So many values of state; `packed` is plain data that `unpacked` makes it of again."""

    #: Which one it is, where it is packed.
    form: ClassVar[int]

    def __len__(self) -> int:
        """Return how many values there are."""
        raise NotImplementedError

    def values(self) -> list[Any]:
        """Return the values, each of them new."""
        raise NotImplementedError

    def packed(self) -> list[Any]:
        """Return plain data, begun by the form."""
        raise NotImplementedError

    def at(self, places: Any) -> Column:
        """Return the values at some places, an array."""
        values = self.values()
        return column_of([values[place] for place in places.tolist()])

    def sizes(self) -> Any:
        """Return how much each list, tuple, deque or dictionary holds, as an array."""
        values = self.values()
        return numpy.array(list(map(len, values)), numpy.int64)

    def known(self) -> Any:
        """Return which values are not null, as an array: all, unless a column says otherwise."""
        return numpy.ones(len(self), bool)

    def parts(self, width: int) -> Sequence[Column]:
        """Return a column for each place of lists or tuples; ValueError where not all have so many."""
        values = self.values()
        if not set(map(len, values)) <= {width}:
            raise ValueError(f"a list or tuple that is not of length {width}")
        return [column_of(list(map(itemgetter(place), values))) for place in range(width)]

    def items_held(self) -> Column:
        """Return what all lists, tuples or deques hold, one behind the other."""
        return column_of(list(chain.from_iterable(self.values())))

    def entries(self) -> tuple[Column, Column]:
        """Return the keys and the values of all dictionaries, one behind the other."""
        maps = column_of(self.values())
        if len(maps) and not isinstance(maps, MapColumn):
            raise TypeError("a value that is no dictionary")
        return maps.entries() if isinstance(maps, MapColumn) else (ValueColumn([]), ValueColumn([]))


@dataclass(frozen=True, slots=True)
class ValueColumn(Column):
    """Values one by one: numbers, texts, and what has no columns."""

    items: list[Any]
    form = 0

    def __len__(self) -> int:
        """Return how many values there are."""
        return len(self.items)

    def values(self) -> list[Any]:
        """Return the values."""
        return self.items

    def known(self) -> Any:
        """Return which values are not null, as an array."""
        return numpy.array([value is not None for value in self.items], bool)

    def packed(self) -> list[Any]:
        """Return plain data."""
        return [self.form, self.items]

    def at(self, places: Any) -> ValueColumn:
        """Return the values at some places."""
        return ValueColumn([self.items[place] for place in places.tolist()])


@dataclass(frozen=True, slots=True)
class NumberColumn(Column):
    """Numbers or bools in an array; None where `nulls`, an array of bools, says so."""

    array: Any
    nulls: Any = None
    form = 1

    def __len__(self) -> int:
        """Return how many values there are."""
        return len(self.array)

    def values(self) -> list[Any]:
        """Return the numbers as Python has them."""
        found: list[Any] = self.array.tolist()
        for place in () if self.nulls is None else numpy.flatnonzero(self.nulls).tolist():
            found[place] = None
        return found

    def known(self) -> Any:
        """Return which values are not null, as an array."""
        return numpy.ones(len(self), bool) if self.nulls is None else ~self.nulls

    def packed(self) -> list[Any]:
        """Return plain data: the type, the bytes, and a bit for each value that says where none is."""
        array = self.array
        kind = _OTHERS.get(array.dtype.kind) or _narrowest(array)
        nulls = None if self.nulls is None or not self.nulls.any() else numpy.packbits(self.nulls).tobytes()
        return [self.form, kind, array.astype(kind, copy=False).tobytes(), nulls]

    def at(self, places: Any) -> Column:
        """Return the numbers at some places."""
        return NumberColumn(self.array[places], None if self.nulls is None else self.nulls[places])

    @classmethod
    def unpacked(cls, kind: str, data: bytes, nulls: bytes | None) -> NumberColumn:
        """Return what was packed."""
        if kind not in _WHOLE and kind not in _OTHERS.values():
            raise ValueError(f"numbers of the unknown type {kind!r}")
        array = numpy.frombuffer(data, kind)
        if nulls is None:
            return cls(array)
        return cls(array, numpy.unpackbits(numpy.frombuffer(nulls, numpy.uint8), count=len(array)).astype(bool))


@dataclass(frozen=True, slots=True)
class TextColumn(Column):
    """Texts by their numbers, an array; None where that is -1."""

    numbers: Any
    texts: list[str]
    form = 2

    def __len__(self) -> int:
        """Return how many values there are."""
        return len(self.numbers)

    def values(self) -> list[Any]:
        """Return the texts."""
        texts: list[Any] = [*self.texts, None]
        return list(map(texts.__getitem__, self.numbers.tolist()))

    def known(self) -> Any:
        """Return which values are not null, as an array."""
        return self.numbers >= 0

    def packed(self) -> list[Any]:
        """Return plain data."""
        return [self.form, NumberColumn(self.numbers).packed(), self.texts]

    def at(self, places: Any) -> Column:
        """Return the texts at some places."""
        return TextColumn(self.numbers[places], self.texts)


@dataclass(frozen=True, slots=True)
class StructColumn(Column):
    """Lists or tuples of one length, which is not 0: a column for each of their places."""

    kind: type
    columns: Sequence[Column]
    form = 3

    def __len__(self) -> int:
        """Return how many values there are."""
        return len(self.columns[0])

    def values(self) -> list[Any]:
        """Return the lists or tuples."""
        rows = zip(*(column.values() for column in self.columns), strict=True)
        return list(rows) if self.kind is tuple else list(map(self.kind, rows))

    def packed(self) -> list[Any]:
        """Return plain data."""
        return [self.form, KINDS.index(self.kind), [column.packed() for column in self.columns]]

    def at(self, places: Any) -> Column:
        """Return the lists or tuples at some places."""
        return StructColumn(self.kind, [column.at(places) for column in self.columns])

    def sizes(self) -> Any:
        """Return of each how many places there are."""
        return numpy.full(len(self), len(self.columns))

    def parts(self, width: int) -> Sequence[Column]:
        """Return the columns."""
        # Not `super`: a class with slots is another one than that in whose body this stands
        return self.columns if len(self.columns) == width else Column.parts(self, width)


@dataclass(frozen=True, slots=True)
class ListColumn(Column):
    """Lists, tuples or deques of any lengths: the lengths, and what all of them hold, one behind the other."""

    kind: type
    lengths: Column
    held: Column
    form = 4

    def __len__(self) -> int:
        """Return how many values there are."""
        return len(self.lengths)

    def values(self) -> list[Any]:
        """Return the lists, tuples or deques."""
        runs = _cut(self.held.values(), self.lengths)
        return list(runs) if self.kind is list else list(map(self.kind, runs))

    def packed(self) -> list[Any]:
        """Return plain data."""
        return [self.form, KINDS.index(self.kind), self.lengths.packed(), self.held.packed()]

    def at(self, places: Any) -> Column:
        """Return the lists, tuples or deques at some places."""
        return ListColumn(self.kind, self.lengths.at(places), self.held.at(_within(self.sizes(), places)))

    def sizes(self) -> Any:
        """Return the lengths as an array."""
        return numpy.array(self.lengths.values(), numpy.int64)

    def items_held(self) -> Column:
        """Return what all of them hold."""
        return self.held


@dataclass(frozen=True, slots=True)
class MapColumn(Column):
    """Dictionaries: their lengths, and the keys and values of all, one behind the other."""

    lengths: Column
    keys: Column
    held: Column
    form = 5

    def __len__(self) -> int:
        """Return how many values there are."""
        return len(self.lengths)

    def values(self) -> list[Any]:
        """Return the dictionaries."""
        return list(map(dict, self._pairs()))

    def packed(self) -> list[Any]:
        """Return plain data."""
        return [self.form, self.lengths.packed(), self.keys.packed(), self.held.packed()]

    def at(self, places: Any) -> MapColumn:
        """Return the dictionaries at some places."""
        within = _within(self.sizes(), places)
        return MapColumn(self.lengths.at(places), self.keys.at(within), self.held.at(within))

    def _pairs(self) -> Iterable[list[tuple[Any, Any]]]:
        """Return the keys and values of each."""
        return _cut(list(zip(self.keys.values(), self.held.values(), strict=True)), self.lengths)

    def sizes(self) -> Any:
        """Return the lengths as an array."""
        return numpy.array(self.lengths.values(), numpy.int64)

    def entries(self) -> tuple[Column, Column]:
        """Return the keys and the values of all."""
        return self.keys, self.held


@dataclass(frozen=True, slots=True)
class HashMapColumn(MapColumn):
    """Maps of Java's (`spdist.java.objects.HashMap`) in the order in which keys came; and how many buckets each has."""

    capacities: Column
    form = 7

    def values(self) -> list[Any]:
        """Return the maps."""
        found = list(map(HashMap, self._pairs()))
        for one, capacity in zip(found, self.capacities.values(), strict=True):
            one.capacity = capacity
        return found

    def packed(self) -> list[Any]:
        """Return plain data."""
        # Not `super`: a class with slots is another one than that in whose body this stands
        return [*MapColumn.packed(self), self.capacities.packed()]

    def at(self, places: Any) -> HashMapColumn:
        """Return the maps at some places."""
        found = MapColumn.at(self, places)
        return HashMapColumn(found.lengths, found.keys, found.held, self.capacities.at(places))


@dataclass(frozen=True, slots=True)
class UnionColumn(Column):
    """Values of several columns in turn: which one each is of, and the columns."""

    turns: bytes
    columns: Sequence[Column]
    form = 6

    def __len__(self) -> int:
        """Return how many values there are."""
        return len(self.turns)

    def values(self) -> list[Any]:
        """Return the values."""
        nexts = [iter(column.values()).__next__ for column in self.columns]
        return [nexts[turn]() for turn in self.turns]

    def known(self) -> Any:
        """Return which values are not null, as an array."""
        turns, found = numpy.frombuffer(self.turns, numpy.uint8), numpy.zeros(len(self), bool)
        for turn, column in enumerate(self.columns):
            found[turns == turn] = column.known()
        return found

    def at(self, places: Any) -> Column:
        """Return the values at some places."""
        turns = numpy.frombuffer(self.turns, numpy.uint8)
        own = turns[places]
        found = []
        for turn, column in enumerate(self.columns):
            ranks = numpy.cumsum(turns == turn) - 1
            found.append(column.at(ranks[places[own == turn]]))
        return in_turn(own, found)

    def packed(self) -> list[Any]:
        """Return plain data."""
        return [self.form, self.turns, [column.packed() for column in self.columns]]


def column_of(values: list[Any], depth: int = _DEEPEST) -> Column:
    """Return values as a column; `depth` is how far those within them are looked at."""
    types = set(map(type, values)) if depth else set()
    kinds = types.intersection(_HOLDERS)
    if not kinds:
        return ValueColumn(values)
    if len(types) > 1:
        return _mixed([kind if kind in kinds else None for kind in map(type, values)], values, depth)
    (kind,) = types
    lengths = list(map(len, values))
    if kind in (dict, HashMap):
        entries = list(chain.from_iterable(one.history() if kind is HashMap else one.items() for one in values))
        keys, held = (column_of([entry[place] for entry in entries], depth - 1) for place in range(2))
        if kind is dict:
            return MapColumn(ValueColumn(lengths), keys, held)
        return HashMapColumn(ValueColumn(lengths), keys, held, ValueColumn([one.capacity for one in values]))
    widths = set(lengths)
    if len(widths) == 1 and 0 < lengths[0] <= min(_WIDEST, len(values)) and kind is not deque:
        places = map(itemgetter, range(lengths[0]))
        return StructColumn(kind, [column_of(list(map(place, values)), depth - 1) for place in places])
    if kind is tuple and 1 < len(widths) <= _LENGTHS and len(widths) < len(values):
        return _mixed(lengths, values, depth)
    return ListColumn(kind, ValueColumn(lengths), column_of(list(chain.from_iterable(values)), depth - 1))


def in_turn(turns: Any, columns: Sequence[Column]) -> Column:
    """Return values of several columns in turn, an array of bytes says of which one each is; of one as it is."""
    found = numpy.flatnonzero(numpy.bincount(turns, minlength=len(columns)))
    return columns[found[0]] if len(found) == 1 else UnionColumn(turns.astype(numpy.uint8).tobytes(), columns)


def nothing(count: int) -> ListColumn:
    """Return so many lists that hold nothing."""
    return ListColumn(list, NumberColumn(numpy.zeros(count, numpy.int8)), ValueColumn([]))


def no_entries(count: int) -> MapColumn:
    """Return so many dictionaries that hold nothing."""
    return MapColumn(NumberColumn(numpy.zeros(count, numpy.int8)), ValueColumn([]), ValueColumn([]))


def _mixed(told_apart_by: list[Any], values: list[Any], depth: int) -> UnionColumn:
    """Return values as one column for each of what they are told apart by."""
    numbers = {what: number for number, what in enumerate(dict.fromkeys(told_apart_by))}
    turns = bytes(map(numbers.__getitem__, told_apart_by))
    parts: list[list[Any]] = [[] for _ in numbers]
    adds: list[Callable[[Any], None]] = [part.append for part in parts]
    for turn, value in zip(turns, values, strict=True):
        adds[turn](value)
    # Values of which no column is told apart any further
    return UnionColumn(turns, [column_of(part, depth) for part in parts])


def numbers_of(column: Column) -> tuple[Any, Any]:
    """Return numbers or bools as an array, 0 where they are null, and which of them are: an array, or None.

    Raises
    ------
    TypeError
        A value is neither.
    """
    if isinstance(column, NumberColumn):
        return column.array, column.nulls
    values = column.values()
    nulls = numpy.array([value is None for value in values], bool)
    known: list[Any] = [0 if value is None else value for value in values] if nulls.any() else values
    array = numpy.array(known) if known else numpy.zeros(0, numpy.int64)
    if array.dtype.kind not in "bif" or array.ndim != 1:
        raise TypeError("a value that is no number, or one beyond 64 bits")
    return array, nulls if nulls.any() else None


def ranges(begins: Any, sizes: Any) -> Any:
    """Return the numbers of ranges, one range behind the other, given arrays of where each begins and its size."""
    return numpy.arange(sizes.sum()) + numpy.repeat(begins - (numpy.cumsum(sizes) - sizes), sizes)


def _within(sizes: Any, places: Any) -> Any:
    """Return the places of what the lists at some places hold, given the sizes of all lists."""
    return ranges((numpy.cumsum(sizes) - sizes)[places], sizes[places])


def _cut(values: list[Any], lengths: Column) -> Iterable[list[Any]]:
    ends = list(accumulate(lengths.values(), initial=0))
    if ends[-1] != len(values):
        raise ValueError("lengths that are not those of what is held")
    return (values[begin:end] for begin, end in pairwise(ends))


def _narrowest(array: Any) -> str:
    """Return the type with the fewest bytes that has room for whole numbers."""
    if not len(array):
        return _WHOLE[0]
    least, most = int(array.min()), int(array.max())
    return next(kind for kind in _WHOLE if -(1 << 8 * int(kind[2]) - 1) <= least and most < 1 << 8 * int(kind[2]) - 1)
