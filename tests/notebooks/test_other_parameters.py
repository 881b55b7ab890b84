"""What the notebooks of the language assert holds for other parameters too; nbmake runs them all with their own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.notebooks.running import run_cells


@pytest.fixture(autouse=True)
def no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    plots = pytest.importorskip("matplotlib.pyplot")
    plots.switch_backend("agg")
    monkeypatch.setattr(plots, "show", lambda: plots.close("all"))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("01_siddhiql_in_virtual_time", {"hours": 5}),
        ("02_windows", {"month": 7, "days": 1}),
        ("03_patterns_and_absence", {"month": 6, "first_day": 3, "last_day": 4, "silence": "9 hours"}),
        ("04_joins_and_tables", {"month": 6, "days": 2, "minutes": 45}),
        ("07_from_app_to_topology", {"parallel": 1, "days": 1}),
        ("07_from_app_to_topology", {"parallel": 3, "days": 1}),
        ("13_bringing_a_wso2_app", {"month": 11, "most": 12.0}),
        ("15_benchmarks", {"days": 1, "rounds": 1}),
        ("index", {"details": True}),
    ],
)
def test_it_holds_with_other_parameters(name: str, parameters: dict[str, Any]) -> None:
    defined = run_cells(name, **parameters)
    assert parameters.items() <= defined.items()
