"""Stateless apps as Columns: the same payloads as the local engine, from good payloads and bad ones."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from pyspark.sql import functions as F

from spdist.engine.island.user_topics import kafka_endpoints, map_setting
from spdist.engine.native.realtime import (
    _OBSERVED,
    OBSERVED_COLUMNS,
    RealtimeQuery,
    RealtimeSettings,
    start_realtime,
    transformed,
)
from spdist.engine.replay.columns_log import MessageLog, ResultId, TopicMessage
from spdist.engine.spark.session import SparkHost
from spdist.mapping.mappers import sink_mapper
from spdist.services.kafka import KafkaBroker
from spdist.transports.payloads.headers import ID_HEADER
from tests.engine.realtime_apps import APP, TOPICS, drawn_payloads, in_virtual_time, planned
from tests.runtime.host_settings import settings_in
from tests.runtime.shared_spark import SHARED_SPARK


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> SparkHost:
    root: Path = tmp_path_factory.mktemp("realtime")
    return SHARED_SPARK.host(settings_in(root, cores=2))


@pytest.mark.spark
def test_a_batch_gives_what_the_local_engine_gives(host: SparkHost) -> None:
    payloads = drawn_payloads(1, 300)
    frame = host.session.createDataFrame(
        [(bytearray(payload), number) for number, payload in enumerate(payloads)], "value binary, offset bigint"
    )
    records = frame.select("value", F.lit("in").alias("topic"), F.lit(0).alias("partition"), "offset")
    records = records.withColumn("timestamp", F.timestamp_millis(F.lit(1000)))
    found: dict[int, list[tuple[str, str]]] = {}
    for row in transformed(planned(), records).collect():
        _held_by(row, payloads)
        topic, partition, offset, index = row.headers[0].value.decode().split("/")
        assert (topic, partition) == ("in", "0")
        results = found.setdefault(int(offset), [])
        assert int(index) == len(results)
        results.append((row.topic, row.value))
    wanted = in_virtual_time(payloads)
    different = [(n, p, wanted.get(n), found.get(n)) for n, p in enumerate(payloads) if wanted.get(n) != found.get(n)]
    assert different == [], "\n".join(map(str, different))
    assert len(wanted) > 100


def _held_by(row: Any, payloads: list[bytes]) -> None:
    """The id of a result names, in virtual time, the very events that its payload holds."""
    plan, id = planned(), ResultId.of(row.headers[0].value.decode())
    assert id is not None
    (output,) = (one for one in plan.outputs if one.topic == row.topic)
    log = MessageLog("App-default-1", plan, TopicMessage("in", 0, id.offset, 1000, payloads[id.offset]))
    held = [event for _, event in log.events(id, output.stream)]
    mapping = next(one for stream, one in kafka_endpoints(plan.checked, "sink") if one.get("topic") == row.topic)
    setting = map_setting(plan.checked, output.stream, mapping)
    assert sink_mapper(setting).write(held) == [row.value]


def test_topics_whose_ends_spark_does_not_know_yet_have_nothing_to_read() -> None:
    """Its progress says null then, as text."""
    batch = Told(0, sources=({"in": {"0": 60}}, None), latest="null")
    progress = RealtimeQuery(told_of([batch])).progress()
    assert progress is not None
    assert (progress.batches, progress.lag) == (1, 0)


def test_each_batch_is_counted_once_and_read_once_whatever_spark_tells_between_two_looks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # The first look reads from where a checkpoint goes on; an idle query tells again and again of its next batch
    told = [Told(7, records=3), Told(8, observed=False), Told(8, observed=False)]
    query = RealtimeQuery(told_of(told))
    for later, records, batches in (
        ([], 3, 8),
        ([Told(number, records=1) for number in range(8, 48)], 43, 48),
        ([Told(48, observed=False)], 43, 48),
        ([Told(48, records=2)], 45, 49),
    ):
        told += later
        progress = query.progress()
        assert progress is not None
        assert (progress.totals["records"], progress.batches) == (records, batches)
    assert [one.read for one in told] == [1] * len(told)
    assert caplog.text == ""
    told[:] = [Told(number, records=1) for number in range(60, 80)]
    query.progress()
    assert "its counters are without those of 11 batches" in caplog.text


class Told:
    """What Spark tells of a batch, as its object in the JVM."""

    def __init__(
        self, number: int, records: int = 0, observed: bool = True, sources: tuple[Any, ...] = (), latest: Any = None
    ) -> None:
        self.number, self.read = number, 0
        self.at = f"2026-01-31T12:00:00.{next(MOMENTS):03}Z"
        rate = {"numInputRows": 0, "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0}
        counts = dict.fromkeys(OBSERVED_COLUMNS, 0) | {"records": records}
        self.told = {
            "id": str(uuid.uuid4()),
            "runId": str(uuid.uuid4()),
            "name": "q",
            "timestamp": self.at,
            "batchId": number,
            "batchDuration": 0,
            "durationMs": {},
            "stateOperators": [],
            "sources": [
                {"description": "", "startOffset": None, "endOffset": end, "latestOffset": latest} | rate
                for end in sources
            ],
            "sink": {"description": "", "numOutputRows": 0},
            "observedMetrics": {_OBSERVED: counts} if observed else {},
        } | rate

    def batchId(self) -> int:
        return self.number

    def timestamp(self) -> str:
        return self.at

    def json(self) -> str:
        self.read += 1
        return json.dumps(self.told)


MOMENTS = itertools.count()


def told_of(batches: list[Told]) -> Any:
    """Return a query of Spark's that tells this of its batches."""
    status = {"isDataAvailable": False, "isTriggerActive": False, "message": ""}
    jvm = SimpleNamespace(recentProgress=lambda: batches)
    return SimpleNamespace(isActive=True, exception=lambda: None, _jsq=jvm, status=status, name="q")


class Wire:
    """The topics of the app on a real broker, under names of their own."""

    def __init__(self, broker: KafkaBroker) -> None:
        self.own = uuid.uuid4().hex[:8]
        self.servers = broker.url
        admin = KafkaAdminClient(bootstrap_servers=broker.url)
        admin.create_topics([NewTopic(self.name(topic), 1, 1) for topic in ("in", *TOPICS)])
        admin.close()
        self.producer = KafkaProducer(bootstrap_servers=broker.url)
        self.consumer = KafkaConsumer(
            *map(self.name, TOPICS), bootstrap_servers=broker.url, auto_offset_reset="earliest", group_id=None
        )
        self.seen: dict[str, tuple[str, str]] = {}
        self.contradictions: list[str] = []

    def name(self, topic: str) -> str:
        return f"{topic}-{self.own}"

    def app(self) -> str:
        text = APP.replace("topic.list='in'", f"topic.list='{self.name('in')}'")
        for topic in TOPICS:
            text = text.replace(f"topic='{topic}'", f"topic='{self.name(topic)}'")
        return text

    def send(self, payloads: list[bytes]) -> None:
        for payload in payloads:
            self.producer.send(self.name("in"), payload)
        self.producer.flush()

    def poll(self) -> int:
        """Take what came; results with an id that is known must be the same. Returns how many different ones came."""
        for messages in self.consumer.poll(200).values():
            for message in messages:
                id = dict(message.headers)[ID_HEADER].decode()
                result = (message.topic.rpartition("-")[0], message.value.decode())
                if self.seen.setdefault(id, result) != result:
                    self.contradictions.append(id)
        return len(self.seen)

    def results(self) -> dict[int, list[tuple[str, str]]]:
        """What came, by the number of the payload, in the order of the ids."""
        found: dict[int, list[tuple[str, str]]] = {}
        for id in sorted(self.seen, key=lambda id: tuple(map(int, id.split("/")[1:]))):
            found.setdefault(int(id.split("/")[2]), []).append(self.seen[id])
        return found

    def close(self) -> None:
        self.producer.close()
        self.consumer.close()


@pytest.fixture
def wire(kafka_broker: KafkaBroker) -> Iterator[Wire]:
    wire = Wire(kafka_broker)
    yield wire
    wire.close()


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["real-time", "micro-batch"])
def test_from_kafka_to_kafka_nothing_is_lost_or_contradicted_by_a_restart(
    host: SparkHost, wire: Wire, tmp_path: Path, mode: str, eventually: Callable[..., object]
) -> None:
    payloads = drawn_payloads(2, 90)
    wanted = in_virtual_time(payloads)
    after = [sum(len(results) for n, results in wanted.items() if n < until) for until in (40, 60, 90)]
    settings = RealtimeSettings(f"q {wire.own}", str(tmp_path / "checkpoint"), mode, "earliest")  # type: ignore[arg-type]

    def start() -> RealtimeQuery:
        return start_realtime(host, planned(wire.servers, wire.app()), settings)

    def totals(query: RealtimeQuery) -> Mapping[str, int]:
        progress = query.progress()
        return {"records": 0} if progress is None else progress.totals

    def came(query: RealtimeQuery, count: int) -> bool:
        query.progress()
        return wire.poll() >= count

    query = start()
    try:
        wire.send(payloads[:40])
        eventually(lambda: came(query, after[0]), "the first results", 60)
        eventually(lambda: totals(query)["records"] >= 40, "the first counters", 30)
        assert totals(query)["unreadable"] > 10
        wire.send(payloads[40:60])  # read, and perhaps not noted as read
        eventually(lambda: came(query, after[1]), "the second results", 30)
        query.stop()
        wire.send(payloads[60:])
        query = start()
        eventually(lambda: came(query, after[2]), "the results after the restart", 60)
    finally:
        query.stop()
    wire.poll()
    assert wire.contradictions == []
    assert wire.results() == wanted


@pytest.mark.spark
def test_many_batches_between_two_looks_are_all_counted(
    host: SparkHost, wire: Wire, tmp_path: Path, eventually: Callable[..., object]
) -> None:
    settings = RealtimeSettings(f"q {wire.own}", str(tmp_path / "checkpoint"), "micro-batch")
    query = start_realtime(host, planned(wire.servers, wire.app()), settings)
    try:
        for number in range(22):
            wire.send([b"no event"])
            commit = tmp_path / "checkpoint" / "commits" / str(number)
            eventually(commit.exists, f"batch {number}", 60)  # each in one of its own
        eventually(lambda: query.query.lastProgress["batchId"] == 21, "the last batch is told")
        progress = query.progress()
        assert progress is not None
        assert (progress.batches, progress.totals["records"], progress.totals["unreadable"]) == (22, 22, 22)
    finally:
        query.stop()
