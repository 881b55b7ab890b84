"""A line that says how far something is that takes a while: where somebody sees it, and not for what is quick."""

from __future__ import annotations

import sys
import time
from typing import Self

from spdist.line import Line, running_kernel

__all__ = ["ProgressLine"]

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
