"""The ledger is true: it says what the engine does now, and each deviation is shown by a case."""

from __future__ import annotations

import re
from typing import Any

import pytest

from spdist.replay import run_case
from tests.cases.ledger import LEDGER, deviations, kept, ledger
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


@pytest.mark.parametrize("case", kept(), ids=lambda case: case["name"])
def test_what_is_kept_is_what_siddhi_does_and_not_the_plain_result(case: dict[str, Any]) -> None:
    actual = flat(run_case(case), "exact")
    assert_same(flat(case["expected"], "exact"), actual)
    with pytest.raises(AssertionError):
        assert_same(flat(case["plain"], "exact"), actual)
    (ends_ms,) = (int(span) for span in re.findall(r"time\((\d+) millisec", case["app"]))
    events = [(event["timestamp"], event["data"][0]) for event in case["events"]]
    best = {"max": max, "min": min}[case["name"].partition("/")[2][:3]]
    by_hand = [best(v for at, v in events if now - ends_ms < at <= now) for now, _ in events]
    assert by_hand == [event["data"][0] for event in case["plain"]["streams"]["Out"]], "of what the window holds"
