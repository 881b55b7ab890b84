"""The groups of an aggregation's buckets as columns: so a program hands over those that have ended, many together.

A column has a place for each group, in the order in which groups came into the bucket. The keys of groups are numbers
(`spdist.operators.core.group_keys.Keys`), mostly the same ones in all buckets. Where events go one by one, and where
somebody looks for single groups again and again, a bucket is a dictionary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from spdist.errors import StateError
from spdist.language.types import Type
from spdist.operators.aggregations.buckets import BucketPlan, Groups
from spdist.operators.aggregations.order import GroupOrder
from spdist.operators.core.group_keys import Keys

__all__ = [
    "ByStart",
    "GroupColumns",
    "Layout",
    "Slot",
    "columns_of",
    "find_at",
    "layout_of",
    "plain",
    "plain_at",
    "plain_of",
    "restore_columns",
    "stored_columns",
]

#: Who looks for single groups in a bucket so often finds them faster where they are no columns.
_OFTEN = 32
#: So many groups wait to be merged, and twice as many as there are.
_FEW = 1024

_FOLDS = {"count": numpy.add, "sum": numpy.add, "min": numpy.minimum, "max": numpy.maximum}
_NUMBER = numpy.int32
#: The types of whole numbers.
_WHOLE = (Type.INT, Type.LONG)
#: The types whose values are one key where they are equal: others may be written alike, and not be.
_ALIKE = (Type.STRING, Type.BOOL, *_WHOLE)


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot of a group that is a column: a count, a sum, a minimum or a maximum.

    Parameters
    ----------
    kind : str
        Which of these.
    attribute : int
        Whose values; -1 for a count.
    whole : bool
        Whether these are whole numbers.
    """

    kind: str
    attribute: int
    whole: bool

    @property
    def type(self) -> Any:
        """The column's numpy type."""
        return numpy.int64 if self.whole else numpy.float64

    def takes(self, column: Any) -> bool:
        """Tell whether numpy finds the same minimum as Python, which knows no order of NaN, nor of zeros."""
        if self.whole or self.kind not in ("min", "max"):
            return True
        return not (numpy.isnan(column) | (column == 0)).any()


@dataclass(frozen=True, slots=True)
class Layout:
    """What of an aggregation's groups is columns.

    Parameters
    ----------
    keys : tuple of int
        The attributes that groups are made by.
    types : tuple of Type
        Of all attributes.
    slots : tuple of Slot or int
        The slots of a group in order: those that are columns, and positions in `keys` of what the key tells.
    """

    keys: tuple[int, ...]
    types: tuple[Type, ...]
    slots: tuple[Slot | int, ...]

    @property
    def columns(self) -> list[Slot]:
        """The slots that are columns."""
        return [slot for slot in self.slots if isinstance(slot, Slot)]

    def numbered(self, keys: Sequence[Any]) -> Keys:
        """Return keys with numbers from 0 on."""
        made = Keys(self.keys, self.types)
        made.add(list(keys))
        return made

    def slots_of(self, keys: Sequence[Any], columns: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        """Iterate over the slots of groups, given their keys and columns."""
        rest = iter(columns)
        values = [next(rest).tolist() if isinstance(slot, Slot) else self._part(slot, keys) for slot in self.slots]
        return zip(*values, strict=True) if values else iter([()] * len(keys))

    def _part(self, position: int, keys: Sequence[Any]) -> Sequence[Any]:
        return keys if len(self.keys) == 1 else [key[position] for key in keys]


def layout_of(plan: BucketPlan) -> Layout | None:
    """Return how the groups of a plan are columns; None where they hold anything but what adds up and compares."""
    types = plan.scope.sources[0].schema.types
    if plan.computed or any(types[key] not in _ALIKE for key in plan.group):
        return None
    slots: list[Slot | int] = []
    for slot in plan.slots:
        if slot.kind == "group":
            slots.append(plan.group.index(slot.column))
        elif slot.kind == "time":
            slots.append(Slot("max", slot.column, True))  # where nothing is of the latest event, that is all it is
        elif slot.kind in _FOLDS:
            slots.append(Slot(slot.kind, slot.column, slot.kind == "count" or slot.type in _WHOLE))
        else:
            return None
    return Layout(plan.group, types, tuple(slots))


class GroupColumns:
    """The groups of one bucket as columns.

    Parameters
    ----------
    layout : Layout
        What they are.
    keys : Keys
        What their numbers mean.
    numbers : array of int
        The number of each group's key; each is there once.
    columns : sequence of arrays
        The slots that are columns.

    State
    -----
    A number and the slots of each group; groups that were added, until somebody looks at them, or they are many.
    """

    __slots__ = ("_added", "_columns", "_keys", "_numbers", "_waiting", "layout", "looked_up")

    def __init__(self, layout: Layout, keys: Keys, numbers: Any, columns: Sequence[Any]) -> None:
        self.layout = layout
        self._keys = keys
        self._numbers = numpy.asarray(numbers, _NUMBER)
        self._columns = list(columns)
        self._added: list[GroupColumns] = []
        self._waiting = 0
        #: How often somebody has looked for one group.
        self.looked_up = 0

    def __len__(self) -> int:
        """Return how many groups there are."""
        return len(self.numbers)

    @property
    def keys(self) -> Keys:
        """What the numbers mean."""
        self._merge()
        return self._keys

    @property
    def numbers(self) -> Any:
        """The numbers of the groups' keys."""
        self._merge()
        return self._numbers

    @property
    def columns(self) -> list[Any]:
        """The values of the slots that are columns."""
        self._merge()
        return self._columns

    def add(self, other: GroupColumns) -> None:
        """Add the groups of another bucket of the aggregation to these, new ones behind them; the other one stays."""
        self._added.append(other)
        self._waiting += len(other)
        if self._waiting > max(_FEW, 2 * len(self._numbers)):
            self._merge()

    def _merge(self) -> None:
        if not self._added:
            return
        parts, self._added, self._waiting = [self, *self._added], [], 0
        keys = parts[-1]._keys
        numbers = numpy.concatenate([part._numbers_in(keys) for part in parts])
        steps = numpy.arange(len(numbers), dtype=_NUMBER)
        places = numpy.empty(len(keys), _NUMBER)
        places[numbers[::-1]] = steps[::-1]  # the first one of those that are the same is written last
        is_first = places[numbers] == steps
        first, others = numpy.flatnonzero(is_first), numpy.flatnonzero(~is_first)
        self._keys, self._numbers = keys, numbers[first]
        places[self._numbers] = steps[: len(first)]
        into = places[numbers[others]]
        columns = [numpy.concatenate(columns) for columns in zip(*(part._columns for part in parts), strict=True)]
        self._columns = [column[first] for column in columns]
        # Reals overflow to infinity as in Java, without a warning.
        with numpy.errstate(all="ignore"):
            for slot, column, values in zip(self.layout.columns, self._columns, columns, strict=True):
                # `at` adds all values that meet in one place; `column[into] += values` would keep one of them.
                _FOLDS[slot.kind].at(column, into, values[others])

    def _numbers_in(self, keys: Keys) -> Any:
        return self._numbers if self._keys is keys else keys.add(self._keys.at(self._numbers.tolist()))

    def ordered(self, order: GroupOrder) -> GroupColumns:
        """Return the same groups in the order in which they enter the bucket of the next duration."""
        places = order.places(self.keys.codes(self.numbers, order.code))
        return GroupColumns(self.layout, self.keys, self.numbers[places], [column[places] for column in self.columns])

    def plain(self) -> Groups:
        """Return the groups as they are where events go one by one."""
        keys = self.keys.at(self.numbers.tolist())
        return dict(zip(keys, map(list, self.layout.slots_of(keys, self.columns)), strict=True))

    def find(self, key: Any) -> Groups:
        """Return the one group of a key, or none."""
        self.looked_up += 1
        number = self.keys.find(key)
        places = numpy.flatnonzero(self.numbers == number) if number is not None else ()
        if not len(places):
            return {}
        (slots,) = self.layout.slots_of([key], [column[places] for column in self.columns])
        return {key: list(slots)}

    def stored(self) -> list[bytes]:
        """Return numbers and slots as plain data, whole numbers with no more bytes than the longest of them needs."""
        return [_bytes(column) for column in (self.numbers, *self.columns)]

    @classmethod
    def restored(cls, layout: Layout, keys: Keys, size: int, stored: Sequence[bytes]) -> GroupColumns:
        """Return so many groups that were in a snapshot.

        Raises
        ------
        StateError
            It is not whole.
        """
        slots = layout.columns
        if len(stored) != 1 + len(slots):
            raise StateError(f"stored state is damaged: {len(stored)} columns are there in place of {1 + len(slots)}")
        numbers = _numbers(stored[0], size, _NUMBER)
        columns = [_numbers(data, size, slot.type) for data, slot in zip(stored[1:], slots, strict=True)]
        if size and not 0 <= numbers.min() <= numbers.max() < len(keys):
            raise StateError("stored state is damaged: there are groups without a key")
        return cls(layout, keys, numbers, columns)


def columns_of(layout: Layout, groups: Groups) -> GroupColumns | None:
    """Return plain groups as columns; None where one has no value, or numpy's order is another than Python's."""
    keys, columns = layout.numbered(list(groups)), []
    for slot, values in zip(layout.slots, zip(*groups.values(), strict=True), strict=False):
        # Also of what the key tells: null and the text "null" are one key
        if None in values:
            return None
        if isinstance(slot, Slot):
            try:
                column = numpy.array(values, slot.type)
            except OverflowError:
                return None
            if not slot.takes(column):
                return None
            columns.append(column)
    return GroupColumns(layout, keys, numpy.arange(len(groups)), columns) if groups else None


#: The groups of each bucket, by the start of the bucket.
ByStart = dict[int, Groups | GroupColumns]


def stored_columns(*states: Sequence[ByStart]) -> list[Any]:
    """Return buckets as plain data, and behind them the keys that the numbers of columns mean, where there are some."""
    known: dict[Keys, int] = {}

    def stored(groups: Groups | GroupColumns) -> Any:
        if not isinstance(groups, GroupColumns):
            return groups
        size = len(groups)
        return [known.setdefault(groups.keys, len(known)), size, *groups.stored()]

    made = [[{start: stored(groups) for start, groups in of.items()} for of in state] for state in states]
    return [*made, *([[keys.all() for keys in known]] if known else [])]


def restore_columns(layout: Layout, keys: Sequence[list[Any]], *states: Sequence[dict[int, Any]]) -> None:
    """Put buckets in place of what a snapshot has of them.

    Raises
    ------
    StateError
        They are not whole.
    """
    known = [layout.numbered(some) for some in keys]
    for level in (level for state in states for level in state):
        for start, stored in level.items():
            if isinstance(stored, list):
                level[start] = GroupColumns.restored(layout, known[stored[0]], stored[1], stored[2:])


def _bytes(column: Any) -> bytes:
    kind, width = column.dtype.kind, 8
    if kind == "i" and len(column):
        low, high = int(column.min()), int(column.max())
        # ~low is -low - 1, so both ends of a two's complement meet one limit.
        width = next(width for width in (1, 2, 4, 8) if max(high, ~low) < 1 << 8 * width - 1)
    data: bytes = column.astype(f"<{kind}{width}").tobytes()
    return data


def _numbers(data: bytes, size: int, type: Any) -> Any:
    kind, width = numpy.dtype(type).kind, len(data) // size if size else 8
    if width * size != len(data) or width not in ((1, 2, 4, 8) if kind == "i" else (8,)):
        raise StateError(f"stored state is damaged: {len(data)} bytes are no {size} numbers")
    # `frombuffer` gives a view that cannot be written; `astype` makes a copy.
    return numpy.frombuffer(data, f"<{kind}{width}").astype(type)


def plain(groups: Groups | GroupColumns) -> Groups:
    """Return the groups of a bucket as they are where events go one by one."""
    return groups.plain() if isinstance(groups, GroupColumns) else groups


def plain_at(buckets: ByStart, start: int) -> Groups:
    """Return the groups of a bucket, none where it is new; it has them plain from now on."""
    groups = buckets[start] = plain(buckets.get(start, {}))
    return groups


def plain_of(buckets: ByStart, start: int) -> Groups:
    """Return the groups of a bucket that is there; it stays as it is."""
    return plain(buckets[start])


def find_at(buckets: ByStart, start: int, key: Any) -> Groups:
    """Return the one group of a key in a bucket, or none; where that is asked often the bucket becomes plain."""
    groups = buckets[start]
    if isinstance(groups, GroupColumns):
        if groups.looked_up < _OFTEN:
            return groups.find(key)
        groups = plain_at(buckets, start)
    slots = groups.get(key)
    return {} if slots is None else {key: slots}
