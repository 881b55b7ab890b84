"""Files of events: what is written is read again, and what cannot be read is said in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spdist.errors import MappingError
from spdist.frames import StreamEvents, read_events, write_file
from spdist.language.types import Schema

SCHEMA = Schema.of(
    [("name", "string"), ("count", "int"), ("total", "long"), ("share", "float"), ("mean", "double"), ("late", "bool")]
)
EVENTS = StreamEvents(
    SCHEMA,
    [-1, 0, 1_700_000_000_250],
    [('a,"b"\n', 1, 2**53 + 1, 0.5, 0.1, True), ("", None, None, None, None, None), (None, -1, 0, 1.0, 2.0, False)],
)
SUFFIXES = [".parquet", ".csv", ".arrow", ".feather", ".jsonl", ".ndjson", ".json"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_is_read_again(suffix: str, tmp_path: Path) -> None:
    for number, events in enumerate((EVENTS, EVENTS[1:2])):
        path = tmp_path / f"events{number}{suffix}"
        write_file(events.to_arrow(), path)
        assert read_events(path, SCHEMA) == events
        assert read_events(str(path), SCHEMA) == events


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_of_no_events_is_read(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"none{suffix}"
    write_file(EVENTS[:0].to_arrow(), path)
    assert read_events(path, SCHEMA) == []


def test_texts_that_look_like_numbers_or_times_stay_texts(tmp_path: Path) -> None:
    schema = Schema.of([("a", "string"), ("b", "string"), ("c", "double")])
    csv, lines = tmp_path / "a.csv", tmp_path / "a.jsonl"
    csv.write_text("ts,b,a,c\n5,2013-01-01,007,1\n6,NA,,2.5\n")
    lines.write_text(
        '\ufeff{"ts": 5, "b": "2013-01-01", "a": "007", "c": 1}\n\n{"ts": 6, "b": "NA", "a": null, "c": 2.5}\n'
    )
    for path in (csv, lines):
        assert read_events(path, schema) == [(5, ("007", "2013-01-01", 1.0)), (6, (None, "NA", 2.5))]


def test_times_in_files_are_texts_or_numbers(tmp_path: Path) -> None:
    schema = Schema.of([("v", "int")])
    path = tmp_path / "a.csv"
    path.write_text("when,v\n2013-01-01T00:00:00Z,1\n2013-01-01T00:00:00.250Z,2\n")
    assert read_events(path, schema, "when") == [(1_356_998_400_000, (1,)), (1_356_998_400_250, (2,))]
    path.write_text("when,v\n1356998400,1\n")
    assert read_events(path, schema, "when", "s") == [(1_356_998_400_000, (1,))]
    with pytest.raises(MappingError, match="pass time_unit='s'"):
        read_events(path, schema, "when")
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"when": "2013-01-01 00:00:00", "v": 1.0}\n{"when": "2013-01-01T01:00:00+01:00", "v": 2}\n')
    assert read_events(lines, schema, "when") == [(1_356_998_400_000, (1,)), (1_356_998_400_000, (2,))]


def test_a_directory_of_files_is_one(tmp_path: Path) -> None:
    for part in (1, 0):
        (tmp_path / f"all.parquet/day={part}").mkdir(parents=True)
        pq.write_table(pa.table({"ts": [part], "v": [part]}), tmp_path / f"all.parquet/day={part}/part.parquet")
    schema = Schema.of([("v", "int"), ("day", "int")])
    assert read_events(tmp_path / "all.parquet", schema) == [(0, (0, 0)), (1, (1, 1))]


def test_json_has_no_word_for_what_is_no_number(tmp_path: Path) -> None:
    events = StreamEvents(Schema.of([("v", "double")]), [0, 1], [(float("nan"),), (float("inf"),)])
    write_file(events.to_arrow(), tmp_path / "a.jsonl")
    assert [json.loads(line)["v"] for line in (tmp_path / "a.jsonl").read_text().splitlines()] == [None, None]
    write_file(events.to_arrow(), tmp_path / "a.csv")
    assert repr(read_events(tmp_path / "a.csv", events.schema)) == repr(events)


def test_nested_objects_are_texts_where_a_file_is_flat(tmp_path: Path) -> None:
    events = StreamEvents(Schema.of([("v", "object")]), [0, 1], [([1, 2],), (None,)])
    write_file(events.to_arrow(), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().splitlines()[1].endswith('"[1, 2]"')
    write_file(events.to_arrow(), tmp_path / "a.parquet")
    assert read_events(tmp_path / "a.parquet", events.schema) == events


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "events.parqet",
            b"",
            "the name of .*events.parqet does not say what it holds\nHint: it ends with one of: .parquet,",
        ),
        ("gome.parquet", None, "there is no file .*gome.parquet\nHint: Did you mean 'gone.parquet'"),
        ("a.parquet", b"no parquet", "cannot read .*a.parquet: "),
        ("a.arrow", b"no arrow", "cannot read .*a.arrow: "),
        ("a.csv", b"", "cannot read .*a.csv: Empty CSV file"),
        ("a.csv", b"ts,v\n1,2,3\n", "cannot read .*a.csv: CSV parse error: .*Expected 2 columns, got 3"),
        ("a.csv", b"ts,v\n1,x\n", "row 0: 'v' is int, this is not: 'x'"),
        ("a.csv", b"ts,w\n1,x\n", "there is no column 'v'"),
        ("a.jsonl", b"[1]\n", "cannot read .*a.jsonl: its first line is no JSON object"),
        ("a.jsonl", b'{"ts": 1\n', "cannot read .*a.jsonl: "),
        ("a.jsonl", b'{"ts": 1, "v": 1}\n{"ts": 1, "v": "x"}\n', "cannot read .*a.jsonl: "),
        ("a.jsonl", b'{"ts": 1, "w": 1}\n', "there is no column 'v'"),
        ("a.jsonl", b"\xff\xfe", "cannot read .*a.jsonl: "),
    ],
)
def test_what_cannot_be_read_is_said(name: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is None:
        (tmp_path / "gone.parquet").touch()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(MappingError, match=message):
        read_events(tmp_path / name, Schema.of([("v", "int")]))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_cannot_be_written_is_said(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(MappingError, match=f"cannot write .*out{suffix}: .*(No such file|not exist)"):
        write_file(EVENTS.to_arrow(), tmp_path / "missing" / f"out{suffix}")


def test_a_file_stays_as_it_is_where_another_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("before")
    with pytest.raises(MappingError, match=r"cannot write .*out.csv"):
        write_file(
            pa.table({"v": pa.array([b"\xff"], pa.binary()), "w": pa.array([[1]]).cast(pa.list_(pa.duration("s")))}),
            path,
        )
    assert [one.read_text() for one in tmp_path.iterdir()] == ["before"]
