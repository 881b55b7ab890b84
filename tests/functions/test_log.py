"""The stream function ``log``: what it takes, and what it writes."""

from __future__ import annotations

import logging

import pytest

from spdist.engine.local.app import run
from spdist.errors import SiddhiAppError

STREAM = "define stream S (s string, b bool);"


@pytest.mark.parametrize(
    ("arguments", "level", "message"),
    [("s", "INFO", "a"), ("'WARN', s", "WARNING", "a"), ("'error', 'x', true", "ERROR", "x"), ("true", "INFO", "")],
)
def test_a_message_is_written(arguments: str, level: str, message: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "spdist.app"):
        out = run(f"{STREAM} from S#log({arguments}) select s insert into Out;", {"S": [(1, ("a", True))]})
    assert out == {"Out": [(1, ("a",))]}
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [(level, message)]


@pytest.mark.parametrize("arguments", ["s, 'x'", "'INFO', s, b", "b", "true, 'x'", "'x', 'y'", "'INFO', 'x', 'y'"])
def test_wrong_arguments_are_refused(arguments: str) -> None:
    with pytest.raises(SiddhiAppError):
        run(f"{STREAM} from S#log({arguments}) select s insert into Out;", {})
