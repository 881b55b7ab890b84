"""Spark connectors as sources of groups: no row twice, none lost, whatever ends in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from spdist.config.allowed import Allowed
from spdist.connectors.spark.options import SparkSourceOptions
from spdist.connectors.spark.reading import ConnectorBatch, ConnectorSource
from spdist.engine.spark.session import SparkHost
from spdist.errors import AppValidationError, TransportError
from spdist.language import ast
from spdist.language.types import Schema
from spdist.runtime.group import GroupRuntime
from spdist.runtime.standalone import prepare
from spdist.transports.options import Options, written_in
from tests.runtime.host_settings import settings_in
from tests.runtime.parquet_files import put_file
from tests.runtime.shared_spark import SHARED_SPARK

Eventually = Callable[..., object]

pytestmark = pytest.mark.spark

APP = """@app:name('{name}')
@source(type='spark', polling.interval='50', {options})
define stream S ({attributes});
@sink(type='file', file.uri='{name}.txt', @map(type='text', @payload('{{{{k}}}} {{{{n}}}} {{{{total}}}}')))
define stream Out (k string, n long, total long);
from S select k, n, sum(n) as total group by k insert into Out;
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> SparkHost:
    return SHARED_SPARK.host(settings_in(tmp_path_factory.mktemp("spark sources"), cores=1))


class App:
    """An app in the directory of a host; each start is another group."""

    def __init__(self, host: SparkHost, name: str, options: str, attributes: str = "k string, n long") -> None:
        self.host, self.root = host, host.config.files.directories[0]
        self.name = name
        self.text = APP.format(name=name, options=options, attributes=attributes)
        self.directory = self.root / f"in {name}"
        self.directory.mkdir(exist_ok=True)
        self.group: GroupRuntime | None = None

    def put(self, number: int, rows: list[tuple[str, int]], kind: pa.DataType | None = None) -> None:
        """Add a file, which appears as a whole."""
        put_file(self.directory, number, rows, kind or pa.int64())

    def start(self) -> GroupRuntime:
        self.group = GroupRuntime(prepare(self.text, allowed=self.host.allowed), self.host, "worker")
        self.group.start()
        return self.group

    def lines(self) -> list[str]:
        out = self.root / f"{self.name}.txt"
        return out.read_text().splitlines() if out.exists() else []


@pytest.fixture
def app(host: SparkHost) -> Iterator[Callable[..., App]]:
    made: list[App] = []

    def make(*arguments: str) -> App:
        made.append(App(host, *arguments))
        return made[-1]

    yield make
    for one in made:
        if one.group is not None:
            one.group.kill()


def test_files_that_come_one_after_the_other_are_read_once_each(
    app: Callable[..., App], eventually: Eventually
) -> None:
    one = app("Files", "format='parquet', path='in Files', time='at'")
    first = one.start()
    eventually(lambda: "has nothing to read yet" in (first.status().waiting or ""), "it says why it waits", 60)
    one.put(1, [("a", 1), ("b", 2), ("a", 3)])
    eventually(lambda: one.lines() == ["a 1 1", "b 2 2", "a 3 4"], "the first file", 60)
    assert first.status().waiting is None
    assert first.stop()
    one.put(2, [("b", 4), ("a", 5)])
    second = one.start()
    eventually(lambda: one.lines()[3:] == ["b 4 6", "a 5 9"], "the second file, with the state of the first", 60)
    second.kill()
    one.put(3, [("c", 6)])
    one.start()
    eventually(lambda: one.lines()[5:] == ["c 6 6"], "the third file, after a kill", 60)


def test_rate_counts(app: Callable[..., App], eventually: Eventually) -> None:
    text = "format='rate', option.rowsPerSecond='20', option.numPartitions='1', time='timestamp'"
    one = app("Rate", text, "value long")
    one.text = one.text.replace("select k, n, sum(n) as total group by k", "select '' as k, value as n, value as total")
    one.start()
    eventually(lambda: len(one.lines()) >= 30, "rows of more than a second", 60)
    values = [int(line.split()[0]) for line in one.lines()]
    assert values == list(range(len(values)))


def test_json_gets_its_columns_from_the_stream(app: Callable[..., App], eventually: Eventually) -> None:
    one = app("Json", "format='json', path='in Json'")
    (one.directory / "x.json").write_text('{"k": "a", "n": 1, "more": 5}\n{"k": "b", "n": 2}\n')
    one.start()
    eventually(lambda: one.lines() == ["a 1 1", "b 2 2"], "two lines", 60)


def test_a_column_of_the_wrong_type_is_named_when_the_app_starts(
    app: Callable[..., App], eventually: Eventually
) -> None:
    one = app("Wrong", "format='parquet', path='in Wrong'")
    one.put(1, [("a", 1)], pa.float64())
    group = one.start()
    eventually(lambda: group.status().state == "FAILED", "it fails", 60)
    assert isinstance(group.error, AppValidationError)
    told = str(group.error)
    assert "has the column 'n' of Spark's type double, the attribute 'n' is long (line 2, " in told
    assert "Define it as 'n double', or write the column as bigint." in told


def test_a_micro_batch_that_was_noted_is_handed_on_as_it_was(host: SparkHost, tmp_path: Path) -> None:
    """The source fails after it has appended; the next one is given the same rows, though the file was made anew."""
    read = Options({}, "the @source of stream 'S'", allowed=Allowed((tmp_path,), formats=("json",)))
    written = ast.Annotation("source", (ast.AnnotationElement("format", "json"), ast.AnnotationElement("path", "in")))
    read = replace(read, values=written_in(written))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"n": 2}\n{"n": 1}\n')
    options, schema = SparkSourceOptions.of(read, written), Schema.of([("n", "long")])
    seen: list[ConnectorBatch] = []

    def failing(batch: ConnectorBatch) -> None:
        seen.append(batch)
        raise TransportError("the topic is away")

    first = ConnectorSource(host.session, read, options, schema, tmp_path / "checkpoint", failing)
    with pytest.raises(TransportError, match="the topic is away"):
        first.start()
    (tmp_path / "in" / "1.json").write_text('{"n": 1}\n{"n": 2}\n')
    second = ConnectorSource(host.session, read, options, schema, tmp_path / "checkpoint", seen.append)
    try:
        assert second.start() is None
    finally:
        second.stop()
    assert seen[0] == seen[1]
    assert seen[0].rows == [(None, (2,)), (None, (1,))]
