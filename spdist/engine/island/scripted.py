"""The island of an app that a script drives: events and commands in, what is seen of the app out, all in topics.

The merge brings the script's steps into their order, which is their number; nothing else moves the app's time. The
first command starts the app. Whatever goes wrong in it is an answer: an island among many others must not stop them.

Commands, in the topic of the stream `SCRIPT`:

- ``{"start": ms, "observe": […], "timeZone": zone, "limitS": s}`` makes and starts the app; ``limitS`` is the time that
  it may take for all of the script
- ``{"end": true}`` is answered when everything before it is done
- ``{"failed": error}`` ends the script with that error
- ``{"time": ms}`` lets time pass for the events of a step, of which each shard gets its share
- all others are steps of `spdist.replay.cases`

Answers, in the topic of the stream `ANSWERS`, are ``[section, name, entry]`` as `spdist.engine.local.recorder.Put`
takes them, and
``["refused", "", error]``, ``["failed", "", error]``, after which nothing follows but ``["end", "", {}]``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from spdist.engine.island.island import Island
from spdist.engine.island.time_limit import TookTooLong, time_limit
from spdist.engine.island.waiting import chunk_now
from spdist.engine.local.app import LocalApp
from spdist.engine.local.recorder import error_of, silenced
from spdist.engine.local.script import ScriptedRun
from spdist.errors import SiddhiAppError
from spdist.language.checking.checked import CheckedApp
from spdist.operators.base import Arrival, Row
from spdist.operators.core.codec import decode, encode
from spdist.operators.core.junction import ObserverFailed, StreamPart
from spdist.operators.tables.stores import StoreBatch
from spdist.planning.topology import Assignment
from spdist.transports.base import NO_CLOCK
from spdist.transports.commands import ANSWERS, SCHEMAS, SCRIPT, read_command, text_row
from spdist.transports.delivery import Delivery

__all__ = ["ScriptedApp", "ScriptedIsland"]

_LIMIT_S = 60.0
#: The order of the command that starts the app; that of step n is this much higher.
FIRST_ORDER = 0


#: Returns the app, between topics (`spdist.engine.island.hosted.HostedApp`), with the clock of a time zone.
MakeApp = Callable[[str], LocalApp]


class _Hosted(Protocol):
    """What an app between topics has besides what a local one has."""

    def deliver(self, parts: Mapping[str, StreamPart], /) -> None:
        """Process chunks."""
        ...


class _HostedScript(ScriptedRun):
    """A script whose events come through topics."""

    def _send(self, app: LocalApp, stream: str, arrivals: Sequence[Arrival], together: bool) -> None:
        app.advance(arrivals[-1][0])
        cast(_Hosted, app).deliver({stream: chunk_now(arrivals, app.clock)})


class ScriptedApp:
    """Implements `spdist.engine.island.island.App` for a script: time does not pass by itself, and answers come out.

    Parameters
    ----------
    make : callable
        From a time zone to the app, not yet started.

    State
    -----
    That of the script, the command that began it, and its clock.
    """

    def __init__(self, make: MakeApp) -> None:
        self.clock = NO_CLOCK
        self.next_timer: int | None = None
        self._make = make
        self._began: dict[str, Any] | None = None
        self._script: ScriptedRun | None = None
        self._over = False
        self._left_s = _LIMIT_S
        self._answer: Callable[[Sequence[Arrival]], None] = lambda _: None

    def start(self, now_ms: int) -> None:
        """Do nothing: a command starts the app."""
        self.clock = max(self.clock, now_ms)

    def advance(self, to_ms: int) -> None:
        """Do nothing: steps let time pass."""

    def deliver(self, parts: Mapping[str, StreamPart], around: Any = None) -> None:
        """Do nothing: `process` is told the number of the step."""

    def subscribe_each(
        self,
        stream: str,
        receive: Callable[[int, Row], None],
        receive_chunk: Callable[[Sequence[Arrival]], None],
        receive_columns: Any = None,
    ) -> None:
        """Call `receive_chunk` with the answers."""
        if stream == ANSWERS:
            self._answer = receive_chunk

    def take_deliveries(self) -> list[Delivery]:
        """Return nothing: what sinks put out stays here, as in a local app."""
        return []

    def begin(self, batch: StoreBatch) -> None:
        """Do nothing: apps of scripts keep nothing outside of their state."""

    def commit(self) -> None:
        """Do nothing, likewise."""

    def stop(self) -> None:
        """Do nothing, likewise."""

    def process(self, order: int, stream: str, arrivals: Sequence[Arrival]) -> None:
        """Do what has the place `order` in the script: a step, or one of the commands around it."""
        if self._over and stream != SCRIPT:
            return
        began = time.monotonic()
        try:
            # A script of many quick steps may take too long too.
            if self._left_s <= 0 and not self._over:
                raise TookTooLong
            # A timer that is set to 0 is switched off
            with silenced(), time_limit(max(self._left_s, 0.001)):
                self._process(order - FIRST_ORDER - 1, stream, arrivals)
        except TookTooLong:
            limit = (self._began or {}).get("limitS", _LIMIT_S)
            self._fail("failed", error_of(TimeoutError(f"the case took longer than {limit:g} s")))
        except ObserverFailed as failed:
            self._fail("failed", error_of(failed.cause))
        except Exception as error:
            self._fail("failed", error_of(error))
        self._left_s -= time.monotonic() - began
        if self._script is not None:
            self.clock = max(self.clock, self._script.clock or NO_CLOCK)

    def snapshot(self) -> bytes:
        """Return the state."""
        script = None if self._script is None or self._over else self._script.snapshot()
        return encode({"began": self._began, "over": self._over, "clock": self.clock, "script": script})

    def restore(self, data: bytes) -> None:
        """Take over the state of a snapshot."""
        state = decode(data)
        self._began, self._over, self.clock = state["began"], state["over"], state["clock"]
        if state["script"] is not None:
            self._script = self._made(state["began"])
            self._script.restore(state["script"])

    def _process(self, step: int, stream: str, arrivals: Sequence[Arrival]) -> None:
        if stream != SCRIPT:
            assert self._script is not None  # the first command made it
            self._script.send(step, stream, arrivals, together=len(arrivals) > 1)
            return
        for _, row in arrivals:
            self._command(step, read_command(row))

    def _command(self, step: int, command: dict[str, Any]) -> None:
        if "end" in command:
            self._put("end", "", {})
        elif self._over:
            return
        elif "failed" in command:
            self._fail("failed", command["failed"])
        elif self._began is None:
            self._begin(command)
        elif self._script is not None and "time" in command:
            self._script.advance(step, command["time"])
        elif self._script is not None:
            self._script.command(step, command)

    def _begin(self, command: dict[str, Any]) -> None:
        self._began, self._left_s = command, command["limitS"]
        try:
            self._script = self._made(command)
        except SiddhiAppError as error:
            self._fail("refused", error_of(error))
            return
        self._script.start(command["start"])

    def _made(self, command: dict[str, Any]) -> ScriptedRun:
        return _HostedScript(lambda: self._make(command["timeZone"]), command["observe"], self._put)

    def _fail(self, kind: str, error: dict[str, Any]) -> None:
        self._over = True
        self._put(kind, "", error)

    def _put(self, section: str, name: str, entry: dict[str, Any]) -> None:
        self._answer(((self.clock, text_row([section, name, entry])),))


class ScriptedIsland(Island):
    """The island of a scripted app.

    Parameters
    ----------
    assignment : Assignment
        Reads `SCRIPT` and streams, publishes `ANSWERS`.
    checked : CheckedApp
        The app.
    make : callable
        As for `ScriptedApp`.
    """

    def __init__(self, assignment: Assignment, checked: CheckedApp, make: MakeApp) -> None:
        self._scripted = ScriptedApp(make)
        super().__init__(assignment, self._scripted, {**checked.streams, **SCHEMAS}, merge_wait_ms=0)

    def _deliver(self) -> None:
        for due in self._merge.due():
            for _, order, path, stream, arrivals in due.chunks():
                self._by_timer, self._order, self._path, self._number = False, order, path, 0
                self._scripted.process(order, stream, arrivals)
