"""When jobs are due: crontab and Quartz by the clocks of a zone, and what happens when these are changed."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from spdist.jobs.schedules import Period, Schedule, cron_schedule

BERLIN = "Europe/Berlin"
#: Clocks that change by an hour and by half an hour, at midnight too, north and south, and some that do not.
ZONES = [BERLIN, "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo", "Asia/Kolkata", "UTC"]


def ms(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1000


def shown(schedule: Schedule, after: str, count: int, zone: str = BERLIN) -> list[str]:
    """The next times in a zone, after a time in it."""
    at, found = ms(after, zone), []
    for _ in range(count):
        following = schedule.next_after(at)
        assert following is not None
        at = following
        found.append(f"{datetime.fromtimestamp(at / 1000, ZoneInfo(zone)):%m-%d %H:%M %Z}")
    return found


def test_a_period_is_due_at_its_multiples_whenever_one_looks() -> None:
    quarter = Period(15 * 60_000)
    assert quarter.next_after(ms("2026-01-01T10:03:17")) == ms("2026-01-01T10:15:00")
    assert quarter.next_after(ms("2026-01-01T10:15:00")) == ms("2026-01-01T10:30:00")
    assert [str(Period(one)) for one in (1000, 90_000, 900_000, 7_200_000, 1500)] == [
        "every 1s", "every 90s", "every 15min", "every 2h", "every 1500ms",
    ]  # fmt: skip


# Each is written twice: as crontab and as Quartz have it.
NIGHTLY = ["30 2 * * *", "0 30 2 * * ?"]
HOURLY = ["30 * * * *", "0 30 * * * ?"]


@pytest.mark.parametrize("text", NIGHTLY)
def test_a_time_that_is_left_out_is_due_just_after(text: str) -> None:
    found = shown(cron_schedule(text, BERLIN), "2026-03-28T12:00", 2)
    assert found == ["03-29 03:00 CEST", "03-30 02:30 CEST"]


@pytest.mark.parametrize("text", NIGHTLY)
def test_a_time_that_comes_twice_is_due_once(text: str) -> None:
    found = shown(cron_schedule(text, BERLIN), "2026-10-24T12:00", 2)
    assert found == ["10-25 02:30 CEST", "10-26 02:30 CET"]


@pytest.mark.parametrize("text", HOURLY)
def test_what_is_due_every_hour_is_due_in_every_real_hour(text: str) -> None:
    found = shown(cron_schedule(text, BERLIN), "2026-10-25T01:00", 4)
    assert found == ["10-25 01:30 CEST", "10-25 02:30 CEST", "10-25 02:30 CET", "10-25 03:30 CET"]
    found = shown(cron_schedule(text, BERLIN), "2026-03-29T01:00", 2)
    assert found == ["03-29 01:30 CET", "03-29 03:30 CEST"]


def test_days_are_numbered_as_in_each_dialect() -> None:
    sunday = shown(cron_schedule("0 9 * * 0", BERLIN), "2026-01-01T00:00", 3)
    assert sunday == shown(cron_schedule("0 9 * * 7", BERLIN), "2026-01-01T00:00", 3)
    assert sunday == shown(cron_schedule("0 0 9 ? * 1", BERLIN), "2026-01-01T00:00", 3)
    assert sunday[0] == "01-04 09:00 CET"


def test_years_and_seconds_are_quartz() -> None:
    once = cron_schedule("15 30 2 1 1 ? 2027", BERLIN)
    at = ms("2027-01-01T02:30:15", BERLIN)
    assert once.next_after(0) == once.next_after(at - 1) == at
    assert once.next_after(at) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("daily", "five fields as in crontab.*or six or seven fields as in SiddhiQL"),
        ("60 * * * *", r"^five fields as in crontab[^Q]*\(bad minute\)"),
        ("0 0 2 * * *", r"^six or seven fields .*exactly one of day of the month and day of the week must be '\?'"),
        ("0 0 25 * * ?", "'25' is no hour"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 0 30 2 ?", "that comes true"),
        ("* " * 300, "at most 500 characters"),
        ("9" * 490 + " * * * *", "bad minute"),
        ("", "fields"),
    ],
)
def test_what_is_no_expression_is_said(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        cron_schedule(text, "UTC")


# ---------------------------------------------------------------------------------------------------------------- laws
moments = st.integers(ms("2024-01-01T00:00"), ms("2028-01-01T00:00"))
minutes = st.one_of(st.just("*"), st.sampled_from(["*/7", "*/30"]), st.integers(0, 59).map(str))
hours = st.one_of(st.just("*"), st.sampled_from(["*/2", "*/6"]), st.integers(0, 23).map(str))
expressions = st.tuples(minutes, hours, st.sampled_from(["*", "1", "29", "L"]))


@given(expressions, st.sampled_from(["UTC", BERLIN, "America/New_York", "Asia/Kolkata"]), moments)
def test_crontab_is_as_the_library_has_it(fields: tuple[str, str, str], zone: str, since: int) -> None:
    """In zones whose clocks are changed by an hour, and not at midnight."""
    text = "{} {} {} * *".format(*fields)
    schedule, expected = cron_schedule(text, zone), CronSim(text, datetime.fromtimestamp(since // 1000, ZoneInfo(zone)))
    at = since
    for _ in range(30):
        following = next(int(one.timestamp()) * 1000 for one in expected if one.timestamp() * 1000 > at)
        assert schedule.next_after(at) == following
        at = following


@given(expressions, st.sampled_from(ZONES), moments)
def test_both_dialects_mean_the_same(fields: tuple[str, str, str], zone: str, since: int) -> None:
    minute, hour, day = fields
    crontab = cron_schedule(f"{minute} {hour} {day} * *", zone)
    quartz = cron_schedule(f"0 {minute} {hour} {day} * ?", zone)
    for _ in range(30):
        following = crontab.next_after(since)
        assert following == quartz.next_after(since)
        assert following is not None
        assert following > since
        since = following


@given(st.sampled_from(ZONES), st.integers(0, 23).filter(lambda hour: hour != 12), st.integers(0, 59), moments)
def test_what_is_due_daily_is_due_once_each_day(zone: str, hour: int, minute: int, moment: int) -> None:
    """Counted from noon to noon, as clocks are changed at night."""
    day = datetime.fromtimestamp(moment / 1000, ZoneInfo(zone)).replace(hour=12, minute=0, second=0, microsecond=0)
    noon, next_noon = (int(one.timestamp()) * 1000 for one in (day, day + timedelta(days=1)))
    for text in (f"{minute} {hour} * * *", f"0 {minute} {hour} * * ?"):
        schedule = cron_schedule(text, zone)
        first = schedule.next_after(noon)
        assert first is not None
        assert noon < first < next_noon
        second = schedule.next_after(first)
        assert second is not None
        assert second > next_noon


@given(st.sampled_from(ZONES), moments, st.sampled_from(["0 * * * *", "*/10 * * * *", "0 0 * * * ?", "0 0/10 * * * ?"]))
def test_what_repeats_within_a_day_leaves_no_gap(zone: str, since: int, text: str) -> None:
    """Whatever is done with the clocks; half hours of Lord Howe make one of half an hour, or of one and a half."""
    schedule = cron_schedule(text, zone)
    times = []
    at = since
    for _ in range(20):
        following = schedule.next_after(at)
        assert following is not None
        times.append(following - at)
        at = following
    longest = 3_600_000 if "0 * * *" in text else 600_000
    assert max(times) <= (longest + 1_800_000 if zone == "Australia/Lord_Howe" and longest == 3_600_000 else longest)
