"""The tooltip of a word in a ``%%siddhi`` cell: Shift-Tab in JupyterLab asks the kernel for it."""

from __future__ import annotations

from typing import Any

from spdist.extension import catalog
from spdist.language.editing.inspection import describe
from spdist.notebook.matcher import is_cell

__all__ = ["inspect_cells", "leave_cells"]


def inspect_cells(kernel: Any) -> None:
    """Make a kernel answer for words of SiddhiQL; for all others it answers as before."""
    plain = kernel.do_inspect

    def do_inspect(code: str, cursor_pos: int, *more: Any, **named: Any) -> Any:
        said = describe(code, cursor_pos, catalog()) if is_cell(code) else None
        if said is None:
            return plain(code, cursor_pos, *more, **named)
        return {"status": "ok", "found": True, "data": {"text/plain": said}, "metadata": {}}

    kernel.do_inspect = do_inspect


def leave_cells(kernel: Any) -> None:
    """Make a kernel answer as before `inspect_cells`."""
    # It covers the method of the class, which is seen again.
    vars(kernel).pop("do_inspect", None)
