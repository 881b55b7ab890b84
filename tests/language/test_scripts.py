"""Functions that an app defines in Python: allowed or refused, checked before they run, and what they give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import spdist
from spdist.engine.island.hosted import build_island
from spdist.engine.local.app import LocalApp, run
from spdist.errors import ErrorKind, SiddhiAppError, SiddhiTypeError, UndefinedNameError
from spdist.extension import allow_scripts, catalog
from spdist.language.checking.checker import check
from spdist.language.format import format_app
from spdist.language.parsing.parser import parse
from spdist.planning.groups import plan
from tests.error_codes import coded

STREAM = "define stream S (v int, k string);\n"
DOUBLE = "define function twice[python] return long { return 2 * data[0] };\n"
EVENTS = {"S": [(1000, (1, "x")), (1001, (2, "y")), (1002, (None, "x"))]}


def rows(text: str) -> list[tuple[Any, ...]]:
    return [row for _, row in run(text, EVENTS, scripts=True).get("Out", [])]


@pytest.fixture
def _allowed() -> Iterator[None]:
    allow_scripts()
    yield
    allow_scripts(False)


def test_without_permission_nothing_is_run() -> None:
    text = f"{STREAM}{DOUBLE}from S select twice(v) as w insert into Out;"
    for attempt in (lambda: spdist.check(text), lambda: run(text, EVENTS), lambda: spdist.run(text, EVENTS)):
        with pytest.raises(
            SiddhiAppError, match="'twice' is Python code of the app", check=coded(ErrorKind.UNSUPPORTED)
        ) as caught:
            attempt()
        assert caught.value.span is not None
        assert caught.value.span.line == 2
        assert "siddhi.script.python.enabled" in str(caught.value)


@pytest.mark.usefixtures("_allowed")
def test_the_switch_of_a_process_allows_all_apps() -> None:
    text = f"{STREAM}{DOUBLE}from S[v > 1] select twice(v) as w insert into Out;"
    assert spdist.run(text, EVENTS) == {"Out": [(1001, (4,))]}
    with pytest.raises(SiddhiAppError, check=coded(ErrorKind.UNSUPPORTED)):
        spdist.check(text, scripts=False)


def test_other_languages_are_no_extension() -> None:
    text = f"{STREAM}define function f[R] return int {{ return data[0]; }};"
    for allowed in (False, True):
        with pytest.raises(UndefinedNameError, match="'script:R'", check=coded(ErrorKind.UNKNOWN_EXTENSION)):
            check(parse(text), catalog(allowed), text)


def test_a_function_is_called_with_the_list_of_its_arguments() -> None:
    text = f"""{STREAM}
        define function describe[Python] return string {{
            names = {{'x': 'ex'}}  # braces count
            if data[1] is None:
                return None
            return f"{{names.get(data[0], data[0])}}-{{data[1]}} of {{len(data)}}"
        }};
        from S select describe(k, v) as d, describe(k, v, true, 1.5) is null as n insert into Out;"""
    assert rows(text) == [("ex-1 of 2", False), ("y-2 of 2", False), (None, True)]


@pytest.mark.parametrize(
    ("returns", "body", "expected"),
    [
        ("int", "return 2147483648.9", [2147483647]),
        ("int", "return 4294967297", [1]),
        ("long", "return 2.9", [2]),
        ("double", "return 1", [1.0]),
        ("float", "return 0.1", [0.10000000149011612]),
        ("string", "return 1.0", ["1.0"]),
        ("bool", "return data[0] > 1", [False]),
        ("bool", "return None", [False]),
        ("int", "return None", [None]),
        ("object", "return [1, 'a']", [[1, "a"]]),
        ("int", "return 'x'", []),
        ("bool", "return 1", []),
        ("int", "", [None]),
        ("int", "raise ValueError('no')", []),
    ],
)
def test_a_result_is_of_the_declared_type(returns: str, body: str, expected: list[Any]) -> None:
    defined = f"define function f[python] return {returns} {{ {body} }};"
    text = f"{STREAM}{defined} from S[v < 2] select f(v) as r insert into Out;"
    assert [row[0] for row in rows(text)] == expected


def test_functions_serve_in_filters_patterns_partitions_and_aggregators() -> None:
    text = f"""{STREAM}{DOUBLE}
        define function big[python] return bool {{ return data[0] is not None and data[0] > 1 }};
        partition with (k of S) begin
            from S[not (v is null)] select k, sum(twice(v)) as t group by k having big(t) insert into Out;
        end;
        from every a=S[not big(v)] -> b=S[big(twice(a.v)) and v > a.v] select twice(b.v) as p insert into Pairs;"""
    out = run(text, EVENTS, scripts=True)
    assert out["Out"] == [(1000, ("x", 2)), (1001, ("y", 4))]
    assert out["Pairs"] == [(1001, (4,))]


def test_a_function_comes_before_one_of_the_same_name() -> None:
    defined = "define function coalesce[python] return int { return 7 };"
    text = f"{STREAM}{defined} from S select coalesce(v, 1) as c insert into Out;"
    assert rows(text) == [(7,), (7,), (7,)]


def test_what_is_no_python_is_refused_before_it_runs() -> None:
    text = f"{STREAM}define function f[python] return int {{\n  x = 1\n  return (x\n}};"
    with pytest.raises(SiddhiTypeError, match=r"'f' is no Python in its line 2") as caught:
        check(parse(text), catalog(scripts=True), text)
    assert caught.value.span is not None


def test_calls_of_a_refused_function_are_no_further_errors() -> None:
    text = f"{STREAM}{DOUBLE}from S select twice(v) as w, nothing(v) as n insert into Out;"
    with pytest.raises(SiddhiAppError) as caught:
        spdist.check(text)
    assert [error.code for error in caught.value.errors] == [
        ErrorKind.UNSUPPORTED,
        ErrorKind.UNKNOWN_EXTENSION,
    ]


def test_a_snapshot_goes_on_in_another_app() -> None:
    text = f"{STREAM}{DOUBLE}from S#window.length(2) select sum(twice(v)) as t insert into Out;"
    checked = check(parse(text), catalog(scripts=True), text)
    first, second = LocalApp(checked), LocalApp(checked)
    first.send("S", 1000, (1, "x"))
    second.restore(first.snapshot())
    seen: list[Any] = []
    second.subscribe("Out", lambda _ts, row: seen.append(row))
    second.send("S", 1001, (2, "x"))
    second.send("S", 1002, (3, "x"))
    assert seen == [(6,), (10,)]


def test_groups_of_a_distributed_app_keep_the_functions_they_call() -> None:
    text = f"@app:name('Twice') {STREAM}{DOUBLE}@dist(execGroup='one') from S select twice(v) as w insert into Out;"
    app = parse(text)
    assert "twice[python]" in format_app(app)
    (assignment,) = plan(app, check(app, catalog(scripts=True), text)).assignments()
    assert build_island(assignment, 0, scripts=True) is not None
    with pytest.raises(SiddhiAppError, check=coded(ErrorKind.UNSUPPORTED)):
        build_island(assignment, 0)
