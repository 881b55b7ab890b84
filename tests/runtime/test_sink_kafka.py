"""The Kafka sink of users against a real broker."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewTopic

from spdist.connectors.kafka.records import behind, messages_of
from spdist.connectors.kafka.sink import KafkaSink
from spdist.connectors.sending import SendError, SinkContext
from spdist.errors import AppValidationError, TransportError
from spdist.mapping.passing import ChunkPayload
from spdist.services.kafka import KafkaBroker
from spdist.transports.delivery import Deliveries, Delivery
from spdist.transports.event_log import encoded
from spdist.transports.log import LogTransport

#: Too many for a small topic to take at once.
NARROW = {"max.message.bytes": "2000"}


@pytest.fixture
def make_topic(kafka_broker: KafkaBroker) -> Callable[..., str]:
    def make(**settings: str) -> str:
        name = f"orders-{uuid.uuid4().hex}"
        admin = KafkaAdminClient(bootstrap_servers=kafka_broker.url)
        admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1, topic_configs=settings)])
        admin.close()
        return name

    return make


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    return make_topic()


@pytest.fixture
def context(tmp_path: Any) -> Iterator[SinkContext]:
    log = LogTransport(tmp_path)
    yield SinkContext("A", log, {})
    log.close()


@pytest.fixture
def opened(kafka_broker: KafkaBroker, context: SinkContext) -> Iterator[Callable[..., KafkaSink]]:
    sinks: list[KafkaSink] = []

    def open_one(topic: str, **more: str) -> KafkaSink:
        options = {"bootstrap.servers": kafka_broker.url, "topic": topic, **more}
        sinks.append(KafkaSink(options, context))
        return sinks[-1]

    yield open_one
    for one in sinks:
        one.close()


def together(payloads: Sequence[Any], first: int = 0, **options: str) -> Deliveries:
    named = {key.replace("_", "."): value for key, value in options.items()}
    return Deliveries("kafka", 0, 0, "S", named, payloads, "A-1", first)


def received(broker: KafkaBroker, topic: str) -> dict[int, list[tuple[bytes | None, bytes, str]]]:
    """Return key, value and id of the messages in each partition."""
    consumer = KafkaConsumer(bootstrap_servers=broker.url, enable_auto_commit=False)
    try:
        places = [TopicPartition(topic, number) for number in (0, 1)]
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        found: dict[int, list[tuple[bytes | None, bytes, str]]] = {0: [], 1: []}
        while any(consumer.position(place) < ends[place] for place in places):
            for place, some in consumer.poll(500).items():
                found[place.partition] += [
                    (one.key, one.value, dict(one.headers)["spdist-id"].decode()) for one in some
                ]
        return found
    finally:
        consumer.close()


def test_a_message_bears_key_id_and_time(
    kafka_broker: KafkaBroker, topic: str, opened: Callable[..., KafkaSink]
) -> None:
    options = {"topic": topic, "partition.no": "1", "key": "x"}
    opened(topic).send([Delivery("kafka", 0, 0, "S", options, '{"k": "a"}', "A-1", 7)])
    assert received(kafka_broker, topic) == {0: [], 1: [(b"x", b'{"k": "a"}', "A-1:7")]}


def test_many_messages_keep_their_order_and_go_to_the_same_partitions_again(
    kafka_broker: KafkaBroker, topic: str, opened: Callable[..., KafkaSink]
) -> None:
    sink = opened(topic)
    sink.send(together([f"n{n}" for n in range(20_000)], 5, topic=topic))
    sink.send(together([f"n{n}" for n in range(3, 10)], 8, topic=topic))
    opened(topic).send(together(["keyed"] * 3, 0, topic=topic, key="k"))
    found = received(kafka_broker, topic)
    for partition, turn in found.items():
        each = [(value.decode(), id) for key, value, id in turn if key is None]
        share = [(f"n{n}", f"A-1#0:{n + 5}") for n in range(20_000) if (n + 5) % 2 == partition]
        again = [(f"n{n}", f"A-1#0:{n + 5}") for n in range(3, 10) if (n + 5) % 2 == partition]
        assert each == share + again
    keyed = {partition: sum(key is not None for key, _, _ in turn) for partition, turn in found.items()}
    assert sorted(keyed.values()) == [0, 3]


def test_messages_can_be_compressed(kafka_broker: KafkaBroker, topic: str, opened: Callable[..., KafkaSink]) -> None:
    sent = together([f"ä{n}" for n in range(3000)], 0, topic=topic, partition_no="0")
    codecs = ["gzip", "none", "snappy", "lz4", "zstd", "lz4,compression.lz4.level:12"]
    for turn, codec in enumerate(codecs):
        sink = opened(topic, **{"optional.configuration": f"compression.type:{codec},batch.size:20000"})
        sink.send(sent[500 * turn : 500 * (turn + 1)])
    found = received(kafka_broker, topic)[0]
    assert found == [(None, f"ä{n}".encode(), f"A-1#0:{n}") for n in range(3000)]


def test_a_codec_that_is_not_there_is_told_when_the_sink_is_opened(
    topic: str, opened: Callable[..., KafkaSink]
) -> None:
    with pytest.raises(AppValidationError, match=r"optional\.configuration.* must be none, gzip.*, not 'lzo'"):
        opened(topic, **{"optional.configuration": "compression.type:lzo"})


def test_a_message_that_brokers_refuse_is_named_and_the_others_arrive(
    kafka_broker: KafkaBroker, make_topic: Callable[..., str], opened: Callable[..., KafkaSink]
) -> None:
    topic = make_topic(**NARROW)
    small = [f"{n}" * 50 for n in range(100, 400)]
    sink, left = opened(topic), together([*small[:200], "x" * 5000, *small[200:]], 0, topic=topic, partition_no="0")
    with pytest.raises(SendError, match="MessageSizeTooLarge") as error:
        sink.send(left)
    assert (error.value.done, error.value.lasting) == (200, True)
    sink.send(left[201:])
    numbers: list[int] = []
    for _, value, id in received(kafka_broker, topic)[0]:
        number = int(id.removeprefix("A-1#0:"))
        assert value.decode() == left[number].payload
        if number not in numbers:
            numbers.append(number)
    assert numbers == [*range(200), *range(201, 301)]


def test_what_names_no_place_is_said_after_the_others_have_gone(
    kafka_broker: KafkaBroker, topic: str, opened: Callable[..., KafkaSink]
) -> None:
    sink = opened(topic)
    each = [
        Delivery("kafka", 0, 0, "S", {"topic": topic, "partition.no": place}, "a", "A-1", number)
        for number, place in enumerate(("0", "0", "one", "0"))
    ]
    with pytest.raises(SendError, match="'one' is no partition") as error:
        sink.send(each)
    assert (error.value.done, error.value.lasting) == (2, True)
    assert [id for _, _, id in received(kafka_broker, topic)[0]] == ["A-1:0", "A-1:1"]
    places = [{"topic": topic, "partition.no": "2"}, {"topic": "not-there"}, {"topic": "not a name"}]
    for number, place in enumerate(places):
        each = [Delivery("kafka", 0, 0, "S", each[0].options, "a", "A-1", 10 * number)]
        each += [Delivery("kafka", 0, 0, "S", place, "a", "A-1", 10 * number + 1)] * 2
        with pytest.raises(SendError, match=r"no topic|no partition 2") as error:
            sink.send(each)
        assert (error.value.done, error.value.lasting) == (1, False)
    assert [id for _, _, id in received(kafka_broker, topic)[0]][2:] == ["A-1:0", "A-1:10", "A-1:20"]


def test_who_waits_for_brokers_says_so_and_can_be_told_to_stop(
    tmp_path: Any, eventually: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spdist.connectors.kafka.sink._LONG_S", 0.2)
    stop, told, ended = threading.Event(), [], []
    log = LogTransport(tmp_path)
    context = SinkContext("A", log, {}, stopped=stop.is_set, waiting=told.append)
    gone = {"bootstrap.servers": "127.0.0.1:1", "topic": "t"}
    sink = KafkaSink(gone, context)

    def send() -> None:
        try:
            sink.send(together(["a"], topic="t"))
        except TransportError as error:
            ended.append(error.message)

    sending = threading.Thread(target=send)
    sending.start()
    eventually(lambda: told, "it says that it waits", 20)
    assert told[0].startswith("the @sink of stream 'S' (kafka) waits: Kafka at 127.0.0.1:1")
    stop.set()
    sending.join(20)
    assert ended == ["sending was stopped while a sink waited for its receiver"]
    assert told[-1] is None
    sink.close()
    soon = KafkaSink(gone | {"optional.configuration": "delivery.timeout.ms:300"}, SinkContext("A", log, {}))
    with pytest.raises(SendError, match=r"Kafka at 127\.0\.0\.1:1") as error:
        soon.send(together(["a"], topic="t"))
    assert (error.value.done, error.value.lasting) == (0, True)
    soon.close()
    log.close()


_payloads = st.sampled_from(["", "x", "ä😀" * 3, b"\x00\xff", {"k": 1}, ChunkPayload([(1, ("x",))])])
_options = st.fixed_dictionaries(
    {"topic": st.sampled_from(["t", "u"])},
    optional={"key": st.sampled_from(["", "k", "ä"]), "partition.no": st.sampled_from(["", "0", "12"])},
)
_together = st.builds(
    Deliveries,
    *map(st.just, ("kafka", 3, 0, "S")),
    options=_options,
    payloads=st.lists(_payloads, min_size=1, max_size=5),
    producer=st.just("A-1"),
    first=st.integers(0, 2**40),
)


@pytest.mark.parametrize("partition", ["x", "-1", "9" * 19, "9" * 5_000, "\u0661"])
def test_what_is_no_partition_is_told_behind_the_messages_before_it(partition: str) -> None:
    options = ({"topic": "t", "partition.no": one} for one in ("7", partition))
    deliveries = [Delivery("kafka", 0, 0, "S", one, b"x", "p", number) for number, one in enumerate(options)]
    messages, bad = messages_of(deliveries)
    assert [one.partition for one in messages] == [7]
    assert bad == f"'{partition}' is no partition"


@given(_together, st.integers(0, 5))
def test_messages_are_the_same_together_and_one_by_one(some: Deliveries, there: int) -> None:
    def each(deliveries: Sequence[Delivery]) -> list[tuple[Any, ...]]:
        messages, bad = messages_of(deliveries)
        assert bad is None
        return [
            (one.topic, one.partition, one.key, encoded(value), f"{one.source.decode()}{number}", turn)
            for one in behind(messages, there)
            for turn, (value, number) in enumerate(zip(one.values, one.numbers, strict=True), one.first)
        ]

    assert each(some) == each(list(some))
    assert [id for *_, id, _ in each(some)] == [one.id for one in some][there:]
    assert [value for *_, value, _, _ in each(some)] == [encoded(one.payload) for one in some][there:]
    assert list(some[there:]) == list(some)[there:]


def test_wrong_options_are_refused(context: SinkContext) -> None:
    known = {"bootstrap.servers": "localhost:1", "topic": "t"}
    for key, value, told in [
        ("bootstrap.servers", "", "is missing"),
        ("topic", "", "is missing"),
        ("optional.configuration", "request.timeout.ms:soon", "cannot be used: Kafka's request.timeout.ms must be"),
    ]:
        with pytest.raises(AppValidationError, match=told):
            KafkaSink(known | {key: value}, context)
