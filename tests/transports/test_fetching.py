"""Messages are fetched from a real broker by their offsets: each time the same, and none that is not committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import pytest
from aiokafka.client import AIOKafkaClient
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.cluster import ClusterMetadata

from spdist.connectors.kafka.link import create_topics
from spdist.errors import TransportError, TransportUnavailableError
from spdist.services.kafka import KafkaBroker
from spdist.services.process import free_port
from spdist.transports.kafka import fetching
from spdist.transports.kafka.extents import KafkaExtents
from spdist.transports.kafka.fetching import KafkaFetcher
from spdist.transports.kafka.options import KafkaSettings
from tests.transports.kafka_batches import batch, plain

Eventually = Callable[..., object]
_NUMBERS = count()


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    name = f"fetched-{next(_NUMBERS)}"
    create_topics(kafka_broker.url, {name: 2})
    return name


@pytest.fixture
def fetcher(kafka_broker: KafkaBroker) -> Iterator[KafkaFetcher]:
    made = KafkaFetcher(KafkaSettings(kafka_broker.url, patience_ms=20_000))
    yield made
    made.close()


def send(broker: KafkaBroker, topic: str, *values: bytes, compression: str | None = None, partition: int = 0) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.url, compression_type=compression)
    for number, value in enumerate(values):
        producer.send(topic, value, key=b"k", partition=partition, timestamp_ms=1000 + number)
    producer.flush()
    producer.close()


def read(fetcher: KafkaFetcher, topic: str, begin: int, end: int, partition: int = 0) -> list[tuple[int, int, bytes]]:
    return [
        row
        for some in fetcher.messages(topic, partition, begin, end)
        for row in zip(some.offsets.to_pylist(), some.times.to_pylist(), some.values.to_pylist(), strict=True)
    ]


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_messages_of_some_offsets(
    kafka_broker: KafkaBroker, topic: str, fetcher: KafkaFetcher, compression: str | None
) -> None:
    values = [f"value {number}".encode() * 20 for number in range(50)]
    send(kafka_broker, topic, *values, compression=compression)
    wanted = [(number, 1000 + number, value) for number, value in enumerate(values)]
    assert read(fetcher, topic, 0, 50) == wanted
    assert read(fetcher, topic, 7, 31) == wanted[7:31]
    assert read(fetcher, topic, 7, 7) == []
    with_keys = list(fetcher.messages(topic, 0, 3, 5, keys=True))
    assert [key for some in with_keys for key in some.keys or ()] == [b"k", b"k"]


def test_more_than_a_broker_sends_at_a_time(
    kafka_broker: KafkaBroker, topic: str, fetcher: KafkaFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_FETCH_BYTES", 2000)
    values = [bytes([65 + number % 26]) * 900 for number in range(40)]
    for part in range(0, 40, 4):
        send(kafka_broker, topic, *values[part : part + 4])
    found = list(fetcher.messages(topic, 0, 1, 39))
    assert len(found) > 3
    assert [value for some in found for value in some.values.to_pylist()] == values[1:39]


def test_what_was_aborted_is_left_out_and_the_end_is_where_nothing_is_open(
    kafka_broker: KafkaBroker, topic: str, fetcher: KafkaFetcher, eventually: Eventually
) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka_broker.url, transactional_id=f"{topic}-t")
    producer.init_transactions()
    for value, commits in ((b"one", True), (b"gone", False), (b"two", True)):
        producer.begin_transaction()
        producer.send(topic, value, partition=0).get(20)
        (producer.commit_transaction if commits else producer.abort_transaction)()
    producer.begin_transaction()
    producer.send(topic, b"open", partition=0).get(20)
    transport = KafkaExtents(KafkaSettings(kafka_broker.url))
    eventually(lambda: transport.ends([(topic, 0)])[topic, 0] == 6, "the last commit is there")
    assert [value for *_, value in read(fetcher, topic, 0, 6)] == [b"one", b"two"]
    producer.abort_transaction()
    producer.close()
    transport.close()


def test_what_was_deleted_is_told_but_to_the_first_reader(
    kafka_broker: KafkaBroker, topic: str, fetcher: KafkaFetcher
) -> None:
    send(kafka_broker, topic, *[b"%d" % number for number in range(9)])
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker.url)
    admin.delete_records({TopicPartition(topic, 0): 4})
    admin.close()
    transport = KafkaExtents(KafkaSettings(kafka_broker.url))
    assert transport.extents([(topic, 0), (topic, 1)]) == {(topic, 0): (4, 9), (topic, 1): (0, 0)}
    transport.close()
    assert [offset for offset, *_ in read(fetcher, topic, 0, 6)] == [4, 5]
    with pytest.raises(TransportError, match="partition 0: messages 2 to 3 were deleted before they were read"):
        read(fetcher, topic, 2, 6)


def test_brokers_that_do_not_answer_are_waited_for_and_told_of() -> None:
    port = free_port()
    fetcher = KafkaFetcher(KafkaSettings(f"127.0.0.1:{port}", patience_ms=300))
    with pytest.raises(TransportUnavailableError, match="does not answer while reading topic 't'"):
        read(fetcher, "t", 0, 1)
    fetcher.close()
    with pytest.raises(TransportUnavailableError, match="does not answer while reading"):
        KafkaExtents(KafkaSettings(f"127.0.0.1:{port}", patience_ms=600)).ends([("t", 0)])


def test_a_client_that_never_answers_is_replaced(
    kafka_broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose task for metadata has failed."""
    send(kafka_broker, topic, b"one")
    connected, clients = KafkaFetcher._connected, list[object]()

    async def never(_client: object, *_: object) -> None:
        await asyncio.Event().wait()

    async def stuck_first(fetcher: KafkaFetcher) -> AIOKafkaClient:
        client = await connected(fetcher)
        if client not in clients:
            clients.append(client)
            if len(clients) == 1:
                client.add_topic = client.force_metadata_update = partial(never, client)
        return client

    monkeypatch.setattr(KafkaFetcher, "_connected", stuck_first)
    monkeypatch.setattr(fetching, "_END_S", 0.5)
    fetcher = KafkaFetcher(KafkaSettings(kafka_broker.url, patience_ms=5_000))
    assert [value for *_, value in read(fetcher, topic, 0, 1)] == [b"one"]
    assert len(clients) == 2
    fetcher.close()


def test_partitions_whose_leader_is_not_known_yet_are_asked_for_again(
    kafka_broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = ClusterMetadata.leader_for_partition
    unknown = [True] * 3

    def leader(cluster: ClusterMetadata, place: TopicPartition) -> int | None:
        return None if place.partition == 1 and unknown and unknown.pop() else known(cluster, place)

    monkeypatch.setattr(ClusterMetadata, "leader_for_partition", leader)
    send(kafka_broker, topic, b"one", partition=1)
    unknown[:] = [True] * 3
    transport = KafkaExtents(KafkaSettings(kafka_broker.url))
    assert transport.extents([(topic, 0), (topic, 1)]) == {(topic, 0): (0, 0), (topic, 1): (0, 1)}
    assert not unknown
    transport.close()
    unknown[:] = [True] * 100_000
    transport = KafkaExtents(KafkaSettings(kafka_broker.url, patience_ms=600))
    with pytest.raises(TransportUnavailableError, match=r"no leader of TopicPartition.*partition=1.* is known"):
        transport.ends([(topic, 0), (topic, 1)])
    transport.close()


def test_a_topic_that_is_gone_is_told(kafka_broker: KafkaBroker) -> None:
    transport = KafkaExtents(KafkaSettings(kafka_broker.url, patience_ms=5_000))
    with pytest.raises(TransportError, match="never-made"):
        transport.ends([("never-made", 0)])
    transport.close()


# --------------------------------------------------------------------------------- what was sent beyond the end is kept
class Answers:
    """A broker's, of batches of ten messages."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at_a_time: int) -> None:
        self.asked: list[tuple[int, int]] = []

        async def asked(_fetcher: KafkaFetcher, place: TopicPartition, offset: int) -> tuple[bytes, list[object]]:
            self.asked.append((place.partition, offset))
            first = offset - offset % 10
            values = ([b"%d" % number for number in range(at, at + 10)] for at in range(first, first + at_a_time, 10))
            return b"".join(batch(first + 10 * n, plain(*some)) for n, some in enumerate(values)), []

        monkeypatch.setattr(KafkaFetcher, "_asked", asked)


@pytest.fixture
def alone() -> Iterator[KafkaFetcher]:
    made = KafkaFetcher(KafkaSettings("127.0.0.1:1", patience_ms=300))
    yield made
    made.close()
    assert not made._kept


def offsets(fetcher: KafkaFetcher, begin: int, end: int, partition: int = 0) -> list[int]:
    return [offset for offset, *_ in read(fetcher, "t", begin, end, partition)]


def test_who_goes_on_at_the_end_is_not_sent_the_same_again(
    alone: KafkaFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers(monkeypatch, 40)
    assert offsets(alone, 0, 55) == list(range(55))
    assert answers.asked == [(0, 0), (0, 40)]
    assert offsets(alone, 55, 75) == list(range(55, 75))
    assert offsets(alone, 75, 120) == list(range(75, 120))
    assert answers.asked == [(0, 0), (0, 40), (0, 80)]
    assert offsets(alone, 120, 121) == [120]
    assert answers.asked[3:] == [(0, 120)]


def test_who_goes_on_elsewhere_is_sent_what_is_there(alone: KafkaFetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(monkeypatch, 40)
    for begin, end, partition in ((0, 15, 0), (5, 15, 0), (15, 20, 1), (15, 20, 0), (20, 30, 0)):
        assert offsets(alone, begin, end, partition) == list(range(begin, end))
    assert answers.asked == [(0, 0), (0, 5), (1, 15)]
    monkeypatch.setattr(fetching, "_KEPT_BYTES", 100)
    assert offsets(alone, 30, 35) == list(range(30, 35))
    assert offsets(alone, 35, 40) == list(range(35, 40))
    assert answers.asked[3:] == [(0, 35)]
