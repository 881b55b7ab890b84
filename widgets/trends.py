"""The trends of group instances: their figures of the last ten minutes, from one status after another. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from spdist.cluster.clients.overview import ClusterStatus, GroupStatus

__all__ = ["SPAN_S", "Figures", "Point", "Trends", "percentile"]

#: How far back it goes, and how many points that may be: one a second.
SPAN_S = 600.0
_MOST_POINTS = 600
#: A worker that was heard again within this time has told nothing new.
_APART_S = 0.5


class Point(NamedTuple):
    """Figures of one instance at one moment, None where they are not known; without `ran`, that it did not run."""

    at_s: float
    in_per_s: float | None = None
    out_per_s: float | None = None
    lag: float | None = None
    batch_ms: float | None = None
    state_bytes: float | None = None
    ran: bool = True


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of one instance: its last figures, and the points behind them.

    Parameters
    ----------
    points : sequence of Point
        Oldest first, at most ten minutes and 600 of them.
    """

    points: Sequence[Point] = ()

    @property
    def last(self) -> Point:
        """The newest point; without figures where there is none."""
        return self.points[-1] if self.points else Point(0.0)

    def batch_ms(self, share: float) -> float | None:
        """Return a percentile of the batch times, ms; each report tells that of the last batch before it."""
        return percentile([point.batch_ms for point in self.points if point.batch_ms is not None], share)

    def curve(self, figure: str) -> list[tuple[float, float | None]]:
        """Return time (s) and value of each point that has the figure; None where the instance did not run."""
        known = ((point, getattr(point, figure)) for point in self.points)
        return [(point.at_s, value) for point, value in known if value is not None or not point.ran]


@dataclass(slots=True)
class _Track:
    """One instance: its points, and the counters at the last of them."""

    points: deque[Point] = field(default_factory=lambda: deque(maxlen=_MOST_POINTS))
    counters: Mapping[str, float] = field(default_factory=dict)


class Trends:
    """Turns the counters that groups report into rates, and keeps them.

    State
    -----
    Up to 600 points for each instance that was there within the last ten minutes.
    """

    def __init__(self) -> None:
        self._tracks: dict[str, _Track] = {}

    def note(self, status: ClusterStatus, now_s: float) -> None:
        """Put down the figures of a status that was taken at `now_s` (monotonic clock, s).

        A figure is as old as the heartbeat that brought it; without a new heartbeat there is no new point.
        """
        heard_s = {worker.id: now_s - worker.silent_ms / 1000 for worker in status.workers}
        for group in (group for app in status.apps for group in app.groups):
            track = self._tracks.setdefault(group.name, _Track())
            if group.state == "RUNNING" and group.worker in heard_s:
                _note(track, group, heard_s[group.worker])
            elif track.points and track.points[-1].ran:
                track.points.append(Point(now_s, ran=False))
                track.counters = {}
        there = {group.name for app in status.apps for group in app.groups}
        self._tracks = {name: one for name, one in self._tracks.items() if name in there or _recent(one, now_s)}

    def figures(self, now_s: float) -> dict[str, Figures]:
        """Return what is known of each instance, of the last ten minutes."""
        return {name: Figures(tuple(_since(track, now_s - SPAN_S))) for name, track in self._tracks.items()}


def _note(track: _Track, group: GroupStatus, at_s: float) -> None:
    # Of the first point it only has to be long enough: without counters there are no rates.
    past_s = at_s - track.points[-1].at_s if track.points else SPAN_S
    if past_s < _APART_S:
        return
    metrics, before = group.metrics, track.counters
    # A batch that no report has told of yet; of an instance that has just started every one is new.
    new_batch = metrics.get("batches", 0.0) != before.get("batches", 0.0)
    track.points.append(
        Point(
            at_s,
            _rate(before, metrics, "eventsIn", past_s),
            _rate(before, metrics, "eventsOut", past_s),
            metrics.get("lag"),
            metrics.get("batchMs") if new_batch else None,
            metrics.get("stateBytes"),
        )
    )
    track.counters = metrics


def _rate(before: Mapping[str, float], now: Mapping[str, float], counter: str, past_s: float) -> float | None:
    """Return how much a counter rose in a second; None where it is new, or went back to an earlier state."""
    if counter not in before or counter not in now or now[counter] < before[counter]:
        return None
    return (now[counter] - before[counter]) / past_s


def _recent(track: _Track, now_s: float) -> bool:
    return bool(track.points) and track.points[-1].at_s > now_s - SPAN_S


def _since(track: _Track, from_s: float) -> Iterator[Point]:
    return (point for point in track.points if point.at_s >= from_s)


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value below which a share (0 .. 1) of the values lies, by the nearest rank; None of nothing.

    >>> percentile([10.0, 20.0, 30.0, 40.0], 0.5)
    20.0
    """
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]
