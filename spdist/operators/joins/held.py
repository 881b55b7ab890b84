"""What the sides of a quiet join hold, see `spdist.operators.joins.quiet`."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from spdist.operators.base import Arrival, Row

__all__ = ["Held"]

_NEVER = -(2**63)


@dataclass(slots=True)
class Held:
    """What a side of a quiet join holds.

    Parameters
    ----------
    position : int
        0 for the left side, 1 for the right side.
    attributes : tuple of int
        Those that are the key by which the other side looks.
    wanted : int, optional
        The only attribute that is used of a partner.
    size : int
        Of the window: ms, or events.
    timed : bool
        Whether it is a window of time.

    State
    -----
    ``events``: as the window would hold them, and those that are over and not taken off yet; ``rows``: the same rows by
    key, or of each row the only value that is `wanted` of it; ``latest``: greatest timestamp so far.
    """

    position: int
    attributes: tuple[int, ...]
    wanted: int | None
    size: int
    timed: bool
    events: deque[Arrival] = field(default_factory=deque)
    rows: dict[Any, deque[Any]] = field(default_factory=dict)
    latest: list[int] = field(default_factory=lambda: [_NEVER])

    def clear(self) -> None:
        """Forget everything."""
        self.events.clear()
        self.rows.clear()
        self.latest[0] = _NEVER

    def over(self, now: int) -> None:
        """Take off what is over at `now`."""
        while self.timed and self.events and self.events[0][0] + self.size <= now:
            key = self._key(self.events.popleft()[1])
            if key is not None:
                self.rows[key].popleft()
                if not self.rows[key]:
                    del self.rows[key]

    def take(self, events: Sequence[Arrival]) -> None:
        """Hold `events` and nothing else."""
        self.clear()
        self.events.extend(events)
        for _, row in events:
            key = self._key(row)
            if key is not None:
                self.rows.setdefault(key, deque()).append(row if self.wanted is None else row[self.wanted])

    def keys(self, rows: Sequence[Row]) -> list[Any]:
        """Return the key of each row, None where there is a null in it."""
        if len(self.attributes) == 1:
            (attribute,) = self.attributes
            return [row[attribute] for row in rows]
        return list(map(self._key, rows))

    def _key(self, row: Row) -> Any:
        if len(self.attributes) == 1:
            return row[self.attributes[0]]
        key = tuple(row[attribute] for attribute in self.attributes)
        return None if None in key else key

    def wake_ups(self) -> list[int]:
        """Return when the window would wake: once for each timestamp."""
        return list(dict.fromkeys(timestamp + self.size for timestamp, _ in self.events))

    def snapshot(self, now: int) -> Any:
        """Return the state as the window would."""
        self.over(now)
        events = deque(self.events)
        return [events, self.latest[0], self.wake_ups()] if self.timed else events

    def restore(self, state: Any, now: int) -> bool:
        """Take over the state of a window; tells whether it is one that needs no timer."""
        if not self.timed:
            self.take(state)
            return True
        events, latest, due = state
        self.take(events)
        self.latest[0] = latest
        times = [timestamp for timestamp, _ in events]
        ordered = times == sorted(times) and all(time + self.size > now for time in times)
        return ordered and due == self.wake_ups() and (not times or times[-1] == latest)
