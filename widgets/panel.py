"""What all panels are: something that can be looked at, and shown as a live widget, as HTML, or as text.

A panel looks in a thread of its own, never where it is shown: displaying one says "asking…" and returns, whether the
cluster answers or not. In a notebook it is a widget where somebody is there, and HTML that keeps up with it; see
`spdist.panels.outputs`. In a terminal it is text.
"""

from __future__ import annotations

import threading
import time
import uuid
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Generic, Self, TypeVar

import ipywidgets

from spdist.display import Shown, note_html, problem_html, time_text
from spdist.errors import ClusterError, SpdistError
from spdist.line import Line, running_kernel
from spdist.panels.outputs import Forms, StillForm, close_widget, run_meanwhile, shown_in, somebody_there
from spdist.panels.poller import Awaited, Poller
from spdist.panels.watch import Cluster, ClusterWatch, watch_of

__all__ = ["ClusterPanel", "Line", "Panel", "Still"]

View = TypeVar("View")

#: How long displaying a panel waits for its first look; people see "asking…" after that.
_GRACE_S = 0.1
_ASKING = Forms("asking…", note_html("asking…"))


class Panel(Generic[View]):
    """Shows what `fetch` returns. Making one asks nothing of the cluster and needs no notebook.

    State
    -----
    What it has shown last; while it is shown: its widget, and the outputs of cells that it stands in.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "look" in vars(cls) and "fetch" not in vars(cls):
            cls.fetch = vars(cls)["look"]  # type: ignore[method-assign]
            warnings.warn(f"{cls.__name__}.look is called fetch now", DeprecationWarning, stacklevel=2)

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex[:8]
        self._lock = threading.RLock()
        self._shown = _ASKING
        self._seen: Forms | None = None
        self._seen_ms = 0.0
        self._looked = threading.Event()
        self._box: Any = None
        self._body: Any = None
        self._outputs: list[StillForm] = []

    # --- what a panel says
    def fetch(self) -> View:
        """Return what there is to show now.

        Raises
        ------
        Awaited
            It is not known yet; only in the thread of the poller.
        SpdistError
            It cannot be known now.
        """
        raise NotImplementedError

    def look(self) -> View:
        """Return what `fetch` returns: its former name."""
        warnings.warn("Panel.look is called fetch now", DeprecationWarning, stacklevel=2)
        return self.fetch()

    def text_of(self, view: View) -> str:
        """Return `view` for a terminal."""
        raise NotImplementedError

    def html_of(self, view: View) -> str:
        """Return `view` for a page, with everything escaped."""
        raise NotImplementedError

    def controls(self) -> Sequence[Any]:
        """Return the widgets that stand above the view; none by default. What they do must not take long."""
        return ()

    def adapt(self, view: View) -> None:
        """Bring the controls up to date with what is seen; called before each time it is shown."""

    @property
    def poller(self) -> Poller:
        """Who has it look: its cluster's poller; one for all panels that ask nobody."""
        return _poller_of_nobody()

    # --- static forms, as of now
    def __str__(self) -> str:
        return str(self.still())

    def to_html(self) -> str:
        """Look now, and return what is seen as static HTML."""
        return self.still()._repr_html_()

    def still(self) -> Still:
        """Look now, and return what is seen as something that stays as it is: to compare with later."""
        try:
            return Still(self._forms_of(self.fetch()))
        except SpdistError as error:
            return Still(Forms(str(error), problem_html(error)))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Mapping[str, Any]:
        return self.still()._repr_mimebundle_()

    # --- in a notebook
    def _ipython_display_(self) -> None:
        kernel = running_kernel()
        if kernel is None:
            raise NotImplementedError("a terminal is shown the text")
        live = somebody_there(kernel)
        output = StillForm(self._mark, live)
        with self._lock:
            if live:
                _display_widget(self.widget())
            output.say(self._shown)
            self._outputs.append(output)
        shown_in(kernel, self, output)
        self.poller.follow(self)
        if self._looked.wait(_GRACE_S):
            output.say(self._shown, now=True)

    def widget(self) -> Any:
        """Return the live widget; the same one each time, as one panel has one state."""
        with self._lock:
            if self._box is None:
                self._body = ipywidgets.HTML(self._shown.html)
                self._box = ipywidgets.VBox([*self.controls(), self._body])
                self._box.add_class(f"spdist-live-{self._mark}")
                run_meanwhile(self._box)
            box = self._box
        self.poller.follow(self)
        return box

    def leave(self, output: StillForm) -> None:
        """Know that an output is gone; with the last one the widget goes, too, and nobody looks any more."""
        with self._lock:
            self._outputs = [one for one in self._outputs if one is not output]
            if self._outputs:
                return
            box, self._box, self._body = self._box, None, None
        self.poller.leave(self)
        if box is not None:
            close_widget(box)

    def stop(self) -> None:
        """Stop looking; what is shown stays, and is what a saved notebook has."""
        self.poller.leave(self)
        for output in tuple(self._outputs):
            output.say(self._shown, now=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- staying live
    def refresh(self) -> bool:
        """Look, and show what is seen; where that cannot be, keep what is shown, say why, and return False."""
        try:
            view = self.fetch()
            forms = self._forms_of(view)
        except Awaited:
            return True
        except Exception as error:  # also a defect is shown, once for all to see, and not told again each second
            self._show(self._stale(error))
            return False
        with self._lock:
            self._seen, self._seen_ms = forms, time.time() * 1000
            if self._box is not None:
                self.adapt(view)
        self._show(forms)
        return True

    def _forms_of(self, view: View) -> Forms:
        # In a widget lines have 28 pixels, and what is wide makes all of it wide, in place of a scroll bar of its own.
        style = "line-height:1.4;contain:inline-size"
        return Forms(self.text_of(view), f'<div style="{style}">{self.html_of(view)}</div>')

    def _show(self, forms: Forms) -> None:
        with self._lock:
            self._shown = forms
            # Taken here and shown without the lock: sending takes its time, and cells and controls need the lock.
            body, outputs = self._body, tuple(self._outputs)
        self._looked.set()
        if body is not None and body.value != forms.html:
            body.value = forms.html
        for output in outputs:
            output.say(forms)

    def _stale(self, error: Exception) -> Forms:
        """Return what was true once with a note above it: in a saved notebook the cluster has long been stopped."""
        told = str(error) if isinstance(error, SpdistError) else f"{type(error).__name__}: {error}"
        if self._seen is None:
            return Forms(told, problem_html(told))
        note = f"as it was last seen at {time_text(self._seen_ms)} UTC: {told.splitlines()[0]}"
        return Forms(f"{note}\n{self._seen.text}", note_html(note) + self._seen.html)


class ClusterPanel(Panel[View]):
    """A panel over a cluster: it looks together with all others of that cluster.

    Parameters
    ----------
    cluster : ClusterClient or LocalCluster
        Whom to ask.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster

    @property
    def watch(self) -> ClusterWatch:
        """What is known of the cluster; ClusterError where it was never started."""
        return watch_of(self._cluster)

    @property
    def poller(self) -> Poller:
        """The one of its cluster."""
        try:
            return self.watch.poller
        except ClusterError:
            return super().poller


class Still(Shown):
    """What a panel has shown at one moment."""

    def __init__(self, forms: Forms) -> None:
        self._shown = forms

    def __str__(self) -> str:
        return self._shown.text

    def _repr_html_(self) -> str:
        return self._shown.html


def _display_widget(widget: Any) -> None:
    """Display a widget for those who can have it, and nothing for others: the still form is for them."""
    from IPython.display import display

    bundle = widget._repr_mimebundle_()
    live = {kind: form for kind, form in bundle.items() if kind.startswith("application/")}
    display({**live, "text/plain": ""}, raw=True)  # type: ignore[no-untyped-call]


@cache
def _poller_of_nobody() -> Poller:
    return Poller()
