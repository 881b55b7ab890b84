"""Streams that feed themselves: what goes round without end is stopped.

Delivery is depth first, so an event that a query puts back into a stream that it comes from is inside of the delivery
of the first one. Where that does not end by itself, the first event that went round is given up as one that a query
fails on; what its cascade has changed until then stays. Depth is counted in streams, so that it is the same on every
machine. Siddhi's stack overflows there.

What stays may come back: events that a window keeps go round once more when they leave it, and would become more each
time. So the limit is a quarter of what it was after each cascade that was stopped, and four times that after each one
that went round and ended by itself.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from spdist.errors import EngineError, ErrorKind
from spdist.language.checking.checked import CheckedApp
from spdist.operators.base import Arrival, Row
from spdist.operators.core.junction import Junction

__all__ = ["MOST_EVENTS", "MOST_LEVELS", "CircularJunction", "Rounds", "circular_streams"]

#: So many deliveries may be inside of one another, and so many events follow from one, in streams that feed themselves.
MOST_LEVELS = 500
MOST_EVENTS = 100_000
#: Frames of Python that one delivery may need.
_FRAMES_EACH = 25
#: The limits after many that were stopped: what goes round a few times still ends by itself.
_LEAST_LEVELS, _LEAST_EVENTS, _MOST_STOPPED = 8, 100, 5


class _Stopped(BaseException):
    """Ends all deliveries that are inside of one another; no `Exception`, so that none of them takes it for its own."""


class _Frames:
    """Python's limit of frames, which is one for all threads of the process.

    State
    -----
    How many deliveries have it raised, and what it is without them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._raised = self._before = 0

    def raise_limit(self) -> None:
        """Let deliveries go deep, until `lower_limit`."""
        with self._lock:
            if not self._raised:
                self._before = sys.getrecursionlimit()
                # Depth is counted in deliveries: Python's own limit must not be met first.
                sys.setrecursionlimit(self._before + MOST_LEVELS * _FRAMES_EACH)
            self._raised += 1

    def lower_limit(self) -> None:
        """End that; the limit is as before where nobody else needs more."""
        with self._lock:
            self._raised -= 1
            if not self._raised:
                sys.setrecursionlimit(self._before)


_FRAMES = _Frames()


class Rounds:
    """Counts the deliveries of an app to streams that feed themselves.

    State
    -----
    ``stopped``: how many cascades were stopped, less those that ended by themselves since; from 0 to 5.
    """

    __slots__ = ("_deepest", "events", "level", "stopped", "why")

    def __init__(self) -> None:
        self.stopped = 0
        self.why = ""
        self.level = self._deepest = 0
        self.events = 0

    def enter(self, count: int) -> None:
        """Begin a delivery of so many events."""
        if not self.level:
            self.events = self._deepest = 0
            _FRAMES.raise_limit()
        else:
            self.events += count
        self.level += 1
        self._deepest = max(self._deepest, self.level)
        if self.level > self.most_levels or self.events > self.most_events:
            deep = self.events <= self.most_events
            many = f"and has become more than {self.most_events} events"
            self.why = f"{self.most_levels} times without an end" if deep else many
            self.stopped = min(_MOST_STOPPED, self.stopped + 1)
            # Else the outermost `leave` would take it for a cascade that ended by itself.
            self._deepest = 0
            # Callers call `leave` only after an `enter` that returned.
            self.leave()
            raise _Stopped

    def leave(self) -> None:
        """End a delivery."""
        self.level -= 1
        if not self.level:
            _FRAMES.lower_limit()
            if self._deepest > 1:
                self.stopped = max(0, self.stopped - 1)

    @property
    def most_levels(self) -> int:
        """How many deliveries may be inside of one another."""
        return max(_LEAST_LEVELS, MOST_LEVELS >> 2 * self.stopped)

    @property
    def most_events(self) -> int:
        """How many events may follow from one."""
        return max(_LEAST_EVENTS, MOST_EVENTS >> 2 * self.stopped)


class CircularJunction(Junction):
    """A stream that feeds itself, over one query or several.

    Parameters
    ----------
    rounds : Rounds
        The app's.
    others
        Those of `Junction`.
    """

    __slots__ = ("_rounds",)

    def __init__(self, rounds: Rounds, *others: object) -> None:
        super().__init__(*others)  # type: ignore[arg-type]
        self._rounds = rounds

    def receive(self, timestamp: int, row: Row) -> None:
        """Deliver one event."""
        self._rounds.enter(1)
        try:
            super().receive(timestamp, row)
        except _Stopped:
            self._stop(((timestamp, row),))
        finally:
            self._rounds.leave()

    def receive_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Deliver the events of one chunk."""
        self._rounds.enter(len(arrivals))
        try:
            super().receive_chunk(arrivals)
        except _Stopped:
            self._stop(arrivals)
        finally:
            self._rounds.leave()

    def _stop(self, arrivals: Sequence[Arrival]) -> None:
        """Pass on that all is stopped; what went round first is given up."""
        if self._rounds.level > 1:
            # Raises again what the caller is handling.
            raise
        error = EngineError(
            f"an event of stream '{self.id}' goes round {self._rounds.why}: "
            "queries put what they read back into what they read",
            hint="add a filter that ends it, or insert into another stream",
            code=ErrorKind.FEEDBACK,
        )
        self.failed(arrivals, error)


def circular_streams(checked: CheckedApp) -> set[str]:
    """Return the streams and named windows that feed themselves, inner ones included; possibly some between circles."""
    kept = {*checked.tables, *checked.aggregations}
    inside = (query for partition in checked.partitions for query in partition.queries)
    edges: dict[str, set[str]] = {}
    for query in (*checked.queries, *inside):
        for source in query.scope.sources:
            # A table or an aggregation hands nothing on when it is written to.
            if source.stream_id not in kept and query.target not in kept:
                edges.setdefault(source.stream_id, set()).add(query.target)
    backwards: dict[str, set[str]] = {}
    for source_id, targets in edges.items():
        for target in targets:
            backwards.setdefault(target, set()).add(source_id)
    return _left(edges, backwards) & _left(backwards, edges)


def _left(edges: dict[str, set[str]], backwards: dict[str, set[str]]) -> set[str]:
    """Return what is left when that which leads nowhere is removed, again and again."""
    left = {*edges, *backwards}
    counts = {one: len(edges.get(one, ())) for one in left}
    ends: list[str] = [one for one, count in counts.items() if not count]
    while ends:
        one = ends.pop()
        left.discard(one)
        for before in backwards.get(one, ()):
            counts[before] -= 1
            if not counts[before]:
                ends.append(before)
    return left
