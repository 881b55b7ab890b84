"""Group instances that are Columns between Kafka topics: which they are, and how a worker sees them run."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from spdist.connectors.kafka.link import create_topics
from spdist.engine.spark.jars import kafka_jars
from spdist.errors import AppValidationError, EngineError
from spdist.facade import plan
from spdist.planning.topology import Assignment
from spdist.runtime.group import GroupRuntime
from spdist.runtime.realtime import RealtimeRuntime, planned
from spdist.services.kafka import KafkaBroker
from spdist.transports.payloads.headers import ID_HEADER
from tests.runtime.host_settings import settings_in
from tests.runtime.shared_spark import SHARED_SPARK

APP = """@app:name('{name}')
@source(type='kafka', bootstrap.servers='{servers}', topic.list='{name}-in', group.id='g',
        threading.option='single.thread', @map(type='json'))
define stream S (v int);
@sink(type='kafka', bootstrap.servers='{servers}', topic='{name}-out', @map(type='json'))
define stream Out (w int);
from S[v > 1] select v * 2 as w insert into Out;
"""


def assigned(text: str = APP, name: str = "App", servers: str = "127.0.0.1:1") -> list[Assignment]:
    return list(plan(text.replace("{name}", name).replace("{servers}", servers)).assignments())


def test_an_instance_of_columns_is_planned_so_in_every_mode() -> None:
    (one,) = assigned()
    assert all(planned(one, mode) is not None for mode in ("auto", "micro-batch", "real-time"))


def test_others_are_islands_or_refused() -> None:
    (windowed,) = assigned(APP.replace("S[v > 1]", "S#window.length(2)"))
    assert planned(windowed, "auto") is None
    with pytest.raises(EngineError, match=r"cannot run in real time: #window.length\(\) keeps events"):
        planned(windowed, "real-time")
    split = assigned(APP.replace("from S", "@dist(execGroup='g', parallel='2') from S"))
    assert len(split) == 3
    assert [planned(one, "auto") for one in split] == [None, None, None]


def test_what_is_no_partition_is_refused_with_its_line() -> None:
    (one,) = assigned(APP.replace("'{name}-out'", "'{name}-out', partition.no='a'"))
    with pytest.raises(AppValidationError, match="has 'a', which is no partition") as caught:
        planned(one, "auto")
    assert "\n" in caught.value.shown()
    assert "partition.no='a'" in caught.value.shown()


@pytest.mark.spark
def test_a_worker_starts_sees_and_stops_it(
    tmp_path: Path, kafka_broker: KafkaBroker, eventually: Callable[..., object]
) -> None:
    kafka_jars()  # real-time mode needs them when the host starts
    name = f"App{uuid.uuid4().hex[:8]}"
    producer = KafkaProducer(bootstrap_servers=kafka_broker.url)
    consumer = KafkaConsumer(f"{name}-out", bootstrap_servers=kafka_broker.url, auto_offset_reset="earliest")
    (assignment,) = assigned(name=name, servers=kafka_broker.url)
    plan = planned(assignment, "auto")
    assert plan is not None
    seen: dict[bytes, bytes] = {}

    def came(count: int) -> bool:
        for messages in consumer.poll(200).values():
            for message in messages:
                # Spark's producer may send one again; it has the same id then.
                (id,) = (content for key, content in message.headers if key == ID_HEADER)
                assert seen.setdefault(id, message.value) == message.value
        return len(seen) >= count

    host = SHARED_SPARK.host(settings_in(tmp_path))
    group = RealtimeRuntime(assignment, plan, host, "worker-1")
    group.start()
    eventually(lambda: group.status().state == "FAILED", "it has no topic to read", 60)
    assert f"there is no topic '{name}-in' at {kafka_broker.url}" in str(group.error)
    create_topics(kafka_broker.url, {f"{name}-in": 1})
    for start, mode in enumerate(("auto", "micro-batch")):
        group = RealtimeRuntime(assignment, plan, host, "worker-1", mode)
        group.start()
        if start == 0:
            eventually(lambda: group.status().waiting, "it has no topic to write")  # noqa: B023
            assert f"there is no topic '{name}-out' at {kafka_broker.url}" in str(group.status().waiting)
            create_topics(kafka_broker.url, {f"{name}-out": 1})
        for number in range(3):
            producer.send(f"{name}-in", b'{"event":{"v":%d}}' % (number + 10 * start))
        producer.send(f"{name}-in", b"[" * 5000)
        producer.flush()
        eventually(lambda: came(1 if start == 0 else 4), f"results of start {start}", 60)  # noqa: B023
        eventually(lambda: group.status().events_in >= 3, f"counters of start {start}", 30)  # noqa: B023
        assert group.status().state == "RUNNING"
        eventually(lambda: group.status().lag == 0, "all is read")  # noqa: B023
        looks = [group.status().lag for _ in range(300)]
        assert set(looks) == {0}, "while nothing comes in there is nothing to read"
        eventually(lambda: group.status().rejected == {"S": 1}, "what cannot be read is counted", 30)  # noqa: B023
        group.stop()
        assert group.status().state == "STOPPED"
    producer.close()
    consumer.close()
    assert list(seen.values()) == [b'{"event":{"w":%d}}' % w for w in (4, 20, 22, 24)]


@pytest.mark.spark
def test_updates_and_changes_of_the_way_it_runs_lose_and_double_nothing(
    tmp_path: Path, kafka_broker: KafkaBroker, eventually: Callable[..., object]
) -> None:
    """Columns of one text, Columns of another, an island, Columns again: each event is processed by one of them."""
    kafka_jars()
    name = f"App{uuid.uuid4().hex[:8]}"
    create_topics(kafka_broker.url, {f"{name}-in": 1, f"{name}-out": 1})
    producer = KafkaProducer(bootstrap_servers=kafka_broker.url)
    consumer = KafkaConsumer(f"{name}-out", bootstrap_servers=kafka_broker.url, auto_offset_reset="earliest")
    seen: dict[bytes, bytes] = {}

    def came(value: int) -> bool:
        for messages in consumer.poll(200).values():
            for message in messages:
                (id,) = (content for key, content in message.headers if key == ID_HEADER)
                assert seen.setdefault(id, message.value) == message.value
        return b'{"event":{"w":%d}}' % value in seen.values()

    steps = [("* 2", "micro-batch"), ("* 1000", "micro-batch"), ("* 10", "island"), ("+ 5000", "micro-batch")]
    expected: list[int] = []

    def results(value: int) -> list[int]:
        return [value * 2, value * 1000, value * 10, value + 5000]

    host = SHARED_SPARK.host(settings_in(tmp_path))
    for step, (change, mode) in enumerate(steps):
        (assignment,) = assigned(APP.replace("* 2", change), name, kafka_broker.url)
        plan = planned(assignment, mode)
        assert plan is not None
        group = (
            GroupRuntime(assignment, host, "worker-1")
            if mode == "island"
            else RealtimeRuntime(assignment, plan, host, "worker-1", mode)
        )
        group.start()
        # What is there before it runs is still the business of the text before.
        eventually(lambda: group.status().state != "STARTING", f"{change} runs", 180)  # noqa: B023
        assert group.status().state == "RUNNING", group.error
        values = range(2 + 3 * step, 5 + 3 * step)
        for value in values:
            producer.send(f"{name}-in", b'{"event":{"v":%d}}' % value)
            expected.append(results(value)[step])
        producer.flush()
        eventually(lambda: came(expected[-1]), f"results of {change}", 120)
        if step == 1:
            group.kill()  # what it has put out and not noted is put out again under the same ids
        else:
            group.stop()
    producer.close()
    consumer.close()
    assert sorted(seen.values()) == sorted(b'{"event":{"w":%d}}' % value for value in expected)
