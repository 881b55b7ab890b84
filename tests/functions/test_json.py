"""JSON: where this engine differs from Siddhi's on purpose, what is refused, and what paths may not do."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.functions.json_functions import _document
from spdist.java.json.gson import parse_gson
from spdist.java.json.parse import parse_simple, parse_smart
from spdist.java.json.path import InvalidPathError, PathNotFoundError
from spdist.java.json.path_text import compile_path
from spdist.java.objects import Long
from spdist.replay import run_case


def outputs(app: str, *rows: list[Any]) -> list[list[Any]]:
    steps = [{"stream": "S", "timestamp": n, "data": row} for n, row in enumerate(rows)]
    result = run_case({"app": app, "start": 0, "observe": ["Out"], "events": steps})
    assert "error" not in result, result
    return [event["data"] for event in result["streams"]["Out"]]


@pytest.mark.parametrize(
    "call",
    [
        "json:getInt(j)",
        "json:getInt(n, '$.a')",
        "json:getInt(j, n)",
        "json:setElement(j, '$')",
        "json:setElement(j, '$', 1, n)",
        "json:toObject(json:toObject(j))",
        "json:toString(n)",
        "json:toString(j, 'true')",
        "json:group(n)",
        "json:group(j, true, 'x')",
    ],
)
def test_arguments_of_other_types_are_refused(call: str) -> None:
    result = run_case({"app": f"define stream S (j string, n int); from S select {call} as x insert into Out;"})
    assert result["error"]["category"] == "creation"


def test_tokenize_needs_a_constant_flag() -> None:
    result = run_case(
        {"app": "define stream S (j string, b bool); from S#json:tokenize(j, '$', b) select * insert into O;"}
    )
    assert result["error"]["category"] == "creation"


def test_parameters_of_functions_are_read_in_each_document() -> None:
    app = "define stream S (j string); from S select json:getDouble(j, '$.l.sum($.a)') as x insert into Out;"
    assert outputs(app, ['{"l":[1],"a":2}'], ['{"l":[1],"a":5}']) == [[3.0], [6.0]]


def test_group_as_object_keeps_groups_apart() -> None:
    app = (
        "define stream S (k string, j string); from S select k, json:groupAsObject(j) as x group by k insert into Out;"
    )
    rows = [["a", '{"v":1}'], ["b", '{"v":2}'], ["a", '{"v":3}']]
    assert outputs(app, *rows) == [["a", [{"v": 1}]], ["b", [{"v": 2}]], ["a", [{"v": 1}, {"v": 3}]]]


def test_what_an_object_changes_is_not_seen_by_the_next_reader() -> None:
    app = (
        "define stream S (j string);"
        "from S select map:put(json:getObject(j, '$'), 'b', 2) as o, json:getString(j, '$.b') as s insert into Out;"
    )
    assert outputs(app, ['{"a":1}']) == [[{"a": 1, "b": 2}, None]]
    assert _document.cache_info().maxsize == 32


@pytest.mark.parametrize("text", ["$.", "$..", "$...a", "$a", "$.l[?(@.x]", "$[1:2,3]", "$[:]", "$.a b", "", "$[a]"])
def test_what_is_no_path(text: str) -> None:
    with pytest.raises(InvalidPathError):
        compile_path(text)


@pytest.mark.parametrize("text", ["a", "$.a", "$['a']", '$[ "a" ]', "$.a["])
def test_ways_to_write_a_path(text: str) -> None:
    assert compile_path(text).read({"a": 1}, {"a": 1}) == 1


def test_a_definite_path_that_names_nothing_is_an_error() -> None:
    with pytest.raises(PathNotFoundError):
        compile_path("$.a.b").read({"a": 1}, {"a": 1})
    assert compile_path("$.a[*].b").read({"a": [1]}, {"a": [1]}) == []


def test_readers_differ_in_what_they_make_of_numbers() -> None:
    assert parse_smart("[1, 1.5]") == [1, 1.5]
    assert type(parse_simple('{"a": 1}').find("a")) is Long
    assert parse_gson("[1, x, '2']") == [1.0, "x", "2"]
    with pytest.raises(ValueError, match="no JSON"):
        parse_gson("two words")
