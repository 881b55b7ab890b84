"""An aggregation that several nodes keep in one database: each writes its own shard, and all shards together are read.

A shard has for each duration, bucket and group one row: all that this node's events add up to *so far*, also in buckets
that are still open. Rows are written whole with the batch that changes them, so that writing one twice changes
nothing. A reader only merges the rows of one duration, whoever has written them, and whether he is alive.

Source: io.siddhi.core.aggregation (IncrementalExecutorsInitialiser, AggregationRuntime: ``SHARD_ID``), described in our
own words. There an open bucket is in no table: other nodes see its events when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from spdist.operators.aggregations.buckets import BucketPlan, Buckets, Groups
from spdist.operators.aggregations.columns import ByStart, plain_at, plain_of
from spdist.operators.aggregations.order import Found, GroupOrder
from spdist.operators.base import Row
from spdist.operators.core.codec import decode, encode
from spdist.operators.core.handlers import Flow
from spdist.operators.core.junction import Drive, Loop, LoopMaker
from spdist.operators.tables.stores import ShardStore

__all__ = ["ShardRows", "merge_shards", "whole_groups", "whole_slots"]

#: From a time to the start and the end of its bucket.
Bucket = Callable[[int], tuple[int, int]]


class _Sharded(Protocol):
    """What is kept in shards: an aggregation."""

    @property
    def durations(self) -> tuple[str, ...]: ...

    @property
    def bucket(self) -> list[Bucket]: ...

    @property
    def open(self) -> list[ByStart]: ...

    @property
    def closed(self) -> list[ByStart]: ...

    @property
    def plan(self) -> BucketPlan: ...

    @property
    def buckets(self) -> Buckets: ...

    @property
    def order(self) -> GroupOrder: ...


def whole_groups(
    wanted: Mapping[int, Mapping[Any, None]], level: int, bucket: Bucket, aggregation: _Sharded
) -> dict[int, Groups]:
    """Return what groups have in buckets of one duration: closed, open, and open in what is finer.

    Parameters
    ----------
    wanted : mapping
        The keys of the groups, by the start of the bucket.
    level : int
        Of the duration.
    bucket : Callable
        That of the duration.
    aggregation : Aggregation
        Has the buckets, which stay as they are.
    """
    whole: dict[int, Groups] = {start: {} for start in wanted}

    def add(start: int, buckets: ByStart, at: int) -> None:
        groups = plain_of(buckets, at)
        aggregation.buckets.merge(whole[start], {key: groups[key] for key in wanted[start] if key in groups})

    for start in wanted:
        if start in aggregation.closed[level]:
            add(start, aggregation.closed[level], start)
    for finer in range(level, -1, -1):
        for at in aggregation.open[finer]:
            if (start := bucket(at)[0]) in wanted:
                add(start, aggregation.open[finer], at)
    return whole


def whole_slots(plan: BucketPlan, start: int, slots: list[Any]) -> list[Any]:
    """Return the slots of a bucket that may be of before it was shared, when it kept no time of its latest event.

    Parameters
    ----------
    plan : BucketPlan
        Of the aggregation.
    start : int
        When the bucket begins, ms: that time.
    slots : list
        Its slots.
    """
    return [start, *slots] if plan.timed and len(slots) < len(plan.slots) else slots


def merge_shards(rows: Iterable[tuple[int, str, Groups]], merge: Callable[[Groups, Groups], None]) -> dict[int, Groups]:
    """Merge the rows of shards into buckets, in the order of the shards, so that all nodes come to the same.

    Parameters
    ----------
    rows : iterable
        The start of a bucket, the name of a shard, and groups that it has there.
    merge : Callable
        Adds groups to groups, which stay apart.
    """
    merged: dict[int, Groups] = {}
    for start, _, groups in sorted(rows, key=lambda row: row[:2]):
        merge(merged.setdefault(start, {}), groups)
    return merged


class ShardRows:
    """The rows of one shard: which have changed, and what they are; and how those of all shards are read.

    Parameters
    ----------
    aggregation : Aggregation
        What is kept.
    store : ShardStore
        Where.
    touched : dict
        The keys of groups that have changed in the bucket that was entered last.

    State
    -----
    The keys that changed since the last batch, by the start of the finest bucket: none between batches.
    """

    def __init__(self, aggregation: _Sharded, store: ShardStore, touched: dict[Any, None]) -> None:
        self._aggregation = aggregation
        self._store = store
        self._touched = touched
        self._at = 0
        self._changed: dict[int, dict[Any, None]] = {}
        #: What was open when this began and is in no row of a coarser duration yet: from before there were shards.
        self._owed: dict[int, dict[Any, None]] = {}
        store.follow(self)

    # What has changed (`spdist.operators.tables.stores.Changes`).

    def enter(self, start: int) -> None:
        """Take note that what is touched from now on is in the bucket of the finest duration that begins at `start`."""
        # First: what was touched until here is of the bucket entered before.
        self._collect()
        self._at = start

    def owe(self, level: int) -> None:
        """Have the open groups of a duration written with the first event."""
        for start in (buckets := self._aggregation.open[level]):
            self._owed.setdefault(start, {}).update(dict.fromkeys(plain_of(buckets, start)))

    def _collect(self) -> None:
        if self._touched:
            self._changed.setdefault(self._at, {}).update(self._touched)
            self._touched.clear()

    @property
    def pending(self) -> bool:
        """Whether rows have changed."""
        return bool(self._touched or self._changed)

    def forget(self) -> None:
        """Forget what has changed: its rows are written already."""
        self._touched.clear()
        self._changed = {}

    def changes(self) -> Iterator[tuple[int, int, list[tuple[Any, Row, bytes]]]]:
        """Yield the rows that have changed since the last call: duration, start of the bucket, groups as for `put`."""
        of = self._aggregation
        self._collect()
        changed, self._changed = self._changed, {}
        for at, keys in self._owed.items():
            changed.setdefault(at, {}).update(keys)
        self._owed = {}
        row = of.buckets.row
        for level, bucket in enumerate(of.bucket):
            for start, groups in whole_groups(_by_start(changed, bucket), level, bucket, of).items():
                yield level, start, [(key, row(start, slots), encode([key, slots])) for key, slots in groups.items()]

    def around(self, flow: Flow) -> Flow:
        """Return a flow that has the store told of what has changed, which outside of batches is durable then."""
        changed = self._store.changed

        def process(ts: int, row: Row) -> None:
            flow.process(ts, row)
            changed()

        def process_chunk(chunk: Any) -> None:
            flow.process_chunk(chunk)
            changed()

        return Flow(process, process_chunk)

    def around_loop(self, make: LoopMaker) -> LoopMaker:
        """Return the same for loops."""
        changed = self._store.changed

        def made(drive: Drive) -> Loop:
            loop = make(drive)

            def run(timestamps: Any, rows: Any) -> None:
                loop(timestamps, rows)
                changed()

            return run

        return made

    # State.

    def snapshot(self) -> str:
        """Return the name of the shard."""
        return self._store.shard

    def restore(self, shard: str | None) -> None:
        """Go on as the shard of a snapshot, whatever the node's settings say; None: it is of before there was one."""
        if shard is not None:
            self._store.go_on(shard)
            return
        of = self._aggregation
        for buckets in (*of.open, *of.closed):
            for start in buckets:
                groups = plain_at(buckets, start)
                groups.update({key: whole_slots(of.plan, start, slots) for key, slots in groups.items()})
        for level in range(len(of.durations)):
            self.owe(level)

    # Reading.

    def rows(self, level: int, start: int, end: int, *key: Any) -> list[Found]:
        """Return the groups of all shards in buckets that begin in a range, or only that of a key, as they are read."""
        of, mine = self._aggregation, self._store.shard
        changed = self._unwritten(level, start, end, *key)
        found = [(at, mine, groups) for at, groups in changed.items()]
        for at, shard, content in self._store.found(level, start, end, *key):
            group, slots = decode(content)
            # Of this shard, what is not written yet stands for the row that is stored.
            if shard != mine or group not in changed.get(at, ()):
                found.append((at, shard, {group: whole_slots(of.plan, at, slots)}))
        merged = merge_shards(found, of.buckets.merge)
        rows = [(at, *group) for at in sorted(merged) for group in merged[at].items()]
        return of.order.read(of.order.closed(rows, len(rows)), lambda: len(rows))

    def _unwritten(self, level: int, start: int, end: int, *key: Any) -> dict[int, Groups]:
        """Return what has changed and is not written yet, as `rows`; it stays to be written."""
        of = self._aggregation
        self._collect()
        changed: dict[int, dict[Any, None]] = self._changed
        if key:
            changed = {at: dict.fromkeys(key) for at, keys in changed.items() if key[0] in keys}
        wanted = {at: keys for at, keys in _by_start(changed, of.bucket[level]).items() if start <= at < end}
        return whole_groups(wanted, level, of.bucket[level], of)


def _by_start(changed: Mapping[int, Mapping[Any, None]], bucket: Bucket) -> dict[int, dict[Any, None]]:
    """Return keys by the start of the bucket of one duration, given by that of the finest one."""
    found: dict[int, dict[Any, None]] = {}
    for at, keys in changed.items():
        found.setdefault(bucket(at)[0], {}).update(keys)
    return found
