"""The windows of the latest events: ``length``, ``time``, ``timeLength``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy

from spdist.operators.core.state_columns import Column, ListColumn, NumberColumn, StructColumn
from spdist.program.expressions import Value
from spdist.program.parts import QueryText
from spdist.program.registry import WINDOWS
from spdist.program.running.running import Running
from spdist.program.shape import Read
from spdist.program.states.dues import window_dues
from spdist.program.states.nodes import stored_list, times_of
from spdist.program.states.window import ListStates, Loaded, noted_numbers
from spdist.program.windows.kinds import EARLIEST, Sliding, WindowCall, size_of
from spdist.program.windows.text import WindowWriter

__all__ = ["Latest", "PassingWriter", "SlidingStates"]


@WINDOWS.typed("length", "time", "timeLength")
@dataclass(frozen=True, slots=True)
class Latest(Sliding):
    """A window that holds the latest events."""

    @classmethod
    def of(cls, given: WindowCall) -> Latest | None:
        """Return what an app says."""
        match given.call.id, given.constants:
            case "length", (int(length),):
                # Siddhi's LengthWindowProcessor sends a RESET behind each event that it cannot hold
                return cls(length=size_of(length), resets=length < 1)
            case "time", (int(span),) if span > 0:
                return cls(span=span)
            case "timeLength", (int(span), int(length)) if span > 0:
                return cls(length=size_of(length), span=span)
        return None

    @property
    def writer(self) -> type[WindowWriter]:
        """What writes it."""
        return PassingWriter if self.is_empty else WindowWriter

    @property
    def states(self) -> SlidingStates:
        """What knows its state."""
        return SlidingStates(self)


class PassingWriter(WindowWriter):
    """Writes what happens in a window that holds nothing; see `WindowWriter`. An event has a node while it passes."""

    @property
    def left_at(self) -> str:
        """Source of the timestamp of an event that leaves."""
        # `length(0)` expires an event with its own timestamp, `sort` of length 0 with the clock
        return f"{self.prefix}_ts[d]" if self.window.resets else "now"

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what lets the new event be there."""
        return self._holds(read, timestamp)

    def pushes_out(self, leaving: list[str]) -> list[str]:
        """Return what lets the new event leave."""
        return self._left(leaving) if self.window.is_left else self._frees()

    def leaves(self, leaving: list[str], enters: bool = False) -> list[str]:
        """Return nothing: none is there any more."""
        return []


class SlidingStates(ListStates):
    """The state of a window that events leave one by one, oldest first: those held, and what timers know."""

    def loaded(self, read: Read, states: Column) -> Loaded:
        """Return what is held, and the greatest timestamp that a wake-up was asked for."""
        if not self.window.span:
            return Loaded({"head": states})
        held, latest, dues = states.parts(3)
        return Loaded({"head": held}, {"latest": latest}, dues)

    def stored(self, running: Running, query: QueryText, count: int) -> Column:
        """Return the states of so many keys of a partition, by number; or one."""
        held, span = replace(stored_list(running, query, "head", count), kind=deque), self.window.span
        if not span:
            return held
        if query.read.timed:
            known = NumberColumn(noted_numbers(running, query, "latest", count, EARLIEST))
            return StructColumn(list, [held, known, window_dues(running, query, count)])
        # A program without timers has noted no wake-ups, but operators need them: they follow from what is held.
        # `timeLength` asks for each event, `time` only for one that is later than all before it.
        times, lengths = times_of(held)
        latest, lengths_due, due = numpy.full(count, EARLIEST), lengths, times
        if not self.window.length:
            asks = _rising(times, lengths)
            due = times[asks]
            lengths_due = numpy.diff(numpy.append(0, asks.cumsum())[numpy.append(0, lengths.cumsum())])
            # The last one of each list that has asked is the latest one
            latest = numpy.append(EARLIEST, due)[numpy.where(lengths_due > 0, lengths_due.cumsum(), 0)]
        asked = ListColumn(list, NumberColumn(lengths_due), NumberColumn(due + span))
        return StructColumn(list, [held, NumberColumn(latest), asked])

    def fresh(self, read: Read) -> Any:
        """Return the state of a window that has seen nothing."""
        return [deque(), EARLIEST, []] if self.window.span else deque()


def _rising(times: Any, lengths: Any) -> Any:
    """Return which times are later than all before them in their list, given the lengths of the lists."""
    if len(lengths) > 1:
        # Each list is above all before it, by as much as all times together differ at most
        known, ranks = numpy.unique(times, return_inverse=True)
        times = numpy.repeat(numpy.arange(len(lengths)) * len(known), lengths) + ranks
    return numpy.append(True, times[1:] > numpy.maximum.accumulate(times)[:-1])[: len(times)]
