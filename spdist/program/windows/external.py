"""The windows on a time attribute, ``externalTime`` and ``externalTimeBatch``.

Events that come let others leave, or a timeout does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy

from spdist.language.types import Type
from spdist.operators.core.state_columns import (
    Column,
    ListColumn,
    NumberColumn,
    StructColumn,
    nothing,
    numbers_of,
)
from spdist.program.expressions import FLAG, NUMBER, NotTyped, Value
from spdist.program.parts import Event, QueryText, indent
from spdist.program.registry import WINDOWS
from spdist.program.running.running import Running
from spdist.program.shape import Read
from spdist.program.states.dues import asked_again, window_dues
from spdist.program.states.nodes import rows_of, stored_list
from spdist.program.states.totals import first_or_copied, load_copied, stored_copies
from spdist.program.states.window import ListStates, Loaded, noted_numbers
from spdist.program.timer_text import NEVER, TimerWriter
from spdist.program.windows.batch_text import BatchWriter
from spdist.program.windows.kinds import EARLIEST, Batched, Sliding, WindowCall
from spdist.program.windows.text import WindowWriter

__all__ = [
    "TIMES",
    "ExternalBatchWriter",
    "ExternalTime",
    "ExternalTimeBatch",
    "ExternalWriter",
    "open_times",
    "stored_times",
]

#: The times of periods, by the names of their arrays.
TIMES = ("begin", "ending", "reached", "awaited", "flushed")


@WINDOWS.typed("externalTime")
@dataclass(frozen=True, slots=True)
class ExternalTime(Sliding):
    """A window that events leave when others come that are `span` ms later, by the attribute `time`."""

    @classmethod
    def of(cls, given: WindowCall) -> ExternalTime | None:
        """Return what an app says."""
        match given.constants:
            case (None, int(span)) if span > 0:
                return cls(span=span, time=given.place(0))
        return None

    @property
    def writer(self) -> type[ExternalWriter]:
        """What writes it."""
        return ExternalWriter

    @property
    def states(self) -> ExternalStates:
        """What knows its state."""
        return ExternalStates(self)


@WINDOWS.typed("externalTimeBatch")
@dataclass(frozen=True, slots=True)
class ExternalTimeBatch(Batched):
    """A window that releases the batches of `span` ms, by the attribute `time`."""

    @classmethod
    def of(cls, given: WindowCall) -> ExternalTimeBatch | None:
        """Return what an app says: of the start, the timeout, and whether times are replaced, too."""
        match given.constants:
            case (None, int(span), *more):
                start, timeout, replaces = (*more, None, None, None)[:3]
                started = given.place(2)
                if more and start is None and started is None:
                    return None
                return cls(
                    span=span,
                    time=given.place(0),
                    start=start if isinstance(start, int) else None,
                    started=started,
                    timeout=max(timeout, 0) if isinstance(timeout, int) else 0,
                    replaces=replaces is True,
                )
        return None

    @property
    def writer(self) -> type[ExternalBatchWriter]:
        """What writes it."""
        return ExternalBatchWriter

    @property
    def states(self) -> ExternalBatchStates:
        """What knows its state."""
        return ExternalBatchStates(self)


class ExternalWriter(WindowWriter):
    """Writes what happens in a window ``externalTime``; see `WindowWriter`. The new event's time is ``external``."""

    @property
    def left_at(self) -> str:
        """Source of the timestamp of an event that leaves."""
        return "external"

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what lets the events leave that are too old for the new one, and that enter."""
        assert self.window.time is not None
        return [f"external = {read(self.window.time).text}", *super().enters(read, timestamp, leaving)]

    def leaves(self, leaving: list[str], enters: bool = False) -> list[str]:
        """Return what lets the events leave that are too old for the new one."""
        assert self.window.time is not None
        head, span = f"{self.prefix}_head[{self.key}]", self.window.span
        time = self.kept_at(self.window.time, head).text
        # No time is so early that one before it would be a late one.
        return self._leaves(
            f"while {head} >= 0 and external >= {EARLIEST + span} and {time} <= external - {span}:", leaving
        )


class ExternalBatchWriter(BatchWriter):
    """Writes what happens in a window ``externalTimeBatch``; see `BatchWriter`.

    Notes
    -----
    Of each key of a partition: ``q_begin``, from when periods are counted, ``q_ending``, the end of the open one, and
    ``q_reached``, the latest time of an event, ms. With a timeout also ``q_awaited``, when it is over, ``q_flushed``,
    whether it has released the open period, of which all is released again when more has come, and ``q_asleep``,
    whether nothing has come since: then no timer is set. ``q_came``, where somebody looks at that, is whether the event
    is known that a RESET copies: one that releases a period again copies the same one as before.
    """

    def _declare(self) -> None:
        super()._declare()
        arrays, instances = self.whole.arrays, self.query.instances
        for name, first in (("begin", "0"), ("ending", NEVER), ("reached", "0")):
            arrays.declare(f"{self.prefix}_{name}", NUMBER, instances, first)
        if self.window.timeout:
            arrays.declare(f"{self.prefix}_awaited", NUMBER, instances)
            for name in ("flushed", "asleep"):
                arrays.declare(f"{self.prefix}_{name}", FLAG, instances)
            self._timer = TimerWriter(arrays, self.query, self.key, self.query.operator)
        if self._copied.is_read:
            arrays.declare(f"{self.prefix}_came", FLAG, instances)

    def _of(self, *names: str) -> list[str]:
        """Return source of what is known of the key of the partition."""
        return [f"{self.prefix}_{name}[{self.key}]" for name in names]

    @property
    def _closed_at(self) -> str:
        return f"{self.prefix}_reached[{self.key}]"

    def _leaving_times(self) -> tuple[list[str], str]:
        """Return source of when events leave, whoever has looked at them."""
        return [], self._closed_at

    def _frees(self, where: str) -> list[str]:
        """Return what lets all nodes of a list be free; those of a period that is released again stand in front."""
        frees = super()._frees(where)
        if where == "head" or not self.window.timeout:
            return frees
        flushed, head, left, end = self._of("flushed", "head", "left", "left_end")
        size, more = self._of("head_size", "left_size")
        again = [
            f"{self.prefix}_next[{end}], {head}, {size} = {head}, {left}, {size} + {more}",
            f"{left}, {more} = -1, 0",
        ]
        return [f"if {flushed} != 0 and {left} >= 0:", *indent(again), "else:", *indent(frees)]

    def _writes(self, event: Event) -> list[str]:
        if not self.window.replaces:
            return super()._writes(event)
        time, read, (end,) = self.window.time, event.read, self._of("ending")
        # Functions are computed before the loop, so of the time as it came
        if any(time in one.arguments for one in self.query.computed.values()):
            raise NotTyped("a function of a time that the window writes", self.query.read.checked.query.span)
        ends = Value(end, "False", Type.LONG)
        return super()._writes(replace(event, read=lambda place: ends if place == time else read(place)))

    def takes(self, event: Event) -> list[str]:
        """Return what is done with an event."""
        assert self.window.time is not None
        begin, ending, newest = self._of("begin", "ending", "reached")
        span, start, started = self.window.span, self.window.start, self.window.started
        # Java's remainder: before the start it is negative, and puts the end one period further
        following = f"{{0}} + {span} - remainder({{0}} - {begin}, {span})"
        first = start if start is not None else "external" if started is None else event.read(started).text
        opened = following.format("external") if start is not None else f"{begin} + {span}"
        return [
            f"external = {event.read(self.window.time).text}",
            *self._comes_back(),
            f"if {ending} == {NEVER}:",
            f"    {begin} = {first}",
            f"    {ending} = {opened}",
            *indent(self._awaits()),
            f"if external > {newest}:",
            f"    {newest} = external",
            f"if external >= {ending}:",
            *indent(self._ends(0)),
            f"    {ending} = {following.format(newest)}",
            *indent(self._awaits()),
            *(self._copied.comes(self._of("came")[0], event) if self._copied.is_read else []),
            *self._holds(event, "head"),
        ]

    def _ends(self, flushed: int) -> list[str]:
        """Return what releases the open period, if there is something in it; `flushed`: by its timeout."""
        released = self._results.hands_over(self._chunk([*self._closes(), *self._releases()]))
        anew = [f"{came} = 0" for came in self._of("came") if self._copied.is_read]
        if not self.window.timeout:
            return [*released, *anew]
        noted, head = self._of("flushed", "head")
        anew = [f"if {noted} == 0:", *indent(anew)] if anew else []
        # A period that its timeout has released goes out again only if more has come for it
        return [f"if {head} >= 0:", *indent([*released, *anew]), f"{noted} = {flushed}"]

    # The timeout.

    def _awaits(self) -> list[str]:
        """Return what lets the timeout begin."""
        if not self.window.timeout:
            return []
        (awaited,) = self._of("awaited")
        return [f"{awaited} = now + {self.window.timeout}", self._timer.asks(awaited)]

    def _comes_back(self) -> list[str]:
        """Return what finds out when the timeout is over, where no timer was set."""
        if not self.window.timeout:
            return []
        (awaited, asleep), timeout = self._of("awaited", "asleep"), self.window.timeout
        until = self.whole.until(self.query.read, self.query.operator)
        return [
            f"if {asleep} != 0:",
            f"    {asleep} = 0",
            # Timeouts that were over meanwhile have found nothing to release
            f"    if {awaited} <= {until}:",
            f"        {awaited} += (({until} - {awaited}) // {timeout} + 1) * {timeout}",
            f"    {self._timer.asks(awaited)}",
        ]

    def wakes(self) -> list[str]:
        """Return what is done when the timer of a key is due."""
        awaited, head, asleep = self._of("awaited", "head", "asleep")
        return self._timer.wakes(
            [
                # Later where a new period was opened since: its own wake-up comes
                f"if {awaited} <= due:",
                f"    if {head} < 0:",
                # Its timeout has released all, so no timer is needed until the next event
                f"        {awaited}, {asleep} = now + {self.window.timeout}, 1",
                "    else:",
                *indent(indent([*self._ends(1), *self._awaits()])),
            ]
        )


class ExternalStates(ListStates):
    """The state of a window ``externalTime``: the events held."""

    def loaded(self, read: Read, states: Column) -> Loaded:
        """Return what is held."""
        return Loaded({"head": states})

    def stored(self, running: Running, query: QueryText, count: int) -> Column:
        """Return the states of so many keys of a partition, by number; or one."""
        return replace(stored_list(running, query, "head", count), kind=deque)

    def fresh(self, read: Read) -> Any:
        """Return the state of a window that has seen nothing."""
        return deque()


class ExternalBatchStates(ListStates):
    """The state of a window ``externalTimeBatch``.

    Its times are: from when periods are counted, the end of the open one, the newest time, when the timeout is over,
    and whether it has released the open one.
    """

    window: ExternalTimeBatch

    def loaded(self, read: Read, states: Column) -> Loaded:
        """Return the batches, the times of open periods, and whether the event is known that a RESET copies."""
        batch, before, copied, times, dues = states.parts(5)
        noted = {**open_times(times), "came": NumberColumn(copied.known())}
        return Loaded({"head": batch, "left": before}, noted, dues)

    def load_more(self, running: Running, query: QueryText, numbers: Any, states: Column, found: Loaded) -> None:
        """Take over the event that is copied."""
        _, _, copied, _, _ = states.parts(5)
        known = copied.known()
        load_copied(running, query, numbers[known], copied.at(numpy.flatnonzero(known)))

    def stored(self, running: Running, query: QueryText, count: int) -> Column:
        """Return the states of so many keys of a partition, by number; or one."""
        batch, before = (stored_list(running, query, name, count) for name in ("head", "left"))
        came = noted_numbers(running, query, "came", count) != 0
        # Where it is noted whether an event is copied, it need not be the first one of the open batch
        firsts = nothing(count) if f"{query.name}_came" in running.arrays else rows_of(batch)
        copied = first_or_copied(came, stored_copies(running, query, count), firsts)
        times, dues = stored_times(running, query, self.window, count)
        return StructColumn(list, [batch, before, copied, times, dues])

    def fresh(self, read: Read) -> Any:
        """Return the state of a window that has seen nothing."""
        return [[], [], None, [self.window.start or 0, None, 0, 0, False], []]


def open_times(times: Column) -> dict[str, Column]:
    """Return the times of periods by name, where one is open."""
    named = dict(zip(TIMES, times.parts(5), strict=False))
    closed = ~named["ending"].known()
    return {name: NumberColumn(numbers_of(own)[0], closed) for name, own in named.items()}


def stored_times(running: Running, query: QueryText, window: Batched, count: int) -> tuple[Column, ListColumn]:
    """Return the times of the periods of so many keys, and the wake-ups; those that sleep ask for theirs again."""
    begin, reached, awaited, flushed = (
        noted_numbers(running, query, name, count).copy() for name in ("begin", "reached", "awaited", "flushed")
    )
    ending = noted_numbers(running, query, "ending", count, EARLIEST)
    is_open, dues = ending != EARLIEST, window_dues(running, query, count)
    if window.timeout:
        asleep = is_open & (running.arrays[f"{query.name}_asleep"][:count] != 0)
        # Timeouts that were over meanwhile have found nothing to release
        awaited, dues = asked_again(running, dues, awaited, asleep, window.timeout)
    begin[~is_open], reached[~is_open], awaited[~is_open] = window.start or 0, 0, 0
    numbers = (begin, ending, reached, awaited, is_open & (flushed != 0))
    nulls = (None, ~is_open, None, None, None)
    return StructColumn(list, list(map(NumberColumn, numbers, nulls))), dues
