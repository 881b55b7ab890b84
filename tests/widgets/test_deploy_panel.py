"""Writing, checking and deploying an app."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from html import unescape
from typing import Any, NamedTuple

import pytest

from spdist.errors import ClusterError, NotFoundError, SiddhiAppError
from spdist.panels.deploy import DeployPanel
from spdist.panels.drafts import annotated_html, draft_of
from tests.widgets.fake_cluster import TEXT, FakeCluster

Eventually = Callable[..., object]

WRONG = "@app:name('Shop') define stream S (v int); from S[x > 1] select v insert into <Out>;"


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def test_an_app_is_drawn_before_it_is_deployed(cluster: FakeCluster) -> None:
    panel = DeployPanel(cluster, TEXT)
    assert str(panel).startswith("not deployed; topics over log\nShop (live): 2 groups, 3 instances")
    assert "<svg" in panel.to_html()


def test_transport_and_parallelism_are_shown(cluster: FakeCluster) -> None:
    cluster.transport = "kafka"
    panel = DeployPanel(cluster, TEXT)
    rows = [line.split() for line in str(panel).splitlines()]
    assert ["large", "2", "Orders", "(ROUND_ROBIN)", "Big"] in rows
    assert "topics over kafka" in panel.to_html()


def test_errors_show_their_place(cluster: FakeCluster) -> None:
    panel = DeployPanel(cluster, "@app:name('A') define stream S (v int);\nfrom S[x > 1] select v insert into Out;")
    assert "(line 2, column 8)" in str(panel)
    number, error = lines(panel.to_html())[1:3]
    assert number == "   2  from S[x > 1] select v insert into Out;"
    assert error.startswith("             ^ 'S' has no attribute 'x'")
    assert number[error.index("^")] == "x"


def test_of_a_long_text_only_the_lines_around_the_errors_are_shown() -> None:
    streams = "\n".join(f"define stream S{number} (v int);" for number in range(100))
    text = f"@app:name('A')\n{streams}\nfrom S5[x > 1] select v insert into Out;"
    shown = lines(annotated_html(draft_of(text, "log")))
    assert [line[:5].strip() for line in shown] == ["…", "99", "100", "101", "102", ""]


def lines(html: str) -> list[str]:
    """The lines of the text in a page."""
    return unescape(re.sub("<[^>]*>", "", re.findall("<pre.*?>(.*?)</pre>", html, re.DOTALL)[-1])).split("\n")


def test_deploying_and_undeploying(cluster: FakeCluster) -> None:
    panel = DeployPanel(cluster, TEXT)
    assert panel.deploy().name == "Shop"
    cluster.run_on("worker-1")
    assert "Shop version 1 is RUNNING; 3 of 3 groups run" in str(panel)
    assert "Shop-copy-1 RUNNING on worker-1" in str(panel)
    panel.undeploy()
    assert str(panel).startswith("not deployed")
    with pytest.raises(NotFoundError):
        panel.undeploy()


def test_what_deploying_would_change_is_told_before(cluster: FakeCluster) -> None:
    cluster.deploy(TEXT)
    panel = DeployPanel(cluster, TEXT)
    assert "changes" not in str(panel)
    assert "this text is what runs" in panel.to_html()
    panel.text = TEXT.replace("100.0", "200.0")
    assert "deploying this text changes:\n  = Shop-copy keeps its state\n  ~ Shop-large changes" in str(panel)
    assert "deploying this text changes what runs" in panel.to_html()


def test_an_app_that_is_wrong_is_not_deployed(cluster: FakeCluster) -> None:
    panel = DeployPanel(cluster, WRONG)
    with pytest.raises(SiddhiAppError):
        panel.deploy()
    with pytest.raises(NotFoundError, match="names no app"):
        panel.undeploy()
    assert "<Out>" not in panel.to_html()
    assert "insert into <Out>" in "".join(lines(panel.to_html()))


def test_a_text_can_be_written_without_a_cluster(cluster: FakeCluster) -> None:
    cluster.away = True
    panel = DeployPanel(cluster, TEXT)
    for shown in (str(panel), panel.to_html()):
        assert "no manager answered" in shown
        assert "Shop (live): 2 groups" in shown
    assert "no attribute 'x'" in str(DeployPanel(cluster, TEXT.replace("amount > 100.0", "x > 1")))


def test_without_text_there_is_no_app(cluster: FakeCluster) -> None:
    assert str(DeployPanel(cluster)) == "no app yet"


# ----------------------------------------------------------------------------------------------------------- the widget
class Controls(NamedTuple):
    """The widgets of a panel by what they are for."""

    apps: Any
    file: Any
    editor: Any
    deploy: Any
    undeploy: Any
    backup: Any
    revisions: Any
    restore: Any
    yes: Any
    no: Any
    shown: Any


@pytest.fixture
def panel(cluster: FakeCluster) -> Iterator[DeployPanel]:
    with DeployPanel(cluster, TEXT) as made:
        yield made


@pytest.fixture
def controls(panel: DeployPanel, eventually: Eventually) -> Controls:
    source, editor, buttons, sure, shown = panel.widget().children
    eventually(lambda: "topics over log" in shown.value, "the panel has seen the cluster")
    return Controls(*source.children, editor, *buttons.children, *sure.children[1:], shown)


def test_what_is_typed_is_checked_when_nobody_types_any_more(
    panel: DeployPanel, controls: Controls, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts: list[str] = []
    monkeypatch.setattr(
        "spdist.panels.deploy.draft_of", lambda text, carrier: drafts.append(text) or draft_of(text, carrier)
    )
    for end in range(len(WRONG) - 20, len(WRONG) + 1):
        controls.editor.value = WRONG[:end]
    eventually(lambda: "Unexpected" in controls.shown.value, "the error is shown")
    assert set(drafts) <= {TEXT, WRONG}, "no text in between was checked"
    assert controls.deploy.disabled
    controls.editor.value = TEXT
    eventually(lambda: "not deployed" in controls.shown.value, "it is checked again")
    assert panel.text == TEXT


def test_the_buttons_deploy_and_undeploy_and_ask_before(
    cluster: FakeCluster, controls: Controls, eventually: Eventually
) -> None:
    assert controls.undeploy.disabled
    controls.deploy.click()
    eventually(lambda: "Shop is deployed" in controls.shown.value, "it is deployed")
    eventually(lambda: "0 of 3 groups run" in controls.shown.value, "how far it is, is shown")
    assert '<progress value="0" max="3"' in controls.shown.value
    cluster.run_on("worker-1")
    eventually(lambda: "3 of 3 groups run" in controls.shown.value, "it runs")
    controls.undeploy.click()
    assert cluster.texts == {"Shop": TEXT}, "somebody is asked first"
    controls.no.click()
    controls.undeploy.click()
    controls.yes.click()
    eventually(lambda: "Shop is undeployed" in controls.shown.value and not cluster.texts, "it is undeployed")


def test_buttons_do_not_wait_for_what_they_do_and_tell_what_went_wrong(
    cluster: FakeCluster, controls: Controls, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()

    def refuse(text: str) -> object:
        answered.wait(20)
        raise ClusterError("nobody can <deploy>")

    monkeypatch.setattr(cluster, "deploy", refuse)
    controls.deploy.click()
    eventually(lambda: "deploying …" in controls.shown.value and controls.deploy.disabled, "it is under way")
    controls.deploy.click()
    answered.set()
    eventually(lambda: "nobody can &lt;deploy&gt;" in controls.shown.value, "it is told")
    eventually(lambda: not controls.deploy.disabled, "it can be tried again")


def test_revisions_are_kept_listed_and_gone_back_to(
    cluster: FakeCluster, controls: Controls, eventually: Eventually
) -> None:
    cluster.revisions = ["1__Shop"]
    cluster.deploy(TEXT)
    cluster.run_on("worker-1")
    eventually(lambda: controls.revisions.options == ("1__Shop",), "those that there are can be chosen")
    controls.backup.click()
    eventually(lambda: "kept as revision 2__Shop" in controls.shown.value, "another one is kept")
    assert controls.revisions.options == ("2__Shop", "1__Shop")
    controls.revisions.value = "1__Shop"
    eventually(lambda: not controls.restore.disabled, "it can be gone back to")
    controls.restore.click()
    eventually(lambda: "goes on from revision 1__Shop" in controls.shown.value, "it went back")
    assert cluster.restored == ["1__Shop"]


def test_apps_and_files_can_be_loaded(cluster: FakeCluster, controls: Controls, eventually: Eventually) -> None:
    other = TEXT.replace("Shop", "Other")
    cluster.deploy(other)
    eventually(lambda: "Other" in controls.apps.options, "it can be chosen")
    assert controls.apps.value == "a new app"
    controls.apps.value = "Other"
    eventually(lambda: controls.editor.value == other, "its text is in the editor")
    eventually(lambda: "this text is what runs" in controls.shown.value, "it is shown")
    assert controls.apps.value == "Other"
    content = memoryview(TEXT.encode())
    file = {"name": "a.siddhi", "type": "", "size": len(TEXT), "content": content, "last_modified": datetime.now(UTC)}
    controls.file.value = (file,)
    assert controls.editor.value == TEXT
    eventually(lambda: "not deployed" in controls.shown.value, "it is shown")
