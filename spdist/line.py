"""One line of output that is rewritten in place: in a terminal, in a notebook, and in a notebook that runs headless."""

from __future__ import annotations

import shutil
import sys
from typing import Any, TextIO

__all__ = ["Line", "running_kernel"]


class Line:
    """One line of output that is rewritten in place; a saved notebook keeps only what it said last.

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
        self._handle: Any = None

    def show(self, text: str) -> None:
        """Put `text` in the place of what the line said."""
        if text == self._said:
            return
        if running_kernel() is not None:
            self._display({"text/plain": text})
        else:
            stream = self._stream or sys.stdout
            if stream.isatty():  # what is wrapped cannot be rewritten
                text = text[: shutil.get_terminal_size().columns - 1]
            stream.write(f"\r{text:<{len(self._said or '')}}")
            stream.flush()
        self._said = text

    def end(self) -> None:
        """Leave the line as it is; one that has said nothing leaves no trace."""
        if self._said is not None and self._handle is None:
            (self._stream or sys.stdout).write("\n")

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
