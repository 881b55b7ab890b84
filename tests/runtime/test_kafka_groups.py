"""Groups over a real Kafka broker: the same results as on one machine, nothing lost and nothing doubled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from spdist.config.sections import Kafka, Log, Transports
from spdist.engine.local.app import run
from spdist.engine.spark.session import SparkHost
from spdist.language.parsing.parser import parse
from spdist.planning.groups import plan
from spdist.planning.topology import Assignment
from spdist.runtime.group import GroupRuntime
from spdist.runtime.standalone import prepare
from spdist.services.kafka import KafkaBroker
from spdist.transports.feed import Feed, read_events
from spdist.transports.kafka.options import KafkaSettings
from spdist.transports.kafka.transport import KafkaTransport
from tests.runtime.host_settings import settings_in
from tests.runtime.shared_spark import SHARED_SPARK
from tests.runtime.test_group import APP, INPUT, events, expected, processed, started

Eventually = Callable[..., object]

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, kafka_broker: KafkaBroker) -> SparkHost:
    root = tmp_path_factory.mktemp("over kafka")
    transports = Transports(Log(root / "the topics"), "kafka", Kafka(kafka_broker.url))
    return SHARED_SPARK.host(settings_in(root, transports))


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
    first, *_ = started(host, runtimes, work)
    producer = KafkaProducer(bootstrap_servers=kafka_broker.url)
    topic = work[0].inputs[0].topic
    producer.send(topic, json.dumps({"event": {"k": "json", "v": 7}}).encode())
    producer.send(topic, b"neither the one nor the other")
    producer.send(topic, b"[" * 5000)
    producer.send(topic, b"<a>" * 5000)
    producer.send(topic, b"<events><event><k>xml</k><v>8</v></event></events>")
    producer.close()
    eventually(
        lambda: kafka.partitions("KLive.Out") and len(read_events(kafka, "KLive.Out", INPUT)) == 2,
        "absence was noticed",
        60,
    )
    assert sorted(row for _, row in read_events(kafka, "KLive.Out", INPUT)) == [("json", 7), ("xml", 8)]
    eventually(lambda: first.status().rejected == {"S": 3}, "what cannot be read is counted", 60)


SINKS = """@app:name('KSinks') define stream S (k string, v long);
    @sink(<0>, topic='plain', key='key', partition.no='1', @map(type='json'))
    @sink(<0>, topic='of-{{k}}', key='{{v}}', @map(type='text', @payload('{{v}}')))
    @sink(<0>, topic='plain', partition.no='{{p}}', @map(type='csv'))
    define stream Out (k string, v long, p int);
    @OnError(action='STREAM')
    @sink(<0>, topic='plain', partition.no='{{k}}', on.error='STREAM', @map(type='json'))
    define stream Odd (k string, v long);
    @sink(<0>, topic='plain', partition.no='0', @map(type='text', @payload('bad {{v}}')))
    define stream Failed (k string, v long);
    from S select k, v, convert(v % 2, 'int') as p insert into Out;
    from S[v == 1L] select k, v insert into Odd;
    from !Odd select k, v insert into Failed;"""


def messages(url: str, topic: str) -> list[Any]:
    consumer = KafkaConsumer(bootstrap_servers=url, auto_offset_reset="earliest", enable_auto_commit=False)
    try:
        places = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(places)
        ends, found = consumer.end_offsets(places), []
        while any(consumer.position(place) < ends[place] for place in places):
            found += [one for some in consumer.poll(500).values() for one in some]
        return found
    finally:
        consumer.close()


def test_users_sinks_in_kafka_get_all_in_order_and_with_the_same_ids_after_a_kill(
    host: SparkHost,
    kafka: KafkaTransport,
    kafka_broker: KafkaBroker,
    runtimes: list[GroupRuntime],
    eventually: Eventually,
) -> None:
    url = kafka_broker.url
    admin = KafkaAdminClient(bootstrap_servers=url)
    admin.create_topics([NewTopic(name, 2, 1) for name in ("plain", *(f"of-k{n}" for n in range(5)))])
    admin.close()
    work = prepare(SINKS.replace("<0>", f"type='kafka', bootstrap.servers='{url}'"))
    topic = work.inputs[0].topic
    kafka.ensure(topic, 1)
    feed = Feed(kafka, topic, INPUT)
    for begin in (0, 100):
        group = GroupRuntime(work, host, "worker-1")
        runtimes.append(group)
        group.start()
        assert group.wait(150), group.status()
        feed.send(events(50, begin))
        feed.send(events(50, begin + 50))
        rows = [row for _, row in events(begin + 100)]
        # What could not be sent comes in again.
        count = len(rows) + sum(v == 1 for _, v in rows)
        eventually(lambda g=group, c=count: g.status().events_in == c, "all events have been processed", 150)
        group.kill()
    found: dict[int, dict[int, Any]] = {}
    for one in [*messages(url, "plain"), *(m for n in range(5) for m in messages(url, f"of-k{n}"))]:
        ((header, id),) = one.headers
        source, _, number = id.decode().rpartition(":")
        # Sinks with what differs from event to event count together.
        sink = 3 if source == work.name else int(source.removeprefix(f"{work.name}#"))
        known = found.setdefault(sink, {}).setdefault(int(number), one)
        assert (header, known.value, known.topic) == ("spdist-id", one.value, one.topic)
    assert sorted(found) == [0, 3, 4]
    plain = [found[0][number] for number in range(200)]
    assert [json.loads(one.value)["event"] for one in plain] == [{"k": k, "v": v, "p": v % 2} for k, v in rows]
    assert {(one.key, one.partition) for one in plain} == {(b"key", 1)}
    assert [one.offset for one in plain] == sorted(one.offset for one in plain)
    assert {(m.topic, m.key, m.partition if m.topic == "plain" else 0, m.value) for m in found[3].values()} == {
        place
        for k, v in rows
        for place in (
            (f"of-{k}", str(v).encode(), 0, str(v).encode()),
            ("plain", None, v % 2, f"{k},{v},{v % 2}".encode()),
        )
    }
    # No partition has the name of a key: these came back as events of the fault stream.
    assert [one.value for one in found[4].values()] == [b"bad 1"] * sum(v == 1 for _, v in rows)


def test_a_sink_waits_while_its_brokers_are_away_and_loses_nothing(
    host: SparkHost, kafka: KafkaTransport, runtimes: list[GroupRuntime], eventually: Eventually, tmp_path: Path
) -> None:
    with KafkaBroker(tmp_path, properties={"auto.create.topics.enable": "true"}) as own:
        group = GroupRuntime(
            prepare(
                f"""@app:name('KAway') define stream S (k string, v long);
                @sink(type='kafka', bootstrap.servers='{own.url}', topic='out',
                    @map(type='text', @payload('{{{{v}}}}')))
                define stream Out (v long); from S select v insert into Out;"""
            ),
            host,
            "worker-1",
        )
        runtimes.append(group)
        kafka.ensure("KAway.S", 1)
        feed = Feed(kafka, "KAway.S", INPUT)
        group.start()
        feed.send(events(50))
        eventually(lambda: group.status().events_in == 50, "the first events have been processed", 150)
        own.kill()
        feed.send(events(50, 50))
        away = f"the @sink of stream 'Out' (kafka) waits: Kafka at {own.url}"
        eventually(lambda: str(group.status().waiting).startswith(away), "the group says that it waits", 60)
        own.start()
        eventually(lambda: group.status().events_in == 100, "the rest has been processed", 150)
        assert (group.status().state, group.status().waiting) == ("RUNNING", None)
        found = {dict(one.headers)["spdist-id"]: one.value for one in messages(own.url, "out")}
        assert [found[f"KAway#0:{n}".encode()] for n in range(100)] == [str(v).encode() for _, (_, v) in events(100)]
        group.kill()
