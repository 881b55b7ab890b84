"""The ``str:`` functions where recorded cases do not reach: what is refused, maps, and a window's state."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.engine.local.app import run
from spdist.errors import SiddhiAppError
from spdist.extension import catalog, find
from spdist.functions.strings import GroupConcat

STREAM = "define stream S (s string, i int, d double, o object);"
NAMES = (
    "charAt charFrequency coalesce concat contains equalsIgnoreCase fillTemplate hex length locate lower "
    "regexp repeat replaceAll replaceFirst reverse split strcmp substr trim unhex upper "
)


def value(expression: str, *row: Any) -> Any:
    rows = run(f"{STREAM} from S select {expression} as x insert into Out;", {"S": [(1, row)]}).get("Out", [])
    return rows[0][1][0] if rows else "nothing"


def test_all_functions_of_the_family_are_there() -> None:
    known = catalog()
    assert {f"str:{name}" for name in NAMES.split()} <= set(known.functions)
    assert "str:groupConcat" in known.aggregators
    assert "str:tokenize" in known.stream_functions


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("str:charAt(s)", r"'str:charAt' does not take \(string\)"),
        ("str:concat(s)", "'str:concat' does not take"),
        ("str:concat(s, o)", "'str:concat' does not take"),
        ("str:coalesce(s, i)", "must be of one type"),
        ("str:length(i)", "'str:length' does not take"),
        ("str:fillTemplate(s, o, s)", "'str:fillTemplate' does not take"),
        ("str:groupConcat(i)", "'str:groupConcat' does not take"),
        ("str:groupConcat(s, ',', i > 1)", "takes constants"),
        ("str:groupConcat(s, ',', true, 'UP')", "not by 'UP'"),
    ],
)
def test_wrong_arguments_are_refused(expression: str, told: str) -> None:
    with pytest.raises(SiddhiAppError, match=told):
        value(expression, "a", 1, 1.0, None)


def test_templates_take_a_map_by_name() -> None:
    template = "str:fillTemplate('{{name}} is {{ age }}{{no}}', o)"
    assert value(template, "", 0, 0.0, {"name": "Ann", "age": 7.0}) == "Ann is 7.0no"
    assert value(template, "", 0, 0.0, 5) == "nothing"


def test_positions_count_halves_of_large_characters() -> None:
    assert value("str:length(s)", "a𝄞", 0, 0.0, None) == 3
    assert value("str:charAt(s, 1)", "a𝄞", 0, 0.0, None) == "?"
    assert value("str:substr(s, 1, 2)", "a𝄞b", 0, 0.0, None) == "𝄞"
    assert value("str:substr(s, 2)", "a𝄞b", 0, 0.0, None) == "?b"
    assert value("str:locate('b', s)", "a𝄞b", 0, 0.0, None) == 3


def test_one_argument_is_its_own_coalesce() -> None:
    assert value("str:coalesce(s)", "a", 0, 0.0, None) == "a"


def test_case_is_that_of_single_characters() -> None:
    compare = find("function", "str:equalsIgnoreCase").implementation
    assert compare("straße", "STRAßE")
    assert compare("ſK", "SK")  # long s, and the Kelvin sign
    assert not compare("ß", "ss")
    assert not compare("a", "b")


def test_a_concatenation_takes_back_what_leaves() -> None:
    state = GroupConcat.initial()
    for text in ("a", "b", "a"):
        state = GroupConcat.add(state, (text, "-", False, "desc"))
    assert GroupConcat.result(state) == "b-a-a"
    state = GroupConcat.remove(state, ("a", "+", False, "desc"))
    assert GroupConcat.result(state) == "b+a"
    state = GroupConcat.remove(state, ("a", "+", False, "desc"))
    assert GroupConcat.result(state) == "b"
    with pytest.raises(ValueError, match="without a separator"):
        GroupConcat.remove(state, "b")
