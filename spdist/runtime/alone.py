"""One app on Spark without a cluster: from its text to a running query, until it is told to stop."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from spdist.engine.session import HostSettings, SparkHost
from spdist.errors import EngineError, SiddhiAppError
from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checker import check
from spdist.language.parser import parse
from spdist.planning.topology import Assignment
from spdist.planning.whole import whole
from spdist.runtime.group import GroupRuntime, GroupStatus
from spdist.runtime.realtime import RealtimeRuntime, runtime_of
from spdist.transports.log import LogTransport
from spdist.transports.options import options_of, written_in
from spdist.transports.outlets import Surroundings, open_outlet

__all__ = ["Progress", "prepare", "run_app"]

log = logging.getLogger(__name__)

_LOOK_S = 0.25


@dataclass(frozen=True, slots=True)
class Progress:
    """How an app is doing: its status, and events per second over the last seconds."""

    status: GroupStatus
    rate: float


def prepare(text: str, shards: int = 1, *, scripts: bool = False) -> Assignment:
    """Check an app and the options of its sinks, and return what is to be run.

    Raises
    ------
    SiddhiAppError
        The text is wrong, or asks for what cannot be run; shows where.
    """
    checked = check(parse(text), catalog(scripts), text)
    assignment = whole(checked, text, shards)
    for definition in checked.app.definitions:
        if isinstance(definition, ast.StreamDefinition):
            for sink in ast.find_annotations(definition.annotations, "sink"):
                _check_sink(definition, sink, text)
    return assignment


def run_app(
    assignment: Assignment,
    settings: HostSettings,
    stop: threading.Event,
    *,
    until_idle_s: float | None = None,
    tell: Callable[[Progress], None] = lambda _: None,
) -> GroupStatus:
    """Run until `stop` is set, then end after the running batch.

    Parameters
    ----------
    assignment : Assignment
        What `prepare` returned.
    settings : HostSettings
        Of Spark, topics and state. Running the app again with the same ones goes on where it ended, however it did.
    stop : threading.Event
        Ends it.
    until_idle_s : float, optional
        Ends it too when nothing has come in for so long, s.
    tell : callable
        Gets the progress, several times a second.

    Returns
    -------
    GroupStatus
        The last one.

    Raises
    ------
    SpdistError
        It failed, or did not start.
    """
    owner = f"{socket.gethostname()}:{os.getpid()}"
    with SparkHost(settings) as host:
        # Real time tells only every few seconds what came in.
        runtime = runtime_of(assignment, host, owner, None if until_idle_s is None else "micro-batch")
        runtime.start()
        try:
            _watch(runtime, stop, until_idle_s, tell)
        finally:
            status = runtime.status()
            if status.state in ("STARTING", "RUNNING") and not runtime.stop():
                log.warning("the running batch did not end in time; the next start finishes it")
        status = runtime.status()
        if status.state == "FAILED":
            raise runtime.error or EngineError(status.error or "the app failed")
        return status


def _watch(
    runtime: GroupRuntime | RealtimeRuntime,
    stop: threading.Event,
    until_idle_s: float | None,
    tell: Callable[[Progress], None],
) -> None:
    rate = _Rate()
    seen, since = -1, time.monotonic()
    while not stop.wait(_LOOK_S):
        status = runtime.status()
        if status.state not in ("STARTING", "RUNNING"):
            return
        now = time.monotonic()
        tell(Progress(status, rate.of(status.events_in, now)))
        if status.state == "STARTING" or status.lag or status.waiting or status.events_in != seen:
            seen, since = status.events_in, now
        elif until_idle_s is not None and now - since >= until_idle_s:
            return


class _Rate:
    """Events per second over some seconds."""

    _SPAN_S = 5.0

    def __init__(self) -> None:
        self._known: list[tuple[float, int]] = []

    def of(self, events: int, now: float) -> float:
        """Return the rate, given how many there are now."""
        self._known = [one for one in self._known if now - one[0] <= self._SPAN_S] + [(now, events)]
        (first, before), (last, after) = self._known[0], self._known[-1]
        return (after - before) / (last - first) if last > first else 0.0


def _check_sink(stream: ast.StreamDefinition, sink: ast.Annotation, text: str) -> None:
    """Open the outlets of a sink, so that a wrong option is said at once and not when the first event comes."""
    destinations = [one for chosen in sink.nested("distribution") for one in chosen.nested("destination")]
    written = options_of(sink, stream.name)
    kind = sink.get("type") or ""
    if kind in ("embedded", "log", "inMemory"):
        return
    around = Surroundings("", LogTransport("."), {})
    places: list[ast.Annotation | None] = [*destinations] or [None]
    for one in places:
        own = {} if one is None else written_in(one)
        options = {key: _PLACES.get(key, value) if "{{" in value else value for key, value in written.values.items()}
        try:
            open_outlet(kind, {**options, **own}, around).close()
        except SiddhiAppError as error:
            error.span, error.text = sink.span if one is None else one.span, text
            raise


#: What stands for an option that differs from event to event, while the others are checked.
_PLACES = {"publisher.url": "http://localhost", "destination": "any", "file.uri": "any"}
