"""A group instance that runs on this worker: one start of its query, from taking over its state to giving it up."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from spdist.engine.state import StateStore, state_directory
from spdist.errors import EngineError, QueryFailedError, SpdistError, error_codes
from spdist.planning.topology import Assignment
from spdist.transports.log import LogTransport

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from spdist.engine.compile import QuerySettings
    from spdist.engine.session import SparkHost

__all__ = ["GroupRuntime", "GroupState", "GroupStatus", "reason_of"]

log = logging.getLogger(__name__)

GroupState = Literal["STARTING", "RUNNING", "STOPPED", "FAILED"]

_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """What is known of a group instance.

    Parameters
    ----------
    name : str
        Of the instance.
    state : str
        STARTING until its query has committed a batch, then RUNNING; STOPPED when asked to, FAILED otherwise.
    error : str, optional
        Why it failed.
    batches : int
        Batches that this start has committed.
    events_in, events_out : int
        Events processed and published, since the group began, over all its starts.
    clock : int, optional
        Its event time, ms; None before anything has arrived.
    lag : int
        Records that are in its topics and not yet read.
    """

    name: str
    state: GroupState
    error: str | None = None
    batches: int = 0
    events_in: int = 0
    events_out: int = 0
    clock: int | None = None
    lag: int = 0


class GroupRuntime:
    """Runs one group instance on the Spark session of this process, once: another start is another object.

    Parameters
    ----------
    assignment : Assignment
        What to run.
    host : SparkHost
        The process's Spark session; started when the group starts.
    owner : str
        Who runs it, for people who read the state: the worker's id.

    Notes
    -----
    All methods are safe to call from several threads; only `stop` waits.
    """

    def __init__(self, assignment: Assignment, host: SparkHost, owner: str) -> None:
        self.assignment = assignment
        self.host = host
        #: Every start is another owner of the state, also on the same worker.
        self.owner = f"{owner}/{uuid.uuid4().hex}"
        self.store = StateStore(state_directory(host.state_location, assignment.name))
        self._transport = LogTransport(host.log_directory)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._query: StreamingQuery | None = None
        self._ending = threading.Event()
        self._stop_flag: Path | None = None
        self._error: SpdistError | None = None
        self._last = GroupStatus(assignment.name, "STARTING")

    # -------------------------------------------------------------------------------------------- start and stop
    def start(self) -> None:
        """Begin to start in a thread of its own and return at once; `status` tells how it goes."""
        with self._lock:
            if self._thread is not None:
                raise EngineError(f"group {self.assignment.name} was started before", hint="make a new GroupRuntime")
            self._thread = threading.Thread(target=self._run, name=f"start {self.assignment.name}", daemon=True)
            self._thread.start()

    def stop(self, timeout_s: float = 30.0) -> bool:
        """Let the running batch finish, then end the query.

        Parameters
        ----------
        timeout_s : float
            After this long the query is ended in the middle of its batch, which does no harm: the next start finishes
            it.

        Returns
        -------
        bool
            Whether it ended between two batches.
        """
        deadline = time.monotonic() + timeout_s
        self._ask_to_end()
        seen = self._stop_flag.with_name(self._stop_flag.name + ".seen") if self._stop_flag else None
        finished = _wait(lambda: self._is_over() or (seen is not None and seen.exists()), deadline)
        self.status()  # for the last counters
        self._end_query()
        self._settle("STOPPED")
        return finished

    def kill(self) -> None:
        """End now: whatever the query is doing, it adds nothing to the state any more when this returns.

        The query itself ends in the background.
        """
        self._ask_to_end()
        threading.Thread(target=self._end_query, name=f"kill {self.assignment.name}", daemon=True).start()
        self.store.give_up(self.owner)
        self._settle("STOPPED")

    def wait(self, timeout_s: float) -> bool:
        """Wait until the group is not STARTING any more; return whether it is so."""
        return _wait(lambda: self.status().state != "STARTING", time.monotonic() + timeout_s)

    # ---------------------------------------------------------------------------------------------------- status
    def status(self) -> GroupStatus:
        """Return what is known now."""
        with self._lock:
            last, query = self._last, self._query
        if query is not None and last.state in ("STARTING", "RUNNING"):
            self._observe(query)
        with self._lock:
            return self._last

    @property
    def error(self) -> SpdistError | None:
        """Why the group failed, as an error of ours; None where it did not."""
        self.status()
        return self._error

    # ------------------------------------------------------------------------------------------------- internals
    def _run(self) -> None:
        """Take over the state and start the query; runs in its own thread."""
        from spdist.engine.compile import start_query

        try:
            self.host.start()
            self._ensure_topics()
            settings = self._take_over()
            query = None if settings is None else start_query(self.host, settings)
        except Exception as error:
            if not self._ending.is_set():
                log.exception("group %s did not start", self.assignment.name)
                self._fail(error)
            return
        with self._lock:
            self._query = query
        if self._ending.is_set():
            self._end_query()

    def _take_over(self) -> QuerySettings | None:
        """Become the owner of the state; None where the group was told to end meanwhile."""
        from spdist.engine.compile import QuerySettings

        config = self.host.config.spark
        files = self.host.scratch / "groups" / self.owner.rpartition("/")[2]
        files.mkdir(parents=True)
        # Whoever tells this group to end holds the lock: after that it must not fence off its successor.
        with self._lock:
            if self._ending.is_set():
                return None
            self._stop_flag = files / "stop"
            opening = self.store.open(self.owner)
        return QuerySettings(
            assignment=self.assignment,
            opening=opening,
            state_directory=str(self.store.directory),
            log_directory=str(self.host.log_directory),
            stop_flag=str(files / "stop"),
            checkpoint=str(files / "checkpoint"),
            merge_wait_ms=config.merge_wait_ms,
            tick_interval_ms=config.tick_interval_ms,
            max_batch_events=config.max_batch_events,
            scripts=self.host.config.script.python_enabled,
        )

    def _ensure_topics(self) -> None:
        for assigned in self.assignment.inputs:
            self._transport.ensure(assigned.topic, max(assigned.partitions) + 1)
        for output in self.assignment.outputs:
            for publishing in output.publishing:
                self._transport.ensure(publishing.topic, publishing.partitions)

    def _observe(self, query: StreamingQuery) -> None:
        """Read the query's progress; a query that ended by itself has failed."""
        try:
            active, progress = query.isActive, _counted(query)
            problem = None if active else query.exception()
        except Exception as error:
            if not self._ending.is_set():
                self._fail(EngineError(f"the JVM of this worker is gone: {error}"))
            return
        if progress is not None:
            self._count(progress)
        if not active and not self._ending.is_set():
            self._fail(problem or EngineError("the query ended without being asked to"))

    def _count(self, progress: Any) -> None:
        counters = _counters(progress)
        read = json.loads(progress.sources[0].endOffset)["topics"]
        with self._lock:
            if self._last.state in ("STARTING", "RUNNING"):
                self._last = GroupStatus(
                    name=self.assignment.name,
                    state="RUNNING",
                    batches=progress.batchId + 1,
                    events_in=counters["events_in"],
                    events_out=counters["events_out"],
                    clock=counters["clock"],
                    lag=self._lag(read),
                )

    def _lag(self, read: dict[str, dict[str, int]]) -> int:
        behind = 0
        for topic, partitions in read.items():
            ends = self._transport.end_offsets(topic)
            behind += sum(max(0, ends[int(partition)] - offset) for partition, offset in partitions.items())
        return behind

    def _ask_to_end(self) -> None:
        with self._lock:
            self._ending.set()
            flag = self._stop_flag
        if flag is not None:
            with contextlib.suppress(OSError):  # the host is gone, and the query with it
                flag.touch()

    def _is_over(self) -> bool:
        """Whether there is nothing that could still run a batch."""
        if self._thread is not None and self._thread.is_alive():
            return False
        query = self._query
        try:
            return query is None or not query.isActive
        except Exception:  # the JVM is gone, and the query with it
            return True

    def _end_query(self) -> None:
        query = self._query
        if query is not None:
            try:
                query.stop()
            except Exception as error:
                log.warning("group %s did not end cleanly: %s", self.assignment.name, _first_line(error))
        if self._stop_flag is not None:
            shutil.rmtree(self._stop_flag.parent, ignore_errors=True)

    def _fail(self, error: BaseException) -> None:
        self._error = reason_of(error, self.assignment.name)
        self._settle("FAILED", str(self._error))

    def _settle(self, state: GroupState, error: str | None = None) -> None:
        """Reach a final state; the first one stays."""
        with self._lock:
            if self._last.state in ("STARTING", "RUNNING"):
                self._last = replace(self._last, state=state, error=error)
        self._transport.close()


def _counted(query: StreamingQuery) -> Any:
    """Return the newest progress with our counters, None where there is none: an idle query reports without."""
    last = query.lastProgress
    if last is None or _counters(last):
        return last
    return next((progress for progress in reversed(query.recentProgress) if _counters(progress)), None)


def _counters(progress: Any) -> Any:
    from spdist.engine.compile import OBSERVED

    return (progress.observedMetrics or {}).get(OBSERVED)


def _wait(look: Callable[[], bool], deadline: float) -> bool:
    pace = threading.Event()
    while not look():
        if time.monotonic() > deadline:
            return False
        pace.wait(_PAUSE_S)
    return True


#: The last line of a Python traceback inside Spark's message, where the error is ours.
_OURS = re.compile(r"^spdist\.errors\.(\w+): (.*?)(?=^\s*(?:at |SQLSTATE|$)|\Z)", re.MULTILINE | re.DOTALL)
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception): ")


def reason_of(error: BaseException, name: str) -> SpdistError:
    """Return the cause behind an error of group instance `name`, free of Spark's wrapping.

    An error that was raised in a Python process of Spark arrives as text; where it was one of ours it becomes that
    again.
    """
    if isinstance(error, SpdistError):
        return error
    text = str(error)
    found = list(_OURS.finditer(text))
    if found:
        kinds = {kind.__name__: kind for kind in error_codes().values()}
        kind = kinds.get(found[-1][1], QueryFailedError)
        message, _, hint = found[-1][2].strip().partition("\nHint: ")
        return kind(message, hint=hint or None)
    # Of a Python traceback the last line says what happened; of anything else the first.
    told = next((line for line in reversed(text.splitlines()) if _RAISED.match(line)), _first_line(error))
    return QueryFailedError(f"group {name} failed: {told}")


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))
