"""A connector that Spark does not bring along: Delta tables in and out, by packages that settings name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spdist.config.allowed import Allowed
from spdist.connectors.spark.options import SparkSinkOptions
from spdist.connectors.spark.writing import ConnectorSink, SinkBatch
from spdist.engine.spark.session import SparkHost
from spdist.language import ast
from spdist.language.types import Schema
from spdist.runtime.group import GroupRuntime
from spdist.runtime.standalone import prepare
from spdist.transports.options import Options, written_in
from tests.runtime.host_settings import settings_in

Eventually = Callable[..., object]

pytestmark = [pytest.mark.spark, pytest.mark.services]

#: Built for Spark 4.1; it runs on 4.2.
DELTA = "io.delta:delta-spark_4.1_2.13:4.2.0"
SCHEMA = Schema.of([("k", "string"), ("n", "long")])
APP = """@app:name('Delta')
@source(type='spark', format='delta', path='in', polling.interval='50')
define stream S (k string, n long);
@sink(type='spark', format='delta', path='out', id='id')
define stream Out (k string, n long);
from S select k, sum(n) as n insert into Out;
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkHost]:
    root = tmp_path_factory.mktemp("delta")
    with SparkHost(settings_in(root, cores=1, packages=(DELTA,), formats=("delta",), driver_memory="1g")) as host:
        yield host


@pytest.fixture
def groups() -> Iterator[list[GroupRuntime]]:
    """What a test puts here is ended with it."""
    started: list[GroupRuntime] = []
    yield started
    for one in started:
        one.kill()


def test_delta_tables_hold_each_event_once(host: SparkHost, groups: list[GroupRuntime], eventually: Eventually) -> None:
    root: Path = host.config.files.directories[0]
    written = ast.Annotation("sink", (ast.AnnotationElement("format", "delta"), ast.AnnotationElement("path", "in")))
    read = Options(written_in(written), "the @sink", allowed=Allowed((root,), formats=("delta",)))
    table = ConnectorSink(host.session, SparkSinkOptions.of(read, written, SCHEMA), SCHEMA)

    def put(number: int, values: list[int]) -> None:
        rows = [("a", value) for value in values]
        table.write(SinkBatch("test", number, [""] * len(rows), [0] * len(rows), rows))

    def totals() -> list[int]:
        if not [*(root / "out" / "_delta_log").glob("*.json")]:
            return []
        rows = host.session.read.format("delta").load(str(root / "out")).collect()
        assert len({row.id for row in rows}) == len(rows)
        return sorted(row.n for row in rows)

    def start() -> GroupRuntime:
        group = GroupRuntime(prepare(APP, allowed=host.allowed), host, "worker")
        groups.append(group)
        group.start()
        assert group.wait(60), group.status()
        return group

    put(1, [1, 2, 3])
    put(1, [1, 2, 3])
    first = start()
    eventually(lambda: totals() == [1, 3, 6], "the first rows", 90)
    assert first.stop()
    put(2, [4])
    start()
    eventually(lambda: totals() == [1, 3, 6, 10], "the rows that came meanwhile", 90)
