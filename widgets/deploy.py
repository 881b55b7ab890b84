"""Write an app, see it checked and drawn while you write, see what it would change, deploy it, take it back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from spdist.display import details_html, headline_html, note_html, problem_html, table_html, table_text
from spdist.errors import NotFoundError, SiddhiAppError, SpdistError
from spdist.panels.deploy_controls import DeployControls
from spdist.panels.drafts import Application, Debounced, Draft, annotated_html, difference, draft_of
from spdist.panels.panel import ClusterPanel
from spdist.panels.poller import Awaited
from spdist.panels.watch import Cluster
from spdist.planning.pictures.drawing import to_html, to_text

if TYPE_CHECKING:
    from spdist.cluster.clients.handle import Deployment
    from spdist.cluster.clients.overview import AppStatus
    from spdist.planning.updates.change import TopologyChange

__all__ = ["DeployPanel"]

T = TypeVar("T")

#: How long nobody types before a text is checked.
_STILL_S = 0.4


class DeployPanel(ClusterPanel[Application]):
    """An editor for one app, with its errors or its picture, what it would change, and what can be done with it.

    Parameters
    ----------
    cluster : ClusterClient or LocalCluster
        Where to deploy.
    text : str
        SiddhiQL to begin with.

    State
    -----
    The text, how far its check is, and what was done last.

    Examples
    --------
    >>> DeployPanel(cluster, text).deploy().wait()  # doctest: +SKIP
    """

    def __init__(self, cluster: Cluster, text: str = "") -> None:
        super().__init__(cluster)
        self.text = text
        self._shown_text = text
        self._transport = "log"
        self._check = Debounced(_STILL_S, self._draft, lambda: self.poller.wake())
        self._doing = ""
        self._done = ""
        self._trouble: SpdistError | None = None
        self._controls: DeployControls | None = None

    # --- what can be done
    def deploy(self) -> Deployment:
        """Hand the text to the cluster; an app of that name is replaced.

        Raises
        ------
        SpdistError
            See `ClusterClient.deploy`.
        """
        return self._cluster.deploy(self.text)

    def undeploy(self) -> None:
        """Remove the app from the cluster, without waiting for its workers; NotFoundError where it is not deployed."""
        self._deployment().undeploy(timeout_s=0)

    def backup(self) -> str:
        """Have the state of all its groups kept, and return the revision; see `Deployment.backup`."""
        return self._deployment().backup()

    def restore(self, revision: str) -> None:
        """Take all its groups back to a revision; see `Deployment.restore`."""
        self._deployment().restore(revision)

    def revisions(self) -> list[str]:
        """Return the revisions of the app, oldest first; see `Deployment.revisions`."""
        return self._deployment().revisions()

    def _deployment(self) -> Deployment:
        topology = self._draft().topology
        if topology is None:
            raise NotFoundError("this text names no app", hint="correct it first")
        return self._cluster.deployment(topology.app)

    def _draft(self) -> Draft:
        return draft_of(self.text, self._transport)

    # --- what it shows
    def fetch(self) -> Application:
        """Return the draft, as it was checked last while somebody types, and how the app of that name is doing."""
        text = self._shown_text if self._check.pending else self.text
        try:
            cluster = self.watch.status().status
        except (Awaited, SpdistError) as error:  # a text can be written without any cluster
            return Application(draft_of(text, self._transport), away=str(error))
        self._transport = cluster.transport
        draft = draft_of(text, cluster.transport)
        apps = tuple(app.name for app in cluster.apps)
        status = next((app for app in cluster.apps if draft.topology and app.name == draft.topology.app), None)
        change = None if status is None else self._change(status, draft)
        return Application(draft, cluster.transport, status, change, apps)

    def _change(self, status: AppStatus, draft: Draft) -> TopologyChange | None:
        try:
            return difference(self.watch.text(status.name, status.version), draft.text, self._transport)
        except (Awaited, SpdistError):
            return None

    def text_of(self, view: Application) -> str:
        """Return errors with their lines, or status, groups and what would change."""
        if view.draft.problem is not None:
            return f"{view.away}\n{view.draft.problem}".strip()
        if view.draft.topology is None:
            return view.away or "no app yet"
        placement, states = _placed(view.status)
        told = [
            *filter(None, [view.away]),
            _state(view),
            to_text(view.draft.topology, placement, states),
            table_text(_GROUPS, _group_rows(view)),
        ]
        if view.change:
            told.append(f"deploying this text changes:\n{view.change}")
        return "\n".join(told)

    def html_of(self, view: Application) -> str:
        """Return the text with its errors, or picture, status, and what would change."""
        told = [note_html(note) for note in (view.away, self._doing, self._done) if note]
        if self._trouble is not None:
            told.append(problem_html(self._trouble))
        if view.draft.problem is not None:
            return "".join([*told, annotated_html(view.draft)])
        if view.draft.topology is None:
            return "".join([*told, "<i>no app yet</i>"])
        told += [headline_html(_state(view)), _bar_html(view.status)]
        if view.change is not None:
            text = "deploying this text changes what runs" if view.change else "this text is what runs"
            told.append(details_html(text, view.change._repr_html_(), opened=bool(view.change)))
        told += [to_html(view.draft.topology, *_placed(view.status)), table_html(_GROUPS, _group_rows(view))]
        return "".join([*told, details_html("the text", annotated_html(view.draft))])

    def controls(self) -> Sequence[Any]:
        """Return the editor, the apps, and the buttons."""
        self._controls = DeployControls(self)
        return self._controls.widgets()

    def adapt(self, view: Application) -> None:
        """Offer the apps and revisions that there are, and what can be done now."""
        if self._controls is not None:
            self._controls.adapt(view, busy=bool(self._doing))

    # --- what its controls ask for
    def write(self, text: str) -> None:
        """Have another text checked, once nobody types any more."""
        if not self._check.pending:
            self._shown_text = self.text
        self.text, self._done, self._trouble = text, "", None
        self._check.ask()

    def load(self, app: str) -> None:
        """Have the text of an app of the cluster in the editor."""
        self.act(f"reading the text of {app} …", self._cluster.deployment(app).text, self._loaded)

    def _loaded(self, text: str) -> str:
        self.text = text
        if self._controls is not None:
            self._controls.edit(text)
        return ""

    def act(self, doing: str, action: Callable[[], T], told: Callable[[T], str]) -> None:
        """Run an action in a thread of its own, one at a time, and tell what it does, and what has come of it."""
        with self._lock:
            if self._doing:
                return
            self._doing, self._done, self._trouble = doing, "", None
        self.poller.wake()
        threading.Thread(target=self._run, args=(action, told), name="spdist-deploy", daemon=True).start()

    def _run(self, action: Callable[[], T], told: Callable[[T], str]) -> None:
        try:
            self._done = told(action())
        except SpdistError as error:
            # Errors of the text are shown in the text, unless only the cluster has found them.
            known = isinstance(error, SiddhiAppError) and self._draft().problem is not None
            self._trouble = None if known else error
        finally:
            self._doing = ""
            self.poller.wake()


_GROUPS = ("group", "parallel", "state", "reads", "publishes")


def _state(view: Application) -> str:
    carried = f"; topics over {view.transport}" if view.transport else ""
    if view.status is None:
        return f"not deployed{carried}"
    reason = f": {view.status.reason}" if view.status.reason else ""
    told = f"{view.name} version {view.status.version} is {view.status.state}{reason}"
    return f"{told}; {view.status.running} of {len(view.status.groups)} groups run{carried}"


def _bar_html(status: AppStatus | None) -> str:
    if status is None or status.running == len(status.groups):
        return ""
    return f'<progress value="{status.running}" max="{len(status.groups)}" style="width:20em"></progress>'


def _group_rows(view: Application) -> list[tuple[object, ...]]:
    """Return the groups of the draft: in how many instances, and what connects them with what."""
    states = _placed(view.status)[1]
    return [
        (
            group.name.removeprefix(f"{view.name}-"),
            group.parallel,
            ", ".join(sorted({states[one.name] for one in group.instances if one.name in states})),
            ", ".join(f"{one.stream} ({'@source' if one.user_source else one.strategy.value})" for one in group.inputs),
            ", ".join(one.stream + (" (@sink)" if one.user_sink else "") for one in group.outputs),
        )
        for group in (view.draft.topology.groups if view.draft.topology is not None else ())
    ]


def _placed(status: AppStatus | None) -> tuple[dict[str, str], dict[str, str]]:
    groups = status.groups if status is not None else ()
    return {g.name: g.worker for g in groups if g.worker}, {g.name: g.state for g in groups}
