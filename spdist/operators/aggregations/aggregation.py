"""Incremental aggregations: totals of a stream in calendar buckets, kept for every duration from seconds to years.

An event is added to the open bucket of the finest duration only. When the clock leaves a bucket it is closed: its
groups are kept for reading, and merged into the open bucket of the next duration. A reader merges what is open.

Source: io.siddhi.core.aggregation (AggregationRuntime, IncrementalExecutor, IncrementalDataAggregator), described in
our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from spdist.errors import ErrorKind, SiddhiTypeError, StateError, UndefinedNameError
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedAggregation
from spdist.language.types import Schema
from spdist.operators.aggregations.buckets import BucketPlan, Groups
from spdist.operators.aggregations.columns import (
    ByStart,
    GroupColumns,
    columns_of,
    find_at,
    layout_of,
    plain,
    plain_at,
    plain_of,
    restore_columns,
    stored_columns,
)
from spdist.operators.aggregations.order import Found, GroupOrder
from spdist.operators.aggregations.purge import Purge
from spdist.operators.aggregations.shards import ShardRows, whole_slots
from spdist.operators.aggregations.time import Calendar, granularity, time_range
from spdist.operators.base import ALWAYS, Arrival, Row
from spdist.operators.core.codec import decode, encode
from spdist.operators.core.handlers import Flow, plan_handlers
from spdist.operators.core.junction import LoopMaker, Receive, ReceiveChunk
from spdist.operators.expressions.lookup import INDEXABLE
from spdist.operators.queries.plans import Place
from spdist.operators.tables.stores import BucketStore, Index, ShardStore

__all__ = ["Adder", "Aggregation", "AggregationView"]

_BEFORE_ALL_TIME = -(2**63)


class Adder(Protocol):
    """Who has the open buckets of the finest duration, and adds events to them in the aggregation's place."""

    def bring(self) -> None:
        """Have the aggregation know all that was added."""
        ...

    def entered(self, start: int, end: int) -> None:
        """Take note of the bucket of an event that the aggregation adds itself, by a time of the event, ms."""
        ...


def _check_kept_here(definition: ast.AggregationDefinition) -> None:
    for store in ast.find_annotations(definition.annotations, "store"):
        if (store.get("type") or "").lower() != "in-memory":
            hint = "Without '@store' an aggregation is kept in the state of its app."
            raise UndefinedNameError(
                f"There is no store '{store.get('type')}'", span=store.span, hint=hint, code=ErrorKind.UNKNOWN_EXTENSION
            )


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
        Keeps closed buckets as well (``@Store``): an aggregation that begins without state goes on from there. A
        `ShardStore` keeps open ones, too, of several nodes, and is what is read.

    State
    -----
    For each duration the open buckets, and the closed ones until `Purge` removes them: O(buckets times groups). Those
    that a program has added up may be columns, and what they were merged into, but in the finest duration.

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
        #: How long the buckets of the finest duration are, ms; 0 where a calendar says that.
        self.length = calendar.length(checked.durations[0])
        #: Who adds events while a program runs the app.
        self.adder: Adder | None = None
        self.plan = BucketPlan(checked, catalog, shared=isinstance(outside, ShardStore))
        self.by_time = self.plan.by is not None
        self.order = GroupOrder(self.plan.group_types, self.by_time)
        self.purging = checked.purging
        self._outside = outside
        self._begin()
        touched: dict[Any, None] = {}
        self.buckets = self.plan.make(self.clock, self.roll, self._enter, touched)
        #: Where several nodes keep it: what this one writes, and all read.
        self.shard = ShardRows(self, outside, touched) if isinstance(outside, ShardStore) else None
        self.purge = Purge(self, calendar, place.timer((rank, 1), lambda due: self.purge.run(due)))
        single = checked.definition.input
        assert single is not None
        stream, handlers = single.stream.id, plan_handlers(self.id, single.before, checked.scope, catalog)
        #: How groups are columns, where a program hands them over so.
        self.layout = None if outside is not None else layout_of(self.plan)
        self.loop: LoopMaker | None = None if handlers else self.buckets.loop
        flow = Flow(self.buckets.process, self.buckets.process_chunk)
        if self.shard is not None:
            flow = self.shard.around(flow)
            self.loop = None if self.loop is None else self.shard.around_loop(self.loop)
        for stage in reversed(handlers):
            flow = stage.before(flow, self.clock)
        self.receivers: Mapping[str, tuple[Receive, ReceiveChunk]] = {stream: (flow.process, flow.process_chunk)}

    def _begin(self) -> None:
        count = len(self.durations)
        self.starts = [_BEFORE_ALL_TIME] * count
        self.ends = [_BEFORE_ALL_TIME] * count
        self.open: list[ByStart] = [{} for _ in range(count)]
        self.closed: list[ByStart] = [{} for _ in range(count)]

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
            for at, states in sorted(buckets.items()):
                self.closed[level][at] = {key: whole_slots(self.plan, at, slots) for key, slots in map(decode, states)}
        if not self.closed[0]:
            return
        newest = max(self.closed[0])
        for level in range(len(self.durations)):
            self.starts[level], self.ends[level] = self.bucket[level](newest)
            for at, groups in self.closed[level - 1].items() if level else ():
                began = self.bucket[level](at)[0]
                if began not in self.closed[level]:
                    self.merge(self.open[level], began, plain(groups))
            if self.shard is not None:
                self.shard.owe(level)
        if not self.by_time:
            self.open[0].setdefault(self.starts[0], {})
        self.changed()

    def _keep(self, level: int, start: int, changed: Groups) -> None:
        """Have the groups of a closed bucket kept outside; a shard has them from when they changed."""
        if self._outside is not None and self.shard is None:
            closed, row = plain_at(self.closed[level], start), self.buckets.row
            kept = [(key, row(start, closed[key]), encode([key, closed[key]])) for key in changed]
            self._outside.put(level, start, kept)

    def removed(self, level: int, before: int) -> None:
        """Take note that the closed buckets that begin before a time were purged."""
        if self._outside is not None:
            self._outside.remove(level, before)

    # Buckets.

    def close_ended(self, now: int) -> None:
        """Close the buckets that have ended at `now`; nothing is open before the first event."""
        self._bring()
        if self.starts[0] > _BEFORE_ALL_TIME:
            self.roll(now)

    def _bring(self) -> None:
        if self.adder is not None:
            self.adder.bring()

    def unchanged_until(self) -> int:
        """Return before which time `close_ended` closes no bucket that has groups."""
        self._bring()
        ends = (end for end, open in zip(self.ends, self.open, strict=True) if any(map(len, open.values())))
        return min(ends, default=ALWAYS)

    def roll(self, now: int) -> None:
        """Close the buckets that have ended at `now`, from the finest duration to the coarsest."""
        for level, end in enumerate(self.ends):
            # A coarser bucket ends no earlier, so the first one that is open ends the loop.
            if now < end:
                break
            # Before the coarser one is closed: what this one hands on still belongs to it.
            self._close(level)
            self.starts[level], self.ends[level] = self.bucket[level](now)
            self.open[level] = {}
        # Without `aggregate by` events go where the clock is: that bucket must be there.
        if not self.by_time:
            self.open[0].setdefault(self.starts[0], {})
        self.changed()

    def changed(self) -> None:
        """Have events that come one by one find the open buckets, and when they end."""
        groups = None if self.by_time else self.open[0].get(self.starts[0])
        if self.shard is not None and not self.by_time:
            self.shard.enter(self.starts[0])
        self.buckets.reset(self.ends[0], None if groups is None else plain(groups))

    def _close(self, level: int) -> None:
        for start, groups in self.open[level].items():
            if groups:
                self.close_bucket(start, groups, level)

    def close_bucket(self, start: int, groups: Groups | GroupColumns, level: int = 0) -> None:
        """Add the groups of a bucket, which is open no more, to those that are closed, and to the next duration."""
        self._into_closed(level, start, groups)
        if level + 1 < len(self.durations):
            self._into_open(level + 1, self.bucket[level + 1](start)[0], groups)

    def _into_closed(self, level: int, start: int, groups: Groups | GroupColumns) -> None:
        self.merge(self.closed[level], start, groups)
        if not isinstance(groups, GroupColumns):
            self._keep(level, start, groups)

    def _into_open(self, level: int, start: int, groups: Groups | GroupColumns) -> None:
        if isinstance(groups, GroupColumns):
            self.merge(self.open[level], start, groups.ordered(self.order))
        else:
            self.merge(self.open[level], start, self.order.groups(groups))

    def merge(self, buckets: ByStart, start: int, groups: Groups | GroupColumns) -> None:
        """Add groups to those of a bucket, which stays apart from plain ones; it is columns where all in it are."""
        into = buckets.get(start)
        if isinstance(into, GroupColumns) and self.layout is not None and not isinstance(groups, GroupColumns):
            groups = columns_of(self.layout, groups) or groups
        if isinstance(groups, GroupColumns) and into is None:
            buckets[start] = groups
        elif isinstance(groups, GroupColumns) and isinstance(into, GroupColumns):
            into.add(groups)
        else:
            self.buckets.merge(plain_at(buckets, start), plain(groups))

    def to_columns(self) -> None:
        """Have open buckets but the finest be columns, where they can be: what a program adds to them stays columns."""
        if self.layout is None:
            return
        for buckets in self.open[1:]:
            for start, groups in buckets.items():
                if not isinstance(groups, GroupColumns):
                    buckets[start] = columns_of(self.layout, groups) or groups

    def _enter(self, time: int) -> tuple[int, int, Groups]:
        start, end = self.bucket[0](time)
        if self.shard is not None:
            self.shard.enter(start)
        if self.adder is not None:
            self.adder.entered(start, end)
        return start, end, plain_at(self.open[0], start)

    # Reading.

    def reader(self) -> AggregationView:
        """Return a store that is turned to the range each reader asks for (`AggregationView.set_range`)."""
        return AggregationView(self)

    def view(self, start: int | str, end: int | str | None, per: str) -> AggregationView:
        """Return the rows of one duration between two times; see `AggregationView.set_range`."""
        view = self.reader()
        view.set_range(start, end, per)
        return view

    def open_rows(self) -> Iterator[tuple[str, int, Row]]:
        """Yield the rows of the open buckets: duration, start in ms, values; what is open below is not in them."""
        self._bring()
        for duration, buckets in zip(self.durations, self.open, strict=True):
            for start in buckets:
                for slots in plain_of(buckets, start).values():
                    yield duration, start, self.buckets.row(start, slots)

    def contents(self) -> Iterable[Arrival]:
        """Refuse: what is read depends on a range and a duration, see `view`."""
        raise SiddhiTypeError(f"the aggregation '{self.id}' is read with 'within … per …'")

    def index(self, attributes: tuple[int, ...]) -> None:
        """Return no index; views have one."""

    # State.

    def snapshot(self) -> Any:
        """Return the state as plain data."""
        self._bring()
        opened, closed, *keys = stored_columns(self.open, self.closed)
        state = [self.starts, self.ends, opened, closed, self.purge.snapshot(), *keys]
        return state if self.shard is None else [*state, self.shard.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot.

        Raises
        ------
        StateError
            It is not whole.
        """
        self.starts, self.ends, self.open, self.closed, purge, *keys = state
        self.purge.restore(purge)
        if self.shard is not None:
            # The name of a shard stands last; what may stand there instead, keys, is a list.
            self.shard.restore(keys.pop() if keys and isinstance(keys[0], str) else None)
        if self.layout is not None:
            restore_columns(self.layout, keys[0] if keys else [], self.open, self.closed)
            # Events are added to the open buckets of the finest duration one by one.
            self.open[0] = {start: plain(groups) for start, groups in self.open[0].items()}
        elif keys:
            raise StateError(f"stored state of the aggregation '{self.id}' is in columns, which it has not")
        self.changed()

    def held_rows(self) -> int:
        """Return how many groups its buckets have."""
        self._bring()
        return sum(len(groups) for level in (*self.open, *self.closed) for groups in level.values())


class AggregationView:
    """What an aggregation has between two times, per duration (`spdist.operators.tables.stores.Store`).

    It is made once and turned to another range by `set_range`, so that what was compiled for it stays.

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

    def set_range(self, start: int | str | None, end: int | str | None, per: str | None) -> None:
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
        """Yield the rows, each with the start of its bucket as timestamp; see `spdist.operators.aggregations.order`."""
        row = self.aggregation.buckets.row
        for start, _, slots in self._all():
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
        first = of.plan.shown[of.plan.group[0]]
        for start, _, slots in self._all(key):
            row = of.buckets.row(start, slots)
            # The group of null has the key 'null'.
            if len(of.plan.group) > 1 or row[first] is not None:
                yield start, row

    def _all(self, *key: Any) -> list[Found]:
        """Return the groups in the range, or only that of a key."""
        shard = self.aggregation.shard
        if shard is not None:
            return shard.rows(self.level, *self.range, *key)
        return self._found((lambda buckets, start: find_at(buckets, start, *key)) if key else plain_of)

    def _found(self, chosen: Callable[[ByStart, int], Groups]) -> list[Found]:
        """Return those of the groups in the range that are chosen, in the order in which they are read."""
        of, (start, end), order = self.aggregation, self.range, self.aggregation.order
        of.close_ended(of.clock.now)
        closed = of.closed[self.level]
        merged: ByStart = {}
        for open_at, level, at in self._open(start, end):
            if open_at not in merged and open_at in closed and start <= open_at < end:
                of.merge(merged, open_at, chosen(closed, open_at))
            of.merge(merged, open_at, order.groups(chosen(of.open[level], at)))
        kept = [at for at in sorted(closed) if start <= at < end and at not in merged]
        rows = [(at, *group) for at in kept for group in order.groups(chosen(closed, at)).items()]
        added = [(at, *group) for at in sorted(merged) for group in plain(merged[at]).items()]
        rows = [*order.closed(rows, of.purge.most(self.level)), *order.open(added)]
        return order.read(rows, self._size)

    def _size(self) -> int:
        """Return how many groups there are in the range."""
        of, (start, end) = self.aggregation, self.range
        closed = of.closed[self.level]
        merged: dict[int, set[Any]] = {}
        for open_at, level, at in self._open(start, end):
            merged.setdefault(open_at, set()).update(plain_of(of.open[level], at))
        for at, keys in merged.items():
            keys.update(plain_of(closed, at) if start <= at < end and at in closed else ())
        alone = (len(groups) for at, groups in closed.items() if start <= at < end and at not in merged)
        return sum(alone) + sum(map(len, merged.values()))

    def _open(self, start: int, end: int) -> Iterable[tuple[int, int, int]]:
        """Yield of the open buckets in the range, coarse ones first, what they are part of, their level and start."""
        of = self.aggregation
        for level in range(self.level, -1, -1):
            for at, groups in of.open[level].items():
                began = of.bucket[self.level](at)[0] if of.by_time else of.starts[self.level]
                if groups and start <= (at if of.by_time else began) < end:
                    yield began, level, at
