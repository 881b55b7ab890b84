"""Apps, what was sent to them, and what Siddhi 5.1 put out: the local engine gives the same, also when it is restarted.

The format is that of `spdist.replay.cases`. Expected results were recorded with the real engine.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from spdist.replay import run_case
from tests.cases.ledger import DEVIATIONS

FILES = sorted(set(Path(__file__).parent.glob("*.jsonl")) - {DEVIATIONS})
CASES = [json.loads(line) for file in FILES for line in file.read_text(encoding="utf-8").splitlines()]
#: Another process goes on with the state: there the app is not started anew, so its triggers keep their time.
RESTART = ({"persist": True}, {"restart": True, "restore": "last"})


def same(expected: Any, actual: Any) -> bool:
    """Whether two results are equal, and of equal types; decimals may differ as recorded decimals do."""
    expected, actual = (
        float(value["$double"]) if isinstance(value, dict) and list(value) == ["$double"] else value
        for value in (expected, actual)
    )
    if type(expected) is not type(actual):
        return False
    if isinstance(expected, float):
        both_nan = math.isnan(expected) and math.isnan(actual)
        return both_nan or math.isclose(expected, actual, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(expected, list):
        return len(expected) == len(actual) and all(map(same, expected, actual))
    if isinstance(expected, dict):
        return expected.keys() == actual.keys() and all(same(expected[key], actual[key]) for key in expected)
    return bool(expected == actual)


def flat(result: dict[str, Any], order: str = "exact") -> dict[str, Any]:
    """A result as lists by name.

    The chunks of queries are joined: how Siddhi cuts them for callbacks is not part of the meaning. Where the order
    within a step is free ("multiset"), it is made one.
    """
    shown = dict(result["streams"])
    for name, chunks in result.get("queries", {}).items():
        for kind in ("current", "expired"):
            shown[f"{name} {kind}"] = [{"i": chunk["i"], **event} for chunk in chunks for event in chunk[kind]]
    for answer in result.get("on_demand", ()):
        rows = [answer["error"]["category"]] if "error" in answer else answer["rows"]
        shown[f"answer {answer['i']}"] = [{"i": answer["i"], "data": row} for row in rows]
    if order == "exact":
        return shown
    return {name: sorted(events, key=lambda event: (event["i"], repr(event))) for name, events in shown.items()}


def assert_same(expected: dict[str, Any], actual: dict[str, Any]) -> None:
    assert expected.keys() == actual.keys()
    for name, events in expected.items():
        for number, (wanted, got) in enumerate(zip(events, actual[name], strict=False)):
            assert same(wanted, got), f"{name}, event {number}: {wanted} expected, {got} found"
        assert len(events) == len(actual[name]), f"{name}: {events} expected, {actual[name]} found"


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_engine_gives_what_siddhi_gave(case: dict[str, Any]) -> None:
    order = case.get("order", "exact")
    assert_same(flat(case["expected"], order), flat(run_case(case), order))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_restart_after_every_step_is_invisible(case: dict[str, Any]) -> None:
    steps = [part for step in case["events"] for part in (step, *RESTART)]
    result = run_case({**case, "events": steps})
    for seen in (*result["streams"].values(), *result["queries"].values(), result.get("on_demand", [])):
        for item in seen:
            item["i"] = item["i"] // (1 + len(RESTART))
    order = case.get("order", "exact")
    assert_same(flat(case["expected"], order), flat(result, order))


def test_names_of_cases_are_unique() -> None:
    names = [case["name"] for case in CASES]
    assert len(names) > 200
    assert len(set(names)) == len(names)
