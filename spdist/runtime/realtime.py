"""A group instance that is one Spark query of Columns between Kafka topics, see `spdist.engine.native.realtime`.

It looks like `spdist.runtime.group.GroupRuntime` to the worker that runs it. Its state is how far it has read: Spark's
checkpoint, which is kept, and from which any worker goes on. Where it ran as an island before, or with another
text, what that has left is finished first, and the query begins where that has ended.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from spdist.config.allowed import Allowed
from spdist.engine.island.user_topics import kafka_endpoints
from spdist.engine.shards.places import ObjectPlace
from spdist.engine.shards.state import Positions
from spdist.errors import EngineError, SpdistError, TransportUnavailableError
from spdist.planning.columns.realtime import RealtimePlan
from spdist.planning.compiled import CompiledInstance
from spdist.planning.topology import Assignment
from spdist.runtime.group import GroupRuntime, wait_until
from spdist.runtime.group_status import GroupState, InstanceStatus
from spdist.runtime.kafka_inputs import extents_of, user_sources
from spdist.runtime.newest_revision import NewestRevision
from spdist.runtime.progress import reason_of
from spdist.runtime.realtime_checkpoints import Checkpoint, Checkpoints, ended, follows, island_ended, planned
from spdist.runtime.shard_states import InstanceState
from spdist.runtime.sinks import check_sinks
from spdist.runtime.waiting import when_available
from spdist.transports.options import options_of

if TYPE_CHECKING:
    from spdist.engine.native.realtime import RealtimeQuery
    from spdist.engine.spark.session import SparkHost

__all__ = ["RealtimeRuntime", "planned", "runtime_of"]

log = logging.getLogger(__name__)


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
        `mode` is ``real-time``, and the instance is not for it, or the state is in a bucket.
    """
    mode = mode or host.config.spark.mode
    if isinstance(host.state_location, ObjectPlace):
        if mode == "real-time":
            where = "Spark keeps how far it has read in a directory, and the state's location is a bucket"
            raise EngineError(
                f"group {assignment.name} cannot run in real time: {where}", hint="set spark.mode to auto"
            )
        mode = "micro-batch"
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
        self._assignment = assignment
        self.owner = f"{owner}/{uuid.uuid4().hex}"
        self._plan = plan
        #: Its sources share one count of what cannot be read.
        self._fed = ", ".join(sorted({one.stream for one in plan.inputs}))
        self._asked = mode
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._query: RealtimeQuery | None = None
        self._ending = threading.Event()
        self._error: SpdistError | None = None
        #: Why nothing is read or written yet; None where all is well.
        self._problem: str | None = None
        self._last = InstanceStatus(self.name, "STARTING")
        self._newest = NewestRevision(host.config, [self.name])

    @property
    def error(self) -> SpdistError | None:
        """Why the group failed, as an error of ours; None where it did not."""
        self.status()
        return self._error

    def start(self) -> None:
        """Begin to start in a thread of its own and return immediately; `status` tells how it goes."""
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
        self._conclude("STOPPED")
        return True

    def kill(self) -> None:
        """End now; the query itself ends in the background."""
        self._ending.set()
        threading.Thread(target=self._end_query, name=f"kill {self.name}", daemon=True).start()
        self._conclude("STOPPED")

    def wait(self, timeout_s: float) -> bool:
        """Wait until the group is not STARTING any more; return whether it is so."""
        return wait_until(lambda: self.status().state != "STARTING", time.monotonic() + timeout_s)

    def status(self) -> InstanceStatus:
        """Return what is known now."""
        with self._lock:
            last, query = self._last, self._query
        if query is not None and last.state in ("STARTING", "RUNNING") and not self._ending.is_set():
            self._observe(query)
        with self._lock:
            waiting = self._problem if self._last.state == "STARTING" else None
            return replace(self._last, waiting=waiting, last_revision=self._newest.name())

    def _run(self) -> None:
        from spdist.engine.native.realtime import RealtimeSettings, start_realtime

        try:
            check_sinks(self._assignment, self.host.allowed)
            self.host.start()
            self._await_topics()
            if self._ending.is_set():
                return
            checkpoint = self._checkpoint()
            mode = "micro-batch" if self._asked == "micro-batch" or not self.host.streams_kafka else "real-time"
            name = f"{self.name} {self.owner}"
            settings = RealtimeSettings(name, str(checkpoint.directory), mode, checkpoint.starting)  # type: ignore[arg-type]
            query = None if self._ending.is_set() else start_realtime(self.host, self._plan, settings)
        except Exception as error:
            if not self._ending.is_set():
                log.exception("group %s did not start", self.name)
                self._fail(error)
            return
        with self._lock:
            self._query = query
        # Told to end while the query began: whoever did so has seen none
        if self._ending.is_set():
            self._end_query()

    def _await_topics(self) -> None:
        """Return when all topics of the app are there; without one Spark waits, or ends, and does not say for which."""

        def tell(problem: str | None) -> None:
            self._problem = problem

        scripts = self.host.config.script.python_enabled
        allowed = self.host.allowed
        when_available(lambda: check_user_topics(self._assignment, scripts, allowed), self.name, self._ending, tell)

    def _checkpoint(self) -> Checkpoint:
        """Return where the query goes on; what ran before it has put out and noted all that it has read."""
        checkpoints = Checkpoints(self.host.state_location, self.name)
        found = checkpoints.newest()
        if found is not None and follows(found, self._assignment):
            return found
        # In one shard, as an island that hands over where its last batch ended.
        assignment = replace(self._assignment, shards=1)
        state = InstanceState(assignment, self.host.state_location)
        if found is not None:
            state.read_by_columns = ended(self.host, found, assignment)
        positions = island_ended(self.host, state, self.owner)
        return checkpoints.begin(assignment, self._starting(positions))

    def _starting(self, positions: Positions) -> str:
        """Return where the query begins: all partitions that are there, as Spark's Kafka source takes them."""
        offsets: Positions = {}
        scripts = self.host.config.script.python_enabled
        for source in user_sources(self._assignment, scripts, self.host.allowed):
            for topic in source.reads.topics:
                for partition, offset in positions.get(source.alias(topic), {}).items():
                    known = offsets.setdefault(topic, {})
                    # Of several sources of one topic the one that is furthest behind decides
                    known[partition] = min(offset, known.get(partition, offset))
        return json.dumps(offsets) if offsets else self._plan.starting

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
                    lag=running.lag,
                    rejected={self._fed: running.totals["unreadable"] + running.totals["left_out"]},
                )

    def _end_query(self) -> None:
        query = self._query
        if query is not None:
            with contextlib.suppress(Exception):  # the JVM is gone, and the query with it
                query.stop()

    def _fail(self, error: BaseException) -> None:
        self._error = reason_of(error, self.name)
        self._conclude("FAILED", str(self._error))

    def _conclude(self, state: GroupState, error: str | None = None) -> None:
        """Reach a final state; the first one stays."""
        with self._lock:
            if self._last.state in ("STARTING", "RUNNING"):
                self._last = replace(self._last, state=state, error=error)


# Whether the Kafka topics of users are there that an app in real time reads and writes: Spark does not say which.


def check_user_topics(assignment: Assignment, scripts: bool = False, allowed: Allowed | None = None) -> None:
    """See that the Kafka topics of an instance's sources and sinks are there.

    Parameters
    ----------
    assignment : Assignment
        The instance.
    scripts : bool
        Whether functions that apps define in Python are known.
    allowed : Allowed, optional
        The secrets and files that the app may refer to; nothing by default.

    Raises
    ------
    TransportError
        A topic or partition that a source reads is not there; says which and what to do.
    TransportUnavailableError
        The brokers do not answer, or there is no topic that a sink writes, and the brokers make none by themselves.
    """
    # Kafka's client in Python takes its time to load: only where it is needed.
    from spdist.connectors.kafka.link import KafkaAccess, KafkaTopics

    for source in user_sources(assignment, scripts, allowed):
        extents_of(source.reads)
    for stream, sink in kafka_endpoints(CompiledInstance.of(assignment, scripts).checked, "sink"):
        options = options_of(sink, stream, allowed)
        topic, access = options.needed("topic", "orders"), KafkaAccess.of(options)
        topics = KafkaTopics(access, creates=True)
        try:
            there = topics.extents((topic,))[topic]
        finally:
            topics.close()
        if not there:
            raise TransportUnavailableError(
                f"{options.what}: there is no topic '{topic}' at {', '.join(access.servers)}",
                hint="create it; the group goes on then",
            )
