"""The step in front of the shuffle: which shard a row belongs to, and when the rows of a task are, for all shards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pyarrow as pa

from spdist.engine.frames.app import checked_by, most_jump_ms
from spdist.engine.frames.plan import FramePlan
from spdist.engine.frames.spans import Spans
from spdist.engine.frames.wire import control_rows, milliseconds, value_column
from spdist.engine.shards.memory import arrow_without_pandas
from spdist.engine.shards.splitting import shards_of
from spdist.transports.routing import key_text

__all__ = ["route"]

#: Spreads times that follow one another: 2^64 divided by the golden ratio.
_SPREAD = numpy.uint64(0x9E37_79B9_7F4A_7C15)


def route(plan: FramePlan, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the rows of a task with their shards, then what tells each shard when they are."""
    arrow_without_pandas()
    spans = Spans(most_jump_ms(checked_by(plan)))
    like = None
    for batch in batches:
        if not batch.num_rows:
            continue
        spans.add(milliseconds(batch, plan))
        shard = _shards(plan, batch)
        routed = pa.RecordBatch.from_arrays([shard, *batch.columns], ["shard", *batch.schema.names])
        like = routed.schema
        yield routed
    if like is not None:
        yield control_rows(spans.intervals, plan.shards, like)


def _shards(plan: FramePlan, batch: Any) -> Any:
    """Return the shard of each row as an Arrow array."""
    if len(plan.inputs) == 1:
        return _shards_of(plan, 0, batch)
    streams = batch.column("stream").to_numpy(zero_copy_only=False)
    made = numpy.zeros(batch.num_rows, numpy.int32)
    for number in range(len(plan.inputs)):
        places = numpy.flatnonzero(streams == number)
        if len(places):
            made[places] = _shards_of(plan, number, batch.take(pa.array(places))).to_numpy(zero_copy_only=False)
    return pa.array(made)


def _shards_of(plan: FramePlan, number: int, batch: Any) -> Any:
    """Return the shard of each row of a frame: by its key, or where any will do by its time."""
    one = plan.inputs[number]
    if one.key is None:
        times = batch.column("time").to_numpy(zero_copy_only=False).astype(numpy.uint64)
        # The product wraps; its upper bits are those that depend on all of the time
        spread = (times * _SPREAD) >> numpy.uint64(40)
        return pa.array((spread % numpy.uint64(plan.shards)).astype(numpy.int32))
    place = one.schema.names.index(one.key)
    return shards_of(batch.column(value_column(number, place)), key_text(one.schema.types[place]), plan.shards)
