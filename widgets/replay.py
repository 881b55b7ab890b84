"""Replays recorded events into a feed at a multiple of the speed at which they happened, with a progress bar."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Protocol, Self

from spdist.errors import ClusterError, SpdistError
from spdist.frames import to_events
from spdist.language.types import Schema
from spdist.look import time_text
from widgets.panel import Line, Panel

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Progress", "ReplayPanel", "Target"]

#: Pause between slices of events.
_SLICE_S = 0.2
_LINE_S = 1.0


class Target(Protocol):
    """A `spdist.transports.feed.Feed`."""

    schema: Schema

    def send(self, events: Sequence[tuple[int, tuple[Any, ...]]]) -> int:
        """Append events."""
        ...

    def advance(self, ts: int) -> None:
        """Promise that nothing older follows."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replay is.

    Parameters
    ----------
    state : str
        ``ready``, ``running``, ``done``, ``stopped`` or ``failed``.
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


class ReplayPanel(Panel[Progress]):
    """Sends the rows of a frame as events, in a thread of its own, so that the notebook goes on meanwhile.

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
        feed: Target,
        speed: float = 3600.0,
        time_column: str = "timestamp",
        until_ms: int | None = None,
    ) -> None:
        super().__init__()
        if not speed > 0:
            raise ClusterError(f"a replay cannot run at speed {speed}", hint="1.0 is as fast as it happened")
        self._events = to_events(frame, feed.schema, time_column)
        self._times = [ts for ts, _ in self._events]
        self._feed = feed
        self._speed = speed
        self._until_ms = until_ms
        self._thread: threading.Thread | None = None
        self._asked_to_stop = threading.Event()
        self._moved = threading.Condition()
        self._state, self._sent, self._problem = "ready", 0, ""
        self._began_s = self._ended_s = 0.0

    # --- life
    def start(self) -> Self:
        """Begin to send; returns at once. A replay that has begun is left alone."""
        if self._thread is None:
            self._state, self._began_s = "running", time.monotonic()
            self._thread = threading.Thread(target=self._run, name="replay", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """Send nothing more; returns when the slice that is being sent has arrived."""
        self._asked_to_stop.set()
        if self._thread is not None:
            self._thread.join()
        super().stop()

    def wait(self, share: float = 1.0, timeout_s: float = 600.0) -> Progress:
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
                reached, view = self._reached(share, wanted), self.look()
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
            if self._asked_to_stop.wait(_SLICE_S):
                return False
            due = due_events(self._times, time.monotonic() - self._began_s, self._speed)
            if due > self._sent:
                self._feed.send(self._events[self._sent : due])
                with self._moved:
                    self._sent = due
                    self._moved.notify_all()
        if self._until_ms is not None:
            self._feed.advance(self._until_ms)
        return True

    # --- what it shows
    def look(self) -> Progress:
        """Return how far it is; asks nobody."""
        ended_s = self._ended_s or time.monotonic()
        return Progress(
            self._state,
            self._sent,
            len(self._events),
            self._times[self._sent - 1] if self._sent else None,
            ended_s - self._began_s if self._began_s else 0.0,
            self._problem,
        )

    def text_of(self, view: Progress) -> str:
        """Return one line."""
        return f"replay {view}"

    def html_of(self, view: Progress) -> str:
        """Return a progress bar with its line."""
        return f'<progress value="{view.sent}" max="{max(view.total, 1)}"></progress> {escape(f"replay {view}")}'

    def controls(self) -> Sequence[Any]:
        """Return the buttons Start and Stop."""
        import ipywidgets

        buttons = []
        for label, action in (("Start", self.start), ("Stop", self._asked_to_stop.set)):
            button = ipywidgets.Button(description=label)
            button.on_click(_ignoring_the_button(action))
            buttons.append(button)
        return (ipywidgets.HBox(buttons),)


def due_events(times: Sequence[int], elapsed_s: float, speed: float) -> int:
    """Return how many events have happened `elapsed_s` seconds after the first one was sent.

    Parameters
    ----------
    times : sequence of int
        Event times in ms, rising.
    elapsed_s : float
        Real seconds since the start.
    speed : float
        Seconds of event time for each of them.
    """
    return bisect_right(times, times[0] + elapsed_s * 1000 * speed) if times else 0


def _ignoring_the_button(action: Callable[[], object]) -> Callable[[Any], object]:
    return lambda _button: action()
