"""A line that says how far something is that takes a while: on a terminal or in a notebook, and nowhere else."""

from __future__ import annotations

import sys
import time
from typing import Self

__all__ = ["ProgressLine"]

#: What is quicker says nothing; and how often the line changes.
_FIRST_S, _EVERY_S = 1.0, 0.5


class ProgressLine:
    """One line on the standard error stream, rewritten in place and gone at the end.

    Examples
    --------
    >>> with ProgressLine() as line:
    ...     line.show("3 of 7")
    """

    def __init__(self) -> None:
        self._due = time.monotonic() + _FIRST_S
        self._width = 0
        self._seen = sys.stderr.isatty() or "ipykernel" in sys.modules

    def show(self, text: str) -> None:
        """Say how far it is; most calls do nothing."""
        if not self._seen or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _EVERY_S
        sys.stderr.write(f"\r{text:<{self._width}}")
        sys.stderr.flush()
        self._width = len(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._width:
            sys.stderr.write(f"\r{'':<{self._width}}\r")
            sys.stderr.flush()
