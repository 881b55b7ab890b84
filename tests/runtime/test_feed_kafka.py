"""The Kafka source and sink of users against a real broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from spdist.errors import AppValidationError
from spdist.services.kafka import KafkaBroker
from spdist.transports.delivery import Delivery
from spdist.transports.feed import read_events
from spdist.transports.kafka_link import KafkaAccess, KafkaReader
from spdist.transports.options import Options
from spdist.transports.outlet_kafka import KafkaOutlet
from spdist.transports.outlets import SendError
from tests.runtime.test_feeders import Fed, eventually

SOURCE = """@source(type='kafka', bootstrap.servers='{}', topic.list='{}', group.id='g',
    threading.option='single.thread', optional.configuration='auto.offset.reset:earliest',
    @map(type='json', @attributes(k='$.k', n='trp:partition')))"""


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> Iterator[str]:
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    name = f"orders-{uuid.uuid4().hex}"
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker.url)
    admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])
    admin.close()
    yield name


def send(server: str, topic: str, *names: str, first: int = 0, **more: str) -> None:
    options = {"bootstrap.servers": server, "topic": topic, **{key.replace("_", "."): one for key, one in more.items()}}
    outlet = KafkaOutlet(options)
    try:
        outlet.send(
            [
                Delivery("kafka", 0, 0, "S", options, f'{{"k": "{name}"}}', "A-1", number)
                for number, name in enumerate(names, first)
            ]
        )
    finally:
        outlet.close()


def test_messages_are_read_once_over_restarts(kafka_broker: KafkaBroker, topic: str, tmp_path: Path) -> None:
    server = kafka_broker.url
    send(server, topic, "a", "b", partition_no="1", key="x")
    one = Fed(tmp_path, SOURCE.format(server, topic))
    try:
        one.feeders.start()
        eventually(lambda: (one.rows(), one.feeders.problem), ([("a", 1), ("b", 1)], None), 30)
        one.feeders.stop()
        send(server, topic, "c", partition_no="0")
        one.again()
        eventually(one.rows, [("a", 1), ("b", 1), ("c", 0)], 60)
    finally:
        one.close()


def test_an_event_has_the_time_of_its_message(kafka_broker: KafkaBroker, topic: str, tmp_path: Path) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=kafka_broker.url)
    producer.send(topic, b'{"k": "a"}', partition=0, timestamp_ms=1_700_000_000_000)
    producer.close()
    one = Fed(tmp_path, SOURCE.format(kafka_broker.url, topic))
    try:
        one.feeders.start()
        found = [(1_700_000_000_000, ("a", 0))]
        eventually(lambda: read_events(one.transport, "A.S", one.streams["S"]), found, 30)
    finally:
        one.close()


def test_a_message_bears_key_and_id(kafka_broker: KafkaBroker, topic: str) -> None:
    server = kafka_broker.url
    send(server, topic, "a", partition_no="1", key="x")
    reader = KafkaReader(KafkaAccess.of(Options({"bootstrap.servers": server}, "it")))
    try:
        begin = reader.ends([topic], first=True)
        assert begin == {(topic, 0): 0, (topic, 1): 0}
        reader.seek(begin)
        found = []
        eventually(lambda: found.extend(reader.poll(200, 10)) or len(found), 1)  # type: ignore[func-returns-value]
        assert (found[0].partition, found[0].key, found[0].value) == (1, b"x", b'{"k": "a"}')
    finally:
        reader.close()
    with pytest.raises(SendError, match="'one' is no partition") as error:
        send(server, topic, "a", partition_no="one")
    assert error.value.lasting


def test_wrong_options_are_refused() -> None:
    known = {"bootstrap.servers": "localhost:1", "topic": "t"}
    for key, value, told in [
        ("bootstrap.servers", "", "is missing"),
        ("topic", "", "is missing"),
        ("optional.configuration", "request.timeout.ms:soon", "cannot be used: Kafka's request.timeout.ms must be"),
    ]:
        with pytest.raises(AppValidationError, match=told):
            KafkaOutlet(known | {key: value})
