"""The groups of an aggregation's buckets as columns: many are added up, merged, kept and stored at once.

A column has a place for each group, in the order in which groups came into the bucket. The keys of groups are numbers
(`spdist.operators.core.group_keys.Keys`), which are the same in all buckets that are open together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from spdist.errors import StateError
from spdist.language.types import Type
from spdist.mapping.read_rows import ReadRows
from spdist.operators.aggregations.buckets import BucketPlan, Groups
from spdist.operators.core.group_keys import Keys, grown

__all__ = [
    "OFTEN",
    "ByStart",
    "GroupColumns",
    "Layout",
    "Numbering",
    "Slot",
    "find_at",
    "layout_of",
    "plain",
    "plain_at",
    "plain_of",
]

#: Who looks for single groups so often finds them faster where they are no columns.
OFTEN = 32

_FOLDS = {"count": numpy.add, "sum": numpy.add, "min": numpy.minimum, "max": numpy.maximum}
#: So many buckets have their groups looked up in an array of all keys; those of others are written there first.
_STANDING = 8
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

    def empty(self, size: int) -> Any:
        """Return a column of groups with no value, to which a first one is added as it is: sums of reals begin at -0.0.

        Parameters
        ----------
        size : int
            How many groups.
        """
        if self.kind in ("count", "sum"):
            return numpy.zeros(size, numpy.int64) if self.whole else numpy.full(size, -0.0)
        low, high = (-(2**63), 2**63 - 1) if self.whole else (-numpy.inf, numpy.inf)
        return numpy.full(size, high if self.kind == "min" else low, self.type)

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
    by : int, optional
        The attribute that is aggregated by.
    """

    keys: tuple[int, ...]
    types: tuple[Type, ...]
    slots: tuple[Slot | int, ...]
    by: int | None

    @property
    def columns(self) -> list[Slot]:
        """The slots that are columns."""
        return [slot for slot in self.slots if isinstance(slot, Slot)]

    def numbered(self, keys: Sequence[Any]) -> Keys:
        """Return keys with numbers from 0 on."""
        made = Keys(self.keys, self.types)
        made.add(list(keys))
        return made

    def read(self, rows: Sequence[Any]) -> ReadRows | None:
        """Return rows as columns of what is looked at; None where there is a null in it, or what is not of its type."""
        added = {slot.attribute for slot in self.columns if slot.kind != "count"}
        asked = {*self.keys, *added, *(() if self.by is None else (self.by,))}
        own = ReadRows.of(rows, self.types, asked)
        return None if own is None or own.has_nulls(asked) else own

    def values(self, rows: ReadRows) -> list[Any] | None:
        """Return what events add to each column; None where the order of values is not numpy's."""
        made = []
        for slot in self.columns:
            if slot.kind == "count":
                made.append(numpy.ones(len(rows), numpy.int64))
            else:
                made.append(rows.numbers(slot.attribute, 0, len(rows)).astype(slot.type, copy=False))
            if not slot.takes(made[-1]):
                return None
        return made

    def columns_of(self, groups: Groups) -> list[Any] | None:
        """Return the columns of groups; None where there is something in them that has no place there.

        That is a group of null among texts, which may be that of 'null', and a sum of nothing but nulls.
        """
        made = []
        for slot, values in zip(self.slots, zip(*groups.values(), strict=True), strict=True):
            if not isinstance(slot, Slot):
                if self.types[self.keys[slot]] is Type.STRING and None in values:
                    return None
                continue
            if not set(map(type, values)) <= {int if slot.whole else float}:
                return None
            made.append(numpy.array(values, slot.type))
            if not slot.takes(made[-1]):
                return None
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
    return Layout(plan.group, types, tuple(slots), plan.by)


class GroupColumns:
    """The groups of one bucket as columns.

    Parameters
    ----------
    layout : Layout
        What they are.
    keys : Keys
        What their numbers mean.
    numbers, columns
        Groups that are there already.

    State
    -----
    A number and the slots of each group; twice that while the bucket is open.
    """

    __slots__ = ("_columns", "_numbers", "_size", "keys", "layout", "looked_up")

    def __init__(self, layout: Layout, keys: Keys, numbers: Any = (), columns: Sequence[Any] | None = None) -> None:
        self.layout = layout
        self.keys = keys
        self._numbers = numpy.array(numbers, _NUMBER)
        self._columns = [slot.empty(0) for slot in layout.columns] if columns is None else list(columns)
        self._size = len(self._numbers)
        #: How often somebody has looked for one group.
        self.looked_up = 0

    def __len__(self) -> int:
        """Return how many groups there are."""
        return self._size

    @property
    def numbers(self) -> Any:
        """The numbers of the groups' keys."""
        return self._numbers[: self._size]

    @property
    def columns(self) -> list[Any]:
        """The values of the slots that are columns."""
        return [column[: self._size] for column in self._columns]

    def enter(self, numbers: Any) -> None:
        """Add groups that have no value yet."""
        begin, self._size = self._size, self._size + len(numbers)
        self._numbers = grown(self._numbers, self._size)
        self._numbers[begin : self._size] = numbers
        if self._columns and len(self._columns[0]) < self._size:
            for place, (slot, column) in enumerate(zip(self.layout.columns, self._columns, strict=True)):
                self._columns[place] = slot.empty(len(self._numbers))
                self._columns[place][:begin] = column[:begin]

    def fold(self, places: Any, values: Sequence[Any]) -> None:
        """Add values to the groups at places, one after the other."""
        with numpy.errstate(all="ignore"):
            for slot, column, own in zip(self.layout.columns, self._columns, values, strict=True):
                _FOLDS[slot.kind].at(column, places, own)

    def shrink(self) -> None:
        """Give back the room for more groups."""
        self._numbers, self._columns = self.numbers.copy(), [column.copy() for column in self.columns]

    def renumber(self, keys: Keys, numbers: Any) -> None:
        """Have other numbers for the same keys, given for each number of now."""
        self.keys = keys
        self._numbers = numbers[self.numbers].astype(_NUMBER)
        self._columns = self.columns

    def values(self) -> Iterator[tuple[Any, ...]]:
        """Iterate over the slots of the groups, none of which is kept."""
        return self.layout.slots_of(self.keys.at(self.numbers.tolist()), self.columns)

    def plain(self) -> Groups:
        """Return the groups as they are where events go one by one."""
        return dict(zip(self.keys.at(self.numbers.tolist()), map(list, self.values()), strict=True))

    def find(self, key: Any) -> Groups:
        """Return the one group of a key, or none."""
        self.looked_up += 1
        number = self.keys.find(key)
        places = numpy.flatnonzero(self.numbers == number) if number is not None else ()
        if not len(places):
            return {}
        (slots,) = self.layout.slots_of([key], [column[places] for column in self.columns])
        return {key: list(slots)}

    def snapshot(self) -> list[bytes]:
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
        if not stored or len(stored) != 1 + len(slots):
            raise StateError(f"stored state is damaged: {len(stored)} columns are there in place of {1 + len(slots)}")
        numbers = _numbers(stored[0], size, _NUMBER)
        columns = [_numbers(data, size, slot.type) for data, slot in zip(stored[1:], slots, strict=True)]
        if size and not 0 <= numbers.min() <= numbers.max() < len(keys):
            raise StateError("stored state is damaged: there are groups without a key")
        return cls(layout, keys, numbers, columns)


#: The groups of each bucket, by the start of the bucket.
ByStart = dict[int, Groups | GroupColumns]


class Numbering:
    """The numbers of keys, and where each stands in the open buckets.

    Parameters
    ----------
    layout : Layout
        What keys are.
    keys : Keys
        Those that have numbers already.

    State
    -----
    The keys, and for some buckets an array as long as all of them.
    """

    def __init__(self, layout: Layout, keys: Keys) -> None:
        self._layout = layout
        self.keys = keys
        self._standing: dict[GroupColumns, Any] = {}
        self._free: list[Any] = []

    def bucket(self) -> GroupColumns:
        """Return a bucket without groups."""
        return GroupColumns(self._layout, self.keys)

    def bucket_of(self, groups: Groups) -> GroupColumns | None:
        """Return a bucket with the groups of a plain one; None where there is something in it that is no column."""
        if not groups:
            return self.bucket()
        columns = self._layout.columns_of(groups)
        return None if columns is None else GroupColumns(self._layout, self.keys, self.keys.add(list(groups)), columns)

    def add(self, bucket: GroupColumns, numbers: Any, values: Sequence[Any]) -> None:
        """Add values to the groups of a bucket that have these numbers, one after the other."""
        bucket.fold(self._places(bucket, numbers), values)

    def leave(self, bucket: GroupColumns) -> None:
        """Take note that nothing will be added to a bucket for now."""
        standing = self._standing.pop(bucket, None)
        if standing is not None:
            standing[bucket.numbers] = 0
            self._free.append(standing)
        bucket.shrink()

    def without_others(self, buckets: Sequence[GroupColumns]) -> Numbering:
        """Return new numbers for the keys in these buckets, which have them from now on."""
        kept = numpy.zeros(len(self.keys), bool)
        for bucket in buckets:
            kept[bucket.numbers] = True
        made = Numbering(self._layout, self._layout.numbered(self.keys.at(numpy.flatnonzero(kept).tolist())))
        for bucket in buckets:
            bucket.renumber(made.keys, kept.cumsum() - 1)
        return made

    def _places(self, bucket: GroupColumns, numbers: Any) -> Any:
        """Return where groups stand in a bucket; new ones enter it in the order in which they come."""
        # Places are counted from 1 on: where 0 stands there is no group.
        standing = self._standing.pop(bucket, None)
        if standing is None:
            standing = self._loaded(bucket)
        standing = self._standing[bucket] = grown(standing, len(self.keys))
        found = standing[numbers]
        new = numpy.flatnonzero(found == 0)
        if len(new):
            came, steps = numbers[new], numpy.arange(1, len(new) + 1, dtype=_NUMBER)
            # The first one of those that are the same is written last.
            standing[came[::-1]] = steps[::-1]
            own = came[standing[came] == steps]
            standing[own] = len(bucket) + steps[: len(own)]
            bucket.enter(own)
            found[new] = standing[came]
        return found - 1

    def _loaded(self, bucket: GroupColumns) -> Any:
        if len(self._standing) >= _STANDING:
            longest_ago = next(iter(self._standing))
            standing = self._standing.pop(longest_ago)
            standing[longest_ago.numbers] = 0
        else:
            standing = self._free.pop() if self._free else numpy.zeros(0, _NUMBER)
        standing = grown(standing, len(self.keys))
        standing[bucket.numbers] = numpy.arange(1, len(bucket) + 1)
        return standing


def _bytes(column: Any) -> bytes:
    kind, width = column.dtype.kind, 8
    if kind == "i" and len(column):
        low, high = int(column.min()), int(column.max())
        width = next(width for width in (1, 2, 4, 8) if max(high, ~low) < 1 << 8 * width - 1)
    data: bytes = column.astype(f"<{kind}{width}").tobytes()
    return data


def _numbers(data: bytes, size: int, type: Any) -> Any:
    kind, width = numpy.dtype(type).kind, len(data) // size if size else 8
    if width * size != len(data) or width not in ((1, 2, 4, 8) if kind == "i" else (8,)):
        raise StateError(f"stored state is damaged: {len(data)} bytes are no {size} numbers")
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
        if groups.looked_up < OFTEN:
            return groups.find(key)
        groups = plain_at(buckets, start)
    slots = groups.get(key)
    return {} if slots is None else {key: slots}
