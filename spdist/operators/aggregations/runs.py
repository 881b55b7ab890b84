"""Aggregations that take many events at once: what is open is columns then.

Where the groups of an aggregation only add up, count and compare, a run of events is cut where the clock leaves a
bucket, and what is in between is added to the buckets of its own time by numpy: what an event costs does not depend on
how many keys there are. Closed buckets stay columns until somebody looks for single groups in them, or adds others.
Events that go one by one, for whatever reason, find open buckets in the form that those know; going over from one form
to the other takes as long as looking at all that is open, and is done at most once for so many events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy

from spdist.mapping.read_rows import ReadRows
from spdist.operators.aggregations.buckets import Groups
from spdist.operators.aggregations.columns import OFTEN, ByStart, GroupColumns, Layout, Numbering, Slot, plain
from spdist.operators.aggregations.order import GroupOrder
from spdist.operators.base import Timer, VirtualClock
from spdist.operators.core.at_once import Settling
from spdist.operators.core.group_keys import Keys
from spdist.operators.core.junction import StreamPart

__all__ = ["AggregationRuns", "OpenBuckets"]

#: Fewer events than this do not make an aggregation go over to columns.
FEWEST = 256
#: A run has pieces of so many events on average, besides a few.
_PIECE, _FEW_PIECES = 100, 4
#: So few keys are kept where nothing that is open has them any more.
_FEW_KEYS = 1024
#: The years 2 and 9998, in ms: beyond them there may be no calendar.
_EARLIEST, _LATEST = -62_000_000_000_000, 253_300_000_000_000


class OpenBuckets(Protocol):
    """The aggregation: which buckets are open, and when they end by the clock."""

    bucket: list[Callable[[int], tuple[int, int]]]
    starts: list[int]
    ends: list[int]
    open: list[ByStart]

    def roll(self, now: int) -> None:
        """Close the buckets that have ended at `now`."""
        ...

    def merge(self, buckets: ByStart, start: int, groups: Groups) -> None:
        """Add groups to those of a bucket, which becomes plain, and stays apart from them."""
        ...

    def changed(self) -> None:
        """Take note that what is open has another form."""
        ...


class AggregationRuns(Settling):
    """Takes runs of events of an aggregation (`spdist.operators.core.junction.TakesParts`).

    Parameters
    ----------
    layout : Layout
        What of its groups is columns.
    stream : str
        What it reads.
    buckets : OpenBuckets
        Its state: plain, or columns while this is `ahead`.
    clock : VirtualClock
        The app's.
    order : GroupOrder
        In which groups of an open bucket enter the next one.

    State
    -----
    The keys of what was open when events were taken last, and others as long as they are not more.
    """

    def __init__(
        self, layout: Layout, stream: str, buckets: OpenBuckets, clock: VirtualClock, order: GroupOrder
    ) -> None:
        self._layout = layout
        self._order = order
        self._stream = stream
        self._buckets = buckets
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Know nothing: what is open is plain."""
        self.ahead = False
        self._numbering = Numbering(self._layout, self._layout.numbered(()))
        self._enough = _FEW_KEYS
        self._looked_up = 0
        self._owed = 0

    @property
    def timer(self) -> Timer | None:
        """None: buckets end by the clock, and old ones are removed when that is due."""
        return None

    # Events.

    def take(self, parts: Mapping[str, StreamPart]) -> bool:
        """Take events at once; see `spdist.operators.core.junction.TakesParts`."""
        part = parts[self._stream]
        if not self._is_worth_while(len(part.times), FEWEST):
            return False
        rows = self._layout.read(part.rows)
        values = None if rows is None else self._layout.values(rows)
        pieces = None if rows is None or values is None else self._pieces(rows, part.times)
        if rows is None or values is None or pieces is None or not self._go_over():
            return False
        of, numbers = self._buckets, self._numbering.keys.of(rows, len(rows))
        for now, start, chosen in pieces:
            if now >= of.ends[0]:
                of.roll(now)
            bucket = of.open[0].setdefault(of.starts[0] if start is None else start, self.bucket())
            assert isinstance(bucket, GroupColumns)
            self._numbering.add(bucket, numbers[chosen], [column[chosen] for column in values])
        self._forget()
        return True

    def _pieces(self, rows: ReadRows, due: Any) -> list[tuple[int, int | None, Any]] | None:
        """Return which events go into one bucket each, in order: with the clock then, and the start of their own.

        None where these are too many, or where there may be no calendar.
        """
        clock, by = numpy.maximum(due, self._clock.now), self._layout.by
        times = clock if by is None else rows.numbers(by, 0, len(rows))
        if min(clock[0], times.min()) < _EARLIEST or max(clock[-1], times.max()) > _LATEST:
            return None
        most = _FEW_PIECES + len(clock) // _PIECE
        pieces: list[tuple[int, int | None, Any]] = []
        for begin, end in self._cuts(clock):
            now = int(clock[begin])
            if by is None:
                pieces.append((now, None, slice(begin, end)))
            else:
                pieces += ((now, start, chosen) for start, chosen in self._by_start(times, begin, end, most))
            if len(pieces) > most:
                return None
        return pieces

    def _cuts(self, clock: Any) -> Iterator[tuple[int, int]]:
        """Yield the ranges of events between which the clock leaves a bucket."""
        bucket, end, begin = self._buckets.bucket[0], self._buckets.ends[0], 0
        while begin < len(clock):
            if clock[begin] >= end:
                end = bucket(int(clock[begin]))[1]
            stop = int(numpy.searchsorted(clock, end))
            yield begin, stop
            begin = stop

    def _by_start(self, times: Any, begin: int, end: int, most: int) -> Iterator[tuple[int, Any]]:
        """Yield the starts of buckets as they come, and which events of a range each has; one more than `most`."""
        places, left = None, times[begin:end]
        while len(left) and most >= 0:
            start, stop = self._buckets.bucket[0](int(left[0]))
            own = (left >= start) & (left < stop)
            if places is None:
                if own.all():
                    yield start, slice(begin, end)
                    return
                places = numpy.arange(begin, end)
            yield start, places[own]
            places, left, most = places[~own], left[~own], most - 1

    # Buckets.

    @property
    def places(self) -> list[int]:
        """The places of the slots that are columns."""
        return [place for place, slot in enumerate(self._layout.slots) if isinstance(slot, Slot)]

    def put(self, opened: Mapping[int, tuple[list[Any], list[Any]]], now: int) -> bool:
        """Have these groups be what is open in the finest duration, and all that is open columns, where that can be.

        Parameters
        ----------
        opened : mapping of int to tuple
            Keys, and a column for each of `places`, by the start of the bucket.
        now : int
            The clock, ms.

        Returns
        -------
        bool
            Whether they are; else what is open in the finest duration must be put in its place.
        """
        groups = sum(len(keys) for keys, _ in opened.values())
        if min(now, *opened) <= _EARLIEST or max(now, *opened) >= _LATEST:
            return False
        slots = self._layout.columns
        if not all(slot.takes(column) for _, own in opened.values() for slot, column in zip(slots, own, strict=True)):
            return False
        if not self._is_worth_while(groups, 0):
            return False
        finest = self._buckets.open[0]
        for bucket in finest.values():
            if isinstance(bucket, GroupColumns):
                self._numbering.leave(bucket)
        finest.clear()
        if not self._go_over():
            return False
        known = self._numbering.keys
        made = {at: GroupColumns(self._layout, known, known.add(keys), own) for at, (keys, own) in opened.items()}
        self._buckets.open[0] = dict(made)
        self._forget()
        return True

    def bucket(self) -> GroupColumns:
        """Return an open bucket without groups."""
        return self._numbering.bucket()

    def close(self, closed: ByStart, start: int, bucket: GroupColumns) -> None:
        """Add the groups of a bucket, which is open no more, to those that are closed."""
        self._numbering.leave(bucket)
        known = closed.setdefault(start, bucket)
        if known is bucket:
            return
        if isinstance(known, GroupColumns) and known.keys is bucket.keys:
            self._add(known, bucket)
            self._numbering.leave(known)
        else:
            self._buckets.merge(closed, start, bucket.plain())

    def merge(self, opened: ByStart, start: int, bucket: GroupColumns) -> None:
        """Add the groups of a bucket to those of an open one, which stay apart from them."""
        into = opened.setdefault(start, self.bucket())
        assert isinstance(into, GroupColumns)
        places = self._order.places(bucket.keys.codes(bucket.numbers, self._order.code))
        self._numbering.add(into, bucket.numbers[places], [column[places] for column in bucket.columns])

    def _add(self, into: GroupColumns, bucket: GroupColumns) -> None:
        self._numbering.add(into, bucket.numbers, bucket.columns)

    def _forget(self) -> None:
        """Forget keys that nothing has that is open, once there are many."""
        if len(self._numbering.keys) > self._enough:
            self._numbering = self._numbering.without_others(list(self._open()))
            self._enough = max(_FEW_KEYS, 2 * len(self._numbering.keys))

    def _open(self) -> Iterator[GroupColumns]:
        for level in self._buckets.open:
            yield from (bucket for bucket in level.values() if isinstance(bucket, GroupColumns))

    # Both forms.

    def _go_over(self) -> bool:
        """Have open buckets as columns; False where there is something in them that has no place there."""
        if self.ahead:
            return True
        made: list[ByStart] = []
        for level in self._buckets.open:
            made.append({})
            for start, groups in level.items():
                bucket = self._numbering.bucket_of(plain(groups)) if _EARLIEST < start < _LATEST else None
                if bucket is None:
                    self._owed = sum(len(groups) for level in self._buckets.open for groups in level.values())
                    return False
                made[-1][start] = bucket
        self._buckets.open, self.ahead, self._looked_up = made, True, 0
        self._buckets.changed()
        return True

    def settle(self) -> None:
        """Have open buckets plain, for events that go one by one."""
        if self.ahead:
            self._owed = 0
            for bucket in self._open():
                self._owed += len(bucket)
                self._numbering.leave(bucket)
            self._buckets.open = [{start: plain(groups) for start, groups in of.items()} for of in self._buckets.open]
            self.ahead = False
            self._buckets.changed()

    def look_up(self) -> None:
        """Take note that somebody looks for a single group in what is open."""
        self._looked_up += 1
        if self._looked_up >= OFTEN:
            self.settle()

    # Snapshots.

    def snapshot(self, *states: Sequence[ByStart]) -> list[Any]:
        """Return buckets as plain data, and behind them the keys that the numbers of columns mean."""
        known: dict[Keys, int] = {}

        def stored(groups: Groups | GroupColumns) -> Any:
            if not isinstance(groups, GroupColumns):
                return groups
            return [known.setdefault(groups.keys, len(known)), len(groups), *groups.snapshot()]

        made = [[{start: stored(groups) for start, groups in of.items()} for of in state] for state in states]
        return [*made, [keys.all() for keys in known]]

    def restore(self, keys: Sequence[list[Any]], *states: Sequence[dict[int, Any]]) -> None:
        """Put buckets in place of what a snapshot has of them.

        Raises
        ------
        StateError
            They are not whole.
        """
        self.begin()
        known = [self._layout.numbered(some) for some in keys]
        for level in (level for state in states for level in state):
            for start, stored in level.items():
                if isinstance(stored, list):
                    level[start] = GroupColumns.restored(self._layout, known[stored[0]], stored[1], stored[2:])
        for bucket in self._open():
            self.ahead, self._numbering = True, Numbering(self._layout, bucket.keys)
            self._enough = max(_FEW_KEYS, 2 * len(bucket.keys))
            break
