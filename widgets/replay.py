"""Replays recorded events into a feed at a multiple of the speed at which they happened, and pauses where one wants."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Protocol, Self

from spdist.display import time_text
from spdist.errors import ClusterError, SpdistError
from spdist.frames import to_events
from spdist.language.types import Schema
from spdist.panels.panel import Line, Panel

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Pace", "ReplayPanel", "ReplayProgress", "ReplayTarget", "due_events"]

#: Between two slices of events at most, s.
_SLICE_S = 0.2
_LINE_S = 1.0


class ReplayTarget(Protocol):
    """A `spdist.transports.feed.Feed`."""

    schema: Schema

    def send(self, events: Sequence[tuple[int, tuple[Any, ...]]]) -> int:
        """Append events."""
        ...

    def advance(self, ts: int) -> None:
        """Promise that nothing older follows."""
        ...


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """How far a replay is.

    Parameters
    ----------
    state : str
        ``ready``, ``running``, ``paused``, ``done``, ``stopped`` or ``failed``.
    sent, total : int
        Events.
    event_time_ms : int or None
        How far it is in event time; None before the first event.
    elapsed_s : float
        Seconds since it was started.
    problem : str
        Why it failed; empty otherwise.
    """

    state: str
    sent: int
    total: int
    event_time_ms: int | None
    elapsed_s: float
    problem: str = ""

    def __str__(self) -> str:
        share = 100 * self.sent // self.total if self.total else 100
        at = "" if self.event_time_ms is None else f", {time_text(self.event_time_ms, 'minutes')} in event time"
        told = f"{self.state}: {self.sent:,} of {self.total:,} events ({share} %){at}, {self.elapsed_s:.1f} s"
        return f"{told}: {self.problem}" if self.problem else told


@dataclass(frozen=True, slots=True)
class Pace:
    """How far event time has come, as a function of real time.

    Parameters
    ----------
    at_ms : float
        Event time at `since_s`.
    speed : float
        Seconds of event time for each second of real time.
    since_s : float, optional
        A real time; None while it stands still.
    """

    at_ms: float
    speed: float
    since_s: float | None = None

    def at(self, now_s: float) -> float:
        """Return the event time, ms."""
        return self.at_ms if self.since_s is None else self.at_ms + (now_s - self.since_s) * 1000 * self.speed

    def going(self, now_s: float) -> Pace:
        """Return a pace that goes on from where this one is."""
        return Pace(self.at(now_s), self.speed, now_s)

    def still(self, now_s: float) -> Pace:
        """Return a pace that stands where this one is."""
        return Pace(self.at(now_s), self.speed)

    def changed(self, now_s: float, *, speed: float | None = None, at_ms: float | None = None) -> Pace:
        """Return a pace with another speed, or from another event time on, that goes on if this one does."""
        at = self.at(now_s) if at_ms is None else at_ms
        since_s = None if self.since_s is None else now_s
        return Pace(at, self.speed if speed is None else speed, since_s)


class ReplayPanel(Panel[ReplayProgress]):
    """Sends the rows of a frame as events, in a thread of its own, so that the notebook goes on meanwhile.

    It can pause, go on step by step, be sped up, and skip ahead: what lies between is sent without delay. What was sent
    stays sent, so there is no way back; for that see `DebugPanel`.

    Parameters
    ----------
    frame : DataFrame
        A column for each attribute of the stream, and one with the times.
    feed : Feed
        Where the events go; its schema says which columns are taken.
    speed : float
        Seconds of event time for each second of real time, > 0.
    time_column : str
        See `spdist.to_events`.
    until_ms : int, optional
        After the last event, let event time pass until here, so that what waits for an absence comes to its end.

    Examples
    --------
    >>> replay = ReplayPanel(flights, cluster.feed(app, "Departures"), speed=3600.0).start()  # doctest: +SKIP
    >>> replay.wait()  # doctest: +SKIP
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        feed: ReplayTarget,
        speed: float = 3600.0,
        time_column: str = "timestamp",
        until_ms: int | None = None,
    ) -> None:
        super().__init__()
        _check_speed(speed)
        self._events = to_events(frame, feed.schema, time_column)
        self._times = [ts for ts, _ in self._events]
        self._feed = feed
        self._pace = Pace(float(self._times[0]) if self._times else 0.0, speed)
        #: So many events are to be sent, whatever time it is.
        self._wanted = 0
        self._until_ms = until_ms
        self._thread: threading.Thread | None = None
        self._asked_to_stop = False
        self._moved = threading.Condition()
        self._state, self._sent, self._problem = "ready", 0, ""
        self._began_s = self._ended_s = 0.0
        self._slider: Any = None
        self._toggle: Any = None
        #: The thread that brings the slider up to date: nobody has moved it.
        self._adapting: int | None = None

    # --- life
    def start(self) -> Self:
        """Begin to send, or go on after a pause; returns immediately. One that is over is left alone."""
        with self._moved:
            if self._state in ("ready", "paused"):
                self._state = "running"
                self._pace = self._pace.going(time.monotonic())
                self._begin()
        return self

    def pause(self) -> Self:
        """Send nothing more for now."""
        with self._moved:
            if self._state in ("ready", "running"):
                self._state = "paused"
                self._pace = self._pace.still(time.monotonic())
                self._begin()
        return self

    def step(self, count: int = 1) -> Self:
        """Pause, and send the next events, so many."""
        return self.pause().seek(min(self._wanted_or_sent() + count, len(self._events)))

    def seek(self, event: int) -> Self:
        """Send without delay what is left of the first `event` events; go on from there, if it runs.

        Raises
        ------
        ClusterError
            More has been sent already, or there are not so many.
        """
        if not 0 <= event <= len(self._events):
            raise ClusterError(f"there is no event {event}: there are {len(self._events):,}", hint="count from 0")
        with self._moved:
            if event < self._wanted_or_sent():
                raise ClusterError(
                    f"{self._sent:,} events have been sent, and what was sent stays sent",
                    hint="in virtual time one can go back: DebugPanel(spdist.run(app, events))",
                )
            self._wanted = event
            if event:
                at_ms = float(self._times[event - 1])
                self._pace = self._pace.changed(time.monotonic(), at_ms=at_ms)
            if self._state == "ready":
                self._state = "paused"
            self._begin()
        return self

    def set_speed(self, speed: float) -> Self:
        """Go on at another speed, in seconds of event time for each second of real time, > 0."""
        _check_speed(speed)
        with self._moved:
            self._pace = self._pace.changed(time.monotonic(), speed=speed)
            self._moved.notify_all()
        return self

    def stop(self) -> None:
        """Send nothing more; returns when the slice that is being sent has arrived."""
        self._end()
        if self._thread is not None:
            self._thread.join()
        super().stop()

    def _end(self) -> None:
        with self._moved:
            self._asked_to_stop = True
            self._moved.notify_all()

    def _begin(self) -> None:
        """See to it that the thread is there and looks; call it with `_moved` held."""
        if self._thread is None:
            self._began_s = time.monotonic()
            self._thread = threading.Thread(target=self._run, name="replay", daemon=True)
            self._thread.start()
        self._moved.notify_all()

    def _wanted_or_sent(self) -> int:
        return max(self._wanted, self._sent)

    def wait(self, share: float = 1.0, timeout_s: float = 600.0) -> ReplayProgress:
        """Return when `share` of the events has been sent, and show the progress on one line meanwhile.

        Parameters
        ----------
        share : float
            From 0.0 to 1.0.
        timeout_s : float
            How long to wait.

        Raises
        ------
        ClusterError
            It failed, was stopped, or did not get so far in time.
        """
        wanted = min(len(self._events), round(share * len(self._events)))
        deadline_s = time.monotonic() + timeout_s
        line = Line()
        while True:
            with self._moved:
                self._moved.wait_for(lambda: self._reached(share, wanted) or self._over_early(), _LINE_S)
                reached, view = self._reached(share, wanted), self.fetch()
            line.show(str(view))
            if reached or view.state in ("failed", "stopped") or time.monotonic() > deadline_s:
                break
        line.end()
        if not reached:
            raise ClusterError(f"the replay did not get to {wanted:,} events: {view}", hint="start a new one")
        return view

    def _reached(self, share: float, wanted: int) -> bool:
        return self._sent >= wanted and (share < 1.0 or self._state == "done")

    def _over_early(self) -> bool:
        return self._state in ("failed", "stopped")

    def _run(self) -> None:
        try:
            ended = "done" if self._send_all() else "stopped"
        except SpdistError as error:
            ended, self._problem = "failed", str(error)
        with self._moved:
            self._state, self._ended_s = ended, time.monotonic()
            self._moved.notify_all()

    def _send_all(self) -> bool:
        """Send slice after slice; return False when told to stop."""
        while self._sent < len(self._events):
            with self._moved:
                if not self._asked_to_stop and self._wanted <= self._sent:
                    self._moved.wait(_SLICE_S)
                if self._asked_to_stop:
                    return False
                due = self._due()
            if due > self._sent:
                # Without the lock: a feed may have to wait, and buttons are answered meanwhile.
                self._feed.send(self._events[self._sent : due])
                with self._moved:
                    self._sent = due
                    self._moved.notify_all()
        if self._until_ms is not None:
            self._feed.advance(self._until_ms)
        return True

    def _due(self) -> int:
        """Return how many events are to have been sent by now."""
        passed = 0 if self._pace.since_s is None else due_events(self._times, self._pace.at(time.monotonic()))
        return max(passed, self._wanted)

    # --- what it shows
    def fetch(self) -> ReplayProgress:
        """Return how far it is; asks nobody."""
        ended_s = self._ended_s or time.monotonic()
        return ReplayProgress(
            self._state,
            self._sent,
            len(self._events),
            self._times[self._sent - 1] if self._sent else None,
            ended_s - self._began_s if self._began_s else 0.0,
            self._problem,
        )

    def text_of(self, view: ReplayProgress) -> str:
        """Return one line."""
        return f"replay {view}"

    def html_of(self, view: ReplayProgress) -> str:
        """Return a progress bar with its line."""
        return f'<progress value="{view.sent}" max="{max(view.total, 1)}"></progress> {escape(f"replay {view}")}'

    def controls(self) -> Sequence[Any]:
        """Return the buttons, the speed, and the slider over the events."""
        import ipywidgets

        def button(label: str, action: Callable[[], object]) -> Any:
            made = ipywidgets.Button(description=label, layout=ipywidgets.Layout(width="auto"))
            made.on_click(lambda _: action())
            return made

        self._toggle = button("Start", lambda: self.pause() if self._state == "running" else self.start())
        speed = ipywidgets.FloatLogSlider(
            value=self._pace.speed, min=-3, max=9, description="speed", readout_format=",.0f", continuous_update=False
        )
        speed.observe(lambda change: self.set_speed(change["new"]), "value")
        self._slider = ipywidgets.IntSlider(
            max=len(self._events), description="event", continuous_update=False, layout=ipywidgets.Layout(width="98%")
        )
        self._slider.observe(lambda change: self._sought(change["new"]), "value")
        return (
            ipywidgets.HBox((self._toggle, button("Step", self.step), button("Stop", self._end), speed)),
            self._slider,
        )

    def _sought(self, event: int) -> None:
        """Skip ahead to where the slider was moved; where that is back, the slider returns with the next look."""
        if self._adapting != threading.get_ident() and event > self._wanted_or_sent():
            self.seek(event)

    def adapt(self, view: ReplayProgress) -> None:
        """Have slider and button say what is."""
        if self._slider is not None:
            self._adapting = threading.get_ident()
            self._slider.value = view.sent
            self._adapting = None
            self._toggle.description = "Pause" if view.state == "running" else "Start"


def due_events(times: Sequence[int], at_ms: float) -> int:
    """Return how many events have happened when event time has come to `at_ms`, given their times in ms, rising."""
    return bisect_right(times, at_ms)


def _check_speed(speed: float) -> None:
    if not speed > 0:
        raise ClusterError(f"a replay cannot run at speed {speed}", hint="1.0 is as fast as it happened")
