"""An app that a script drives, step by step: its time is that of the steps, and only theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spdist.engine.local.app import LocalApp
from spdist.engine.local.recorder import Put, Recorder, answer_of
from spdist.errors import StateError
from spdist.operators.base import Arrival
from spdist.operators.core import codec

__all__ = ["ScriptedRun"]

_FORMAT = 1


class ScriptedRun:
    """One app at work, over all its restarts.

    Parameters
    ----------
    make : callable
        Returns the app, not yet started: at the beginning, and at each restart.
    observed : sequence
        What is watched, see `spdist.engine.local.recorder.observed_of`.
    put : callable
        Takes what is seen.

    Raises
    ------
    SiddhiAppError
        The app is refused, or lacks what is to be watched.

    State
    -----
    That of the app, and each state that a step saved.
    """

    def __init__(self, make: Callable[[], LocalApp], observed: Sequence[Any], put: Put) -> None:
        self.recorder = Recorder(put)
        self._make = make
        self._observed = observed
        self._saved: dict[str, bytes] = {}
        self._app: LocalApp | None = self._made()

    @property
    def app(self) -> LocalApp:
        """The running app; raises StateError where a step has shut it down."""
        if self._app is None:
            raise StateError("the app was shut down", hint='start it again with the step {"restart": true}')
        return self._app

    @property
    def clock(self) -> int | None:
        """The app's time, ms; None where it was shut down."""
        return None if self._app is None else self._app.clock

    def start(self, now_ms: int) -> None:
        """Start the app with the clock at `now_ms`; what that puts out has the step -1."""
        self._guarded(lambda: self.app.start(now_ms))

    def send(self, step: int, stream: str, arrivals: Sequence[Arrival], together: bool) -> None:
        """Let time pass to the last event's timestamp, then deliver the events, at least one, of step number `step`.

        Parameters
        ----------
        together : bool
            Whether they are one chunk although there may be only one; several always are.
        """
        self.recorder.step = step
        self._guarded(lambda: self._send(self.app, stream, arrivals, together))

    def command(self, step: int, command: Mapping[str, Any]) -> None:
        """Do what step number `step` asks for that is no event, see `spdist.replay.cases`.

        Raises
        ------
        StateError
            There is no such step, or nothing to restore, or the state cannot be stored.
        """
        self.recorder.step = step
        self._guarded(lambda: self._do(command))

    def advance(self, step: int, to_ms: int) -> None:
        """Let time pass to `to_ms` for the events of step number `step`, which other shards get."""
        self.recorder.step = step
        self._guarded(lambda: self.app.advance(to_ms))

    def snapshot(self) -> bytes:
        """Return the state between two steps."""
        app = None if self._app is None else self._app.snapshot()
        return codec.encode({"script": _FORMAT, "step": self.recorder.step, "app": app, "saved": self._saved})

    def restore(self, data: bytes) -> None:
        """Take over the state of a snapshot; call it once, before the start."""
        state = codec.decode(data)
        if not isinstance(state, dict) or state.get("script") != _FORMAT:
            raise StateError("these bytes are no snapshot of a script")
        self.recorder.step, self._saved = state["step"], state["saved"]
        if state["app"] is None:
            self._app = None
        else:
            self.app.restore(state["app"])

    def _send(self, app: LocalApp, stream: str, arrivals: Sequence[Arrival], together: bool) -> None:
        if together:
            app.send_chunk(stream, arrivals)
        else:
            app.send(stream, *arrivals[0])

    def _made(self) -> LocalApp:
        app = self._make()
        self.recorder.watch(app, self._observed)
        return app

    def _guarded(self, call: Callable[[], None]) -> None:
        """Do a step, and note the events that were lost in it."""
        before = 0 if self._app is None else self._app.failures.count
        call()
        if self._app is not None and self._app.failures.count > before:
            step, message = self.recorder.step, self._app.failures.latest
            self.recorder.put("errors", "", {"i": step, "message": message})

    def _do(self, command: Mapping[str, Any]) -> None:
        if "advance" in command:
            self.app.advance(command["advance"])
        elif "query" in command:
            answer = answer_of(self.app, command["query"])
            self.recorder.put("on_demand", "", {"i": self.recorder.step, "query": command["query"], **answer})
        elif "persist" in command or "snapshot" in command:
            self._saved[command.get("snapshot", "last")] = self.app.snapshot()
        elif "restart" in command:
            self._restart(command.get("restore"))
        elif "restore" in command or "restore_snapshot" in command:
            self._restore(command.get("restore_snapshot", command.get("restore")))
        elif "shutdown" in command:
            self._app = None
        else:
            raise StateError(f"there is no step {sorted(command)}")

    def _restart(self, restored: str | None) -> None:
        clock = self.app.clock
        self._app = self._made()
        if restored is not None:
            self._restore(restored)
        self.start(clock)

    def _restore(self, name: Any) -> None:
        if name not in self._saved:
            raise StateError(f"nothing was saved as '{name}' before")
        self.app.restore(self._saved[name])
