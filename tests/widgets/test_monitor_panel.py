"""A cluster at a glance, and waiting with progress on one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from spdist.cluster.clients.overview import GroupStatus
from spdist.cluster.protocol.messages import GroupPhase
from spdist.errors import ClusterError, DeploymentTimeoutError
from spdist.panels.absent import Absent
from spdist.panels.group_rows import ORDERS, group_rows
from spdist.panels.monitor import Monitored, MonitorPanel
from spdist.panels.panel import Panel
from spdist.panels.trends import Trends
from spdist.panels.watch import ClusterView
from tests.widgets.fake_cluster import TEXT, FakeCluster
from tests.widgets.statuses import group, status, worker


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.deploy(TEXT)
    return made


def test_text_shows_nodes_and_group_instances(cluster: FakeCluster) -> None:
    cluster.run_on("worker-1")
    lines = [line.split() for line in str(MonitorPanel(cluster)).splitlines()]
    assert " ".join(lines[0]) == "Cluster test: manager-1 leads in term 1; 3 groups RUNNING"
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
    MonitorPanel(cluster).wait(lambda: (next(counts), 10), "alerts", also_shown="half is sent")
    shown = capsys.readouterr().out
    assert shown.count("\n") == 2, "how it began, and how it ended"
    assert "3 of 10 alerts; 3 groups RUNNING; half is sent" in shown
    assert "10 of 10 alerts" in shown


def test_the_former_name_of_what_a_panel_fetches_still_works() -> None:
    forms = {"text_of": lambda self, view: view, "html_of": lambda self, view: view}
    with pytest.warns(DeprecationWarning, match="Former.look is called fetch now") as warned:
        former = type("Former", (Panel,), {**forms, "look": lambda self: "seen"})
    assert warned[0].filename == __file__
    assert str(former()) == former().fetch() == "seen"
    with pytest.warns(DeprecationWarning, match="Panel.look is called fetch now"):
        assert type("Present", (Panel,), {**forms, "fetch": lambda self: "seen"})().look() == "seen"


def test_the_former_name_of_what_is_also_shown_still_works(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.warns(DeprecationWarning, match="the parameter beside is also_shown now") as warned:
        MonitorPanel(cluster).wait(lambda: (1, 1), "alerts", beside="half is sent")
    assert warned[0].filename == __file__
    assert "half is sent" in capsys.readouterr().out
    with pytest.raises(TypeError, match="unknown parameter: besides"):
        MonitorPanel(cluster).wait(lambda: (1, 1), "alerts", besides="half is sent")


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


def monitored(*groups: GroupStatus, **fields: Any) -> Monitored:
    """What a monitor sees after half a minute in which each group had one more event in each second."""
    trends = Trends()
    for second in range(31):
        now = [replace(g, metrics={**g.metrics, "eventsIn": g.metrics.get("eventsIn", 0) + second}) for g in groups]
        trends.note(status(*now, **fields), float(second))
    return Monitored(ClusterView(status(*now, **fields), 30.0, trends.figures(30.0)))


def test_each_figure_that_changes_has_its_curve() -> None:
    view = monitored(group("Shop-a-1", lag=3, batches=1, batchMs=250, stateBytes=2e6))
    html = MonitorPanel(FakeCluster()).html_of(view)
    assert html.count("<polyline") == 3, "in/s, lag and state; there was one batch, and nothing went out"
    assert "p50 250 ms, p99 250 ms" in html
    assert "2.0 MB" in html


def test_a_group_can_be_shown_large_and_groups_sorted() -> None:
    panel = MonitorPanel(FakeCluster())
    view = monitored(group("Shop-a-1", lag=3), group("Shop-b-1", "FAILED", lag=1), group("Shop-c-1", lag=9))
    names = ("Shop-a-1", "Shop-b-1", "Shop-c-1")
    for order, sequence in (("app", "abc"), ("lag", "cab"), ("state", "bac"), ("group instance", "abc")):
        panel.order = order
        for shown in (panel.text_of(view), panel.html_of(view)):
            assert "".join(name[5] for name in sorted(names, key=shown.index)) == sequence
    small = panel.html_of(view)
    panel.selected = "Shop-c-1"
    assert panel.html_of(view).count("<svg") == small.count("<svg") + 5
    assert "Shop-c-1: RUNNING" in panel.html_of(view)


def test_every_order_sorts_rows_without_any_figure() -> None:
    view = ClusterView(status(group("Shop-b-1"), group("Shop-a-1", "WAITING", "")), 0.0, {})
    for order in ORDERS:
        assert len(group_rows(view, order)) == 2


def test_workers_are_cards_with_their_load_and_who_is_lost_stays() -> None:
    busy = replace(worker("worker-1", metrics={"systemCPU": 0.97}), memory_used=10**9, memory_limit=4 * 10**9)
    gone = replace(worker("worker-2", 5_000, "LOST"), reason="<silent>", groups=(("Shop-b-1", "LOST"),))
    seen = ClusterView(status(workers=(busy,), lost=(gone,)), 100.0, {}, (Absent("manager-9", "manager", 40.0),))
    html = MonitorPanel(FakeCluster()).html_of(Monitored(seen))
    for told in ("97%", "1.0 GB of 4.0 GB", "LOST: &lt;silent&gt;", "Shop-b-1 LOST", "LOST, last seen 60 s ago"):
        assert told in html
    assert "LOST: last seen 60 s ago" in MonitorPanel(FakeCluster()).text_of(Monitored(seen))


def test_the_journal_tells_what_has_happened(cluster: FakeCluster) -> None:
    cluster.entries = [
        {"time": 2_000, "kind": "group-placed", "message": "Shop-a-1 is placed"},
        {"time": 1_000, "kind": "elected", "message": "manager-1 <leads>"},
    ]
    panel = MonitorPanel(cluster)
    assert "1970-01-01 00:00:01  manager-1 <leads>" in str(panel)
    assert "manager-1 &lt;leads&gt;" in panel.to_html()
    assert "is placed" not in str(panel)


def test_the_widget_sorts_and_selects(cluster: FakeCluster, eventually: Callable[..., object]) -> None:
    cluster.run_on("worker-1")
    with MonitorPanel(cluster) as panel:
        choices, body = panel.widget().children
        order, chosen = choices.children
        eventually(lambda: "Shop-copy-1" in chosen.options, "the groups can be chosen")
        chosen.value = "Shop-copy-1"
        eventually(lambda: "Shop-copy-1: RUNNING" in body.value, "it is shown large")
        order.value = "lag"
        assert (panel.order, panel.selected) == ("lag", "Shop-copy-1")
        cluster.undeploy("Shop")
        eventually(lambda: "no groups" in body.value, "it is gone")
        assert chosen.value == "Shop-copy-1", "and may come back"
