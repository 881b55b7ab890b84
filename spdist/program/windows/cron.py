"""The window ``cron`` holds events back until an expression fires; what was released before leaves then."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from spdist.java.cron import CronExpression
from spdist.language import ast
from spdist.operators.core.state_columns import Column, StructColumn
from spdist.program.expressions import NUMBER
from spdist.program.parts import Event, QueryText
from spdist.program.registry import WINDOWS
from spdist.program.running.orders import firing_of
from spdist.program.running.running import Running
from spdist.program.shape import Read
from spdist.program.states.dues import window_dues
from spdist.program.states.nodes import stored_list
from spdist.program.states.window import ListStates, Loaded
from spdist.program.timer_text import NEVER, TimerWriter
from spdist.program.windows.batch_text import BatchWriter
from spdist.program.windows.kinds import Found, Sliding, WindowCall

__all__ = ["Cron", "CronWriter"]

_expression = lru_cache(maxsize=64)(CronExpression)


@WINDOWS.typed("cron")
@dataclass(frozen=True, slots=True)
class Cron(Sliding):
    """A window that holds events back until a cron expression fires; those that it has released leave one by one then.

    Parameters
    ----------
    expression : str
        The expression.
    """

    expression: str = ""

    @classmethod
    def of(cls, given: WindowCall) -> Cron | None:
        """Return what an app says."""
        (expression,) = given.call.args
        return cls(expression=str(expression.value)) if isinstance(expression, ast.Literal) else None

    @property
    def writer(self) -> type[CronWriter]:
        """What writes it."""
        return CronWriter

    @property
    def states(self) -> CronStates:
        """What knows its state."""
        return CronStates(self)

    @property
    def delays(self) -> bool:
        """Whether events come out of it later than they come."""
        return True

    @property
    def is_timed(self) -> bool:
        """Whether events leave it when time passes."""
        return True

    @property
    def is_left(self) -> bool:
        """Whether events leave it that have come."""
        return True

    @property
    def is_joined(self) -> bool:
        """Whether it may stand on a side of a join: such joins are left to operators."""
        return False

    @property
    def found(self) -> Found:
        """How a join finds what it holds: as in Siddhi it does not."""
        return Found.NOTHING

    @property
    def lists(self) -> tuple[str, ...]:
        """What it holds: what waits, and what it has released last."""
        return ("head", "left")

    @property
    def fires_last(self) -> bool:
        """Whether its timers fire behind those of other windows."""
        return True

    def next_after(self, now: int) -> int | None:
        """Return when the expression fires next, ms; None where it never does."""
        return _expression(self.expression).next_after(now)


class CronWriter(BatchWriter):
    """Writes what happens in a window ``cron``; see `BatchWriter`.

    Notes
    -----
    ``q_firing`` is since when the next firing is known, and when it is: the loop asks Python for it (`running.orders`).
    """

    def _declare(self) -> None:
        super()._declare()
        arrays, prefix = self.whole.arrays, self.prefix
        self._timer = TimerWriter(arrays, self.query, self.key)
        self._firing = arrays.declare(f"{prefix}_firing", NUMBER, "2", NEVER)
        self._site = arrays.asks(firing_of(prefix), self._nodes)

    @property
    def _keeps(self) -> bool:
        """Whether what was released last is kept: it is to leave the totals."""
        return True

    def takes(self, event: Event) -> list[str]:
        """Return what is done with an event: the first one of a batch asks for a wake-up."""
        since, due = f"{self._firing}[0]", f"{self._firing}[1]"
        return [
            f"if {self.prefix}_head[{self.key}] < 0:",
            # A call out of the loop only where the firing that is known is not the next one
            f"    if not ({since} <= now < {due}):",
            f"        called(callback, {self._site}, now, 0)",
            # Where it never fires again, it is said to be due now (`running.orders`): nobody is to be woken
            f"    if {due} > now:",
            f"        {self._timer.asks(due)}",
            *self._holds(event, "head"),
        ]

    def wakes(self) -> list[str]:
        """Return what is done when the expression fires."""
        prefix, key, groups, results = self.prefix, self.key, self.groups, self._results
        group = self.whole.arrays.declare(f"{prefix}_g", NUMBER, self._nodes, "-1")
        leaves = results.emits(Event(self._kept, "now", "gone"), True)
        leaves = groups.leaves(self._kept, f"{prefix}_ts[d]", f"{group}[d]", leaves)
        event = Event(self._kept, f"{prefix}_ts[d]", groups.number)
        enters = (
            [*groups.finds(event.read), f"{group}[d] = {groups.number}", *groups.counts()] if groups.aggregated else []
        )
        enters += [*self._adds(event), *results.emits(event)]
        moves = [f"{prefix}_left{part}[{key}] = {prefix}_head{part}[{key}]" for part in ("", "_end", "_size")]
        chunk = [
            *self._each("left", groups.passes(self._kept, leaves)),
            *self._frees("left"),
            *self._each("head", groups.passes(self._kept, enters)),
            *moves,
            f"{prefix}_head[{key}], {prefix}_head_size[{key}] = -1, 0",
        ]
        return self._timer.wakes(results.hands_over(self._chunk(chunk)))


class CronStates(ListStates):
    """The state of a window that holds events back until it fires."""

    def loaded(self, read: Read, states: Column) -> Loaded:
        """Return what waits, and what was released last."""
        head, left, dues = states.parts(3)
        return Loaded({"head": head, "left": left}, dues=dues)

    def stored(self, running: Running, query: QueryText, count: int) -> Column:
        """Return the states of so many keys of a partition, by number; or one."""
        held = [stored_list(running, query, name, count) for name in ("head", "left")]
        return StructColumn(list, [*held, window_dues(running, query, count)])

    def fresh(self, read: Read) -> Any:
        """Return the state of a window that has seen nothing."""
        return [[], [], []]
