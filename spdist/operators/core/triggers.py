"""Triggers: streams that the clock writes to.

A trigger's event holds the time at which it fired, which is the app's time.

Source: io.siddhi.core.trigger (StartTrigger, PeriodicTrigger, CronTrigger), described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from spdist.java.cron import CronExpression
from spdist.language import ast
from spdist.operators.base import ALWAYS, NOT_NOW, Timer, VirtualClock
from spdist.operators.core.junction import Junction
from spdist.operators.queries.plans import Place

__all__ = ["CRON_RANK", "PERIODIC_RANK", "PURGE_RANK", "Trigger", "Triggers"]

#: Among timers due at the same time those of queries come first, then periodic triggers, cron triggers, and purges.
PERIODIC_RANK = 1_000_000
CRON_RANK = 2_000_000
PURGE_RANK = 3_000_000


class Trigger:
    """One ``define trigger`` at work.

    Parameters
    ----------
    definition : TriggerDefinition
        ``at 'start'``, ``at every 5 sec`` or ``at '<cron expression>'``.
    position : int
        Its place among the triggers of the app: of those due at the same time the one written first fires first.
    junction : Junction
        The trigger's stream.
    clock : VirtualClock
        The app's time.
    timer : Callable
        Makes its timer from its rank and the function to wake.

    State
    -----
    When it fires next.

    Notes
    -----
    ``every t`` fires first a time `t` after the start, then at a fixed rate. A cron trigger whose expression holds in
    the second of the start fires at the start, right before the first event. ``'start'`` fires while the app starts.
    """

    def __init__(
        self,
        definition: ast.TriggerDefinition,
        position: int,
        junction: Junction,
        clock: VirtualClock,
        timer: Callable[[tuple[int, int], Callable[[int], None]], Timer],
    ) -> None:
        self._junction = junction
        self._clock = clock
        self._at_start = definition.at is not None and definition.at.lower() == "start"
        self._period = definition.every.milliseconds if definition.every is not None else None
        self._cron: CronExpression | None = None
        if definition.at is not None and not self._at_start:
            self._cron = CronExpression(definition.at)
        rank = PERIODIC_RANK if self._period is not None else CRON_RANK
        self._timer = timer((rank + position, 0), self._wake)
        self._timer.rests = self

    def start(self) -> None:
        """Begin: periods count from now, and ``'start'`` fires."""
        now = self._clock.now
        if self._at_start:
            self._fire()
        elif self._period is not None:
            self._timer.notify_at(now + self._period)
        elif self._cron is not None:
            self._notify_at(self._cron.first_from(now))

    def calm_until(self, _to_ms: int) -> int:
        """See `spdist.operators.base.Rests`: where nobody hears of it, nothing comes of it."""
        return NOT_NOW if self._junction.is_heard else ALWAYS

    def skip(self, to_ms: int) -> None:
        """See `spdist.operators.base.Rests`."""
        if self._period is not None:
            self._timer.postpone(-(-(to_ms - self._timer.due[0]) // self._period) * self._period)
        elif self._cron is not None:
            # Firings of a cron expression are not evenly spaced: they cannot be put off by a number of ms.
            self._timer.cancel()
            self._notify_at(self._cron.first_from(to_ms))

    def _wake(self, due: int) -> None:
        # Asked for before it fires: whoever takes a snapshot in between sees when the next one is due.
        if self._period is not None:
            self._timer.notify_at(due + self._period)
        elif self._cron is not None:
            self._notify_at(self._cron.next_after(self._clock.now))
        self._fire()

    def _notify_at(self, due: int | None) -> None:
        if due is not None:
            self._timer.notify_at(due)

    def _fire(self) -> None:
        now = self._clock.now
        self._junction.receive(now, (now,))

    def snapshot(self) -> list[int]:
        """Return when it fires next."""
        return self._timer.snapshot()

    def restore(self, state: list[int]) -> None:
        """Take over the state of a snapshot."""
        self._timer.restore(state)


class Triggers:
    """All triggers of an app, in the order of the text.

    Parameters
    ----------
    definitions : iterable of Definition
        What the app defines.
    place : Place
        The app.
    """

    def __init__(self, definitions: Iterable[ast.Definition], place: Place) -> None:
        self._triggers = {
            definition.name: Trigger(definition, position, place.junction(definition.name), place.clock, place.timer)
            for position, definition in enumerate(d for d in definitions if isinstance(d, ast.TriggerDefinition))
        }

    def start(self) -> None:
        """Begin: periods count from now, and those ``at 'start'`` fire."""
        for trigger in self._triggers.values():
            trigger.start()

    def __iter__(self) -> Iterator[tuple[str, Trigger]]:
        """Iterate over them, by name."""
        return iter(self._triggers.items())
