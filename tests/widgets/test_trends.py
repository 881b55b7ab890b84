"""From counters in one status after another to the figures of the last ten minutes."""

from __future__ import annotations

import pytest

from spdist.panels.trends import Figures, Point, Trends, percentile
from tests.widgets.statuses import group, status, worker


def told(trends: Trends, name: str = "Shop-a-1", now_s: float = 110.0) -> list[Point]:
    return list(trends.figures(now_s).get(name, Figures()).points)


def test_counters_become_rates_over_the_time_between_two_heartbeats() -> None:
    trends = Trends()
    trends.note(status(group("Shop-a-1", eventsIn=100, eventsOut=10, lag=5), workers=(worker("worker-1", 500),)), 100.0)
    trends.note(status(group("Shop-a-1", eventsIn=160, eventsOut=16, lag=4), workers=(worker("worker-1", 100),)), 101.6)
    first, second = told(trends)
    assert (first.at_s, first.in_per_s, first.lag) == (99.5, None, 5)
    assert (second.at_s, second.in_per_s, second.out_per_s) == pytest.approx((101.5, 30.0, 3.0))


def test_without_a_new_heartbeat_there_is_nothing_new() -> None:
    trends = Trends()
    for now_s, silent_ms in ((100.0, 0), (100.9, 900), (101.9, 1_900), (102.0, 0)):
        trends.note(status(group("Shop-a-1", eventsIn=5), workers=(worker("worker-1", silent_ms),)), now_s)
    assert [point.at_s for point in told(trends)] == [100.0, 102.0]


def test_a_group_that_went_back_to_an_earlier_state_has_no_rate_for_a_moment() -> None:
    trends = Trends()
    for second, count in enumerate((100, 200, 50, 80)):
        trends.note(status(group("Shop-a-1", eventsIn=count)), float(second))
    assert [point.in_per_s for point in told(trends, now_s=4.0)] == [None, 100.0, None, 30.0]


def test_where_it_did_not_run_the_curve_has_a_gap() -> None:
    trends = Trends()
    for second, state in enumerate(("RUNNING", "RUNNING", "WAITING", "WAITING", "RUNNING", "RUNNING")):
        trends.note(status(group("Shop-a-1", state, eventsIn=10.0 * second)), float(second))
    figures = trends.figures(6.0)["Shop-a-1"]
    assert figures.curve("in_per_s") == [(1.0, 10.0), (2.0, None), (5.0, 10.0)]


def test_each_batch_time_counts_once() -> None:
    trends = Trends()
    for second, (batches, ms) in enumerate(((1, 100), (1, 100), (1, 100), (2, 300))):
        trends.note(status(group("Shop-a-1", batches=batches, batchMs=ms)), float(second))
    figures = trends.figures(4.0)["Shop-a-1"]
    assert [value for _, value in figures.curve("batch_ms")] == [100, 300]
    assert (figures.batch_ms(0.5), figures.batch_ms(0.99)) == (100, 300)


def test_it_remembers_ten_minutes_and_600_points() -> None:
    trends = Trends()
    for second in range(1_000):
        there = (group("Shop-a-1", eventsIn=second),) if second < 300 else (group("Shop-b-1", eventsIn=second),)
        trends.note(status(*there), float(second))
    assert set(trends.figures(1_000.0)) == {"Shop-b-1"}, "who is gone for ten minutes is forgotten"
    points = told(trends, "Shop-b-1", 1_000.0)
    assert len(points) <= 600
    assert points[0].at_s >= 400.0


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 2), (0.51, 3), (0.99, 4), (1.0, 4)])
def test_percentiles_are_values_that_there_were(share: float, value: float) -> None:
    assert percentile([4, 1, 3, 2], share) == value
    assert percentile([], share) is None
