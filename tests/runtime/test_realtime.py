"""Group instances that are Columns between Kafka topics: which they are, and how a worker sees them run."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from spdist.engine.jars import kafka_jars
from spdist.engine.session import SparkHost
from spdist.errors import EngineError
from spdist.facade import plan
from spdist.planning.topology import Assignment
from spdist.runtime.realtime import RealtimeRuntime, planned
from spdist.services.kafka import KafkaBroker
from tests.runtime.host_settings import settings_in

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


@pytest.mark.spark
def test_a_worker_starts_sees_and_stops_it(
    tmp_path: Path, kafka_broker: KafkaBroker, eventually: Callable[..., object]
) -> None:
    kafka_jars()  # real-time mode needs them when the host starts
    name = f"App{uuid.uuid4().hex[:8]}"
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker.url)
    admin.create_topics([NewTopic(f"{name}-{end}", 1, 1) for end in ("in", "out")])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=kafka_broker.url)
    consumer = KafkaConsumer(f"{name}-out", bootstrap_servers=kafka_broker.url, auto_offset_reset="earliest")
    (assignment,) = assigned(name=name, servers=kafka_broker.url)
    plan = planned(assignment, "auto")
    assert plan is not None
    seen: list[bytes] = []

    def came(count: int) -> bool:
        for messages in consumer.poll(200).values():
            seen.extend(message.value for message in messages)
        return len(seen) >= count

    with SparkHost(settings_in(tmp_path)) as host:
        for start in range(2):
            group = RealtimeRuntime(assignment, plan, host, "worker-1")
            group.start()
            for number in range(3):
                producer.send(f"{name}-in", b'{"event":{"v":%d}}' % (number + 10 * start))
            producer.flush()
            eventually(lambda: came(1 if start == 0 else 4), f"results of start {start}", 60)  # noqa: B023
            eventually(lambda: group.status().events_in >= 3, f"counters of start {start}", 30)  # noqa: B023
            assert group.status().state == "RUNNING"
            group.stop()
            assert group.status().state == "STOPPED"
    producer.close()
    consumer.close()
    assert seen == [b'{"event":{"w":%d}}' % w for w in (4, 20, 22, 24)]
