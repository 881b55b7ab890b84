"""Rate limits: ``output all|first|last every …`` and ``output snapshot every …`` between a selector and its target.

A limit takes what the selector has let through, expired results included where the query puts them out. Results of a
query with ``group by`` carry the key of their group as a fourth part here. The limits by number and the simple ones by
time are in this module, snapshots in `snapshot`.

Source: io.siddhi.core.query.output.ratelimit (event, time), described in our own words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from spdist.operators.base import ALWAYS, NOT_NOW, Periodic, Row, Timer, VirtualClock
from spdist.operators.selection.selector import SelectorOutput

__all__ = ["MakeTimer", "NoLimit", "RateLimit", "Result", "Ticking", "limit_by_number", "limit_by_time"]

#: Kind, timestamp, row and, where the query groups, the key of the group.
Result: TypeAlias = tuple[Any, ...]
MakeTimer: TypeAlias = Callable[[Callable[[int], None]], Timer]


class RateLimit(ABC):
    """Holds back or drops results; what it lets through together is one chunk.

    Parameters
    ----------
    target : SelectorOutput
        Where results go on.
    """

    def __init__(self, target: SelectorOutput) -> None:
        self.target = target
        self.sink = SelectorOutput(self._process, self.process_chunk)

    def _process(self, kind: int, timestamp: int, row: Row) -> None:
        self.process_chunk([(kind, timestamp, row)])

    @abstractmethod
    def process_chunk(self, results: list[Result]) -> None:
        """Process the results of one chunk."""

    def start(self) -> None:
        """Begin: limits by time count from now."""
        return

    def release(self, results: list[Result]) -> None:
        """Let results go on as one chunk."""
        if len(results) == 1:
            kind, timestamp, row = results[0][:3]
            self.target.receive(kind, timestamp, row)
        elif results:
            self.target.receive_chunk([result[:3] for result in results])

    @abstractmethod
    def snapshot(self) -> Any:
        """Return the state as plain data."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""


class NoLimit(RateLimit):
    """The limit of a query without one: results go straight on."""

    def __init__(self, target: SelectorOutput) -> None:
        super().__init__(target)
        self.sink = target

    def process_chunk(self, results: list[Result]) -> None:
        """Let all results go on."""
        self.release(results)

    def snapshot(self) -> Any:
        """Return nothing: there is no state."""
        return None

    def restore(self, state: Any) -> None:
        """Do nothing: there is no state."""


class _AllOfNumber(RateLimit):
    """``all every n events``: collect results until there are n, then let them go on together.

    State
    -----
    ``held``: fewer than n results.
    """

    def __init__(self, target: SelectorOutput, number: int) -> None:
        super().__init__(target)
        self.number = number
        self.held: list[Result] = []

    def process_chunk(self, results: list[Result]) -> None:
        """Collect; whatever is full when the chunk ends goes on as one chunk."""
        held = self.held
        held += results
        full = len(held) - len(held) % self.number
        if full:
            going, self.held = held[:full], held[full:]
            self.release(going)

    def snapshot(self) -> Any:
        """Return what is collected."""
        return self.held

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.held = state


class _FirstOfNumber(RateLimit):
    """``first every n events``: let the first of every n results go on; with ``group by`` of every n of each group.

    State
    -----
    ``seen``: by group (None without groups) how many of the open n came: O(groups).

    Notes
    -----
    Siddhi counts the sign that resets totals like a result, and with n = 1 lets one result through and then none; here
    only results count, and with n = 1 all of them go on.
    """

    def __init__(self, target: SelectorOutput, number: int, grouped: bool) -> None:
        super().__init__(target)
        self.number = number
        self.grouped = grouped
        self.seen: dict[Any, int] = {}

    def process_chunk(self, results: list[Result]) -> None:
        """Let the first ones go on, as one chunk."""
        going = []
        for result in results:
            key = result[3] if self.grouped else None
            seen = self.seen.get(key, 0)
            if not seen:
                going.append(result)
            if seen + 1 == self.number:
                self.seen.pop(key, None)
            else:
                self.seen[key] = seen + 1
        self.release(going)

    def snapshot(self) -> Any:
        """Return what was counted."""
        return self.seen

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.seen = state


class _LastOfNumber(RateLimit):
    """``last every n events``: let the last of every n results go on; with ``group by`` the last of each group in them.

    State
    -----
    ``seen``: how many of the open n came; ``last``: the last one of each group (None without groups), in the order in
    which groups came: O(n).
    """

    def __init__(self, target: SelectorOutput, number: int, grouped: bool) -> None:
        super().__init__(target)
        self.number = number
        self.grouped = grouped
        self.seen = 0
        self.last: dict[Any, Result] = {}

    def process_chunk(self, results: list[Result]) -> None:
        """Count; all that is let through is one chunk."""
        going: list[Result] = []
        for result in results:
            self.last[result[3] if self.grouped else None] = result
            self.seen += 1
            if self.seen == self.number:
                going += self.last.values()
                self.last.clear()
                self.seen = 0
        self.release(going)

    def snapshot(self) -> Any:
        """Return what was counted, and the last ones."""
        return [self.seen, self.last]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.seen, self.last = state


def limit_by_number(kind: str, number: int, grouped: bool, target: SelectorOutput) -> RateLimit:
    """Return the limit of ``output KIND every NUMBER events``."""
    if kind == "all":
        return _AllOfNumber(target, number)
    return (_FirstOfNumber if kind == "first" else _LastOfNumber)(target, number, grouped)


class _FirstInTime(RateLimit):
    """``first every t``: let a result go on, then none until t has passed since; with ``group by`` for each group.

    Without groups only the first result of a chunk can go on.

    State
    -----
    ``passed``: when one went on last, by group (None without groups): O(groups).
    """

    def __init__(self, target: SelectorOutput, span: int, grouped: bool, clock: VirtualClock) -> None:
        super().__init__(target)
        self.span = span
        self.grouped = grouped
        self.clock = clock
        self.passed: dict[Any, int] = {}

    def process_chunk(self, results: list[Result]) -> None:
        """Let go on what may, as one chunk."""
        now = self.clock.now
        going = []
        for result in results if self.grouped else results[:1]:
            key = result[3] if self.grouped else None
            before = self.passed.get(key)
            if before is None or before + self.span <= now:
                self.passed[key] = now
                going.append(result)
        self.release(going)

    def snapshot(self) -> Any:
        """Return when results went on."""
        return self.passed

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        self.passed = state


class Ticking(RateLimit):
    """A limit that lets results go on at every tick: each t ms from the start of the app, or of the partition's key.

    State
    -----
    ``next_tick``: in ms.
    """

    def __init__(self, target: SelectorOutput, span: int, clock: VirtualClock, timer: MakeTimer) -> None:
        super().__init__(target)
        self.span = span
        self.clock = clock
        self.next_tick = 0
        self.timer = timer(self._wake)
        self.timer.rests = Periodic(self.timer, span, self._calm_until, self._passed)

    def _calm_until(self) -> int:
        return NOT_NOW if self.holds else ALWAYS

    def _passed(self, by_ms: int) -> None:
        self.next_tick += by_ms

    @property
    @abstractmethod
    def holds(self) -> bool:
        """Whether a tick lets anything go on."""

    def start(self) -> None:
        """Begin: the first tick is one span from now."""
        self.next_tick = self.clock.now + self.span
        self.timer.notify_at(self.next_tick)

    def _wake(self, due: int) -> None:
        self.release(self.until(due))

    def until(self, time: int) -> list[Result]:
        """Return what a tick at or before `time` lets go on; empty where there is none."""
        if time < self.next_tick:
            return []
        going = self.tick()
        # Where a result has brought a tick forward, its wake-up still comes, finds it past and does nothing.
        self.next_tick += self.span
        self.timer.notify_at(self.next_tick)
        return going

    @abstractmethod
    def tick(self) -> list[Result]:
        """Return what goes on at a tick."""

    def snapshot(self) -> Any:
        """Return what is held, and the ticks to come."""
        return [self.held_state(), self.next_tick, self.timer.snapshot()]

    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""
        held, self.next_tick, due = state
        self.hold_state(held)
        self.timer.restore(due)

    @abstractmethod
    def held_state(self) -> Any:
        """Return what is held as plain data."""

    @abstractmethod
    def hold_state(self, state: Any) -> None:
        """Take over what a snapshot held."""


class _AllInTime(Ticking):
    """``all every t``: collect results and let them go on together at each tick.

    State
    -----
    ``held``: the results since the last tick.
    """

    def __init__(self, target: SelectorOutput, span: int, clock: VirtualClock, timer: MakeTimer) -> None:
        super().__init__(target, span, clock, timer)
        self.held: list[Result] = []

    def process_chunk(self, results: list[Result]) -> None:
        """Collect."""
        self.held += results

    @property
    def holds(self) -> bool:
        """Whether results came since the last tick."""
        return bool(self.held)

    def tick(self) -> list[Result]:
        """Return what came since the last tick."""
        going, self.held = self.held, []
        return going

    def held_state(self) -> Any:
        """Return what is collected."""
        return self.held

    def hold_state(self, state: Any) -> None:
        """Take over what a snapshot held."""
        self.held = state


class _LastInTime(Ticking):
    """``last every t``: at each tick let the last result go on; with ``group by`` the last one of each group.

    State
    -----
    ``last``: since the last tick, by group (None without groups), in the order in which groups came: O(groups).
    """

    def __init__(self, target: SelectorOutput, span: int, grouped: bool, clock: VirtualClock, timer: MakeTimer) -> None:
        super().__init__(target, span, clock, timer)
        self.grouped = grouped
        self.last: dict[Any, Result] = {}

    def process_chunk(self, results: list[Result]) -> None:
        """Keep the last ones."""
        if self.grouped:
            for result in results:
                self.last[result[3]] = result
        elif results:
            self.last[None] = results[-1]

    @property
    def holds(self) -> bool:
        """Whether results came since the last tick."""
        return bool(self.last)

    def tick(self) -> list[Result]:
        """Return the last ones since the last tick."""
        going, self.last = list(self.last.values()), {}
        return going

    def held_state(self) -> Any:
        """Return the last ones."""
        return self.last

    def hold_state(self, state: Any) -> None:
        """Take over what a snapshot held."""
        self.last = state


def limit_by_time(
    kind: str, span: int, grouped: bool, target: SelectorOutput, clock: VirtualClock, timer: MakeTimer
) -> RateLimit:
    """Return the limit of ``output KIND every SPAN milliseconds``."""
    if kind == "first":
        return _FirstInTime(target, span, grouped, clock)
    if kind == "all":
        return _AllInTime(target, span, clock, timer)
    return _LastInTime(target, span, grouped, clock, timer)
