"""The window ``session``: events of a key belong together until the key has been quiet for a while."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import window
from spdist.java.objects import bucket_of, concurrent_capacity
from spdist.language.ast import Expression, Literal, TimeLiteral, Variable
from spdist.language.types import Type
from spdist.operators.base import CURRENT, EXPIRED, Arrival, Event, Row, Window, WindowSetting

__all__ = ["SessionWindow"]

log = logging.getLogger(__name__)

_HINT = "it is written as session(session.gap[, session.key[, allowed.latency]]), times as '2 sec' or '2000L'"


def _resolve(types: tuple[Type, ...], expressions: tuple[Expression, ...]) -> None:
    if not 1 <= len(types) <= 3:
        raise SiddhiTypeError(f"'session' does not take {len(types)} arguments", hint=_HINT)
    for position in (0, 2):
        # Siddhi fails on an int here, though its signature allows one.
        if position < len(types) and not (
            types[position] is Type.LONG and isinstance(expressions[position], Literal | TimeLiteral)
        ):
            raise SiddhiTypeError("gap and latency of 'session' are constant times", hint=_HINT)
    if len(types) > 1 and not (types[1] is Type.STRING and isinstance(expressions[1], Variable)):
        raise SiddhiTypeError("the key of 'session' is a string attribute", hint=_HINT)
    if len(types) == 3 and _milliseconds(expressions[2]) > _milliseconds(expressions[0]):
        raise SiddhiTypeError("the latency of 'session' must not be longer than its gap", hint=_HINT)


def _milliseconds(expression: Expression) -> int:
    if isinstance(expression, TimeLiteral):
        return expression.milliseconds
    assert isinstance(expression, Literal)
    return int(str(expression.value))


class _Session:
    """The events of a session, and its times in ms.

    ``late`` is where the latest late event went in: each one that comes moves on by one event from there, as it does in
    Siddhi, which goes on with one pass through the session.
    """

    __slots__ = ("alive", "end", "held", "late", "start")

    def __init__(self) -> None:
        self.held: list[Arrival] = []
        self.start = self.end = self.alive = 0
        self.late = -1

    def clear(self) -> None:
        self.held, self.late = [], -1

    def put_before(self, events: list[Arrival]) -> None:
        if self.late + 1 < len(self.held):
            self.late += 1
        self.held[self.late : self.late] = events
        self.late += len(events)

    def snapshot(self) -> list[Any]:
        return [self.held, self.start, self.end, self.alive, self.late]

    def restore(self, state: list[Any]) -> None:
        self.held, self.start, self.end, self.alive, self.late = state


@window("session", _resolve)
class SessionWindow(Window):
    """Let events pass immediately; those of a session expire together ``session.gap`` ms after its latest one.

    With ``allowed.latency`` a session that ended is kept for that long as the key's previous session, so that late
    events can still join it, or join both sessions to one. Events that are too late are dropped.

    State
    -----
    For each key that came, its current and its previous session. ``ends`` follows from them: when each may be over, at
    most one entry for each event that came in a gap and latency.

    Notes
    -----
    What expires keeps its own timestamp. Siddhi shows nothing of the sessions to joins; here they see all events held.
    Source: io.siddhi.core.query.processor.stream.window.SessionWindowProcessor.
    """

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.gap: int = setting.constants[0]
        self.latency: int = setting.constants[2] if len(setting.constants) > 2 else 0
        self.key = setting.attributes[1] if len(setting.attributes) > 1 else None
        self.sessions: dict[Any, tuple[_Session, _Session]] = {}
        #: How many keys had come before a key did.
        self._before: dict[Any, int] = {}
        self.over: list[Event] = []
        #: Time, key as text, whether it is null, and key: only what is due is looked at when the window is woken.
        self.ends: list[tuple[int, str, bool, Any]] = []
        self.timer = setting.timer(self._wake)

    def process(self, timestamp: int, row: Row) -> None:
        """Release CURRENT(new), unless it is too late."""
        self.process_chunk(((timestamp, row),))

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Treat the events one by one; all that is released is one chunk."""
        chunk: list[Event] = []
        for timestamp, row in arrivals:
            if self._joins(timestamp, row):
                chunk.append((CURRENT, timestamp, row))
            else:
                log.info("an event at %s is too late for its session, which is over", timestamp)
        self._release(chunk)

    def _release(self, chunk: list[Event]) -> None:
        chunk += self.over
        self.over = []
        if chunk:
            self.emit(chunk)

    def _joins(self, timestamp: int, row: Row) -> bool:
        """Put an event where it belongs; False where it is too late."""
        key = None if self.key is None else row[self.key]
        sessions = self.sessions.get(key)
        if sessions is None:
            self._before[key] = len(self.sessions)
            sessions = self.sessions[key] = (_Session(), _Session())
        current, previous = sessions
        if not current.held:
            self._open(key, current, timestamp, row)
        elif timestamp < current.start:
            return self._joins_late(key, current, previous, timestamp, row)
        elif timestamp <= current.end:
            start = current.start
            # Sets the end by this event, also where it came out of order; only the start is that of the session.
            self._open(key, current, timestamp, row)
            current.start = start
        # Without a latency nobody holds it: it passes, and its value stays in the totals, as in Siddhi
        elif self.latency > 0:
            if previous.held:
                self._end(previous)
            self._move(key, current, previous)
            self._open(key, current, timestamp, row)
        return True

    def _open(self, key: Any, session: _Session, timestamp: int, row: Row) -> None:
        session.held.append((timestamp, row))
        session.start, session.end = timestamp, timestamp + self.gap
        session.alive = session.end + self.latency
        # Text and sign stand in front of the key, since None does not compare with a text.
        heappush(self.ends, (session.end, str(key), key is None, key))
        self.timer.notify_at(session.end)

    def _move(self, key: Any, current: _Session, previous: _Session) -> None:
        previous.held += current.held
        previous.start, previous.end, previous.alive = current.start, current.end, current.alive
        heappush(self.ends, (current.alive, str(key), key is None, key))
        self.timer.notify_at(current.alive)
        current.clear()

    def _end(self, session: _Session) -> None:
        self.over += [(EXPIRED, timestamp, row) for timestamp, row in session.held]
        session.clear()

    def _joins_late(self, key: Any, current: _Session, previous: _Session, timestamp: int, row: Row) -> bool:
        if timestamp >= current.start - self.gap:
            current.put_before([(timestamp, row)])
            current.start = timestamp
            if self.latency > 0:
                self._merge(previous, current)
            return True
        if not self.latency or not previous.held or timestamp < previous.start - self.gap:
            return False
        previous.held.append((timestamp, row))
        if timestamp <= previous.end - self.gap and timestamp < previous.start:
            previous.start = timestamp
        else:
            previous.end = timestamp + self.gap
            previous.alive = previous.end + self.latency
            heappush(self.ends, (previous.alive, str(key), key is None, key))
            self._merge(previous, current)
        return True

    def _merge(self, previous: _Session, current: _Session) -> None:
        if previous.held and previous.end >= current.start - self.gap:
            current.put_before(previous.held)
            current.start = previous.start
            previous.clear()

    def _wake(self, due: int) -> None:
        """End the sessions that are over, in the order of their ends; what ends together in that of Siddhi's map.

        That has a bucket for each hash code; of the keys of one bucket those that came first are first here.
        """
        keys: dict[Any, None] = {}
        while self.ends and self.ends[0][0] <= due:
            keys[heappop(self.ends)[-1]] = None
        if not keys:
            return
        # How many buckets Java's map has depends on how many keys it holds, those of ended sessions included.
        buckets = concurrent_capacity(len(self.sessions))
        order = sorted(keys, key=lambda key: (bucket_of(key, buckets), self._before[key]))
        named = [(key, self.sessions[key]) for key in order]
        sessions = [both for _, both in named]
        # Sorted by end, so the first session that is not over ends the loop.
        for key, (current, previous) in sorted((s for s in named if s[1][0].held), key=lambda s: s[1][0].end):
            if due < current.end:
                break
            if self.latency > 0:
                self._move(key, current, previous)
            else:
                self._end(current)
        # Looked at only here: the loop above may have filled them.
        for previous in sorted((s[1] for s in sessions if s[1].held), key=lambda previous: previous.end):
            if due < previous.alive:
                break
            self._end(previous)
        self._release([])

    def contents(self) -> Iterable[Arrival]:
        """Yield nothing: Siddhi looks at the sessions that are leaving only, and then at none."""
        return ()

    def snapshot(self) -> Any:
        """Return the sessions, and the wake-ups asked for."""
        sessions = {key: [s.snapshot() for s in both] for key, both in self.sessions.items()}
        return [sessions, self.timer.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        stored, due = state
        self.sessions, self.ends = {}, []
        self._before = {key: number for number, key in enumerate(stored)}
        for key, both in stored.items():
            self.sessions[key] = (_Session(), _Session())
            for session, its in zip(self.sessions[key], both, strict=True):
                session.restore(its)
            current, previous = self.sessions[key]
            # Those of empty sessions have time 0 and go with the first wake-up.
            self.ends += [(time, str(key), key is None, key) for time in (current.end, previous.alive)]
        heapify(self.ends)
        self.timer.restore(due)
