"""Arguments of windows are checked with the app, and what is wrong is told where it stands."""

from __future__ import annotations

import pytest

from spdist.errors import SiddhiAppError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse

STREAM = "define stream S (v int, k string, d double, at long);"


@pytest.mark.parametrize(
    ("window", "told"),
    [
        ("length('3')", "'window.length' is int, not string"),
        ("length(v)", "'window.length' must be a constant"),
        ("length(1 + 1)", "'window.length' must be a constant"),
        ("length()", "'length' does not take ()"),
        ("lengthBatch(2, 1)", "'stream.current.event' is bool, not int"),
        ("time(1.5)", "'window.time' is int or long, not double"),
        ("time(1 sec, 2)", "'time' does not take (long, int)"),
        ("timeLength(100, 3L)", "'window.length' is int, not long"),
        ("externalTime(1000L, 100)", "'timestamp' must be an attribute"),
        ("externalTime(v, 100)", "'timestamp' is long, not int"),
        ("externalTimeBatch(at, at)", "'window.time' must be a constant"),
        ("delay('x')", "'window.delay'"),
        ("sort('x', v)", "sort"),
        ("sort(2, v, 'down')", "takes 'asc' or 'desc'"),
        ("sort(2)", "sort"),
    ],
)
def test_wrong_arguments_are_refused(window: str, told: str) -> None:
    text = f"{STREAM} from S#window.{window} select v insert into Out;"
    with pytest.raises(SiddhiAppError) as caught:
        check(parse(text), catalog(), text)
    (error,) = caught.value.errors
    assert told in error.message
    assert error.hint
    assert error.span is not None
    assert window in text[error.span.start : error.span.end]


@pytest.mark.parametrize(
    "window",
    [
        "length(3)", "lengthBatch(3, true)", "time(1 sec)", "time(1000)", "time(1000L)", "timeBatch(1 min, 500)",
        "timeBatch(100, true)", "timeLength(1 sec, 2)", "externalTime(at, 1 sec)", "externalTimeBatch(at, 100, 0, 50)",
        "externalTimeBatch(at, 100, at, 50, true)", "batch()", "batch(3)", "delay(1 sec)", "sort(2, v)",
        "sort(2, v, 'desc', k, 'asc', d)",
    ],
)  # fmt: skip
def test_right_arguments_are_taken(window: str) -> None:
    text = f"{STREAM} from S#window.{window} select v insert into Out;"
    assert check(parse(text), catalog(), text).streams["Out"].names == ("v",)
