"""One question a second for all panels of a cluster, in one thread that ends with them."""

from __future__ import annotations

import gc
import math
import threading
import time
from collections.abc import Callable

import pytest

from spdist.errors import ClusterError
from spdist.panels import DeployPanel, MonitorPanel, TopologyPanel
from spdist.panels.poller import Awaited, Inquiry, PolledValue, Poller, next_due
from spdist.panels.watch import watch_of
from tests.widgets.fake_cluster import TEXT, FakeCluster

Eventually = Callable[..., object]


class Follower:
    """Wants one answer, and keeps what it was told."""

    def __init__(self, poller: Poller, inquiry: Inquiry[int]) -> None:
        self.poller, self.inquiry = poller, inquiry
        self.told: list[int | str] = []

    def refresh(self) -> bool:
        try:
            self.told.append(self.poller.answer(self.inquiry))
        except Awaited:
            self.told.append("asking")
        except ClusterError as error:
            self.told.append(error.message)
        return True


def test_what_was_never_asked_comes_first_then_what_is_overdue_for_longest() -> None:
    a, b, c = (Inquiry(name, int, every) for name, every in (("a", 1.0), ("b", 5.0), ("c", math.inf)))
    assert next_due([], {}) is None
    assert next_due([a, b, c], {"a": PolledValue(10.0)}) == (b, -math.inf)
    answers = {"a": PolledValue(14.5), "b": PolledValue(10.0), "c": PolledValue(0.0)}
    assert next_due([a, b, c], answers) == (b, 15.0)
    assert next_due([c], answers) == (c, math.inf)
    assert next_due([c], {"c": PolledValue(3.0, error=ClusterError("away"))}) == (c, 4.0), "what failed is asked again"


def test_followers_never_wait_and_are_told_the_last_answer(eventually: Eventually) -> None:
    poller = Poller()
    answered = threading.Event()

    def ask() -> int:
        answered.wait(20)
        return 7

    one, other = (Follower(poller, Inquiry("x", ask)) for _ in range(2))
    poller.follow(one)
    poller.follow(other)
    eventually(lambda: one.told and other.told, "both have looked")
    answered.set()
    eventually(lambda: one.told[-1] == 7 == other.told[-1], "both were told")
    assert one.told[0] == "asking"
    poller.leave(one)
    poller.leave(other)


def test_outside_of_its_thread_it_asks_unless_it_has_just_been_told() -> None:
    asked: list[int] = []
    poller = Poller()
    inquiry = Inquiry("x", lambda: asked.append(1) or len(asked))
    assert [poller.answer(inquiry) for _ in range(2)] == [1, 2]
    assert poller.answer(inquiry, max_age_s=60.0) == 2


def test_a_failure_is_told_and_asked_again(eventually: Eventually) -> None:
    poller = Poller()
    answers = iter([ClusterError("away"), 3])

    def ask() -> int:
        answer = next(answers)
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    follower = Follower(poller, Inquiry("x", ask, math.inf))
    poller.follow(follower)
    eventually(lambda: follower.told[-1:] == [3], "it is asked again")
    assert follower.told[:2] == ["asking", "away"]


def test_a_panel_that_fails_takes_no_other_with_it(eventually: Eventually) -> None:
    class Broken(Follower):
        def refresh(self) -> bool:
            super().refresh()
            raise RuntimeError("a defect")

    poller = Poller()
    inquiry = Inquiry("x", lambda: 1, 0.0)
    broken, fine = Broken(poller, inquiry), Follower(poller, inquiry)
    poller.follow(broken)
    poller.follow(fine)
    eventually(lambda: len(fine.told) > 2, "it goes on")
    assert len(broken.told) < len(fine.told)
    poller.leave(fine)


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "spdist-panels"]


@pytest.fixture
def cluster(eventually: Eventually) -> FakeCluster:
    eventually(lambda: gc.collect() >= 0 and not threads(), "nobody follows from the tests before")
    made = FakeCluster()
    made.deploy(TEXT)
    return made


def test_all_panels_of_a_cluster_share_one_thread_and_one_request_a_second(
    cluster: FakeCluster, eventually: Eventually
) -> None:
    panels = [MonitorPanel(cluster), TopologyPanel(cluster.deployment("Shop")), DeployPanel(cluster, TEXT)]
    began_s, before = time.monotonic(), cluster.looks
    for panel in panels:
        panel.widget()
    assert len({id(panel.poller) for panel in panels}) == len(threads()) == 1
    eventually(lambda: all("WAITING" in p.widget().children[-1].value for p in panels), "all have seen it")
    eventually(lambda: cluster.looks - before >= 4, "they go on looking")
    assert cluster.looks - before <= 1 + (time.monotonic() - began_s)
    for panel in panels:
        panel.stop()
    eventually(lambda: not threads(), "the thread ends with the last panel")


def test_a_panel_that_nobody_has_any_more_is_not_followed(cluster: FakeCluster, eventually: Eventually) -> None:
    panel = MonitorPanel(cluster)
    watch_of(cluster).poller.follow(panel)
    assert threads()
    del panel
    eventually(lambda: gc.collect() >= 0 and not threads(), "the thread ends")


def test_a_cluster_that_was_never_started_is_told() -> None:
    class NotStarted:
        def __repr__(self) -> str:
            return "LocalCluster(not running)"

    assert "start it first" in str(MonitorPanel(NotStarted()))  # type: ignore[arg-type]
    assert MonitorPanel(NotStarted()).poller is MonitorPanel(NotStarted()).poller  # type: ignore[arg-type]
