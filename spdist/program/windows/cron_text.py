"""Windows of a program that hold events back until a cron expression fires; what was released before leaves then."""

from __future__ import annotations

from spdist.program.expressions import NUMBER
from spdist.program.parts import Event
from spdist.program.timer_text import NEVER, TimerWriter
from spdist.program.windows.batch_text import BatchWriter

__all__ = ["CronWriter", "firing_query"]

_FIRING = "firing "


def firing_query(name: str) -> str | None:
    """Return the prefix of the query that asks when its window fires next; None where one asks for something else."""
    return name.removeprefix(_FIRING) if name.startswith(_FIRING) else None


class CronWriter(BatchWriter):
    """Writes what happens in a window ``cron``; see `BatchWriter`.

    Notes
    -----
    ``q_firing`` is since when the next firing is known, and when it is: the loop asks Python for it (`running.orders`).
    """

    def _declare(self) -> None:
        super()._declare()
        arrays, prefix = self._whole.arrays, self._prefix
        self._timer = TimerWriter(arrays, self._query, self._key)
        self._firing = arrays.declare(f"{prefix}_firing", NUMBER, "2", NEVER)
        self._site = arrays.asks(f"{_FIRING}{prefix}", self._nodes)

    @property
    def _keeps(self) -> bool:
        """Whether what was released last is kept: it is to leave the totals."""
        return True

    def takes(self, event: Event) -> list[str]:
        """Return what is done with an event: the first one of a batch asks for a wake-up."""
        since, due = f"{self._firing}[0]", f"{self._firing}[1]"
        return [
            f"if {self._prefix}_head[{self._key}] < 0:",
            f"    if not ({since} <= now < {due}):",
            f"        called(callback, {self._site}, now, 0)",
            f"    if {due} > now:",
            f"        {self._timer.asks(due)}",
            *self._holds(event, "head"),
        ]

    def wakes(self) -> list[str]:
        """Return what is done when the expression fires."""
        prefix, key, groups, results = self._prefix, self._key, self._groups, self._results
        group = self._whole.arrays.declare(f"{prefix}_g", NUMBER, self._nodes, "-1")
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
