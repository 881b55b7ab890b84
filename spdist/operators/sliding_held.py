"""What sliding windows hold, as columns: events in the order in which they came, or those of each key by themselves.

Both tell of a run of events in which order they enter and which others leave before each of them. They hold of an event
the number of its group, and the values that are taken back when it leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from spdist.operators.group_keys import grown
from spdist.operators.running_totals import by_number, ranges

__all__ = ["Held", "HeldByKey", "HeldInOrder", "Moves"]

#: Of fewer events that have left nobody frees the place.
_FEW = 1 << 16
_WHOLE, _GROUP = numpy.int64, numpy.int32


@dataclass(frozen=True, slots=True)
class Moves:
    """How events enter and leave.

    Parameters
    ----------
    groups : numpy.ndarray
        The group of each step, in an order in which those of a group follow one another as they happen.
    entering, leaving : numpy.ndarray
        Which steps are the events that enter, as they came, and which are others that leave.
    left : list of numpy.ndarray
        The values of those that leave.
    """

    groups: Any
    entering: Any
    leaving: Any
    left: list[Any]

    def steps(self, came: Any, left: Any) -> Any:
        """Return what each step adds, given what comes with those that enter and what goes with those that leave."""
        made = numpy.empty(len(self.groups), came.dtype)
        made[self.entering] = came
        made[self.leaving] = -left
        return made


class _Columns:
    """Columns of one length that grow at the end and shrink at the front.

    State
    -----
    Twice what is held, at most, and what was taken since room was made last.
    """

    def __init__(self, kinds: Sequence[Any]) -> None:
        self._arrays = [numpy.empty(0, kind) for kind in kinds]
        self.begin = self.end = 0

    def __len__(self) -> int:
        return self.end - self.begin

    def append(self, columns: Sequence[Any]) -> None:
        """Add rows."""
        end = self.end + len(columns[0])
        if end > len(self._arrays[0]):
            room, held = 2 * (end - self.begin), len(self)
            for number, array in enumerate(self._arrays):
                self._arrays[number] = numpy.empty(room, array.dtype)
                self._arrays[number][:held] = array[self.begin : self.end]
            self.begin, self.end, end = 0, held, end - self.begin
        for array, column in zip(self._arrays, columns, strict=True):
            array[self.end : end] = column
        self.end = end

    def drop(self, count: int) -> None:
        """Take so many rows off the front."""
        self.begin += count

    def all(self) -> list[Any]:
        """Return the columns of all rows; they may change with the next call."""
        return [array[self.begin : self.end] for array in self._arrays]


class HeldInOrder:
    """The events of a window that all leave in the order in which they came: so many of them, or those of a time.

    Parameters
    ----------
    size : int
        Events, or ms.
    timed : bool
        Whether it is ms.
    kinds : Sequence of numpy dtype
        Of the values.

    State
    -----
    The events in the window, and where they are timed those that nobody has missed yet since time has passed.
    """

    def __init__(self, size: int, timed: bool, kinds: Sequence[Any]) -> None:
        self._size = size
        self._timed = timed
        self._columns = _Columns([_GROUP, *([_WHOLE] if timed else []), *kinds])

    def __len__(self) -> int:
        """Return how many events are held."""
        return len(self._columns)

    @property
    def last(self) -> int | None:
        """The timestamp of the event that came last, where they are timed."""
        return int(self._columns.all()[1][-1]) if self._timed and len(self) else None

    def take(self, groups: Any, times: Any, values: Sequence[Any], now: Any) -> Moves:
        """Take events, and return how they enter and what leaves before them.

        Parameters
        ----------
        groups : numpy.ndarray
            The number of the group of each, at least one.
        times : numpy.ndarray
            Their timestamps, ms; where they are timed none is below that of the event before it.
        values : Sequence of numpy.ndarray
            Their values.
        now : numpy.ndarray
            Where the clock is with each of them, ms, never falling.
        """
        held, count = len(self), len(groups)
        self.hold(groups, times, values)
        all_groups, all_times, all_values = self.contents()
        places = numpy.arange(count)
        if self._timed:
            gone = numpy.searchsorted(all_times, now - self._size, "right")
            gone = numpy.minimum(gone, held + places)  # none leaves before it has come
        else:
            gone = numpy.maximum(held + places + 1 - self._size, 0)
        leave = int(gone[-1])
        entering = places + gone
        leaving = numpy.arange(leave) + numpy.searchsorted(gone, numpy.arange(leave), "right")
        steps = numpy.empty(count + leave, _WHOLE)
        steps[entering], steps[leaving] = groups, all_groups[:leave]
        left = [column[:leave] for column in all_values]
        self._columns.drop(leave)
        return Moves(steps, entering, leaving, left)

    def hold(self, groups: Any, times: Any, values: Sequence[Any]) -> None:
        """Hold events that have entered before."""
        self._columns.append([groups, *([times] if self._timed else []), *values])

    def contents(self) -> tuple[Any, Any, list[Any]]:
        """Return the groups, timestamps and values of the events held, in order; None where they are not timed."""
        groups, *rest = self._columns.all()
        return (groups, rest[0], rest[1:]) if self._timed else (groups, None, rest)

    def renumber(self, numbers: Any) -> None:
        """Give groups new numbers, those at the places of the old ones."""
        groups = self._columns.all()[0]
        groups[:] = numbers[groups]


class HeldByKey:
    """The last events of each key, so many of each.

    Events of a key that come together follow one another in columns, and the head of each such piece knows the next
    one of its key. So what leaves is found by piece, and a key that nothing comes for costs nothing.

    Parameters
    ----------
    size : int
        Events of each key.
    kinds : Sequence of numpy dtype
        Of the values.

    State
    -----
    The events held, as many again that have left, and a few numbers for each key.
    """

    def __init__(self, size: int, kinds: Sequence[Any]) -> None:
        self._size = size
        self._kinds = kinds
        self._clear()

    def _clear(self) -> None:
        self._columns = _Columns([_GROUP, *self._kinds])
        self._there = numpy.empty(0, bool)
        #: Of pieces: where they begin and end in the columns, and the next one of their key.
        self._pieces = _Columns([_WHOLE, _WHOLE, _WHOLE])
        #: Of keys: how many events are held, in which pieces the first and the last one are.
        self._counts, self._first, self._last = (numpy.zeros(0, _WHOLE) for _ in range(3))
        self._held = 0

    def __len__(self) -> int:
        """Return how many events are held."""
        return self._held

    @property
    def last(self) -> None:
        """Nobody asks when they have come."""
        return

    def take(self, groups: Any, _times: Any, values: Sequence[Any], _now: Any = None) -> Moves:
        """Take events, and return how they enter and what leaves before them; see `HeldInOrder`."""
        order = by_number(groups)
        keys = groups[order]
        begins = numpy.flatnonzero(numpy.append(True, keys[1:] != keys[:-1]))
        came = numpy.diff(numpy.append(begins, len(keys)))
        present = keys[begins]
        size = int(present[-1]) + 1
        self._counts, self._first, self._last = (
            grown(array, size) for array in (self._counts, self._first, self._last)
        )
        held = self._counts[present]
        # Of its key, the how manieth since the oldest one held.
        ranks = ranges(held, came)
        pushes = ranks >= self._size
        entering_by_key = numpy.arange(len(keys)) + pushes.cumsum()
        leaving = entering_by_key[pushes] - 1
        steps = numpy.empty(len(keys) + len(leaving), _WHOLE)
        steps[entering_by_key], steps[leaving] = keys, keys[pushes]
        entering = numpy.empty_like(entering_by_key)
        entering[order] = entering_by_key

        start = self._columns.end
        leave = numpy.maximum(held + came - self._size, 0)
        of_held = numpy.minimum(leave, held)
        gone = numpy.empty(len(leaving), _WHOLE)
        old = (ranks - self._size)[pushes] < numpy.repeat(held, leave)
        gone[~old] = start + numpy.flatnonzero(pushes)[~old] - self._size
        gone[old] = self._walk(present, of_held)
        self._append(keys, [column[order] for column in values])
        left = [column[gone] for column in self._columns.all()[1:]]
        self._there[gone] = False

        piece = self._pieces.end
        ends = start + begins + came
        self._pieces.append([start + begins + leave - of_held, ends, numpy.zeros(len(present), _WHOLE)])
        numbers = piece + numpy.arange(len(present))
        empty = of_held == held
        self._first[present[empty]] = numbers[empty]
        self._pieces.all()[2][self._last[present[~empty]]] = numbers[~empty]
        self._last[present] = numbers
        self._counts[present] = held + came - leave
        self._held += len(keys) - len(gone)
        if len(self._columns) > 2 * self._held + _FEW:
            contents = self.contents()
            self._clear()
            self.hold(*contents)
        return Moves(steps, entering, leaving, left)

    def hold(self, groups: Any, times: Any, values: Sequence[Any]) -> None:
        """Hold events that have entered before: of no key more than may be."""
        self.take(groups, times, values)

    def _walk(self, keys: Any, counts: Any) -> Any:
        """Take so many events off the front of each key; return where they are, key by key."""
        begins, ends, following = self._pieces.all()
        found = numpy.empty(int(counts.sum()), _WHOLE)
        into = counts.cumsum() - counts
        some = numpy.flatnonzero(counts)
        wanted = counts.copy()
        while len(some):
            pieces = self._first[keys[some]]
            taken = numpy.minimum(ends[pieces] - begins[pieces], wanted[some])
            found[ranges(into[some], taken)] = ranges(begins[pieces], taken)
            begins[pieces] += taken
            into[some] += taken
            wanted[some] -= taken
            over = begins[pieces] == ends[pieces]
            self._first[keys[some[over]]] = following[pieces[over]]
            some = some[wanted[some] > 0]
        return found

    def _append(self, keys: Any, values: Sequence[Any]) -> None:
        self._columns.append([keys, *values])
        self._there = grown(self._there, self._columns.end)
        self._there[self._columns.end - len(keys) : self._columns.end] = True

    def contents(self) -> tuple[Any, None, list[Any]]:
        """Return the groups, no timestamps, and the values of the events held: those of a group in order."""
        there = self._there[: self._columns.end]
        groups, *values = (column[there] for column in self._columns.all())
        return groups, None, values


Held = HeldInOrder | HeldByKey
