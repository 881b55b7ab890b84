"""The window ``delay`` holds events back: they enter the totals when their time is over, and never leave."""

from __future__ import annotations

from dataclasses import dataclass

from spdist.program.expressions import NUMBER
from spdist.program.parts import Event, indent
from spdist.program.registry import WINDOWS
from spdist.program.timer_text import NEVER, TimerWriter
from spdist.program.windows.batch_text import BatchWriter
from spdist.program.windows.kinds import Sliding, WindowCall
from spdist.program.windows.sliding import SlidingStates

__all__ = ["DelayWriter", "Delayed"]


@WINDOWS.typed("delay")
@dataclass(frozen=True, slots=True)
class Delayed(Sliding):
    """A window that events come out of after `span` ms."""

    @classmethod
    def of(cls, given: WindowCall) -> Delayed | None:
        """Return what an app says."""
        match given.constants:
            case (int(span),) if span > 0:
                return cls(span=span)
        return None

    @property
    def delays(self) -> bool:
        """Whether events come out of it later than they come."""
        return True

    @property
    def writer(self) -> type[DelayWriter]:
        """What writes it."""
        return DelayWriter

    @property
    def states(self) -> SlidingStates:
        """What knows its state."""
        return SlidingStates(self)


class DelayWriter(BatchWriter):
    """Writes what a window does that holds events back; see `BatchWriter`."""

    goes_on = True

    def _declare(self) -> None:
        super()._declare()
        self._timer = TimerWriter(self.whole.arrays, self.query, self.key, self.query.operator)
        self._latest = self.whole.arrays.declare(f"{self.prefix}_latest", NUMBER, self.query.instances, NEVER)

    def takes(self, event: Event) -> list[str]:
        """Return what is done with an event."""
        latest = f"{self._latest}[{self.key}]"
        asks = self._timer.asks(f"{event.timestamp} + {self._span}")
        return [
            # What is due goes on in front of the new event, whether or not its timer has fired
            *self._lets_go(),
            *self._holds(event, "head"),
            f"if {event.timestamp} > {latest}:",
            f"    {latest} = {event.timestamp}",
            f"    {asks}",
        ]

    def wakes(self) -> list[str]:
        """Return what is done when the timer of a key is due."""
        body = self._results.hands_over(self._chunk(self._lets_go()))
        # In a partition a window that is empty forgets the latest timestamp, as its operator does
        if self.query.keyed is not None:
            body += [f"if {self.prefix}_head[{self.key}] < 0:", f"    {self._latest}[{self.key}] = {NEVER}"]
        return self._timer.wakes(body)

    @property
    def _span(self) -> int:
        assert self.query.read.window is not None
        return self.query.read.window.span

    def _lets_go(self) -> list[str]:
        """Return what lets the events go on whose time is over."""
        prefix, key, groups = self.prefix, self.key, self.groups
        # What goes on carries the clock and not its own timestamp, as in Siddhi's DelayWindowProcessor
        event = Event(self._kept, "now", groups.number)
        enters = [*groups.finds(event.read), *self._adds(event), *self._results.emits(event)]
        return [
            f"while {prefix}_head[{key}] >= 0 and {prefix}_ts[{prefix}_head[{key}]] <= now - {self._span}:",
            f"    d = {prefix}_head[{key}]",
            f"    {prefix}_head[{key}] = {prefix}_next[d]",
            f"    {prefix}_head_size[{key}] -= 1",
            *indent(self._goes()),
            *indent(groups.passes(event.read, enters)),
            f"    {prefix}_next[d] = {prefix}_free[0]",
            f"    {prefix}_free[0] = d",
        ]
