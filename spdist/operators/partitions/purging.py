"""When partitions look for keys that were idle.

Source: io.siddhi.core.partition.PartitionRuntimeImpl, described in our own words.
"""

from __future__ import annotations

from typing import Any

from spdist.language import ast
from spdist.language.parsing.parser import read_time

__all__ = ["MOST_PHASES", "PurgeTimes", "purging_of"]

_INTERVAL_MS = 300_000
#: How many different phases are kept: more of them tell times apart that lie closer than a thousandth of the interval.
MOST_PHASES = 1000


def purging_of(partition: ast.Partition) -> tuple[int, int | None]:
    """Return how often idle keys are looked for, and how long they may idle (None: for ever), in ms."""
    for purge in ast.find_annotations(partition.annotations, "purge"):
        if (purge.get("enable") or "").lower() == "true":
            idle, interval = purge.get("idle.period"), purge.get("interval")
            return (
                _INTERVAL_MS if interval is None else (read_time(interval) or _INTERVAL_MS),
                None if idle is None else read_time(idle),
            )
    return _INTERVAL_MS, None


class PurgeTimes:
    """The times at which a partition looks for idle keys.

    Siddhi begins a new series of looks with every event: the first one an interval after it, then one each interval. So
    there is a look at a time where an event came a whole number of intervals before.

    Parameters
    ----------
    interval : int
        In ms.

    State
    -----
    ``begun``: by phase (time modulo interval) the first event of that phase; at most 1000.
    """

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.begun: dict[int, int] = {}

    def note(self, now: int) -> bool:
        """Begin a series of looks; tells whether it is one of a new phase."""
        phase = now % self.interval
        if phase in self.begun or len(self.begun) >= MOST_PHASES:
            return False
        self.begun[phase] = now
        return True

    def after(self, time: int) -> int:
        """Return the first look later than `time`."""
        earliest = time + 1
        return min(
            max(begun + self.interval, earliest + (phase - earliest) % self.interval)
            for phase, begun in self.begun.items()
        )

    def snapshot(self) -> Any:
        """Return the series that were begun."""
        return self.begun

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.begun = dict(state)
