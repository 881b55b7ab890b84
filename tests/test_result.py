"""What `spdist.run` returns: events that compare as lists and become frames, and counts of what was lost."""

from __future__ import annotations

import doctest
import importlib
import json
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spdist
from spdist.errors import EventsLostWarning, MappingError, SpdistError
from spdist.frames import StreamEvents
from spdist.language.types import Schema

TEXT = """@app:name('Doubles') @app:playback
define stream S (v int, name string);
define table T (v int, name string);
from S[v > 1] select v * 2 as twice, name insert into Out;
from S select v, name insert into T;
"""
ROWS = [(0, (1, "a")), (1500, (2, None)), (2000, (3, "<b>"))]


@pytest.fixture(scope="module")
def result() -> spdist.Result:
    return spdist.run(TEXT, {"S": ROWS}, until="1970-01-01T00:01:00Z")


def test_a_result_compares_and_prints_as_a_dictionary_of_lists(result: spdist.Result) -> None:
    plain = {"Out": [(1500, (4, None)), (2000, (6, "<b>"))]}
    assert result == plain
    assert plain == result
    assert result != {"Out": []}
    assert result != {}
    assert str(result) == repr(result) == str(plain)
    assert (list(result), len(result), "Out" in result, "S" in result, result.get("S")) == (
        ["Out"],
        1,
        True,
        False,
        None,
    )
    with pytest.raises(KeyError, match="no query writes a stream 'Outs'"):
        result["Outs"]


def test_events_are_a_sequence_of_pairs(result: spdist.Result) -> None:
    out = result["Out"]
    assert out[0] == (1500, (4, None))
    assert out[-1][1] == (6, "<b>")
    assert out[:1] == [out[0]]
    assert isinstance(out[:1], StreamEvents)
    assert out == list(out) == [*out]
    assert out != [out[0]]
    assert out != [out[1], out[0]]
    assert out != "events"
    assert (len(out), bool(out), out[1] in out, out.index(out[1])) == (2, True, True, 1)
    assert str(out) == str(list(out))
    assert out.schema == Schema.of([("twice", "int"), ("name", "string")])


def test_many_events_print_their_ends() -> None:
    many = spdist.run(TEXT, {"S": {"ts": range(30), "v": [2] * 30, "name": ["a"] * 30}})["Out"]
    assert str(many).startswith("[(0, (4, 'a')), (1, (4, 'a')), ")
    assert str(many).endswith("(29, (4, 'a'))]")
    assert "(4, (4, 'a')), … 20 more …, (25, (4, 'a'))" in str(many)


def test_it_keeps_what_a_replay_needs(result: spdist.Result) -> None:
    assert result.checked.name == "Doubles"
    assert result.events == {"S": ROWS}
    assert result.until == 60_000
    assert spdist.run(TEXT, result.events, result.until) == result
    assert result.sent == {"S": 3}
    assert (result.lost, result.refused, result.problem) == (0, 0, "")


def test_tables_are_kept_as_they_are_at_the_end(result: spdist.Result) -> None:
    assert result.tables["T"].to_pylist() == [{"v": v, "name": name} for _, (v, name) in ROWS]
    assert result.tables["T"].schema.types == [pa.int32(), pa.string()]


def test_frames_have_the_types_of_the_attributes(result: spdist.Result, tmp_path: Path) -> None:
    frame = result["Out"].to_pandas()
    assert frame.dtypes.astype(str).to_dict() == {"twice": "int32", "name": "string"}
    assert frame.index.name == "time"
    assert frame.index[0] == pd.Timestamp("1970-01-01 00:00:01.5", tz="UTC")
    assert frame["name"].isna().tolist() == [True, False]
    table = result["Out"].to_arrow()
    assert table.schema == pa.schema(
        [("timestamp", pa.timestamp("ms", "UTC")), ("twice", pa.int32()), ("name", pa.string())]
    )
    assert isinstance(result["Out"].to_polars(), pl.DataFrame)
    assert result["Out"].to_polars().rows()[1][1:] == (6, "<b>")
    result["Out"].to_parquet(tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").equals(table)


@pytest.mark.parametrize(
    ("kind", "values", "dtype"),
    [
        ("int", [1, None], "Int32"),
        ("long", [2**53 + 1, None], "Int64"),
        ("long", [2**53 + 1, 1], "int64"),
        ("float", [0.5, None], "Float32"),
        ("float", [0.5, 1.0], "float32"),
        ("double", [0.1, None], "Float64"),
        ("double", [0.1, float("nan")], "Float64"),
        ("double", [], "float64"),
        ("bool", [True, None], "boolean"),
        ("bool", [], "bool"),
        ("string", [], "string"),
        ("object", [[1], [2, 3]], "object"),
    ],
)
def test_columns_with_nulls_are_nullable_and_come_back_as_they_were(kind: str, values: list[Any], dtype: str) -> None:
    events = StreamEvents(Schema.of([("v", kind)]), range(len(values)), [(value,) for value in values])
    frame = events.to_pandas()
    assert str(frame["v"].dtype) == dtype
    again = [value for _, (value,) in spdist.to_events(frame, events.schema)]
    assert [value if value == value else "NaN" for value in again] == [v if v == v else "NaN" for v in values]


def test_objects_of_several_kinds_become_texts() -> None:
    events = StreamEvents(Schema.of([("v", "object")]), [0, 1, 2], [([1, 2],), ("a",), (None,)])
    assert events.to_arrow()["v"].to_pylist() == ["[1, 2]", "a", None]


def test_the_column_of_times_has_a_name_that_no_attribute_has() -> None:
    events = StreamEvents(Schema.of([("timestamp", "long"), ("ts", "long")]), [5], [(1, 2)])
    assert events.to_arrow().column_names == ["time", "timestamp", "ts"]
    assert spdist.to_events(events.to_arrow(), events.schema) == events
    assert spdist.to_events(events.to_pandas(), events.schema) == events


def test_a_value_that_a_query_should_not_put_out_is_named() -> None:
    with pytest.raises(MappingError, match="row 1: 'v' is int, this is not: 'x'"):
        StreamEvents(Schema.of([("v", "int")]), [0, 1], [(1,), ("x",)]).to_arrow()


def test_polars_that_is_not_there_is_said(result: spdist.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(SpdistError, match=r"polars is not installed\nHint: pip install 'spdist\[polars\]'"):
        result["Out"].to_polars()


FAILING = "define stream S (name string); from S select sum(cast(name, 'double')) as d insert into Out;"


def test_events_that_are_lost_are_counted_told_and_warned_of_where_run_is_called() -> None:
    with pytest.warns(
        EventsLostWarning, match=r"^7 events lost because a query failed: stream 'S', \(0, \('x',\)\): "
    ) as told:
        result = spdist.run(FAILING, {"S": [(ts, ("x",)) for ts in range(7)]})
    assert told[0].filename == __file__
    assert len(told) == 1
    assert (result.lost, len(result.lost.reasons), result.refused) == (7, 5, 0)
    assert result.lost.reasons[4].startswith("stream 'S', (4, ('x',)): ClassCastError: ")
    assert result["Out"] == []


def test_events_too_far_ahead_are_refused_and_told() -> None:
    with pytest.warns(EventsLostWarning, match="^1 event refused: stream 'S', .* days ahead of the app's clock"):
        result = spdist.run(TEXT, {"S": [(0, (2, "a")), (2**45, (2, "b")), (5, (2, "c"))]})
    assert (result.lost, result.refused, result.refused.reasons[0][:13]) == (0, 1, "stream 'S', (")
    assert [row for _, row in result["Out"]] == [(4, "a"), (4, "c")]


def test_nothing_is_warned_of_where_nothing_is_lost() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spdist.run(TEXT, {"S": ROWS})


def test_it_shows_itself_as_tables_and_escapes_what_is_in_them(result: spdist.Result) -> None:
    html = result._repr_html_()
    assert "Doubles: 3 events into S" in html
    assert "Out: 2 events" in html
    assert "1970-01-01 00:00:01.500" in html
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    many = spdist.run(TEXT, {"S": {"ts": range(1000), "v": [2] * 1000, "name": ["a"] * 1000}})
    assert many._repr_html_().count("<tr>") == 1 + 5 + 1 + 5
    assert "990 more events" in many._repr_html_()
    with pytest.warns(EventsLostWarning):
        assert "1 event lost" in spdist.run(FAILING, {"S": [(0, ("x",))]})._repr_html_()
    assert "Out: 0 events" in spdist.run(FAILING, {"S": []})._repr_html_()


def test_it_is_data_for_programs(result: spdist.Result) -> None:
    made = json.loads(json.dumps(result.to_dict()))
    assert made["streams"]["Out"] == {
        "schema": {"twice": "int", "name": "string"},
        "count": 2,
        "events": [{"timestamp": 1500, "row": [4, None]}, {"timestamp": 2000, "row": [6, "<b>"]}],
    }
    assert (made["app"], made["sent"], made["until"]) == ("Doubles", {"S": 3}, 60_000)
    assert made["lost"] == made["refused"] == {"count": 0, "reasons": []}
    assert len(result.to_dict(most=1)["streams"]["Out"]["events"]) == 1
    odd = StreamEvents(Schema.of([("v", "double"), ("o", "object")]), [0], [(float("-inf"), [1])])
    assert odd.to_dict()["events"] == [{"timestamp": 0, "row": ["-Infinity", "[1]"]}]
    assert result._repr_mimebundle_()["text/plain"] == str(result)


def test_results_are_taken_as_events_by_position() -> None:
    more = "define stream In (n long, who string); from In select n, who insert into More;"
    first = spdist.run(TEXT, {"S": [(2 * 10**9, (2, "a"))]}, time_unit="ms")
    assert spdist.run(more, {"In": first["Out"]}) == {"More": [(2 * 10**9, (4, "a"))]}


@pytest.mark.parametrize(
    "module", ["spdist", "spdist.facade", "spdist.frames.events", "spdist.frames.reading", "spdist.result"]
)
def test_examples_print_what_they_say(module: str) -> None:
    outcome = doctest.testmod(importlib.import_module(module))
    assert outcome.attempted > 0
    assert outcome.failed == 0
