"""A server: a node that has apps of its own, from the files of a directory and from its interface, and no managers.

An app is one group instance, made as by `spdist run`, and runs in the same `HostNode` as those of workers: the node
leads itself, through `spdist.cluster.own_leader`. Two threads more than a `HostNode` has: one that leads, and one that
looks at the directory.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from spdist.clock import Clock
from spdist.cluster.api import Server, server_app
from spdist.cluster.app_directory import AppDirectory, Stamp, changes
from spdist.cluster.deployed import Deployed
from spdist.cluster.group_revisions import RevisionStore
from spdist.cluster.host_node import HostNode
from spdist.cluster.hosting import Launcher
from spdist.cluster.keeper import node_metrics
from spdist.cluster.messages import WorkerTiming
from spdist.cluster.node_facts import node_statistics
from spdist.cluster.own_leader import OwnApp, OwnLeader
from spdist.cluster.plans import Plans, checked_name, free_name
from spdist.cluster.server_views import own_app_view, own_nodes_view
from spdist.cluster.streams import Streams
from spdist.cluster.views import placed_topology
from spdist.config import Config
from spdist.errors import ClusterError, ConfigError, ConflictError, PlanningError, SiddhiAppError, SpdistError
from spdist.planning.limits import AppLimits
from spdist.planning.topology import Assignment
from spdist.planning.whole import whole_topology
from spdist.transports.opening import transport_settings

__all__ = ["ServerNode"]

Json = dict[str, Any]

_log = logging.getLogger("spdist.cluster.server")
#: How often the node asks itself what is to run; a change is looked at soon.
_BEAT_S = 1.0
#: Least pause between two such rounds.
_BREATH_S = 0.1
#: How soon a file that has just changed is looked at again.
_SETTLE_S = 1.0
#: Bytes of a file; a larger one is not read.
_LONGEST = 16 << 20
#: Nobody else may run these apps, so nothing is to be stopped however long the process has stood still.
_FOREVER_MS = 1 << 45


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
        self._accept = accept or self._prepared
        timing = WorkerTiming(
            heartbeat_interval_ms=config.deployment.heartbeat_interval_ms,
            fence_after_ms=_FOREVER_MS,
            remove_after_ms=2 * _FOREVER_MS,
            margin_ms=1,
        )
        self._leader = OwnLeader(self.id, timing)
        self._lock = threading.Lock()  # of the leader
        self._directory = AppDirectory(config.artifacts.directory)
        self._changing = threading.Lock()  # of the directory, and of what is known of it
        self._known: dict[str, Stamp] = {}
        self._before: dict[str, Stamp] = {}
        self._blind = False
        self.stopping = self._leaving
        self.streams = Streams(
            transport_settings(config.transports), Plans(lambda text: whole_topology(self._accept(text)))
        )

    def _answer(self, server: Server) -> None:
        try:
            self._directory.prepare()
        except OSError as error:
            text = f"{self.config.path}: wso2.artifact.deployment.directory: cannot make {self._directory.path}"
            raise ConfigError(f"{text}: {error.strerror}") from error
        server.start(server_app(self))

    def _work(self) -> None:
        self._begin("lead", self._lead)
        self._begin("directory", self._watch)

    def _let_go(self) -> None:
        self.streams.close()

    # ---------------------------------------------------------------------------------------------------------- threads
    def _lead(self) -> None:
        """Say what is to run, again and again."""
        keeper = self._known_keeper()
        while not self._over.is_set():
            self._beat_now.clear()
            report = keeper.next_report()
            with self._lock:
                answer = self._leader.answer(report, self._clock.steady_ms())
                failed = [
                    (app.name, app.instance.error, app.instance.gave_up) for app in self._leader.failed if app.instance
                ]
            keeper.obey(answer)
            for name, error, gave_up in failed:
                then = "it stays so until it is deployed again" if gave_up else "it is started again"
                _log.error("app %s has failed, %s: %s", name, then, error, extra={"app": name, "group": name})
            self._over.wait(_BREATH_S)
            self._beat_now.wait(_BEAT_S)

    def _watch(self) -> None:
        """Look at the directory every ``updateInterval``."""
        interval_s = self.config.artifacts.update_interval_s
        while not self._leaving.is_set():
            unsettled = self.look()
            self._leaving.wait(min(interval_s, _SETTLE_S) if unsettled else interval_s)

    def look(self) -> bool:
        """Do what the files ask for, and return whether one has just changed and is to be looked at again soon.

        While the directory cannot be read the apps are left as they are.
        """
        with self._changing:
            try:
                now = self._directory.look()
            except OSError as error:
                if not self._blind:
                    _log.error("the apps stay as they are: cannot read %s: %s", self._directory.path, error.strerror)
                self._blind = True
                return False
            self._blind = False
            found = changes(self._known, self._before, now)
            self._before = now
            for name in found.removed:
                del self._known[name]
                with self._lock:
                    self._leader.undeploy(name)
                _log.info("app %s is undeployed: its file is gone", name, extra={"app": name})
            for name in found.written:
                self._read(name, now[name])
        if found.removed or found.written:
            self._beat_now.set()
        return found.unsettled

    def _read(self, name: str, stamp: Stamp) -> None:
        """Deploy the app of a file, or say in its status what is wrong with it."""
        text = ""
        try:
            text = _decoded(self._directory.read(name, _LONGEST + 1))
            assignment = self._accept(text)
            if assignment.name != name:
                raise SiddhiAppError(
                    f"the file {name}.siddhi holds the app {assignment.name}", hint=f"call it {assignment.name}.siddhi"
                )
        except OSError as error:  # tried again with the next look
            _log.error("cannot read the file of app %s: %s", name, error.strerror, extra={"app": name})
            return
        except Exception as error:  # one app, and be it a defect of ours, must not keep the others from running
            known = isinstance(error, SpdistError)
            reason = str(error) if known else f"spdist failed to read it: {error!r}"
            _log.error("app %s is not deployed: %s", name, reason, exc_info=not known, extra={"app": name})
            with self._lock:
                self._leader.refuse(name, text, reason)
        else:
            _log.info("app %s is deployed from its file", name, extra={"app": name})
            with self._lock:
                self._leader.deploy(text, assignment)
        self._known[name] = stamp

    def _prepared(self, text: str) -> Assignment:
        """Return what is to be run of an app."""
        from spdist.config.allowed import allowed_of
        from spdist.language.parser import parse
        from spdist.runtime.alone import prepare

        app, limits = parse(text), self.config.limits
        free_name(checked_name(app.name))
        AppLimits(limits.elements, limits.groups, limits.instances, limits.characters).check_elements(app)
        scripts, shards = self.config.script.python_enabled, self.config.spark.shards
        if shards > 1:
            try:
                return prepare(text, shards, scripts=scripts, allowed=allowed_of(self.config))
            except PlanningError:  # as on workers, an app that cannot be split is not
                pass
        return prepare(text, scripts=scripts, allowed=allowed_of(self.config))

    # ------------------------------------------------------------------------------------------------ for the interface
    def deploy(self, text: str, *, replace: bool) -> Deployed:
        """Check an app, keep it as a file of the directory, and let it run.

        Parameters
        ----------
        text : str
            SiddhiQL with ``@app:name``.
        replace : bool
            Whether an app of that name may be there already.

        Raises
        ------
        SiddhiAppError
            The text is wrong; says everything that is.
        ConflictError
            The name is in use, and `replace` is False.
        ClusterError
            The file cannot be written; then nothing has changed.
        """
        assignment = self._accept(text)
        name = assignment.name
        with self._changing:
            there = self._is_there(name)
            if there and not replace:
                hint = "use PUT to replace it, or undeploy it first"
                raise ConflictError(f"an app {name} is deployed already", hint=hint)
            try:
                self._known[name] = self._directory.write(name, text)
            except OSError as error:
                raise ClusterError(f"app {name} cannot be kept in {self._directory.path}: {error.strerror}") from error
            with self._lock:
                self._leader.deploy(text, assignment)
        self._beat_now.set()
        return Deployed(name, created=not there)

    def _is_there(self, name: str) -> bool:
        """Tell whether there is an app, or a file of one that has not been read yet."""
        with self._lock:
            if name in self._leader:
                return True
        try:
            return name in self._directory.look()
        except OSError:
            return False  # writing the file says what is wrong

    def undeploy(self, name: str) -> None:
        """Remove an app with its file; its state and its topics stay.

        Raises
        ------
        NotFoundError
            There is no such app.
        ClusterError
            The file cannot be removed; then nothing has changed.
        """
        with self._changing:
            self._app(name)
            try:
                self._directory.remove(name)
            except OSError as error:
                raise ClusterError(f"the file of app {name} cannot be removed: {error.strerror}") from error
            self._known.pop(name, None)
            with self._lock:
                self._leader.undeploy(name)
        self._beat_now.set()

    def apps(self) -> list[Json]:
        """Return all apps by name; see `spdist.cluster.server_views.own_app_view`."""
        here = {report.name: report for report in self._known_keeper().served_reports()}
        with self._lock:
            return [own_app_view(app, here.get(app.name), self.id, self.url) for app in self._leader]

    def app_text(self, name: str) -> str:
        """Return the SiddhiQL of an app."""
        return self._app(name).text

    def app_status(self, name: str) -> Json:
        """Return how an app is doing, with the figures of its query; see `spdist.cluster.server_views.own_app_view`."""
        app = self._app(name)
        here = {report.name: report for report in self._known_keeper().served_reports()}
        with self._lock:
            return own_app_view(app, here.get(name), self.id, self.url)

    def topology(self, name: str) -> Json:
        """Return the one group of an app, what it reads and publishes, and how it is doing."""
        app = self._app(name)
        if app.instance is None:
            raise SiddhiAppError(app.error)
        topology = whole_topology(app.instance.assignment)
        return placed_topology(topology, self.app_status(name), {name: app.text})

    def nodes(self, *, apps: bool = False) -> Json:
        """Return this node as who leads and as who works; see `spdist.cluster.server_views.own_nodes_view`."""
        keeper = self._known_keeper()
        groups = keeper.served_reports()
        memory = keeper.memory_report(groups)
        place = (self.id, self.url, keeper.known_term)
        with self._lock:
            view = own_nodes_view(*place, self._leader, groups, keeper.readiness, memory, node_metrics())
        return view | ({"apps": self.apps()} if apps else {})

    def restore(self, name: str, revision: str) -> None:
        """Let an app go back to `revision`, and start it again also where it has failed for good."""
        super().restore(name, revision)
        with self._lock:
            self._leader.retry(name)
        self._beat_now.set()

    def statistics(self) -> Json:
        """Return WSO2's ``/statistics`` of this node, as far as it means something here."""
        keeper = self._known_keeper()
        return {
            **node_statistics("Active", "single node", keeper.readiness.reason),
            "term": keeper.known_term,
            "serving": keeper.serving,
            "ready": keeper.readiness.ready,
        }

    def _app(self, name: str) -> OwnApp:
        with self._lock:
            return self._leader.app(name)


def _decoded(content: bytes) -> str:
    if len(content) > _LONGEST:
        raise SiddhiAppError(f"the file has more than {_LONGEST} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise SiddhiAppError(f"the file is not UTF-8 text: {error.reason} at byte {error.start}") from error
