"""The app of a shard as an island: what a batch of a streaming query brings in, Arrow batches of the result out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from spdist.engine.frames.app import FrameApp, most_jump_ms
from spdist.engine.frames.plan import FramePlan
from spdist.engine.frames.spans import Intervals, covered, reach
from spdist.engine.island.island import Island
from spdist.planning.topology import AssignedInput, Assignment
from spdist.transports.base import Record
from spdist.transports.payloads.payload import arrow_bytes

__all__ = ["FrameIsland", "batch_records"]

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
