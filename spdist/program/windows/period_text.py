"""Windows of a program that release the batches of a time: an event or a timer ends a period.

The end of the open period is one for all keys of a partition (but see `unique_text`). Where a period ends that puts
out nothing, the window goes to sleep: no timer is set, and the next event finds out which period it is in.
"""

from __future__ import annotations

from collections.abc import Callable

from spdist.program.expressions import FLAG, NUMBER
from spdist.program.parts import Event, indent
from spdist.program.timer_text import NEVER, TimerWriter
from spdist.program.windows.batch_text import BatchWriter

__all__ = ["PeriodWriter"]


class PeriodWriter(BatchWriter):
    """Writes what a window does that releases the batches of a time; see `BatchWriter`.

    Notes
    -----
    ``q_ending`` is the end of the open period, ``q_asleep`` the number of the key whose timer sleeps, plus one, and
    ``q_came`` whether an event has passed since the totals began anew.
    """

    takes_chunks = True

    @property
    def _period(self) -> str:
        """Source of the number of the open period, which is one for all keys."""
        return "0"

    def _declare(self) -> None:
        super()._declare()
        arrays, room = self.whole.arrays, "1" if self._period == "0" else self.query.instances
        self._ending = f"{arrays.declare(f'{self.prefix}_ending', NUMBER, room, NEVER)}[{self._period}]"
        self._asleep = f"{arrays.declare(f'{self.prefix}_asleep', NUMBER, room)}[{self._period}]"
        if self.window.passes:
            arrays.declare(f"{self.prefix}_came", FLAG, self.query.instances)
        self._timer = TimerWriter(arrays, self.query, self.key, self.query.operator)

    def block(self, event: Event, loop: Callable[[list[str]], list[str]]) -> list[str]:
        """Return what is done with a chunk of events; see `BatchWriter.block`."""
        some, ends = self.whole.name(), self.whole.name()
        begins = [f"{some} = 0", f"{ends} = 0"]
        # All events of a chunk come at one time of the clock, so its first one decides about the period
        first = [f"if {some} == 0:", f"    {some} = 1", *indent([*self._looks(ends), *self._begins(ends)])]
        test = f"if {ends} != 0:"
        if not self.window.passes:
            # Events that end a period are released with it: the operator adds them before it looks at what has ended
            released = self._results.hands_over(self._chunk([*self._closes(), *self._releases()]))
            return [*begins, *loop([*first, *self._collects(event, ends)]), test, *indent(released)]
        passing = [*first, *self._copied.comes(f"{self.prefix}_came[{self.key}]", event), *self._passes(event)]
        chunk = [*begins, *loop(passing), test, *indent(self._closes())]
        return self._results.hands_over(self._chunk(chunk))

    def wakes(self) -> list[str]:
        """Return what is done when the timer of a key is due."""
        ends = self.whole.name()
        body = self._chunk([*self._closes(), *([] if self.window.passes else self._releases())])
        return self._timer.wakes(
            [
                f"{ends} = 0",
                f"if now >= {self._ending}:",
                # As `Periodic.calm_until`: it only sleeps where no other wake-up of the key was asked for
                f"    if {' and '.join([*self._calm, self._timer.is_only()])}:",
                f"        {self._asleep} = {self.key} + 1",
                "    else:",
                *indent(indent(self._ends(ends))),
                f"if {ends} != 0:",
                *indent(self._ended(self._results.hands_over(body))),
            ]
        )

    @property
    def _calm(self) -> list[str]:
        """The conditions under which a period that ends puts out nothing."""
        prefix, key = self.prefix, self.key
        held = (name for name in self.query.read.lists if name == "head" or self._expires)
        calm = [f"{prefix}_{name}[{key}] < 0" for name in held]
        return [*calm, *([f"{prefix}_came[{key}] == 0"] if self.window.passes else [])]

    def _begins(self, ends: str) -> list[str]:
        """Return what is done with the first event of a chunk; `ends`: whether it has ended the open period."""
        return []

    def _collects(self, event: Event, ends: str) -> list[str]:
        """Return what is done with an event of a chunk."""
        return self._holds(event, "head")

    def _ended(self, released: list[str]) -> list[str]:
        """Return what is done when a timer has ended the open period, given what releases it."""
        return released

    def _looks(self, ends: str) -> list[str]:
        """Return what finds out whether an event ends the open period, or opens the first one."""
        ending, asleep, span, start = self._ending, self._asleep, self.window.span, self.window.start
        until = self.whole.until(self.query.read, self.query.operator)
        # Java's remainder: before the start time it is negative, and puts the end one period further
        first = f"now + {span}" if start is None else f"now + {span} - remainder(now - {start}, {span})"
        return [
            # Periods that ended meanwhile are not gone through: they were empty, so only the open one matters
            f"if {asleep} != 0:",
            f"    if {ending} <= {until}:",
            f"        {ending} += (({until} - {ending}) // {span} + 1) * {span}",
            f"    {self._timer.asks(ending, f'{asleep} - 1')}",
            f"    {asleep} = 0",
            f"if {ending} == {NEVER}:",
            f"    {ending} = {first}",
            f"    {self._timer.asks(ending)}",
            f"if now >= {ending}:",
            *indent(self._ends(ends)),
        ]

    def _ends(self, ends: str) -> list[str]:
        return [f"{ends} = 1", f"{self._ending} += {self.window.span}", self._timer.asks(self._ending)]

    def _resets(self) -> list[str]:
        """Return what lets all totals begin anew, where an event has come since they did."""
        came = f"{self.prefix}_came[{self.key}]"
        resets = super()._resets()
        if self.window.passes:
            return [f"if {came} != 0:", *indent([f"{came} = 0", *resets])]
        # Without an event in the period there is none that a RESET could copy
        return [f"if {self.prefix}_head[{self.key}] >= 0:", *indent(resets)] if resets else []

    @property
    def _reset_at(self) -> str:
        return self._copied.noted if self.window.passes else f"{self.prefix}_ts[{self.prefix}_head[{self.key}]]"
