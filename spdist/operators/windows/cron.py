"""The window ``cron``, released when a cron expression fires."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import window
from spdist.java.cron import CronExpression
from spdist.language.ast import Expression, Literal
from spdist.language.types import Type
from spdist.operators.base import CURRENT, EXPIRED, Arrival, Event, Row, Window, WindowSetting

__all__ = ["CronWindow"]

#: Among timers due at the same time cron comes after those of queries; see `spdist.operators.core.triggers`.
_RANK = 2_500_000


def _resolve(types: tuple[Type, ...], expressions: tuple[Expression, ...]) -> None:
    if types != (Type.STRING,) or not isinstance(expressions[0], Literal):
        raise SiddhiTypeError("'cron' takes one constant string", hint="it is written as cron('0 0/5 * * * ?')")
    CronExpression(str(expressions[0].value))


@window("cron", _resolve)
class CronWindow(Window):
    """Collect events until the expression fires, then release them together with the batch before as EXPIRED.

    There is no RESET: totals fall by what expires. Where no event came, a firing releases nothing and the batch before
    stays.

    State
    -----
    ``batch``: the events since the last firing; ``before``: the batch released last.

    Notes
    -----
    Siddhi does not start an app whose expression is wrong; here it is refused when it is checked.
    Source: io.siddhi.core.query.processor.stream.window.CronWindowProcessor.
    """

    findable = False

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.expression = CronExpression(setting.constants[0])
        self.batch: list[Arrival] = []
        self.before: list[Arrival] = []
        self.timer = setting.timer(self._wake)
        first, *rest = self.timer.rank
        self.timer.rank = (_RANK + first, rest[0], rest[1])

    def process(self, timestamp: int, row: Row) -> None:
        """Add one event."""
        self.process_chunk(((timestamp, row),))

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Add events; the first of a batch asks to be woken at the next firing."""
        if not self.batch:
            due = self.expression.next_after(self.clock.now)
            # An expression with years can have no firing left.
            if due is not None:
                self.timer.notify_at(due)
        self.batch += arrivals

    def _wake(self, _due: int) -> None:
        now = self.clock.now
        chunk: list[Event] = [(EXPIRED, now, row) for _, row in self.before]
        chunk += [(CURRENT, timestamp, row) for timestamp, row in self.batch]
        self.before, self.batch = self.batch, []
        self.emit(chunk)

    def contents(self) -> Iterable[Arrival]:
        """Yield the batch released last."""
        return iter(self.before)

    def snapshot(self) -> Any:
        """Return both batches and the firing waited for."""
        return [self.batch, self.before, self.timer.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.batch, self.before, due = state
        self.timer.restore(due)
