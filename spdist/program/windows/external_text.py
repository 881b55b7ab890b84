"""Windows of a program on a time attribute of the events: only events that come let others leave."""

from __future__ import annotations

from collections.abc import Callable

from spdist.program.expressions import NUMBER, Value
from spdist.program.parts import Event, indent
from spdist.program.timer_text import NEVER
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
    ``q_reached``, the latest time of an event, ms.
    """

    def _declare(self) -> None:
        super()._declare()
        for name, first in (("begin", "0"), ("ending", NEVER), ("reached", "0")):
            self._whole.arrays.declare(f"{self._prefix}_{name}", NUMBER, self._query.instances, first)

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

    def takes(self, event: Event) -> list[str]:
        """Return what is done with an event."""
        assert self._window.time is not None
        begin, ending, newest = (f"{self._prefix}_{name}[{self._key}]" for name in ("begin", "ending", "reached"))
        span, start = self._window.span, self._window.start
        following = f"{{0}} + {span} - remainder({{0}} - {begin}, {span})"
        opened = following.format("external") if start is not None else f"external + {span}"
        return [
            f"external = {event.read(self._window.time).text}",
            f"if {ending} == {NEVER}:",
            f"    {begin} = {'external' if start is None else start}",
            f"    {ending} = {opened}",
            f"if external > {newest}:",
            f"    {newest} = external",
            f"if external >= {ending}:",
            *indent(self._results.hands_over(self._chunk([*self._closes(), *self._releases()]))),
            f"    {ending} = {following.format(newest)}",
            *self._holds(event, "head"),
        ]
