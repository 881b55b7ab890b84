"""papermill's command line without what a notebook in a file never needs: ``python -m spdist.headless.lean``.

More than half of the 2.2 s of processor time in which papermill starts are one library that compiles a grammar of IRIs
with each import, for a format that notebooks do not have; another part are clients of stores that are no directories.
"""

from __future__ import annotations

import runpy
import sys

__all__ = ["load_less"]

#: What jsonschema and papermill do without where it is not installed: formats of texts, buckets, Hadoop's file system.
_UNUSED = ("rfc3987_syntax", "boto3", "pyarrow")


def load_less() -> None:
    """Have this process go without what papermill would load, unless it is loaded already."""
    for name in _UNUSED:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # so that importing it fails


if __name__ == "__main__":
    load_less()
    runpy.run_module("papermill", run_name="__main__", alter_sys=True)
