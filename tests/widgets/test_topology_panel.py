"""The drawing of a deployed app, from what a manager answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import pytest

from spdist.cluster.managers.plans import plan_text
from spdist.panels.flows import flow_texts
from spdist.panels.group_rows import GroupRow
from spdist.panels.topology import DrawnApp, TopologyPanel, read_topology
from spdist.panels.trends import Figures, Point
from spdist.panels.watch import watch_of
from spdist.planning.pictures.drawing import to_svg
from tests.widgets.fake_cluster import TEXT, FakeCluster
from tests.widgets.statuses import group


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.deploy(TEXT)
    return made


def test_what_the_manager_answers_is_the_topology_that_it_planned(cluster: FakeCluster) -> None:
    read = read_topology(watch_of(cluster).topology("Shop")).topology
    planned = plan_text(TEXT)
    assert str(read) == str(planned)
    assert read.assignments() == planned.assignments()


def test_it_shows_where_each_instance_is_and_how_it_is_doing(cluster: FakeCluster) -> None:
    panel = TopologyPanel(cluster.deployment("Shop"))
    assert "Shop-large-1 WAITING" in str(panel)
    cluster.run_on("worker-1")
    assert "Shop-large-1 RUNNING on worker-1" in str(panel)
    assert "worker-1" in panel.to_html()
    assert "<svg" in panel.to_html()


def test_texts_of_the_app_are_escaped(cluster: FakeCluster) -> None:
    html = TopologyPanel(cluster.deployment("Shop")).to_html()
    assert "amount < 1" in unescape(re.sub("<[^>]*>", "", html))
    assert "amount < 1" not in html


def figures(**metrics: float) -> Figures:
    return Figures((Point(1.0, **metrics),))


def test_arrows_tell_what_goes_over_them_where_the_figures_say_it() -> None:
    topology = plan_text(TEXT)
    told = {
        "Shop-large-1": figures(in_per_s=100.0, out_per_s=4.0, lag=7.0),
        "Shop-large-2": figures(in_per_s=50.0, out_per_s=1.5, lag=0.0),
        "Shop-copy-1": figures(lag=0.0),
    }
    texts = flow_texts(topology, told)
    assert texts == {
        ("Shop.Orders", "Shop-large"): "150/s, lag 7",
        ("Shop-large", "Shop.Big"): "5.5/s",
    }
    words = re.findall(r">([^<>]+)</text>", to_svg(topology, flows=texts))
    assert {"150/s, lag 7", "5.5/s"} <= set(words)


def test_a_group_that_reads_two_topics_does_not_say_how_much_of_each() -> None:
    text = """@app:name('Two') define stream A (v int); define stream B (v int);
    @dist(execGroup='join') from A#window.length(5) join B#window.length(5) on A.v == B.v select A.v insert into Out;"""
    assert flow_texts(plan_text(text), {"Two-join-1": figures(in_per_s=10.0, lag=3.0)}) == {}


def test_a_group_can_be_chosen_and_shows_its_details(cluster: FakeCluster, eventually: Callable[..., object]) -> None:
    cluster.run_on("worker-1")
    with TopologyPanel(cluster.deployment("Shop")) as panel:
        choice, shown = panel.widget().children
        eventually(lambda: "Shop-copy" in choice.options, "the groups can be chosen")
        assert "<details open>" not in shown.value
        choice.value = "Shop-copy"
        eventually(lambda: all(told in opened(shown.value) for told in COPY), "its details are open")
        assert "Shop-large-1" not in opened(shown.value)


COPY = ("Shop-copy", "Shop.Big", "Shop.Large", "worker-1", "RUNNING")


def opened(html: str) -> str:
    """What is not folded away."""
    return "".join(re.findall("<details open>(.*?)</details>", html, re.DOTALL))


def test_a_click_finds_the_group_by_its_name(cluster: FakeCluster) -> None:
    html = TopologyPanel(cluster.deployment("Shop")).to_html()
    for name in ("Shop-large", "Shop-copy"):
        assert f'<g data-group="{name}">' in html
        assert f'<summary data-group="{name}">' in html


def test_text_tells_how_much_each_group_does(cluster: FakeCluster) -> None:
    panel = TopologyPanel(cluster.deployment("Shop"))
    view = panel.fetch()
    assert "in/s" not in panel.text_of(view), "nothing is known yet"
    row = GroupRow(group("Shop-large-1"), figures(in_per_s=1_234.0, lag=5.0), 1.0)
    lines = [line.split() for line in panel.text_of(DrawnApp(view.placed, {"Shop-large-1": row})).splitlines()]
    assert ["Shop-large", "1,234", "5"] in lines


def test_another_version_of_the_app_is_drawn_anew(cluster: FakeCluster) -> None:
    panel = TopologyPanel(cluster.deployment("Shop"))
    assert "Shop-large × 2" in str(panel)
    cluster.deploy(TEXT.replace("parallel='2'", "parallel='3'"))
    assert "Shop-large × 3" in str(panel)


def test_making_a_panel_asks_nobody(cluster: FakeCluster) -> None:
    cluster.away = True
    before = cluster.looks
    panel = TopologyPanel(cluster.deployment("Shop"))
    assert cluster.looks == before
    assert "no manager answered" in str(panel)
    assert "are they up?" in panel.to_html()


def test_all_forms_come_together(cluster: FakeCluster) -> None:
    bundle = TopologyPanel(cluster.deployment("Shop"))._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}  # no kernel here, so no widget
    assert bundle["text/plain"].startswith("Shop (live)")
