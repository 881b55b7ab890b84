"""Groups on Spark whose topics a real Kafka broker or NATS server keeps: the same results, also when that goes away."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from spdist.cluster.managers.topics import fed_topic, published_topic, stream_schemas
from spdist.config.sections import Kafka, Log, Nats, Transports
from spdist.engine.spark.session import SparkHost
from spdist.errors import TransportUnavailableError
from spdist.language.parsing.parser import parse
from spdist.planning.channels import topic_name
from spdist.planning.groups import plan
from spdist.planning.topology import Assignment
from spdist.runtime.group import GroupRuntime
from spdist.runtime.standalone import prepare
from spdist.services.kafka import KafkaBroker
from spdist.services.nats import NatsServer
from spdist.services.process import Service, free_ports
from spdist.transports.feed import Feed, read_events
from spdist.transports.opening import open_transport, transport_settings
from tests.runtime.host_settings import settings_in
from tests.runtime.shared_spark import SHARED_SPARK
from tests.runtime.test_group import APP, INPUT, events, expected

Eventually = Callable[..., object]
Rows = list[tuple[int, tuple[Any, ...]]]
#: How much longer the server stays away once all have noticed, s.
OUTAGE_S = float(os.environ.get("SPDIST_OUTAGE_S", "0"))
#: Servers come back late on busy machines.
PATIENCE_MS = 120_000


@pytest.fixture(scope="module", params=["kafka", "nats"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    kind = KafkaBroker if request.param == "kafka" else NatsServer
    with kind(tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture(scope="module")
def host(server: Service, tmp_path_factory: pytest.TempPathFactory) -> SparkHost:
    root = tmp_path_factory.mktemp("host")
    transports = Transports(
        Log(root / "the topics"),
        "kafka" if isinstance(server, KafkaBroker) else "nats",
        kafka=Kafka(server.url, timeout_ms=PATIENCE_MS),
        nats=Nats(server.url, timeout_ms=PATIENCE_MS),
    )
    return SHARED_SPARK.host(settings_in(root, transports))


def started(host: SparkHost, work: list[Assignment]) -> list[GroupRuntime]:
    groups = [GroupRuntime(assignment, host, "worker-1") for assignment in work]
    for group in groups:
        group.start()
    for group in groups:
        assert group.wait(150)
        assert group.status().state == "RUNNING", group.status()
    return groups


class Feeding(threading.Thread):
    """Sends events in the background, and the same again for as long as the server is away."""

    def __init__(self, feed: Feed, rows: Rows) -> None:
        super().__init__(daemon=True)
        self.refused = 0
        self._feed, self._rows = feed, rows
        self._ended = threading.Event()
        self.start()

    def run(self) -> None:
        at = 0
        while at < len(self._rows) and not self._ended.wait(0.02):
            try:
                self._feed.send(self._rows[at : at + 5])
                at += 5
            except TransportUnavailableError:
                self.refused += 1

    def end(self) -> None:
        self._ended.set()
        self.join(60)


@pytest.mark.spark
def test_groups_over_a_server_that_goes_away_while_events_flow_lose_and_double_nothing(
    host: SparkHost, server: Service, eventually: Eventually
) -> None:
    settings = transport_settings(host.config.transports)
    topics, outside = open_transport(settings), open_transport(settings.with_patience(2000))
    topology = plan(parse(APP.replace("@app:name('App')", "@app:name('Chain')")), transport=settings.kind)
    work = [one for one in topology.assignments() if not one.group.endswith("-last")]
    into, out = fed_topic(topology, "S").name, published_topic(topology, "Out").name
    topics.ensure(into, 1)
    feed = Feed(outside, into, INPUT)
    groups = started(host, work)
    feeding = None
    try:
        feed.send(events(150))
        done = lambda count: all((g.status().clock or 0) >= events(count)[-1][0] for g in groups)  # noqa: E731
        eventually(lambda: done(150), "all groups have processed the first events", 150)
        feeding = Feeding(feed, events(300, 150))
        server.kill()
        eventually(
            lambda: all(g.status().state == "RUNNING" and g.status().error for g in groups), "the groups say so", 150
        )
        assert str(server.port) in str(groups[0].status().error)
        eventually(lambda: feeding.refused, "who sends was told, too", 60)
        threading.Event().wait(OUTAGE_S)
        server.start()
        eventually(lambda: done(450), "all groups have gone on", 150)
        eventually(lambda: not any(g.status().error for g in groups), "their status has nothing to say", 30)
        assert [group.stop(30) for group in groups] == [True] * 3
        feed.send(events(100, 450))
        groups = started(host, work)
        eventually(lambda: done(550), "all groups have processed the rest", 150)
        assert read_events(topics, out, INPUT) == expected(550)
    finally:
        if feeding is not None:
            feeding.end()
        for group in groups:
            group.kill()
        topics.close()
        outside.close()


@pytest.mark.spark
def test_a_whole_app_has_its_streams_on_the_server(host: SparkHost, eventually: Eventually) -> None:
    settings = transport_settings(host.config.transports)
    (port,) = free_ports(1)
    text = (
        f"@app:name('Whole') @source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json')) "
        "define stream Sent (v long); define stream Fed (v long); "
        "@sink(type='embedded', topic='Whole.Sums') define stream Sums (v long); "
        "from Sent insert into Both; from Fed insert into Both; from Both select sum(v) as v insert into Sums;"
    )
    topics, schema = open_transport(settings), stream_schemas(text)["Sums"]
    (group,) = started(host, [prepare(text, transport=settings.kind)])
    try:
        sums = lambda: [row[0] for _, row in read_events(topics, "Whole.Sums", schema)]  # noqa: E731
        assert httpx.post(f"http://127.0.0.1:{port}/in", json={"event": {"v": 1}}).json() == {"events": 1}
        eventually(lambda: sums() == [1], "what the source has brought is through", 60)
        Feed(topics, topic_name(settings.kind, "Whole", "Fed"), schema).send([(1, (10,))])
        eventually(lambda: sums() == [1, 11], "what outsiders have put in is through", 60)
        assert topics.end_offsets("Whole.Sent") == {0: 1}
    finally:
        group.kill()
        topics.close()


@pytest.mark.spark
def test_plans_and_files_show_no_addresses_to_others(host: SparkHost) -> None:
    place = Path(host.topics)
    assert place.parent == host.scratch
    assert place.stat().st_mode & 0o077 == 0
    assert json.loads(place.read_text())["kind"] in ("kafka", "nats")
