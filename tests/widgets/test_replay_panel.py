"""Replaying recorded events at a multiple of their speed."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from spdist.errors import ClusterError, MappingError
from spdist.panels.replay import Pace, ReplayPanel, due_events
from tests.widgets.fake_cluster import FakeFeed

FAST = 1e9


@pytest.fixture
def feed() -> FakeFeed:
    return FakeFeed(("carrier", "string"), ("delay", "int"))


@pytest.fixture
def frame() -> pd.DataFrame:
    times = pd.to_datetime([3000, 1000, 2000], unit="ms", utc=True)
    return pd.DataFrame({"timestamp": times, "carrier": ["C", "A", "B"], "delay": [3.0, None, 2.0], "more": [1, 2, 3]})


def test_events_are_sent_in_the_order_of_time(frame: pd.DataFrame, feed: FakeFeed) -> None:
    progress = ReplayPanel(frame, feed, speed=FAST, until_ms=9000).start().wait(timeout_s=20)
    assert feed.events == [(1000, ("A", None)), (2000, ("B", 2)), (3000, ("C", 3))]
    assert feed.advanced == [9000]
    assert (progress.state, progress.sent, progress.event_time_ms) == ("done", 3, 3000)


def test_speed_sets_the_pace() -> None:
    times, pace = [0, 1000, 2000, 60_000], Pace(0.0, 10.0, since_s=0.0)
    due = [due_events(times, pace.at(s)) for s in (0.0, 0.05, 0.1, 0.2, 5.9, 6.0)]
    assert due == [1, 1, 2, 3, 3, 4]
    assert due_events([], 1.0) == 0


def test_a_pace_stands_still_goes_on_and_changes() -> None:
    pace = Pace(1000.0, 2.0).going(10.0)
    assert pace.at(11.0) == 3000
    still = pace.still(11.0)
    assert still.at(99.0) == 3000
    assert still.going(50.0).at(50.5) == 4000
    assert pace.changed(11.0, speed=10.0).at(12.0) == 13_000
    assert pace.changed(11.0, at_ms=500.0).at(12.0) == 2500
    assert still.changed(11.0, speed=10.0).at(12.0) == 3000


def test_a_slow_replay_can_be_waited_for_in_part_and_stopped(feed: FakeFeed) -> None:
    times = pd.to_datetime([0, 100, 10_000_000], unit="ms")
    frame = pd.DataFrame({"timestamp": times, "carrier": ["A", "B", "C"], "delay": [1, 2, 3]})
    panel = ReplayPanel(frame, feed, speed=1.0).start()
    assert panel.wait(2 / 3, timeout_s=20).state == "running"
    panel.stop()
    assert len(feed.events) == 2
    assert panel.fetch().state == "stopped"
    with pytest.raises(ClusterError, match="stopped: 2 of 3 events"):
        panel.wait(timeout_s=20)


def test_waiting_has_an_end(frame: pd.DataFrame, feed: FakeFeed) -> None:
    panel = ReplayPanel(frame, feed)
    with pytest.raises(ClusterError, match="ready: 0 of 3 events"):
        panel.wait(timeout_s=0)


def test_a_feed_that_fails_ends_the_replay_and_says_why(frame: pd.DataFrame, feed: FakeFeed) -> None:
    feed.broken = True
    panel = ReplayPanel(frame, feed, speed=FAST).start()
    with pytest.raises(ClusterError, match="the topic is gone"):
        panel.wait(timeout_s=20)


def test_starting_twice_is_starting_once(frame: pd.DataFrame, feed: FakeFeed) -> None:
    panel = ReplayPanel(frame, feed, speed=FAST)
    panel.start().start().wait(timeout_s=20)
    assert len(feed.events) == 3


def test_progress_stands_on_one_line(frame: pd.DataFrame, feed: FakeFeed, capsys: pytest.CaptureFixture[str]) -> None:
    ReplayPanel(frame, feed, speed=FAST).start().wait(timeout_s=20)
    shown = capsys.readouterr().out
    assert shown.count("\n") <= 2, "how it began, and how it ended"
    assert "done: 3 of 3 events (100 %), 1970-01-01 00:00 in event time" in shown


def test_static_forms_show_the_bar(frame: pd.DataFrame, feed: FakeFeed) -> None:
    panel = ReplayPanel(frame, feed, speed=FAST)
    assert str(panel) == "replay ready: 0 of 3 events (0 %), 0.0 s"
    panel.start().wait(timeout_s=20)
    assert '<progress value="3" max="3">' in panel.to_html()


def slow(feed: FakeFeed) -> ReplayPanel:
    times = pd.to_datetime([0, 1000, 2000, 3000, 10_000_000], unit="ms")
    frame = pd.DataFrame({"timestamp": times, "carrier": list("ABCDE"), "delay": range(5)})
    return ReplayPanel(frame, feed, speed=0.001)


def test_it_goes_step_by_step_and_skips_ahead(feed: FakeFeed, eventually: Callable[..., object]) -> None:
    panel = slow(feed).step()
    eventually(lambda: len(feed.events) == 1, "the first event is sent")
    assert panel.fetch().state == "paused"
    panel.step(2)
    eventually(lambda: len(feed.events) == 3, "two more are sent")
    with pytest.raises(ClusterError, match="stays sent"):
        panel.seek(2)
    with pytest.raises(ClusterError, match="there are 5"):
        panel.seek(6)
    assert panel.seek(5).wait(timeout_s=20).state == "done"
    assert [row[0] for _, row in feed.events] == list("ABCDE")
    assert [len(part) for part in feed.slices] == [1, 2, 2]


def test_it_pauses_and_goes_on_at_another_speed(feed: FakeFeed, eventually: Callable[..., object]) -> None:
    panel = slow(feed).start()
    eventually(lambda: len(feed.events) == 1, "the first event is sent")
    assert panel.pause().fetch().state == "paused"
    panel.set_speed(FAST)
    with pytest.raises(ClusterError, match="paused: 1 of 5"):
        panel.wait(timeout_s=0.5)
    assert panel.start().wait(timeout_s=20).sent == 5
    with pytest.raises(ClusterError, match="cannot run at speed"):
        panel.set_speed(0)


def test_the_widget_starts_it(frame: pd.DataFrame, feed: FakeFeed, eventually: Callable[..., object]) -> None:
    with ReplayPanel(frame, feed, speed=FAST) as panel:
        buttons, *_ = panel.widget().children
        buttons.children[0].click()
        eventually(lambda: len(feed.events) == 3, "all events are sent")
        panel.wait(timeout_s=20)


def test_the_widget_steps_and_skips(feed: FakeFeed, eventually: Callable[..., object]) -> None:
    with slow(feed) as panel:
        buttons, slider, _ = panel.widget().children
        toggle, step, stop, speed = buttons.children
        step.click()
        eventually(lambda: len(feed.events) == 1, "one event is sent")
        slider.value = 3
        eventually(lambda: len(feed.events) == 3, "what lies between is sent")
        panel.refresh()
        assert (slider.value, toggle.description) == (3, "Start")
        slider.value = 1
        panel.refresh()
        assert slider.value == 3, "there is no way back"
        toggle.click()
        panel.refresh()
        assert toggle.description == "Pause"
        speed.value = 100_000.0
        eventually(lambda: len(feed.events) == 5, "it goes on, and faster")
        stop.click()
        eventually(lambda: panel.fetch().state in ("done", "stopped"), "it is over")


def test_a_frame_without_the_streams_columns_is_refused(frame: pd.DataFrame, feed: FakeFeed) -> None:
    with pytest.raises(MappingError, match="no column 'delay'"):
        ReplayPanel(frame.drop(columns="delay"), feed)


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan")])
def test_speed_is_positive(frame: pd.DataFrame, feed: FakeFeed, speed: float) -> None:
    with pytest.raises(ClusterError, match="cannot run at speed"):
        ReplayPanel(frame, feed, speed=speed)
