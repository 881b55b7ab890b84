"""A cluster at a glance, and waiting with progress on one line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spdist.cluster.messages import GroupPhase
from spdist.errors import ClusterError, DeploymentTimeoutError
from tests.widgets.fake_cluster import TEXT, FakeCluster
from widgets.monitor import MonitorPanel


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.deploy(TEXT)
    return made


def test_text_shows_nodes_and_group_instances(cluster: FakeCluster) -> None:
    cluster.run_on("worker-1")
    lines = [line.split() for line in str(MonitorPanel(cluster)).splitlines()]
    assert lines[0] == ["Cluster", "test:", "manager-1", "leads", "in", "term", "1"]
    assert ["manager-1", "manager", "leads"] in lines
    assert ["manager-2", "manager", "stands", "by"] in lines
    assert ["Shop-large-1", "RUNNING", "worker-1"] in lines


def test_a_group_that_waits_says_why(cluster: FakeCluster) -> None:
    assert "no worker has joined" in str(MonitorPanel(cluster))


def test_html_escapes_what_groups_say(cluster: FakeCluster) -> None:
    cluster.run_on("worker-1", GroupPhase.FAILED, "<script>alert(1)</script>")
    html = MonitorPanel(cluster).to_html()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html


def test_a_cluster_that_is_away_is_said_and_not_raised(cluster: FakeCluster) -> None:
    cluster.away = True
    panel = MonitorPanel(cluster)
    assert "no manager answered" in str(panel)
    assert "no manager answered" in panel._repr_mimebundle_()["text/html"]


def test_waiting_shows_how_far_it_is_on_one_line(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.run_on("worker-1")
    counts = iter([3, 10])
    MonitorPanel(cluster).wait(lambda: (next(counts), 10), "alerts", beside="half is sent")
    shown = capsys.readouterr().out
    assert shown.count("\n") == 1
    assert "3 of 10 alerts; 3 groups RUNNING; half is sent" in shown
    assert "10 of 10 alerts" in shown


def test_waiting_goes_on_while_the_cluster_is_away(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    answers: list[Callable[[], tuple[int, int]]] = [lambda: (1, 1)]

    def progress() -> tuple[int, int]:
        cluster.away = not cluster.away
        if cluster.away:
            raise ClusterError("no manager leads")
        return answers[0]()

    MonitorPanel(cluster).wait(progress, "alerts")
    assert "no manager answered" in capsys.readouterr().out


def test_waiting_too_long_says_how_the_groups_were_doing(cluster: FakeCluster) -> None:
    with pytest.raises(DeploymentTimeoutError, match="2 of 10 alerts after 0 s") as caught:
        MonitorPanel(cluster).wait(lambda: (2, 10), "alerts", timeout_s=0)
    assert "Shop-large-1" in str(caught.value)


def test_the_live_widget_follows_the_cluster(cluster: FakeCluster, eventually: Callable[..., object]) -> None:
    with MonitorPanel(cluster) as panel:
        box = panel.widget()
        assert panel.widget() is box
        eventually(lambda: "WAITING" in box.children[-1].value, "the widget shows the groups")
        cluster.run_on("worker-1")
        eventually(lambda: "RUNNING" in box.children[-1].value, "the widget shows that the groups run")
        cluster.away = True
        eventually(lambda: "no manager answered" in box.children[-1].value, "the widget shows that nobody answers")
        assert "RUNNING" in box.children[-1].value, "what was known last stays"
    after = cluster.looks
    assert panel.refresh() is False
    assert cluster.looks == after + 1
