"""A total over a sliding window is the total over what the window holds, and its state goes where its events go."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from statistics import pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.engine.local.app import LocalApp, run
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse

Values = Sequence[int | None]


def known(values: Values) -> list[int]:
    return [value for value in values if value is not None]


def when_any(compute: Callable[[list[int]], object]) -> Callable[[Values], object]:
    return lambda values: compute(known(values)) if known(values) else None


MEANINGS: dict[str, Callable[[Values], object]] = {
    "sum(v)": when_any(sum),
    "avg(v)": when_any(lambda values: sum(values) / len(values)),
    "count()": len,
    "count(v)": len,
    "distinctCount(k)": lambda values: len({str(value) for value in values}),
    "stdDev(v)": when_any(lambda values: pstdev(values) if len(values) > 1 else 0.0),
}


@pytest.mark.parametrize("call", MEANINGS)
@given(values=st.lists(st.none() | st.integers(-5, 5), max_size=30), length=st.integers(1, 4))
def test_a_sliding_total_is_the_total_of_the_window(call: str, values: Values, length: int) -> None:
    text = f"define stream S (v int, k string); from S#window.length({length}) select {call} as x insert into Out;"
    arrivals = [(time, (value, str(value))) for time, value in enumerate(values)]
    window: deque[int | None] = deque(maxlen=length)
    for (_, (found,)), value in zip(run(text, {"S": arrivals}).get("Out", []), values, strict=True):
        window.append(value)
        expected = MEANINGS[call](window)
        if isinstance(expected, float):
            assert isinstance(found, float)
            # Values that are all alike may leave a variance a little below 0, whose root Siddhi takes as it is.
            close = math.isclose(found, expected, abs_tol=1e-6)
            assert close or (call == "stdDev(v)" and expected == 0.0 and math.isnan(found))
        else:
            assert found == expected


@given(st.lists(st.integers(-50, 50), max_size=30, unique=True), st.integers(1, 4))
def test_extremes_are_those_of_the_window(values: list[int], length: int) -> None:
    text = f"define stream S (v int); from S#window.length({length}) select min(v) as lo, max(v) as hi insert into Out;"
    out = run(text, {"S": [(time, (value,)) for time, value in enumerate(values)]}).get("Out", [])
    held = [values[max(0, end - length) : end] for end in range(1, len(values) + 1)]
    assert [row for _, row in out] == [(min(part), max(part)) for part in held]


def test_a_leaving_value_takes_its_later_equal_along_as_in_siddhi() -> None:
    text = "define stream S (v int); from S#window.length(3) select min(v) as lo insert into Out;"
    out = run(text, {"S": [(time, (value,)) for time, value in enumerate([1, 0, 1, 5, 5])]})["Out"]
    assert [row for _, row in out] == [(1,), (0,), (0,), (0,), (5,)]  # the last window is 1, 5, 5


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.integers(-5, 5)), max_size=30))
def test_minimum_and_maximum_of_all_time_remember(values: list[tuple[str, int]]) -> None:
    items = "minForever(v) as lo, maxForever(v) as hi"
    text = f"define stream S (k string, v int); from S#window.length(1) select {items} insert into Out;"
    out = run(text, {"S": list(enumerate(values))}).get("Out", [])
    assert [row for _, row in out] == [
        (min(v for _, v in values[: end + 1]), max(v for _, v in values[: end + 1])) for end in range(len(values))
    ]


def test_a_group_is_forgotten_when_its_last_event_has_left() -> None:
    query = "from S#window.length(2) select k, sum(v) as s, count() as n group by k insert into Out;"
    text = f"define stream S (k string, v int); {query}"
    app = LocalApp(check(parse(text), catalog()))
    sizes = []
    for number in range(200):
        app.send("S", 100_000 + number, (f"key {number:04}", 1))
        sizes.append(len(app.snapshot()))
    assert max(sizes[20:]) == min(sizes[20:])
