"""``@source(type='kafka')`` on Spark against a real broker: each message once, from where the app says."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from spdist.config.sections import Log, Transports
from spdist.engine.local.app import run
from spdist.engine.spark.session import SparkHost
from spdist.errors import TransportError
from spdist.language.types import Schema
from spdist.runtime.group import GroupRuntime
from spdist.runtime.standalone import prepare
from spdist.services.kafka import KafkaBroker
from spdist.transports.errors import read_errors
from spdist.transports.feed import read_events
from spdist.transports.log import LogTransport
from tests.runtime.host_settings import settings_in
from tests.runtime.shared_spark import SHARED_SPARK

Eventually = Callable[..., object]

pytestmark = pytest.mark.spark

ROW = Schema.of([("k", "string"), ("v", "long")])


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> SparkHost:
    root = tmp_path_factory.mktemp("from kafka")
    return SHARED_SPARK.host(settings_in(root, Transports(Log(root / "the topics")), max_batch_events=50))


@pytest.fixture
def topics(host: SparkHost) -> LogTransport:
    return LogTransport(host.log_directory)


class Users:
    """Topics of users in Kafka."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.producer = KafkaProducer(bootstrap_servers=url)

    def topic(self, partitions: int = 1) -> str:
        name = f"orders-{uuid.uuid4().hex}"
        admin = KafkaAdminClient(bootstrap_servers=self.url)
        admin.create_topics([NewTopic(name, num_partitions=partitions, replication_factor=1)])
        admin.close()
        return name

    def send(self, topic: str, *values: bytes, partition: int = 0, key: bytes | None = None, time: int = 0) -> None:
        for number, value in enumerate(values):
            stamp = {"timestamp_ms": time + number} if time else {}
            self.producer.send(topic, value, key=key, partition=partition, **stamp)
        self.producer.flush()


@pytest.fixture(scope="module")
def users(kafka_broker: KafkaBroker) -> Iterator[Users]:
    found = Users(kafka_broker.url)
    yield found
    found.producer.close()


@pytest.fixture
def begin(host: SparkHost) -> Iterator[Callable[..., GroupRuntime]]:
    begun: list[GroupRuntime] = []

    def make(text: str, shards: int = 1) -> GroupRuntime:
        group = GroupRuntime(prepare(text, shards), host, "worker")
        begun.append(group)
        group.start()
        assert group.wait(240)
        return group

    yield make
    for group in begun:
        group.kill()


def source(users: Users, topic: str, rest: str = "", map: str = "@map(type='json')") -> str:
    return f"@source(type='kafka', bootstrap.servers='{users.url}', topic.list='{topic}', {rest} {map})"


def message(k: str, v: int) -> bytes:
    return json.dumps({"event": {"k": k, "v": v}}).encode()


def rows(topics: LogTransport, topic: str, schema: Schema = ROW) -> list[tuple[Any, ...]]:
    return [row for _, row in read_events(topics, topic, schema)] if topics.partitions(topic) else []


def test_each_message_is_read_once_over_stops_and_kills(
    users: Users, topics: LogTransport, begin: Callable[..., GroupRuntime], eventually: Eventually
) -> None:
    one, two = users.topic(2), users.topic()
    # Both sources read the second topic, the first one twice over two topics, with mappings of their own.
    first = source(users, f"{one},{two}", f"topic.offsets.map='{two}=1',")
    second = source(users, two, map="@map(type='json', @attributes(k='trp:key', v='$.event.v'))")
    text = f"""@app:name('Reads') {first} {second} define stream S (k string, v long);
        @sink(type='embedded', topic='Reads.Out') define stream Out (k string, v long);
        from S select k, v insert into Out;"""
    users.send(one, message("a", 1), message("b", 2))
    users.send(one, message("c", 3), partition=1)
    users.send(two, message("d", 4), message("e", 5), message("f", 6), key=b"x")
    expected = [("a", 1), ("b", 2), ("c", 3), ("f", 6), ("x", 4), ("x", 5), ("x", 6)]
    group = begin(text)
    eventually(lambda: len(rows(topics, "Reads.Out")) >= 7, "all is read", 240)
    assert sorted(rows(topics, "Reads.Out")) == expected
    assert group.status().events_in == 7
    assert group.stop(30)
    users.send(one, *[message("g", number) for number in range(300)])
    group = begin(text)
    eventually(lambda: len(rows(topics, "Reads.Out")) > 60, "some is read", 240)
    group.kill()
    group = begin(text)
    eventually(lambda: len(rows(topics, "Reads.Out")) >= 307, "all is read", 240)
    users.send(one, message("h", 1), partition=1)
    eventually(lambda: len(rows(topics, "Reads.Out")) >= 308, "the last is read", 240)
    found = rows(topics, "Reads.Out")
    assert [row for row in found if row[0] == "g"] == [("g", number) for number in range(300)]
    assert sorted(row for row in found if row[0] != "g") == sorted([*expected, ("h", 1)])
    eventually(lambda: group.status().lag == 0, "the lag is found")


class Slow(ThreadingHTTPServer):
    """Takes what is sent to it, in its time."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), SlowHandler)
        self.pace = threading.Event()
        self.taken: list[bytes] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class SlowHandler(BaseHTTPRequestHandler):
    server: Slow

    def do_POST(self) -> None:
        self.server.pace.wait(0.01)
        self.server.taken.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_said: object) -> None:
        pass


def test_who_is_stopped_far_behind_has_sent_what_came_of_the_last_batch(
    users: Users, begin: Callable[..., GroupRuntime], eventually: Eventually
) -> None:
    topic, receiver = users.topic(), Slow()
    text = f"""@app:name('Behind') {source(users, topic)} define stream S (k string, v long);
        @sink(type='http', publisher.url='http://127.0.0.1:{receiver.server_port}', @map(type='json'))
        define stream Out (k string, v long); from S select k, v insert into Out;"""
    users.send(topic, *[message("k", number) for number in range(1000)])
    try:
        group = begin(text)
        eventually(lambda: len(receiver.taken) > 120, "some is sent", 240)
        assert group.stop(60)
        sent = [json.loads(one)["event"]["v"] for one in receiver.taken]
        assert sent == list(range(group.status().events_in))
        assert len(sent) < 1000
    finally:
        receiver.shutdown()
        receiver.server_close()


def test_messages_move_the_clock_in_playback_and_shards_share_them(
    users: Users, topics: LogTransport, begin: Callable[..., GroupRuntime], eventually: Eventually
) -> None:
    topic = users.topic()
    body = """define stream S (k string, v long);
        @sink(type='embedded', topic='Shared.Out') define stream Out (k string, v long);
        partition with (k of S) begin
        from S#window.time(50 millisec) select k, sum(v) as v insert all events into Out; end;"""
    text = f"@app:name('Shared') @app:playback {source(users, topic)} {body}"
    events = [(1_700_000_000_000 + number, (f"k{number % 7}", number)) for number in range(400)]
    for begun, stop in ((0, 150), (150, 400)):
        part = events[begun:stop]
        users.send(topic, b"[" * 5000, *[message(*row) for _, row in part], time=part[0][0] - 1)
        group = begin(text, 3)
        eventually(lambda g=group, p=part: (g.status().clock or 0) >= p[-1][0], "all shards have read all", 240)
        eventually(lambda g=group: g.status().rejected == {"S": 1}, "who routes has counted", 60)
        (group.kill if begun == 0 else group.stop)()
    local = run(f"@app:playback {body}", {"S": events})["Out"]
    by_key = lambda found: {k: [e for e in found if e[1][0] == k] for k in sorted({e[1][0] for e in found})}  # noqa: E731
    assert by_key(read_events(topics, "Shared.Out", ROW)) == by_key(local)


def test_what_is_no_event_goes_where_the_source_says(
    users: Users, topics: LogTransport, begin: Callable[..., GroupRuntime], eventually: Eventually
) -> None:
    topic, faults = users.topic(), Schema.of([("k", "string"), ("told", "object")])
    kinds = ("LOG", "STREAM", "STORE")
    definitions = [
        f"""{source(users, topic, f"on.error='{kind}',")} @OnError(action='STREAM')
        define stream {kind} (k string, v long);
        @sink(type='embedded', topic='Bad.{kind}.Out') define stream Out{kind} (k string, v long);
        @sink(type='embedded', topic='Bad.{kind}.Faults') define stream Faults{kind} (k string, told object);"""
        for kind in kinds
    ]
    queries = [
        f"""from {kind} select k, v insert into Out{kind};
        from !{kind} select k, _error as told insert into Faults{kind};"""
        for kind in kinds
    ]
    text = "@app:name('Bad') " + "".join([*definitions, *queries])
    users.send(topic, b"no json", message("a", 1), b'[{"event": {"k": "b", "v": 2}}, {"event": {"k": "c"}}]')
    users.send(topic, b"[" * 5000)
    group = begin(text)
    for kind in kinds:
        out = f"Bad.{kind}.Out"
        eventually(lambda out=out: rows(topics, out) == [("a", 1), ("b", 2)], "what can be read comes", 240)
    eventually(lambda: len(rows(topics, "Bad.STREAM.Faults", faults)) == 3, "the rest comes as faults", 240)
    eventually(lambda: group.status().rejected == dict.fromkeys(kinds, 3), "all are counted", 60)
    found = rows(topics, "Bad.STREAM.Faults", faults)
    assert all(k is None and "stream 'STREAM'" in told for k, told in found), found
    assert not rows(topics, "Bad.LOG.Faults", faults)
    kept = read_errors(topics, "Bad")
    assert [one["origin"] for one in kept] == ["source"] * 3
    assert (kept[0]["stream"], kept[0]["payload"]) == ("STORE", "no json")


def test_latest_is_resolved_once_and_a_missing_topic_is_said(
    users: Users, host: SparkHost, topics: LogTransport, begin: Callable[..., GroupRuntime], eventually: Eventually
) -> None:
    topic = users.topic()
    users.send(topic, message("before", 1))
    latest = "optional.configuration='auto.offset.reset:latest',"
    text = f"""@app:name('Late') {source(users, topic, latest)} define stream S (k string, v long);
        @sink(type='embedded', topic='Late.Out') define stream Out (k string, v long);
        from S select k, v insert into Out;"""
    begin(text).kill()
    users.send(topic, message("meanwhile", 2))
    begin(text)
    users.send(topic, message("then", 3))
    eventually(lambda: len(rows(topics, "Late.Out")) >= 2, "what came since is read", 240)
    assert rows(topics, "Late.Out") == [("meanwhile", 2), ("then", 3)]
    missing = text.replace(topic, "nowhere").replace("Late", "Missing")
    group = GroupRuntime(prepare(missing), host, "worker")
    group.start()
    assert group.wait(240)
    assert isinstance(group.error, TransportError)
    assert "there is no topic 'nowhere'" in str(group.error)
    assert group.error.span is not None


@pytest.mark.slow
def test_brokers_that_are_away_at_the_start_or_later_are_waited_for(
    host: SparkHost, topics: LogTransport, tmp_path: Path, eventually: Eventually
) -> None:
    with KafkaBroker(tmp_path / "kafka") as broker:
        users = Users(broker.url)
        topic = users.topic()
        users.send(topic, message("a", 1))
        users.producer.close()
        broker.kill()
        patience = "optional.configuration='default.api.timeout.ms:3000',"
        text = f"""@app:name('Away') {source(users, topic, patience)} define stream S (k string, v long);
            @sink(type='embedded', topic='Away.Out') define stream Out (k string, v long);
            from S select k, v insert into Out;"""
        group = GroupRuntime(prepare(text), host, "worker")
        group.start()
        try:
            eventually(lambda: str(broker.port) in (group.status().waiting or ""), "the group says so", 240)
            assert group.status().state == "STARTING"
            broker.start()
            eventually(lambda: rows(topics, "Away.Out") == [("a", 1)], "it begins", 240)
            broker.kill()
            eventually(lambda: group.status().waiting, "the group says so again", 240)
            assert group.status().state == "RUNNING"
            broker.start()
            users = Users(broker.url)
            users.send(topic, message("b", 2))
            users.producer.close()
            eventually(lambda: rows(topics, "Away.Out") == [("a", 1), ("b", 2)], "it goes on", 240)
            assert group.status().waiting is None
        finally:
            group.kill()
