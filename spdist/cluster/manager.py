"""A manager: the shell around `ManagerState` that listens, takes part in the election, and uses the database.

A manager process never imports pyspark. Four threads: the mind (`spdist.cluster.mind`), its writer, the election
(`spdist.cluster.candidate`), and the interface (`spdist.cluster.api`), whose handlers call the methods below.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

from spdist.clock import Clock, SystemClock
from spdist.cluster import views
from spdist.cluster.access import Users
from spdist.cluster.api import Server, manager_app
from spdist.cluster.candidate import Candidate
from spdist.cluster.election import ElectionTiming
from spdist.cluster.messages import (
    AnswerHeartbeat,
    Deployment,
    DeployRequested,
    Desired,
    RedirectHeartbeat,
    UndeployRequested,
    WorkerHeartbeat,
    WorkerReport,
    WorkerTiming,
)
from spdist.cluster.mind import Mind
from spdist.cluster.orders import OrderBook
from spdist.cluster.plans import Plans, plan_text
from spdist.cluster.process import advertised, wait_for_end
from spdist.cluster.registry import Registry
from spdist.cluster.revisions import AppRevisions
from spdist.cluster.state import ManagerState
from spdist.cluster.status import deployment_status, deployment_statuses
from spdist.cluster.store import CoordinationStore, ManagerRow
from spdist.cluster.topics import check_topics
from spdist.cluster.wire import Address, Leader, OrderMessage, OutcomeMessage
from spdist.config import Config
from spdist.errors import ConfigError, ConflictError, NotLeaderError, NoWorkersError
from spdist.planning.topology import Topology
from spdist.transports.opening import transport_settings

__all__ = ["Manager"]

Json = dict[str, Any]
T = TypeVar("T")

_log = logging.getLogger("spdist.cluster.manager")
#: How long a deployment waits for a server that shall say which topics there are.
_PATIENCE_MS = 5000


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
        self.config = config
        self.id = config.carbon.id
        self.group_id = config.cluster.group_id
        self.users = Users(config)
        self.url = ""
        self._clock = clock or SystemClock()
        planned = partial(
            plan_text,
            scripts=config.script.python_enabled,
            shards=config.spark.shards,
            transport=config.transports.default,
        )
        self._plans = Plans(planner or planned)
        self._topics = transport_settings(config.transports).with_patience(_PATIENCE_MS)
        self._timing = ElectionTiming(config.cluster.heartbeat_interval_ms, config.cluster.heartbeat_max_retry)
        self._store = _open_store(config, self._timing)
        state = ManagerState(
            self.id,
            WorkerTiming.from_config(config.deployment.heartbeat_interval_ms, config.deployment.heartbeat_max_retry),
            config.deployment.min_resource_count,
        )
        self._mind = Mind(state, self._store, self._clock)
        self._orders = OrderBook()
        self._revisions = AppRevisions(self._orders)
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
            This manager has failed; others take over.
        """
        self.start()
        try:
            wait_for_end(stop, lambda: self._mind.failure)
        finally:
            self.stop()

    def start(self) -> None:
        """Take the port, then take part; returns when the interface answers. The database may still be away."""
        self._server = Server(self.config)
        try:
            self.url = advertised(self.config, self._server.port)
            self._candidate = Candidate(
                self._store, self._mind, self.id, self.url, self._clock, self._timing, self._stored_deployments
            )
            polling_ms = self.config.cluster.event_polling_interval_ms
            listed_ms = 2 * polling_ms + self._timing.max_age_ms
            self._registry = Registry(self._store, ManagerRow(self.id, self.url, 0), polling_ms, listed_ms)
            self._mind.start()
            self._candidate.start()
            self._registry.start()
            self._server.start(manager_app(self))
        except BaseException:
            self.stop()
            raise
        _log.info("manager %s of group %s is up at %s", self.id, self.group_id, self.url)

    def stop(self) -> None:
        """Hand the leadership back and end; workers go on with what they run. May be called twice."""
        if self._server is not None:
            self._server.stop()
        if self._candidate is not None:
            self._candidate.stop()
            self._mind.stop()
            self._candidate.resign()
        if self._registry is not None:
            self._registry.stop()
        self._store.close()
        _log.info("manager %s has stopped", self.id)

    def _stored_deployments(self) -> tuple[Deployment, ...]:
        return tuple(self._plans.restored(d.name, d.text, d.version, d.desired) for d in self._store.deployments())

    # ------------------------------------------------------------------------------------------------------------- apps
    def deploy(self, text: str, *, replace: bool) -> tuple[str, bool]:
        """Plan an app and have it stored; workers are told with their next heartbeats.

        Parameters
        ----------
        text : str
            SiddhiQL with ``@app:name``.
        replace : bool
            Whether an app of that name may be there already.

        Returns
        -------
        name : str
            The app's name.
        created : bool
            False if it replaced one.

        Raises
        ------
        SiddhiAppError
            The text is wrong, or topics that are there do not fit; says everything that is.
        TransportUnavailableError
            No server says which topics there are, and it matters.
        ConflictError
            The name is taken, and `replace` is False.
        NotLeaderError
            This is a standby.
        """
        self._leader_only()  # before the work of planning
        topology = self._plans.topology(text)
        check_topics(topology, text, self._topics)
        name, created = topology.app, False

        def taken(state: ManagerState) -> ConflictError | None:
            nonlocal created
            known = state.deployments.by_name.get(name)
            created = known is None or known.desired is Desired.REMOVED
            if replace or created:
                return None
            return ConflictError(
                f"an app {name} is deployed already", hint="use PUT to replace it, or undeploy it first"
            )

        self._mind.request(DeployRequested(Deployment(name, text, assignments=topology.assignments())), taken)
        return name, created

    def undeploy(self, name: str) -> None:
        """Have an app removed; workers stop its groups with their next heartbeats.

        Raises
        ------
        NotFoundError
            It is not deployed.
        NotLeaderError
            This is a standby.
        """
        self._mind.request(UndeployRequested(name))

    def apps(self) -> list[Json]:
        """Return all apps as `spdist.cluster.views.app_view` shows them, by name."""
        return self._ask(
            lambda state, now_ms: [views.app_view(state, status) for status in deployment_statuses(state, now_ms)]
        )

    def app_text(self, name: str) -> str:
        """Return the SiddhiQL of an app as it was sent."""
        return self._ask(lambda state, now_ms: deployment_status(state, name, now_ms).text)

    def app_status(self, name: str) -> Json:
        """Return how an app and its groups are doing; see `spdist.cluster.views.app_view`."""
        return self._ask(lambda state, now_ms: views.app_view(state, deployment_status(state, name, now_ms)))

    def children(self, app: str | None = None) -> list[dict[str, str]]:
        """Return WSO2's records of all group instances, or of those of one app."""

        def records(state: ManagerState, now_ms: int) -> list[dict[str, str]]:
            if app is None:
                return [g.to_dict() for s in deployment_statuses(state, now_ms) for g in s.groups]
            return [g.to_dict() for g in deployment_status(state, app, now_ms).groups]

        return self._ask(records)

    def topology(self, app: str) -> Json:
        """Return groups, topics, strategies and placement of an app; see `spdist.cluster.views.topology_view`."""
        topology = self._plans.topology(self.app_text(app))
        return self._ask(lambda state, now_ms: views.topology_view(state, topology, now_ms))

    def backup(self, app: str) -> str:
        """Have the state of all groups of `app` kept and return the revision; see `AppRevisions.backup`."""
        return self._revisions.backup(app, self._hosts(app), self._clock.now_ms())

    def revisions(self, app: str) -> list[str]:
        """Return the revisions of `app`, oldest first; see `AppRevisions.revisions`."""
        return self._revisions.revisions(self._hosts(app))

    def restore(self, app: str, revision: str) -> None:
        """Let all groups of `app` go back to `revision`; see `AppRevisions.restore`."""
        self._revisions.restore(app, self._hosts(app), revision)

    def _hosts(self, app: str) -> dict[str, str]:
        """Return for each group instance of `app` its worker, or any while it waits for one.

        Raises
        ------
        NotFoundError
            The app is not deployed.
        NoWorkersError
            No worker has joined.
        """

        def hosts(state: ManagerState, now_ms: int) -> dict[str, str]:
            groups = deployment_status(state, app, now_ms).groups
            workers = [member.report.id for member in state.members if not member.report.leaving]
            if not workers:
                raise NoWorkersError(f"no worker has joined that could see to the state of {app}")
            return {group.app_name: group.worker or workers[0] for group in groups}

        return self._ask(hosts)

    # ------------------------------------------------------------------------------------------------------------ nodes
    def heartbeat(
        self, report: WorkerReport, outcomes: list[OutcomeMessage]
    ) -> tuple[AnswerHeartbeat | RedirectHeartbeat, list[OrderMessage]]:
        """Take in a worker's heartbeat with the outcomes of its orders; return the answer, and orders for it."""
        answer: AnswerHeartbeat | RedirectHeartbeat = self._mind.request(WorkerHeartbeat(report))
        if not isinstance(answer, AnswerHeartbeat):
            return answer, []
        self._orders.settle(report.id, outcomes)
        return answer, self._orders.open_for(report.id)

    def leads(self) -> bool:
        """Return True if this manager leads."""
        return self._mind.ask(lambda state, now_ms: state.leads(now_ms))

    @property
    def me(self) -> Leader:
        """What others are told of this manager."""
        return Leader(id=self.id, https_interface=Address.from_url(self.url))

    def known_managers(self) -> list[Address]:
        """Return where all managers that are alive are reached."""
        return [Address.from_url(manager.url) for manager in self._managers()]

    def nodes(self) -> Json:
        """Return leader, managers, workers and the latest announcements; see `spdist.cluster.views.nodes_view`."""
        managers = self._managers()
        view = self._ask(lambda state, now_ms: views.nodes_view(state, managers, self.group_id, now_ms))
        return {**view, "announcements": [asdict(one) for one in list(self._mind.announcements)]}

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
                raise _not_leader(state)
            return question(state, now_ms)

        return self._mind.ask(asked)

    def _leader_only(self) -> None:
        self._ask(lambda state, now_ms: None)


def _not_leader(state: ManagerState) -> NotLeaderError:
    url = state.leader.url if state.leader else None
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
    password = source.password.reveal() if source.password else ""
    return CoordinationStore(
        source.url, config.cluster.group_id, username=source.username, password=password, timeout_ms=timing.round_ms
    )
