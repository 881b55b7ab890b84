"""Why a deployed app has put something out, over REST: a manager and a worker whose groups are run by hand."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

import spdist
from spdist.__main__ import app as spdist_command
from spdist.cluster.clients.asking import Request
from spdist.cluster.clients.client import ClusterClient
from spdist.cluster.clients.handle import Deployment
from spdist.cluster.clients.requests import NodeAnswer
from spdist.cluster.host_node import HostNode
from spdist.cluster.manager import Manager
from spdist.cluster.worker import Worker
from spdist.config import load_config
from spdist.errors import ClusterUnreachableError, NotFoundError, UndefinedNameError
from spdist.language.types import Schema
from spdist.planning.standalone import standalone_assignment, standalone_topology
from spdist.transports.reading import ReadEvent
from tests.cluster.shells import CONF, PASSWORD, FakeSpark, manager_config, settings, with_users
from tests.cluster.test_server_node import running
from tests.runtime.shards_by_hand import HandRun

SCHEMA = Schema.of([("room", "string"), ("degrees", "double")])
APP = """
@app:name('Rooms') @app:playback
define stream Readings (room string, degrees double);
@sink(type='embedded', topic='Rooms.Alerts') @sink(type='http', publisher.url='http://127.0.0.1:9/a', @map(type='json'))
define stream Alerts (room string, degrees double);
@dist(execGroup='mean') partition with (room of Readings) begin
    from Readings#window.length(2) select room, avg(degrees) as degrees insert into Means; end;
@dist(execGroup='hot') from Means[degrees > 30.0] select room, degrees insert into Alerts;
"""


def state_of(node: HostNode) -> Path:
    return Path(node.config.state_persistence.location)


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Deployment, Worker, HandRun]]:
    """An app that is deployed, the worker that has its groups, and what they have done."""
    home = tmp_path_factory.mktemp("home")
    manager = Manager(manager_config(home))
    manager.start()
    path = with_users(home, CONF / "worker.yaml", {"vera": "viewer", "nemo": "guest"})
    environment = settings(home, "worker-1", SPDIST_MANAGERS=manager.url)
    worker = Worker(load_config(path, role="worker", environment=environment), launcher=FakeSpark())
    try:
        worker.start()
        with ClusterClient([manager.url], "admin", PASSWORD) as client:
            app = client.deploy(APP).wait(timeout_s=60)
            run = HandRun(home, APP, segments=4, location=state_of(worker))
            for n in range(1, 41):
                run.feed("Readings", SCHEMA).send([(1000 * n, ("attic", float(n)))])
                run.run()
            yield app, worker, run
    finally:
        worker.stop()
        manager.stop()


def test_an_alert_of_a_deployed_app_is_explained(rooms: tuple[Deployment, Worker, HandRun]) -> None:
    app, _, run = rooms
    alert = run.read("Alerts", SCHEMA)[-1]
    for which in (-1, alert, alert[1], {"degrees": 39.5}):
        evidence = app.explain("Alerts", which)
        assert (evidence.event.timestamp, evidence.event.row) == alert == (40_000, ("attic", 39.5))
        assert [cause.row for cause in evidence.causes] == [("attic", 39.0), ("attic", 40.0)]
        assert [cause.place.offset for cause in evidence.causes if cause.place] == [39, 40]
    assert "Rooms.Readings.room, partition 0, offset 40" in evidence.to_html()
    assert [came.stream for came in evidence.through if came.stream == "Means"]
    assert app.explain("Means").event.row == ("attic", 39.5)


def test_an_alert_is_named_by_the_id_that_its_receiver_has_seen(rooms: tuple[Deployment, Worker, HandRun]) -> None:
    app, *_ = rooms
    evidence = app.explain("Alerts", id="Rooms-hot-1#0:8")
    assert (evidence.event.timestamp, evidence.event.row) == (39_000, ("attic", 38.5))
    assert app.explain("Alerts", (39_000, ("attic", 38.5))).causes == evidence.causes
    with pytest.raises(NotFoundError, match="inputs are kept since"):
        app.explain("Alerts", id="Rooms-hot-1#0:0")


def test_an_alert_of_an_embedded_sink_is_named_by_the_id_that_comes_with_it(
    rooms: tuple[Deployment, Worker, HandRun],
) -> None:
    app, *_ = rooms
    for alerts in (list(app.tail("Alerts")), app.read("Alerts")):
        assert alerts[-1].id == "Rooms-hot-1@Rooms.Alerts/0:9"
        assert copy.copy(alerts[-1]).id == alerts[-1].id
        assert app.explain("Alerts", alerts[-2]).event.row == app.explain("Alerts", id=alerts[-2].id).event.row
        assert app.explain("Alerts", id=alerts[-2].id).event.row == alerts[-2][1] == ("attic", 38.5)
    with pytest.raises(NotFoundError, match="inputs are kept since"):
        app.explain("Alerts", alerts[0])
    earlier = ReadEvent(*alerts[-2], alerts[-1].id)
    with pytest.raises(NotFoundError, match=r"(?s)has no event .*holds 1 events"):
        app.explain("Alerts", earlier)


def test_a_command_tells_it_too(rooms: tuple[Deployment, Worker, HandRun], monkeypatch: pytest.MonkeyPatch) -> None:
    deployment, _, _ = rooms
    monkeypatch.setenv("SPDIST_URL", deployment.client.managers[0])
    monkeypatch.setenv("SPDIST_PASSWORD", PASSWORD)

    def why(*event: str) -> Result:
        return CliRunner().invoke(spdist_command, ["why", "Rooms", "Alerts", *event])

    told = str(deployment.explain("Alerts"))
    assert why().stdout.strip() == told.strip()
    line = '{"timestamp": 40000, "event": {"room": "attic", "degrees": 39.5}}'
    assert [json.loads(why(event, "--json").stdout)["clock"] for event in ('{"degrees": 39.5}', line)] == [40_000] * 2
    assert json.loads(why("Rooms-hot-1#0:8", "--json").stdout)["clock"] == 39_000
    assert json.loads(why("Rooms-hot-1@Rooms.Alerts/0:8", "--json").stdout)["clock"] == 39_000
    lines = CliRunner().invoke(spdist_command, ["tail", "Rooms", "Alerts"]).stdout.splitlines()
    assert [json.loads(why(line, "--json").stdout)["clock"] for line in lines[-2:]] == [39_000, 40_000]
    assert why('{"degrees": 99.5}').exit_code == 1
    for wrong in ("attic", "[1]", "{}"):
        assert why(wrong).exit_code == 2


def test_what_is_deleted_meanwhile_is_asked_for_anew(
    rooms: tuple[Deployment, Worker, HandRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    app, _, _ = rooms
    asked: list[str] = []
    ask = app.client.ask_node

    def once_gone(place: tuple[str, str], request: Request[Any]) -> Any:
        asked.append(request.path)
        if request.path.endswith("/0") and len(asked) < 6:
            raise NotFoundError("it has gone on: snapshot-000000000009 is gone")
        return ask(place, request)

    monkeypatch.setattr(app.client, "ask_node", once_gone)
    assert app.explain("Means").event.row == ("attic", 39.5)
    assert [path.endswith("/evidence") for path in asked[:6]] == [True, True, False, True, False, True]
    asked.clear()
    monkeypatch.setattr(app.client, "ask_node", lambda place, request: NodeAnswer(place[0], None, "it is silent"))
    with pytest.raises(ClusterUnreachableError, match="worker-1 does not answer: it is silent"):
        app.explain("Means")


def test_an_app_of_a_server_is_explained_by_its_one_group(tmp_path: Path) -> None:
    with running(tmp_path) as node, ClusterClient([node.url], "admin", PASSWORD) as client:
        client.deploy(APP)
        topology = standalone_topology(standalone_assignment(spdist.check(APP), APP))
        run = HandRun(tmp_path, APP, location=state_of(node), topology=topology)
        run.feed("Readings", SCHEMA).send([(1000 * n, ("attic", 20.0 + n)) for n in range(1, 21)])
        run.run()
        evidence = client.deployment("Rooms").explain("Alerts")
    assert [cause.row for cause in evidence.causes] == [("attic", 39.0), ("attic", 40.0)]


def test_what_cannot_be_explained_is_told(rooms: tuple[Deployment, Worker, HandRun]) -> None:
    app, _, _ = rooms
    with pytest.raises(UndefinedNameError, match="Did you mean 'Alerts'"):
        app.explain("Alert")
    with pytest.raises(NotFoundError, match="its events come from outside"):
        app.explain("Readings")
    with pytest.raises(NotFoundError, match="inputs are kept since"):
        app.explain("Alerts", (31_000, ("attic", 30.5)))
    with pytest.raises(NotFoundError, match="Nowhere"):
        app.client.deployment("Nowhere").explain("Alerts")


def test_who_may_read_apps_may_ask_for_evidence_and_gets_nothing_else(
    rooms: tuple[Deployment, Worker, HandRun],
) -> None:
    _, worker, _ = rooms
    path = "/siddhi-apps/Rooms-mean-1/evidence"
    with httpx.Client(base_url=worker.url, trust_env=False) as http:
        assert http.get(path, auth=("nemo", "nemo-secret")).status_code == 403
        kept = http.get(path, auth=("vera", "vera-secret")).json()
        assert kept["assignment"]["name"] == "Rooms-mean-1"
        (files,) = kept["shards"]
        for names, status in (
            (files[0], 200),
            ("../assignment", 404),
            ("assignment", 404),
            ("segment-000000000001", 404),
            ("", 404),
        ):
            query = {"layout": kept["layout"], "names": names}
            answer = http.get(f"{path}/0", params=query, auth=("vera", "vera-secret"))
            assert answer.status_code == status, answer.text
        other = http.get("/siddhi-apps/Rooms-other-1/evidence", auth=("vera", "vera-secret"))
        assert other.status_code == 404
