"""Incremental aggregations: totals of a stream in calendar buckets, kept for every duration from seconds to years.

An event is added to the open bucket of the finest duration only. When the clock leaves a bucket it is closed: its
groups are kept for reading, and merged into the open bucket of the next duration. A reader merges what is open.

Source: io.siddhi.core.aggregation (AggregationRuntime, IncrementalExecutor, IncrementalDataAggregator), described in
our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from spdist.errors import SiddhiTypeError, UnknownExtensionError
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checked import CheckedAggregation
from spdist.language.types import Schema
from spdist.operators.aggregation_buckets import BucketPlan, Groups
from spdist.operators.aggregation_purge import Purge
from spdist.operators.aggregation_time import Calendar, granularity, time_range
from spdist.operators.base import Arrival
from spdist.operators.codec import decode, encode
from spdist.operators.finding import INDEXABLE
from spdist.operators.handlers import Flow, plan_handlers
from spdist.operators.junction import ReceiveMany, ReceiveOne
from spdist.operators.plans import Place
from spdist.operators.stores import BucketStore, Index

__all__ = ["Aggregation", "AggregationView"]

_BEFORE_ALL_TIME = -(2**63)

#: The groups of each bucket, by the start of the bucket.
_ByStart = dict[int, Groups]


def _check_kept_here(definition: ast.AggregationDefinition) -> None:
    for store in ast.find_annotations(definition.annotations, "store"):
        if (store.get("type") or "").lower() != "in-memory":
            hint = "Without '@store' an aggregation is kept in the state of its app."
            raise UnknownExtensionError(f"There is no store '{store.get('type')}'", span=store.span, hint=hint)


class Aggregation:
    """A running aggregation.

    Parameters
    ----------
    checked : CheckedAggregation
        The definition with what its names mean.
    rank : int
        Of its purge timer, among those of the app.
    catalog : Catalog
        Signatures.
    place : Place
        Clock and timers.
    zone : str
        The time zone of hours, days, months and years.
    outside : BucketStore, optional
        Keeps closed buckets as well (``@Store``): an aggregation that begins without state goes on from there.

    State
    -----
    For each duration the open buckets, and the closed ones until `Purge` removes them: O(buckets times groups).

    Notes
    -----
    Without ``aggregate by`` an event counts where the clock is. With it, where its own time is, however late it comes;
    which buckets are open goes by the clock all the same. Siddhi keeps an aggregation over a filtered stream empty;
    here the filter filters.
    """

    def __init__(
        self,
        checked: CheckedAggregation,
        rank: int,
        catalog: Catalog,
        place: Place,
        zone: str = "GMT",
        outside: BucketStore | None = None,
    ) -> None:
        if outside is None:
            _check_kept_here(checked.definition)
        self.checked = checked
        self.id = checked.id
        self.durations = checked.durations
        self.clock = place.clock
        calendar = Calendar(zone)
        self.bucket: list[Callable[[int], tuple[int, int]]] = [calendar.bucket(d) for d in checked.durations]
        self.plan = BucketPlan(checked, catalog)
        self.by_time = self.plan.by is not None
        self.purging = checked.purging
        self._outside = outside
        self._begin()
        self.buckets = self.plan.make(self.clock, self.roll, self._enter)
        self.purge = Purge(self, calendar, place.timer((rank, 1), lambda due: self.purge.run(due)))
        flow = Flow(self.buckets.one, self.buckets.many)
        single = checked.definition.input
        assert single is not None
        handlers = plan_handlers(self.id, single.before, checked.scope, catalog)
        for stage in reversed(handlers):
            flow = stage.before(flow, self.clock)
        self.loop = None if handlers else self.buckets.loop
        self.receivers: Mapping[str, tuple[ReceiveOne, ReceiveMany]] = {single.stream.id: (flow.one, flow.many)}

    def _begin(self) -> None:
        count = len(self.durations)
        self.starts = [_BEFORE_ALL_TIME] * count
        self.ends = [_BEFORE_ALL_TIME] * count
        self.open: list[_ByStart] = [{} for _ in range(count)]
        self.closed: list[_ByStart] = [{} for _ in range(count)]

    @property
    def schema(self) -> Schema:
        """The attributes of its rows: ``AGG_TIMESTAMP``, and what is selected."""
        return self.checked.output

    def start(self) -> None:
        """Begin: purges are counted from now."""
        if self._outside is not None:
            self._load(self._outside.load())
        self.purge.start(self.clock.now)

    def _load(self, stored: list[dict[int, list[bytes]]]) -> None:
        """Go on from closed buckets: what is not in a closed bucket of the next duration is open there."""
        for level, buckets in enumerate(stored):
            self.closed[level] = {at: dict(map(decode, states)) for at, states in sorted(buckets.items())}
        if not self.closed[0]:
            return
        newest = max(self.closed[0])
        for level in range(len(self.durations)):
            self.starts[level], self.ends[level] = self.bucket[level](newest)
            for at, groups in self.closed[level - 1].items() if level else ():
                began = self.bucket[level](at)[0]
                if began not in self.closed[level]:
                    _add(self.buckets.merge, self.open[level], began, groups)
        if not self.by_time:
            self.open[0].setdefault(self.starts[0], {})
        self._reset()

    def _keep(self, level: int, start: int, changed: Groups) -> None:
        """Have the groups of a closed bucket kept outside."""
        if self._outside is not None:
            closed, row = self.closed[level][start], self.buckets.row
            kept = [(key, row(start, closed[key]), encode([key, closed[key]])) for key in changed]
            self._outside.put(level, start, kept)

    def removed(self, level: int, start: int) -> None:
        """Take note that a closed bucket was purged."""
        if self._outside is not None:
            self._outside.remove(level, start)

    # Buckets.

    def settle(self) -> None:
        """Close the buckets that have ended by the clock; nothing is open before the first event."""
        if self.starts[0] > _BEFORE_ALL_TIME:
            self.roll(self.clock.now)

    def roll(self, now: int) -> None:
        """Close the buckets that have ended at `now`, from the finest duration to the coarsest."""
        for level, end in enumerate(self.ends):
            if now < end:
                break
            self._close(level)
            self.starts[level], self.ends[level] = self.bucket[level](now)
            self.open[level] = {}
        if not self.by_time:
            self.open[0].setdefault(self.starts[0], {})
        self._reset()

    def _reset(self) -> None:
        self.buckets.reset(self.ends[0], None if self.by_time else self.open[0].get(self.starts[0]))

    def _close(self, level: int) -> None:
        for start, groups in self.open[level].items():
            if groups:
                _add(self.buckets.merge, self.closed[level], start, groups)
                self._keep(level, start, groups)
                if level + 1 < len(self.durations):
                    _add(self.buckets.merge, self.open[level + 1], self.bucket[level + 1](start)[0], groups)

    def _enter(self, time: int) -> tuple[int, int, Groups]:
        start, end = self.bucket[0](time)
        return start, end, self.open[0].setdefault(start, {})

    # Reading.

    def reader(self) -> AggregationView:
        """Return a store that is turned to the range each reader asks for (`AggregationView.look`)."""
        return AggregationView(self)

    def view(self, start: int | str, end: int | str | None, per: str) -> AggregationView:
        """Return the rows of one duration between two times; see `AggregationView.look`."""
        view = self.reader()
        view.look(start, end, per)
        return view

    def contents(self) -> Iterable[Arrival]:
        """Refuse: what is read depends on a range and a duration, see `view`."""
        raise SiddhiTypeError(f"the aggregation '{self.id}' is read with 'within … per …'")

    def index(self, attributes: tuple[int, ...]) -> None:
        """Return no index; views have one."""

    # State.

    def snapshot(self) -> Any:
        """Return the state as plain data."""
        return [self.starts, self.ends, self.open, self.closed, self.purge.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.starts, self.ends, self.open, self.closed, purge = state
        self.purge.restore(purge)
        self._reset()


def _add(merge: Callable[[Groups, Groups], None], buckets: _ByStart, start: int, groups: Groups) -> None:
    merge(buckets.setdefault(start, {}), groups)


class AggregationView:
    """What an aggregation has between two times, per duration (`spdist.operators.stores.Store`).

    It is made once and turned to another range by `look`, so that what was compiled for it stays.

    State
    -----
    The range; none of the rows.

    Notes
    -----
    Which open buckets a range takes is Siddhi's: with ``aggregate by`` those finer than `per` are chosen by their own
    start, so that a range that begins within a bucket of `per` gives the part of it that is open still.
    """

    def __init__(self, aggregation: Aggregation) -> None:
        self.aggregation = aggregation
        self.range = (0, 0)
        self.level = 0

    @property
    def schema(self) -> Schema:
        """The attributes of its rows."""
        return self.aggregation.schema

    def look(self, start: int | str | None, end: int | str | None, per: str | None) -> None:
        """Turn to another range and duration.

        Parameters
        ----------
        start, end : int or str
            What stands behind ``within``: times in ms or as text, or one text with stars and None. Buckets count that
            begin at or after the start and before the end.
        per : str
            The duration, as a word: ``seconds``, ``min``…

        Raises
        ------
        SiddhiAppError
            A time or a duration is none, or the aggregation does not have the duration.
        """
        of = self.aggregation
        self.range = time_range(start) if end is None else time_range(start, end)
        self.level = of.durations.index(granularity(per, of.durations, of.id))

    def contents(self) -> Iterable[Arrival]:
        """Yield the rows in the order of their buckets, each with the start of its bucket as timestamp."""
        row = self.aggregation.buckets.row
        for start, groups in self._buckets(lambda groups: groups):
            for slots in groups.values():
                yield start, row(start, slots)

    def index(self, attributes: tuple[int, ...]) -> Index | None:
        """Return an index on the attributes of ``group by``, where all of them are fixed."""
        of = self.aggregation
        shown = tuple(of.plan.shown.get(column, -1) for column in of.plan.group)
        if not shown or -1 in shown or not set(shown) <= set(attributes):
            return None
        if any(of.schema.types[position] not in INDEXABLE for position in shown):
            return None
        return Index(shown, self._lookup)

    def _lookup(self, key: Any) -> Iterable[Arrival]:
        of = self.aggregation

        def own(groups: Groups) -> Groups:
            slots = groups.get(key)
            return {} if slots is None else {key: slots}

        first = of.plan.shown[of.plan.group[0]]
        for start, groups in self._buckets(own):
            for slots in groups.values():
                row = of.buckets.row(start, slots)
                # The group of null has the key 'null'.
                if len(of.plan.group) > 1 or row[first] is not None:
                    yield start, row

    def _buckets(self, chosen: Callable[[Groups], Groups]) -> Iterable[tuple[int, Groups]]:
        """Yield the buckets with those of their groups that are chosen, in order."""
        of, (start, end) = self.aggregation, self.range
        of.settle()
        closed = of.closed[self.level]
        merged: _ByStart = {}
        for open_at, groups in self._open(start, end):
            if open_at not in merged and open_at in closed and start <= open_at < end:
                _add(of.buckets.merge, merged, open_at, chosen(closed[open_at]))
            _add(of.buckets.merge, merged, open_at, chosen(groups))
        starts = {at for at in closed if start <= at < end}
        for at in sorted(starts.union(merged)):
            yield at, merged[at] if at in merged else chosen(closed[at])

    def _open(self, start: int, end: int) -> Iterable[tuple[int, Groups]]:
        """Yield the open groups in the range, coarse ones first, each with the start of its bucket in this duration."""
        of = self.aggregation
        for level in range(self.level, -1, -1):
            for at, groups in of.open[level].items():
                began = of.bucket[self.level](at)[0] if of.by_time else of.starts[self.level]
                if groups and start <= (at if of.by_time else began) < end:
                    yield began, groups
