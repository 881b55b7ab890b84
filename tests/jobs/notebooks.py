"""Small notebooks for the tests of jobs."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

#: A cell that is tagged ``parameters``.
PARAMETERS = "# parameters\ndays = 7\ntitle = 'none'"
KERNEL = {"name": "spdist", "language": "python", "display_name": "Python (spdist)"}


def write(path: Path, *sources: str) -> Path:
    """Write a notebook of these cells."""
    tags = [{"tags": ["parameters"]} if one.startswith("# parameters") else {} for one in sources]
    cells = [new_code_cell(one, metadata=tagged) for one, tagged in zip(sources, tags, strict=True)]
    nbformat.write(
        new_notebook(cells=cells, metadata={"kernelspec": KERNEL, "language_info": {"name": "python"}}), path
    )
    return path
