"""What clients, handles and answers of a cluster show of themselves: without waiting, and whatever has happened."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from spdist.cluster.clients import requests
from spdist.cluster.clients.client import ClusterClient
from spdist.cluster.clients.client_async import AsyncClusterClient
from spdist.cluster.clients.feeding import FeedState, RemoteFeed
from spdist.cluster.clients.handle import Deployment, reached
from spdist.cluster.clients.overview import AppStatus, ClusterStatus
from spdist.cluster.clients.requests import journal_listing, log_listing, move_listing, revision_listing
from spdist.display import STATE_COLOURS
from spdist.errors import ClusterError, DeploymentTimeoutError
from spdist.language.types import Schema
from spdist.services.process import free_ports
from tests.cluster.test_client import scripted

NODES: dict[str, Any] = {
    "groupId": "sp",
    "leader": "manager-1",
    "term": 3,
    "managers": [{"id": "manager-1", "url": "http://m1", "leads": True}],
    "workers": [
        {
            "id": "worker-1",
            "url": "http://w1",
            "receiver": False,
            "leaving": False,
            "silentMs": 300,
            "groups": [{"name": "A-g-1", "state": "RUNNING"}],
            "state": "READY",
            "reason": "",
            "drained": False,
            "cordoned": True,
            "metrics": {"systemCPU": 0.25},
            "memory": None,
        }
    ],
    "lostWorkers": [
        {"id": "worker-2", "url": "http://w2", "lostForMs": 2000, "groups": ["A-g-2"], "reason": "<b>silent</b>"}
    ],
}
GROUP = {
    "name": "A-g-1",
    "group": "A-g",
    "state": "RUNNING",
    "reason": "",
    "worker": "worker-1",
    "failures": 0,
    "metrics": {"eventsIn": 1_234_567.0, "lag": 3.0},
}
VIEW: dict[str, Any] = {"name": "A", "state": "RUNNING", "reason": "", "version": 1, "groups": [GROUP]}


def nobody(patience_s: float = 30.0) -> ClusterClient:
    return ClusterClient([f"http://127.0.0.1:{free_ports(1)[0]}"], "admin", "secret", patience_s=patience_s)


def test_a_client_shows_who_led_when_it_was_told_and_asks_nobody() -> None:
    with scripted((200, NODES, {})) as (url, seen), ClusterClient([url], "admin", "secret") as client:
        assert repr(client) == f"ClusterClient({url})"
        assert seen == []
        client.nodes()
        assert repr(client) == f"ClusterClient({url}; led by {url} in term 3, as last heard)"
        assert "leads in term 3" in client._repr_html_()
        assert len(seen) == 1
        assert "secret" not in client._repr_html_() + repr(client)


def test_the_term_of_another_leader_is_not_known() -> None:
    client = ClusterClient(["http://a", "http://b"], "admin", "secret")
    client._managers.prefer("http://a")
    client._seen(NODES)
    client._managers.prefer("http://b")
    assert repr(client) == "ClusterClient(http://b, http://a; led by http://b, as last heard)"


def test_a_client_for_await_shows_the_same() -> None:
    async def shown() -> str:
        with scripted((200, NODES, {})) as (url, _):
            async with AsyncClusterClient([url], "admin", "secret") as client:
                await client.nodes()
                return repr(client)

    assert "in term 3, as last heard" in asyncio.run(shown())


def test_a_client_that_was_closed_says_so() -> None:
    client = nobody()
    client.close()
    with pytest.raises(ClusterError, match=r"this client was closed, or its cluster was stopped: http://127.* asked"):
        client.nodes()

    async def closed() -> None:
        other = AsyncClusterClient(["http://127.0.0.1:1"], "admin", "secret")
        await other.close()
        await other.nodes()

    with pytest.raises(ClusterError, match="this client was closed"):
        asyncio.run(closed())


def test_a_handle_is_shown_without_patience_when_nobody_answers() -> None:
    began_s = time.monotonic()
    handle = Deployment(nobody(), "<A>")
    assert "no manager answered" in handle._repr_html_()
    assert "&lt;A&gt;" in handle._repr_html_()
    assert "no manager answered" in str(handle)
    assert time.monotonic() - began_s < 10


def test_a_handle_shows_what_it_saw_last() -> None:
    with scripted((200, VIEW, {})) as (url, seen), ClusterClient([url], "admin", "secret") as client:
        handle = Deployment(client, "A")
        assert handle._repr_mimebundle_()["text/plain"].startswith("A (version 1): RUNNING")
        assert len(seen) == 1, "text and HTML come of one answer"
    assert str(handle).startswith("as it was last seen: this client was closed")
    assert "1\u202f234\u202f567" in handle._repr_html_()


def test_a_status_has_colours_for_states_and_figures_at_the_right() -> None:
    status = ClusterStatus.from_view({**NODES, "apps": [VIEW], "transport": "log"})
    assert repr(status) == ("ClusterStatus(sp: manager-1 leads in term 3; 1 manager, 1 worker, 1 lost worker, 1 app)")
    assert repr(status.apps[0]) == "AppStatus(A: RUNNING, 1 group)"
    assert "cordoned, READY, heard 0.3 s ago" in str(status)
    assert "LOST: <b>silent</b>" in str(status)
    page = status._repr_html_()
    assert "LOST: &lt;b&gt;silent" in page
    assert page.count(f"color:{STATE_COLOURS['LOST']};") == 1
    assert page.count(f"color:{STATE_COLOURS['READY']};") == 2, "the worker and the group"
    assert "text-align:right" in page


def test_answers_are_lists_that_show_themselves() -> None:
    entry = {"time": 1_700_000_000_000, "node": "manager-1", "term": 3, "kind": "elected", "message": "<b>"}
    journal = journal_listing([entry])
    assert journal == [entry]
    assert str(journal).splitlines()[1].split()[:5] == ["2023-11-14", "22:13:20", "manager-1", "3", "elected"]
    assert "&lt;b&gt;" in journal._repr_html_()
    names = revision_listing(["1700000000000__A", "odd"])
    assert str(names).splitlines()[1:] == ["1700000000000__A  2023-11-14 22:13:20", "odd"]
    assert "to" in str(move_listing([{"group": "A-g-1", "from": "w1", "to": "w2", "reason": "room"}]))
    assert "WARNING" in log_listing([{"time": "t", "node": "w1", "level": "WARNING", "message": "m"}])._repr_html_()


def test_clients_return_such_lists() -> None:
    body = {"entries": [{"time": 1_700_000_000_000, "kind": "elected"}], "moves": [], "revision": ""}
    assert "elected" in requests.journal(5).read(body)._repr_html_()  # type: ignore[attr-defined]
    assert requests.rebalance(True).read(body)._repr_html_()  # type: ignore[attr-defined]
    assert "2023" in str(requests.revisions("A").read(["1700000000000__A"]))
    answers = [requests.NodeAnswer("w1", [{"level": "INFO"}])]
    assert "w1" in requests.with_nodes(None, answers)._repr_html_()  # type: ignore[attr-defined]


def test_a_feed_shows_where_it_goes_and_how_far_it_has_come() -> None:
    feed = RemoteFeed(nobody(), FeedState("A", "S", Schema.of([("v", "int")]), "mine"))
    feed._state.position = {"sent": 1, "clock": None, "seq": []}
    assert repr(feed) == "RemoteFeed(A.S: 1 event as mine)"
    assert "int" in feed._repr_html_()


def test_waiting_in_vain_says_how_to_start_a_worker_where_there_is_none() -> None:
    waiting = {**GROUP, "worker": "", "state": "WAITING", "reason": "no worker has joined"}
    status = AppStatus.from_view({**VIEW, "state": "WAITING", "groups": [waiting]})
    with pytest.raises(DeploymentTimeoutError) as caught:
        reached(status, "RUNNING", 5, over=True)
    assert "no worker has joined" in str(caught.value)
    assert "start one: `python -m spdist worker --conf conf/worker`" in str(caught.value)
    placed = AppStatus.from_view({**VIEW, "state": "DEPLOYING"})
    with pytest.raises(DeploymentTimeoutError, match="the logs of the workers named above"):
        reached(placed, "RUNNING", 5, over=True)
