"""Why something came out: the events that caused it, found by replaying a log without the others.

The search is delta debugging (Zeller and Hildebrandt, 2002) behind cheaper cuts: streams from which nothing reaches the
event, all that came before the shortest sufficient end of the log, and events without a value that is in the
event's row. Each cut is tried by replaying what it leaves, so none of them needs to be right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spdist.engine.local.app import LocalApp
from spdist.engine.replay.equality import same_values
from spdist.engine.replay.evidence import Came, Cause, Evidence, Interval, StateBefore
from spdist.engine.replay.input_log import GivenEvent, InputLog, OnDemandWrite, Step
from spdist.engine.replay.targets import Aim, came_instead, find_aim
from spdist.operators.base import Arrival, Row
from spdist.planning.pictures.graph import QUERY, app_graph
from spdist.planning.waits import waits
from spdist.progress import ProgressLine

__all__ = ["BUDGET", "Budget", "BudgetSpent", "explain", "minimal_causes"]

#: How many events the replays may deliver after the first one: about a minute's work.
BUDGET = 2_000_000
#: What a replay costs besides its events, in events.
_EACH = 50
_FIRST_END, _GROWTH = 16, 4
_MOST_THROUGH = 1000


def minimal_causes(
    log: InputLog,
    stream: str,
    which: int | Sequence[Any],
    *,
    expected: Arrival | None = None,
    attributes: Sequence[str] | None = None,
    came: Sequence[tuple[int, Arrival]] | None = None,
    budget: int | Budget = BUDGET,
    progress: Callable[[str], None] | None = None,
) -> Evidence:
    """Return the events that caused one event.

    An event *is there* in a replay where its stream has one with the same time and the same values (decimals to nine
    digits); of several equal ones the k-th, where it has k. Time passes in each replay as in the log. The causes
    are sufficient: replayed alone, the event is there. And they are minimal: without any one of them it is not.

    Parameters
    ----------
    log : InputLog
        What the app was given.
    stream : str
        A stream of the app.
    which : int or sequence
        Which of all events of this stream, those that were sent to it included: its number, from 0, or from the end if
        negative; or its values, of which the first is meant.
    expected : (timestamp, row), optional
        The event as it came out then.
    attributes : sequence of str, optional
        Those whose values have to be the same; by default all. Leave out what is never the same, such as a UUID.
    came : sequence of (clock, (timestamp, row)), optional
        All events of the stream that come out of the whole log, each with the app's time, ms; where they are left out
        the log is replayed once more for them.
    budget : int or Budget
        How many events the replays may deliver after the first one; several searches may share one. Where it does not
        suffice, the evidence holds what was sufficient so far.
    progress : callable, optional
        Is told in words how far it is, before each replay.

    Raises
    ------
    UndefinedNameError
        The app has no such stream, or the stream no such attribute.
    NotFoundError
        There is no such event.
    StateError
        Another event came out than expected: the app depends on something that was not recorded.
    """
    shared = budget if isinstance(budget, Budget) else Budget(budget)
    search = _CauseSearch(log, find_aim(log, stream, which, expected, attributes, came), shared, progress)
    try:
        search.narrow()
        search.drop()
    except BudgetSpent:
        search.minimal = False
    return search.evidence()


def explain(log: InputLog, stream: str, which: int | Sequence[Any], **options: Any) -> Evidence:
    """Return what `minimal_causes` returns, and say meanwhile how far it is, where that takes more than a second."""
    with ProgressLine() as line:
        return minimal_causes(log, stream, which, **options, progress=line.show)


class BudgetSpent(Exception):
    """Ends a search."""


@dataclass
class Budget:
    """How many events replays may still deliver."""

    left: int

    def spend(self, events: int) -> None:
        """Count a replay of some events; raises BudgetSpent where they are too many."""
        self.left -= events + _EACH
        if self.left < 0:
            raise BudgetSpent


@dataclass
class _CauseSearch:
    """The search for the causes of one event.

    State
    -----
    ``suspects``: events that are sufficient; ``instead``: what comes out without each of them, where that was tried.
    """

    log: InputLog
    aim: Aim
    budget: Budget
    progress: Callable[[str], None] | None
    minimal: bool = True
    replays: int = 1
    suspects: list[GivenEvent] = field(init=False)
    instead: dict[tuple[str, int], list[Arrival]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        before = [step for step in self.log.steps if step.clock <= self.aim.clock]
        self.sent = [step for step in before if isinstance(step, GivenEvent)]
        self.writes = [step for step in before if isinstance(step, OnDemandWrite)]
        self.suspects = self.sent
        self.upstream = app_graph(self.log.checked).upstream(self.aim.event.stream)

    # --- one replay
    def suffices(self, trial: Sequence[GivenEvent]) -> bool:
        """Replay some events only, and tell whether the event is there; then they are the new suspects."""
        there, _ = self._tried(trial)
        if there:
            self.suspects = list(trial)
        return there

    def _tried(self, trial: Sequence[GivenEvent]) -> tuple[bool, list[Arrival]]:
        self.budget.spend(len(trial))
        self.replays += 1
        if self.progress is not None:
            self.progress(f"replay {self.replays}: {len(self.suspects):,} events may be causes")
        return self._replayed(self.log, self.log.app(), trial)

    def _replayed(self, log: InputLog, app: LocalApp, trial: Sequence[GivenEvent]) -> tuple[bool, list[Arrival]]:
        """Tell whether the event is there, and return what came at its time or with its values."""
        came: list[Arrival] = []
        left = self.aim.copies

        def note(timestamp: int, row: Row) -> None:
            nonlocal left
            if timestamp == self.aim.event.timestamp or same_values(row, self.aim.event.row):
                came.append((timestamp, row))
            left -= self.aim.fits(timestamp, row)

        app.subscribe(self.aim.event.stream, note)
        # What on-demand queries changed is always there: only events are left out.
        steps: list[Step] = [*trial, *self.writes]
        if self.writes:
            steps.sort(key=lambda step: step.chunk)
        log.replay(app, steps, self.aim.clock, lambda: left <= 0)
        return left <= 0, came

    # --- the search
    def narrow(self) -> None:
        """Leave out what can be left out in large parts."""
        # Time alone may do it, or the state in which the log began.
        if self.suffices([]):
            return
        self._try([one for one in self.suspects if one.stream in self.upstream])
        self._shorten()
        # By `type`, as a bool is an int of Python, which would be found as 0 or 1.
        for value in sorted({v for v in self.aim.event.row if type(v) in (str, int)}, key=lambda v: type(v) is int):
            having = {one.stream for one in self.suspects if value in one.row}
            # A stream without the value anywhere says nothing about which of its events matter: it stays whole.
            self._try([one for one in self.suspects if value in one.row or one.stream not in having])

    def _try(self, trial: Sequence[GivenEvent]) -> None:
        if len(trial) < len(self.suspects):
            self.suffices(trial)

    def _shorten(self) -> None:
        """Find a short end of the suspects that suffices: first ever longer ones, then between the last two."""
        known = self.suspects
        low, high = 0, _FIRST_END
        while high < len(known) and not self.suffices(known[-high:]):
            low, high = high, high * _GROWTH
        high = min(high, len(known))
        # Near enough: the rest is dropped anyhow.
        while high - low > max(4, high // 8):
            middle = (low + high) // 2
            if self.suffices(known[-middle:]):
                high = middle
            else:
                low = middle

    def drop(self) -> None:
        """Leave out ever smaller parts, the oldest first; at last no single event can be left out."""
        size = len(self.suspects) // 2
        while size > 1:
            place = 0
            while place < len(self.suspects):
                if not self.suffices(self.suspects[:place] + self.suspects[place + size :]):
                    place += size
            size //= 2
        place = 0
        # Whenever one is left out the round begins anew: what the others were needed for may be different now, and so
        # is what comes without them.
        while len(self.instead) < len(self.suspects):
            place %= len(self.suspects)
            trial = self.suspects[:place] + self.suspects[place + 1 :]
            there, came = self._tried(trial)
            if there:
                self.suspects, self.instead = trial, {}
            else:
                one = self.suspects[place]
                self.instead[one.stream, one.position] = came
                place += 1

    # --- what was found
    def evidence(self) -> Evidence:
        """Replay the causes once more, and note what happens on the way."""
        aim, checked = self.aim, self.log.checked
        app = self.log.app()
        sent = {(one.stream, id(one.row)) for one in self.suspects}
        through: list[Came] = []
        fired: dict[str, int] = {}

        def watch(stream: str) -> None:
            def note(timestamp: int, row: Row) -> None:
                is_aim = stream == aim.event.stream and aim.fits(timestamp, row)
                if not is_aim and (stream, id(row)) not in sent and len(through) < _MOST_THROUGH:
                    through.append(Came(stream, timestamp, row))

            app.subscribe(stream, note)

        def watch_query(name: str) -> None:
            app.subscribe_query(name, lambda *_: fired.update({name: app.clock}))

        for node in self.upstream:
            if node in checked.streams:
                watch(node)
            elif node.startswith(QUERY):
                watch_query(node.removeprefix(QUERY))
        _, came = self._replayed(self.log, app, self.suspects)
        return Evidence(
            app=checked.name,
            event=aim.event,
            clock=aim.clock,
            causes=tuple(self._cause(one, checked.streams[aim.event.stream].names, came) for one in self.suspects),
            intervals=tuple(self._intervals(fired)),
            through=tuple(through),
            sent=len(self.sent),
            replays=self.replays,
            minimal=self.minimal,
            schemas=checked.streams,
            states=tuple(self._states(came)),
        )

    def _cause(self, one: GivenEvent, names: Sequence[str], came: Sequence[Arrival]) -> Cause:
        instead = self.instead.get((one.stream, one.position))
        without = "" if instead is None else came_instead(self.aim.event, names, instead, came)
        return Cause(one.stream, one.timestamp, one.row, one.position, without, self.log.place(one))

    def _states(self, came: Sequence[Arrival]) -> Iterator[StateBefore]:
        """Say whether the event is there without the state in which the log began."""
        if self.log.base is None:
            return
        empty = replace(self.log, base=None)
        there, instead = self._replayed(empty, empty.app(), self.suspects)
        names = self.log.checked.streams[self.aim.event.stream].names
        without = "" if there else came_instead(self.aim.event, names, instead, came)
        yield StateBefore(self.log.checked.name, self.log.start, not there, without)

    def _intervals(self, fired: Mapping[str, int]) -> Iterator[Interval]:
        for wait in waits(self.log.checked, self.upstream):
            end = fired.get(wait.query, self.aim.clock)
            known = wait.to_the_end and wait.length_ms is not None
            begin = max(end - (wait.length_ms or 0), self.log.start) if known else None
            yield Interval(wait.query, wait.kind, wait.text, begin, end, wait.length_ms)
