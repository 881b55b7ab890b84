"""Windows of a program that release the batches of a time: an event or a timer ends a period.

The end of the open period is one for all keys of a partition. Where a period ends that puts out nothing, the window
goes to sleep: no timer is set, and the next event finds out which period it is in.
"""

from __future__ import annotations

from collections.abc import Callable

from spdist.program.batch_text import BatchWriter
from spdist.program.expressions import FLAG, NUMBER
from spdist.program.parts import Event, indent
from spdist.program.timer_text import NEVER, TimerWriter

__all__ = ["PeriodWriter"]


class PeriodWriter(BatchWriter):
    """Writes what a window does that releases the batches of a time; see `BatchWriter`.

    Notes
    -----
    ``q_ending`` is the end of the open period, ``q_asleep`` the number of the key whose timer sleeps, plus one, and
    ``q_came`` whether an event has passed since the totals began anew.
    """

    def _declare(self) -> None:
        super()._declare()
        arrays = self._whole.arrays
        arrays.declare(f"{self._prefix}_ending", NUMBER, "1", NEVER)
        arrays.declare(f"{self._prefix}_asleep", NUMBER, "1")
        if self._window.passes:
            arrays.declare(f"{self._prefix}_came", FLAG, self._query.instances)
        self._timer = TimerWriter(arrays, self._query, self._key)

    def block(self, event: Event, loop: Callable[[list[str]], list[str]]) -> list[str]:
        """Return what is done with a chunk of events.

        Parameters
        ----------
        event : Event
            An event of it.
        loop : callable
            From what is done with an event to a loop over those that come to the window.
        """
        some, ends = self._whole.name(), self._whole.name()
        begins = [f"{some} = 0", f"{ends} = 0"]
        first = [f"if {some} == 0:", f"    {some} = 1", *indent(self._looks(ends))]
        test = f"if {ends} != 0:"
        if not self._window.passes:
            released = self._results.hands_over(self._chunk([*self._closes(), *self._releases()]))
            return [*begins, *loop([*first, *self._holds(event, "head")]), test, *indent(released)]
        passing = [*first, f"{self._prefix}_came[{self._key}] = 1", *self._passes(event)]
        chunk = [*begins, *loop(passing), test, *indent(self._closes())]
        return self._results.hands_over(self._chunk(chunk))

    def wakes(self) -> list[str]:
        """Return what is done when the timer of a key is due."""
        prefix, key, ends = self._prefix, self._key, self._whole.name()
        calm = [f"{prefix}_{name}[{key}] < 0" for name in self._query.read.lists]
        calm += [f"{prefix}_came[{key}] == 0"] if self._window.passes else []
        body = self._chunk([*self._closes(), *([] if self._window.passes else self._releases())])
        return self._timer.wakes(
            [
                f"{ends} = 0",
                f"if now >= {prefix}_ending[0]:",
                f"    if {' and '.join([*calm, self._timer.is_only()])}:",
                f"        {prefix}_asleep[0] = {key} + 1",
                "    else:",
                *indent(indent(self._ends(ends))),
                f"if {ends} != 0:",
                *indent(self._results.hands_over(body)),
            ]
        )

    def _looks(self, ends: str) -> list[str]:
        """Return what finds out whether an event ends the open period, or opens the first one."""
        prefix, span, start = self._prefix, self._window.span, self._window.start
        until = self._whole.until(self._query.read)
        first = f"now + {span}" if start is None else f"now + {span} - remainder(now - {start}, {span})"
        return [
            f"if {prefix}_asleep[0] != 0:",
            f"    if {prefix}_ending[0] <= {until}:",
            f"        {prefix}_ending[0] += (({until} - {prefix}_ending[0]) // {span} + 1) * {span}",
            f"    {self._timer.asks(f'{prefix}_ending[0]', f'{prefix}_asleep[0] - 1')}",
            f"    {prefix}_asleep[0] = 0",
            f"if {prefix}_ending[0] == {NEVER}:",
            f"    {prefix}_ending[0] = {first}",
            f"    {self._timer.asks(f'{prefix}_ending[0]')}",
            f"if now >= {prefix}_ending[0]:",
            *indent(self._ends(ends)),
        ]

    def _ends(self, ends: str) -> list[str]:
        ending = f"{self._prefix}_ending[0]"
        return [f"{ends} = 1", f"{ending} += {self._window.span}", self._timer.asks(ending)]

    def _resets(self) -> list[str]:
        """Return what lets all totals begin anew, where an event has come since they did."""
        came = f"{self._prefix}_came[{self._key}]"
        if self._window.passes:
            return [f"if {came} != 0:", *indent([f"{came} = 0", *self._groups.resets()])]
        resets = self._groups.resets()
        return [f"if {self._prefix}_head[{self._key}] >= 0:", *indent(resets)] if resets else []
