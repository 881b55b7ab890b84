"""Groups on Spark whose topics a real Kafka broker or NATS server keeps: the same results, also when that goes away."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spdist.config.sections import Kafka, Log, Nats, Transports
from spdist.engine.session import SparkHost
from spdist.planning.topology import Assignment
from spdist.runtime.group import GroupRuntime
from spdist.services.kafka import KafkaBroker
from spdist.services.nats import NatsServer
from spdist.services.process import Service
from spdist.transports.feed import Feed, read_events
from spdist.transports.opening import open_transport, transport_settings
from tests.runtime.host_settings import settings_in
from tests.runtime.test_group import INPUT, assignments, events, expected

Eventually = Callable[..., object]


@pytest.fixture(scope="module", params=["kafka", "nats"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    kind = KafkaBroker if request.param == "kafka" else NatsServer
    with kind(tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture(scope="module")
def host(server: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkHost]:
    root = tmp_path_factory.mktemp("host")
    transports = Transports(
        Log(root / "the topics"),
        "kafka" if isinstance(server, KafkaBroker) else "nats",
        kafka=Kafka(bootstrap_servers=server.url),
        nats=Nats(urls=server.url),
    )
    with SparkHost(settings_in(root, transports)) as host:
        yield host


def started(host: SparkHost, work: list[Assignment]) -> list[GroupRuntime]:
    groups = [GroupRuntime(assignment, host, "worker-1") for assignment in work]
    for group in groups:
        group.start()
    for group in groups:
        assert group.wait(150)
        assert group.status().state == "RUNNING", group.status()
    return groups


@pytest.mark.spark
def test_groups_over_a_server_that_goes_away_lose_and_double_nothing(
    host: SparkHost, server: Service, eventually: Eventually
) -> None:
    topics = open_transport(transport_settings(host.config.transports))
    topics.ensure("Chain.S", 1)
    feed = Feed(topics, "Chain.S", INPUT)
    work = assignments("Chain")
    groups = started(host, work)
    try:
        feed.send(events(150))
        done = lambda count: all((g.status().clock or 0) >= events(count)[-1][0] for g in groups)  # noqa: E731
        eventually(lambda: done(150), "all groups have processed the first events", 150)
        server.kill()
        feeding = feed
        eventually(
            lambda: all(g.status().state == "RUNNING" and g.status().error for g in groups), "the groups say so", 150
        )
        assert str(server.port) in str(groups[0].status().error)
        server.start()
        feeding.send(events(150, 150))
        eventually(lambda: done(300), "all groups have gone on", 150)
        assert [g.status().error for g in groups] == [None] * len(groups)
        assert [group.stop(30) for group in groups] == [True] * 3
        feed.send(events(100, 300))
        groups = started(host, work)
        eventually(lambda: done(400), "all groups have processed the rest", 150)
        assert read_events(topics, "Chain.Out", INPUT) == expected(400)
    finally:
        for group in groups:
            group.kill()
        topics.close()


@pytest.mark.spark
def test_plans_and_files_show_no_addresses_to_others(host: SparkHost) -> None:
    place = Path(host.topics)
    assert place.parent == host.scratch
    assert place.stat().st_mode & 0o077 == 0
    assert json.loads(place.read_text())["kind"] in ("kafka", "nats")
