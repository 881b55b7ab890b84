"""Replaying recorded events at a multiple of their speed."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from spdist.errors import ClusterError, MappingError
from tests.widgets.fake_cluster import FakeFeed
from widgets.replay import ReplayPanel, due_events

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
    times = [0, 1000, 2000, 60_000]
    assert [due_events(times, s, 10.0) for s in (0.0, 0.05, 0.1, 0.2, 5.9, 6.0)] == [1, 1, 2, 3, 3, 4]
    assert due_events([], 1.0, 10.0) == 0


def test_a_slow_replay_can_be_waited_for_in_part_and_stopped(feed: FakeFeed) -> None:
    times = pd.to_datetime([0, 100, 10_000_000], unit="ms")
    frame = pd.DataFrame({"timestamp": times, "carrier": ["A", "B", "C"], "delay": [1, 2, 3]})
    panel = ReplayPanel(frame, feed, speed=1.0).start()
    assert panel.wait(2 / 3, timeout_s=20).state == "running"
    panel.stop()
    assert len(feed.events) == 2
    assert panel.look().state == "stopped"
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
    assert shown.count("\n") == 1
    assert "done: 3 of 3 events (100 %), 1970-01-01 00:00 in event time" in shown


def test_static_forms_show_the_bar(frame: pd.DataFrame, feed: FakeFeed) -> None:
    panel = ReplayPanel(frame, feed, speed=FAST)
    assert str(panel) == "replay ready: 0 of 3 events (0 %), 0.0 s"
    panel.start().wait(timeout_s=20)
    assert '<progress value="3" max="3">' in panel.to_html()


def test_the_widget_starts_it(frame: pd.DataFrame, feed: FakeFeed, eventually: Callable[..., object]) -> None:
    with ReplayPanel(frame, feed, speed=FAST) as panel:
        buttons, _ = panel.widget().children
        buttons.children[0].click()
        eventually(lambda: len(feed.events) == 3, "all events are sent")
        panel.wait(timeout_s=20)


def test_a_frame_without_the_streams_columns_is_refused(frame: pd.DataFrame, feed: FakeFeed) -> None:
    with pytest.raises(MappingError, match="no column 'delay'"):
        ReplayPanel(frame.drop(columns="delay"), feed)


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan")])
def test_speed_is_positive(frame: pd.DataFrame, feed: FakeFeed, speed: float) -> None:
    with pytest.raises(ClusterError, match="cannot run at speed"):
        ReplayPanel(frame, feed, speed=speed)
