"""Idle time: ``@app:playback(idle.time='…', increment='…')`` moves the clock while no event comes.

Siddhi measures by the clock on the wall; here by that of the batches, which a replay sees again.

Source: io.siddhi.core.util.timestamp.TimestampGeneratorImpl, described in our own words.
"""

from __future__ import annotations

from spdist.language.checking.checked import ClockSetting
from spdist.planning.topology import Assignment
from spdist.transports.commands import COMMANDS

__all__ = ["IdleTime", "passes_time"]


def _hears_outsiders(assignment: Assignment) -> bool:
    """Tell whether an instance reads events that come from outside the app."""
    return any(not one.producers and not one.drains and one.stream != COMMANDS for one in assignment.inputs)


def passes_time(assignment: Assignment) -> bool:
    """Tell whether time passes for an instance while nothing comes: always, or in playback with ``idle.time``.

    There it begins where events come from outside; other groups hear of it from those.
    """
    return not assignment.playback or (assignment.idle_ms > 0 and _hears_outsiders(assignment))


class IdleTime:
    """Measures how long nothing has come.

    Parameters
    ----------
    assignment : Assignment
        The instance; without events from outside nothing is measured.
    setting : ClockSetting
        After how long the clock goes on, and how far.

    State
    -----
    ``since``: the tick of the latest batch that brought events, or of the latest idle time since then, ms.
    """

    def __init__(self, assignment: Assignment, setting: ClockSetting) -> None:
        self.since: int | None = None
        self._idle_ms = setting.idle_ms if assignment.playback and _hears_outsiders(assignment) else 0
        self._increment_ms = setting.increment_ms

    def passes(self, tick: int, heard: bool) -> int:
        """Return how far the clock goes on in a batch, ms; `heard` where it brings events, or none have come ever."""
        if not self._idle_ms:
            return 0
        if heard or self.since is None:
            self.since = tick
            return 0
        times = max(0, (tick - self.since) // self._idle_ms)
        self.since += times * self._idle_ms
        return times * self._increment_ms
