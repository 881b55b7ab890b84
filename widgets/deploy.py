"""Write an app, see it checked and drawn while you write, deploy it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import spdist
from spdist.errors import NotFoundError, SiddhiAppError, SpdistError
from spdist.look import problem_html
from spdist.planning.drawing import to_html, to_text
from widgets.panel import ClusterPanel
from widgets.watch import Cluster

if TYPE_CHECKING:
    from spdist.cluster.handle import Deployment
    from spdist.cluster.overview import AppStatus
    from spdist.planning.topology import Topology

__all__ = ["Application", "DeployPanel"]


class Application(NamedTuple):
    """A text with what it would become, or what is wrong with it, and how its deployment is doing if there is one."""

    text: str
    topology: Topology | None
    problem: SiddhiAppError | None
    status: AppStatus | None


class DeployPanel(ClusterPanel[Application]):
    """An editor for one app with its topology or its errors beside it, and the buttons Deploy and Undeploy.

    Parameters
    ----------
    cluster : ClusterClient or LocalCluster
        Where to deploy.
    text : str
        SiddhiQL to begin with.

    Examples
    --------
    >>> DeployPanel(cluster, text).deploy().wait()  # doctest: +SKIP
    """

    def __init__(self, cluster: Cluster, text: str = "") -> None:
        super().__init__(cluster)
        self._trouble: SpdistError | None = None
        self.text = text

    # --- what the buttons do
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
        view = self.look()
        if view.topology is None:
            raise NotFoundError("this text names no app that could be undeployed", hint="correct it first")
        self._cluster.deployment(view.topology.app).undeploy(timeout_s=0)

    # --- what it shows
    def look(self) -> Application:
        """Check and plan the text here, and ask the cluster how the app of that name is doing."""
        if not self.text.strip():
            return Application(self.text, None, None, None)
        try:
            topology = spdist.plan(self.text)
        except SiddhiAppError as error:
            return Application(self.text, None, error, None)
        try:
            status = self.watch.app(topology.app)
        except NotFoundError:
            status = None
        return Application(self.text, topology, None, status)

    def text_of(self, view: Application) -> str:
        """Return errors with their lines, or topology and status."""
        if view.problem is not None:
            return str(view.problem)
        if view.topology is None:
            return "no app yet"
        placement, states = _placed(view.status)
        return f"{_state(view)}\n{to_text(view.topology, placement, states)}"

    def html_of(self, view: Application) -> str:
        """Return errors with their lines, or picture and status."""
        trouble = problem_html(self._trouble) if self._trouble is not None else ""
        if view.problem is not None:
            return trouble + problem_html(view.problem)
        if view.topology is None:
            return f"{trouble}<i>no app yet</i>"
        return f"{trouble}<div>{escape(_state(view))}</div>{to_html(view.topology, *_placed(view.status))}"

    def controls(self) -> Sequence[Any]:
        """Return the editor and the buttons."""
        import ipywidgets

        editor = ipywidgets.Textarea(
            self.text,
            placeholder="@app:name('MyApp') …",
            layout=ipywidgets.Layout(width="100%", height="20em"),
            continuous_update=False,
        )
        editor.observe(self._edited, names="value")
        buttons = []
        for label, style, action in (("Deploy", "primary", self.deploy), ("Undeploy", "", self.undeploy)):
            button = ipywidgets.Button(description=label, button_style=style)
            button.on_click(lambda _, action=action: self._pressed(action))
            buttons.append(button)
        return editor, ipywidgets.HBox(buttons)

    def _edited(self, change: dict[str, Any]) -> None:
        self.text = change["new"]
        self._trouble = None
        self.refresh()

    def _pressed(self, action: Any) -> None:
        try:
            action()
            self._trouble = None
        except SpdistError as error:
            # The text's own errors are shown anyway, as long as they are there.
            self._trouble = None if isinstance(error, SiddhiAppError) else error
        self.refresh()


def _state(view: Application) -> str:
    if view.topology is None or view.status is None:
        return "not deployed"
    reason = f": {view.status.reason}" if view.status.reason else ""
    return f"{view.topology.app} version {view.status.version} is {view.status.state}{reason}"


def _placed(status: AppStatus | None) -> tuple[dict[str, str], dict[str, str]]:
    groups = status.groups if status is not None else ()
    return {g.name: g.worker for g in groups if g.worker}, {g.name: g.state for g in groups}
