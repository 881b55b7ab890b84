"""Events written through Spark: each once in files, however often a batch is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spdist.config.allowed import SPARK_FORMATS, Allowed
from spdist.connectors.spark.options import SparkSinkOptions
from spdist.connectors.spark.sink import SparkSink, spark_topic
from spdist.connectors.spark.writer import SparkWriter
from spdist.connectors.spark.writing import ConnectorSink, SinkBatch
from spdist.engine.spark.session import SparkHost
from spdist.errors import TransportError
from spdist.language import ast
from spdist.language.types import Schema
from spdist.runtime.group import GroupRuntime
from spdist.runtime.standalone import prepare
from spdist.transports.delivery import Delivery
from spdist.transports.feed import Feed
from spdist.transports.log import LogTransport
from spdist.transports.options import Options, written_in
from tests.runtime.host_settings import settings_in
from tests.runtime.shared_spark import SHARED_SPARK

Eventually = Callable[..., object]

pytestmark = pytest.mark.spark

SCHEMA = Schema.of([("k", "string"), ("n", "long"), ("x", "float")])
APP = """@app:name('Writes')
define stream S (k string, n long);
@sink(type='spark', format='parquet', path='totals', id='id', time='at')
define stream Out (k string, total long);
from S select k, sum(n) as total group by k insert into Out;
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> SparkHost:
    return SHARED_SPARK.host(settings_in(tmp_path_factory.mktemp("spark sinks"), cores=1))


def rows_in(directory: Path) -> list[tuple[object, ...]]:
    files = sorted(directory.glob("*.parquet"))
    return [tuple(row.values()) for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def options(root: Path, **more: str) -> SparkSinkOptions:
    told = {"format": "parquet", "path": "out", **more}
    written = ast.Annotation("sink", tuple(ast.AnnotationElement(key, value) for key, value in told.items()))
    read = Options(written_in(written), "the @sink", allowed=Allowed((root,), formats=SPARK_FORMATS))
    return SparkSinkOptions.of(read, written, SCHEMA)


@pytest.fixture
def groups() -> Iterator[list[GroupRuntime]]:
    """What a test puts here is ended with it."""
    started: list[GroupRuntime] = []
    yield started
    for one in started:
        one.kill()


def test_a_group_writes_each_event_once_whether_it_is_stopped_or_killed(
    host: SparkHost, groups: list[GroupRuntime], eventually: Eventually
) -> None:
    out = host.config.files.directories[0] / "totals"
    log = LogTransport(host.log_directory)
    log.ensure("Writes.S", 1)
    feed = Feed(log, "Writes.S", Schema.of([("k", "string"), ("n", "long")]))

    def start() -> GroupRuntime:
        group = GroupRuntime(prepare(APP, allowed=host.allowed), host, "worker")
        groups.append(group)
        group.start()
        assert group.wait(60), group.status()
        return group

    def totals() -> list[object]:
        return [row[1] for row in rows_in(out)] if out.exists() else []

    first = start()
    feed.send([(1000 + n, ("a", 1)) for n in range(5)])
    eventually(lambda: totals() == [1, 2, 3, 4, 5], "the first events", 60)
    assert first.stop()
    second = start()
    feed.send([(2000 + n, ("a", 1)) for n in range(5)])
    eventually(lambda: len(totals()) > 5, "more events", 60)
    second.kill()
    third = start()
    feed.send([(3000, ("a", 1))])
    eventually(lambda: len(totals()) >= 11, "all events", 60)
    assert third.stop()
    assert totals() == [*range(1, 12)]
    ids = {row[3] for row in rows_in(out)}
    assert len(ids) == 11


def test_a_batch_that_is_written_again_replaces_itself(host: SparkHost, tmp_path: Path) -> None:
    sink = ConnectorSink(host.session, options(tmp_path, id="id", **{"option.compression": "none"}), SCHEMA)
    batch = SinkBatch("w", 7, ["p:0", "p:1"], [1, 2], [("a", 1, 0.5), (None, None, None)])
    for _ in range(2):
        sink.write(batch)
    assert rows_in(tmp_path / "out") == [("a", 1, 0.5, "p:0"), (None, None, None, "p:1")]
    assert [file.name.split(".")[0] for file in (tmp_path / "out").iterdir() if file.is_file()] == [
        "w-0000000007-00000"
    ]
    read = host.session.read.parquet(str(tmp_path / "out"))
    assert read.schema.simpleString() == "struct<k:string,n:bigint,x:float,id:string>"


def test_partitions_are_directories(host: SparkHost, tmp_path: Path) -> None:
    sink = ConnectorSink(host.session, options(tmp_path, **{"partition.by": "k"}), SCHEMA)
    sink.write(SinkBatch("w", 0, ["p:0"], [1], [("a", 1, 0.5)]))
    assert [path.name for path in (tmp_path / "out" / "k=a").iterdir()] == ["w-0000000000-00000.c000.snappy.parquet"]
    assert host.session.read.parquet(str(tmp_path / "out")).where("k = 'a' and n = 1").count() == 1


class Failing:
    """Writes, and fails after it has written as often as it is told."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.written: dict[int, SinkBatch] = {}

    def write(self, batch: SinkBatch) -> None:
        assert self.written.setdefault(batch.number, batch) == batch
        self.failures -= 1
        if self.failures >= 0:
            raise TransportError("the disk is away")


def delivery(seq: int, producer: str = "p") -> Delivery:
    payload = ((1000 + seq, (f"k{seq}", seq, 0.5)),)
    return Delivery("spark", 0, 0, "Out", {"format": "parquet", "path": "out"}, payload, producer, seq)


def test_what_may_have_been_written_is_written_again_as_it_was(tmp_path: Path, eventually: Eventually) -> None:
    log = LogTransport(tmp_path / "topics")
    topic = spark_topic("G", "Out", {"format": "parquet", "path": "out"})
    sink = SparkSink("G", log, {"Out": SCHEMA})
    sink.send([delivery(0), delivery(1)])

    def writer(sink: Failing) -> SparkWriter:
        return SparkWriter("Out", topic, SCHEMA, sink, log, tmp_path / "position.json")  # type: ignore[arg-type]

    target = Failing(2)
    first = writer(target)
    first.start()
    eventually(lambda: first.problem is not None, "it fails")
    first.stop()
    sink.send([delivery(1), delivery(2)])  # the first of them is a repeat
    second = writer(target)
    second.start()
    third = writer(target)
    third.start()
    eventually(lambda: third.problem is not None, "another one may not write meanwhile")
    assert "another process still writes" in (third.problem or "")
    eventually(lambda: len(target.written) == 2, "both batches")
    for one in (second, third):
        one.stop()
    assert [row[1] for batch in target.written.values() for row in batch.rows] == [0, 1, 2]
