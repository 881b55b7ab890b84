"""Windows on the engine's clock: ``time``, ``timeLength``, ``timeBatch``, ``delay``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from spdist.extension import window
from spdist.language.types import Type
from spdist.operators.base import (
    ALWAYS,
    CURRENT,
    EXPIRED,
    NOT_NOW,
    RESET,
    Arrival,
    Event,
    Periodic,
    Row,
    Window,
    WindowLoop,
    WindowSetting,
    expiring,
)
from spdist.operators.core.parameters import INTEGER, PERIOD, TIME, Parameter, overloads

__all__ = ["DelayWindow", "TimeBatchWindow", "TimeLengthWindow", "TimeWindow"]

_TIME = Parameter("window.time", TIME)
_START = Parameter("start.time", TIME)
_STREAM_CURRENT = Parameter("stream.current.event", frozenset({Type.BOOL}))
_NEVER = -(2**63)


@window("time", overloads("time", (_TIME,)))
class TimeWindow(Window):
    """Keep each event for ``window.time`` ms of the engine's clock, counted from the event's own timestamp.

    Only the oldest arrival is looked at: a late event waits behind an earlier arrival with a younger timestamp.

    State
    -----
    ``held``: the events of the last ``window.time`` ms; ``latest``: greatest timestamp that a wake-up was asked for.

    Notes
    -----
    Source: io.siddhi.core.query.processor.stream.window.TimeWindowProcessor.
    """

    queues = True

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.span: int = setting.constants[0]
        self.partitioned = setting.partitioned
        self.held: deque[Arrival] = deque()
        self.latest = _NEVER
        self.timer = setting.timer(self._wake)

    @staticmethod
    def loop(constants: tuple[Any, ...]) -> WindowLoop | None:
        """Return how the window is written into a loop."""
        return WindowLoop(
            ("held, span = window.held, window.span",),
            (
                "gone = ()",
                "if held and held[0][0] + span <= clock.now:",
                "    gone = []",
                "    while held and held[0][0] + span <= clock.now:",
                "        gone.append(held.popleft())",
                "held.append((at, new))",
                "if at > window.latest:",
                "    window.latest = at",
                "    window.timer.notify_at(at + span)",
            ),
        )

    def process(self, timestamp: int, row: Row) -> None:
        """Release what is due as EXPIRED, then CURRENT(new), as one chunk."""
        held = self.held
        chunk = self._due(self.clock.now) if held and held[0][0] + self.span <= self.clock.now else []
        self._hold(timestamp, row)
        chunk.append((CURRENT, timestamp, row))
        self.emit(chunk)

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Treat the events one by one; all that is released is one chunk."""
        chunk: list[Event] = []
        for timestamp, row in arrivals:
            chunk += self._due(self.clock.now)
            self._hold(timestamp, row)
            chunk.append((CURRENT, timestamp, row))
        self.emit(chunk)

    def _hold(self, timestamp: int, row: Row) -> None:
        self.held.append((timestamp, row))
        # A late event waits behind a younger head, whose wake-up is asked for already.
        if timestamp > self.latest:
            self.latest = timestamp
            self.timer.notify_at(timestamp + self.span)

    def _due(self, now: int) -> list[Event]:
        """Process the events whose time is over off the head; they expire now."""
        held, over = self.held, now - self.span
        chunk: list[Event] = []
        while held and held[0][0] <= over:
            chunk.append((EXPIRED, now, held.popleft()[1]))
        return chunk

    def _wake(self, _due: int) -> None:
        chunk = self._due(self.clock.now)
        # Siddhi drops the state of a key that holds nothing, and with it the greatest timestamp.
        if self.partitioned and not self.held:
            self.latest = _NEVER
        if chunk:
            self.emit(chunk)

    def contents(self) -> Iterable[Arrival]:
        """Yield the events held, oldest arrival first."""
        return iter(self.held)

    def snapshot(self) -> Any:
        """Return the events held and the wake-ups asked for."""
        return [self.held, self.latest, self.timer.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.held, self.latest, due = state
        self.timer.restore(due)


@window("timeLength", overloads("timeLength", (_TIME, Parameter("window.length", INTEGER))))
class TimeLengthWindow(TimeWindow):
    """Keep the last ``window.length`` events of the last ``window.time`` ms; whatever is reached first expires events.

    State
    -----
    ``held``: at most ``window.length`` events.

    Notes
    -----
    Source: io.siddhi.core.query.processor.stream.window.TimeLengthWindowProcessor.
    """

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.length: int = setting.constants[1]
        self.queues = self.length > 0  # else events pass that it never holds

    @staticmethod
    def loop(constants: tuple[Any, ...]) -> WindowLoop | None:
        """Return None: the window is called."""
        return None

    def process(self, timestamp: int, row: Row) -> None:
        """Release what is due and what is pushed out as EXPIRED, then CURRENT(new), as one chunk."""
        self.process_chunk([(timestamp, row)])

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Treat the events one by one; all that is released is one chunk."""
        chunk: list[Event] = []
        now = self.clock.now
        for timestamp, row in arrivals:
            chunk += self._due(now)
            if len(self.held) >= self.length and self.held:
                chunk.append((EXPIRED, now, self.held.popleft()[1]))
            if self.length > 0:
                self.held.append((timestamp, row))
            self.timer.notify_at(timestamp + self.span)
            chunk.append((CURRENT, timestamp, row))
        self.emit(chunk)


@window(
    "timeBatch",
    overloads("timeBatch", (PERIOD,), (PERIOD, _START), (PERIOD, _STREAM_CURRENT), (PERIOD, _START, _STREAM_CURRENT)),
)
class TimeBatchWindow(Window):
    """Collect the events of one period of ``window.time`` ms, then release them together with the period before.

    The first event opens the first period; with ``start.time`` the ends of the periods are those of periods counted
    from there. With ``stream.current.event`` each event passes immediately and only the expiry waits. Once open,
    periods follow one another whether or not events come.

    State
    -----
    ``batch``: the open period; ``before``: the period released last, kept where expired events are expected; where
    they are not but somebody looks into the window, all periods, for ever; ``reset``: the event that the next RESET
    copies. The end of the open period is shared by all partition keys: in a partition
    only the key that opened the first period is woken, and others are released when they get an event too late
    (Siddhi keeps ``nextEmitTime`` on the operator and not in the key's state).

    Notes
    -----
    Source: io.siddhi.core.query.processor.stream.window.TimeBatchWindowProcessor.
    """

    slides = False

    @staticmethod
    def loop(constants: tuple[Any, ...]) -> WindowLoop | None:
        """Return how events are collected in a loop; the first and the last one of a period are given to `process`."""
        if constants[-1] is True:
            return None
        test = "if window.reset is not None and clock.now < shared.get('end', clock.now):"
        lines = (test, "    window.batch.append((at, new))", "else:", "    window.process(at, new)")
        return WindowLoop(("shared = window.shared",), lines, releases=True)

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.span: int = setting.constants[0]
        options = setting.constants[1:]
        self.passes_current = bool(options) and options[-1] is True
        self.start: int | None = next((o for o in options if not isinstance(o, bool)), None)
        self.expects_expired = setting.expects_expired
        self.keeps = setting.expects_expired or setting.findable
        self.queues = self.keeps
        self.looked = 0
        self.shared = setting.shared
        self.batch: list[Arrival] = []
        self.before: list[Arrival] = []
        self.reset: Arrival | None = None
        # A chunk of no events: all there is to do is to end the period.
        self.timer = setting.timer(lambda _due: self.process_chunk(()))
        self.timer.rests = Periodic(self.timer, self.span, self.calm_until, self.passed)

    def calm_until(self) -> int:
        """Return `ALWAYS` where periods end and release nothing (`spdist.operators.base.Rests`)."""
        held = self.batch or self.reset is not None or (self.expects_expired and self.before)
        # In a partition another key may end the open period.
        return NOT_NOW if held or self.timer.due[0] != self.shared.get("end") else ALWAYS

    def passed(self, by_ms: int) -> None:
        """Be so many periods further, in ms."""
        self.shared["end"] += by_ms

    def process(self, timestamp: int, row: Row) -> None:
        """Add one event to the open period."""
        self.process_chunk(((timestamp, row),))

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Add events to the open period; where its end is reached, release it as one chunk."""
        now = self.clock.now
        # Decided before the events are added: those that come when the period is over still go out with it.
        ends = self._period_ends(now)
        chunk: list[Event] = []
        if arrivals and self.reset is None:
            self.reset = arrivals[0]
        if self.passes_current:
            chunk += [(CURRENT, timestamp, row) for timestamp, row in arrivals]
            if self.keeps:
                self.before += arrivals
        else:
            self.batch += arrivals
        if ends:
            chunk += self._closing(now)
        if chunk:
            self.emit(chunk)

    def _period_ends(self, now: int) -> bool:
        end: int | None = self.shared.get("end")
        if end is None:
            end = now + self.span
            if self.start is not None:
                elapsed = now - self.start
                # Java's remainder: before the start time it is negative and puts the end one period further.
                end -= elapsed % self.span if elapsed >= 0 else -(-elapsed % self.span)
            self.shared["end"] = end
            self.timer.notify_at(end)
        if now < end:
            return False
        self.shared["end"] = end + self.span
        self.timer.notify_at(end + self.span)
        return True

    def _closing(self, now: int) -> list[Event]:
        chunk: list[Event] = []
        if self.expects_expired:
            chunk += expiring(self.before, self.looked, now)
            self.before = []
            self.looked = 0
        if self.reset is not None:
            chunk.append((RESET, *self.reset))
            self.reset = None
        if self.batch:
            chunk += [(CURRENT, timestamp, row) for timestamp, row in self.batch]
            if self.keeps:
                # Siddhi takes nothing off where it expects no expired events, though the window is looked into.
                self.before += self.batch
            self.batch = []
        return chunk

    def note_lookup(self) -> None:
        """Take note that the batch was looked at."""
        self.looked = len(self.before)

    def contents(self) -> Iterable[Arrival]:
        """Yield the period released last."""
        return iter(self.before)

    def snapshot(self) -> Any:
        """Return the open period, the one before, its end, and the wake-ups asked for."""
        return [self.batch, self.before, self.reset, self.looked, self.shared.get("end"), self.timer.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.batch, self.before, self.reset, self.looked, end, due = state
        if end is not None:
            self.shared["end"] = end
        self.timer.restore(due)


@window("delay", overloads("delay", (Parameter("window.delay", TIME),)))
class DelayWindow(Window):
    """Hold each event back for ``window.delay`` ms, then release it as CURRENT; nothing ever expires.

    State
    -----
    ``held``: the events of the last ``window.delay`` ms; ``latest``: greatest timestamp that a wake-up was asked for.

    Notes
    -----
    Source: io.siddhi.core.query.processor.stream.window.DelayWindowProcessor.
    """

    def __init__(self, setting: WindowSetting) -> None:
        super().__init__(setting)
        self.span: int = setting.constants[0]
        self.partitioned = setting.partitioned
        self.held: deque[Arrival] = deque()
        self.latest = _NEVER
        self.timer = setting.timer(self._wake)

    def process(self, timestamp: int, row: Row) -> None:
        """Release what has waited long enough, and hold the new event."""
        self.process_chunk(((timestamp, row),))

    def process_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Release what has waited long enough as one chunk, and hold the new events."""
        chunk: list[Event] = []
        for timestamp, row in arrivals:
            chunk += self._due(self.clock.now)
            self.held.append((timestamp, row))
            if timestamp > self.latest:
                self.latest = timestamp
                self.timer.notify_at(timestamp + self.span)
        if chunk:
            self.emit(chunk)

    def _wake(self, _due: int) -> None:
        chunk = self._due(self.clock.now)
        # As in `TimeWindow`: Siddhi drops the state of a key that holds nothing.
        if self.partitioned and not self.held:
            self.latest = _NEVER
        if chunk:
            self.emit(chunk)

    def _due(self, now: int) -> list[Event]:
        held, over = self.held, now - self.span
        chunk: list[Event] = []
        while held and held[0][0] <= over:
            chunk.append((CURRENT, now, held.popleft()[1]))
        return chunk

    def contents(self) -> Iterable[Arrival]:
        """Yield the events held back, oldest arrival first."""
        return iter(self.held)

    def snapshot(self) -> Any:
        """Return the events held back and the wake-ups asked for."""
        return [self.held, self.latest, self.timer.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.held, self.latest, due = state
        self.timer.restore(due)
