"""The drawing of a deployed app, from what a manager answers."""

from __future__ import annotations

import pytest

from spdist.cluster.plans import plan_text
from tests.widgets.fake_cluster import TEXT, FakeCluster
from widgets.topology import TopologyPanel, read_topology
from widgets.watch import watch_of


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
    assert "amount &lt; 1" in TopologyPanel(cluster.deployment("Shop")).to_html()


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
