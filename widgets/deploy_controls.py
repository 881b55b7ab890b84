"""The controls of the deploy panel: the editor, which app it edits, and the buttons."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import ipywidgets

from spdist.errors import SpdistError

if TYPE_CHECKING:
    from spdist.panels.drafts import Application

__all__ = ["DeployControls", "Deploying"]

T = TypeVar("T")

_NEW = "a new app"
_NO_REVISION = "no revision"


class Deploying(Protocol):
    """Whom the controls ask; `spdist.panels.deploy.DeployPanel` says what its methods do."""

    text: str

    def deploy(self) -> Any:
        """Hand the text to the cluster."""
        ...

    def undeploy(self) -> None:
        """Remove the app."""
        ...

    def backup(self) -> str:
        """Keep the state, and return the revision."""
        ...

    def restore(self, revision: str) -> None:
        """Go back to a revision."""
        ...

    def revisions(self) -> list[str]:
        """Return the revisions, oldest first."""
        ...

    def write(self, text: str) -> None:
        """Check another text."""
        ...

    def load(self, app: str) -> None:
        """Edit the text of an app of the cluster."""
        ...

    def act(self, doing: str, action: Callable[[], T], told: Callable[[T], str]) -> None:
        """Run an action in a thread of its own."""
        ...


class DeployControls:
    """Widgets, and what they ask the panel for.

    Parameters
    ----------
    panel : Deploying
        Whose they are.

    State
    -----
    The widgets.
    """

    def __init__(self, panel: Deploying) -> None:
        self._panel = panel
        self._name = ""
        self._listed: tuple[str, int] | None = None
        self.apps = ipywidgets.Dropdown(options=[_NEW], description="App")
        self.file = ipywidgets.FileUpload(accept=".siddhi,.siddhiql,.txt", description="From a file")
        self.editor = ipywidgets.Textarea(
            panel.text,
            placeholder="@app:name('MyApp') …",
            layout=ipywidgets.Layout(width="99%", height="20em"),
            continuous_update=True,
        )
        self.deploy = _button("Deploy", self._deploy, "primary")
        self.undeploy = _button("Undeploy …", self._ask)
        self.backup = _button("Back up", self._backup)
        self.revisions = ipywidgets.Dropdown(options=[_NO_REVISION])
        self.restore = _button("Restore", self._restore)
        self.question = ipywidgets.Label()
        self.sure = ipywidgets.HBox(
            [self.question, _button("Yes, undeploy", self._undeploy, "danger"), _button("No", self._unask)]
        )
        self._unask()
        self.apps.observe(self._loaded, names="value")
        self.file.observe(self._uploaded, names="value")
        self.editor.observe(lambda change: panel.write(change["new"]), names="value")

    def widgets(self) -> Sequence[Any]:
        """Return them as they stand above one another."""
        return (
            ipywidgets.HBox([self.apps, self.file]),
            self.editor,
            ipywidgets.HBox([self.deploy, self.undeploy, self.backup, self.revisions, self.restore]),
            self.sure,
        )

    def edit(self, text: str) -> None:
        """Have a text in the editor."""
        self.editor.value = text

    def adapt(self, view: Application, *, busy: bool) -> None:
        """Offer what there is, and what can be done now."""
        self._name = view.name
        _offer(self.apps, (_NEW, *view.apps), view.name if view.name in view.apps else _NEW)
        version = None if view.status is None else (view.name, view.status.version)
        if version != self._listed and (view.status is None or view.status.state == "RUNNING"):
            self._listed = version
            threading.Thread(target=self._list, name="spdist-revisions", daemon=True).start()
        self.deploy.disabled = busy or view.draft.topology is None
        for button in (self.undeploy, self.backup):
            button.disabled = busy or view.status is None
        self.restore.disabled = busy or view.status is None or self.revisions.value == _NO_REVISION
        if view.status is None:
            self._unask()

    # --- what they do
    def _deploy(self) -> None:
        self._panel.act("deploying …", self._panel.deploy, lambda app: f"{app.name} is deployed")

    def _backup(self) -> None:
        def backup() -> str:
            revision = self._panel.backup()
            self._list()
            return revision

        self._panel.act("keeping the state …", backup, lambda revision: f"kept as revision {revision}")

    def _restore(self) -> None:
        name, revision = self._name, str(self.revisions.value)
        self._panel.act(
            f"going back to {revision} …",
            lambda: self._panel.restore(revision),
            lambda _: f"{name} goes on from revision {revision}",
        )

    def _list(self) -> None:
        """Offer the revisions that there are; the workers are asked, so not each second."""
        try:
            _offer(self.revisions, tuple(self._panel.revisions()[::-1]) or (_NO_REVISION,))
        except SpdistError:
            _offer(self.revisions, (_NO_REVISION,))

    def _ask(self) -> None:
        self.question.value = f"Undeploy {self._name}? Its topics and its state stay."
        self.sure.layout.display = ""

    def _unask(self) -> None:
        self.sure.layout.display = "none"

    def _undeploy(self) -> None:
        self._unask()
        name = self._name
        self._panel.act("undeploying …", self._panel.undeploy, lambda _: f"{name} is undeployed")

    def _loaded(self, change: dict[str, Any]) -> None:
        if change["new"] not in (_NEW, self._name):
            self._panel.load(change["new"])

    def _uploaded(self, change: dict[str, Any]) -> None:
        for file in change["new"]:
            self.edit(bytes(file["content"]).decode("utf-8", "replace"))


def _button(label: str, action: Callable[[], None], style: str = "") -> Any:
    button = ipywidgets.Button(description=label, button_style=style)
    button.on_click(lambda _: action())
    return button


def _offer(choice: Any, options: tuple[str, ...], value: str | None = None) -> None:
    """Offer `options`; what was chosen stays so if it is among them, and no `value` is to be."""
    chosen = value if value is not None else choice.value if choice.value in options else options[0]
    if tuple(choice.options) != options:
        choice.options = options
    if choice.value != chosen:
        choice.value = chosen
