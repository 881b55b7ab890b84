"""Times in any usual form are ms since 1970; what can only be another unit is never read as 1970."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from spdist.errors import MappingError
from spdist.frames import instant, to_events
from spdist.language.types import Schema

SCHEMA = Schema.of([("v", "int")])
#: 2013-01-01 00:00:01.250 UTC, and the day before.
AT, BEFORE = 1_356_998_401_250, 1_356_912_000_000
NEW_YORK = timezone(timedelta(hours=-5))
#: A datetime without zone.
naive = datetime.fromisoformat


def times_of(times: Any, **said: Any) -> list[int]:
    """The times as they come out, in the order of the rows."""
    events = to_events({"when": times, "v": range(len(times))}, SCHEMA, "when", **said)
    return [ts for ts, _ in sorted(events, key=lambda event: event[1])]


@pytest.mark.parametrize(
    "times",
    [
        ["2013-01-01 00:00:01.250", "2012-12-31"],
        ["2013-01-01T00:00:01.250999Z", "2012-12-30T19:00:00-05:00"],
        [naive("2013-01-01T00:00:01.250999"), naive("2012-12-31")],
        [datetime(2012, 12, 31, 19, 0, 1, 250_000, NEW_YORK), naive("2012-12-31")],
        pd.to_datetime([AT, BEFORE], unit="ms"),
        pd.to_datetime([AT, BEFORE], unit="ms", utc=True).tz_convert("America/New_York"),
        pd.to_datetime([AT, BEFORE], unit="ms").as_unit("us"),
        pd.Series([pd.Timestamp("2013-01-01 00:00:01.250"), naive("2012-12-31")], dtype=object),
        np.array(["2013-01-01T00:00:01.250", "2012-12-31"], "datetime64[ms]"),
        pa.array([AT * 1000 + 999, BEFORE * 1000], pa.timestamp("us", "Asia/Tokyo")),
        pl.Series([naive("2013-01-01T00:00:01.250"), naive("2012-12-31")]),
        pa.array(["2013-01-01 00:00:01.250", "2012-12-31"]).dictionary_encode(),
        [AT, BEFORE],
        [np.int64(AT), float(BEFORE)],
    ],
)
def test_datetimes_texts_and_numbers_are_times(times: Any) -> None:
    assert times_of(times) == [AT, BEFORE]


def test_dates_are_midnight() -> None:
    assert times_of([date(2012, 12, 31), date(1969, 12, 31)]) == [BEFORE, -86_400_000]
    assert times_of(pa.array([date(2012, 12, 31)], pa.date64())) == [BEFORE]
    with pytest.raises(MappingError, match="dates and datetimes"):
        times_of([date(2013, 1, 1), naive("2013-01-01T05:00")])


@pytest.mark.parametrize(
    ("unit", "times", "found"),
    [
        ("s", [1_356_998_401, 0], [1_356_998_401_000, 0]),
        ("s", [1_356_998_401.25, 1.001], [AT, 1001]),
        ("s", [Decimal("1356998401.25")], [AT]),
        ("us", [1_356_998_401_250_999, -1], [AT, -1]),
        ("ns", [1_356_998_401_250_999_999, 0], [AT, 0]),
        ("ns", [1_356_998_401_250_000_000.0], [AT]),
        ("ms", [1_356_998_401], [1_356_998_401]),
        (None, [0, 1000, 60_000], [0, 1000, 60_000]),
        (None, [1_356_998_401, 5], [1_356_998_401, 5]),
        (None, [-86_400_000], [-86_400_000]),
    ],
)
def test_numbers_are_ms_unless_said_otherwise(unit: Any, times: list[Any], found: list[int]) -> None:
    assert times_of(times, time_unit=unit) == found


def test_times_far_from_our_days_are_times() -> None:
    assert times_of(["9999-12-31T23:59:59", "0001-01-01"]) == [253_402_300_799_000, -62_135_596_800_000]
    assert times_of(pa.array([-1], pa.timestamp("us"))) == [-1]


@pytest.mark.parametrize(
    ("times", "unit", "there"),
    [
        ([1_356_998_401, 1_356_998_402], "s", "in the first months of 1970"),
        ([1_356_998_401.5], "s", "in the first months of 1970"),
        ([1_356_998_401_250_000], "us", "after the year 5138"),
        ([1_356_998_401_250_000_000], "ns", "millions of years ahead"),
    ],
)
def test_numbers_that_can_only_be_of_another_unit_are_refused(times: list[Any], unit: str, there: str) -> None:
    for given in (times_of, lambda them: to_events([(time, (1,)) for time in them], SCHEMA)):
        with pytest.raises(MappingError, match=f"look like .*: as ms, .* lies {there}\nHint: pass time_unit='{unit}'"):
            given(times)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([1000, None], "1 rows have no 'when', the first is row 1"),
        (pd.to_datetime([None, "2013-01-01"]), "1 rows have no 'when', the first is row 0"),
        (["2013-01-01", "soon"], "row 1: 'soon' in 'when' is no time\nHint: times are datetimes"),
        (["now"], "row 0: 'now' in 'when' is no time"),
        ([""], "row 0: '' in 'when' is no time"),
        ([1.0, float("nan")], "row 1: nan in 'when' is no time"),
        ([2.0**70], "is no time"),
        ([True, False], "'when' holds no times, but bool: True"),
        ([[1]], "'when' holds no times, but list"),
        ([1, "2013-01-01"], "'when' holds no times, or several kinds of them"),
    ],
)
def test_what_is_no_time_is_named_with_its_row(times: Any, message: str) -> None:
    with pytest.raises(MappingError, match=message):
        times_of(times)


def test_seconds_that_leave_the_range_are_refused() -> None:
    with pytest.raises(MappingError, match="row 0: 9223372036854775807 in 'when' is no time"):
        times_of([2**63 - 1], time_unit="s")


@pytest.mark.parametrize(
    ("columns", "schema", "found"),
    [
        ({"time": [3], "ts": [2], "timestamp": [1]}, SCHEMA, 1),
        ({"time": [3], "ts": [2]}, SCHEMA, 2),
        ({"time": [3]}, SCHEMA, 3),
        ({"timestamp": [1], "time": [3]}, Schema.of([("v", "int"), ("timestamp", "long")]), 3),
        ({"timestamp": [1]}, Schema.of([("v", "int"), ("timestamp", "long")]), 1),
    ],
)
def test_the_usual_names_are_found_those_of_attributes_last(columns: Any, schema: Schema, found: int) -> None:
    assert to_events({"v": [0], **columns}, schema)[0][0] == found


def test_an_index_of_datetimes_goes_before_an_attribute() -> None:
    schema = Schema.of([("ts", "long")])
    frame = pd.DataFrame({"ts": [5]}, index=pd.to_datetime([1000], unit="ms").rename("seen"))
    assert to_events(frame, schema) == [(1000, (5,))]
    assert to_events(frame, schema, time="ts") == [(5, (5,))]


def test_no_column_of_times_is_an_error_that_lists_them() -> None:
    with pytest.raises(MappingError, match=r"called timestamp, ts, time\nHint: pass time='…' .* there are: at, v"):
        to_events({"at": [1], "v": [2]}, SCHEMA)


def test_an_instant_is_a_number_a_text_or_a_datetime() -> None:
    said = (
        AT,
        np.int64(AT),
        "2013-01-01T00:00:01.250",
        datetime(2013, 1, 1, 0, 0, 1, 250_000, UTC),
        pd.Timestamp(AT, unit="ms"),
    )
    assert [instant(one) for one in said] == [AT] * len(said)
    with pytest.raises(MappingError, match=r"^'soon' is no time"):
        instant("soon")
