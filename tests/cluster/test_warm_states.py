"""What a passive server tells of the states of its apps, which it follows until it takes over."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from spdist.cluster.leader.instances import Instance
from spdist.cluster.servers.own_leader import OwnApp
from spdist.cluster.servers.views import StateSeen, own_app_view
from spdist.cluster.servers.warm_states import WarmStates, state_seen
from spdist.engine.shards.state import StateStore
from spdist.engine.shards.state_follower import Followed
from spdist.planning.topology import Assignment
from tests.cluster.test_server_node import server_config
from tests.engine.test_state import fill

APP = Assignment("App", "App", "App", "text", False, (), ())


@pytest.mark.parametrize(
    ("followed", "seen"),
    [
        (None, StateSeen()),
        (Followed(), StateSeen({"segment": 0.0})),
        (Followed(7, 4_000), StateSeen({"segment": 7.0, "snapshotAgeMs": 1_000.0})),
        (Followed(7, 6_000), StateSeen({"segment": 7.0, "snapshotAgeMs": 0.0})),
        (Followed(problem="it is away"), StateSeen(problem="it is away")),
    ],
)
def test_how_old_the_newest_snapshot_is_that_was_seen(followed: Followed | None, seen: StateSeen) -> None:
    assert state_seen(followed, 5_000) == seen


def test_a_passive_app_shows_what_was_seen_of_its_state_and_an_active_one_its_own_figures() -> None:
    app = OwnApp("App", "text", Instance(APP))
    seen = StateSeen({"segment": 7.0}, "its state cannot be read: it is away")
    shown = own_app_view(app, None, "server-1 is active", "server-2", "http://127.0.0.2:9443", seen)
    assert (shown["status"], shown["metrics"]) == ("passive", {"segment": 7.0})
    assert shown["reason"] == "server-1 is active; its state cannot be read: it is away"
    assert own_app_view(app, None, "", "server-2", "http://127.0.0.2:9443", seen)["metrics"] == {}


def test_a_state_that_cannot_be_read_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    states = WarmStates(server_config(tmp_path))
    store = StateStore(tmp_path / "state" / "App")
    fill(store, 3)
    states.follow([APP], tmp_path / "copies")
    assert states.seen("App", 0) == StateSeen({"segment": 3.0})
    (tmp_path / "state/App/segment-000000000004").write_bytes(b"nothing of ours")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            states.follow([APP], tmp_path / "copies")
    assert caplog.text.count("app App cannot be taken over: its state cannot be read") == 1
    assert "segment-000000000004" in states.seen("App", 0).problem
    states.forget()
    assert states.seen("App", 0) == StateSeen()
