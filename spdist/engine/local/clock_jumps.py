"""How far ahead of the clock of an app an event may lie.

In an ``@app:playback`` app a timestamp far in the future would make everything after it late for ever, since the clock
never goes back. Such an event is refused as one that a query fails on: it goes where the stream's ``@OnError`` says, or
is counted and logged; the clock stays, and the events after it go on as if it had not come.

A live app goes by the clock on the wall, which tells the time of each batch, and no event moves it. But windows and
patterns go by timestamps: one far in the future would keep all that is behind it waiting until then. It is refused
likewise, only sooner.

Apps that run as Spark Columns (`spdist.planning.columns.realtime`) refuse none, and need not: they are whole apps
without state and timers, in which nothing can be late, and what they write to Kafka has the time of its writing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from spdist.errors import EngineError, ErrorKind
from spdist.language.checking.checked import CheckedApp
from spdist.operators.base import Arrival, Row, VirtualClock
from spdist.operators.core.junction import Junction

__all__ = ["Jumps"]

_NOT_BEGUN = -(2**64)
_NO_LIMIT = 2**64
_DAY_MS = 86_400_000


class Jumps:
    """Refuses the events of one app that lie too far ahead of its clock.

    Parameters
    ----------
    checked : CheckedApp
        The app. Without ``@app:playback`` there is no limit: in virtual time it goes where it is told.
    clock : VirtualClock
        Its clock.
    junctions : mapping of str to Junction
        Its streams.
    live : bool
        Whether that is the clock on the wall.

    State
    -----
    ``limit``: ms that an event may lie ahead; below all numbers before the first event, which may lie anywhere.
    """

    __slots__ = ("_clock", "_junctions", "_live", "_most", "limit")

    def __init__(
        self, checked: CheckedApp, clock: VirtualClock, junctions: Mapping[str, Junction], live: bool = False
    ) -> None:
        self._clock = clock
        self._junctions = junctions
        self._live = live
        self._most = checked.clock.max_ahead_ms if live else checked.clock.max_jump_ms
        self.limit = self._most if live else _NOT_BEGUN if checked.playback else _NO_LIMIT

    @property
    def began(self) -> bool:
        """Whether the first event has set the clock."""
        return self.limit > _NOT_BEGUN

    @began.setter
    def began(self, began: bool) -> None:
        if self.limit < _NO_LIMIT:
            self.limit = self._most if began else _NOT_BEGUN

    def is_too_far(self, timestamp: int) -> bool:
        """Tell whether an event lies too far ahead of the clock."""
        return self.began and timestamp - self._clock.now > self.limit

    def refuses(self, stream: str, arrivals: Sequence[Arrival]) -> bool:
        """Refuse a chunk where its last event, which moves the clock, lies too far ahead; tells whether it does.

        Nothing moves the clock on the wall: there each event counts.
        """
        timestamp = max(time for time, _ in arrivals) if self._live else arrivals[-1][0]
        if not self.is_too_far(timestamp):
            self.began = True
            return False
        days, most = (f"{round(ms / _DAY_MS, 2):g}" for ms in (timestamp - self._clock.now, self.limit))
        error = EngineError(
            f"the event of time {timestamp} lies {days} days ahead of the app's clock at {self._clock.now}; "
            + (f"in a live app it may be {most} at most" if self._live else f"one may move it by {most} days at most"),
            hint="for longer gaps write, for example: @app:clock(max.jump='5 years')",
            code=ErrorKind.CLOCK_JUMP,
        )
        self._junctions[stream].failed(arrivals, error)
        return True

    def runs(
        self, stream: str, timestamps: Sequence[int], rows: Sequence[Row]
    ) -> Iterator[tuple[Sequence[int], Sequence[Row]]]:
        """Yield the events, each a chunk of its own, without those that are refused; to be delivered as they come."""
        if not timestamps or self.limit == _NO_LIMIT:
            yield timestamps, rows
            return
        high = max(self._clock.now, timestamps[0]) if not self.began else self._clock.now
        self.began = True
        if max(timestamps) - high <= self.limit:
            yield timestamps, rows
            return
        refused = []
        # `high` is the clock as it will be when each is delivered
        for number, timestamp in enumerate(timestamps):
            if timestamp - high > self.limit:
                refused.append(number)
            else:
                high = max(high, timestamp)
        for last, number in pairwise((-1, *refused, len(rows))):
            yield timestamps[last + 1 : number], rows[last + 1 : number]
            if number < len(rows):
                self.refuses(stream, ((timestamps[number], rows[number]),))
