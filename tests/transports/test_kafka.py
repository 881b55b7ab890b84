"""Topics in a real Kafka broker keep the contract of a transport."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaTimeoutError

from spdist.errors import TransportError, TransportUnavailableError
from spdist.services.kafka import KafkaBroker
from spdist.transports.base import NO_CLOCK, Record, Transport
from spdist.transports.kafka.fetching import KafkaFetcher
from spdist.transports.kafka.options import KafkaSettings
from spdist.transports.kafka.transport import KafkaTransport, kafka_topic
from spdist.transports.payloads.external import mark
from tests.transports.deleting import delete_topic
from tests.transports.transport_contract import Delete, Factory, Make, ServerContract


class TestKafkaTransport(ServerContract):
    @pytest.fixture
    def factory(self, kafka_broker: KafkaBroker) -> Factory:
        return functools.partial(KafkaTransport, KafkaSettings(kafka_broker.url))

    @pytest.fixture
    def delete(self, kafka_broker: KafkaBroker) -> Delete:
        return functools.partial(delete_topic, "kafka", kafka_broker.url)

    @pytest.fixture(scope="class")
    def mortal(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
        with KafkaBroker(tmp_path_factory.mktemp("mortal")) as broker:
            yield broker

    @pytest.fixture
    def opened(self, mortal: KafkaBroker) -> Callable[[int], Transport]:
        return lambda patience_ms: KafkaTransport(KafkaSettings(mortal.url, patience_ms=patience_ms))

    def test_others_see_ids_in_headers_and_the_clock_as_time(
        self, transport: KafkaTransport, topic: str, kafka_broker: KafkaBroker
    ) -> None:
        transport.ensure(topic, 2)
        transport.append([Record(topic, 1, b"payload", 3, "prö", 7, 5000)])
        consumer = KafkaConsumer(bootstrap_servers=kafka_broker.url, auto_offset_reset="earliest")
        consumer.assign([TopicPartition(topic, 1)])
        (message,) = next(iter(consumer.poll(10_000).values()))
        consumer.close()
        assert message.value == b"payload"
        assert message.timestamp == 5000
        assert dict(message.headers) == {
            "spdist-producer": "prö".encode(),
            "spdist-seq": b"7",
            "spdist-count": b"3",
            "spdist-clock": b"5000",
        }

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
    def test_records_can_be_compressed(self, kafka_broker: KafkaBroker, topic: str, codec: str) -> None:
        settings = KafkaSettings(kafka_broker.url, {"compression.type": codec})
        transport, fetcher = KafkaTransport(settings), KafkaFetcher(settings)
        transport.ensure(topic, 1)
        transport.append([Record(topic, 0, b"payload" * 100_000, 1, "p", n, n) for n in range(3)])
        assert [one.value for one in transport.read(topic, 0, 0)] == [b"payload" * 100_000] * 3
        (found,) = fetcher.messages(kafka_topic(topic), 0, 0, 3)
        assert found.values.to_pylist() == [b"payload" * 100_000] * 3
        fetcher.close()
        transport.close()

    @pytest.mark.parametrize("client", ["consumer", "admin"])
    def test_a_client_that_has_lost_its_brokers_is_replaced(
        self, kafka_broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch, client: str
    ) -> None:
        transport = KafkaTransport(KafkaSettings(kafka_broker.url, patience_ms=2000))
        transport.ensure(topic, 1)
        assert transport.end_offsets(topic) == {0: 0}

        def lost(*_: object, **__: object) -> object:
            raise KafkaTimeoutError("no metadata")

        stuck = {"consumer": transport._consumer, "admin": transport._admin}[client]
        monkeypatch.setattr(stuck, {"consumer": "end_offsets", "admin": "describe_topics"}[client], lost)
        with pytest.raises(TransportUnavailableError, match="does not answer"):
            transport.end_offsets(topic)
        assert transport.end_offsets(topic) == {0: 0}
        transport.close()

    def test_times_in_the_future_are_taken(self, transport: KafkaTransport, topic: str) -> None:
        transport.ensure(topic, 1)
        transport.append([Record(topic, 0, b"x", 1, "p", 0, 2**62)])
        assert transport.read(topic, 0, 0)[0].clock == 2**62

    def test_messages_of_outsiders_and_nonsense_in_headers_are_payloads(
        self, transport: KafkaTransport, topic: str, kafka_broker: KafkaBroker
    ) -> None:
        transport.ensure(topic, 1)
        producer = KafkaProducer(bootstrap_servers=kafka_broker.url)
        wrong = [("spdist-producer", b"p"), ("spdist-seq", b"many"), ("spdist-count", b"1"), ("spdist-clock", b"0")]
        producer.send(topic, b'{"event":{}}', timestamp_ms=4000)
        producer.send(topic, b"\xff\x00", headers=wrong, timestamp_ms=5000)
        producer.send(topic, None, key=b"key")
        producer.close()
        assert transport.read(topic, 0, 0) == [
            Record(topic, 0, mark(b'{"event":{}}', 4000, 0), 1, "", 0, NO_CLOCK, 0),
            Record(topic, 0, mark(b"\xff\x00", 5000, 1), 1, "", 0, NO_CLOCK, 1),
            Record(topic, 0, b"", 0, "", 0, NO_CLOCK, 2),
        ]

    def test_records_that_were_deleted_are_said_and_not_skipped(
        self, transport: KafkaTransport, topic: str, make: Make, kafka_broker: KafkaBroker
    ) -> None:
        transport.ensure(topic, 1)
        transport.append([make(n) for n in range(10)])
        admin = KafkaAdminClient(bootstrap_servers=kafka_broker.url)
        admin.delete_records({TopicPartition(topic, 0): 6})
        admin.close()
        with pytest.raises(TransportError, match="records 3 to 5 were deleted") as caught:
            transport.read(topic, 0, 3)
        assert "retention.ms" in str(caught.value.hint)
        assert [r.offset for r in transport.read(topic, 0, 6)] == [6, 7, 8, 9]
        assert [r.offset for r in transport.read(topic, 0, 0)] == [6, 7, 8, 9]
        assert transport.end_offsets(topic) == {0: 10}

    def test_a_record_that_is_too_large_is_refused_before_anything_is_sent(
        self, transport: KafkaTransport, topic: str, make: Make
    ) -> None:
        transport.ensure(topic, 1)
        with pytest.raises(TransportError, match="too large"):
            transport.append([make(1), Record(topic, 0, bytes(17 * 1024 * 1024), 1, "p", 2)])
        assert transport.end_offsets(topic) == {0: 0}

    def test_after_a_refused_record_nothing_of_its_partition_is_sent(
        self, transport: KafkaTransport, topic: str, make: Make, kafka_broker: KafkaBroker
    ) -> None:
        admin = KafkaAdminClient(bootstrap_servers=kafka_broker.url)
        admin.create_topics({topic: {"num_partitions": 1, "configs": {"max.message.bytes": "1000"}}})
        admin.close()
        records = [make(0), Record(topic, 0, bytes(600_000), 1, "p", 1), *(make(n) for n in range(2, 40))]
        with pytest.raises(TransportError, match="MessageSizeTooLarge"):
            transport.append(records)
        came = [r.seq for r in transport.read(topic, 0, 0)]
        assert came in ([], [0])
        transport.append([make(0)])


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("App.Stream_1-x", "App.Stream_1-x"),
        ("App.Stream/ü", "App.Stream-u2f--ufc-"),
        ("a-u2f-", "a-u2d-u2f-"),
        ("..", "-u2e--u2e-"),
    ],
)
def test_names_in_kafka(topic: str, name: str) -> None:
    assert kafka_topic(topic) == name


def test_names_that_kafka_cannot_have_are_refused() -> None:
    with pytest.raises(TransportError, match="cannot be the name of a topic"):
        kafka_topic("x" * 250)
