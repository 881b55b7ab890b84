"""JSON: where this engine differs from Siddhi's on purpose, what is refused, and what paths may not do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.functions.json_functions import _document
from spdist.java.json.gson import parse_gson
from spdist.java.json.parse import parse_org, parse_simple, parse_smart
from spdist.java.json.path import InvalidPathError, PathNotFoundError, unescaped
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


_READERS = {
    "gson": lambda text: parse_gson(f"{{'a':'{text}'}}")["a"],
    "smart": lambda text: parse_smart(f"{{'a':'{text}'}}")["a"],
    "org": lambda text: parse_org(f"{{'a':'{text}'}}").find("a"),
    "path": unescaped,
}


@pytest.mark.parametrize("reader", _READERS)
@given(st.text(st.characters(categories=["Cs", "So", "Lu"])))
def test_escapes_of_units_are_read_as_java_reads_utf_16(reader: str, text: str) -> None:
    packed = text.encode("utf-16-be", "surrogatepass")
    escapes = "".join(f"\\u{packed[i : i + 2].hex()}" for i in range(0, len(packed), 2))
    assert _READERS[reader](escapes) == packed.decode("utf-16-be", "surrogatepass")


@pytest.mark.parametrize("digits", ["+123", "-123", " 123", "1_23", "\u0661\u0662\u0663\u0664", "zz61"])
def test_what_is_behind_u_is_read_as_each_library_reads_it(digits: str) -> None:
    as_number = {"+123": "\u0123", "-123": "\ufedd", "\u0661\u0662\u0663\u0664": "\u1234"}.get(digits)
    for reader, expected in (("gson", None), ("smart", None), ("org", as_number), ("path", as_number)):
        if expected is not None:
            assert _READERS[reader](f"\\u{digits}") == expected
        else:
            with pytest.raises(ValueError, match="digits"):
                _READERS[reader](f"\\u{digits}")


def test_an_escape_that_the_end_of_a_path_cuts_off_is_left_out() -> None:
    assert compile_path("$['a\\u006']").read({"a": 1}, {"a": 1}) == 1
    with pytest.raises(InvalidPathError):
        compile_path("$['\\uzz61']")
