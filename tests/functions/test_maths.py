"""The ``math:`` functions where recorded cases do not reach: chance, percentiles, and what is refused."""

from __future__ import annotations

import math

import pytest

from spdist.engine.local.app import LocalApp, run
from spdist.errors import SiddhiAppError
from spdist.extension import catalog
from spdist.functions.maths import Percentile, percentile_of
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse

NAMES = (
    "abs acos asin atan bin cbrt ceil conv copySign cos cosh e exp floor getExponent hex isInfinite isNan "
    "ln log log10 log2 max min oct parseDouble parseFloat parseInt parseLong pi power rand round signum "
    "sin sinh sqrt tan tanh toDegrees toRadians "
)
STREAM = "define stream S (k string, i int, d double);"


def app_of(query: str) -> LocalApp:
    return LocalApp(check(parse(f"{STREAM} {query}"), catalog()))


def test_all_functions_of_the_family_are_there() -> None:
    known = catalog()
    assert {f"math:{name}" for name in NAMES.split()} <= set(known.functions)
    assert "math:percentile" in known.aggregators
    assert len(NAMES.split()) + 1 == 42


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("math:abs()", r"'math:abs' does not take \(\)"),
        ("math:acos(i)", "'math:acos' does not take"),
        ("math:ceil(i)", "'math:ceil' does not take"),
        ("math:round(i)", "'math:round' does not take"),
        ("math:rand(i)", "a constant whole number"),
        ("math:rand(1.5)", "a constant whole number"),
        ("math:rand(1, 2)", "a constant whole number"),
        ("math:percentile(i, d)", "a constant double"),
        ("math:percentile(i, 50)", "a constant double"),
        ("math:percentile(i)", "a constant double"),
        ("math:percentile(i, 0.0)", "above 0 and at most 100"),
        ("math:percentile(i, 100.5)", "above 0 and at most 100"),
    ],
)
def test_wrong_arguments_are_refused(expression: str, told: str) -> None:
    with pytest.raises(SiddhiAppError, match=told):
        app_of(f"from S select {expression} as x insert into Out;")


def test_random_numbers_differ_and_repeat_in_a_replay() -> None:
    text = f"{STREAM} from S select math:rand() as x, math:rand() as y insert into Out;"
    rows = [row for _, row in run(text, {"S": [(1, ("a", 1, 1.0)), (2, ("a", 1, 1.0))]})["Out"]]
    numbers = [number for row in rows for number in row]
    assert len(set(numbers)) == 4
    assert all(0 <= number < 1 for number in numbers)
    assert [row for _, row in run(text, {"S": [(1, ("a", 1, 1.0)), (2, ("a", 1, 1.0))]})["Out"]] == rows


def test_seeded_numbers_go_on_after_a_restart() -> None:
    query = "from S select math:rand(42) as x insert into Out;"
    seen: list[float] = []
    app = app_of(query)
    app.subscribe("Out", lambda _ts, row: seen.append(row[0]))
    app.send("S", 1, ("a", 1, 1.0))
    copy = app_of(query)
    copy.restore(app.snapshot())
    copy.subscribe("Out", lambda _ts, row: seen.append(row[0]))
    copy.send("S", 2, ("a", 1, 1.0))
    # The first two doubles of new java.util.Random(42).
    assert seen == [0.7275636800328681, 0.6832234717598454]


@pytest.mark.parametrize(
    ("percent", "expected"), [(50.0, 2.5), (25.0, 1.5), (100.0, 4.0), (1.0, 1.0), (60.0, 2.0), (63.0, 3.0), (99.0, 4.0)]
)
def test_percentiles(percent: float, expected: float) -> None:
    assert percentile_of([1.0, 2.0, 3.0, 4.0], percent) == expected


def test_a_percentile_is_that_of_its_group_and_of_what_has_not_left() -> None:
    query = "from S#window.length(2) select k, math:percentile(i, 50.0) as p group by k insert all events into Out;"
    seen: list[tuple[object, ...]] = []
    app = app_of(query)
    app.subscribe("Out", lambda _ts, row: seen.append(row))
    for time, (key, number) in enumerate([("a", 1), ("b", 100), ("a", 3)]):
        app.send("S", time, (key, number, 0.0))
    assert seen == [("a", 1.0), ("b", 100.0), ("a", 3.0)]
    state = Percentile.add(Percentile.add(Percentile.initial(), (1, 50.0)), (2, 50.0))
    assert Percentile.result(Percentile.remove(state, (1, 50.0))) == 2.0
    assert Percentile.result(Percentile.remove(state, (2, 50.0))) is None
    with pytest.raises(ValueError, match="takes no null"):
        Percentile.add(state, (None, 50.0))


def test_a_percentile_orders_numbers_as_java_does() -> None:
    state = Percentile.initial()
    for number in (3.0, math.nan, 0.0, -0.0, 1.0, math.nan):
        Percentile.add(state, (number, 50.0))
    assert [str(one) for one in state[1]] == ["-0.0", "0.0", "1.0", "3.0", "nan", "nan"]
    for number in (0.0, math.nan, 3.0, math.nan):
        Percentile.remove(state, (number, 50.0))
    assert [str(one) for one in state[1]] == ["-0.0", "1.0"]
