"""Decisions of the scheduler in virtual time: no time is forgotten, none is decided on twice, nothing overlaps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.jobs.due import Action, Decision, Standing, due, next_due
from spdist.jobs.schedules import Period, Schedule, cron_schedule

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


@dataclass(frozen=True)
class FakeJob:
    schedule: Schedule
    catch_up: bool = False
    name: str = "j"


def acts(job: FakeJob, decided_ms: int, now_ms: int, *, running: bool = False) -> list[tuple[str, int, int]]:
    standing = Standing(decided_ms, str(job.schedule), running)
    return [(one.action.value, one.due_ms, one.through_ms) for one in due([job], {"j": standing}, now_ms)]


MINUTELY = FakeJob(Period(MINUTE))
HOURLY = FakeJob(Period(HOUR))


def test_at_first_nothing_was_missed() -> None:
    assert due([MINUTELY], {}, 12_345) == [Decision("j", Action.BEGIN, 12_345, 12_345)]
    assert next_due(MINUTELY, None, 12_345) == 12_345


def test_what_is_due_is_started_and_not_before() -> None:
    assert acts(HOURLY, 0, HOUR - 1) == []
    assert acts(HOURLY, 0, HOUR) == [("start", HOUR, HOUR)]
    assert next_due(HOURLY, Standing(0, "every 1h"), 1) == HOUR


def test_a_minute_late_is_on_time_and_later_is_not() -> None:
    assert acts(HOURLY, 0, HOUR + MINUTE) == [("start", HOUR, HOUR)]
    assert acts(HOURLY, 0, HOUR + MINUTE + 1) == [("miss", HOUR, HOUR)]


def test_what_still_runs_is_skipped() -> None:
    assert acts(HOURLY, 0, HOUR, running=True) == [("skip", HOUR, HOUR)]


def test_only_the_last_of_several_times_is_started() -> None:
    found = acts(FakeJob(Period(SECOND)), 0, 3 * SECOND)
    assert found == [("miss", 1000, 1000), ("miss", 2000, 2000), ("start", 3000, 3000)]


def test_missed_times_are_run_once_where_that_is_wanted() -> None:
    night = FakeJob(cron_schedule("0 2 * * *", "UTC"), catch_up=True)
    told = [("miss", 2 * HOUR + day * DAY, 2 * HOUR + day * DAY) for day in (0, 1)]
    assert acts(night, 0, DAY + 3 * HOUR) == [*told, ("catch up", DAY + 2 * HOUR, DAY + 2 * HOUR)]
    assert acts(replace(night, catch_up=False), 0, DAY + 3 * HOUR) == told
    # What is due now stands for all.
    assert acts(night, 0, DAY + 2 * HOUR) == [told[0], ("start", DAY + 2 * HOUR, DAY + 2 * HOUR)]
    assert acts(night, 0, DAY + 3 * HOUR, running=True) == told


def test_a_look_after_a_year_is_as_short_as_one_after_a_day() -> None:
    year = 365 * DAY + 500
    found = acts(FakeJob(Period(SECOND)), 0, year)
    assert len(found) == 102
    assert found[100] == ("miss", 101 * SECOND, year - 501)
    assert found[101] == ("start", year - 500, year - 500)


def test_a_clock_that_is_put_back_decides_on_nothing_twice() -> None:
    assert acts(MINUTELY, 60 * MINUTE, 30 * MINUTE) == []
    assert next_due(MINUTELY, Standing(60 * MINUTE, "every 1min"), 30 * MINUTE) == 61 * MINUTE


def test_a_clock_that_was_far_ahead_does_not_silence_a_job() -> None:
    decided, now = 1000 * DAY, 10 * DAY
    assert acts(MINUTELY, decided, now) == [("begin", now, now)]
    assert next_due(MINUTELY, Standing(decided, "every 1min"), now) == now


def test_a_job_with_another_schedule_begins_anew() -> None:
    assert due([HOURLY], {"j": Standing(0, "every 1min")}, 5 * HOUR) == [
        Decision("j", Action.BEGIN, 5 * HOUR, 5 * HOUR)
    ]


# ---------------------------------------------------------------------------------------------------------------- laws
@dataclass
class Day:
    """A scheduler in virtual time: it looks, runs take their time, it is killed, and clocks are set."""

    job: FakeJob
    now_ms: int
    standing: Standing | None = None
    ends_ms: int = -1
    decided: list[Decision] = field(default_factory=list)
    overlaps: int = 0

    def look(self, takes_ms: int) -> None:
        running = self.ends_ms > self.now_ms
        known = {} if self.standing is None else {"j": replace(self.standing, running=running)}
        for one in due([self.job], known, self.now_ms):
            self.decided.append(one)
            self.standing = Standing(one.through_ms, str(self.job.schedule))
            if one.action in (Action.START, Action.CATCH_UP):
                self.overlaps += self.ends_ms > self.now_ms
                self.ends_ms = self.now_ms + takes_ms


schedules = st.one_of(
    st.integers(1, 7200).map(lambda s: Period(s * SECOND)),
    st.sampled_from(["*/5 * * * *", "30 2 * * *", "0 0/20 * * * ?", "15,45 1-3 * * *"]).map(
        lambda text: cron_schedule(text, "Europe/Berlin")
    ),
)
#: How long until the next look: seconds as a rule, hours where nobody looked; back where the clock was set.
steps = st.one_of(
    st.integers(1, 5 * SECOND), st.integers(1, 10 * MINUTE), st.integers(1, 8 * HOUR), st.integers(-20 * MINUTE, -1)
)
looks = st.lists(st.tuples(steps, st.integers(0, 3 * HOUR)), min_size=1, max_size=40)


@given(schedules, st.booleans(), st.integers(0, 40 * 365 * DAY), looks)
def test_every_time_is_decided_on_once_and_runs_never_overlap(
    schedule: Schedule, catch_up: bool, start_ms: int, looks: list[tuple[int, int]]
) -> None:
    day = Day(FakeJob(schedule, catch_up), start_ms)
    day.look(0)
    newest = start_ms
    for step, takes_ms in looks:
        # Steps back come one by one: together they stay within the hour that is remembered.
        day.now_ms = max(day.now_ms + step, newest - 50 * MINUTE)
        newest = max(newest, day.now_ms)
        day.look(takes_ms)
    begin, *decided = day.decided
    assert begin.action is Action.BEGIN
    assert Action.BEGIN not in {one.action for one in decided}
    assert day.overlaps == 0
    covered = [one for one in decided if one.action is not Action.CATCH_UP]
    # In order, and each begins with the first time that those before have left.
    at = start_ms
    for one in covered:
        assert one.due_ms == schedule.next_after(at)
        assert one.due_ms <= one.through_ms <= newest
        at = one.through_ms
    following = schedule.next_after(at)
    assert following is None or following > newest


@given(schedules, st.integers(0, 40 * 365 * DAY), looks)
def test_nothing_starts_late_but_to_catch_up(schedule: Schedule, start_ms: int, looks: list[tuple[int, int]]) -> None:
    day = Day(FakeJob(schedule, catch_up=True), start_ms)
    day.look(0)
    for step, takes_ms in looks:
        day.now_ms = max(start_ms, day.now_ms + abs(step))
        before = len(day.decided)
        day.look(takes_ms)
        found = day.decided[before:]
        started = [one for one in found if one.action in (Action.START, Action.CATCH_UP)]
        assert len(started) <= 1
        for one in started:
            late = day.now_ms - one.through_ms
            if one.action is Action.START:
                assert late <= MINUTE
            else:
                assert found[-2].action is Action.MISS


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_next_due_says_when_due_decides(zone: str) -> None:
    job = FakeJob(cron_schedule("0 2 * * *", zone))
    standing = Standing(0, str(job.schedule))
    at = next_due(job, standing, 1)
    assert at is not None
    assert due([job], {"j": standing}, at - 1) == []
    assert [one.action for one in due([job], {"j": standing}, at)] == [Action.START]
