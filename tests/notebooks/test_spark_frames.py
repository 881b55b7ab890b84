"""The notebook of Spark frames over Delta tables; nbmake runs it over Parquet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.slow
def test_it_holds_for_tables_of_delta(tmp_path: Path) -> None:
    target = tmp_path / "frames.ipynb"
    command = [sys.executable, "-m", "spdist.headless.lean", "--engine", "spdist", "--no-progress-bar"]
    command += ["notebooks/14_spark_frames.ipynb", str(target), "-p", "kind", "delta"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    outputs = {cell.id: cell.get("outputs", []) for cell in nbformat.read(target, as_version=4).cells}
    assert "tables in delta" in str(outputs["start"])
    assert "batch, stream and virtual time: the same rows" in str(outputs["equal"])
