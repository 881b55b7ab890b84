"""What is said of functions, windows and the like that are not there."""

from __future__ import annotations

import re

import pytest

import spdist
from spdist.errors import ErrorKind, UndefinedNameError
from spdist.extension import catalog
from spdist.language import foreign
from spdist.language.checking.unknown import nearest_id
from spdist.language.signatures import described
from tests.error_codes import coded

S = "define stream S (symbol string, price double, volume long);\n"


def hint_of(source: str, value: str = "symbol") -> str | None:
    with pytest.raises(UndefinedNameError, check=coded(ErrorKind.UNKNOWN_EXTENSION)) as caught:
        spdist.check(f"{S}from {source} select {value} as x insert into Out;")
    return caught.value.hint


@pytest.mark.parametrize(
    ("source", "value", "meant"),
    [
        ("S#window.unique:frist(symbol)", "symbol", "unique:first"),
        ("S#window.uniq:first(symbol)", "symbol", "unique:first"),
        ("S#window.frist(symbol)", "symbol", "unique:first"),
        ("S#window.Unique:First(symbol)", "symbol", "unique:first"),
        ("S#window.lengthbatch(3)", "symbol", "lengthBatch"),
        ("S#window.tiem(3)", "symbol", "time"),
        ("S#lgo('x')", "symbol", "log"),
        ("S#str:tokenise(symbol, ',')", "symbol", "str:tokenize"),
        ("S", "sin(price)", "math:sin"),  # not the aggregator min, which is one letter away
        ("S", "sine(price)", "math:sin"),  # not map:size, which is as near
        ("S", "sun(price)", "sum"),
        ("S", "distinctcount(price)", "distinctCount"),
        ("S", "length(symbol)", "str:length"),  # a function, where a function stands
        ("S", "stdD(price)", "stdDev"),
    ],
)
def test_the_name_that_was_meant(source: str, value: str, meant: str) -> None:
    assert hint_of(source, value) == f"Did you mean '{meant}'?"


@pytest.mark.parametrize(
    ("source", "value", "form"),
    [
        ("S#time(5 sec)", "symbol", "#window.time(…)"),
        ("S#unique:ever(symbol)", "symbol", "#window.unique:ever(…)"),
        ("S", "timeBatch(5)", "#window.timeBatch(…)"),
        ("S#window.reorder:kslack(volume)", "symbol", "from S#reorder:kslack(…)"),
        ("S", "reorder:kslack(volume)", "from S#reorder:kslack(…)"),
        ("S#sum(price)", "symbol", "select sum(…)"),
        ("S#str:concat(symbol, symbol)", "symbol", "select str:concat(…)"),
    ],
)
def test_what_is_of_another_kind_says_where_it_stands(source: str, value: str, form: str) -> None:
    assert form in (hint_of(source, value) or "")


@pytest.mark.parametrize(
    "id", ["average", "nothingOfThatKind", "qqq", "z", "x" * 5_000, "str:" + "y" * 5_000, "unique:first"]
)
def test_nothing_is_guessed(id: str) -> None:
    assert nearest_id(id, ["map:merge", "avg", "str:trim", "a"]) is None


def test_functions_that_hints_name_for_those_of_other_languages_are_there() -> None:
    known = catalog()
    for word, hint in foreign.FUNCTIONS.items():
        named = re.findall(r"[\w:]+(?=\()", hint)
        assert named and set(named) <= {*known.functions, *known.aggregators}, word
        assert word not in {*known.functions, *known.aggregators}, word
    assert hint_of("S", "AVERAGE(price)") == "It is called avg(…)."


def test_what_refuses_a_call_speaks_of_itself() -> None:
    known = catalog()
    kinds = {"": {**known.functions, **known.aggregators, **known.windows}, "#": known.stream_functions}
    for kind, resolvers in kinds.items():
        for id, resolve in resolvers.items():
            assert described(id, resolve, of_stream=kind == "#").startswith(f"{id}("), id
