"""papermill's command line without what a notebook in a file never needs: ``python -m spdist.headless.lean``.

More than half of the 2.2 s of processor time in which papermill starts are one library that compiles a grammar of IRIs
with each import, for a format that notebooks do not have; another part are clients of stores that are no directories.
"""

from __future__ import annotations

import gc
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["doing_without", "load_less", "without_iris"]


def without_iris() -> None:
    """Have this process do without jsonschema's format of IRIs, unless that is loaded already."""
    _do_without("rfc3987_syntax")


def load_less() -> None:
    """Have this process, which runs papermill on files and nothing else, do without the rest as well."""
    without_iris()
    _do_without("boto3")
    _do_without("pyarrow")


@contextmanager
def doing_without(module: str) -> Iterator[None]:
    """Let a module be missing within the block, unless it is loaded; what loads there does without it for good."""
    _do_without(module)
    try:
        yield
    finally:
        if sys.modules[module] is None:
            del sys.modules[module]


def _do_without(module: str) -> None:
    """Let a module be missing, as where it is not installed, unless it is loaded."""
    # An entry of None has `import` raise ModuleNotFoundError.
    sys.modules.setdefault(module, None)  # type: ignore[arg-type]


if __name__ == "__main__":
    load_less()
    gc.disable()  # what loads here stays
    import papermill.cli  # noqa: F401

    import spdist.headless.engine  # noqa: F401

    gc.freeze()
    gc.enable()
    runpy.run_module("papermill", run_name="__main__", alter_sys=True)
