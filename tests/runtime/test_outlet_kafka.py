"""The Kafka sink of users against a real broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, TopicPartition

from spdist.errors import AppValidationError
from spdist.services.kafka import KafkaBroker
from spdist.transports.delivery import Delivery
from spdist.transports.outlet_kafka import KafkaOutlet
from spdist.transports.outlets import SendError


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


def test_a_message_bears_key_and_id(kafka_broker: KafkaBroker, topic: str) -> None:
    server = kafka_broker.url
    send(server, topic, "a", partition_no="1", key="x")
    place = TopicPartition(topic, 1)
    consumer = KafkaConsumer(bootstrap_servers=server, auto_offset_reset="earliest", consumer_timeout_ms=30_000)
    try:
        consumer.assign([place])
        found = next(consumer)
        assert (found.key, found.value) == (b"x", b'{"k": "a"}')
        assert [name for name, _ in found.headers] == ["spdist-id"]
    finally:
        consumer.close()
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
