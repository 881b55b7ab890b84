"""The shards of a streaming transformation that a Python process runs, with their live state; values and files only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spdist.engine.frames.island import FrameIsland, batch_records
from spdist.engine.frames.plan import FramePlan
from spdist.engine.frames.state import FrameDirectory, QueryStart
from spdist.engine.frames.wire import Told, by_shard
from spdist.engine.shards.shard import Shard, SnapshotPolicy

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
