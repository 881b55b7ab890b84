"""The benchmark itself runs, on few events."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.over_kafka import chosen_of
from tests.bench.workloads import FOLDER, Workload

ROOT = Path(__file__).parents[2]


def test_the_benchmark_prints_ratios() -> None:
    command = [sys.executable, str(ROOT / "tests/bench/run.py"), "3000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "× plain Python filter" in done.stdout
    assert "× raw SQLite inserts" in done.stdout


def test_workloads_over_kafka_are_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert "pattern_every" in chosen_of([]).names, "by default all"
    assert chosen_of(["sequence", "--count", "5"]).names == ["sequence"]
    with pytest.raises(SystemExit):
        chosen_of(["sequenz"])
    assert "there is no workload sequenz; there are" in capsys.readouterr().err


def measured(*options: str, compile_after: str) -> dict[str, list[str]]:
    """Run ``make bench-engine``, and return what its lines tell behind their first word."""
    command = [sys.executable, "-m", "tests.bench.engine", "--no-peer", "--count", "300", "--rounds", "1", *options]
    environment = {**os.environ, "SPDIST_COMPILE_AFTER": compile_after}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line}


def test_the_workloads_run() -> None:
    # To compile all of them costs minutes; that programs do what they are to do is held by tests/program.
    told = measured(compile_after="never")
    for name in (path.stem for path in FOLDER.glob("*.siddhi")):
        assert int(told[name][0].replace(",", "")) > 0
        assert told[name][1:] == ["—", "—"]
    assert told["pattern_every,"][0] == "keys"


def test_workloads_are_measured_as_programs() -> None:
    told = measured("filter_projection", "length_batch", compile_after="0")
    for name in ("filter_projection", "length_batch"):
        assert all(int(rate.replace(",", "")) > 0 for rate in told[name]) and len(told[name]) == 3


def test_events_are_drawn_as_the_peer_draws_them() -> None:
    stream, time, row = next(Workload.load("length_batch").drawn())
    # By hand: 64-bit x * 6364136223846793005 + 1442695040888963407, its upper 31 bits, from the seed 1.
    assert (stream, time, row) == ("S", 1_000_000, ("S74", 50.94074249267578, 197))


def test_payloads_are_measured() -> None:
    command = [sys.executable, "-m", "tests.bench.payloads", "--count", "500"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "json: whole" in done.stdout
    assert "groups: hop" in done.stdout


def test_a_manager_is_measured() -> None:
    command = [sys.executable, "-m", "tests.bench.cluster", "--database", "sqlite", "--apps", "2", "--seconds", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "heartbeats, 2 apps" in done.stdout
    assert "deploys 2 to 2" in done.stdout
