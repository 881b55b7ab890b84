"""What an app may write with ``type='spark'``, and what it is told where it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from spdist.config import Secret
from spdist.config.allowed import SPARK_FORMATS, Allowed
from spdist.connectors.spark.options import SparkSinkOptions, SparkSourceOptions
from spdist.engine.local.app import run
from spdist.errors import AppValidationError, SiddhiAppError
from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.planning.groups import plan
from spdist.planning.standalone import standalone_assignment
from spdist.runtime.sinks import check_sinks
from spdist.transports.options import options_of


def annotation(written: str) -> ast.Annotation:
    stream = parse(f"{written} define stream S (k string, n long); from S select k insert into Out;").definitions[0]
    assert isinstance(stream, ast.StreamDefinition)
    return stream.annotations[0]


def source(root: Path, options: str, formats: tuple[str, ...] = SPARK_FORMATS) -> SparkSourceOptions:
    allowed = Allowed((root,), (root / "topics",), {"KEY": Secret("s3cret")}, formats=formats)
    written = annotation(f"@source(type='spark', {options})")
    return SparkSourceOptions.of(options_of(written, "S", allowed), written)


def test_options_of_spark_are_as_written_and_a_batch_is_bounded(tmp_path: Path) -> None:
    found = source(tmp_path, "format='Parquet', path='in', time='at', option.recursiveFileLookup='true'")
    assert (found.connector.format, found.connector.path) == ("parquet", tmp_path / "in")
    assert found.connector.options == {"recursiveFileLookup": "true", "maxBytesPerTrigger": str(16 << 20)}
    assert (found.time, found.interval_ms) == ("at", 500)
    own = source(tmp_path, "format='json', path='in', option.maxFilesPerTrigger='3'")
    assert own.connector.options == {"maxFilesPerTrigger": "3"}


def test_a_secret_is_filled_in_and_not_shown(tmp_path: Path) -> None:
    found = source(tmp_path, "format='shop', option.apiKey='k-${secret:KEY}'", ("shop",))
    assert found.connector.options == {"apiKey": "k-s3cret"}
    assert "s3cret" not in repr(found)


def test_another_place_is_another_connector_and_another_pace_is_not(tmp_path: Path) -> None:
    first = source(tmp_path, "format='parquet', path='in'").connector
    assert source(tmp_path, "format='parquet', path='in', option.maxFilesPerTrigger='1'").connector.identity == (
        first.identity
    )
    for other in ("format='parquet', path='in2'", "format='json', path='in'"):
        assert source(tmp_path, other).connector.identity != first.identity
    topics = [source(tmp_path, f"format='kafka', option.subscribe='{one}'", ("kafka",)).connector for one in "ab"]
    assert topics[0].identity != topics[1].identity


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("format='delta', path='in'", "'format' of the @source of stream 'S' cannot be 'delta' on this node"),
        ("format='org.apache.spark.sql.execution.datasources.csv.CSVFileFormat', path='in'", "on this node"),
        ("format='csv'", "'path' of the @source of stream 'S' is missing"),
        ("format='csv', path='/etc'", "lies outside of the directories that apps may use"),
        ("format='csv', path='../in'", "lies outside of the directories"),
        ("format='csv', path='topics'", "lies outside of the directories"),
        ("format='csv', path='{a,..}/b'", "is one directory or file"),
        ("format='csv', path='in/*'", "is one directory or file"),
        ("format='csv', path='in', option.PATH='/etc'", "cannot be written"),
        ("format='csv', path='in', option.checkpointLocation='/x'", "cannot be written"),
        ("format='csv', path='in', option.fs.defaultFS='hdfs://h'", "cannot be written"),
        ("format='xml', path='in', option.rowValidationXSDPath='/etc/x'", "lies outside of the directories"),
        ("format='csv', path='in', option.sourceArchiveDir='/etc'", "lies outside of the directories"),
        ("format='csv', path='in', maxFilesPerTrigger='1'", "'maxfilespertrigger' of the @source"),
        ("format='csv', path='in', option.x='${secret:NONE}'", "names the secret NONE"),
        ("format='csv', path='in', polling.interval='0'", "is a whole number from 1 on"),
        ("format='csv', path='in', polling.interval='--5'", "is a whole number from 1 on"),
        ("format='csv', path='in', @map(type='json')", "rows have columns already"),
    ],
)
def test_what_is_not_allowed_is_said(tmp_path: Path, options: str, told: str) -> None:
    with pytest.raises(AppValidationError, match=told.replace("(", r"\(")) as failed:
        source(tmp_path, options)
    assert failed.value.span is not None


def test_a_format_that_a_node_allows_is_named_in_the_hint(tmp_path: Path) -> None:
    with pytest.raises(AppValidationError) as failed:
        source(tmp_path, "format='kafka'")
    assert failed.value.hint is not None
    assert "spark: {formats: [csv, json, orc, parquet, rate, text, xml, kafka]}" in failed.value.hint


def checked(text: str) -> None:
    check(parse(text), catalog(), text)


def test_the_checker_knows_the_type_and_where_secrets_may_stand() -> None:
    stream = "define stream S (k string); from S select k insert into Out;"
    checked(f"@source(type='spark', format='rate', option.password='${{secret:P}}') {stream}")
    with pytest.raises(SiddhiAppError, match="has no 'format'"):
        checked(f"@source(type='spark') {stream}")
    with pytest.raises(SiddhiAppError, match="cannot hold a secret"):
        checked(f"@source(type='spark', format='${{secret:P}}') {stream}")
    with pytest.raises(SiddhiAppError, match="names a variable or file of the node"):
        checked(f"@source(type='spark', format='rate', option.password='${{env:P}}') {stream}")


def sink(root: Path, options: str) -> SparkSinkOptions:
    written = annotation(f"@sink(type='spark', {options})")
    allowed = Allowed((root,), formats=SPARK_FORMATS)
    return SparkSinkOptions.of(options_of(written, "S", allowed), written, Schema.of([("k", "string"), ("n", "long")]))


def test_a_sink_may_have_columns_for_ids_and_times(tmp_path: Path) -> None:
    found = sink(tmp_path, "format='parquet', path='out', id='id', time='at', option.compression='zstd'")
    assert (found.mode, found.id, found.time) == ("append", "id", "at")
    assert found.connector.options == {"compression": "zstd"}
    with pytest.raises(AppValidationError, match="names the column 'K', which there is already"):
        sink(tmp_path, "format='parquet', path='out', id='K'")
    assert sink(tmp_path, "format='parquet', path='out', time='day', partition.by='k, day'").partitions == ("k", "day")
    with pytest.raises(AppValidationError, match="names the column 'day', which there is not"):
        sink(tmp_path, "format='parquet', path='out', partition.by='day'")
    with pytest.raises(AppValidationError, match="'mode' of the @sink of stream 'S' cannot be 'ignore'"):
        sink(tmp_path, "format='parquet', path='out', mode='ignore'")


def test_a_wrong_sink_is_said_before_anything_runs(tmp_path: Path) -> None:
    text = "@sink(type='spark', format='parquet', path='/etc') define stream S (k string);"
    assignment = standalone_assignment(check(parse(text), catalog(), text), text)
    with pytest.raises(AppValidationError, match="lies outside") as failed:
        check_sinks(assignment, Allowed((tmp_path,), formats=SPARK_FORMATS))
    assert "path='/etc'" in str(failed.value)


APP = """@app:name('T')
@source(type='spark', format='parquet', path='in', time='at') define stream S (k string, n long);
@sink(type='spark', format='parquet', path='out') define stream Out (k string, n long);
@dist(execGroup='a') from S select k, sum(n) as n group by k insert into Out;
@dist(execGroup='b') from S[n > 1] select k, n insert into Big;
"""


def test_in_virtual_time_such_streams_are_fed_like_any() -> None:
    assert run(APP, {"S": [(1, ("a", 1)), (2, ("a", 2))]})["Out"] == [(1, ("a", 1)), (2, ("a", 3))]


def test_a_source_that_several_groups_read_is_received_once() -> None:
    groups = plan(parse(APP)).groups
    receiving = [group for group in groups if any(one.user_source for one in group.inputs)]
    assert [group.receiver for group in receiving] == [True]
    texts = [instance.text for group in groups for instance in group.instances if "@source" in instance.text]
    assert len(texts) == 1
    assert "type='spark'" in texts[0]
