"""Planning in a process of its own, so that no text, however hostile, keeps a manager from its heartbeats.

The manager hands a text to a child process as a line of JSON and gets the topology, or the error, as another. The child
may take a limited time and a limited memory; where it takes more it is killed, and the next text gets a new one. Both
lines hold plain values: nothing is unpickled, and no code comes with them.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from pydantic import TypeAdapter

from spdist.cluster.managers.plans import flow_text, plan_text
from spdist.cluster.managers.topics import stream_schemas
from spdist.errors import ClusterError, ErrorKind, PlanningError, SiddhiAppError, Span, SpdistError, error_of
from spdist.extension import user_modules
from spdist.language.types import Schema
from spdist.planning.limits import UNLIMITED, AppLimits
from spdist.planning.topology import Topology
from spdist.planning.updates.change import TopologyChange

__all__ = ["Planner", "PlannerSettings"]

_log = logging.getLogger("spdist.cluster.manager")
#: Of the child, bytes of address space: many times what a text of the largest size needs.
_MEMORY_BYTES = 4 << 30
#: How much longer than an app that is to be deployed one may take that was accepted before: it must come back.
_PATIENCE = 10
#: A child that hears no more of its parent ends by itself, this long after its time is up.
_GRACE_S = 5
#: How long the child may take to come up.
_START_S = 60
#: Planned by the child before it says that it is ready: all that planning needs is loaded then.
_FIRST = "@app:name('First') define stream S (v int); from S[v > 1] select v insert into T;"
_PLAIN = {"scripts": None, "shards": 1, "transport": "log"}
#: The module of what the cells of a notebook define.
_NOTEBOOK = "__main__"
_TOPOLOGY = TypeAdapter(Topology)
_CHANGE = TypeAdapter(TopologyChange)


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """What planning needs to know besides the text: see `spdist.cluster.managers.plans.plan_text`.

    Parameters
    ----------
    scripts, shards, transport
        As `plan_text` takes them.
    limits : AppLimits
        How large an app may be that is to be deployed.
    time_ms : int
        How long its planning may take.
    """

    scripts: bool | None = None
    shards: int = 1
    transport: str = "log"
    limits: AppLimits = field(default_factory=AppLimits)
    time_ms: int = 20_000


class Planner:
    """Plans apps in a child process.

    Parameters
    ----------
    settings : PlannerSettings
        How.

    State
    -----
    One child, which waits for the next text; none before the first. Extensions that the manager has imported are
    imported by it as well; where some are defined in a notebook's cells, which nobody can import, apps are planned in
    the manager's own process.
    """

    def __init__(self, settings: PlannerSettings) -> None:
        self._settings = settings
        self._child: _Child | None = None
        self._turn = threading.Lock()
        self._counting = threading.Lock()
        #: texts that wait for their turn
        self.waiting = 0
        self._stopped = False

    def warm(self) -> None:
        """Start the child, so that the first app need not wait for it; returns before it is up."""
        # Who has the turn has started the child already
        if self._turn.acquire(blocking=False):
            try:
                self._running()
            finally:
                self._turn.release()

    def stop(self) -> None:
        """End the child, whatever it is doing. May be called twice."""
        # Without `_turn`: whoever has it waits for the child, and goes on when that is killed
        self._stopped = True
        self._kill()

    def plan(self, text: str) -> Topology:
        """Return the topology of an app that is to be deployed.

        Raises
        ------
        SiddhiAppError
            The text is wrong or too large, or it cannot be planned in the time that the settings allow.
        ClusterError
            Another app is being planned, and that takes too long to wait for it.
        """
        return self._plan(text, self._settings.limits, self._settings.time_ms / 1000)

    def plan_again(self, text: str) -> Topology:
        """Return the topology of an app that was deployed before: without limits of size, with ten times the time."""
        return self._plan(text, None, _PATIENCE * self._settings.time_ms / 1000)

    def compare(self, before: str, text: str) -> TopologyChange:
        """Return what becomes of an app that is deployed, `before`, where `text` replaces it; both were planned."""
        settings, time_s = self._settings, _PATIENCE * self._settings.time_ms / 1000
        if _NOTEBOOK in user_modules():
            old, new = (
                plan_text(one, settings.scripts, settings.shards, settings.transport, UNLIMITED)
                for one in (before, text)
            )
            return old.diff(new)
        return _CHANGE.validate_json(self._answered(text, None, time_s, before))

    def flow(self, text: str) -> list[dict[str, Any]]:
        """Return the edges between the elements of an app that is deployed; see `planning.pictures.flow.app_flow`."""
        if _NOTEBOOK in user_modules():
            return flow_text(text, self._settings.scripts)
        edges: list[dict[str, Any]] = json.loads(
            self._answered(text, None, self._settings.time_ms / 1000, wants="flow")
        )
        return edges

    def streams(self, text: str) -> dict[str, Schema]:
        """Return the attributes of all streams of an app that was planned."""
        if _NOTEBOOK in user_modules():
            return stream_schemas(text)
        answer = self._answered(text, None, _PATIENCE * self._settings.time_ms / 1000, wants="streams")
        return {name: Schema.of(fields) for name, fields in json.loads(answer)}

    def _plan(self, text: str, limits: AppLimits | None, time_s: float) -> Topology:
        settings = self._settings
        if _NOTEBOOK in user_modules():
            return plan_text(text, settings.scripts, settings.shards, settings.transport, limits or UNLIMITED)
        return _TOPOLOGY.validate_json(self._answered(text, limits, time_s))

    def _answered(
        self, text: str, limits: AppLimits | None, time_s: float, before: str | None = None, wants: str = "plan"
    ) -> bytes:
        request = {
            "text": text,
            "scripts": self._settings.scripts,
            "shards": self._settings.shards,
            "transport": self._settings.transport,
            "limits": None if limits is None else asdict(limits),
            "extensions": sorted(user_modules()),
            "before": before,
            "wants": wants,
            "time_s": time_s,
        }
        with self._counting:
            self.waiting += 1
        try:
            begun = self._turn.acquire(timeout=time_s)
        finally:
            with self._counting:
                self.waiting -= 1
        if not begun:
            raise ClusterError(
                "the manager is planning another app", hint="try again in a moment", code=ErrorKind.PLANNER_BUSY
            )
        try:
            answer = self._asked(json.dumps(request).encode() + b"\n", time_s)
        finally:
            self._turn.release()
        if answer is None:
            raise PlanningError(
                f"checking and planning the app took longer than {time_s:g} s",
                hint="split the app into several; the administrator may raise siddhi.limits.planningTime",
            )
        if answer.startswith(b'{"error"'):
            raise _error(json.loads(answer)["error"], text)
        return answer

    def _asked(self, request: bytes, time_s: float) -> bytes | None:
        """Return the child's answer, None where it took too long; a child that has ended unasked gets a successor."""
        # A child that ends again with the second try ends because of this text
        for _ in range(2):
            child = self._running()
            try:
                return child.ask(request, time_s)
            except TimeoutError:
                _log.warning("planning an app took longer than %g s; it was stopped", time_s)
                self._kill()
                return None
            except OSError:
                self._kill()
                if self._stopped:
                    break
                _log.warning("the process that plans apps has ended with status %s", child.status)
        raise PlanningError(
            "the process that plans apps ended while it read this app",
            hint="the app may need more memory than planning may take; the manager's log has the details",
        )

    def _running(self) -> _Child:
        if self._child is None:
            self._child = _Child()
        return self._child

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()


class _Child:
    """The child process, seen from the manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "spdist.cluster.managers.planner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Extensions are imported from wherever this process has found them
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            # A signal for the manager's group is none for the child: it ends when the manager does.
            start_new_session=True,
        )
        self._ready = False

    @property
    def status(self) -> int | None:
        """The process's exit status, once it has ended."""
        return self._process.poll()

    def ask(self, request: bytes, time_s: float) -> bytes:
        """Write a request and return the line that comes back.

        Raises
        ------
        TimeoutError
            It did not come in time.
        OSError
            The child has ended.
        """
        if not self._ready:  # its start is no part of the app's time
            self._line(_START_S)
            self._ready = True
        assert self._process.stdin is not None
        self._process.stdin.write(request)
        self._process.stdin.flush()
        return self._line(time_s)

    def _line(self, time_s: float) -> bytes:
        assert self._process.stdout is not None
        parts: list[bytes] = []
        end_s = time.monotonic() + time_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not parts or not parts[-1].endswith(b"\n"):
                if not selector.select(max(0.0, end_s - time.monotonic())):
                    raise TimeoutError
                # Not through Python's buffer: what waits there is nothing that the selector could see
                part = os.read(self._process.stdout.fileno(), 1 << 20)
                if not part:
                    raise BrokenPipeError
                parts.append(part)
        return b"".join(parts)

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


# --- errors as plain values --------------------------------------------------------------------------------------


def _told(error: SpdistError) -> dict[str, Any]:
    """Return an error as JSON values, all that were found in an app with it."""
    found = error.errors if isinstance(error, SiddhiAppError) else ()
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "span": None if error.span is None else astuple(error.span),
        "shows_text": error.text is not None,
        "errors": [_told(one) for one in found if one is not error],
    }


def _error(told: dict[str, Any], text: str) -> SpdistError:
    """Return the error that `_told` told of an app with that text."""
    known: dict[str, Any] = {
        "hint": told["hint"],
        "span": None if told["span"] is None else Span(*told["span"]),
        "text": text if told["shows_text"] else None,
    }
    if told["errors"]:
        known["errors"] = tuple(_error(one, text) for one in told["errors"])
    return error_of(told["code"], told["message"], **known)


# --- the child ---------------------------------------------------------------------------------------------------


def _answer(request: dict[str, Any]) -> bytes:
    """Return the topology of the text that is asked for, its changes, flow or streams, or the error, as JSON."""
    for module in request["extensions"]:
        try:
            importlib.import_module(module)
        except Exception:
            _log.exception("%s, which the manager has loaded, cannot be imported where apps are planned", module)
    limits = UNLIMITED if request["limits"] is None else AppLimits(**request["limits"])
    told: SpdistError
    try:
        if request["wants"] == "flow":
            return json.dumps(flow_text(request["text"], request["scripts"])).encode()
        if request["wants"] == "streams":
            schemas = stream_schemas(request["text"]).items()
            # A list, as an object that begins with "error" is one
            return json.dumps([(name, [(key, kind.value) for key, kind in one]) for name, one in schemas]).encode()
        topology = plan_text(request["text"], request["scripts"], request["shards"], request["transport"], limits)
        before = request["before"]
        if before is None:
            return _TOPOLOGY.dump_json(topology)
        known = plan_text(before, request["scripts"], request["shards"], request["transport"], UNLIMITED)
        return _CHANGE.dump_json(known.diff(topology))
    except SpdistError as error:
        told = error
    except (MemoryError, RecursionError) as error:
        told = PlanningError(
            f"the app is too large to be planned ({type(error).__name__})", hint="split it into several"
        )
    return json.dumps({"error": _told(told)}).encode()


def _serve() -> None:
    """Answer requests until the manager closes the pipe."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # not on Windows; not above what is allowed already
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what anything prints is no answer
    _answer({"text": _FIRST, "extensions": [], "before": None, "wants": "plan", "limits": None, **_PLAIN})
    answers.write(b"ready\n")
    answers.flush()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _end_after(request["time_s"] + _GRACE_S)
        answers.write(_answer(request) + b"\n")
        answers.flush()
        _end_after(0)


def _end_after(time_s: float) -> None:
    """Let the system end this process after a time, 0 for never: the manager that would do it may be gone."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, time_s)


if __name__ == "__main__":
    _serve()
