"""Messages of users' Kafka sinks as columns for Spark, and which of them Spark can send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.engine.kafka_sink import KafkaSink, Reach, message_batches, no_message
from spdist.errors import AppValidationError
from spdist.mapping.passing import Events
from spdist.planning.topology import Assignment
from spdist.runtime import kafka_outputs
from spdist.runtime.kafka_outputs import BrokerWatch, kafka_sink
from spdist.transports.delivery import Deliveries, Delivery, Outgoing
from spdist.transports.kafka_options import KafkaSettings

SINK = KafkaSink(KafkaSettings("b:1", {"linger.ms": "3", "acks": "0", "retries": "1"}), frozenset({("b:1", "")}))
OPTIONS = {"bootstrap.servers": "b:1", "topic": "t"}

_payloads = st.sampled_from(["", "x", "ä😀" * 3, b"\x00\xff", {"k": 1}, Events([(1, ("x",))])])
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
_one = st.builds(Delivery, *map(st.just, ("kafka", 4, 0, "S")), _options, _payloads, st.just("A-1"), st.integers(0, 99))


def messages_of(outgoing: Iterable[Outgoing]) -> list[tuple[Any, ...]]:
    """Return place, value and id of each message, as Spark makes them of the columns."""
    return [
        (row["topic"], row["partition"], row["key"], value, f"{row['source']}:{number}")
        for columns in message_batches(outgoing)
        for row in pa.table(columns).to_pylist()
        for number, value in enumerate(row["messages"], row["first"])
    ]


@given(st.lists(_together | _one, max_size=4))
def test_messages_are_the_same_together_and_one_by_one(outgoing: list[Outgoing]) -> None:
    each = [one for some in outgoing for one in (some if isinstance(some, Deliveries) else [some])]
    assert messages_of(outgoing) == messages_of(each)
    assert [message[-1] for message in messages_of(outgoing)] == [one.id for one in each]
    assert all(columns.keys() == no_message().keys() for columns in message_batches(outgoing))


def sizes(*outgoing: Outgoing) -> list[list[int]]:
    return [columns["messages"].value_lengths().to_pylist() for columns in message_batches(outgoing)]


def test_columns_are_bounded_in_messages_and_in_bytes() -> None:
    many = Deliveries("kafka", 0, 0, "S", OPTIONS, ["x"] * 25_000, "A-1", 7)
    one = Delivery("kafka", 1, 0, "S", OPTIONS, "x", "A-1", 7)
    assert sizes(one, many, *[one] * 3) == [[1], [10_000], [10_000], [5_000, 1, 1, 1]]
    assert [message[-1] for message in messages_of([many])] == [f"A-1#0:{n}" for n in range(7, 25_007)]
    long = Deliveries("kafka", 0, 0, "S", OPTIONS, ["x" * (12 << 20)] * 5, "A-1", 0)
    assert sizes(long) == [[2], [2], [1]]


def test_spark_sends_what_its_producer_cannot_fail_on() -> None:
    asked: list[list[str]] = []

    def partitions(topics: Iterable[str]) -> Mapping[str, int]:
        asked.append(list(topics))
        return {"t": 2}

    def one(payload: Any = "x", **options: str) -> Deliveries:
        written = OPTIONS | {name.replace("_", "."): value for name, value in options.items()}
        return Deliveries("kafka", 0, 0, "S", written, ["y", payload], "A-1", 0)

    sent = [one(), one(partition_no="1"), one(on_error="wait"), one("x" * 1_000_000), one("ä" * 500_000)]
    others = [
        one(topic="gone"),
        one(partition_no="2"),
        one(partition_no="one"),
        one(on_error="STREAM"),
        one(on_error="store"),
        one(bootstrap_servers="c:1"),
        one("x" * (1 << 20)),
        one("ä" * 550_000),
        Deliveries("file", 0, 0, "S", OPTIONS, ["y"], "A-1", 0),
    ]
    reach = Reach(SINK, partitions)
    assert reach.split([*sent, *others]) == (sent, [*others[3:6], others[8], *others[:3], *others[6:8]])
    assert reach.split([sent[0], others[0]]) == ([sent[0]], [others[0]])
    assert asked == [["gone", "t"], ["gone"]]


def test_the_user_says_how_spark_writes_and_not_whether_all_arrives() -> None:
    options = SINK.options()
    assert (options["kafka.bootstrap.servers"], options["kafka.linger.ms"], options["kafka.acks"]) == (
        "b:1",
        "3",
        "all",
    )
    assert options["kafka.enable.idempotence"] == "true"
    assert "kafka.retries" not in options
    assert int(options["kafka.delivery.timeout.ms"]) == 3_600_000


def assignment(*sinks: str) -> Assignment:
    text = "\n".join(sinks) + "\ndefine stream O (k string);"
    return Assignment("A-1", "A", "A", text, True, (), ())


def test_spark_writes_to_the_cluster_that_most_sinks_name() -> None:
    found = kafka_sink(
        [
            assignment("@sink(type='kafka', bootstrap.servers='a:1', topic='t')", "@sink(type='log', prefix='kafka')"),
            assignment(
                "@sink(type='kafka', bootstrap.servers='b:1, b:2', optional.configuration='x:1,y:2', topic='t')",
                "@sink(type='kafka', optional.configuration='y:2 , x:1', @distribution(strategy='broadcast',"
                "@destination(bootstrap.servers='b:1,b:2', topic='t'), @destination(bootstrap.servers='c:1')))",
            ),
            assignment(*["@sink(type='kafka', bootstrap.servers='a:1', topic='t', on.error='STORE')"] * 4),
            assignment(*["@sink(type='kafka', bootstrap.servers='{{k}}', topic='t')"] * 4),
        ]
    )
    assert found is not None
    assert found.settings == KafkaSettings("b:1,b:2", {"x": "1", "y": "2"})
    assert found.texts == {("b:1, b:2", "x:1,y:2"), ("b:1,b:2", "y:2 , x:1")}
    assert kafka_sink([assignment("@sink(type='http', publisher.url='kafka')")]) is None
    with pytest.raises(AppValidationError, match=r"'bootstrap.servers' of the @sink of stream 'O' is missing"):
        kafka_sink([assignment("@sink(type='kafka', topic='t')")])


def test_brokers_that_are_away_are_told_of_when_a_batch_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(kafka_outputs.time, "monotonic", lambda: now[0])
    watch = BrokerWatch(KafkaSink(KafkaSettings("127.0.0.1:1"), frozenset()))
    told = []
    for at, batch in [(0, 3), (4, 3), (6, 3), (7, 3), (8, None), (9, 4), (13, 5), (14, 5)]:
        now[0] = 100.0 + at
        told.append(watch.trouble(batch))
    waits = "a @sink of type 'kafka' waits: Kafka at 127.0.0.1:1 does not answer"
    assert told == [None, None, waits, waits, None, None, None, None]
