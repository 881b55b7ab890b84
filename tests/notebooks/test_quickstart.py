"""The visitor's path: the part before the cluster here and at once, the whole with papermill where Spark may run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

import spdist
from tests.notebooks.running import run_cells

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "quickstart.ipynb"


@pytest.fixture(scope="module")
def virtual() -> dict[str, Any]:
    return run_cells("quickstart", stop="cluster-text")


def test_the_data_is_the_recorded_month(virtual: dict[str, Any]) -> None:
    departures, events = virtual["departures"], virtual["result"].events["Departures"]
    assert len(departures) == len(events) == 27_004
    assert departures["delay"].notna().sum() == 26_483
    local = departures["timestamp"].dt.tz_convert("America/New_York")
    clock = (local.dt.hour * 100 + local.dt.minute).replace(0, 2400)
    left = departures["dep_time"].notna()
    assert (clock[left] == departures["dep_time"][left]).all()
    assert [ts for ts, _ in events] == sorted(ts for ts, _ in events)


def test_the_month_has_enough_alerts_and_not_too_many(virtual: dict[str, Any]) -> None:
    assert 100 < len(virtual["expected"]) < 500
    assert {row[0] for _, row in virtual["expected"]} > {"EV", "9E", "B6"}


def test_an_alert_is_explained_by_departures_of_its_carrier() -> None:
    why = run_cells("quickstart", stop="cluster-text", days=4)["why"]
    assert why.minimal
    assert {one.stream for one in why.causes} == {"Departures"}
    assert {one.row[0] for one in why.causes} == {why.event.row[0]}
    assert len(why.causes) >= 10, "only from ten flights on there is an average"
    assert [one.kind for one in why.intervals] == ["absence"]


def test_the_app_has_three_groups_which_share_their_work_in_three_ways(virtual: dict[str, Any]) -> None:
    topology = spdist.plan(virtual["text"])
    found = {g.name: (g.parallel, [i.strategy.value for i in g.inputs]) for g in topology.groups}
    assert found == {
        "FlightWatch-clean": (2, ["ROUND_ROBIN"]),
        "FlightWatch-trend": (2, ["FIELD_GROUPING"]),
        "FlightWatch-alert": (1, ["ALL"]),
    }


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
def test_the_whole_notebook_at_another_speed(tmp_path: Path) -> None:
    target = tmp_path / "quickstart.ipynb"
    command = [sys.executable, "-m", "spdist.headless.lean", "--engine", "spdist", "--no-progress-bar"]
    command += [str(NOTEBOOK), str(target), "-p", "speed", "200000.0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "speed = 200000.0" in target.read_text(encoding="utf-8")
    outputs = {cell.id: cell.get("outputs", []) for cell in nbformat.read(target, as_version=4).cells}
    assert "alerts are equal to those of the virtual run" in str(outputs["compare"])
    assert "asking for FlightWatch-alert-1@FlightWatch.Alerts/0:" in str(outputs["deployed-why"])
    assert "FlightWatch.Departures, partition" in str(outputs["deployed-why"]), "causes have their places"
    for drawn in ("plan", "why", "deploy", "placement", "deployed-why"):
        assert any("text/html" in output.get("data", {}) for output in outputs[drawn]), drawn
    assert any("image/png" in output.get("data", {}) for output in outputs["plot"])
