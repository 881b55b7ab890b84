"""A worker: the shell that reports to the leader and runs what the leader tells it to, by `spdist.cluster.keeper`.

Five threads: the heartbeat, which Spark must not starve; the tending of the groups, which also fences; the interface;
one that measures memory; and one in which Spark starts, and starts again when it has ended, while the worker reports.
Each order to a group has a thread of its own.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from typing import Any

from spdist.clock import Clock, SystemClock
from spdist.cluster.access import Users
from spdist.cluster.admission import StartPolicy
from spdist.cluster.api import Server, worker_app
from spdist.cluster.exposition import prometheus_text
from spdist.cluster.first_password import with_first_user
from spdist.cluster.group_lists import ToldGroups, assignments_digest
from spdist.cluster.group_revisions import GroupRevisions, RevisionStore, file_store, open_topics
from spdist.cluster.hosting import Launcher
from spdist.cluster.keeper import Keeper, node_metrics
from spdist.cluster.known_managers import KnownManagers
from spdist.cluster.launcher import SparkLauncher
from spdist.cluster.link import LeaderLink, jittered
from spdist.cluster.memory import worker_memory
from spdist.cluster.messages import GroupPhase, WorkerTiming
from spdist.cluster.node_facts import node_statistics
from spdist.cluster.orders import OrderDesk
from spdist.cluster.process import advertised, kept_log, tell_notes, wait_for_end
from spdist.cluster.questions import Questions
from spdist.cluster.timing import LOST_RETRY_MS
from spdist.cluster.wire import HeartbeatRequest
from spdist.cluster.worker_desk import WorkerDesk
from spdist.cluster.worker_state import WorkerState
from spdist.config import Config
from spdist.config.key_stores import with_pem_files
from spdist.errors import SpdistError, UnauthorizedError
from spdist.transports.opening import transport_settings

__all__ = ["Worker"]

Json = dict[str, Any]

_log = logging.getLogger("spdist.cluster.worker")
#: How often the groups are looked at; a change of state is reported at once.
_LOOK_S = 0.25
#: Least pause between heartbeats that are sent because something changed.
_BREATH_S = 0.1
#: How often the memory of all processes is measured.
_MEASURE_S = 3.0
#: How long groups may finish their batches when the worker stops.
_FINISH_S = 8.0
#: Tries to tell the leader that nothing runs here any more: the first may still have to learn what it wanted to run.
_GOODBYES = 3


class Worker:
    """One worker node.

    Parameters
    ----------
    config : Config
        As `spdist.config.load_config` with role ``worker`` returns it.
    launcher : callable, optional
        Makes the runtimes of groups; Spark's if not given.
    revisions : RevisionStore, optional
        Where revisions are kept; the file system's if not given.
    clock : Clock, optional
        This machine's; its steady reading only.

    Raises
    ------
    ConfigError
        The settings do not make a worker; nothing was opened.
    """

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
        self._desk = OrderDesk(lambda order: self._known_revisions().perform(order), self._beat_now.set)
        self._link = LeaderLink(
            config,
            _call_timeout_s(_own_timing(config)),
            lambda: self._known_keeper().assignments(),
            KnownManagers(config.state_persistence.directory / "workers", self.id),
        )
        self._told = ToldGroups()
        questions = Questions(transport_settings(config.transports))
        self.desk = WorkerDesk(self._known_keeper, self._known_revisions, questions)
        self._keeper: Keeper | None = None
        self.log = kept_log(config)
        self._server: Server | None = None
        self._threads: list[threading.Thread] = []
        self._look_now = threading.Event()
        self._leaving = threading.Event()
        self._over = threading.Event()
        self._failure: BaseException | None = None

    # ------------------------------------------------------------------------------------------------------------- life
    def run(self, stop: threading.Event) -> None:
        """Start, work until `stop` is set or the parent process has gone, and stop.

        Raises
        ------
        ConfigError
            The port is in use, or another setting does not work here.
        UnauthorizedError
            The managers refuse this worker's credentials.
        EngineError
            Spark cannot be started here.
        """
        self.start()
        try:
            wait_for_end(stop, lambda: self._failure)
        finally:
            self.stop()

    def start(self) -> None:
        """Take the port and begin to report; Spark starts meanwhile, groups wait for it."""
        tell_notes(self.config)
        self._server = Server(self.config)
        try:
            self.url = advertised(self.config, self._server.port)
            self.log.attach()
            state = WorkerState(self.id, self.url, self.config.deployment.is_receiver_node, self.incarnation)
            self._keeper = self._keep(state)
            self._server.start(worker_app(self))
            self._keeper.note_memory(worker_memory(self.config.spark.memory_limit))
            self._begin("heartbeat", self._report)
            self._begin("tend", self._tend)
            self._begin("memory", self._measure)
            if self._spark is not None:
                spark = threading.Thread(target=self._guarded, args=(self._spark.keep_up,), name="spdist-spark")
                spark.daemon = True
                spark.start()
        except BaseException:
            self.stop()
            raise
        _log.info("worker %s is up at %s", self.id, self.url)

    def stop(self) -> None:
        """Tell the leader, let the groups finish their batches, end Spark and everything else. May be called twice."""
        if not self._leaving.is_set():
            self._leaving.set()
            self._beat_now.set()
            if self._keeper is not None:
                self._keeper.leave(_FINISH_S)
        self._over.set()
        self._beat_now.set()
        self._look_now.set()
        for thread in self._threads:
            thread.join(10)
        if self._spark is not None:
            self._spark.close()
        if self._server is not None:
            self._server.stop()
        self.desk.close()
        self._link.close()
        _log.info("worker %s has stopped", self.id)
        self.log.detach()

    def _begin(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._guarded, args=(work,), name=f"spdist-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run a thread's work; what ends it too early ends the worker."""
        try:
            work()
        except BaseException as error:
            if not isinstance(error, SpdistError):
                _log.exception("a thread of worker %s failed; this is a defect", self.id)
            self._failure = self._failure or error

    def _keep(self, state: WorkerState) -> Keeper:
        spark = self.config.spark
        policy = StartPolicy(spark.concurrent_starts or 2 * spark.cores)
        if self._launcher is not None:
            return Keeper(state, self._launcher, self._clock, self._look_now.set, policy=policy)
        self._spark = launcher = SparkLauncher(self.config, self._clock, self._spark_changed)
        return Keeper(state, launcher, self._clock, self._look_now.set, readiness=launcher.readiness, policy=policy)

    def _spark_changed(self, up: bool) -> None:
        if up:
            self._known_keeper().note_memory(worker_memory(self.config.spark.memory_limit), fresh=True)
        self._look_now.set()

    # ---------------------------------------------------------------------------------------------------------- threads
    def _report(self) -> None:
        """Send heartbeats until the worker has stopped, and then the one that says so."""
        keeper = self._known_keeper()
        while not self._over.is_set():
            self._beat_now.clear()
            began_ms = self._clock.steady_ms()
            answered = self._beat(keeper)
            pause_s = self._pause_ms(keeper, began_ms, answered=answered) / 1000
            self._over.wait(min(_BREATH_S, pause_s))
            self._beat_now.wait(max(0, pause_s - _BREATH_S))
        for _ in range(_GOODBYES):
            if keeper.serving and not keeper.said_goodbye:
                self._beat(keeper)

    def _pause_ms(self, keeper: Keeper, began_ms: int, *, answered: bool) -> float:
        """Return how long to wait after a round that began at `began_ms`.

        A lost leader is looked for about every 250 ms as long as groups run that the fence would stop, whatever
        ``leaderRetryInterval`` says: it only holds while nothing is at stake.
        """
        retry_ms = self.config.deployment.leader_retry_interval_ms
        if answered:
            return keeper.heartbeat_interval_ms or retry_ms
        pause_ms = jittered(min(retry_ms, LOST_RETRY_MS) if keeper.serving else retry_ms)
        return max(0.0, began_ms + pause_ms - self._clock.steady_ms())

    def _beat(self, keeper: Keeper) -> bool:
        """Send one heartbeat; return True if it was answered by a leader that is obeyed and takes this worker."""
        leaving = self._leaving.is_set()
        try:
            reached = self._link.send(
                lambda: HeartbeatRequest.from_report(
                    self._told.next(keeper.next_report(leaving=leaving)),
                    self._desk.outcomes(),
                    assignments_digest(keeper.assignments().listed),
                )
            )
        except UnauthorizedError:
            if not keeper.serving and not leaving:
                raise
            return False
        if reached is None or not keeper.obey(reached[0]):
            return False
        answer, orders = reached
        self._desk.take(orders)
        self._link.set_timeout(_call_timeout_s(answer.timing))
        self._look_now.set()
        if keeper.rejected:
            return False
        self._told.answered()
        return True

    def _tend(self) -> None:
        """Look after the groups: at once when one has ended, when the fence is due, and every quarter of a second."""
        keeper = self._known_keeper()
        while not self._over.is_set():
            due_in_ms = keeper.due_in_ms()
            self._look_now.wait(_LOOK_S if due_in_ms is None else min(_LOOK_S, due_in_ms / 1000))
            self._look_now.clear()
            if keeper.tend():
                self._beat_now.set()

    def _measure(self) -> None:
        """Note the memory of this worker from time to time; with many processes less often."""
        pause_s = _MEASURE_S
        while not self._over.wait(pause_s):
            began_ms = self._clock.steady_ms()
            self._known_keeper().note_memory(worker_memory(self.config.spark.memory_limit))
            pause_s = max(_MEASURE_S, 50 * (self._clock.steady_ms() - began_ms) / 1000)

    def _known_keeper(self) -> Keeper:
        assert self._keeper is not None
        return self._keeper

    def _known_revisions(self) -> GroupRevisions:
        store = self._store or file_store(self.config)
        return GroupRevisions(store, self._known_keeper(), lambda: open_topics(self.config))

    # ------------------------------------------------------------------------------------------------ for the interface
    def apps(self) -> list[Json]:
        """Return the group instances that are here: name, status and state.

        None is active once no leader is obeyed any more, as after this process has stood still: they are about to be
        stopped, and may run elsewhere.
        """
        reports = self._known_keeper().served_reports()
        return [
            {"name": g.name, "status": _wso2_status(g.state), "state": g.state.value, "error": g.error} for g in reports
        ]

    def app_text(self, name: str) -> str:
        """Return the SiddhiQL of a group instance."""
        return self._known_keeper().group(name).assignment.text

    def app_status(self, name: str) -> Json:
        """Return how a group instance is doing, with the figures of its query."""
        report = self._known_keeper().group(name).report()
        return {
            "status": _wso2_status(report.state),
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

    def statistics(self) -> Json:
        """Return WSO2's ``/statistics`` of this node, as far as it means something here, and whom it obeys."""
        keeper = self._known_keeper()
        return {
            **node_statistics("Active", self.incarnation, keeper.rejected or keeper.readiness.reason),
            "term": keeper.known_term,
            "serving": keeper.serving,
            "ready": keeper.readiness.ready,
        }

    def metrics(self) -> str:
        """Return the figures of the group instances that are here, and of the node, as Prometheus text."""
        return prometheus_text(self._known_keeper().reports(), node_metrics())


def _own_timing(config: Config) -> WorkerTiming:
    """Return the times that hold until a leader imposes its own."""
    return WorkerTiming.from_config(config.deployment.heartbeat_interval_ms, config.deployment.heartbeat_max_retry)


def _call_timeout_s(timing: WorkerTiming) -> float:
    """Return how long a manager may take to answer, so that a stuck one leaves time for others before the fence."""
    return min(5.0, max(0.1, timing.fence_after_ms / 3000))


def _wso2_status(state: GroupPhase) -> str:
    return "active" if state is GroupPhase.RUNNING else "inactive"
