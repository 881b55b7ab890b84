"""Functions that an app defines in JavaScript: what they are given and give, and that they reach nothing else."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spdist
from spdist.engine.island.hosted import build_island
from spdist.engine.local.app import run
from spdist.errors import ErrorKind, SiddhiAppError, SiddhiTypeError
from spdist.extension import catalog
from spdist.language import javascript
from spdist.language.checking.checker import check
from spdist.language.javascript import JavaScript
from spdist.language.parsing.parser import parse
from spdist.planning.groups import plan
from tests.error_codes import coded

STREAM = "define stream S (v int, k string, big long, part double, sure bool, none string);\n"
EVENT = {"S": [(1000, (7, "tea", 1 << 40, 2.0, True, None))]}


def result(returns: str, body: str, arguments: str = "v, k") -> list[Any]:
    """Return what a function gives in an app, without permission for Python: nothing where it fails."""
    text = f"{STREAM}define function f[JavaScript] return {returns} {{ {body} }};"
    return [row[0] for _, row in run(f"{text} from S select f({arguments}) as r insert into Out;", EVENT)["Out"]]


def called(body: str, *data: Any) -> Any:
    return JavaScript("f", body, False)(list(data))


@pytest.mark.parametrize(
    ("returns", "body", "arguments", "expected"),
    [
        ("string", "var a = data[0]; var b = data[1]; return a.concat(b, data[2]);", "k, ' for ', v", ["tea for 7"]),
        ("string", "return data[0];", "part", ["2"]),  # as JavaScript writes it, and not as Java does
        ("string", "return [1, 2];", "v", ["1,2"]),
        ("int", "return data[0] / 2;", "v", [3]),
        ("long", "return data[0] + 1;", "big", [(1 << 40) + 1]),
        ("long", "return 2n ** 62n + 1n;", "v", [(1 << 62) + 1]),
        ("double", "return data.length;", "v, k, none", [3.0]),
        ("float", "return 0.1;", "v", [0.10000000149011612]),
        ("bool", "return data[0] && data[1] === null;", "sure, none", [True]),
        ("int", "", "v", [None]),
        ("int", "return null;", "v", [None]),
        ("int", "return data[0] > 1 ? data[0] * f([data[0] - 1]) : 1;", "v", [5040]),
        ("object", "return {of: data[0].map(x => x + 1)};", "list:create(1, 2)", [{"of": [2, 3]}]),
        ("int", "return data[0].a;", "map:create('a', 5)", [5]),
        ("string", "return \"}\" + '{';", "v", ["}{"]),
        ("bool", "return 1;", "v", []),
        ("int", "return 'x';", "v", []),
        ("int", "throw new Error('no');", "v", []),
    ],
)
def test_a_function_gives_a_value_of_its_type(returns: str, body: str, arguments: str, expected: list[Any]) -> None:
    assert result(returns, body + "\n", arguments) == expected


PLAIN = st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | st.text(st.characters())
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(value=PLAIN | st.floats() | st.lists(PLAIN | FINITE, max_size=3))
def test_a_value_comes_back_as_it_was_given(value: Any) -> None:
    found = called("return data[0];", value)
    assert (found != found) if value != value else found == value
    assert isinstance(found, bool) == isinstance(value, bool)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return java.lang.System.exit(1);", "ReferenceError: java is not defined"),
        ("return require('fs');", "ReferenceError: require is not defined"),
        ("return fetch('http://127.0.0.1');", "ReferenceError: fetch is not defined"),
        ("return f(data);", "RangeError: Maximum call stack size exceeded"),
        ("var all = []; while (true) all.push(new Array(10000).fill(7));", "it took more than 64 MiB"),
        ("return 'x'.repeat(1e9);", "it took more than 64 MiB"),
        ("throw 'a text';", "a text"),
    ],
)
def test_it_reaches_nothing_and_has_bounds(body: str, told: str) -> None:
    function = JavaScript("f", "if (data[0]) return 1;\n" + body, False)
    with pytest.raises(ValueError, match=f"^{told}$"):
        function([False])
    assert function([True]) == 1  # it can be called again


@pytest.mark.parametrize("body", ["while (true) {}", "return /(a+)+b/.test('a'.repeat(40));"])
def test_a_call_without_end_is_ended(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javascript, "CALL_S", 1)
    with pytest.raises(ValueError, match=r"^it took more than 1 s$"):
        called(body)


def test_each_thread_has_an_interpreter_of_its_own() -> None:
    function = JavaScript("f", "count = (typeof count === 'undefined' ? 0 : count) + 1; return count;", False)
    found: list[Any] = []

    def calls() -> None:
        found.append([function([]) for _ in range(1000)][-1])

    threads = [threading.Thread(target=calls) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert found == [1000] * 4
    assert function([]) == 1


def test_what_is_no_javascript_is_refused_before_it_runs() -> None:
    text = f"{STREAM}define function f[javascript] return int {{ var x = ; return x; }};"
    with pytest.raises(SiddhiTypeError, match=r"'f' is no JavaScript: SyntaxError: .*';'") as caught:
        spdist.check(text)
    assert caught.value.span is not None
    assert caught.value.span.line == 2


def test_groups_of_a_distributed_app_keep_the_functions_they_call() -> None:
    text = f"@app:name('Twice') {STREAM}define function twice[javascript] return int {{ return 2 * data[0]; }};"
    app = parse(f"{text} @dist(execGroup='one') from S select twice(v) as w insert into Out;")
    (assignment,) = plan(app, check(app, catalog())).assignments()
    assert "twice[javascript]" in assignment.text
    assert build_island(assignment, 0) is not None


def test_without_the_interpreter_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javascript, "is_available", lambda: False)
    text = f"{STREAM}define function f[javascript] return int {{ return 1; }};"
    with pytest.raises(SiddhiAppError, match="is not installed here", check=coded(ErrorKind.UNSUPPORTED)) as caught:
        spdist.check(text)
    assert "spdist[javascript]" in str(caught.value)
