"""Random apps across the language are accepted and run; the same numbers give the same apps."""

from __future__ import annotations

import pytest

from spdist.replay import run_case
from tests.cases.draw import draw


@pytest.mark.parametrize("number", range(60))
def test_a_drawn_app_runs(number: int) -> None:
    case = draw(number, seed=11)
    assert case == draw(number, seed=11)
    result = run_case(case)
    assert "error" not in result, result["error"]
    assert result["streams"].keys() == {name for name in case["observe"] if isinstance(name, str)}
