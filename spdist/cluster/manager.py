"""A manager: the shell around `ManagerState` that listens, takes part in the election, and uses the database.

A manager process never imports pyspark. Six threads: the state loop (`spdist.cluster.managers.state_loop`), its writer,
the election (`spdist.cluster.elections.candidate`), planning ahead (`spdist.cluster.managers.standby_plans`), the
journal (`spdist.cluster.coordination.journal`), and the interface (`spdist.cluster.api`), whose handlers call the
methods below.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from spdist.clock import Clock, SystemClock
from spdist.cluster.api import Server, manager_app
from spdist.cluster.coordination.journal import Journal
from spdist.cluster.coordination.registry import Registry
from spdist.cluster.coordination.store import CoordinationStore, ManagerRow, open_store
from spdist.cluster.elections.candidate import Candidate
from spdist.cluster.elections.election import ElectionTiming, LeaderRow
from spdist.cluster.exposition import manager_text
from spdist.cluster.leader.metrics import cluster_figures
from spdist.cluster.leader.placement import allocation_algorithm
from spdist.cluster.leader.state import ManagerState
from spdist.cluster.leader.status import deployment_status
from spdist.cluster.managers import views
from spdist.cluster.managers.app_service import AppService
from spdist.cluster.managers.orders import OrderBook
from spdist.cluster.managers.planner import Planner, PlannerSettings
from spdist.cluster.managers.plans import Plans, free_name
from spdist.cluster.managers.questions import Questions
from spdist.cluster.managers.revisions import AppRevisions
from spdist.cluster.managers.standby_plans import Foresight
from spdist.cluster.managers.state_loop import StateLoop
from spdist.cluster.managers.streams import StreamAccess
from spdist.cluster.managers.topics import check_topics, topic_ends
from spdist.cluster.managers.upkeep import Upkeep
from spdist.cluster.process import advertised, kept_log, tell_notes, times_doubt, wait_for_end
from spdist.cluster.protocol.messages import (
    Announce,
    AnswerHeartbeat,
    AppVersion,
    DeployRequested,
    JoinedState,
    RedirectHeartbeat,
    UndeployRequested,
    WorkerHeartbeat,
    WorkerReport,
    WorkerTiming,
)
from spdist.cluster.protocol.wire import Address, Leader, OrderMessage, OutcomeMessage
from spdist.cluster.security.access import CALLER, Users
from spdist.cluster.security.first_password import with_first_user
from spdist.cluster.servers.deployed import DeployOutcome
from spdist.cluster.workers.node_facts import node_statistics
from spdist.config import Config
from spdist.config.key_stores import with_pem_files
from spdist.errors import ClusterError, ConfigError, ErrorKind, NotLeaderError, StoreUnavailableError
from spdist.packages import use_packages
from spdist.planning.limits import AppLimits
from spdist.planning.topology import Topology
from spdist.planning.updates.succession import newly_read
from spdist.transports.opening import transport_settings
from spdist.transports.sockets.listening import Peer

__all__ = ["DeployOutcome", "Manager"]

Json = dict[str, Any]
T = TypeVar("T")

_log = logging.getLogger("spdist.cluster.manager")
#: How long a deployment waits for a server that shall say which topics there are.
_PATIENCE_MS = 5000
#: Characters of a text that the manager's own process may read.
_SHORT = 20_000


class Manager:
    """One manager node.

    Parameters
    ----------
    config : Config
        As `spdist.config.load_config` with role ``manager`` returns it.
    planner : callable, optional
        From an app's text to its topology.
    clock : Clock, optional
        This machine's.

    Raises
    ------
    ConfigError
        The settings do not make a manager; nothing was opened.
    """

    def __init__(
        self, config: Config, *, planner: Callable[[str], Topology] | None = None, clock: Clock | None = None
    ) -> None:
        self.config = config = with_pem_files(with_first_user(config))
        self.id = config.carbon.id
        self.group_id = config.cluster.group_id
        self.users = Users(config)
        self.url = ""
        self._clock = clock or SystemClock()
        self._planner = Planner(_planner_settings(config))
        self._plans_outside = planner is None
        self._plans = Plans(planner) if planner else _plans(self._planner)
        self.stopping = threading.Event()  # who waits here for events must not any longer
        self._topics = transport_settings(config.transports).with_patience(_PATIENCE_MS)
        self.streams = StreamAccess(self._topics, self._plans, self._planner.streams)
        self._timing = ElectionTiming(config.cluster.heartbeat_interval_ms, config.cluster.heartbeat_max_retry)
        deployment = config.deployment
        workers = WorkerTiming.from_config(deployment.heartbeat_interval_ms, deployment.heartbeat_max_retry)
        tell_notes(config)
        if doubt := times_doubt(config):
            _log.warning("%s: %s", config.path, doubt)
        self._store = _open_store(config, self._timing)
        state = ManagerState(
            self.id,
            workers,
            deployment.min_resource_count,
            algorithm=allocation_algorithm(deployment.allocation_algorithm),
            probing=deployment.probe_silent_workers,
        )
        self._foresight = Foresight(self._store, self._plans, config.cluster.event_polling_interval_ms)
        self.journal = self._store.journal
        kept = {"rows": config.cluster.journal_rows, "days": config.cluster.journal_days}
        self._journal = Journal(self.journal, self.id, self._clock, self.leads, **kept)
        self._state_loop = StateLoop(state, self._store, self._clock, self._journal.note)
        self.upkeep = Upkeep(self._state_loop, self._ask)
        self._orders = OrderBook()
        self.app_service = AppService(
            self._ask,
            self._plans,
            AppRevisions(self._orders, note=self._note),
            Questions(self._topics),
            self._clock,
            self._foresight.written_ms,
        )
        self.log = kept_log(config)
        self._server: Server | None = None
        self._candidate: Candidate | None = None
        self._registry: Registry | None = None

    # ------------------------------------------------------------------------------------------------------------- life
    def run(self, stop: threading.Event) -> None:
        """Start, work until `stop` is set or the parent process has gone, and stop.

        Raises
        ------
        ConfigError
            The port is in use, or another setting does not work here.
        ClusterError
            The tables of the database cannot be used, also where it was away at the start and they are met later; or
            this manager has failed, and others take over.
        """
        self.start()
        try:
            wait_for_end(stop, self._failure)
        finally:
            self.stop()

    def start(self) -> None:
        """Take the port, then take part; returns when the interface answers. The database may still be away."""
        self._server = Server(self.config)
        try:
            self.log.attach()
            if self._plans_outside:
                self._planner.warm()
            with contextlib.suppress(StoreUnavailableError):  # the election goes on trying
                self._store.prepare()
            self.url = advertised(self.config, self._server.port)
            self._candidate = Candidate(
                self._store, self._state_loop, self.id, self.url, self._clock, self._timing, self._stored
            )
            polling_ms = self.config.cluster.event_polling_interval_ms
            listed_ms = 2 * polling_ms + self._timing.max_age_ms
            self._registry = Registry(self._store, ManagerRow(self.id, self.url, 0), polling_ms, listed_ms)
            self._journal.start()
            self._state_loop.start()
            self._candidate.start()
            self._registry.start()
            self._foresight.start()
            # Last, so that a request finds all threads at work
            self._server.start(manager_app(self), self._state_loop.prober.closed)
        except BaseException:
            self.stop()
            raise
        _log.info("manager %s of group %s is up at %s", self.id, self.group_id, self.url)

    def stop(self) -> None:
        """Hand the leadership back and end; workers go on with what they run. May be called twice."""
        self.stopping.set()
        if self._server is not None:
            self._server.stop()
        if self._candidate is not None:
            self._candidate.stop()
            self._state_loop.stop()
            self._candidate.resign()  # Last of the three: another leader must not begin while this one acts
        if self._registry is not None:
            self._registry.stop()
        self._journal.stop()
        self._foresight.stop()
        self.app_service.close()
        self._planner.stop()
        self.streams.close()
        self.users.close()
        self._store.close()
        _log.info("manager %s has stopped", self.id)
        self.log.detach()

    def _failure(self) -> BaseException | None:
        """Return why this manager cannot go on, None while it can."""
        return self._state_loop.failure or (self._candidate.failure if self._candidate else None)

    def _stored(self, term: int) -> tuple[tuple[AppVersion, ...], Mapping[str, str] | None, Mapping[str, bool]]:
        """Return what the leader of `term` finds: the deployments, planned, the list of workers, and the cordons."""
        return self._foresight.deployments(), self._store.workers(term), self._store.cordons()

    # ------------------------------------------------------------------------------------------------------------- apps
    def deploy(self, text: str, *, replace: bool) -> DeployOutcome:
        """Plan an app and have it stored; workers are told with their next heartbeats.

        Parameters
        ----------
        text : str
            SiddhiQL with ``@app:name``.
        replace : bool
            Whether an app of that name may be there already.

        Raises
        ------
        SiddhiAppError
            The text is wrong, or topics that are there do not fit; says everything that is.
        TransportUnavailableError
            No server says which topics there are, and it matters.
        ClusterError
            The name is taken, and `replace` is False; or somebody else changes the app.
        NotLeaderError
            This is a standby.
        """
        self._ask(lambda state, now_ms: None)  # only a leader: before the work of planning
        topology = self._plans.topology(text, new=True)
        # Only for the line that an error names, the manager itself reads a text: none that takes long.
        check_topics(topology, text if len(text) <= _SHORT else "", self._topics)
        name, assignments = free_name(topology.app), topology.assignments()
        before = self._ask(lambda state, now_ms: state.deployments.running(name))  # `changed` looks again after the I/O
        known = () if before is None else before.assignments
        ends = topic_ends(newly_read(known, assignments) if known else (), self._topics)

        def changed(state: ManagerState) -> ClusterError | None:
            now = state.deployments.running(name)
            if now is not None and not replace:
                return _conflict(f"an app {name} is deployed already", "use PUT to replace it, or undeploy it first")
            if now != before:
                return _conflict(f"app {name} was changed by another request meanwhile", "try again")
            return None

        request = DeployRequested(AppVersion(name, text, assignments=assignments), uuid.uuid4().hex, ends, CALLER.get())
        self._state_loop.request(request, changed)
        change = None if before is None or before.error else self._plans.change(before.text, text)
        return DeployOutcome(name, created=before is None, change=change)

    def undeploy(self, name: str) -> None:
        """Have an app removed; workers stop its groups with their next heartbeats.

        Raises
        ------
        NotFoundError
            It is not deployed.
        NotLeaderError
            This is a standby.
        """
        self._state_loop.request(UndeployRequested(name, CALLER.get()))

    def apps(self) -> list[Json]:
        """Return all apps as `spdist.cluster.managers.views.app_view` shows them, by name."""
        return self._ask(views.apps_view)

    def app_text(self, name: str) -> str:
        """Return the SiddhiQL of an app as it was sent."""
        return self._ask(lambda state, now_ms: deployment_status(state, name, now_ms).text)

    stream_text = app_text

    def app_status(self, name: str, *, active: bool = False) -> Json:
        """Return how an app and its groups are doing; see `spdist.cluster.managers.views.app_view`.

        Whether `active` or not: a manager that stands by knows of none.
        """
        return self._ask(lambda state, now_ms: views.app_view(state, deployment_status(state, name, now_ms)))

    def topology(self, app: str) -> Json:
        """Return groups, topics, strategies and placement of an app; see `cluster.managers.views.topology_view`."""
        topology = self._plans.topology(self.app_text(app))
        return self._ask(lambda state, now_ms: views.topology_view(state, topology, now_ms))

    # ------------------------------------------------------------------------------------------------------------ nodes
    def heartbeat(
        self, report: WorkerReport, outcomes: list[OutcomeMessage], peer: Peer | None = None
    ) -> tuple[AnswerHeartbeat | RedirectHeartbeat, list[OrderMessage]]:
        """Take in a worker's heartbeat with the outcomes of its orders; return the answer, and orders for it.

        `peer` is the other end of the connection that it came through.
        """
        self._state_loop.prober.heard(report.id, peer)  # First, so that the connection's end finds it noted
        answer: AnswerHeartbeat | RedirectHeartbeat = self._state_loop.request(WorkerHeartbeat(report))
        # One that is rejected uses the id of another process, whose orders are not its own
        if not isinstance(answer, AnswerHeartbeat) or answer.joined is JoinedState.REJECTED:
            return answer, []
        self._orders.record(report.id, outcomes)
        return answer, self._orders.open_for(report.id)

    def leads(self) -> bool:
        """Return True if this manager leads."""
        return self._state_loop.ask(lambda state, now_ms: state.leads(now_ms))

    def who_leads(self) -> tuple[int | None, LeaderRow | None]:
        """Return the term in which this manager leads, None for a standby, and the other manager that leads, if any."""
        return self._state_loop.ask(
            lambda state, now_ms: (state.term, None) if state.leads(now_ms) else (None, state.seen.at(now_ms))
        )

    @property
    def me(self) -> Leader:
        """What others are told of this manager."""
        return Leader(id=self.id, https_interface=Address.from_url(self.url))

    def known_managers(self) -> list[Address]:
        """Return where all managers that are alive are reached."""
        return [Address.from_url(manager.url) for manager in self._managers()]

    def nodes(self, *, apps: bool = False) -> Json:
        """Return leader, managers, workers, and with `apps` those, as of one moment; see `views.nodes_view`."""
        managers = self._managers()
        return self._ask(lambda state, now_ms: views.nodes_view(state, managers, self.group_id, now_ms, apps=apps))

    def statistics(self) -> Json:
        """Return WSO2's ``/statistics`` of this node; see `node_statistics`."""
        return node_statistics("Active" if self.leads() else "Passive", self.group_id)

    def metrics(self) -> str:
        """Return the figures of this manager in Prometheus' text format."""
        return manager_text(
            self._state_loop.ask(cluster_figures),
            heartbeats=self._state_loop.heartbeats,
            noted=self._journal.noted.copy(),
            lost=self._journal.lost,
            planner_waiting=self._planner.waiting,
        )

    def node_details(self) -> list[Json]:
        """Return WSO2's list of workers that are no receivers."""
        return self._ask(lambda state, _: views.node_details(state))

    def _managers(self) -> tuple[ManagerRow, ...]:
        assert self._registry is not None
        return self._registry.managers

    def _ask(self, question: Callable[[ManagerState, int], T]) -> T:
        """Ask what only a leader knows.

        Raises
        ------
        NotLeaderError
            This is a standby.
        """

        def asked(state: ManagerState, now_ms: int) -> T:
            if not state.leads(now_ms):
                raise _not_leader(state, now_ms)
            return question(state, now_ms)

        return self._state_loop.ask(asked)

    def _note(self, said: Announce) -> None:
        self._journal.note(said, self.who_leads()[0])


def _plans(planner: Planner) -> Plans:
    return Plans(planner.plan, planner.plan_again, planner.compare, planner.flow)


def _planner_settings(config: Config) -> PlannerSettings:
    use_packages(config.script.packages)  # before the process that plans begins
    limits = config.limits
    return PlannerSettings(
        config.script.python_enabled,
        config.spark.shards,
        config.transports.default,
        AppLimits(limits.elements, limits.groups, limits.instances, limits.characters),
        limits.planning_time_ms,
    )


def _not_leader(state: ManagerState, now_ms: int) -> NotLeaderError:
    leader = state.seen.at(now_ms)
    url = leader.url if leader else None
    hint = f"ask {url}" if url else "try again in a moment: nobody is known to lead"
    return NotLeaderError(f"manager {state.node_id} does not lead", leader=url, hint=hint)


def _open_store(config: Config, timing: ElectionTiming) -> CoordinationStore:
    """Open the database of the election and of the deployments; one, since a write checks the leader's row with it."""
    source = config.datasources[config.cluster.datasource]
    other = config.datasources[config.deployment.datasource]
    if other.url != source.url:
        raise ConfigError(
            f"{config.path}: cluster.config.strategyConfig.datasource ({source.name}) and deployment.config.datasource "
            f"({other.name}) are different databases",
            hint="give both the same URL: deployments are only written while the leader's row says so",
        )
    return open_store(source, config.cluster.group_id, timing.round_ms)


def _conflict(message: str, hint: str) -> ClusterError:
    return ClusterError(message, hint=hint, code=ErrorKind.CONFLICT)
