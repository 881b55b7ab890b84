"""Writing, checking and deploying an app."""

from __future__ import annotations

import pytest

from spdist.errors import ClusterError, NotFoundError, SiddhiAppError
from tests.widgets.fake_cluster import TEXT, FakeCluster
from widgets.deploy import DeployPanel

WRONG = "@app:name('Shop') define stream S (v int); from S[x > 1] select v insert into <Out>;"


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_an_app_is_drawn_before_it_is_deployed(cluster: FakeCluster) -> None:
    panel = DeployPanel(cluster, TEXT)
    assert str(panel).startswith("not deployed\nShop (live): 2 groups, 3 instances")
    assert "<svg" in panel.to_html()


def test_errors_show_their_place(cluster: FakeCluster) -> None:
    panel = DeployPanel(cluster, "@app:name('A') define stream S (v int);\nfrom S[x > 1] select v insert into Out;")
    assert "(line 2, column 8)" in str(panel)
    assert "from S[x &gt; 1]" in panel.to_html()


def test_deploying_and_undeploying(cluster: FakeCluster) -> None:
    panel = DeployPanel(cluster, TEXT)
    assert panel.deploy().name == "Shop"
    cluster.run_on("worker-1")
    assert "Shop version 1 is RUNNING" in str(panel)
    assert "Shop-copy-1 RUNNING on worker-1" in str(panel)
    panel.undeploy()
    assert str(panel).startswith("not deployed")
    with pytest.raises(NotFoundError):
        panel.undeploy()


def test_an_app_that_is_wrong_is_not_deployed(cluster: FakeCluster) -> None:
    panel = DeployPanel(cluster, WRONG)
    with pytest.raises(SiddhiAppError):
        panel.deploy()
    with pytest.raises(NotFoundError, match="names no app"):
        panel.undeploy()
    assert "&lt;Out&gt;" in panel.to_html()


def test_without_text_there_is_no_app(cluster: FakeCluster) -> None:
    panel = DeployPanel(cluster)
    assert str(panel) == "no app yet"
    assert cluster.looks == 0


def test_the_widget_has_an_editor_and_buttons_that_work(cluster: FakeCluster) -> None:
    with DeployPanel(cluster) as panel:
        editor, buttons, shown = panel.widget().children
        editor.value = TEXT
        assert "not deployed" in shown.value
        deploy, undeploy = buttons.children
        deploy.click()
        assert cluster.texts == {"Shop": TEXT}
        assert "is WAITING" in shown.value
        undeploy.click()
        assert "not deployed" in shown.value
        cluster.away = True
        deploy_failure(cluster, deploy)
        assert "nobody can deploy" in shown.value


def deploy_failure(cluster: FakeCluster, button: object) -> None:
    def refuse(text: str) -> object:
        raise ClusterError("nobody can deploy")

    cluster.away = False
    cluster.deploy = refuse  # type: ignore[method-assign, assignment]
    button.click()  # type: ignore[attr-defined]
