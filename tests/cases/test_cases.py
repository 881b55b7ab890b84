"""Apps, what was sent to them, and what Siddhi 5.1 put out: the local engine gives the same, also when it is restarted.

The format is that of `spdist.testing`. Expected results were recorded with the real engine.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from spdist.testing import run_case

FILES = sorted(Path(__file__).parent.glob("*.jsonl"))
CASES = [json.loads(line) for file in FILES for line in file.read_text(encoding="utf-8").splitlines()]
RESTART = ({"persist": True}, {"restart": True}, {"restore": "last"})


def same(expected: Any, actual: Any) -> bool:
    """Whether two results are equal, and of equal types; decimals may differ as recorded decimals do."""
    if isinstance(expected, dict) and list(expected) == ["$double"]:
        expected = float(expected["$double"])
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


def flat(result: dict[str, Any]) -> dict[str, Any]:
    """A result with the chunks of queries joined: how Siddhi cuts them for callbacks is not part of the meaning."""
    shown = dict(result["streams"])
    for name, chunks in result.get("queries", {}).items():
        for kind in ("current", "expired"):
            shown[f"{name} {kind}"] = [{"i": chunk["i"], **event} for chunk in chunks for event in chunk[kind]]
    return shown


def assert_same(expected: dict[str, Any], actual: dict[str, Any]) -> None:
    assert expected.keys() == actual.keys()
    for name, events in expected.items():
        for number, (wanted, got) in enumerate(zip(events, actual[name], strict=False)):
            assert same(wanted, got), f"{name}, event {number}: {wanted} expected, {got} found"
        assert len(events) == len(actual[name]), f"{name}: {events} expected, {actual[name]} found"


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_engine_gives_what_siddhi_gave(case: dict[str, Any]) -> None:
    assert_same(flat(case["expected"]), flat(run_case(case)))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_restart_after_every_step_is_invisible(case: dict[str, Any]) -> None:
    steps = [part for step in case["events"] for part in (step, *RESTART)]
    result = run_case({**case, "events": steps})
    for seen in (*result["streams"].values(), *result["queries"].values()):
        for item in seen:
            item["i"] = item["i"] // (1 + len(RESTART))
    assert_same(flat(case["expected"]), flat(result))


def test_names_of_cases_are_unique() -> None:
    names = [case["name"] for case in CASES]
    assert len(names) > 200
    assert len(set(names)) == len(names)
