"""``output snapshot every t``: at each tick the results that stand, over and over.

With a window those are the results of the events that the window holds, so expired results take theirs away and a
RESET takes all; aggregates are shown as they are at the tick. Without a window it is the last result.

Source: io.siddhi.core.query.output.ratelimit.snapshot, described in our own words.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from spdist.java.objects import same
from spdist.operators.base import CURRENT, RESET, Row, VirtualClock
from spdist.operators.selection.rates import MakeTimer, RateLimit, Result, Ticking
from spdist.operators.selection.selector import SelectorOutput

__all__ = ["limit_by_snapshot"]


class _Snapshot(Ticking):
    """What all snapshots share: a result that is younger than the next tick lets that one come first."""

    def process_chunk(self, results: list[Result]) -> None:
        """Take results one by one."""
        going: list[Result] = []
        for result in results:
            going += self.until(result[1])
            self.note(result)
        self.release(going)

    @abstractmethod
    def note(self, result: Result) -> None:
        """Note one result, or a RESET."""


class _LastResult(_Snapshot):
    """Without a window: the last result; with ``group by`` that of each group.

    State
    -----
    ``last``: by group (None without groups), in the order in which groups came: O(groups).
    """

    def __init__(self, target: SelectorOutput, span: int, clock: VirtualClock, timer: MakeTimer) -> None:
        super().__init__(target, span, clock, timer)
        self.last: dict[Any, Result] = {}

    def note(self, result: Result) -> None:
        """Keep a current result."""
        if result[0] == CURRENT:
            self.last[result[3] if len(result) > 3 else None] = result

    @property
    def holds(self) -> bool:
        """Whether there is a result."""
        return bool(self.last)

    def tick(self) -> list[Result]:
        """Return the last ones."""
        return list(self.last.values())

    def held_state(self) -> Any:
        """Return the last ones."""
        return self.last

    def hold_state(self, state: Any) -> None:
        """Take over what a snapshot held."""
        self.last = state


class _LastTotals(_LastResult):
    """With a window where only aggregates are selected: the last result, until one expires."""

    def note(self, result: Result) -> None:
        """Keep a current result, forget it with an expired one."""
        if result[0] == CURRENT:
            self.last[None] = result
        else:
            self.last.clear()


class _GroupTotals(_Snapshot):
    """With a window and ``group by`` where only aggregates are selected: the last result of each group that has events.

    State
    -----
    ``groups``: by key how many events it has and its last result: O(groups).
    """

    def __init__(self, target: SelectorOutput, span: int, clock: VirtualClock, timer: MakeTimer) -> None:
        super().__init__(target, span, clock, timer)
        self.groups: dict[Any, list[Any]] = {}

    def note(self, result: Result) -> None:
        """Count, and keep the result whether it is current or expired."""
        group = self.groups.setdefault(result[3], [0, None])
        group[0] += 1 if result[0] == CURRENT else -1
        group[1] = result

    @property
    def holds(self) -> bool:
        """Whether there is a group."""
        return bool(self.groups)

    def tick(self) -> list[Result]:
        """Return the last result of each group, and forget those without events."""
        # Only at a tick: a group that empties and fills again in between keeps its place in the order.
        for key in [key for key, (count, _) in self.groups.items() if count <= 0]:
            del self.groups[key]
        return [last for _, last in self.groups.values()]

    def held_state(self) -> Any:
        """Return the groups."""
        return self.groups

    def hold_state(self, state: Any) -> None:
        """Take over what a snapshot held."""
        self.groups = state


class _WindowContent(_Snapshot):
    """With a window: the results of the events in it, with aggregates as they are at the tick.

    With ``group by`` and an aggregator it is one result for each group, that of its oldest event.

    Parameters
    ----------
    positions : tuple[int, ...]
        Where aggregates are in a row.
    grouped : bool
        Whether totals are kept for each group.

    State
    -----
    ``held``: O(window), looked through from the oldest when one expires; ``totals``: the latest aggregates by group
    (None without groups).

    Notes
    -----
    Values are equal as Java's objects are: what is not a number equals itself, and 0.0 is not -0.0.
    Siddhi fails here where aggregates do not stand one after the other from the second attribute on, or where an
    attribute is null, and loses the event; here it is compared like any other.
    """

    def __init__(
        self,
        target: SelectorOutput,
        span: int,
        clock: VirtualClock,
        timer: MakeTimer,
        positions: tuple[int, ...],
        grouped: bool,
    ) -> None:
        super().__init__(target, span, clock, timer)
        self.positions = positions
        self.grouped = grouped and bool(positions)
        self.held: list[Result] = []
        self.totals: dict[Any, tuple[Any, ...]] = {}

    def note(self, result: Result) -> None:
        """Let a current result join, and an expired one take the oldest equal one away."""
        if result[0] == RESET:
            self.held.clear()
            self.totals.clear()
            return
        if result[0] == CURRENT:
            self.held.append(result)
        elif not self._removed(self._told_apart_by(result[2])):
            return
        if self.positions:
            self.totals[self._key(result)] = tuple(result[2][p] for p in self.positions)

    def _removed(self, values: tuple[Any, ...]) -> bool:
        for position, other in enumerate(self.held):
            if all(map(same, self._told_apart_by(other[2]), values)):
                del self.held[position]
                return True
        return False

    def _told_apart_by(self, row: Row) -> tuple[Any, ...]:
        return tuple(value for p, value in enumerate(row) if p not in self.positions) if self.positions else row

    def _key(self, result: Result) -> Any:
        return result[3] if self.grouped else None

    @property
    def holds(self) -> bool:
        """Whether the window has events."""
        return bool(self.held)

    def tick(self) -> list[Result]:
        """Return what is held, with the latest aggregates."""
        if not self.positions:
            return list(self.held)
        shown: dict[Any, Result] = {}
        for number, result in enumerate(self.held):
            shown.setdefault(self._key(result) if self.grouped else number, result)
        return [(kind, timestamp, self._updated(row, rest)) for kind, timestamp, row, *rest in shown.values()]

    def _updated(self, row: Row, rest: list[Any]) -> Row:
        totals = self.totals.get(rest[0] if self.grouped else None, (None,) * len(self.positions))
        values = list(row)
        for position, value in zip(self.positions, totals, strict=True):
            values[position] = value
        return tuple(values)

    def held_state(self) -> Any:
        """Return what is held, and the totals."""
        return [self.held, self.totals]

    def hold_state(self, state: Any) -> None:
        """Take over what a snapshot held."""
        self.held, self.totals = state


def limit_by_snapshot(
    span: int,
    grouped: bool,
    windowed: bool,
    positions: tuple[int, ...],
    width: int,
    target: SelectorOutput,
    clock: VirtualClock,
    timer: MakeTimer,
) -> RateLimit:
    """Return the limit of ``output snapshot every SPAN milliseconds``.

    Parameters
    ----------
    span : int
        In ms.
    grouped, windowed : bool
        Whether the query groups, and whether it has a window or is a join.
    positions : tuple[int, ...]
        Which of the `width` attributes of a row are aggregates, and nothing but aggregates.
    width : int
        Number of attributes.
    target, clock, timer
        See `RateLimit` and `Ticking`.
    """
    if not windowed:
        return _LastResult(target, span, clock, timer)
    if len(positions) == width:
        return (_GroupTotals if grouped else _LastTotals)(target, span, clock, timer)
    return _WindowContent(target, span, clock, timer, positions, grouped)
