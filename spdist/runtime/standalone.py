"""One app on Spark without a cluster: from its text to a running query, until it is told to stop."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from spdist.config.allowed import Allowed, allowed_of
from spdist.connectors.http.addresses import check_ports
from spdist.engine.shards.places import check_fence, place_of
from spdist.engine.spark.session import HostSettings, SparkHost
from spdist.errors import EngineError
from spdist.planning.compiled import checked_text
from spdist.planning.standalone import standalone_assignment
from spdist.planning.topology import Assignment
from spdist.runtime.group import GroupRuntime
from spdist.runtime.group_status import InstanceStatus
from spdist.runtime.realtime import RealtimeRuntime, runtime_of
from spdist.runtime.sinks import check_sinks

__all__ = ["AppProgress", "prepare", "run_app"]

log = logging.getLogger(__name__)

_LOOK_S = 0.25


@dataclass(frozen=True, slots=True)
class AppProgress:
    """How an app is doing: its status, and events per second over the last seconds."""

    status: InstanceStatus
    rate: float


def prepare(
    text: str,
    shards: int = 1,
    *,
    scripts: bool = False,
    allowed: Allowed | None = None,
    transport: str = "log",
    owner: str = "",
) -> Assignment:
    """Check an app and the options of its sinks, and return what is to be run.

    `allowed` are the secrets and files that it may refer to; nothing by default. `transport` is what carries the topics
    of its streams, and `owner` whose they are; see `spdist.planning.standalone.standalone_assignment`.

    Raises
    ------
    SiddhiAppError
        The text is wrong, or asks for what cannot be run; shows where.
    """
    checked = checked_text(text, scripts)
    assignment = standalone_assignment(checked, text, shards, transport, owner)
    check_sinks(assignment, allowed or Allowed())
    return assignment


def run_app(
    assignment: Assignment,
    settings: HostSettings,
    stop: threading.Event,
    *,
    until_idle_s: float | None = None,
    tell: Callable[[AppProgress], None] = lambda _: None,
) -> InstanceStatus:
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
    InstanceStatus
        The last one.

    Raises
    ------
    SpdistError
        It failed, or did not start.
    """
    check_ports(assignment, allowed_of(settings))
    check_fence(place_of(settings.state_persistence.location))
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
    tell: Callable[[AppProgress], None],
) -> None:
    rate = _Rate()
    seen, since = -1, time.monotonic()
    while not stop.wait(_LOOK_S):
        status = runtime.status()
        if status.state not in ("STARTING", "RUNNING"):
            return
        now = time.monotonic()
        tell(AppProgress(status, rate.of(status.events_in, now)))
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
