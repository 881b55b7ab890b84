"""The shards of a streaming transformation that a Python process runs, with their live state; values and files only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spdist.engine.frames.app import FrameApp, most_jump_ms
from spdist.engine.frames.plan import FramePlan
from spdist.engine.frames.spans import Intervals, covered, reach
from spdist.engine.frames.state import FrameDirectory, QueryStart
from spdist.engine.frames.wire import Told, by_shard
from spdist.engine.island.island import Island
from spdist.engine.shards.shard import Shard, SnapshotPolicy
from spdist.planning.topology import AssignedInput, Assignment
from spdist.transports.base import Record
from spdist.transports.payloads.payload import arrow_bytes

__all__ = ["FrameShards"]


class FrameShards:
    """What a process keeps of one start of a query.

    Parameters
    ----------
    plan : FramePlan
        What is to be done.
    home : FrameDirectory
        Where the state is.
    start : QueryStart
        The start.
    policy : SnapshotPolicy, optional
        When there are snapshots.

    State
    -----
    The shards that tasks of this process have run: all of them at most. They may have been run elsewhere in between.

    Raises
    ------
    StateError
        The state is not that of this query and plan.
    """

    def __init__(
        self, plan: FramePlan, home: FrameDirectory, start: QueryStart, policy: SnapshotPolicy | None = None
    ) -> None:
        self._plan = plan
        self._home = home
        self._policy = policy
        self._opening = home.enter(plan, start)
        self._shards: dict[int, Shard] = {}

    def process(self, start: QueryStart, order: Sequence[str], batches: Iterable[Any]) -> Iterator[Any]:
        """Run a micro-batch, or some shards of it, and yield what they put out.

        Parameters
        ----------
        start : QueryStart
            Which micro-batch it is.
        order : sequence of str
            The columns by which rows of one time are sorted.
        batches : iterable
            The rows, in any order, and what tells when those of all shards are; nothing changes where there are none.
        """
        parts: dict[int, list[Any]] = {}
        told: dict[int, Told] = {}
        for batch in batches:
            for number, rows in by_shard(batch):
                events = told.setdefault(number, Told()).events(rows)
                parts.setdefault(number, []).append(events)
        for number in sorted(parts):
            # `pop` lets go of the rows of a shard before the next one is processed
            records = batch_records(told[number].intervals, _sorted(parts.pop(number), order))
            yield from self._shard(number, start).process(start.batch, records, 0, {})

    def _shard(self, number: int, start: QueryStart) -> Shard:
        """Return a shard for a batch; what is stored must be the state of the batch before, or of this one."""
        if number not in self._shards:
            store, make = self._home.store(number, self._plan.shards), partial(FrameIsland, self._plan, number)
            self._shards[number] = Shard(store, self._opening, make, self._policy, commits=True)
        shard = self._shards[number]
        if not shard.is_before(start.batch):
            self._home.check_shard(shard.store, start)
        return shard


def _sorted(parts: Sequence[Any], order: Sequence[str]) -> Any:
    """Return rows as one table, by time; a shuffle brings them in another order each time."""
    rows = pa.Table.from_batches(parts)
    times = rows.column("time").to_numpy()
    if not bool((times[1:] > times[:-1]).all()):
        keys = [(name, "ascending") for name in ("time", *order)]
        rows = rows.take(pc.sort_indices(rows, sort_keys=keys))
    return rows.drop_columns([name for name in rows.column_names if not _stays(name)])


def _stays(name: str) -> bool:
    return name in ("time", "stream") or name.startswith("value_")


# The app of a shard as an island: what a batch of a streaming query brings in, Arrow batches of the result out.


#: Where the records of a batch stand: those that say when the events of all shards begin and end, and the events.
_BEGINS, _ENDS, _EVENTS = 0, 1, 2
_TOPIC = "frames"
#: Events of one record.
_ROWS = 50_000


def batch_records(intervals: Intervals, rows: Any) -> list[Record]:
    """Return what a batch brings a shard as records, to be kept.

    Parameters
    ----------
    intervals : Intervals
        When the events of all shards are; empty where there is one shard.
    rows : pyarrow.Table
        The events of this one, sorted, as they are on the wire.
    """
    told = [
        Record(_TOPIC, partition, b"", 0, clock=at)
        for begin, end in intervals
        for partition, at in ((_BEGINS, begin), (_ENDS, end))
    ]
    batches = rows.combine_chunks().to_batches(max_chunksize=_ROWS)
    return told + [Record(_TOPIC, _EVENTS, arrow_bytes(batch), batch.num_rows) for batch in batches]


class FrameIsland(Island):
    """An island whose events are in order already, and whose outputs are Arrow batches.

    Parameters
    ----------
    plan : FramePlan
        What is to be done.
    shard : int
        Which shard it is, from 0.
    """

    def __init__(self, plan: FramePlan, shard: int) -> None:
        self._frames = frames = FrameApp(plan, shard)
        inputs = tuple(AssignedInput(one.stream, one.stream, (0,)) for one in plan.inputs)
        assignment = Assignment(plan.name, plan.name, plan.name, plan.text, True, inputs, ())
        super().__init__(assignment, frames.hosted, frames.checked.streams, merge_wait_ms=0)
        self.passes_time = False

    @property
    def clock(self) -> int | None:
        """The app's time, ms; None before its first event."""
        return self._frames.clock

    def goes_ahead(self, record: Record) -> bool:
        """Tell that nothing is processed before a batch is whole: it is sorted before."""
        return False

    def _process(self, records: Iterable[Record], tick: int, closing: bool) -> list[Any]:
        frames, given, made = self._frames, list(records), list[Any]()
        begins, ends = ([one.clock for one in given if one.partition == place] for place in (_BEGINS, _ENDS))
        intervals = covered(begins, ends)
        if intervals:
            end = reach(intervals, frames.clock, most_jump_ms(frames.checked))
            frames.expect(intervals[0][0], end)
        for record in given:
            if record.partition == _EVENTS:
                with pa.ipc.open_stream(record.value) as reader:
                    for batch in reader:
                        made += frames.process(batch)
        if intervals:
            made += frames.pass_time()
        return made

    def snapshot(self) -> bytes:
        """Return the state between two batches."""
        return self._frames.snapshot()

    def restore(self, data: bytes) -> None:
        """Take over the state of a snapshot."""
        self._frames.restore(data)
