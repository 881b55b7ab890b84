"""Windows of a program on a time attribute of the events: events that come let others leave, or a timeout does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from spdist.language.types import Type
from spdist.program.expressions import FLAG, NUMBER, NotTyped, Value
from spdist.program.parts import Event, indent
from spdist.program.timer_text import NEVER, TimerWriter
from spdist.program.windows.batch_text import BatchWriter
from spdist.program.windows.text import WindowWriter

__all__ = ["ExternalBatchWriter", "ExternalWriter"]

_LEAST = -(2**63)


class ExternalWriter(WindowWriter):
    """Writes what happens in a window ``externalTime``; see `WindowWriter`. The new event's time is ``external``."""

    @property
    def left_at(self) -> str:
        """Source of the timestamp of an event that leaves."""
        return "external"

    def enters(self, read: Callable[[int], Value], timestamp: str, leaving: list[str]) -> list[str]:
        """Return what lets the events leave that are too old for the new one, and that enter."""
        assert self._window.time is not None
        return [f"external = {read(self._window.time).text}", *super().enters(read, timestamp, leaving)]

    def leaves(self, leaving: list[str], enters: bool = False) -> list[str]:
        """Return what lets the events leave that are too old for the new one."""
        assert self._window.time is not None
        head, span = f"{self._prefix}_head[{self._key}]", self._window.span
        time = self.kept_at(self._window.time, head).text
        # No time is so early that one before it would be a late one.
        return self._leaves(
            f"while {head} >= 0 and external >= {_LEAST + span} and {time} <= external - {span}:", leaving
        )


class ExternalBatchWriter(BatchWriter):
    """Writes what happens in a window ``externalTimeBatch``; see `BatchWriter`.

    Notes
    -----
    Of each key of a partition: ``q_begin``, from when periods are counted, ``q_ending``, the end of the open one, and
    ``q_reached``, the latest time of an event, ms. With a timeout also ``q_awaited``, when it is over, ``q_flushed``,
    whether it has released the open period, of which all is released again when more has come, and ``q_asleep``,
    whether nothing has come since: then no timer is set.
    """

    def _declare(self) -> None:
        super()._declare()
        arrays, instances = self._whole.arrays, self._query.instances
        for name, first in (("begin", "0"), ("ending", NEVER), ("reached", "0")):
            arrays.declare(f"{self._prefix}_{name}", NUMBER, instances, first)
        if self._window.timeout:
            arrays.declare(f"{self._prefix}_awaited", NUMBER, instances)
            for name in ("flushed", "asleep"):
                arrays.declare(f"{self._prefix}_{name}", FLAG, instances)
            self._timer = TimerWriter(arrays, self._query, self._key, self._query.operator)

    def _of(self, *names: str) -> list[str]:
        """Return source of what is known of the key of the partition."""
        return [f"{self._prefix}_{name}[{self._key}]" for name in names]

    @property
    def _closed_at(self) -> str:
        return f"{self._prefix}_reached[{self._key}]"

    def _leaves(self) -> list[str]:
        """Return what lets the batch before leave, also where it is shown to nobody."""
        if self._expires or not self._keeps:
            return super()._leaves()
        return [*self._each("left", self._goes()), *self._frees("left")]

    def _leaving_times(self) -> tuple[list[str], str]:
        """Return source of when events leave, whoever has looked at them."""
        return [], self._closed_at

    def _frees(self, where: str) -> list[str]:
        """Return what lets all nodes of a list be free; those of a period that is released again stand in front."""
        frees = super()._frees(where)
        if where == "head" or not self._window.timeout:
            return frees
        flushed, head, left, end = self._of("flushed", "head", "left", "left_end")
        size, more = self._of("head_size", "left_size")
        again = [
            f"{self._prefix}_next[{end}], {head}, {size} = {head}, {left}, {size} + {more}",
            f"{left}, {more} = -1, 0",
        ]
        return [f"if {flushed} != 0 and {left} >= 0:", *indent(again), "else:", *indent(frees)]

    def _writes(self, event: Event) -> list[str]:
        if not self._window.replaces:
            return super()._writes(event)
        time, read, (end,) = self._window.time, event.read, self._of("ending")
        if any(time in one.arguments for one in self._query.computed.values()):
            raise NotTyped("a function of a time that the window writes", self._query.read.checked.query.span)
        ends = Value(end, "False", Type.LONG)
        return super()._writes(replace(event, read=lambda place: ends if place == time else read(place)))

    def takes(self, event: Event) -> list[str]:
        """Return what is done with an event."""
        assert self._window.time is not None
        begin, ending, newest = self._of("begin", "ending", "reached")
        span, start, started = self._window.span, self._window.start, self._window.started
        following = f"{{0}} + {span} - remainder({{0}} - {begin}, {span})"
        first = start if start is not None else "external" if started is None else event.read(started).text
        opened = following.format("external") if start is not None else f"{begin} + {span}"
        return [
            f"external = {event.read(self._window.time).text}",
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
            *self._holds(event, "head"),
        ]

    def _ends(self, flushed: int) -> list[str]:
        """Return what releases the open period, if there is something in it; `flushed`: by its timeout."""
        released = self._results.hands_over(self._chunk([*self._closes(), *self._releases()]))
        if not self._window.timeout:
            return released
        noted, head = self._of("flushed", "head")
        return [f"if {head} >= 0:", *indent(released), f"{noted} = {flushed}"]

    # The timeout.

    def _awaits(self) -> list[str]:
        """Return what lets the timeout begin."""
        if not self._window.timeout:
            return []
        (awaited,) = self._of("awaited")
        return [f"{awaited} = now + {self._window.timeout}", self._timer.asks(awaited)]

    def _comes_back(self) -> list[str]:
        """Return what finds out when the timeout is over, where no timer was set."""
        if not self._window.timeout:
            return []
        (awaited, asleep), timeout = self._of("awaited", "asleep"), self._window.timeout
        until = self._whole.until(self._query.read, self._query.operator)
        return [
            f"if {asleep} != 0:",
            f"    {asleep} = 0",
            f"    if {awaited} <= {until}:",
            f"        {awaited} += (({until} - {awaited}) // {timeout} + 1) * {timeout}",
            f"    {self._timer.asks(awaited)}",
        ]

    def wakes(self) -> list[str]:
        """Return what is done when the timer of a key is due."""
        awaited, head, asleep = self._of("awaited", "head", "asleep")
        return self._timer.wakes(
            [
                f"if {awaited} <= due:",
                f"    if {head} < 0:",
                f"        {awaited}, {asleep} = now + {self._window.timeout}, 1",
                "    else:",
                *indent(indent([*self._ends(1), *self._awaits()])),
            ]
        )
