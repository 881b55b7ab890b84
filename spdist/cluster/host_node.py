"""A node that runs groups, whoever says which: a worker is told by its leader, a server decides by itself.

Here is what both have: the interface's port, the `GroupSupervisor` with its groups, Spark, memory, revisions, the log.
Four threads: the tending of the groups, which also fences; the interface; one that measures memory; and one in which
Spark starts, and starts again when it has ended. Each order to a group has a thread of its own.
"""

from __future__ import annotations

import logging
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from spdist.clock import Clock, SystemClock
from spdist.cluster.api import Server
from spdist.cluster.exposition import prometheus_text
from spdist.cluster.managers.questions import Questions
from spdist.cluster.managers.views import wso2_status
from spdist.cluster.process import advertised, kept_log, tell_notes, wait_for_end
from spdist.cluster.security.access import Users
from spdist.cluster.security.first_password import with_first_user
from spdist.cluster.workers.admission import StartPolicy
from spdist.cluster.workers.app_service import WorkerAppService
from spdist.cluster.workers.evidence_service import EvidenceService
from spdist.cluster.workers.group_revisions import GroupRevisions, RevisionStore, file_store, open_topics
from spdist.cluster.workers.group_supervisor import GroupSupervisor, node_metrics
from spdist.cluster.workers.hosting import Launcher
from spdist.cluster.workers.launcher import SparkLauncher
from spdist.cluster.workers.memory import worker_memory
from spdist.cluster.workers.state import WorkerState
from spdist.config import Config
from spdist.config.key_stores import with_pem_files
from spdist.errors import SpdistError
from spdist.transports.opening import transport_settings

__all__ = ["HostNode"]

Json = dict[str, Any]

_log = logging.getLogger("spdist.cluster.worker")
#: How often the groups are looked at; a change of state is reported immediately.
_LOOK_S = 0.25
#: How often the memory of all processes is measured.
_MEASURE_S = 3.0
#: How long groups may finish their batches when the node stops.
_FINISH_S = 8.0


class HostNode(ABC):
    """A node with groups.

    Parameters
    ----------
    config : Config
        As `spdist.config.load_config` returns it for the node's role.
    launcher : callable, optional
        Makes the runtimes of groups; Spark's if not given.
    revisions : RevisionStore, optional
        Where revisions are kept; the file system's if not given.
    clock : Clock, optional
        This machine's; its steady reading only.

    Raises
    ------
    ConfigError
        The settings do not make a node; nothing was opened.
    """

    #: What it is called in the log.
    kind = "node"

    def __init__(
        self,
        config: Config,
        *,
        launcher: Launcher | None = None,
        revisions: RevisionStore | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.config = config = with_pem_files(with_first_user(config))
        self.id = config.carbon.id
        self.users = Users(config)
        self.url = ""
        self.incarnation = uuid.uuid4().hex[:12]
        self._clock = clock or SystemClock()
        self._launcher = launcher
        self._beat_now = threading.Event()
        self._spark: SparkLauncher | None = None
        self._store = revisions
        questions = Questions(transport_settings(config.transports))
        self.app_service = WorkerAppService(self._asked_supervisor, self._known_revisions, questions)
        self.evidence = EvidenceService(self._asked_supervisor, config)
        self._supervisor: GroupSupervisor | None = None
        self.log = kept_log(config)
        self._server: Server | None = None
        self._threads: list[threading.Thread] = []
        self._look_now = threading.Event()
        self._leaving = threading.Event()
        self._over = threading.Event()
        self._failure: BaseException | None = None

    @abstractmethod
    def _answer(self, server: Server) -> None:
        """Begin to answer requests."""

    @abstractmethod
    def _work(self) -> None:
        """Begin what finds out which groups shall run; `_beat_now` is set whenever one has changed."""

    @abstractmethod
    def _let_go(self) -> None:
        """Close what only this kind of node has. May be called twice, and before `_work`."""

    # ------------------------------------------------------------------------------------------------------------- life
    def run(self, stop: threading.Event) -> None:
        """Start, work until `stop` is set or the parent process has gone, and stop.

        Raises
        ------
        ConfigError
            The port is in use, or another setting does not work here.
        EngineError
            Spark cannot be started here.
        SpdistError
            What else a kind of node may end by.
        """
        self.start()
        try:
            wait_for_end(stop, lambda: self._failure)
        finally:
            self.stop()

    def start(self) -> None:
        """Take the port and begin to work; Spark starts meanwhile, groups wait for it."""
        tell_notes(self.config)
        self._server = Server(self.config)
        try:
            self.url = advertised(self.config, self._server.port)
            self.log.attach()
            state = WorkerState(self.id, self.url, self.config.deployment.is_receiver_node, self.incarnation)
            self._supervisor = self._keep(state)
            self._answer(self._server)
            # Before the first heartbeat, as a node that reports no memory is given any number of groups
            self._supervisor.note_memory(worker_memory(self.config.spark.memory_limit))
            self._work()
            self._begin("tend", self._tend)
            self._begin("memory", self._measure)
            if self._spark is not None:
                # Not among the threads that `stop` joins: it ends when Spark is closed, which comes after them
                spark = threading.Thread(target=self._guarded, args=(self._spark.keep_up,), name="spdist-spark")
                spark.daemon = True
                spark.start()
        except BaseException:
            self.stop()
            raise
        _log.info("%s %s is up at %s", self.kind, self.id, self.url)

    def stop(self) -> None:
        """Let the groups finish their batches, end Spark and everything else. May be called twice."""
        if not self._leaving.is_set():
            self._leaving.set()
            # Told while groups still finish their batches, so that no new one is given to this node
            self._beat_now.set()
            if self._supervisor is not None:
                self._supervisor.leave(_FINISH_S)
        # Heartbeats go on until here: without them the fence would kill groups that finish
        self._over.set()
        self._beat_now.set()
        self._look_now.set()
        for thread in self._threads:
            thread.join(10)
        if self._spark is not None:
            self._spark.close()
        if self._server is not None:
            self._server.stop()
        self.app_service.close()
        self.users.close()
        self._let_go()
        _log.info("%s %s has stopped", self.kind, self.id)
        self.log.detach()

    def _begin(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._guarded, args=(work,), name=f"spdist-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run a thread's work; what ends it too early ends the node."""
        try:
            work()
        except BaseException as error:
            if not isinstance(error, SpdistError):
                _log.exception("a thread of %s %s failed; this is a defect", self.kind, self.id)
            # The first one is the cause; what fails later may only follow from it
            self._failure = self._failure or error

    def _keep(self, state: WorkerState) -> GroupSupervisor:
        spark = self.config.spark
        policy = StartPolicy(spark.concurrent_starts or 2 * spark.cores)
        if self._launcher is not None:
            return GroupSupervisor(state, self._launcher, self._clock, self._look_now.set, policy=policy)
        self._spark = launcher = SparkLauncher(self.config, self._clock, self._spark_changed)
        return GroupSupervisor(
            state, launcher, self._clock, self._look_now.set, readiness=launcher.readiness, policy=policy
        )

    def _spark_changed(self, up: bool) -> None:
        if up:
            self._known_supervisor().note_memory(worker_memory(self.config.spark.memory_limit), fresh=True)
        self._look_now.set()

    # ---------------------------------------------------------------------------------------------------------- threads
    def _tend(self) -> None:
        """Look after the groups: as soon as one has ended, when the fence is due, and every quarter of a second."""
        supervisor = self._known_supervisor()
        while not self._over.is_set():
            due_in_ms = supervisor.due_in_ms()
            self._look_now.wait(_LOOK_S if due_in_ms is None else min(_LOOK_S, due_in_ms / 1000))
            self._look_now.clear()
            if supervisor.tend():
                self._beat_now.set()

    def _measure(self) -> None:
        """Note the memory of this node from time to time; with many processes less often."""
        pause_s = _MEASURE_S
        while not self._over.wait(pause_s):
            began_ms = self._clock.steady_ms()
            self._known_supervisor().note_memory(worker_memory(self.config.spark.memory_limit))
            # At most a fiftieth of the time goes into measuring, which reads each process
            pause_s = max(_MEASURE_S, 50 * (self._clock.steady_ms() - began_ms) / 1000)

    def _known_supervisor(self) -> GroupSupervisor:
        assert self._supervisor is not None
        return self._supervisor

    def _asked_supervisor(self) -> GroupSupervisor:
        """Return the groups for who asks them something; raises SpdistError where another node has them."""
        return self._known_supervisor()

    def _known_revisions(self) -> GroupRevisions:
        store = self._store or file_store(self.config)
        return GroupRevisions(store, self._known_supervisor(), lambda: open_topics(self.config))

    # ------------------------------------------------------------------------------------------------ for the interface
    def apps(self) -> list[Json]:
        """Return the group instances that are here: name, status and state.

        None is active once no leader is obeyed any more, as after this process has stood still: they are about to be
        stopped, and may run elsewhere.
        """
        reports = self._known_supervisor().served_reports()
        return [
            {"name": g.name, "status": wso2_status(g.state), "state": g.state.value, "error": g.error} for g in reports
        ]

    def app_text(self, name: str) -> str:
        """Return the SiddhiQL of a group instance."""
        return self._known_supervisor().group(name).assignment.text

    def app_status(self, name: str) -> Json:
        """Return how a group instance is doing, with the figures of its query."""
        report = self._known_supervisor().group(name).report()
        return {
            "status": wso2_status(report.state),
            "state": report.state.value,
            "reason": report.error,
            "metrics": dict(report.metrics),
        }

    def backup(self, name: str) -> str:
        """Keep the state of a group instance, and return the revision; see `GroupRevisions.backup`."""
        return self._known_revisions().backup(name, self._clock.now_ms())

    def revisions(self, name: str) -> list[str]:
        """Return the revisions of a group instance, oldest first; see `GroupRevisions.revisions`."""
        return self._known_revisions().revisions(name)

    def restore(self, name: str, revision: str) -> None:
        """Let a group instance go back to `revision`; see `GroupRevisions.restore`."""
        self._known_revisions().restore(name, revision)

    def metrics(self) -> str:
        """Return the figures of the group instances that are here, and of the node, as Prometheus text."""
        return prometheus_text(self._known_supervisor().reports(), node_metrics())
