"""The outputs of notebook cells that show panels: what is alive there, what is saved, and when it is over.

A panel has two outputs in its cell. The first is the widget, where somebody sits in front of the notebook. The second
is its **still form**, HTML and text, which is brought up to date under its display id, so that a saved notebook, by
hand or by papermill, has what the panel said last. JupyterLab forgets display ids when its page is loaded again: our
extension there (``labextension/``) copies what the widget shows into the still form each time a notebook is saved. Of
the two only one is seen: a style in the still form hides it as long as the widget is on the page, and hides the words
"model not found", which JupyterLab puts in place of a widget whose kernel is gone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from spdist.line import running_kernel

__all__ = ["Displayed", "Forms", "StillForm", "close_widget", "run_meanwhile", "shown_in", "somebody_there"]

#: How often a still form that nobody sees is brought up to date: each time the notebook has something to save.
_UNSEEN_EVERY_S = 5.0


class Forms(NamedTuple):
    """What there is to show, for a terminal and for a page."""

    text: str
    html: str


class Displayed(Protocol):
    """A panel that stands in an output."""

    def leave(self, output: StillForm) -> None:
        """Know that the output is gone."""
        ...


class StillForm:
    """The still form of a panel in one cell.

    Parameters
    ----------
    mark : str
        Of the panel; its widget has the class ``spdist-live-<mark>``.
    live : bool
        Whether the widget stands above it.

    State
    -----
    What it says, and since when.
    """

    def __init__(self, mark: str, live: bool) -> None:
        self._mark = mark
        self._live = live
        self._handle: Any = None
        self._said: Forms | None = None
        self._said_s = 0.0

    def say(self, forms: Forms, *, now: bool = False) -> None:
        """Show `forms` if they are new; those that nobody sees only every 5 s, unless they are to be saved `now`."""
        if forms == self._said or (self._live and not now and time.monotonic() - self._said_s < _UNSEEN_EVERY_S):
            return
        bundle = {"text/plain": forms.text, "text/html": still_html(self._mark, forms.html)}
        if self._handle is None:
            from IPython.display import display

            self._handle = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(bundle, raw=True)
        self._said, self._said_s = forms, time.monotonic()


def still_html(mark: str, html: str) -> str:
    """Return the still form of a panel: seen where its widget is not."""
    live, still, child = f".spdist-live-{mark}", f".spdist-still-{mark}", ".jp-OutputArea-child"
    return (
        f"<style>html:has({live}) {still},html:has({live}) {child}:has({still}),"
        f"{child}:has(+ {child} {still}):not(:has({live})){{display:none}}</style>"
        f'<div class="spdist-still-{mark}">{html}</div>'
    )


# --- cells
_LOCK = threading.Lock()
#: Cell → panels with their outputs there. They are alive as long as they can be seen, whoever else has forgotten them.
_CELLS: dict[str, list[tuple[Displayed, StillForm]]] = {}


def shown_in(kernel: Any, panel: Displayed, output: StillForm) -> None:
    """Note that `output` stands in the cell that runs; it is over when that cell runs again, or is deleted."""
    cell = _running_cell(kernel).get("cellId")
    if not isinstance(cell, str):
        return
    with _LOCK:
        if not _CELLS:
            events = kernel.shell.events
            if forget_cells not in events.callbacks["pre_run_cell"]:
                events.register("pre_run_cell", forget_cells)
        _CELLS.setdefault(cell, []).append((panel, output))


def forget_cells(_info: object = None) -> None:
    """Let go of the panels of the cell that is about to run, and of those that were deleted."""
    told = _running_cell(running_kernel())
    over: Iterable[Any] = [told.get("cellId"), *(told.get("deletedCells") or ())]
    with _LOCK:
        left = [pair for cell in over for pair in _CELLS.pop(cell, ())]
    # Without the lock: a panel that leaves takes its own, and closes its widget.
    for panel, output in left:
        panel.leave(output)


def _running_cell(kernel: Any) -> dict[str, Any]:
    """Return what the front end tells of the cell that it has sent."""
    told: dict[str, Any] = kernel.get_parent("shell").get("metadata") or {}
    return told


def somebody_there(kernel: Any) -> bool:
    """Return whether somebody sits in front of the notebook: nbclient, and so papermill, says that nobody answers."""
    return bool(getattr(kernel, "_allow_stdin", False))


# --- widgets
def run_meanwhile(widget: Any) -> None:
    """Let what a control does run while a cell runs: in the thread that JupyterLab asks the kernel for.

    JupyterLab sends what widgets say to a subshell of the kernel (setting "Kernel Comms over subshells"); ipykernel 7.4
    brings it back to where the widget was made, which is where cells run, unless its comm names no such place.
    """
    if widget.comm is not None:
        widget.comm._reply_subshell_for = None
    for child in getattr(widget, "children", ()):
        run_meanwhile(child)


def close_widget(widget: Any) -> None:
    """Close a widget with all that it consists of."""
    for child in (*getattr(widget, "children", ()), getattr(widget, "layout", None), getattr(widget, "style", None)):
        if child is not None:
            close_widget(child)
    widget.close()
