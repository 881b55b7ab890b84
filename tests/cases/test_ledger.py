"""The ledger is true: it says what the engine does now, and each deviation is shown by a case."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.replay import run_case
from tests.cases.ledger import LEDGER, deviations, ledger
from tests.cases.test_cases import assert_same, flat


def test_the_ledger_is_not_stale() -> None:
    assert LEDGER.read_text(encoding="utf-8") == ledger(), "run `make ledger`"


@pytest.mark.parametrize("case", deviations(), ids=lambda case: case["name"])
def test_a_deviation_is_what_it_says(case: dict[str, Any]) -> None:
    actual = run_case(case)
    order = case.get("order", "exact")
    assert_same(flat(case["expected"], order), flat(actual, order))
    with pytest.raises(AssertionError):
        assert_same(flat(case["siddhi"], order), flat(actual, order))
