"""The windows of batches: ``lengthBatch``, ``timeBatch``, ``batch``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from spdist.operators.core.state_columns import (
    Column,
    NumberColumn,
    StructColumn,
    ValueColumn,
    nothing,
    numbers_of,
)
from spdist.program.parts import Event, QueryText
from spdist.program.registry import WINDOWS
from spdist.program.running.running import Running
from spdist.program.shape import Read
from spdist.program.states.dues import next_wakes, window_dues, with_due
from spdist.program.states.nodes import rows_of, stored_list
from spdist.program.states.totals import first_or_copied, load_copied, stored_copies
from spdist.program.states.window import ListStates, Loaded, noted_numbers
from spdist.program.windows.batch_text import BatchWriter, ChunkWriter
from spdist.program.windows.kinds import EARLIEST, NONE, Batched, WindowCall
from spdist.program.windows.period_text import PeriodWriter

__all__ = ["BatchStates", "Batches"]


@WINDOWS.typed("lengthBatch", "timeBatch", "batch")
@dataclass(frozen=True, slots=True)
class Batches(Batched):
    """A window that releases batches of a length, or of a time; or each chunk is one."""

    @classmethod
    def of(cls, given: WindowCall) -> Batches | None:
        """Return what an app says."""
        match given.call.id, given.constants:
            case "batch", () | (0,):
                return cls(passes=True, chunked=True)
            case "batch", (int(length),) if length > 0:
                return cls(length=length, passes=True, chunked=True)
            case "lengthBatch", (int(length), *passes) if passes in ([], [False]) or (length >= 0 and passes == [True]):
                # All negative lengths are one: no batch is ever full. Each event of a `lengthBatch(0)` passes anyhow
                return cls(length=max(length, NONE), passes=length > 0 and passes == [True])
            case "timeBatch", (int(span), *options) if span > 0 and None not in options:
                # A bool is an int in Python, and here it says whether events pass when they come
                starts = [one for one in options if isinstance(one, int) and not isinstance(one, bool)]
                return cls(span=span, start=starts[0] if starts else None, passes=options[-1:] == [True])
        return None

    @property
    def shares_period(self) -> bool:
        """Whether its open period is one for all keys of a partition."""
        return bool(self.span)

    @property
    def writer(self) -> type[BatchWriter]:
        """What writes it."""
        if self.chunked:
            return ChunkWriter
        if self.span:
            return PeriodWriter
        return BatchWriter if self.length > 0 else EachWriter

    @property
    def states(self) -> BatchStates:
        """What knows its state."""
        return BatchStates(self)


class EachWriter(BatchWriter):
    """Writes what a window does that has each event for a batch, which leaves when it has come; see `BatchWriter`."""

    def takes(self, event: Event) -> list[str]:
        """Return what is done with an event; where no batch is ever full, nothing."""
        if self.window.length:
            return []
        # In the order of LengthBatchWindowProcessor: the event, its expiry, and then the RESET
        comes = [*self._holds(event, "head"), *self._releases(), *self._leaves()]
        return self._results.hands_over(self._chunk([*comes, *self.groups.passes(event.read, self._renews())]))


class BatchStates(ListStates):
    """The state of a window of batches: what is open and was released last, and the event that a RESET copies."""

    window: Batches

    def loaded(self, read: Read, states: Column) -> Loaded:
        """Return the batches, how many events were looked at, and what is known of those that pass immediately."""
        window = self.window
        if window.chunked:
            before, copied, looked = states.parts(3)
            return Loaded({"left": before}, {"looked": looked, **self._noted(copied)})
        if window.span:
            batch, before, copied, looked, _, dues = states.parts(6)
            return Loaded({"head": batch, "left": before}, {"looked": looked, **self._noted(copied)}, dues)
        batch, before, copied, count, looked = states.parts(5)
        noted = {"count": count} if window.counts else {}
        return Loaded({"head": batch, "left": before}, {"looked": looked, **noted, **self._noted(copied)})

    def _noted(self, copied: Column) -> dict[str, Column]:
        """Return what is known of the events that the next RESET copies."""
        known = copied.known()
        if self.window.counts:
            return {"came": NumberColumn(known)}
        if not self.window.passes or not known.any():
            return {}
        reset_at, _ = copied.at(numpy.flatnonzero(known)).parts(2)
        times = numpy.zeros(len(known), numpy.int64)
        times[known] = numbers_of(reset_at)[0]
        return {"came": NumberColumn(known, ~known), "reset_at": NumberColumn(times, ~known)}

    def load_more(self, running: Running, query: QueryText, numbers: Any, states: Column, found: Loaded) -> None:
        """Take over the end of the open period, and the events that are copied."""
        parts = states.parts(int(states.sizes()[0]))
        if query.read.timed:
            ends, nulls = numbers_of(parts[4])
            ends = ends if nulls is None else ends[~nulls]
            if len(ends):
                # The period is one for all keys, so each of their states says the same end
                running.arrays[f"{query.name}_ending"][0] = ends[-1]
        if self.window.passes and f"{query.name}_came" in running.arrays:
            copied = parts[1 if self.window.chunked else 2]
            known = copied.known()
            own = copied.at(numpy.flatnonzero(known))
            load_copied(running, query, numbers[known], own if self.window.counts else own.parts(2)[1])

    def stored(self, running: Running, query: QueryText, count: int) -> Column:
        """Return the states of so many keys of a partition, by number; or one."""
        window = self.window
        batch, before = (stored_list(running, query, name, count) for name in ("head", "left"))
        came = noted_numbers(running, query, "count" if window.counts else "came", count)
        looked = NumberColumn(noted_numbers(running, query, "looked", count))
        # Of the event that a RESET copies mostly nobody looks at more than whether there is one, and when it came.
        copies = stored_copies(running, query, count)
        reset_at = NumberColumn(noted_numbers(running, query, "reset_at", count, EARLIEST))
        copied = StructColumn(tuple, [reset_at, copies])
        if window.chunked:
            return StructColumn(list, [before, first_or_copied(came != 0, copied, nothing(count)), looked])
        if window.span:
            ending, dues = self._period(running, query, count)
            return StructColumn(list, [batch, before, first_or_copied(came != 0, copied, batch), looked, ending, dues])
        is_copied = came if f"{query.name}_came" not in running.arrays else running.arrays[f"{query.name}_came"][:count]
        # Not the event, but its row
        rows = rows_of(batch)
        return StructColumn(
            list, [batch, before, first_or_copied(is_copied != 0, copies, rows), NumberColumn(came), looked]
        )

    def fresh(self, read: Read) -> Any:
        """Return the state of a window that has seen nothing."""
        if self.window.chunked:
            return [[], None, 0]
        return [[], [], None, 0, None, []] if self.window.span else [[], [], None, 0, 0]

    def _period(self, running: Running, query: QueryText, count: int) -> tuple[Column, Column]:
        """Return the end of the open period, and the wake-ups; that of a key that sleeps is asked for again."""
        if not query.read.timed:
            return ValueColumn([None] * count), nothing(count)
        ending, asleep = (int(running.arrays[f"{query.name}_{name}"][0]) for name in ("ending", "asleep"))
        dues = window_dues(running, query, count)
        if asleep:
            # Periods that ended while it slept have put out nothing: the open one ends behind all that has fired
            ending = int(next_wakes(running, ending, self.window.span))
            # Operators know no sleep: the key that has opened the first period is woken at the end of each
            dues = with_due(dues, numpy.arange(count) == asleep - 1, ending)
        return ValueColumn([None if ending == EARLIEST else ending] * count), dues
