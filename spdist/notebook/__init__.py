"""SiddhiQL in cells of a notebook: what ``%load_ext spdist`` adds to IPython."""

from __future__ import annotations

from typing import Any

__all__ = ["load_ipython_extension", "unload_ipython_extension"]

_NAME = "siddhi"
_MATCHER = "spdist.siddhi"


def load_ipython_extension(ipython: Any) -> None:
    """Add ``%%siddhi``, ``%siddhi``, completion and tooltips; IPython calls this for ``%load_ext spdist``."""
    from IPython.core.magic import no_var_expand

    from spdist.notebook.inspector import inspect_cells
    from spdist.notebook.magic import Magic
    from spdist.notebook.matcher import matcher_of

    magic = Magic(ipython)

    # Neither lines nor cells have Python's variables put in: SiddhiQL writes `${…}` and `{…}` itself.
    @no_var_expand
    def siddhi(line: str, cell: str | None = None) -> Any:
        """Check, run, plan and deploy SiddhiQL: ``%%siddhi --help``; ``%siddhi`` lists the other commands."""
        return magic.command(line) if cell is None else magic.cell(line, cell)

    # A second %load_ext must not add everything twice.
    unload_ipython_extension(ipython)
    ipython.register_magic_function(siddhi, "line_cell", _NAME)
    ipython.Completer.custom_matchers.append(matcher_of(ipython, _MATCHER))
    if kernel := getattr(ipython, "kernel", None):
        inspect_cells(kernel)


def unload_ipython_extension(ipython: Any) -> None:
    """Take away what `load_ipython_extension` has added; IPython calls this for ``%unload_ext`` and ``%reload_ext``."""
    from spdist.notebook.inspector import leave_cells

    for kind in ("line", "cell"):
        ipython.magics_manager.magics[kind].pop(_NAME, None)
    matchers = ipython.Completer.custom_matchers
    # In place: the completer has this very list.
    matchers[:] = [one for one in matchers if getattr(one, "matcher_identifier", "") != _MATCHER]
    if kernel := getattr(ipython, "kernel", None):
        leave_cells(kernel)
