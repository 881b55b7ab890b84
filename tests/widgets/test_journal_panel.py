"""The panel of the journal, from what a real manager has written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spdist.cluster.clients.client import ClusterClient
from spdist.panels import JournalPanel
from tests.cluster.shells import APP, PASSWORD, manager_config, running_manager

Eventually = Callable[..., Any]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterClient]:
    with (
        running_manager(manager_config(tmp_path_factory.mktemp("home"))) as manager,
        ClusterClient([manager.url], "admin", PASSWORD) as client,
    ):
        client.deploy(APP)
        yield client


def test_it_shows_what_has_happened_the_newest_first(client: ClusterClient, eventually: Eventually) -> None:
    panel = JournalPanel(client)
    eventually(lambda: "app-deployed" in str(panel), "it is written down")
    head, *lines = str(panel).splitlines()
    assert head.split() == ["time", "node", "term", "kind", "app", "group", "worker", "user", "message"]
    (deployed,) = [line for line in lines if "app-deployed" in line]
    assert all(part in deployed for part in ("manager-1", "Trades", "admin", "Trades is deployed (version 1"))
    assert deployed.startswith("20")
    assert lines.index(deployed) < next(n for n, line in enumerate(lines) if " elected " in line)
    assert ">app-deployed</div></td>" in panel.to_html(), "it stays on one line"


def test_it_shows_only_what_is_wanted(client: ClusterClient, eventually: Eventually) -> None:
    eventually(lambda: "elected" in str(JournalPanel(client, kind="elected")), "it is written down")
    assert "app-deployed" not in str(JournalPanel(client, kind="elected"))
    assert len(str(JournalPanel(client, 1)).splitlines()) == 2
    assert len(str(JournalPanel(client, app="Other")).splitlines()) == 1


def test_it_has_three_forms_and_escapes_what_others_wrote(client: ClusterClient, eventually: Eventually) -> None:
    bundle = JournalPanel(client)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}  # no kernel here, so no widget
    entry = dict.fromkeys(("node", "kind", "app", "group", "worker", "user"), "") | {
        "time": 10**18,
        "term": None,
        "message": "<b>",
    }
    assert ">&lt;b&gt;</td>" in JournalPanel(client).html_of([entry])
    with JournalPanel(client) as panel:
        shown = panel.widget().children[-1]
        eventually(lambda: shown.value == panel.to_html(), "the widget shows the same")


def test_who_does_not_answer_is_told() -> None:
    with ClusterClient(["http://127.0.0.1:1"], "admin", "x", patience_s=0.1) as nobody:
        panel = JournalPanel(nobody)
        assert "no manager answered" in str(panel)
        assert "are they up" in panel.to_html()
