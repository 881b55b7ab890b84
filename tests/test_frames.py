"""Between pandas and events."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spdist.errors import MappingError
from spdist.frames import to_events, to_frame, to_row
from spdist.language.types import Schema, Type

SCHEMA = Schema.of([("name", "string"), ("count", "int"), ("mean", "double"), ("late", "bool")])


def frame(**columns: list[object]) -> pd.DataFrame:
    given = {"timestamp": [2000, 1000], "name": ["b", "a"], "count": [2, 1], "mean": [0.5, 1], "late": [True, False]}
    return pd.DataFrame({**given, **columns})


def test_rows_become_events_in_the_order_of_time_with_pythons_own_types() -> None:
    events = to_events(frame(), SCHEMA)
    assert events == [(1000, ("a", 1, 1.0, False)), (2000, ("b", 2, 0.5, True))]
    assert [type(value) for value in (events[0][0], *events[0][1])] == [int, str, int, float, bool]


def test_what_is_missing_becomes_null() -> None:
    events = to_events(frame(name=[None, "a"], count=[float("nan"), 1], mean=[pd.NA, 2], late=[None, True]), SCHEMA)
    assert [row for _, row in events] == [("a", 1, 2.0, True), (None, None, None, None)]


def test_rows_of_one_time_keep_their_order() -> None:
    many = pd.DataFrame({"timestamp": [5] * 100, "v": range(100)})
    assert [row[0] for _, row in to_events(many, Schema.of([("v", "int")]))] == list(range(100))


@pytest.mark.parametrize(
    "times",
    [
        ["2013-01-01 00:00:01", "2013-01-01 00:00:00.250"],
        pd.to_datetime(["2012-12-31 19:00:01.000", "2012-12-31 19:00:00.250"]).tz_localize("America/New_York"),
        pd.to_datetime(["2013-01-01 00:00:01.000", "2013-01-01 00:00:00.250"]).as_unit("us"),
    ],
)
def test_times_are_ms_since_1970_in_utc(times: object) -> None:
    events = to_events(frame().assign(timestamp=times), SCHEMA)
    assert [ts for ts, _ in events] == [1_356_998_400_250, 1_356_998_401_000]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"timestamp": [1000, None]}, "1 rows have no timestamp"),
        ({"timestamp": ["soon", "later"]}, "holds no times"),
        ({"count": [1.5, 2.0]}, "column 'count' is of type int, 1.5 is not a whole number"),
        ({"count": ["x", "y"]}, "column 'count' does not fit"),
    ],
)
def test_what_does_not_fit_is_refused(columns: dict[str, list[object]], message: str) -> None:
    with pytest.raises(MappingError, match=message):
        to_events(frame(**columns), SCHEMA)


def test_columns_that_are_not_there_are_named() -> None:
    with pytest.raises(MappingError, match="no column 'at', 'mean'"):
        to_events(frame().drop(columns="mean"), SCHEMA, time="at")


def test_numbers_of_numpy_are_numbers() -> None:
    schema = Schema((("a", Type.INT), ("b", Type.DOUBLE), ("c", Type.FLOAT)))
    row = to_row([np.int64(3), np.float32(0.5), np.int16(2)], schema, "S")
    assert row == (3, 0.5, 2.0)
    assert [type(value) for value in row] == [int, float, float]


def test_events_become_a_frame_indexed_by_time() -> None:
    made = to_frame([(0, ("a", 1)), (1500, ("b", None))], ["name", "count"])
    assert list(made.columns) == ["name", "count"]
    assert [str(at) for at in made.index] == ["1970-01-01 00:00:00+00:00", "1970-01-01 00:00:01.500000+00:00"]
    assert made["name"].tolist() == ["a", "b"]
    assert to_frame([], SCHEMA).empty


def test_there_and_back() -> None:
    events = [(1000, ("a", 1, 1.0, False)), (2000, ("b", 2, 0.5, True))]
    assert to_events(to_frame(events, SCHEMA).reset_index(), SCHEMA, time="time") == events
