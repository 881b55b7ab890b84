"""What runs on this worker as one query: one start of it, from taking over its state to giving it up.

Mostly that is one group instance, in one shard or several. Many small instances can share a query, too.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spdist.engine.spark.stalls import why_standing
from spdist.engine.spark.stopping import StopFlag
from spdist.errors import EngineError, SpdistError
from spdist.planning.topology import Assignment
from spdist.runtime.group_status import GroupState, InstanceStatus
from spdist.runtime.kafka_inputs import KafkaReads, ReadsFinder
from spdist.runtime.lag import Lag
from spdist.runtime.newest_revision import NewestRevision
from spdist.runtime.periodic import periodic_revisions
from spdist.runtime.progress import NewestCounted, first_line, is_away, is_full, reason_of
from spdist.runtime.realtime_checkpoints import Checkpoints, ended
from spdist.runtime.shard_states import InstanceState
from spdist.runtime.sinks import check_sinks
from spdist.runtime.takeover import Takeover
from spdist.runtime.topic_identities import cause_of, check_topics
from spdist.runtime.topics import ensure_topics
from spdist.runtime.waiting import when_room
from spdist.transports.opening import open_transport, transport_settings

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from spdist.engine.spark.query import QuerySettings
    from spdist.engine.spark.session import SparkHost
    from spdist.runtime.sources import Sources

__all__ = ["GroupRuntime", "wait_until"]

log = logging.getLogger(__name__)


_PAUSE_S = 0.02
_LOOK_MS = 1000


class GroupRuntime:
    """Runs one group instance on the Spark session of this process, once: another start is another object.

    Parameters
    ----------
    assignment : Assignment or sequence of Assignment
        What to run: an instance, or several that share one query. One that fails ends them all.
    host : SparkHost
        The process's Spark session; started when the group starts.
    owner : str
        Who runs it, for people who read the state: the worker's id.
    name : str, optional
        What several instances are called together; that of the first by default.
    partitions : int, optional
        How many Spark partitions host the shards; by default as many as there are shards and ``spark.cores``.

    Notes
    -----
    All methods are safe to call from several threads; only `stop` waits.
    """

    def __init__(
        self,
        assignment: Assignment | Sequence[Assignment],
        host: SparkHost,
        owner: str,
        *,
        name: str | None = None,
        partitions: int | None = None,
    ) -> None:
        self._assignments = (assignment,) if isinstance(assignment, Assignment) else tuple(assignment)
        self.name = name or self._assignments[0].name
        if len({one.name for one in self._assignments}) < len(self._assignments):
            raise EngineError(f"two instances of {self.name} have one name", hint="each must have a state of its own")
        self.host = host
        #: Every start is another owner of the state, also on the same worker.
        self.owner = _owner(owner)
        self._states = [InstanceState(one, host.state_location) for one in self._assignments]
        self._partitions = partitions or min(sum(one.shards for one in self._assignments), host.config.spark.cores)
        topics = transport_settings(host.config.transports)
        self._transport = open_transport(topics)
        #: For looking: who asks for the status cannot wait long.
        self._watch = open_transport(topics.with_patience(_LOOK_MS))
        self._lag = Lag(self._watch, self._assignments)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._query: StreamingQuery | None = None
        self._ending = threading.Event()
        self._stop_flag: StopFlag | None = None
        self._error: SpdistError | None = None
        self._sources: tuple[Sources, ...] = ()
        self._fed = sorted({stream for one in self._assignments for stream in one.fed_streams})
        self._last = InstanceStatus(self.name, "STARTING")
        self._counted = NewestCounted()
        self._taking = Takeover(self.name, self._states, host, self._partitions, self._transport)
        self._finder = ReadsFinder(self.name, self._states, host.config, self._transport.partitions, host.allowed)
        self._revisions = periodic_revisions(host.config, self._assignments)
        self._newest = NewestRevision(host.config, [one.name for one in self._assignments])

    # -------------------------------------------------------------------------------------------- start and stop
    def start(self) -> None:
        """Begin to start in a thread of its own and return immediately; `status` tells how it goes."""
        with self._lock:
            if self._thread is not None:
                raise EngineError(f"group {self.name} was started before", hint="make a new GroupRuntime")
            self._thread = _in_background(f"start {self.name}", self._run)

    def stop(self, timeout_s: float = 30.0) -> bool:
        """Let the running batch finish, and what it puts out be sent, then end the query.

        Sinks that wait for their receivers, as the status says, are not waited for; nor is a batch that stands at an
        event: Spark kills the Python process that runs it, which is that query's own.

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
        self._stop_sources()
        self._ask_to_end()
        flag = self._stop_flag

        def ended() -> bool:
            return self._is_over() or (flag is not None and flag.is_at_rest())

        wait_until(lambda: ended() or self._sinks_wait() is not None or self._stands() is not None, deadline)
        if flag is not None:
            flag.stop_waiting()
        finished = wait_until(lambda: ended() or self._stands() is not None, deadline) and ended()
        self.status()  # for the last counters
        self._end_query()
        for one in self._sources:
            one.finish(max(1.0, deadline - time.monotonic()))
        self._conclude("STOPPED")
        return finished

    def kill(self) -> None:
        """End now: whatever the query is doing, it adds nothing to the state any more when this returns.

        The query itself ends in the background.
        """
        self._ask_to_end()
        if self._stop_flag is not None:
            self._stop_flag.stop_waiting()
        _in_background(f"kill sources {self.name}", lambda: self._stop_sources(closing=True))
        _in_background(f"kill {self.name}", self._end_query)
        for state in self._states:
            state.give_up(self.owner)
        self._conclude("STOPPED")

    def wait(self, timeout_s: float) -> bool:
        """Wait until the group is not STARTING any more; return whether it is so."""
        return wait_until(lambda: self.status().state != "STARTING", time.monotonic() + timeout_s)

    # ---------------------------------------------------------------------------------------------------- status
    def status(self) -> InstanceStatus:
        """Return what is known now."""
        with self._lock:
            last, query = self._last, self._query
        if query is not None and last.state in ("STARTING", "RUNNING"):
            self._observe(query)
        waiting = self._waits() if last.state in ("STARTING", "RUNNING") else None
        with self._lock:
            rejected = Counter(self._last.rejected)
            for one in self._sources:
                rejected.update(one.rejected)
            return replace(self._last, waiting=waiting, last_revision=self._newest.name(), rejected=rejected)

    @property
    def error(self) -> SpdistError | None:
        """Why the group failed, as an error of ours; None where it did not."""
        self.status()
        return self._error

    # ------------------------------------------------------------------------------------------------- internals
    def _run(self) -> None:
        """Take over the state and start the query; runs in its own thread."""
        from spdist.runtime.sources import sources_of

        def begin() -> None:
            for assignment in self._assignments:
                check_sinks(assignment, self.host.allowed)
            self.host.start()
            ensure_topics(self._transport, self._assignments)
            # Before the state is taken over: a wrong option must not fence off who runs now
            sources = sources_of(self._assignments, self._transport, self.host)
            self._start_query()
            with self._lock:
                self._sources = sources
            if not self._ending.is_set():
                try:
                    for one in sources:
                        one.start()
                except BaseException:
                    # All of it begins again where only room is missing
                    self._end_query(forget=True)
                    self._stop_sources()
                    raise
                self._revisions.start()

        self._begin(begin)

    def _begin(self, begin: Callable[[], None]) -> None:
        """Start something in this thread, once there is room on the disk.

        Where that fails the group does, and what has ended meanwhile is undone.
        """
        try:
            when_room(begin, self._ending, self._finder.tell)
        except Exception as error:
            if not self._ending.is_set():
                log.exception("group %s did not start", self.name)
                self._fail(error)
                self._end_query()
            return
        # Told to end while it began: whoever did so may have seen neither query nor sources
        if self._ending.is_set():
            self._stop_sources()
            self._end_query()

    def _start_query(self) -> None:
        """Take over the state and start the query, once the brokers of users' topics answer."""
        from spdist.engine.spark.streaming_query import start_query

        check_topics(self._states, self._transport)
        columns = [Checkpoints(self.host.state_location, state.assignment.name) for state in self._states]
        for state, checkpoints in zip(self._states, columns, strict=True):
            if (found := checkpoints.newest()) is not None:
                state.read_by_columns = ended(self.host, found, state.assignment)
        reads = self._finder.find(self._ending)
        settings = None if reads is None else self._take_over(reads)
        if settings is not None:
            # Only here does the state itself know how far the Columns had read
            for checkpoints in columns:
                checkpoints.forget()
        query = None if settings is None else start_query(self.host, settings)
        with self._lock:
            self._query = query

    def _go_on(self, ended: StreamingQuery, error: BaseException) -> None:
        """Start the query again, whose brokers went away or whose disk is full; the state says where it goes on."""
        with self._lock:
            if self._ending.is_set() or self._query is not ended:  # several may see the same end
                return
            why = "Kafka does not answer" if is_away(error) else str(reason_of(error, self.name))
            log.warning("group %s waits: %s: %s", self.name, why, first_line(error))
            self._query, self._finder.problem = None, why
            self._thread = _in_background(f"start again {self.name}", lambda: self._begin(self._start_query))

    def _stop_sources(self, *, closing: bool = False) -> None:
        for one in self._sources:
            one.stop()
        if closing:  # again, as a source that had not stopped yet may have opened it
            self._transport.close()

    def _waits(self) -> str | None:
        sources = (one.problem for one in self._sources)
        return next((why for why in (self._finder.problem, self._stands(), self._sinks_wait(), *sources) if why), None)

    def _stands(self) -> str | None:
        return None if self._stop_flag is None else why_standing(self._stop_flag.directory)

    def _sinks_wait(self) -> str | None:
        return None if self._stop_flag is None else self._stop_flag.why_waiting()

    def _take_over(self, reads: KafkaReads) -> QuerySettings | None:
        """Become the owner of the state; None where the group was told to end meanwhile."""
        with self._lock:
            if self._stop_flag is not None:  # this is not the first time
                shutil.rmtree(self._stop_flag.directory, ignore_errors=True)
                self.owner = _owner(self.owner.rpartition("/")[0])
        files = self.host.scratch / "groups" / self.owner.rpartition("/")[2]
        files.mkdir(parents=True)
        self._stop_flag = StopFlag(files / "stop")
        return self._taking.take(self.owner, files, reads, lambda: _unless_ending(self._lock, self._ending))

    def _observe(self, query: StreamingQuery) -> None:
        """Read the query's progress; a query that ended by itself has failed."""
        try:
            active, progress = query.isActive, self._counted.of(query)
            problem = None if active else query.exception()
        except Exception as error:
            if not self._ending.is_set():
                self._fail(EngineError(f"the JVM of this worker is gone: {error}"))
            return
        if progress is not None:
            self._count(progress)
        if not active and not self._ending.is_set():
            if problem is not None and (is_away(problem) or is_full(problem)):
                self._go_on(query, problem)
            else:
                ended = problem or EngineError("the query ended without being asked to")
                self._fail(cause_of(ended, self._states, self._watch))

    def _count(self, progress: Any) -> None:
        with self._lock:
            if self._last.state in ("STARTING", "RUNNING"):
                lag, trouble = self._lag.after(progress)
                self._last = InstanceStatus.running(self.name, progress, self._fed, lag, trouble)

    def _ask_to_end(self) -> None:
        with self._lock:
            self._ending.set()
            flag = self._stop_flag
        if flag is not None:
            flag.ask()

    def _is_over(self) -> bool:
        """Whether there is nothing that could still run a batch."""
        if self._thread is not None and self._thread.is_alive():
            return False
        return not _is_active(self._query)

    def _end_query(self, *, forget: bool = False) -> None:
        with self._lock:  # forgotten before it ends, as that is no failure
            query, self._query = self._query, None if forget else self._query
        _stop(query, self.name)
        if self._stop_flag is not None:
            shutil.rmtree(self._stop_flag.directory, ignore_errors=True)

    def _fail(self, error: BaseException) -> None:
        self._error = reason_of(error, self.name)
        _in_background(f"stop sources {self.name}", lambda: self._stop_sources(closing=True))
        self._conclude("FAILED", str(self._error))

    def _conclude(self, state: GroupState, error: str | None = None) -> None:
        """Reach a final state; the first one stays."""
        self._revisions.end()
        with self._lock:
            if self._last.state in ("STARTING", "RUNNING"):
                self._last = replace(self._last, state=state, error=error)
        self._transport.close()
        self._lag.close()


def _in_background(name: str, call: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=call, name=name, daemon=True)
    thread.start()
    return thread


def _is_active(query: StreamingQuery | None) -> bool:
    try:
        return query is not None and bool(query.isActive)
    except Exception:  # the JVM is gone, and the query with it
        return False


def _stop(query: StreamingQuery | None, group: str) -> None:
    try:
        if query is not None:
            query.stop()
    except Exception as error:
        log.warning("group %s did not end cleanly: %s", group, first_line(error))


@contextlib.contextmanager
def _unless_ending(lock: threading.Lock, ending: threading.Event) -> Iterator[bool]:
    """Tell whether a group goes on; nobody tells it to end inside, as after that it must not fence others off."""
    with lock:
        yield not ending.is_set()


def _owner(who: str) -> str:
    return f"{who}/{uuid.uuid4().hex}"


def wait_until(condition: Callable[[], bool], deadline: float) -> bool:
    """Return whether `condition` became true before `deadline`, a time of `time.monotonic`."""
    pace = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            return False
        pace.wait(_PAUSE_S)
    return True
