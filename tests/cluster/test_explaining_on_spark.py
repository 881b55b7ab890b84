"""Why groups that run on Spark have put something out: as Spark Columns between Kafka topics, and as an island.

A manager and a worker, which are asked over REST; what the worker would start runs in one Spark session here.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from typer.testing import CliRunner

from spdist.__main__ import app as spdist_command
from spdist.cluster.clients.client import ClusterClient
from spdist.cluster.clients.handle import Deployment
from spdist.cluster.manager import Manager
from spdist.cluster.worker import Worker
from spdist.connectors.kafka.link import create_topics
from spdist.engine.replay.evidence import EventPlace
from spdist.engine.spark.jars import kafka_jars
from spdist.engine.spark.session import SparkHost
from spdist.errors import NotFoundError
from spdist.runtime.column_inputs import column_inputs
from spdist.runtime.realtime import runtime_of
from spdist.services.kafka import KafkaBroker
from spdist.transports.payloads.headers import ID_HEADER
from tests.cluster.shells import PASSWORD, FakeSpark, manager_config, worker_config

COLUMNS = """@app:name('{name}')
@source(type='kafka', bootstrap.servers='{servers}', topic.list='{name}-in', group.id='g',
        threading.option='single.thread', @map(type='json'))
define stream Readings (room string, degrees double);
@sink(type='kafka', bootstrap.servers='{servers}', topic='{name}-hot', @map(type='json'))
define stream Hot (room string, degrees double);
@sink(type='kafka', bootstrap.servers='{servers}', topic='{name}-rooms',
      @map(type='json', event.grouping.enabled='false'))
define stream Rooms (name string, seen long);
from Readings[degrees > 30.0] select room, degrees insert into Hot;
from Hot select str:concat('in ', room) as name, eventTimestamp() as seen insert into Rooms;
"""
ISLAND = """@app:name('{name}') @app:playback
define stream Readings (room string, degrees double);
@sink(type='embedded', topic='{name}.Means') define stream Means (room string, degrees double);
from Readings#window.length(2) select room, avg(degrees) as degrees insert into Means;
"""


class Wire:
    """The topics of the app of Columns: what goes in, and what has come out by its id."""

    def __init__(self, name: str, servers: str) -> None:
        create_topics(servers, {f"{name}-in": 1, f"{name}-hot": 1, f"{name}-rooms": 1})
        self.name, self.servers = name, servers
        self._producer = KafkaProducer(bootstrap_servers=servers)
        self._consumer = KafkaConsumer(
            f"{name}-hot", f"{name}-rooms", bootstrap_servers=servers, auto_offset_reset="earliest"
        )
        self.came: dict[str, tuple[str, Any]] = {}

    def send(self, payload: Any) -> int:
        """Send a payload and return its offset."""
        sent = self._producer.send(f"{self.name}-in", json.dumps(payload).encode())
        return int(sent.get(30).offset)

    def has(self, count: int) -> bool:
        for messages in self._consumer.poll(200).values():
            for one in messages:
                self.came[dict(one.headers)[ID_HEADER].decode()] = one.topic.rpartition("-")[2], json.loads(one.value)
        return len(self.came) >= count

    def delete_until(self, offset: int) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.servers)
        admin.delete_records({TopicPartition(f"{self.name}-in", 0): offset})
        admin.close()

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()


@dataclass
class Node:
    """A cluster of which the only worker runs groups when it is told to."""

    client: ClusterClient
    host: SparkHost
    spark: FakeSpark

    @contextmanager
    def running(self, text: str, eventually: Callable[..., Any]) -> Iterator[Deployment]:
        """Deploy an app of one group, and run that."""
        app = self.client.deploy(text).wait(timeout_s=60)
        (started,) = self.spark.of(f"{app.name}-default-1")
        group = runtime_of(started.assignment, self.host, "worker-1")
        group.start()
        try:
            eventually(lambda: group.status().state != "STARTING", f"{app.name} runs", 120)
            assert group.status().state == "RUNNING", group.error
            yield app
        finally:
            group.stop()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    home = tmp_path_factory.mktemp("explained")
    kafka_jars()  # real-time mode needs them when the host starts
    manager = Manager(manager_config(home))
    manager.start()
    config, spark = worker_config(home, [manager.url]), FakeSpark()
    worker = Worker(config, launcher=spark)
    try:
        worker.start()
        with ClusterClient([manager.url], "admin", PASSWORD) as client, SparkHost(config) as host:
            yield Node(client, host, spark)
    finally:
        worker.stop()
        manager.stop()


def reading(room: str, degrees: float) -> dict[str, Any]:
    return {"event": {"room": room, "degrees": degrees}}


def rows(evidence: Any) -> list[tuple[Any, ...]]:
    return [cause.row for cause in evidence.causes]


@pytest.mark.spark
def test_a_group_of_spark_columns_is_explained_by_the_message_in_its_topic(
    node: Node, kafka_broker: KafkaBroker, eventually: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"Rooms{uuid.uuid4().hex[:8]}"
    wire = Wire(name, kafka_broker.url)
    text = COLUMNS.replace("{name}", name).replace("{servers}", kafka_broker.url)
    with node.running(text, eventually) as app:
        wire.send(reading("cellar", 12.0))
        alone = wire.send(reading("attic", 31.0))
        several = wire.send([reading("hall", 40.0), reading("hall", 20.0), reading("loft", 50.0)])
        wire.send("no event")
        eventually(lambda: wire.has(2 + 3), "results of both messages", 180)
        for id, (topic, payload) in wire.came.items():
            _explained(app, topic.title(), id, payload, (alone, several))
        assert rows(app.explain("Hot", {"room": "loft"})) == [("loft", 50.0)]
        assert rows(app.explain("Rooms", ("in attic", app.explain("Hot", 0).event.timestamp))) == [("attic", 31.0)]
        assert app.explain("Hot").event.row == ("loft", 50.0)
        monkeypatch.setenv("SPDIST_URL", node.client.managers[0])
        monkeypatch.setenv("SPDIST_PASSWORD", PASSWORD)
        told = CliRunner().invoke(spdist_command, ["why", name, "Hot", f"{name}-in/0/{alone}/1", "--json"])
        assert told.exit_code == 0, told.output
        assert [one["row"] for one in json.loads(told.stdout)["causes"]] == [["attic", 31.0]]
        _refused(app, wire, alone)
        inputs = column_inputs(node.host.state_location, f"{name}-default-1", allowed=node.host.allowed)
        assert inputs is not None and inputs.topics[f"{name}-in"][0].first == 0, "Spark has noted where it began"
    wire.close()


def _explained(app: Deployment, stream: str, id: str, payload: Any, offsets: tuple[int, int]) -> None:
    """Each event that a result holds is caused by the one of its message that it was made of."""
    offset = int(id.split("/")[2])
    assert id.startswith(f"{app.name}-in/0/") and offset in offsets
    for place, one in enumerate(payload if isinstance(payload, list) else [payload]):
        evidence = app.explain(stream, place, id=id)
        assert evidence.event.row == tuple(one["event"].values()), id
        (cause,) = evidence.causes
        room = one["event"].get("room") or one["event"]["name"].removeprefix("in ")
        assert (cause.stream, cause.row[0]) == ("Readings", room)
        assert cause.place == EventPlace(f"{app.name}-in", 0, offset)
        assert evidence.minimal and evidence.causes[0].without == "nothing"
        if stream == "Rooms":
            assert evidence.event.row[1] == evidence.event.timestamp, "the time of the message is the event's"
    other = "Hot" if stream == "Rooms" else "Rooms"
    with pytest.raises(NotFoundError, match=rf"is one of stream '{stream}', not of '{other}'"):
        app.explain(other, id=id)


def _refused(app: Deployment, wire: Wire, alone: int) -> None:
    """What cannot be explained is told: also what Kafka has deleted."""
    topic = f"{wire.name}-in"
    for id, told in (
        (f"{topic}/0/{alone}/7", "no result .* comes out of the message in .*, partition 0, offset 1.*2 results"),
        (f"{topic}/0/99/0", "has no message at offset 99: it ends before 4"),
        (f"{topic}/7/0/0", r"does not read topic .*, partition 7.*\[0\]"),
        ("other/0/0/0", "does not read topic 'other'"),
    ):
        with pytest.raises(NotFoundError, match=f"(?s){told}"):
            app.explain("Hot", id=id)
    with pytest.raises(NotFoundError, match=r"(?s)Kafka keeps 4 messages of .* since"):
        app.explain("Hot", {"room": "cellar"})
    wire.delete_until(alone + 1)
    with pytest.raises(
        NotFoundError, match=rf"(?s)Kafka no longer keeps the message .* begins at offset {alone + 1} now"
    ):
        app.explain("Hot", id=f"{topic}/0/{alone}/0")
    with pytest.raises(
        NotFoundError, match=rf"(?s)Kafka keeps 2 messages .*of {topic} partition 0 it has deleted older"
    ):
        app.explain("Hot", {"room": "attic"})


@pytest.mark.spark
def test_an_alert_of_an_embedded_sink_of_a_group_on_spark_is_explained_by_its_id(
    node: Node, eventually: Callable[..., Any]
) -> None:
    name = f"Means{uuid.uuid4().hex[:8]}"
    with node.running(ISLAND.replace("{name}", name), eventually) as app:
        feed = app.feed("Readings")
        feed.send([(1000 * n, ("attic", float(n % 3))) for n in range(1, 10)])
        feed.advance(20_000)
        eventually(lambda: len(app.read("Means")) == 9, "all means", 120)
        means = list(app.tail("Means"))
        assert [one.id for one in means] == [f"{name}-default-1@{name}.Means/0:{n}" for n in range(9)]
        for number, one in enumerate(means):
            evidence = app.explain("Means", id=one.id)
            assert (evidence.event.timestamp, evidence.event.row) == one
            assert [cause.timestamp for cause in evidence.causes][-1] == 1000 * (number + 1)
