"""An app between rows of frames: sorted Arrow batches in, Arrow batches out, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy
import pyarrow as pa

from spdist.engine.frames.plan import FramePlan
from spdist.engine.frames.results import Results
from spdist.engine.frames.spark_types import plain_values
from spdist.engine.frames.wire import milliseconds, value_column
from spdist.engine.island.hosted import HostedApp
from spdist.extension import install
from spdist.language.checking.checked import CheckedApp
from spdist.language.types import Schema, Type
from spdist.mapping.columns import ARROW, ColumnarRows
from spdist.operators.base import Row
from spdist.operators.core.codec import decode, encode
from spdist.operators.core.junction import StreamPart
from spdist.planning.compiled import checked_text

__all__ = ["FrameApp", "checked_by", "most_jump_ms"]

#: Where nothing bounds how far an event may move the clock.
_NO_BOUND_MS = 2**63
#: Events that are delivered before what comes out of them goes on, and how much that is to be at most.
_FIRST_EVENTS, _MOST_EVENTS, _RESULTS = 1_000, 16_000, 20_000
#: Plans of which a process keeps what the checker says of their apps.
_PLANS_KEPT = 16


@lru_cache(_PLANS_KEPT)
def _checked(_token: str, plan: FramePlan) -> CheckedApp:
    install(plan.extensions)
    return checked_text(plan.text, plan.scripts)


def checked_by(plan: FramePlan) -> CheckedApp:
    """Return the app of a plan; in each process it is read once."""
    return _checked(plan.token, plan)


def most_jump_ms(checked: CheckedApp) -> int:
    """Return how far ahead of the clock of an app an event may lie, in virtual time, ms."""
    return checked.clock.max_jump_ms if checked.playback else _NO_BOUND_MS


class FrameApp:
    """Runs the app of one shard over rows that come sorted by time.

    A row that is older than the clock is late: it is delivered with the clock where it is, as in Siddhi's playback.

    Parameters
    ----------
    plan : FramePlan
        What is to be done.
    shard : int
        Which shard it is, from 0.

    State
    -----
    That of the app, and how many events of each output have come out.
    """

    def __init__(self, plan: FramePlan, shard: int) -> None:
        self._plan = plan
        self.checked = checked_by(plan)
        self.hosted = HostedApp(self.checked, delivers=False)
        self._results = Results(plan, shard)
        self._most_jump_ms = most_jump_ms(self.checked)
        self._several = len(plan.inputs) > 1
        self._started = False
        #: So many events are delivered before what comes out of them goes on: fewer where each causes much.
        self._pace = _FIRST_EVENTS
        #: When the last of the events of all shards is that are not refused, ms.
        self._reach: int | None = None
        #: The timestamps of the events that are being delivered as columns.
        self._times: Any = None
        for stream, one, many, add in self._results.receivers():
            self.hosted.subscribe_each(stream, one, many, lambda *caused, add=add: self._add_columns(add, *caused))
        self.hosted.compiles()

    @property
    def clock(self) -> int | None:
        """The app's time, ms; None before its first event."""
        return self.hosted.clock if self._started else None

    def expect(self, begin: int, reach: int | None) -> None:
        """Begin where the events of all shards do, unless it has begun; the last one that counts is at `reach`, ms."""
        self._start(begin)
        self._reach = reach

    def process(self, batch: Any) -> Iterator[Any]:
        """Deliver the events of a batch of the wire, which are sorted, and yield Arrow batches of what comes out."""
        begin = 0
        while begin < batch.num_rows:
            part = batch.slice(begin, self._pace)
            self._deliver(part)
            made = list(self._results.batches())
            count = sum(one.num_rows for one in made)
            self._pace = max(1, min(2 * self._pace, _MOST_EVENTS, self._pace * _RESULTS // max(count, 1)))
            yield from made
            begin += part.num_rows

    def _deliver(self, batch: Any) -> None:
        times = milliseconds(batch, self._plan)
        self._start(int(times[0]))
        # The clock never goes back: a late event is due when those before it have brought the clock there
        due = numpy.maximum.accumulate(numpy.maximum(times, self.hosted.clock))
        parts = self._parts(batch, times, due)
        ahead = numpy.diff(due, prepend=self.hosted.clock)
        late = any(part.stamps is not None for part in parts.values())
        self._times = times
        jumps = int(ahead.max()) > self._most_jump_ms or (late and len(parts) > 1)
        if jumps or not self.hosted.deliver_columns(parts):
            # A late event fires what is due by its own time, and not by the clock.
            if jumps or late:
                self._one_by_one(parts, times)
            else:
                self.hosted.deliver_one_by_one(parts)

    def pass_time(self, to_ms: int | None = None) -> Iterator[Any]:
        """Let time pass to the last event of all shards, or to `to_ms`, and yield what comes out."""
        until = self._reach if to_ms is None else to_ms
        if until is not None:
            self.hosted.advance(until)
            self._started = True
        yield from self._results.batches()

    def snapshot(self) -> bytes:
        """Return the state as bytes."""
        app = self.hosted.snapshot() if self._started else b""
        return encode({"frames": 1, "app": app, "sent": self._results.snapshot()})

    def restore(self, data: bytes) -> None:
        """Take over the state of a snapshot."""
        state = decode(data)
        self._started = bool(state["app"])
        if self._started:
            self.hosted.restore(state["app"])
        self._results.restore(state["sent"])

    def _start(self, at_ms: int) -> None:
        if not self._started:
            self.hosted.start(at_ms)
            self._started = True

    # ---------------------------------------------------------------------------------------------------- delivering
    def _one_by_one(self, parts: Mapping[str, StreamPart], times: Any) -> None:
        """Deliver events of which some are late, or may be refused as they lie too far ahead of the clock."""
        streams, rows = _mixed(parts, len(times))
        for stream, time, row in zip(streams, times.tolist(), rows, strict=True):
            if time - self.hosted.clock > self._most_jump_ms and self._reach is not None:
                # Events of other shards have brought the clock nearer.
                self.hosted.advance(min(time, self._reach))
            self.hosted.send(stream, time, row)

    def _add_columns(self, add: Any, rows: Any, bounds: Any, causes: Any, stamps: Any, *_: Any) -> None:
        if stamps is None:
            stamps = self._times[numpy.repeat(causes, numpy.diff(bounds))]
        add(rows, stamps)

    def _parts(self, batch: Any, times: Any, due: Any) -> dict[str, StreamPart]:
        """Return the events of each stream."""
        late = bool((due != times).any())
        if not self._several:
            one = self._plan.inputs[0]
            rows = _rows(batch, 0, one.schema)
            return {one.stream: StreamPart(due, numpy.arange(len(times)), rows, times if late else None)}
        numbers = batch.column("stream").to_numpy(zero_copy_only=False)
        parts = {}
        for number, one in enumerate(self._plan.inputs):
            ranks = numpy.flatnonzero(numbers == number)
            if len(ranks):
                rows = _rows(batch.take(pa.array(ranks)), number, one.schema)
                parts[one.stream] = StreamPart(due[ranks], ranks, rows, times[ranks] if late else None)
        return parts


def _mixed(parts: Mapping[str, StreamPart], count: int) -> tuple[list[str], list[Row]]:
    """Return stream and row of each event, in order."""
    streams, rows = [""] * count, [()] * count
    for stream, part in parts.items():
        for rank, row in zip(part.ranks.tolist(), part.rows, strict=True):
            streams[rank], rows[rank] = stream, row
    return streams, rows


def _rows(batch: Any, number: int, schema: Schema) -> Sequence[Row]:
    """Return the rows of a frame's events."""
    columns = [batch.column(value_column(number, place)) for place in range(len(schema))]
    if Type.OBJECT not in schema.types:
        typed = [column.cast(ARROW[kind]) for column, kind in zip(columns, schema.types, strict=True)]
        return ColumnarRows(pa.RecordBatch.from_arrays(typed, schema.names), lambda: None)
    return list(zip(*map(plain_values, columns), strict=True))
