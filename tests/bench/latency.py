"""``make bench-latency``: how long an event takes from one Kafka topic to another, at 100 events a second.

Three apps in turn, on a broker of this machine: a filter in micro-batches of Columns, the same in real time, and an
average over a window, which the engine computes in an island. Each event bears the time at which it was sent; latency
is that until the broker has its result. The first seconds, in which Spark warms up, do not count.

Figures of one machine say little; the ratio to micro-batches of Columns says more.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from spdist.engine.spark.jars import kafka_jars
from spdist.engine.spark.session import SparkHost
from spdist.errors import SpdistError
from spdist.runtime.group import GroupRuntime
from spdist.runtime.realtime import RealtimeRuntime, runtime_of
from spdist.runtime.standalone import prepare
from spdist.services.kafka import KafkaBroker
from tests.runtime.host_settings import settings_in

APP = """@app:name('Latency_{name}')
@source(type='kafka', bootstrap.servers='{servers}', topic.list='{name}-in', group.id='bench',
        threading.option='single.thread', @map(type='json'))
define stream S (sent long, price double);
@sink(type='kafka', bootstrap.servers='{servers}', topic='{name}-out', is.binary.message='false', @map(type='json'))
define stream Out (sent long, price double);
"""
FILTER = "from S[price >= 0.0] select sent, price * 2.0 as price insert into Out;"
AVERAGE = "from S#window.length(100) select sent, avg(price) as price insert into Out;"
#: Name → spark.mode, query.
RUNS = {
    "columns in micro-batches": ("micro-batch", FILTER),
    "columns in real time": ("auto", FILTER),
    "island in micro-batches": ("micro-batch", AVERAGE),
}


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="make bench-latency", description="measure latency from Kafka to Kafka")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long is measured")
    parser.add_argument("--warm-up", type=float, default=15.0, help="seconds that do not count")
    parser.add_argument("--rate", type=float, default=100.0, help="events a second")
    chosen = parser.parse_args()
    kafka_jars()
    base: float | None = None
    print(f"{'ms, Kafka to Kafka':<28}{'p50':>8}{'p99':>8}{'events':>8}  p50 to micro-batches of columns")
    with tempfile.TemporaryDirectory(prefix="spdist-bench-") as home, KafkaBroker(Path(home, "kafka")) as broker:
        for number, (name, (mode, query)) in enumerate(RUNS.items()):
            try:
                latencies = _measured(Path(home, str(number)), broker.url, f"l{number}", mode, query, chosen)
            except SpdistError as error:
                print(f"{name:<28}not measured: {error}", flush=True)
                continue
            p50, p99 = statistics.median(latencies), statistics.quantiles(latencies, n=100)[98]
            base = base or p50
            print(f"{name:<28}{p50:>8.0f}{p99:>8.0f}{len(latencies):>8}  {p50 / base:.2f}×", flush=True)


def _measured(
    home: Path, servers: str, name: str, mode: str, query: str, chosen: argparse.Namespace
) -> Sequence[float]:
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic(f"{name}-{end}", 1, 1) for end in ("in", "out")])
    admin.close()
    assignment = prepare(APP.replace("{name}", name).replace("{servers}", servers) + query)
    with SparkHost(settings_in(home, cores=2, driver_memory="1g", mode=mode)) as host:
        runtime = runtime_of(assignment, host, "bench")
        runtime.start()
        ending = threading.Event()
        sender = threading.Thread(target=_send, args=(servers, f"{name}-in", chosen.rate, ending))
        sender.start()
        try:
            return _latencies(servers, f"{name}-out", runtime, chosen)
        finally:
            ending.set()
            sender.join()
            runtime.stop()


def _send(servers: str, topic: str, rate: float, ending: threading.Event) -> None:
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=0)
    began, count = time.monotonic(), 0
    while not ending.wait(max(0.0, began + count / rate - time.monotonic())):
        producer.send(topic, b'{"event":{"sent":%d,"price":%d.5}}' % (time.time_ns() // 1_000_000, count % 100))
        count += 1
    producer.close()


def _latencies(
    servers: str, topic: str, runtime: GroupRuntime | RealtimeRuntime, chosen: argparse.Namespace
) -> Sequence[float]:
    consumer = KafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest")
    found: list[float] = []
    first: float | None = None
    patience = time.monotonic() + 180.0
    while first is None or time.monotonic() < first + chosen.warm_up + chosen.seconds:
        status = runtime.status()
        if status.state == "FAILED" or (first is None and time.monotonic() > patience):
            raise SpdistError(status.error or "no results came")
        for messages in consumer.poll(100).values():
            first = first or time.monotonic()
            if time.monotonic() >= first + chosen.warm_up:
                found += [message.timestamp - json.loads(message.value)["event"]["sent"] for message in messages]
    consumer.close()
    if len(found) < 100:
        raise SpdistError(f"only {len(found)} results came")
    return found


if __name__ == "__main__":
    main()
