"""The benchmark itself runs, on few events."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_benchmark_prints_ratios() -> None:
    command = [sys.executable, str(ROOT / "tests/bench/run.py"), "3000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "× plain Python filter" in done.stdout
    assert "× raw SQLite inserts" in done.stdout
