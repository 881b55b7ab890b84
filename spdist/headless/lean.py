"""papermill's command line without what a notebook in a file never needs: ``python -m spdist.headless.lean``.

More than half of the 2.2 s of processor time in which papermill starts are one library that compiles a grammar of IRIs
with each import, for a format that notebooks do not have; another part are clients of stores that are no directories.
"""

from __future__ import annotations

import runpy
import sys

__all__ = ["load_less", "without_iris"]


def without_iris() -> None:
    """Have this process do without jsonschema's format of IRIs, unless that is loaded already."""
    _do_without("rfc3987_syntax")


def load_less() -> None:
    """Have this process, which runs papermill on files and nothing else, do without the rest as well."""
    without_iris()
    _do_without("boto3")
    _do_without("pyarrow")


def _do_without(module: str) -> None:
    """Let a module be missing, as where it is not installed, unless it is loaded."""
    # An entry of None has `import` raise ModuleNotFoundError.
    sys.modules.setdefault(module, None)  # type: ignore[arg-type]


if __name__ == "__main__":
    load_less()
    runpy.run_module("papermill", run_name="__main__", alter_sys=True)
