"""Times: calendars that the shared cases do not reach, patterns that are refused, and the clock of the app."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spdist.java.calendars import Fields, Weeks, add_unit, day_number, day_of, weekday, weeks_of
from spdist.java.dates import pattern_of
from spdist.java.dates_zoned import zone_of, zoned_pattern_of
from spdist.replay import run_case

DAY = 86_400_000


@given(st.dates(min_value=date(1583, 1, 1)))
def test_days_are_numbered_as_python_does(day: date) -> None:
    number = (day - date(1970, 1, 1)).days
    assert day_number(day.year, day.month, day.day) == number
    found = day_of(number)
    assert (found.year, found.month, found.day) == (day.year, day.month, day.day)
    assert found.day_of_year == day.timetuple().tm_yday
    assert weekday(number) == day.isoweekday() % 7 + 1


@given(st.integers(-1_000_000, -141_428))
def test_days_before_the_gregorian_calendar_come_back(number: int) -> None:
    day = day_of(number)
    assert day_number(day.year, day.month, day.day) == number


@given(st.dates(min_value=date(1600, 1, 1)))
def test_weeks_from_monday_with_four_days_are_those_of_iso(day: date) -> None:
    assert Weeks(2, 4).of_year((day - date(1970, 1, 1)).days) == day.isocalendar()[:2]


@given(st.integers(0, 4_000_000_000_000))
def test_what_a_full_pattern_writes_it_reads(time: int) -> None:
    for text in (
        "yyyy-MM-dd HH:mm:ss.SSS",
        "yyyyMMddHHmmssSSS",
        "EEEE, d MMMM yyyy 'at' hh:mm:ss.SSS a",
        "D yyyy H.m.s.S",
    ):
        pattern = pattern_of(text)
        assert pattern.read(pattern.write(time)) == time


@given(st.datetimes(timezones=st.just(UTC)))
@example(datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC))
def test_what_a_pattern_of_zones_writes_it_reads(time: datetime) -> None:
    pattern = zoned_pattern_of("yyyy-MM-dd HH:mm:ss.SSSSSS")
    assert pattern.read(pattern.write(time)) == time.replace(tzinfo=None)


@pytest.mark.parametrize("text", ["b", "L", "'open", "XXXX", "yyyy-'", "n"])
def test_patterns_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the pattern"):
        pattern_of(text)


@pytest.mark.parametrize("text", ["yyyyy-MMMMMM", "HHH", "{", "b", "]", "'open"])
def test_patterns_of_zones_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the pattern"):
        zoned_pattern_of(text)


@pytest.mark.parametrize(
    ("start", "amount", "unit", "end"),
    [
        ((2024, 1, 31), 1, "MONTH", (2024, 2, 29)),
        ((2024, 1, 31), -2, "MONTH", (2023, 11, 30)),
        ((2024, 2, 29), 1, "YEAR", (2025, 2, 28)),
        ((2024, 11, 30), 1, "QUARTER", (2025, 2, 28)),
        ((2024, 2, 28), 1, "WEEK", (2024, 3, 6)),
        ((2024, 2, 28), 5, "MILLENNIUM", (2024, 2, 28)),
    ],
)
def test_moving_keeps_to_the_end_of_the_month(start: Any, amount: int, unit: str, end: Any) -> None:
    assert add_unit(day_number(*start) * DAY + 5, amount, unit) == day_number(*end) * DAY + 5


def test_fields_out_of_range_move_the_larger_ones() -> None:
    fields = Fields()
    for name, value in (("year", 2023), ("month", 14), ("day", 32), ("hour", 25)):
        fields.set(name, value)
    assert fields.time(Weeks()) == (day_number(2024, 3, 3) * 24 + 25) * 3_600_000


@pytest.mark.parametrize("locale", ["en GB", "english_GB", "en-GB", "_"])
def test_what_is_no_locale(locale: str) -> None:
    with pytest.raises(ValueError, match="locale"):
        weeks_of(locale)


@pytest.mark.parametrize(("name", "hours"), [("+05:30", 5.5), ("GMT-3", -3), ("EST", -5), ("UTC", 0), ("+0130", 1.5)])
def test_zones_by_offset(name: str, hours: float) -> None:
    assert zone_of(name).utcoffset(None) == timedelta(hours=hours)


@pytest.mark.parametrize("name", ["nope", "+19:00", "", "America/Atlantis"])
def test_what_is_no_zone(name: str) -> None:
    with pytest.raises(ValueError, match="'"):
        zone_of(name)


def test_the_current_time_is_that_of_the_app() -> None:
    calls = "time:currentDate(), time:currentTime(), time:currentTimestamp('IST'), time:utcTimestamp('yy'), "
    selected = ", ".join(f"{call} as a{n}" for n, call in enumerate(calls.removesuffix(", ").split(", ")))
    app = f"define stream S (a int); from S select {selected}, time:timestampInMilliseconds() as ms insert into Out;"
    steps = [{"advance": 1_700_000_000_000}, {"stream": "S", "timestamp": 5, "data": [1]}]
    result = run_case({"app": app, "start": 0, "observe": ["Out"], "events": steps})
    expected = ["2023-11-14", "22:13:20", "2023-11-15 03:43:20", "23", 1_700_000_000_000]
    assert [event["data"] for event in result["streams"]["Out"]] == [expected]


@pytest.mark.parametrize(
    "call",
    [
        "time:date(s)",
        "time:dateAdd(s, 1, s)",
        "time:dateAdd(s, 1L, 'DAY')",
        "time:dateDiff(s, s, 'yyyy')",
        "time:extract(s, 'YEAR')",
        "time:extract('YEAR', s, 'yyyy', 'no locale')",
        "time:currentTimestamp(s)",
        "time:timestampInMilliseconds(1L)",
    ],
)
def test_arguments_that_are_refused(call: str) -> None:
    result = run_case({"app": f"define stream S (s string); from S select {call} as x insert into Out;"})
    assert result["error"]["category"] == "creation"
