"""How far something is that takes a while: told where somebody sees it, and not for what is quick."""

from __future__ import annotations

import sys
import time
from typing import Any, Self

from spdist.display import bar_html, duration_text
from spdist.line import Line, running_kernel

__all__ = ["ProgressBar", "ProgressLine"]

#: What is quicker says nothing; and how often the line changes.
_FIRST_S, _EVERY_S = 1.0, 0.5


class ProgressLine:
    """One line on a terminal or in a notebook, rewritten in place; elsewhere nothing.

    Examples
    --------
    >>> with ProgressLine() as line:
    ...     line.show("3 of 7")
    """

    def __init__(self) -> None:
        self._due = time.monotonic() + _FIRST_S
        self._line = Line() if sys.stdout.isatty() or running_kernel() is not None else None

    def show(self, text: str) -> None:
        """Say how far it is; most calls do nothing."""
        if self._line is not None and time.monotonic() >= self._due:
            self._due = time.monotonic() + _EVERY_S
            self._line.show(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.end()


class ProgressBar:
    """A bar for work whose amount is known; what takes less than a second shows none.

    A notebook shows it as HTML, and keeps what it said last; a terminal, on standard error, while it lasts.

    Parameters
    ----------
    total : int
        How many there are.
    unit : str
        Of what, in the plural.
    wanted : bool, optional
        None: in notebooks and terminals; True: also in a file, as a line every 10 s; False: nowhere.

    State
    -----
    When it began, and the bar while it is shown.

    Examples
    --------
    >>> with ProgressBar(200_000, "events") as bar:
    ...     bar.show(20_000)
    """

    def __init__(self, total: int, unit: str, wanted: bool | None = None) -> None:
        self._total = total
        self._unit = unit
        self._began = time.monotonic()
        self._due = self._began + _FIRST_S
        seen = running_kernel() is not None or sys.stderr.isatty()
        self._wanted = wanted is not False and (seen or wanted is True)
        self._line: Line | None = None
        self._rich: Any = None

    def show(self, done: int) -> None:
        """Say how much is done; most calls do nothing."""
        now = time.monotonic()
        if not self._wanted or now < self._due:
            return
        self._due = now + _EVERY_S
        if running_kernel() is None and sys.stderr.isatty():
            self._show_in_terminal(done)
            return
        left_ms = 1000 * (now - self._began) * (self._total - done) / max(done, 1)
        self._tell(done, f"{done:,} of {self._total:,} {self._unit}, {duration_text(left_ms)} left")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        if self._rich is not None:
            self._rich.stop()
        if self._line is not None:
            if not failed:
                took = duration_text(1000 * (time.monotonic() - self._began))
                self._tell(self._total, f"{self._total:,} {self._unit} in {took}")
            self._line.end()

    def _tell(self, done: int, text: str) -> None:
        if self._line is None:
            self._line = Line(sys.stderr)
        self._line.show(text, bar_html(done / max(self._total, 1), text))

    def _show_in_terminal(self, done: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        if self._rich is None:
            columns = (BarColumn(), MofNCompleteColumn(), TextColumn(self._unit), TimeRemainingColumn())
            self._rich = Progress(*columns, console=Console(stderr=True), transient=True)
            self._rich.add_task("", total=self._total, completed=done)
            self._rich.start()
        self._rich.update(self._rich.task_ids[0], completed=done)
