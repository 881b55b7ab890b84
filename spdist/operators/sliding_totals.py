"""The state of a query over a sliding window as columns: its totals by group, and what the window holds.

From the state of a query that takes events one by one, and back to it: both go on to the same results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from spdist.errors import StateError
from spdist.language.types import Type
from spdist.mapping.read_rows import ReadRows
from spdist.operators.added_up import WHOLE, AddedUp
from spdist.operators.base import Arrival
from spdist.operators.group_keys import Keys, grown
from spdist.operators.running_totals import Steps, by_number
from spdist.operators.sliding_held import Held, HeldByKey, HeldInOrder

__all__ = ["SlidingPlan", "SlidingState", "Slots"]

#: Beyond it Siddhi's sums of whole numbers drift when values leave.
_EXACT = 2**52
#: So few groups are kept where nothing is of them any more.
_FEW = 1024

#: Of each group the slots of its totals (`spdist.operators.selector.SelectorState`); all are one where the key is ().
Slots = dict[Any, list[Any]]


@dataclass(frozen=True, slots=True)
class SlidingPlan(AddedUp):
    """How a query adds up what is in its window.

    Parameters
    ----------
    keys, items, types
        See `AddedUp`.
    size : int
        Of the window: ms, or events.
    timed : bool
        Whether it is a window of time.
    each : bool
        Whether each group has a window of its own: the keys of a partition.
    """

    size: int
    timed: bool
    each: bool

    @property
    def added(self) -> tuple[int, ...]:
        """The attributes that are added up."""
        return tuple(dict.fromkeys(attribute for name, attribute in self.items if name in ("sum", "avg")))

    @property
    def sums(self) -> tuple[tuple[int, bool], ...]:
        """What is added up, and whether as whole numbers: for averages nothing is."""
        found = ((a, self.types[a] in WHOLE and name == "sum") for name, a in self.items if name in ("sum", "avg"))
        return tuple(dict.fromkeys(found))

    def described(self) -> list[Any]:
        """Return this as plain data."""
        types = [type.value for type in self.types]
        return [list(self.keys), [list(item) for item in self.items], types, self.size, self.timed, self.each]

    @classmethod
    def of(cls, described: Sequence[Any]) -> SlidingPlan:
        """Return what was `described`."""
        keys, items, types, *rest = described
        return cls(tuple(keys), tuple((name, a) for name, a in items), tuple(map(Type, types)), *rest)


class SlidingState:
    """Totals and window of a query as columns.

    Parameters
    ----------
    plan : SlidingPlan
        What it adds up.

    State
    -----
    The window's events, with nothing but what is taken back when they leave; and totals of the groups, those of groups
    that are as good as new for a while longer. Keys of a partition with a window of length stay for ever.
    """

    def __init__(self, plan: SlidingPlan) -> None:
        self.plan = plan
        kinds = [_kind(plan.types[attribute]) for attribute in plan.added]
        ordered = plan.timed or not plan.each
        self.held: Held = HeldInOrder(plan.size, plan.timed, kinds) if ordered else HeldByKey(plan.size, kinds)
        self._keys = Keys(plan.keys, plan.types)
        self._counts = numpy.zeros(0, numpy.int64)
        self._sums = [numpy.zeros(0, numpy.int64 if whole else numpy.float64) for _, whole in plan.sums]
        self._greatest = 0
        self._enough = _FEW

    # Events.

    def take(self, rows: ReadRows, times: Any, due: Any, now: int) -> list[Any] | None:
        """Take events, and return the columns of what is put out for each; None where they go one by one.

        Parameters
        ----------
        rows : ReadRows
            Their values.
        times, due : numpy.ndarray
            Their timestamps, and when they are due, ms, int64; the latter never fall.
        now : int
            The clock before them, ms.
        """
        values, queued = self._values(rows, len(times)), self._queued(times)
        groups = None if values is None or queued is None else self._groups(rows, len(times))
        if groups is None or values is None:
            return None
        with numpy.errstate(all="ignore"):
            moves = self.held.take(groups, queued, values, numpy.maximum(due, now))
            steps = Steps(moves.groups)
            one = numpy.ones(1, numpy.int64)
            counts, self._counts[steps.present] = steps.run(self._counts[steps.present], moves.steps(one, one))
            sums = {}
            for total, (attribute, whole) in zip(self._sums, self.plan.sums, strict=True):
                place = self.plan.added.index(attribute)
                came, left = values[place], moves.left[place]
                if not whole:
                    came, left = came.astype(numpy.float64), left.astype(numpy.float64)
                run, total[steps.present] = steps.run(total[steps.present], moves.steps(came, left))
                sums[attribute, whole] = run[moves.entering]
            shown = [self._shown(name, attribute, counts[moves.entering], sums) for name, attribute in self.plan.items]
        self._forget()
        return shown

    def _shown(self, name: str, attribute: int, counts: Any, sums: Mapping[tuple[int, bool], Any]) -> Any:
        if not name:
            return attribute
        if name == "count":
            return counts
        if name == "avg":
            return sums[attribute, False] / counts
        return sums[attribute, self.plan.types[attribute] in WHOLE]

    def _queued(self, times: Any) -> Any:
        """Return as of when events may leave a window of time; None where those of each group wait by themselves.

        A late event waits behind younger ones that came before it, and leaves with them.
        """
        last = self.held.last if self.plan.timed else None
        first = times[:1] if last is None else numpy.maximum(times[:1], last)
        queued = numpy.maximum.accumulate(numpy.append(first, times[1:])) if self.plan.timed else times
        return None if self.plan.each and (queued != times).any() else queued

    def _values(self, rows: ReadRows, count: int) -> list[Any] | None:
        """Return what is added up; None where there is a null, or sums may not be exact."""
        values = []
        greatest = self._greatest
        for attribute in self.plan.added:
            numbers = rows.numbers(attribute, 0, count)
            if numbers is None:
                return None
            if self.plan.types[attribute] in WHOLE:
                numbers = numbers.astype(numpy.int64)
                if (attribute, True) in self.plan.sums:
                    greatest = max(greatest, int(numbers.max()), -int(numbers.min()))
            values.append(numbers)
        if greatest * (len(self.held) + count) >= _EXACT // 2:
            return None
        self._greatest = greatest
        return values

    def _groups(self, rows: ReadRows, count: int) -> Any:
        """Return the number of each event's group; None where a key has a null."""
        groups = self._keys.of(rows, count)
        self._grow()
        return groups

    def _grow(self) -> None:
        """Have totals for all groups."""
        self._counts = grown(self._counts, len(self._keys))
        self._sums = [grown(total, len(self._keys)) for total in self._sums]

    def _forget(self) -> None:
        """Forget groups that are as good as new, once there are many."""
        if len(self._keys) <= self._enough or not isinstance(self.held, HeldInOrder):
            return
        kept = self._kept()
        self._keys.keep(kept.tolist())
        self._counts = self._counts[: len(kept)][kept]
        self._sums = [total[: len(kept)][kept] for total in self._sums]
        self.held.renumber(kept.cumsum() - 1)
        self._enough = max(_FEW, 2 * len(self._keys))

    def _kept(self) -> Any:
        """Return of each group whether something is of it: a remainder of real numbers, too."""
        size = len(self._keys)
        kept = self._counts[:size] != 0
        for total in self._sums:
            kept = kept | (total[:size] != 0)
        return kept

    # The same for a query that takes events one by one.

    @classmethod
    def of(cls, plan: SlidingPlan, slots: Slots, events: Sequence[Arrival]) -> SlidingState | None:
        """Return the state of a query that went event by event; None where it has what columns have not.

        Parameters
        ----------
        plan : SlidingPlan
            What it adds up.
        slots : dict
            The totals.
        events : Sequence of (int, tuple)
            What the window holds, those of a group in order.
        """
        state = cls(plan)
        held = numpy.zeros(0, numpy.int64)
        if events:
            rows = ReadRows.of([row for _, row in events], plan.types, {*plan.keys, *plan.added})
            values = None if rows is None else state._values(rows, len(events))
            groups = None if rows is None or values is None else state._groups(rows, len(events))
            times = numpy.array([time for time, _ in events], numpy.int64)
            if values is None or groups is None or (plan.timed and not _in_order(times, groups if plan.each else None)):
                return None
            held = numpy.bincount(groups)
            order = times.argsort(kind="stable") if plan.timed else numpy.arange(len(times))
            state.held.hold(groups[order], times[order], [column[order] for column in values])
        numbers = state._keys.add(list(slots)).tolist()
        state._grow()
        held = grown(held, len(state._keys))
        for number, own in zip(numbers, slots.values(), strict=True):
            counts, sums = _read(plan, own)
            if counts != {int(held[number])} or any(isinstance(one, int) and abs(one) >= _EXACT // 2 for one in sums):
                return None  # nulls were added, or sums have drifted
            state._counts[number] = held[number]
            for total, one in zip(state._sums, sums, strict=True):
                total[number] = one
        return state if int(state._counts.sum()) == len(events) else None

    def plain(self) -> tuple[Slots, list[Arrival]]:
        """Return the totals of the groups, and what the window holds, as `of` takes them.

        What nobody looks at is not there any more: other attributes are null, timestamps 0 in a window of length.
        """
        groups, times, values = self.held.contents()
        keys = self._keys.all()
        columns: list[Sequence[Any]] = [[None] * len(groups)] * len(self.plan.types)
        numbers = groups.tolist()
        for place, attribute in enumerate(self.plan.keys):
            columns[attribute] = [keys[n][place] if len(self.plan.keys) > 1 else keys[n] for n in numbers]
        for attribute, column in zip(self.plan.added, values, strict=True):
            columns[attribute] = column.tolist()
        at = [0] * len(groups) if times is None else times.tolist()
        events = list(zip(at, zip(*columns, strict=True), strict=True))
        kept = self._kept().tolist()
        counts, sums = self._counts.tolist(), [total.tolist() for total in self._sums]
        slots = {
            key: _written(self.plan, counts[number], [total[number] for total in sums])
            for number, key in enumerate(keys)
            if kept[number] or not self.plan.keys
        }
        return slots, events

    # Snapshots.

    def snapshot(self) -> dict[str, Any]:
        """Return the state as plain data."""
        groups, times, values = self.held.contents()
        size = len(self._keys)
        return {
            "sliding": self.plan.described(),
            "rows": len(groups),
            "keys": self._keys.all(),
            "counts": _bytes(self._counts[:size]),
            "sums": [_bytes(total[:size]) for total in self._sums],
            "groups": _bytes(groups),
            "times": None if times is None else _bytes(times),
            "values": [_bytes(column) for column in values],
        }

    @classmethod
    def restored(cls, stored: Mapping[str, Any]) -> SlidingState:
        """Return the state of a snapshot.

        Raises
        ------
        StateError
            It is not whole.
        """
        state = cls(SlidingPlan.of(stored["sliding"]))
        state._keys.add(stored["keys"])
        size = len(state._keys)
        kinds = [total.dtype for total in state._sums]
        state._counts = _numbers(stored["counts"], numpy.int64, size)
        state._sums = [_numbers(one, kind, size) for one, kind in zip(stored["sums"], kinds, strict=True)]
        rows, added = stored["rows"], state.plan.added
        groups = _numbers(stored["groups"], numpy.int32, rows)
        times = None if stored["times"] is None else _numbers(stored["times"], numpy.int64, rows)
        values = [
            _numbers(data, _kind(state.plan.types[attribute]), rows)
            for attribute, data in zip(added, stored["values"], strict=True)
        ]
        if rows:
            state.held.hold(groups, times, values)
        for attribute, column in zip(added, values, strict=True):
            if (attribute, True) in state.plan.sums and len(column):
                state._greatest = max(state._greatest, int(column.max()), -int(column.min()))
        return state


def _in_order(times: Any, groups: Any) -> bool:
    """Tell whether times never fall, or where groups are given those of no group do."""
    falls = numpy.diff(times if groups is None else times[by_number(groups)]) < 0
    return not (falls if groups is None else falls & (numpy.diff(groups[by_number(groups)]) == 0)).any()


def _kind(type: Type) -> Any:
    return numpy.int64 if type in WHOLE else numpy.float64


def _bytes(array: Any) -> bytes:
    data: bytes = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return data


def _numbers(data: bytes, kind: Any, size: int) -> Any:
    found = numpy.frombuffer(data, numpy.dtype(kind).newbyteorder("<")).astype(kind)
    if len(found) != size:
        raise StateError(f"stored state is damaged: {len(found)} numbers are there in place of {size}")
    return found


def _read(plan: SlidingPlan, slots: Sequence[Any]) -> tuple[set[int], list[Any]]:
    """Return what the slots of a group count, and what they add up, in the order of `SlidingPlan.sums`."""
    counts, sums, rest = set(), {}, iter(slots)
    for name, attribute in plan.items:
        if name == "count":
            counts.add(next(rest))
        elif name:
            whole = name == "sum" and plan.types[attribute] in WHOLE
            sums[attribute, whole] = next(rest)
            # Where values can leave, a sum counts by twos.
            counts.add(next(rest) >> (name == "sum"))
    return counts, list(sums.values())


def _written(plan: SlidingPlan, count: int, sums: Sequence[Any]) -> list[Any]:
    """Return the slots of a group."""
    totals = dict(zip(plan.sums, sums, strict=True))
    slots: list[Any] = []
    for name, attribute in plan.items:
        if name == "count":
            slots.append(count)
        elif name == "avg":
            slots += (totals[attribute, False], count)
        elif name:
            slots += (totals[attribute, plan.types[attribute] in WHOLE], 2 * count + bool(count))
    return slots
