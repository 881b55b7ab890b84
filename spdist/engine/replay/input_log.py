"""A log of what an app was given, which can be replayed at will: nothing of that leaves the app.

A replay goes through the same times as the log, whatever is left out of it: time passes also without events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from spdist.engine.local.app import LocalApp
from spdist.engine.local.state_transfer import carry_over
from spdist.engine.replay.equality import same_values
from spdist.engine.replay.evidence import EventPlace
from spdist.errors import NotFoundError
from spdist.language import ast
from spdist.language.checking.checked import CheckedApp
from spdist.operators.base import Arrival, Row
from spdist.transports.in_memory import IN_MEMORY

__all__ = ["GivenEvent", "InputLog", "InputRecorder", "OnDemandWrite", "Step", "chunks", "detached"]


@dataclass(frozen=True, slots=True)
class GivenEvent:
    """One event that was sent.

    Parameters
    ----------
    stream : str
        To which stream.
    timestamp : int
        Its time, ms.
    row : tuple
        Its values.
    clock : int
        The app's time when it was delivered, ms: later than its own where it was late.
    chunk : int
        Number of its chunk; those of one chunk follow one another.
    position : int
        Its place among the events of its stream, from 0.
    before_timers : bool
        Whether it comes before the timers that are due at that time: a timer upstream has put it out.
    """

    stream: str
    timestamp: int
    row: Row
    clock: int
    chunk: int
    position: int
    before_timers: bool = False


@dataclass(frozen=True, slots=True)
class OnDemandWrite:
    """One on-demand query that changed a table: its text, the app's time in ms, and its number among the chunks."""

    text: str
    clock: int
    chunk: int


Step = GivenEvent | OnDemandWrite


@dataclass(frozen=True)
class InputLog:
    """What one app was given, in order.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    steps : tuple of GivenEvent or OnDemandWrite
        What came, by the app's time.
    start : int
        When the app started, ms: triggers and absence count from here.
    end : int
        Until when time passed, ms.
    base : bytes, optional
        The state in which it began; by default an empty one.
    """

    checked: CheckedApp
    steps: tuple[Step, ...]
    start: int
    end: int
    base: bytes | None = None

    @classmethod
    def of(cls, checked: CheckedApp, events: Mapping[str, Iterable[Arrival]], until: int | None = None) -> InputLog:
        """Return the log of events that are sent one by one.

        Parameters
        ----------
        checked : CheckedApp
            The app; it starts with the first event.
        events : mapping of str to iterable of (timestamp, row)
            By stream, as `spdist.engine.local.app.run` gets them.
        until : int, optional
            When time stops, ms; by default with the last event.
        """
        found = [
            (timestamp, stream, position, tuple(row))
            for stream, arrivals in events.items()
            for position, (timestamp, row) in enumerate(arrivals)
        ]
        # By time alone: sorting is stable, and rows need not be comparable.
        found.sort(key=lambda event: event[0])
        start = clock = found[0][0] if found else until or 0
        steps: list[Step] = []
        for number, (timestamp, stream, position, row) in enumerate(found):
            # The app refuses what lies too far ahead, and its clock stays (`spdist.engine.local.clock_jumps`).
            if not checked.playback or timestamp - clock <= checked.clock.max_jump_ms:
                clock = timestamp
            steps.append(GivenEvent(stream, timestamp, row, clock, number, position))
        return cls(checked, tuple(steps), start, clock if until is None else max(clock, until))

    @cached_property
    def _detached(self) -> CheckedApp:
        return detached(self.checked)

    def app(self) -> LocalApp:
        """Return a new app without sinks and with all tables in memory; it has not begun, so that one can watch it."""
        app = LocalApp(self._detached)
        # What failed when this was logged fails again, and has been told: only first failures are.
        app.failures.count = 1
        return app

    def begin(self, app: LocalApp) -> None:
        """Have an app be where the log began."""
        if self.base is None:
            app.start(self.start)
        else:
            app.restore(carry_over(self.base, app.checked)[0])
        # The first event sets the clock wherever that is; which one that was does not depend on what is left out.
        app.jumps.began = True

    def replay(
        self, app: LocalApp, steps: Iterable[Step], end: int | None = None, done: Callable[[], bool] = lambda: False
    ) -> None:
        """Begin, deliver steps, and let time pass to the end, but stop where it is done.

        Parameters
        ----------
        app : LocalApp
            What `app` returned.
        steps : iterable of GivenEvent or OnDemandWrite
            Some of those of the log, in order.
        end : int, optional
            Until when time passes, ms; by default as in the log.
        done : callable, optional
            Tells whether to stop; asked between what is delivered.
        """
        self.begin(app)
        for chunk in chunks(steps):
            # Timers that are due before the chunk may put out what is looked for.
            if not done():
                self.reach(app, chunk[0])
            if done():
                return
            self.deliver(app, chunk)
        if not done():
            app.advance(self.end if end is None else end)

    def reach(self, app: LocalApp, step: Step) -> None:
        """Let time pass until a step is due."""
        if step.clock > app.clock:
            app.advance(step.clock)

    def deliver(self, app: LocalApp, chunk: Sequence[Step]) -> None:
        """Let time pass until a chunk of the log, or what is left of one, is due, and give it to the app."""
        first = chunk[0]
        self.reach(app, first)
        if isinstance(first, OnDemandWrite):
            app.query(first.text)
        elif len(chunk) == 1:
            app.send(first.stream, first.timestamp, first.row)
        else:
            app.send_chunk(first.stream, [(one.timestamp, one.row) for one in chunk if isinstance(one, GivenEvent)])

    def given(self, until: int | None = None) -> Iterator[GivenEvent]:
        """Yield the events in it, up to a time of the app in ms."""
        for step in self.steps:
            if isinstance(step, GivenEvent) and (until is None or step.clock <= until):
                yield step

    def place(self, one: GivenEvent) -> EventPlace | None:
        """Return where one of its events stands in a topic; None where it came from none, or nobody knows."""
        return None

    def events(self, stream: str) -> list[Arrival]:
        """Return all events of a stream when the log is replayed, those that were sent included."""
        events: list[Arrival] = []
        app = self.app()
        app.subscribe(stream, lambda timestamp, row: events.append((timestamp, row)))
        self.replay(app, self.steps)
        return events


class InputRecorder:
    """What an app is given and puts out, noted while it runs.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    start : int
        When it starts, ms.
    base : bytes, optional
        The state that it begins with.

    State
    -----
    All steps so far, and all events of all streams.
    """

    def __init__(self, checked: CheckedApp, start: int, base: bytes | None = None) -> None:
        self._checked = checked
        self._start = start
        self._base = base
        self._steps: list[Step] = []
        self._chunks = 0
        self._positions: Counter[str] = Counter()
        #: In the order of the observers, with whether it was sent.
        self._came: dict[str, list[tuple[Arrival, bool]]] = {}

    def sent(self, stream: str, timestamp: int, rows: Sequence[Row], clock: int) -> None:
        """Note a chunk of events of one time that was delivered at `clock`."""
        for row in rows:
            position = self._positions[stream]
            self._steps.append(GivenEvent(stream, timestamp, row, clock, self._chunks, position))
            self._positions[stream] += 1
        self._chunks += 1

    def wrote(self, text: str, clock: int) -> None:
        """Note an on-demand query that changed a table."""
        self._steps.append(OnDemandWrite(text, clock, self._chunks))
        self._chunks += 1

    def came(self, stream: str, timestamp: int, row: Row, sent: bool) -> None:
        """Note an event that an observer of its stream has seen, and whether it was sent."""
        self._came.setdefault(stream, []).append(((timestamp, row), sent))

    def find(self, stream: str, which: int | Sequence[Any]) -> tuple[int, Arrival]:
        """Return one of the events that queries put out, and its number among all of its stream.

        Parameters
        ----------
        stream : str
            Its stream.
        which : int or sequence
            Its number among those that were not sent, from the end where negative; or its values, of which the last are
            meant.

        Raises
        ------
        NotFoundError
            There is none.
        """
        came = self._came.get(stream, [])
        made = [number for number, (_, sent) in enumerate(came) if not sent]
        if isinstance(which, Sequence):
            chosen = [number for number in made if same_values(tuple(which), came[number][0][1])][-1:]
        else:
            # -1 + 1 is 0, which would end the slice at the beginning.
            chosen = made[which : which + 1 or None]
        if not chosen:
            what = f"row {tuple(which)!r}" if isinstance(which, Sequence) else f"event {which}"
            told = f"'{stream}' has no {what}: {len(made)} came out since the start, or the last restore or update"
            raise NotFoundError(told, hint="the first one is 0, the last one -1")
        return chosen[0], came[chosen[0]][0]

    def log(self, end: int) -> InputLog:
        """Return what was noted, for a time that ends at `end`."""
        return InputLog(self._checked, tuple(self._steps), self._start, end, self._base)


def chunks(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """Yield steps of a log in the portions in which `InputLog.deliver` gets them."""
    for _, chunk in groupby(steps, key=lambda step: step.chunk):
        yield list(chunk)


def detached(checked: CheckedApp, *, sinks: bool = False) -> CheckedApp:
    """Return an app with nothing that leads out of it, but for its `sinks`, or into it from elsewhere."""
    outside = ("source",) if sinks else ("sink", "source")

    def is_inside(annotation: ast.Annotation) -> bool:
        name = annotation.name.lower()
        return name != "store" and (name not in outside or annotation.get("type") == IN_MEMORY)

    definitions = tuple(
        replace(definition, annotations=tuple(one for one in definition.annotations if is_inside(one)))
        for definition in checked.app.definitions
    )
    return replace(checked, app=replace(checked.app, definitions=definitions))
