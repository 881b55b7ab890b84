"""A group instance that is one Spark query of Columns between Kafka topics, see `spdist.engine.realtime`.

It looks like `spdist.runtime.group.GroupRuntime` to the worker that runs it. Its state is how far it has read: Spark's
checkpoint, which is kept, and from which any worker goes on.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spdist.engine.state import StateStore, state_directory
from spdist.errors import EngineError, SpdistError
from spdist.planning.native import Obstacle
from spdist.planning.realtime import RealtimePlan, realtime_plan
from spdist.planning.topology import Assignment
from spdist.runtime.group import GroupRuntime, GroupState, GroupStatus, reason_of, wait_until
from spdist.runtime.newest_revision import NewestRevision

if TYPE_CHECKING:
    from spdist.engine.realtime import RealtimeQuery
    from spdist.engine.session import SparkHost

__all__ = ["RealtimeRuntime", "planned", "runtime_of"]

log = logging.getLogger(__name__)


def planned(assignment: Assignment, mode: str, scripts: bool = False) -> RealtimePlan | None:
    """Return how an instance runs as one query of Columns, or None where it must be an island.

    Parameters
    ----------
    assignment : Assignment
        The instance.
    mode : str
        ``spark.mode``: ``auto``, ``micro-batch`` or ``real-time``.
    scripts : bool
        Whether functions that apps define in Python are run.

    Raises
    ------
    EngineError
        `mode` is ``real-time``, and the instance is not for it.
    """
    from spdist.extension import catalog
    from spdist.language.checker import check
    from spdist.language.parser import parse

    against = Obstacle("its streams", "go on to other groups, or come from them")
    alone = not assignment.outputs and not any(one.producers for one in assignment.inputs)
    known = catalog(scripts)
    found = realtime_plan(check(parse(assignment.text), known), known) if alone else against
    if isinstance(found, RealtimePlan):
        return found
    if mode == "real-time":
        raise EngineError(f"group {assignment.name} cannot run in real time: {found}", hint="set spark.mode to auto")
    return None


def runtime_of(
    assignment: Assignment, host: SparkHost, owner: str, mode: str | None = None
) -> GroupRuntime | RealtimeRuntime:
    """Return what runs an instance, not yet started: Columns where `mode` and the app allow it, else an island.

    Parameters
    ----------
    assignment : Assignment
        The instance.
    host : SparkHost
        The process's Spark session.
    owner : str
        Who runs it.
    mode : str, optional
        See ``spark.mode``, which is the default.

    Raises
    ------
    EngineError
        `mode` is ``real-time``, and the instance is not for it.
    """
    mode = mode or host.config.spark.mode
    plan = planned(assignment, mode, host.config.script.python_enabled)
    if plan is None:
        return GroupRuntime(assignment, host, owner)
    return RealtimeRuntime(assignment, plan, host, owner, mode)


class RealtimeRuntime:
    """Runs one such instance, once: another start is another object.

    Parameters
    ----------
    assignment : Assignment
        What to run.
    plan : RealtimePlan
        How.
    host : SparkHost
        The process's Spark session; started when the group starts.
    owner : str
        Who runs it, for people who read the state.
    mode : str
        ``micro-batch``; anything else is real time, where Kafka's connector was there when the host started.

    State
    -----
    Spark's checkpoint, below the state's location; O(1).
    """

    def __init__(
        self, assignment: Assignment, plan: RealtimePlan, host: SparkHost, owner: str, mode: str = "auto"
    ) -> None:
        self.name = assignment.name
        self.host = host
        self.owner = f"{owner}/{uuid.uuid4().hex}"
        self._plan = plan
        self._asked = mode
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._query: RealtimeQuery | None = None
        self._ending = threading.Event()
        self._error: SpdistError | None = None
        self._last = GroupStatus(self.name, "STARTING")
        self._newest = NewestRevision(host.config, [self.name])

    @property
    def checkpoint(self) -> Path:
        """Where Spark keeps how far it has read; another app of this name begins anew."""
        text = repr((self._plan.inputs, self._plan.source_options))
        mark = hashlib.sha256(text.encode()).hexdigest()[:12]
        return state_directory(self.host.state_location / ".checkpoints", self.name) / mark

    @property
    def error(self) -> SpdistError | None:
        """Why the group failed, as an error of ours; None where it did not."""
        self.status()
        return self._error

    def start(self) -> None:
        """Begin to start in a thread of its own and return at once; `status` tells how it goes."""
        with self._lock:
            if self._thread is not None:
                raise EngineError(f"group {self.name} was started before", hint="make a new RealtimeRuntime")
            self._thread = threading.Thread(target=self._run, name=f"start {self.name}", daemon=True)
            self._thread.start()

    def stop(self, timeout_s: float = 30.0) -> bool:
        """End the query; what it has read and not noted is read again by the next start, with the same ids.

        Parameters
        ----------
        timeout_s : float
            How long a start that is under way is waited for.
        """
        self.status()
        self._ending.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
        self._end_query()
        self._settle("STOPPED")
        return True

    def kill(self) -> None:
        """End now; the query itself ends in the background."""
        self._ending.set()
        threading.Thread(target=self._end_query, name=f"kill {self.name}", daemon=True).start()
        self._settle("STOPPED")

    def wait(self, timeout_s: float) -> bool:
        """Wait until the group is not STARTING any more; return whether it is so."""
        return wait_until(lambda: self.status().state != "STARTING", time.monotonic() + timeout_s)

    def status(self) -> GroupStatus:
        """Return what is known now."""
        with self._lock:
            last, query = self._last, self._query
        if query is not None and last.state in ("STARTING", "RUNNING") and not self._ending.is_set():
            self._observe(query)
        with self._lock:
            return replace(self._last, last_revision=self._newest.name())

    def _run(self) -> None:
        from spdist.engine.realtime import RealtimeSettings, start_realtime

        try:
            self.host.start()
            # So that revisions can be taken, as of any group.
            StateStore(state_directory(self.host.state_location, self.name)).open(self.owner)
            mode = "micro-batch" if self._asked == "micro-batch" or not self.host.streams_kafka else "real-time"
            self.checkpoint.mkdir(parents=True, exist_ok=True)
            name = f"{self.name} {self.owner}"
            settings = RealtimeSettings(name, str(self.checkpoint), mode, self._plan.starting)  # type: ignore[arg-type]
            query = None if self._ending.is_set() else start_realtime(self.host, self._plan, settings)
        except Exception as error:
            if not self._ending.is_set():
                log.exception("group %s did not start", self.name)
                self._fail(error)
            return
        with self._lock:
            self._query = query
        if self._ending.is_set():
            self._end_query()

    def _observe(self, query: RealtimeQuery) -> None:
        try:
            running = query.progress()
        except Exception as error:
            if not self._ending.is_set():
                self._fail(error)
            return
        if running is None:
            return
        with self._lock:
            if self._last.state in ("STARTING", "RUNNING"):
                self._last = replace(
                    self._last,
                    state="RUNNING",
                    batches=running.batches,
                    events_in=running.totals["records"],
                    events_out=running.totals["results"],
                    batch_ms=running.batch_ms,
                    lag=int(running.busy),
                )

    def _end_query(self) -> None:
        query = self._query
        if query is not None:
            with contextlib.suppress(Exception):  # the JVM is gone, and the query with it
                query.stop()

    def _fail(self, error: BaseException) -> None:
        self._error = reason_of(error, self.name)
        self._settle("FAILED", str(self._error))

    def _settle(self, state: GroupState, error: str | None = None) -> None:
        """Reach a final state; the first one stays."""
        with self._lock:
            if self._last.state in ("STARTING", "RUNNING"):
                self._last = replace(self._last, state=state, error=error)
