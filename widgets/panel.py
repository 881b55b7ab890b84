"""What all panels are: something that can be looked at, and shown as a live widget, as static HTML, or as text.

A panel shows itself in all three forms at once, and whoever displays it takes the richest that it understands: a
running JupyterLab the widget, a page or a saved notebook the HTML, a terminal or a log the text. Where nobody sits in
front of the notebook (papermill, nbconvert) the widget is left out: saved without its scripts it would be a blank.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Generic, Self, TypeVar

from spdist.errors import SpdistError
from spdist.look import problem_html

__all__ = ["Line", "Panel"]

View = TypeVar("View")

_INTERVAL_S = 1.0
#: After so many looks in a row that failed, a live panel gives up: the cluster has been stopped.
_PATIENCE = 30


class Panel(Generic[View]):
    """Shows what `look` returns. Making one asks nothing of the cluster and needs no notebook.

    State
    -----
    Once the live widget was asked for: it, what it showed last, and a thread that looks every second until `stop`.
    """

    def __init__(self) -> None:
        self._box: Any = None
        self._body: Any = None
        self._seen = ""
        self._over = threading.Event()

    # --- what a panel says
    def look(self) -> View:
        """Return what there is to show now; may ask the cluster, so it may take a while.

        Raises
        ------
        SpdistError
            It cannot be known now.
        """
        raise NotImplementedError

    def text_of(self, view: View) -> str:
        """Return `view` for a terminal."""
        raise NotImplementedError

    def html_of(self, view: View) -> str:
        """Return `view` for a page, with everything escaped."""
        raise NotImplementedError

    def controls(self) -> Sequence[Any]:
        """Return the widgets that stand above the view; none by default."""
        return ()

    # --- the three forms
    def __str__(self) -> str:
        try:
            return self.text_of(self.look())
        except SpdistError as error:
            return str(error)

    def to_html(self) -> str:
        """Return the panel as it is now as static HTML."""
        try:
            return self.html_of(self.look())
        except SpdistError as error:
            return problem_html(error)

    def widget(self) -> Any:
        """Return the live widget; the same one each time, as one panel has one state.

        Raises
        ------
        ImportError
            ipywidgets is not installed.
        """
        if self._box is None:
            import ipywidgets

            self._body = ipywidgets.HTML()
            self._box = ipywidgets.VBox([*self.controls(), self._body])
            self.refresh()
            threading.Thread(target=self._follow, name=type(self).__name__, daemon=True).start()
        return self._box

    def stop(self) -> None:
        """Stop looking; what is shown stays."""
        self._over.set()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Mapping[str, Any]:
        try:
            view = self.look()
            forms = {"text/plain": self.text_of(view), "text/html": self.html_of(view)}
        except SpdistError as error:
            forms = {"text/plain": str(error), "text/html": problem_html(error)}
        return {**forms, **self._live_form()}

    def _live_form(self) -> Mapping[str, Any]:
        """Return the widget's form where somebody could use it; else nothing, so that HTML or text is taken."""
        kernel = _kernel()
        # nbclient, which papermill and nbconvert run on, tells the kernel that nobody could answer a question.
        if kernel is None or not getattr(kernel, "_allow_stdin", False):
            return {}
        try:
            bundle = self.widget()._repr_mimebundle_()
        except ImportError:
            return {}
        return {kind: form for kind, form in bundle.items() if kind.startswith("application/")}

    # --- staying live
    def refresh(self) -> bool:
        """Bring the live widget up to date; where that cannot be, keep what it shows, say why, and return False."""
        try:
            self._seen = shown = self.html_of(self.look())
            fine = True
        except (SpdistError, RuntimeError) as error:  # RuntimeError: httpx, when the client was closed
            shown, fine = _stale_html(error) + self._seen if self._seen else problem_html(error), False
        if self._body is not None and self._body.value != shown:
            self._body.value = shown
        return fine

    def _follow(self) -> None:
        failures = 0
        while failures < _PATIENCE and not self._over.wait(_INTERVAL_S):
            failures = 0 if self.refresh() else failures + 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Line:
    """One line of output that is rewritten in place; a saved notebook keeps only what it said last."""

    def __init__(self) -> None:
        self._width = 0
        self._handle: Any = None

    def show(self, text: str) -> None:
        """Put `text` in the place of what the line said."""
        if _kernel() is not None:
            self._display({"text/plain": text})
        else:
            sys.stdout.write(f"\r{text:<{self._width}}")
            sys.stdout.flush()
        self._width = len(text)

    def end(self) -> None:
        """Leave the line as it is."""
        if self._handle is None:
            sys.stdout.write("\n")

    def _display(self, forms: Mapping[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(forms, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(forms, raw=True)


def _kernel() -> Any:
    """Return the kernel that this code runs in; None in a script or a terminal."""
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return None
    return getattr(get_ipython(), "kernel", None)


def _stale_html(error: Exception) -> str:
    """Return a note above a view that was true once: in a saved notebook the cluster has long been stopped."""
    return f'<div style="opacity:0.6">as it was last seen: {escape(str(error).splitlines()[0])}</div>'
