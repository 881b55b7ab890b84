"""Cells of a notebook, run here and now, without a kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat

FOLDER = Path(__file__).parents[2] / "notebooks"


def run_cells(name: str, stop: str = "", **parameters: Any) -> dict[str, Any]:
    """Run the code cells of a notebook, with other parameters, and return what they defined.

    Parameters
    ----------
    name : str
        The notebook, without its suffix.
    stop : str
        The cell before which to stop; all are run if left out.
    **parameters
        In place of those in the notebook, which must have them.
    """
    names: dict[str, Any] = {}
    cells = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells
    assert not stop or stop in [cell.id for cell in cells], f"there is no cell {stop}"
    for cell in cells:
        if stop and cell.id == stop:
            break
        if cell.cell_type == "code":
            exec(compile(cell.source, f"{name}:{cell.id}", "exec"), names)
        if cell.id == "parameters":
            assert parameters.keys() <= names.keys()
            names |= parameters
    return names
