"""The debugger of an app in virtual time: step by step, forwards and back, with what the app holds at each step."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from spdist.display import headline_html, note_html, table_html, table_text
from spdist.engine.local.contents import Contents
from spdist.engine.local.recorded import written_streams
from spdist.engine.replay.evidence import TONES
from spdist.engine.replay.stepping import Moment, Stepper
from spdist.errors import SpdistError
from spdist.history import clock_text
from spdist.panels.panel import Panel
from spdist.planning.pictures.timeline import Bar, Dot, timeline

__all__ = ["DebugPanel", "DebugView", "Steppable", "picture_of"]

T = TypeVar("T")

#: Between two looks while it plays, and while it runs to something, s.
_TICK_S, _RUNNING_S = 0.1, 0.5
#: Of the last steps so many are drawn, and so many absences that are waited for.
_DRAWN, _BARS = 40, 6
_FASTEST = 1000.0


class Steppable(Protocol):
    """What has a debugger: a `spdist.Result`, or a `spdist.testing.VirtualApp`."""

    def stepper(self) -> Stepper:
        """Return a debugger that is at the start."""
        ...


@dataclass(frozen=True)
class DebugView:
    """What a debugger shows at one step.

    Parameters
    ----------
    headline : str
        Where it is.
    note : str
        What it is doing, or why it stopped; may be empty.
    given, total : int
        How many events have been sent, of how many.
    events : (head, rows)
        What the step sent and put out, as a table.
    contents : Contents
        What the app holds.
    picture : str
        The last steps, and what is waited for, as SVG.
    playing, at_end : bool
        Whether it goes on by itself; whether there is a further step.
    """

    headline: str
    note: str
    given: int
    total: int
    events: tuple[list[str], list[list[object]]]
    contents: Contents
    picture: str
    playing: bool
    at_end: bool


class DebugPanel(Panel[DebugView]):
    """Goes through what an app was given, and shows at each step the event and what the app holds.

    Its methods are those of `Stepper`, and its buttons the same: back, step, play, pause, and to where something comes
    out; a slider goes to any event. Nothing is asked of a cluster.

    Parameters
    ----------
    app : Stepper, Result or VirtualApp
        What to go through.
    most : int
        How many rows of each part of the app are shown at most, the newest.
    key : str, optional
        The only key of partitions that is shown; by default all.
    speed : float
        Steps a second while it plays, > 0.

    State
    -----
    That of the stepper; while it moves, a thread, and what was asked for meanwhile.

    Examples
    --------
    >>> panel = DebugPanel(spdist.run(app, events))  # doctest: +SKIP
    >>> panel.run_until(stream="Alerts")  # doctest: +SKIP
    """

    def __init__(self, app: Stepper | Steppable, *, most: int = 20, key: str | None = None, speed: float = 5.0) -> None:
        super().__init__()
        self.stepper = app if isinstance(app, Stepper) else app.stepper()
        self._most = most
        self._key = key
        self._speed = _valid(speed)
        #: Held while the stepper moves, and while somebody looks at it.
        self._moving = threading.RLock()
        self._stop = threading.Event()
        self._stop.set()
        #: Held while a move is asked for, and while the next one begins.
        self._asking = threading.Lock()
        self._asked: deque[Callable[[], object]] = deque()
        self._thread: threading.Thread | None = None
        self._note = ""
        self._slider: Any = None
        self._play: Any = None
        #: The thread that brings the slider up to date: nobody has moved it.
        self._adapting: int | None = None

    # --- going
    def step(self, count: int = 1) -> Moment:
        """Go on by some steps; see `Stepper.step`."""
        return self._moved(lambda: self.stepper.step(count))

    def back(self, count: int = 1) -> Moment:
        """Go back by some steps; see `Stepper.back`."""
        return self._moved(lambda: self.stepper.back(count))

    def seek(self, **where: int) -> Moment:
        """Go to a step, forwards or back: ``number=…``, ``event=…`` or ``time=…``; see `Stepper.seek`."""
        return self._moved(lambda: self.stepper.seek(**where))

    def run_until(self, *, stream: str | None = None, when: Callable[[Moment], object] | None = None) -> Moment | None:
        """Go on until something happens, see `Stepper.run_until`, or somebody presses Pause."""
        return self._moved(lambda: self.stepper.run_until(stream=stream, when=when))

    def play(self, speed: float | None = None) -> Self:
        """Go on by itself, by so many steps a second, in a thread of its own, until the end or `pause`."""
        self._speed = self._speed if speed is None else _valid(speed)
        self._ask(self._play_on)
        return self

    def pause(self) -> Self:
        """Stop going on by itself; returns when the step that is being made has ended."""
        with self._asking:
            self._asked.clear()
            self._stop.set()
            thread = self._thread
        # A move may pause, too, and a thread cannot wait for itself.
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        return self

    def stop(self) -> None:
        """Stop going on, and looking; what is shown stays."""
        self.pause()
        super().stop()

    def _moved(self, move: Callable[[], T]) -> T:
        with self._moving:
            self._note = ""
            moment = move()
        self.refresh()
        return moment

    def _play_on(self) -> None:
        while not self._stop.is_set() and not self.stepper.at_end:
            self.step(max(1, round(self._speed * _TICK_S)))
            self._stop.wait(max(_TICK_S, 1 / self._speed))

    def _ask(self, move: Callable[[], object]) -> None:
        """Make a move in a thread, after those asked for before; one of them that goes on by itself ends now."""
        with self._asking:
            self._asked.append(move)
            self._stop.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._make_moves, name="debugger", daemon=True)
                self._thread.start()

    def _make_moves(self) -> None:
        while True:
            with self._asking:
                if not self._asked:
                    self._thread = None
                    return
                move = self._asked.popleft()
                if not self._asked:
                    # Not with others waiting: then a move that goes on by itself ends immediately.
                    self._stop.clear()
            try:
                move()
            except Exception as error:  # also a defect is shown, and the next move is made
                self._note = error.message if isinstance(error, SpdistError) else f"{type(error).__name__}: {error}"
            finally:
                self._stop.set()
                self.refresh()

    def refresh(self) -> bool:
        """Look, and show what is seen; not while it moves: it looks again when it has."""
        # One thread has all panels look: it must not wait for a move, which may take long.
        if not self._moving.acquire(timeout=_TICK_S):
            return True
        try:
            return super().refresh()
        finally:
            self._moving.release()

    # --- what it shows
    def fetch(self) -> DebugView:
        """Return where it is; asks nobody."""
        with self._moving:
            stepper, contents = self.stepper, self.stepper.contents(self._most, self._key)
            return DebugView(
                stepper.headline,
                self._note,
                stepper.given,
                stepper.total,
                stepper.events(),
                contents,
                picture_of(stepper.recent, contents, stepper.log.checked.streams, stepper.clock),
                not self._stop.is_set(),
                stepper.at_end,
            )

    def text_of(self, view: DebugView) -> str:
        """Return headline, events and contents as tables."""
        head, rows = view.events
        tables = [table_text(head, rows)] if rows else []
        return "\n".join([*filter(None, (view.headline, view.note)), *tables, str(view.contents)])

    def html_of(self, view: DebugView) -> str:
        """Return headline, timeline, events and contents."""
        head, rows = view.events
        table = table_html(head, rows, caption="this step") if rows else ""
        bar = f'<progress value="{view.given}" max="{max(view.total, 1)}" style="width:100%"></progress>'
        note = note_html(view.note) if view.note else ""
        picture = f'<div style="overflow-x:auto">{view.picture}</div>'
        return f"{headline_html(view.headline)}{note}{bar}{picture}{table}{view.contents._repr_html_()}"

    # --- controls
    def controls(self) -> Sequence[Any]:
        """Return the buttons, the slider over the events, and the choice of what to run to."""
        import ipywidgets

        def button(label: str, told: str, move: Callable[[], object]) -> Any:
            made = ipywidgets.Button(description=label, tooltip=told, layout=ipywidgets.Layout(width="auto"))
            made.on_click(lambda _: self._ask(move))
            return made

        self._play = ipywidgets.Button(description="Play", layout=ipywidgets.Layout(width="auto"))
        self._play.on_click(lambda _: self.play() if self._stop.is_set() else self._stop.set())
        outputs = [stream for stream in written_streams(self.stepper.log.checked) if not stream.startswith("!")]
        target = ipywidgets.Dropdown(options=outputs, layout=ipywidgets.Layout(width="auto"))
        speed = ipywidgets.FloatLogSlider(value=self._speed, min=-1, max=3, description="steps/s", readout_format=".1f")
        speed.observe(lambda change: setattr(self, "_speed", _valid(change["new"])), "value")
        self._slider = ipywidgets.IntSlider(
            value=self.stepper.given,
            max=self.stepper.total,
            description="event",
            continuous_update=False,
            layout=ipywidgets.Layout(width="98%"),
        )
        self._slider.observe(lambda change: self._sought(change["new"]), "value")
        buttons = (
            button("Back", "one step back", self.back),
            button("Step", "one step on", self.step),
            self._play,
            button("Run to", "until something comes out on this stream", lambda: self._run_to(target.value)),
            target,
            speed,
        )
        return (ipywidgets.HBox(buttons), self._slider)

    def _run_to(self, stream: str) -> None:
        looked_s = time.monotonic()

        def is_there(moment: Moment) -> bool:
            nonlocal looked_s
            if time.monotonic() - looked_s > _RUNNING_S:
                self.refresh()
                looked_s = time.monotonic()
            return self._stop.is_set() or any(came.stream == stream for came in moment.came)

        if self.run_until(when=is_there) is None:
            self._note = f"nothing comes out on {stream} any more"

    def _sought(self, event: int) -> None:
        if self._adapting != threading.get_ident():
            self._ask(lambda: self.seek(event=event))

    def adapt(self, view: DebugView) -> None:
        """Have the slider and the button say what is."""
        if self._slider is not None:
            self._adapting = threading.get_ident()
            self._slider.value = view.given
            self._adapting = None
        if self._play is not None:
            self._play.description = "Pause" if view.playing else "Play"


def picture_of(recent: Iterable[Moment], contents: Contents, streams: Iterable[str], now: int) -> str:
    """Return the last steps as a timeline, with the absences that are waited for.

    Parameters
    ----------
    recent : iterable of Moment
        The steps.
    contents : Contents
        What the app holds now.
    streams : iterable of str
        In the order of their lanes.
    now : int
        The app's time, ms.
    """
    dots = []
    for moment in list(recent)[-_DRAWN:]:
        told = f"step {moment.number}, {clock_text(moment.clock)}"
        dots += [Dot(one.stream, one.timestamp, TONES["cause"], f"{told}: {one.row!r}") for one in moment.given]
        dots += [
            Dot(one.stream, one.timestamp, TONES["through"], f"{told}: {one.row!r}", filled=False)
            for one in moment.came
        ]
    lanes = [stream for stream in streams if stream in {dot.lane for dot in dots}]
    bars = []
    for part in contents.parts:
        if part.kind != "attempts":
            continue
        places = [part.names.index(name) for name in ("waits for", "fires at")]
        for row in part.rows:
            what, fires = (row[place] for place in places)
            if fires is not None and fires >= now:
                bars.append(
                    Bar(f"{part.of}: {what}", now, fires, TONES["absence"], f"until {clock_text(fires)}: {row!r}")
                )
    return timeline(lanes, dots, bars[-_BARS:], now=now, title="The last steps")


def _valid(speed: float) -> float:
    if not 0 < speed <= _FASTEST:
        raise SpdistError(f"a debugger cannot make {speed} steps a second", hint=f"from 0.1 to {_FASTEST:g}")
    return speed
