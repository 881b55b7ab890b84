"""Calendar buckets and written times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.errors import AppValidationError, SiddhiTypeError
from spdist.language.durations import DURATIONS, duration_of, period
from spdist.operators.aggregations.time import Calendar, instant, time_range

T = 1_699_920_000_000  # 2023-11-14 00:00:00 GMT
DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2023-11-14 00:00:00", T),
        (" 2023-11-14 00:00:05 ", T + 5_000),
        ("2023-11-13 24:00:00", T),
        ("2023-11-14 05:30:00 +05:30", T),
        ("2023-11-13 13:00:00 -11:00", T),
        ("2023-11-13 23:59:60", T - 1_000),
        ("9999-12-31 24:00:00", 253_402_300_800_000),
        ("0000-02-29 00:00:00", -62_162_121_600_000),
    ],
)
def test_written_times(text: str, time: int) -> None:
    assert instant(text) == time


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2023-11-14",
        "2023-11-14T00:00:00",
        "2023-13-01 00:00:00",
        "2023-02-30 00:00:00",
        "2023-11-14 00:00:61",
        "2023-11-14 23:59:60 +00:00",
        "٢٠٢٣-11-14 00:00:00",
        "2023-11-14 24:00:00 +01:00",
        "2023-11-14 00:00:00 +19:00",
        "2023-11-14 00:00:00  +01:00",
        "2023-11-14 **:**:**",
    ],
)
def test_texts_that_are_no_times(text: str) -> None:
    with pytest.raises(SiddhiTypeError, match="is no time"):
        instant(text)


@pytest.mark.parametrize(
    ("text", "start", "length"),
    [
        ("2023-11-14 00:00:01", T + 1_000, 1_000),
        ("2023-11-14 00:01:**", T + 60_000, 60_000),
        ("2023-11-14 01:**:**", T + 3_600_000, 3_600_000),
        (" 2023-11-14 **:**:** ", T, DAY),
        ("2023-11-14 **:**:** +01:00", T - 3_600_000, DAY),
        ("2023-11-** **:**:**", T - 13 * DAY, 30 * DAY),
        ("2024-02-** **:**:** -02:00", 1_706_745_600_000 + 7_200_000, 29 * DAY),
        ("2023-12-** **:**:**", 1_701_388_800_000, 31 * DAY),
        ("2024-**-** **:**:**", 1_704_067_200_000, 366 * DAY),
        ("9999-12-** **:**:**", 253_402_300_800_000 - 31 * DAY, 31 * DAY),
    ],
)
def test_stars_stand_for_all_of_what_is_in_front_of_them(text: str, start: int, length: int) -> None:
    assert time_range(text) == (start, start + length)


def test_two_bounds_may_be_numbers_or_texts() -> None:
    assert time_range(T, "2023-11-14 00:00:02") == (T, T + 2_000)
    with pytest.raises(SiddhiTypeError, match="not before its end"):
        time_range(T, T)
    with pytest.raises(SiddhiTypeError, match="null"):
        time_range(None, T)


@pytest.mark.parametrize("zone", ["GMT", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "Australia/Lord_Howe"])
@pytest.mark.parametrize("duration", DURATIONS)
@given(time=st.integers(0, 4_000_000_000_000) | st.integers(-(10**16), 10**16))
def test_buckets_cover_time_without_gaps(zone: str, duration: str, time: int) -> None:
    bucket = Calendar(zone).bucket(duration)
    start, end = bucket(time)
    assert start <= time < end
    assert bucket(start) == (start, end) == bucket(end - 1)
    assert bucket(end)[0] == end


def test_hours_and_days_are_those_of_the_zone() -> None:
    kolkata = Calendar("Asia/Kolkata")
    assert kolkata.bucket("hour")(T) == (T - 1_800_000, T + 1_800_000)
    assert kolkata.bucket("day")(T) == (T - 19_800_000, T - 19_800_000 + DAY)
    with pytest.raises(SiddhiTypeError, match="no time zone"):
        Calendar("Nowhere/Else")


def test_an_hour_that_comes_twice_is_one_bucket() -> None:
    bucket = Calendar("America/New_York").bucket("hour")
    first = 1_699_160_400_000  # 2023-11-05 01:00 of summer time
    assert bucket(first) == bucket(first + 5_400_000) == (first, first + 7_200_000)


def test_periods_and_words() -> None:
    assert period("10 sec") == 10_000
    assert period("1 day 1 hour") == DAY
    assert duration_of("H") == "hour"
    # Python reads no number of more than 4300 digits
    for text in ("10", "sec", "3 weeks", "9" * 5000 + " sec"):
        with pytest.raises(AppValidationError):
            period(text)
