"""Every notebook is stored stripped, runs with parameters, asserts what it says, and is short enough to read."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import nbformat
import pytest

from spdist.headless.parameters import read_parameters

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MAX_LINES = 12
#: What a notebook may import beside the standard library.
LIBRARIES = {
    "spdist",
    "pandas",
    "httpx",
    "tenacity",
    "matplotlib",
    "IPython",
    "pytest",
    "kafka",
    "nats",
    "pyspark",
}

#: Those that are processes of a cluster, and run until they are told to stop.
NODES = {"manager", "worker", "server"}

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def test_the_index_links_to_every_notebook_and_to_no_other() -> None:
    linked = re.findall(r"\]\((\w+\.ipynb)\)", "".join(cell.source for cell in read(FOLDER / "index.ipynb").cells))
    assert sorted({*linked, "index.ipynb"}) == [path.name for path in NOTEBOOKS]


@every_notebook
def test_it_links_to_notebooks_that_are_there(path: Path) -> None:
    text = "".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    assert {name for name in re.findall(r"\]\((\w+\.ipynb)\)", text) if not (FOLDER / name).exists()} == set()


@every_notebook
def test_it_asserts_what_it_claims(path: Path) -> None:
    asserts = any(isinstance(node, ast.Assert) for c in code_cells(path) for node in ast.walk(ast.parse(c.source)))
    assert asserts != (path.stem in NODES)


@every_notebook
def test_it_is_valid_and_has_our_kernel(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec["name"] == "spdist"
    assert notebook.metadata.kernelspec["display_name"] == "Python (spdist)"


@every_notebook
def test_it_is_stored_without_outputs(path: Path) -> None:
    for cell in code_cells(path):
        assert cell.outputs == [], cell.id
        assert cell.execution_count is None, cell.id
    assert "widgets" not in read(path).metadata


@every_notebook
def test_cells_have_speaking_ids(path: Path) -> None:
    ids = [cell.id for cell in read(path).cells]
    assert len(set(ids)) == len(ids)
    assert all(id.replace("-", "").isalpha() and id.islower() for id in ids), ids


@every_notebook
def test_it_begins_with_its_title_and_its_parameters(path: Path) -> None:
    title, parameters, *others = read(path).cells
    assert title.cell_type == "markdown"
    assert title.source.startswith("# ")
    assert parameters.metadata.tags == ["parameters"]
    assert not any("parameters" in cell.metadata.get("tags", []) for cell in others)
    known = read_parameters(parameters.source)
    assert known
    for parameter in known.values():
        assert parameter.comment, f"{parameter.name} has no comment"
        assert parameter.types, f"{parameter.name} is no literal"


@every_notebook
def test_cells_are_short(path: Path) -> None:
    assert {cell.id: n for cell in code_cells(path) if (n := len(cell.source.splitlines())) > MAX_LINES} == {}


@every_notebook
def test_it_defines_no_classes_does_not_sleep_and_imports_little(path: Path) -> None:
    for cell in code_cells(path):
        for node in ast.walk(ast.parse(cell.source)):
            assert not isinstance(node, ast.ClassDef), cell.id
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func).split(".")[-1] != "sleep", cell.id
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                tops = {name.split(".")[0] for name in names}
                assert tops - sys.stdlib_module_names <= LIBRARIES, cell.id


@every_notebook
def test_code_is_explained(path: Path) -> None:
    """At most three code cells stand together without a word between them."""
    run = 0
    for cell in read(path).cells:
        run = run + 1 if cell.cell_type == "code" else 0
        assert run <= 3, cell.id
