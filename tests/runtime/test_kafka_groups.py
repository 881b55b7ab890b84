"""Groups over a real Kafka broker: the same results as on one machine, nothing lost and nothing doubled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaProducer

from spdist.config.sections import Kafka, Log, Transports
from spdist.engine.local import run
from spdist.engine.session import SparkHost
from spdist.language.parser import parse
from spdist.planning.groups import plan
from spdist.planning.topology import Assignment
from spdist.runtime.group import GroupRuntime
from spdist.services.kafka import KafkaBroker
from spdist.transports.feed import Feed, read_events
from spdist.transports.kafka import KafkaTransport
from spdist.transports.kafka_options import KafkaSettings
from tests.runtime.host_settings import settings_in
from tests.runtime.test_group import APP, INPUT, events, expected, processed, started

Eventually = Callable[..., object]

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, kafka_broker: KafkaBroker) -> Iterator[SparkHost]:
    root = tmp_path_factory.mktemp("over kafka")
    transports = Transports(Log(root / "the topics"), "kafka", Kafka(kafka_broker.url))
    with SparkHost(settings_in(root, transports)) as host:
        yield host


@pytest.fixture
def runtimes() -> Iterator[list[GroupRuntime]]:
    begun: list[GroupRuntime] = []
    yield begun
    for group in begun:
        group.kill()


@pytest.fixture
def kafka(kafka_broker: KafkaBroker) -> Iterator[KafkaTransport]:
    transport = KafkaTransport(KafkaSettings(kafka_broker.url))
    yield transport
    transport.close()


def assignments(name: str, text: str = APP, shards: int = 1) -> list[Assignment]:
    app = parse(text.replace("@app:name('App')", f"@app:name('{name}')"))
    topology = plan(app, transport="kafka", shards=shards)
    return [one for one in topology.assignments() if not one.group.endswith("-last")]


def by_key(found: list[tuple[int, tuple[Any, ...]]]) -> dict[str, list[Any]]:
    keys: dict[str, list[Any]] = {}
    for ts, row in found:
        keys.setdefault(row[0], []).append((ts, row))
    return keys


def test_groups_over_kafka_give_what_one_machine_gives_and_go_on_after_a_stop(
    host: SparkHost, kafka: KafkaTransport, runtimes: list[GroupRuntime], eventually: Eventually
) -> None:
    work = assignments("KChain")
    topic = work[0].inputs[0].topic
    kafka.ensure(topic, 1)
    feed = Feed(kafka, topic, INPUT)
    groups = started(host, runtimes, work)
    feed.send(events(150))
    feed.send(events(150, 150))
    eventually(lambda: processed(groups, events(300)[-1][0]), "all groups have processed the first events", 60)
    assert groups[0].status().events_in == 300
    assert [group.stop(30) for group in groups] == [True] * 3
    feed.send(events(100, 300))
    groups = started(host, runtimes, work)
    eventually(lambda: processed(groups, events(400)[-1][0]), "all groups have processed the rest", 60)
    assert read_events(kafka, "KChain.Out", INPUT) == expected(400)
    assert groups[0].status().events_in == 400


def test_shards_over_kafka_give_what_one_machine_gives(
    host: SparkHost, kafka: KafkaTransport, runtimes: list[GroupRuntime], eventually: Eventually
) -> None:
    text = """@app:name('App') @app:playback define stream S (k string, v long);
        @dist(execGroup='a') partition with (k of S) begin
            from S#window.time(200 millisec) select k, sum(v) as v insert all events into Out; end;
        @dist(execGroup='last') from Out select * insert into End;"""
    (work,) = assignments("KSplit", text, 3)
    topic = work.inputs[0].topic
    kafka.ensure(topic, 1)
    feed = Feed(kafka, topic, INPUT)
    for begin in (0, 100):
        (group,) = started(host, runtimes, [work])
        for number in range(begin, begin + 100, 20):
            feed.send(events(20, number))
        until = events(begin + 100)[-1][0]
        eventually(lambda g=group, u=until: processed([g], u), "all shards have processed all", 60)
        group.stop(30)
    assert by_key(read_events(kafka, "KSplit.Out", INPUT)) == by_key(run(text, {"S": events(200)})["Out"])


def test_a_silent_live_group_over_kafka_wakes_and_hears_outsiders_in_json_and_xml(
    host: SparkHost,
    kafka: KafkaTransport,
    kafka_broker: KafkaBroker,
    runtimes: list[GroupRuntime],
    eventually: Eventually,
) -> None:
    text = """@app:name('App') define stream S (k string, v long);
        @dist(execGroup='a') from every e1=S -> not S[k == e1.k] for 300 milliseconds
            select e1.k as k, e1.v as v insert into Out;
        @dist(execGroup='last') from Out select * insert into End;"""
    work = assignments("KLive", text)
    started(host, runtimes, work)
    producer = KafkaProducer(bootstrap_servers=kafka_broker.url)
    topic = work[0].inputs[0].topic
    producer.send(topic, json.dumps({"event": {"k": "json", "v": 7}}).encode())
    producer.send(topic, b"neither the one nor the other")
    producer.send(topic, b"<events><event><k>xml</k><v>8</v></event></events>")
    producer.close()
    eventually(
        lambda: kafka.partitions("KLive.Out") and len(read_events(kafka, "KLive.Out", INPUT)) == 2,
        "absence was noticed",
        60,
    )
    assert sorted(row for _, row in read_events(kafka, "KLive.Out", INPUT)) == [("json", 7), ("xml", 8)]
