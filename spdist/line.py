"""One line of output that is rewritten in place: in a terminal, in a notebook, and in a notebook that runs headless."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any, TextIO

__all__ = ["Line", "running_kernel"]

_IN_A_FILE_S = 10.0


class Line:
    """One line of output that is rewritten in place; a saved notebook keeps only what it said last.

    In a file, where nothing can be rewritten in place, it is told only every 10 s, and how it ended.

    Parameters
    ----------
    stream : text stream, optional
        Where it stands outside of notebooks; standard output by default.

    Examples
    --------
    >>> line = Line()
    >>> line.show("1 of 2")  # doctest: +SKIP
    >>> line.show("2 of 2")  # doctest: +SKIP
    >>> line.end()  # doctest: +SKIP
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._said: str | None = None
        self._waits: str | None = None
        self._said_s = 0.0
        self._handle: Any = None

    def show(self, text: str, html: str | None = None) -> None:
        """Put `text` in the place of what the line said; where a notebook shows it, as `html`, if there is that."""
        if text == self._said:
            self._waits = None
            return
        if running_kernel() is not None:
            self._display({"text/plain": text} if html is None else {"text/plain": text, "text/html": html})
        elif (stream := self._stream or sys.stdout).isatty():
            text = text[: shutil.get_terminal_size().columns - 1]  # what is wrapped cannot be rewritten
            # As wide as what it replaces, of which else an end would stay.
            self._write(stream, f"\r{text:<{len(self._said or '')}}")
        elif self._said is None or time.monotonic() - self._said_s >= _IN_A_FILE_S:
            self._write(stream, f"{text}\n")
            self._said_s, self._waits = time.monotonic(), None
        else:
            self._waits = text
            return
        self._said = text

    def end(self) -> None:
        """Leave the line as it is; one that has said nothing leaves no trace."""
        stream = self._stream or sys.stdout
        if self._waits is not None:
            self._write(stream, f"{self._waits}\n")
        # In a file the line has its end already; an output of a notebook needs none.
        elif self._said is not None and self._handle is None and stream.isatty():
            self._write(stream, "\n")

    def _write(self, stream: TextIO, text: str) -> None:
        stream.write(text)
        stream.flush()

    def _display(self, forms: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(forms, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(forms, raw=True)


def running_kernel() -> Any:
    """Return the Jupyter kernel that this code runs in; None in a script or a terminal."""
    # Who has not loaded IPython runs in no kernel, and need not wait for it to load.
    if "IPython" not in sys.modules:
        return None
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None)
