"""A server: a node that has apps of its own, from the files of a directory and from its interface, and no managers.

An app is one group instance, made as by `spdist run`, and runs in the same `HostNode` as those of workers: the node
leads itself, through `spdist.cluster.servers.own_leader`, for as long as it has a lease
(`spdist.cluster.elections.leadership`). Alone it always has one; of several servers of a group (type ``ha``) the active
one has, and the others are passive: they know the apps and run none. Two threads more than a `HostNode` has: one that
leads, and one that looks at the directory; of a group two others, which answer for HTTP sources that are not there
(`spdist.cluster.servers.source_ports`), and follow the states while this server is passive
(`spdist.cluster.servers.warm_states`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from spdist.clock import Clock
from spdist.cluster.api import Server, server_app
from spdist.cluster.elections.election import Lease
from spdist.cluster.elections.leadership import STANDALONE, Leadership
from spdist.cluster.exposition import prometheus_text
from spdist.cluster.host_node import HostNode
from spdist.cluster.managers.plans import Plans
from spdist.cluster.managers.streams import StreamAccess
from spdist.cluster.managers.views import placed_topology
from spdist.cluster.protocol.messages import GroupReport
from spdist.cluster.servers.acceptance import accepted
from spdist.cluster.servers.app_directory import AppDirectory
from spdist.cluster.servers.app_files import AppFiles
from spdist.cluster.servers.deployed import DeployOutcome
from spdist.cluster.servers.group import ServerGroup
from spdist.cluster.servers.own_leader import OwnApp, OwnLeader
from spdist.cluster.servers.source_ports import SourcePorts, SourceRole
from spdist.cluster.servers.views import ServerFacts, own_app_view, own_nodes_view
from spdist.cluster.servers.warm_states import WarmStates
from spdist.cluster.workers.group_revisions import GroupRevisions, RevisionStore
from spdist.cluster.workers.group_supervisor import GroupSupervisor, node_metrics
from spdist.cluster.workers.hosting import Launcher
from spdist.cluster.workers.node_facts import node_statistics
from spdist.config import Config
from spdist.errors import ClusterError, ConfigError, NotLeaderError, SiddhiAppError
from spdist.planning.standalone import standalone_topology
from spdist.planning.topology import Assignment
from spdist.transports.opening import transport_settings

__all__ = ["ServerNode"]

Json = dict[str, Any]

_log = logging.getLogger("spdist.cluster.server")
#: How often the node asks itself what is to run; a change is looked at soon.
_BEAT_S = 1.0
#: Least pause between two such rounds.
_BREATH_S = 0.1
#: How soon a file that has just changed is looked at again, and by a server that is about to take over.
_CHANGING_S, _GLANCE_S = 1.0, 0.2
#: How often such a server looks again at most.
_GLANCES = 10
#: How often a server of a group looks whether it answers where its sources do.
_PORTS_S = 0.25
#: How often a passive server looks at the states of its apps.
_FOLLOW_S = 5.0


class ServerNode(HostNode):
    """One server.

    Parameters
    ----------
    config : Config
        As `spdist.config.load_config` with role ``server`` returns it.
    launcher, revisions, clock
        As in `HostNode`.
    accept : callable, optional
        From the text of an app to what is to be run; raises SiddhiAppError. As `spdist run` does it, if not given.

    Raises
    ------
    ConfigError
        The settings do not make a server; nothing was opened.

    State
    -----
    The texts of the apps.
    """

    kind = "server"

    def __init__(
        self,
        config: Config,
        *,
        launcher: Launcher | None = None,
        revisions: RevisionStore | None = None,
        clock: Clock | None = None,
        accept: Callable[[str], Assignment] | None = None,
    ) -> None:
        super().__init__(config, launcher=launcher, revisions=revisions, clock=clock)
        self._accept = accept or partial(accepted, config)
        self._leader = OwnLeader(self.id, config.deployment.heartbeat_interval_ms)
        self._lock = threading.Lock()  # of the leader
        self._files = AppFiles(AppDirectory(config.artifacts.directory), self._leader, self._lock, self._accept)
        is_ha = config.is_ha
        self._leadership = Leadership(None if is_ha else STANDALONE, self._beat_now.set)
        self._group = ServerGroup(self.config, self._leadership, self._clock) if is_ha else None
        self._states = WarmStates(self.config)
        self._answered: Lease | None = None  #: that of the last answer
        self._told: int | None = None  #: the term in which this server was active when that was logged last
        self.stopping = self._leaving
        self.streams = StreamAccess(
            transport_settings(config.transports), Plans(lambda text: standalone_topology(self._accept(text)))
        )

    def _answer(self, server: Server) -> None:
        directory = self.config.artifacts.directory
        try:
            AppDirectory(directory).prepare()
        except OSError as error:
            text = f"{self.config.path}: wso2.artifact.deployment.directory: cannot make {directory}"
            raise ConfigError(f"{text}: {error.strerror}") from error
        server.start(server_app(self))

    def _work(self) -> None:
        if self._group is not None:
            self._group.join(self.url, self._know_all)
        self._begin("lead", self._lead)
        self._begin("directory", self._watch)
        if self._group is not None:
            self._begin("ports", self._keep_ports)
            self._begin("states", self._follow)

    def _let_go(self) -> None:
        self.streams.close()
        if self._group is not None:
            self._group.leave()
            self._group.close()

    # ---------------------------------------------------------------------------------------------------------- threads
    def _lead(self) -> None:
        """Say what is to run, again and again; in the end let another server take over."""
        supervisor = self._known_supervisor()
        while not self._over.is_set():
            self._beat_now.clear()
            lease = self._leadership.lease(self._clock.steady_ms())
            self._tell(lease)
            if lease is None:
                supervisor.end_now()
            else:
                self._beat(supervisor, lease)
            if self._group is not None:
                # What it raises ends this thread, and with it the node
                self._group.check()
            self._over.wait(_BREATH_S)
            self._beat_now.wait(_BEAT_S)
        if self._group is not None:
            self._group.leave()

    def _beat(self, supervisor: GroupSupervisor, lease: Lease) -> None:
        """Have a heartbeat answered."""
        report = supervisor.next_report()
        now_ms = self._clock.steady_ms()
        # It may have run out while the report was made: an answer would then set a fence in the past
        if not lease.valid(now_ms):
            return
        # The fence counts from before the report, so it is due before the end of the lease: what it has ended does not
        # begin anew for the rest of that
        if lease == self._answered and not supervisor.serving:
            return
        with self._lock:
            answer = self._leader.answer(report, now_ms, lease)
            failed = [
                (app.name, app.instance.error, app.instance.gave_up) for app in self._leader.failed if app.instance
            ]
        if supervisor.obey(answer):
            self._answered = lease
        for name, error, gave_up in failed:
            then = "it stays so until it is deployed again" if gave_up else "it is started again"
            _log.error("app %s has failed, %s: %s", name, then, error, extra={"app": name, "group": name})

    def _tell(self, lease: Lease | None) -> None:
        """Log that this server has become the active one, or is it no more."""
        term = None if lease is None else lease.term
        if self._group is None or term == self._told:
            return
        if term is not None:
            _log.info("server %s is the active one of group %s, in term %d", self.id, self._group.id, term)
        else:
            _log.warning("server %s is passive: %s", self.id, self._why_passive())
        self._told = term

    def _follow(self) -> None:
        """While this server is passive, read what appears of the states of its apps; see `WarmStates`."""
        while not self._leaving.wait(_FOLLOW_S):
            copies = None if self._spark is None else self._spark.copies
            if not self.passive:
                self._states.forget()
            elif copies is not None:
                self._states.follow(self._assignments(), copies)

    def _assignments(self) -> list[Assignment]:
        with self._lock:
            return [app.instance.assignment for app in self._leader if app.instance is not None]

    def _keep_ports(self) -> None:
        """Answer at the addresses of HTTP sources wherever no source does; see `SourcePorts`."""
        with SourcePorts(self.config, self._role) as ports:
            while not self._leaving.wait(_PORTS_S):
                ports.keep(self._assignments())

    def _watch(self) -> None:
        """Look at the directory every ``updateInterval``."""
        interval_s = self.config.artifacts.update_interval_s
        while not self._leaving.is_set():
            unsettled = self.scan()
            self._leaving.wait(min(interval_s, _CHANGING_S) if unsettled else interval_s)

    def scan(self) -> bool:
        """Do what the files ask for; see `AppFiles.look`."""
        unsettled = self._files.scan()
        if self._files.changed:
            self._beat_now.set()
        return unsettled

    def _know_all(self) -> None:
        """See to it that all files are read, before this server becomes the active one.

        Raises
        ------
        ClusterError
            The directory cannot be read: another server may fare better.
        """
        for _ in range(_GLANCES):
            # A file that is seen for the first time is read with the look after it
            if not self.scan() or self._leaving.wait(_GLANCE_S):
                break
        if self._files.problem:
            raise ClusterError(self._files.problem, hint="all servers of a group must see the directory of its apps")

    # ------------------------------------------------------------------------------------------------ for the interface
    def deploy(self, text: str, *, replace: bool) -> DeployOutcome:
        """Keep an app as a file, and let it run: see `AppFiles.write`; NotLeaderError on a passive server."""
        self._asked_supervisor()
        done = self._files.write(text, replace=replace)
        self._beat_now.set()
        return done

    def undeploy(self, name: str) -> None:
        """Remove an app with its file: see `AppFiles.remove`; NotLeaderError on a passive server."""
        self._asked_supervisor()
        self._files.remove(name)
        self._beat_now.set()

    def apps(self) -> list[Json]:
        """Return all apps by name; see `spdist.cluster.servers.views.own_app_view`."""
        here, passive = self._here(), self.passive
        with self._lock:
            return [self._view(app, here, passive) for app in self._leader]

    def app_text(self, name: str) -> str:
        """Return the SiddhiQL of an app."""
        return self._app(name).text

    def stream_text(self, name: str) -> str:
        """Return the SiddhiQL of an app whose events are put in or asked for; NotLeaderError on a passive server."""
        self._asked_supervisor()
        return self.app_text(name)

    def app_status(self, name: str, *, active: bool = False) -> Json:
        """Return how an app is doing, with the figures of its query; see `spdist.cluster.servers.views.own_app_view`.

        With `active`, as the active server knows it: NotLeaderError on a passive one.
        """
        if active:
            self._asked_supervisor()
        app, here, passive = self._app(name), self._here(), self.passive
        with self._lock:
            return self._view(app, here, passive)

    def topology(self, name: str) -> Json:
        """Return the one group of an app, what it reads and publishes, and how it is doing."""
        view, app = self.app_status(name, active=True), self._app(name)
        if app.instance is None:
            raise SiddhiAppError(app.error)
        return placed_topology(standalone_topology(app.instance.assignment), view, {name: app.text})

    def nodes(self, *, apps: bool = False) -> Json:
        """Return this node as who leads and as who works; see `spdist.cluster.servers.views.own_nodes_view`."""
        supervisor = self._asked_supervisor()
        groups = supervisor.served_reports()
        group = self.id if self._group is None else self._group.id
        memory = supervisor.memory_report(groups)
        facts = ServerFacts(
            self.id, self.url, group, supervisor.known_term, supervisor.readiness, memory, node_metrics()
        )
        with self._lock:
            view = own_nodes_view(facts, self._leader, groups)
        return view | ({"apps": self.apps()} if apps else {})

    def restore(self, name: str, revision: str) -> None:
        """Let an app go back to `revision`, and start it again also where it has failed for good."""
        super().restore(name, revision)
        with self._lock:
            self._leader.retry(name)
        self._beat_now.set()

    @property
    def passive(self) -> str:
        """Why this server does not run its apps; empty where it does."""
        return "" if self._leadership.lease(self._clock.steady_ms()) is not None else self._why_passive()

    def statistics(self) -> Json:
        """Return WSO2's ``/statistics`` of this node, as far as it means something here."""
        supervisor, passive = self._known_supervisor(), self.passive
        group = "single node" if self._group is None else self._group.id
        return {
            **node_statistics("Passive" if passive else "Active", group, supervisor.readiness.reason or passive),
            "term": supervisor.known_term,
            "serving": supervisor.serving,
            "ready": supervisor.readiness.ready,
            "warm": supervisor.readiness.warm,
        }

    def metrics(self) -> str:
        """Return the figures of the apps, and of this server, as Prometheus text."""
        return prometheus_text(self._known_supervisor().reports(), node_metrics(), active=not self.passive)

    def _view(self, app: OwnApp, here: Mapping[str, GroupReport], passive: str) -> Json:
        state = self._states.seen(app.name, self._clock.now_ms())
        return own_app_view(app, here.get(app.name), passive, self.id, self.url, state)

    def _here(self) -> dict[str, GroupReport]:
        return {report.name: report for report in self._known_supervisor().served_reports()}

    def _app(self, name: str) -> OwnApp:
        with self._lock:
            return self._leader.app(name)

    def _role(self) -> SourceRole:
        now_ms, leadership = self._clock.steady_ms(), self._leadership
        active, leader, seen = leadership.lease(now_ms) is not None, leadership.leader(now_ms), leadership.last_seen
        other = leader.node_id if leader else ""
        return SourceRole(self.id, self.url, leadership.told, active, other, seen.url if seen else "")

    def _why_passive(self) -> str:
        leader = self._leadership.leader(self._clock.steady_ms())
        return "no server is known to be active" if leader is None else f"{leader.node_id} is active, at {leader.url}"

    def _asked_supervisor(self) -> GroupSupervisor:
        """Return the groups; NotLeaderError on a passive server."""
        now_ms = self._clock.steady_ms()
        if self._leadership.lease(now_ms) is None:
            leader = self._leadership.leader(now_ms)
            url = None if leader is None else leader.url
            hint = "try again in a moment" if url is None else f"ask {url}"
            raise NotLeaderError(f"server {self.id} is passive: {self._why_passive()}", leader=url, hint=hint)
        return self._known_supervisor()

    def _known_revisions(self) -> GroupRevisions:
        self._asked_supervisor()
        return super()._known_revisions()
