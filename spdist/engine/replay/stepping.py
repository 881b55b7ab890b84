"""A debugger in virtual time: an app goes through what it was given step by step, forwards and back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from spdist.display import Shown, headline_html, number_of, table_html, table_text
from spdist.engine.local.app import LocalApp
from spdist.engine.local.contents import Contents, contents_of
from spdist.engine.replay.evidence import Came
from spdist.engine.replay.input_log import GivenEvent, InputLog, OnDemandWrite, Step, chunks
from spdist.history import Seen, clock_text, history_table
from spdist.language import ast
from spdist.language.checking.scope import undefined
from spdist.operators.base import Row
from spdist.planning.pictures.graph import app_graph
from spdist.progress import ProgressLine

__all__ = ["Moment", "Stepper"]

#: Between two snapshots at first, in steps; and how many are kept: where they become more, every second one goes.
_EVERY, _MOST_KEPT = 200, 64
#: So many of the last steps are known.
_RECENT = 100
#: Rows of one step that are shown.
_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Moment:
    """What one step did.

    Parameters
    ----------
    number : int
        How many steps have been made, this one included.
    clock : int
        The app's time after it, ms.
    given : tuple of GivenEvent
        The events that were sent, of one chunk; none where time has passed and something was due.
    came : tuple of Came
        What queries and triggers put out, in order.
    text : str
        An on-demand query that changed a table, where that was the step.
    """

    number: int
    clock: int
    given: tuple[GivenEvent, ...] = ()
    came: tuple[Came, ...] = ()
    text: str = ""

    @property
    def what(self) -> str:
        """What happened, in a few words."""
        if self.given:
            return f"{number_of(len(self.given), 'event')} of {self.given[0].stream}"
        return self.text or ("start" if not self.number else "due timers")

    def __str__(self) -> str:
        came = f"{number_of(len(self.came), 'event')} came out"
        return f"step {self.number:,} at {clock_text(self.clock)}: {self.what}, {came}"


@dataclass(frozen=True, slots=True)
class _KeptStep:
    """The state after a step: the moment, how many portions and events had been delivered, and the snapshot."""

    moment: Moment
    portion: int
    given: int
    state: bytes


class Stepper(Shown):
    """An app that goes through what it was given: each step is a chunk of events that is sent, or timers that are due.

    Looking changes nothing: it puts out what a run without steps does. Nothing is sent anywhere: sinks are left out,
    tables are in memory. Wake-ups that do nothing are no steps.

    Parameters
    ----------
    log : InputLog
        What the app is given.

    State
    -----
    The app; what it is given; up to 64 snapshots, from which `back` and `seek` replay.

    Examples
    --------
    >>> import spdist
    >>> text = "define stream S (v int); from S#window.time(10) select sum(v) as s insert into Out;"
    >>> stepper = spdist.run(text, {"S": [(1, (3,)), (5, (4,))]}, until=20).stepper()
    >>> print(stepper.step(2))
    step 2 at 5 ms: 1 event of S, 1 event came out
    >>> stepper.contents().of("query_1", "window")[0].rows
    ((1, 3), (5, 4))
    >>> stepper.step().clock
    11
    """

    def __init__(self, log: InputLog) -> None:
        self.log = log
        self._portions = list(chunks(log.steps))
        #: How many events there are.
        self.total = sum(isinstance(step, GivenEvent) for step in log.steps)
        self._every = _EVERY
        # A trigger that nobody hears is to make no steps.
        triggers = {one.name for one in log.checked.app.definitions if isinstance(one, ast.TriggerDefinition)}
        unheard = triggers - {link.source for link in app_graph(log.checked).links}
        self._streams = [stream for stream in log.checked.streams if stream not in unheard]
        self._came: list[Came] = []
        self._sent: set[tuple[str, int]] = set()
        self._app = self._watched()
        # Watched already: what comes out at the start, as of a trigger, belongs to step 0.
        log.begin(self._app)
        self._portion = 0
        #: For each step that was ever made the time of what was due, None where a portion was sent. What does nothing
        #: is known less well after going back, so the steps are made again as they were.
        self._path: list[int | None] = []
        #: How many events have been sent.
        self.given = 0
        #: What the last step did.
        self.moment = Moment(0, self._app.clock, came=tuple(self._came))
        #: What the last steps did, this one included; after going back as far as that is known again.
        self.recent: deque[Moment] = deque([self.moment], _RECENT)
        self._kept: list[_KeptStep] = []
        self._keep()

    def _watched(self) -> LocalApp:
        app = self.log.app()
        for stream in self._streams:
            app.subscribe(stream, self._observer(stream))
        return app

    def _observer(self, stream: str) -> Callable[[int, Row], None]:
        def note(timestamp: int, row: Row) -> None:
            # By identity: what is sent is handed on as the same object, and a query may put out an equal row.
            if (stream, id(row)) not in self._sent:
                self._came.append(Came(stream, timestamp, row))

        return note

    # --- where it is
    @property
    def clock(self) -> int:
        """The app's time, ms."""
        return self._app.clock

    @property
    def number(self) -> int:
        """How many steps have been made."""
        return self.moment.number

    @property
    def next_clock(self) -> int | None:
        """The time of the next step, ms; None at the end."""
        due = self._due()
        if due is not None:
            return due
        return self._portions[self._portion][0].clock if self._portion < len(self._portions) else None

    @property
    def at_end(self) -> bool:
        """Whether there is no further step."""
        return self.next_clock is None

    def _due(self) -> int | None:
        """Return when timers are due before the next portion; None where that is next, or nothing."""
        if self.number < len(self._path):
            return self._path[self.number]
        left = self._portion < len(self._portions)
        until = self._portions[self._portion][0].clock if left else self.log.end
        due = self._app.inside.context.timers.next_busy(until)
        # A wake-up may have been asked for too late: it is due behind the clock, which never goes back.
        return None if due is None else max(due, self.clock)

    # --- going
    def step(self, count: int = 1) -> Moment:
        """Go on by some steps, or to the end where there are fewer; return what the last one did."""
        for _ in range(count):
            if not self._step():
                break
        return self.moment

    def _step(self) -> bool:
        due = self._due()
        if due is None and self._portion == len(self._portions):
            if self.log.end > self.clock:
                self._app.advance(self.log.end)
            return False
        if self.number == len(self._path):
            self._path.append(due)
        self._came = []
        portion: list[Step] = []
        if due is not None:
            self._app.advance(due)
        else:
            portion = self._portions[self._portion]
            self._portion += 1
            self._sent = {(one.stream, id(one.row)) for one in portion if isinstance(one, GivenEvent)}
            self.log.deliver(self._app, portion)
            self._sent = set()
        given = tuple(one for one in portion if isinstance(one, GivenEvent))
        self.given += len(given)
        text = next((one.text for one in portion if isinstance(one, OnDemandWrite)), "")
        self.moment = Moment(self.number + 1, self.clock, given, tuple(self._came), text)
        self.recent.append(self.moment)
        if self.number >= self._kept[-1].moment.number + self._every:
            self._keep()
        return True

    def run_until(self, *, stream: str | None = None, when: Callable[[Moment], object] | None = None) -> Moment | None:
        """Go on until something happens; at the end return None.

        Parameters
        ----------
        stream : str, optional
            Until something comes out on this stream.
        when : callable, optional
            Until this is true of what a step did.

        Examples
        --------
        >>> stepper.run_until(when=lambda moment: moment.clock > 60_000)  # doctest: +SKIP
        """
        if (stream is None) == (when is None):
            raise TypeError("say either on which stream something is to come out, or when to stop")
        if stream is not None and stream not in self.log.checked.streams:
            raise undefined("stream", stream, None, self.log.checked.streams)
        with ProgressLine() as line:
            while self._step():
                line.show(self.headline)
                if when is not None and when(self.moment):
                    return self.moment
                if stream is not None and any(came.stream == stream for came in self.moment.came):
                    return self.moment
        return None

    def back(self, count: int = 1) -> Moment:
        """Go back by some steps, to the start at most; return what the step did that is the last one now."""
        return self.seek(number=max(0, self.number - count))

    def seek(self, *, number: int | None = None, event: int | None = None, time: int | None = None) -> Moment:
        """Go to a step, forwards or back; return what it did.

        Parameters
        ----------
        number : int, optional
            To this many steps.
        event : int, optional
            To where this many events have been sent.
        time : int, optional
            To the last step that is not after this time, ms.
        """
        if [number, event, time].count(None) != 2:
            raise TypeError("say where to: number=…, event=… or time=…")

        def is_over(moment: Moment, given: int) -> bool:
            if number is not None:
                return moment.number > number
            if event is not None:  # what was due afterwards is over too
                return given > event or (given == event and moment.number > 0 and not moment.given)
            return time is not None and moment.clock > time

        def is_short() -> bool:
            if number is not None:
                return self.number < number
            if event is not None:
                return self.given < event
            coming = self.next_clock
            return time is not None and coming is not None and coming <= time

        if is_over(self.moment, self.given):
            self._go_back([kept for kept in self._kept[1:] if not is_over(kept.moment, kept.given)])
        with ProgressLine() as line:
            while is_short() and self._step():
                line.show(self.headline)
        return self.moment

    # --- snapshots
    def _keep(self) -> None:
        self._kept.append(_KeptStep(self.moment, self._portion, self.given, self._app.snapshot()))
        if len(self._kept) > _MOST_KEPT:
            self._every *= 2
            self._kept = self._kept[::2]  # The start has place 0, so it stays

    def _go_back(self, kept: list[_KeptStep]) -> None:
        """Go on from the last of some snapshots, or from the start."""
        chosen = kept[-1] if kept else self._kept[0]
        self._app = self._watched()
        self._app.restore(chosen.state)
        self._app.jumps.began = True
        self.moment, self._portion, self.given = chosen.moment, chosen.portion, chosen.given
        before = [moment for moment in self.recent if moment.number < self.number]
        # Earlier steps are known only where no step is missing between them and this one.
        known = before if before and before[-1].number == self.number - 1 else []
        self.recent = deque([*known, self.moment], _RECENT)

    # --- looking
    def contents(self, most: int = 50, key: str | None = None) -> Contents:
        """Return what the app holds now: windows, attempts to match, tables, totals, open buckets, and what is due.

        Parameters
        ----------
        most : int
            How many rows of each part at most, the newest.
        key : str, optional
            The only key of partitions that is looked at; by default all.
        """
        return contents_of(self._app.inside, most, key)

    @property
    def headline(self) -> str:
        """Where it is, in a line."""
        return f"{self.log.checked.name}: {self.moment}; {self.given:,} of {self.total:,} events sent"

    def events(self) -> tuple[list[str], list[list[object]]]:
        """Return what the last step sent and put out, as head and rows of a table."""
        seen = [Seen(one.stream, one.timestamp, one.row, True) for one in self.moment.given]
        seen += [Seen(one.stream, one.timestamp, one.row, False) for one in self.moment.came]
        return history_table(seen[:_SHOWN], self.log.checked.streams)

    def __str__(self) -> str:
        head, rows = self.events()
        return "\n".join([self.headline, *([table_text(head, rows)] if rows else []), str(self.contents())])

    def _repr_html_(self) -> str:
        head, rows = self.events()
        table = table_html(head, rows) if rows else ""
        return f"{headline_html(self.headline)}{table}{self.contents()._repr_html_()}"
