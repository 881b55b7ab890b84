"""Java's objects: which are equal, in which order maps iterate, and that state keeps all of it."""

from __future__ import annotations

from copy import copy, deepcopy
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spdist.java.json.text import text_of_object
from spdist.java.objects import (
    Float,
    HashMap,
    HashSet,
    JSONArray,
    JSONObject,
    Long,
    Opaque,
    box_float,
    box_long,
    entries,
    hash_of,
    is_integer,
    is_long,
    same,
    unbox,
)
from spdist.operators.core.codec import decode, encode


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, Long(1)),
        (1, 1.0),
        (1, True),
        (1.0, Float(1.0)),
        (0.0, -0.0),
        ("1", 1),
        (None, 0),
        ([1], [Long(1)]),
        ([1], [1, 1]),
        (HashMap([(1, "a")]), HashMap([(Long(1), "a")])),
        (HashMap([("k", 1)]), HashMap([("k", Long(1))])),
    ],
)
def test_values_of_different_classes_differ(left: Any, right: Any) -> None:
    assert not same(left, right)
    assert not same(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (2**40, 2**40),
        (float("nan"), float("nan")),
        (Long(1), Long(1)),
        ([1, [None]], JSONArray([1, [None]])),
        ({"a": 1}, HashMap([("a", 1)])),
        (None, None),
        ({1, 2}, {2, 1}),
    ],
)
def test_values_that_are_equal(left: Any, right: Any) -> None:
    assert same(left, right)
    assert same(right, left)


def test_a_long_that_fits_an_int_has_a_class_of_its_own() -> None:
    assert is_long(box_long(1)) and not is_integer(box_long(1))
    assert type(box_long(2**40)) is int and is_long(2**40)
    assert type(unbox(box_long(7))) is int
    assert type(unbox(box_float(0.5))) is float
    assert text_of_object(box_float(0.1)) == "0.1"
    assert box_long(None) is None and box_float(None) is None


@pytest.mark.parametrize(
    ("value", "code"),
    [("hello", 99162322), (1, 1), (Long(-1), 0), (1.0, 1072693248), (Float(1.0), 1065353216), (True, 1231), (None, 0)],
)
def test_hash_codes_are_those_of_java(value: Any, code: int) -> None:
    assert hash_of(value) == code


def test_a_map_iterates_as_java_does() -> None:
    made = HashMap([("b", 1), ("a", 2), ("zeta", 3), ("eta", 4), ("theta", 5)])
    assert list(made) == ["zeta", "a", "b", "eta", "theta"]
    assert list(HashMap.copy_of(HashMap([("a", 1), ("x", 2)]))) == ["x", "a"]


def test_a_map_keeps_classes_of_keys_apart() -> None:
    made = HashMap([(1, "a"), (Long(1), "b"), (1.0, "c"), (Float(1.0), "d"), (True, "e")])
    assert len(made) == 5
    assert [made.find(key) for key in (1, Long(1), 1.0, Float(1.0), True, 2)] == ["a", "b", "c", "d", "e", None]
    made.take(1)
    assert not made.has(1) and made.has(Long(1))
    assert {type(key) for key, _ in entries(made)} == {Long, float, Float, bool}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, None, True, 2.5], "[1, null, true, 2.5]"),
        (HashMap([("a", [1.0])]), "{a=[1.0]}"),
        (JSONObject([("a", JSONArray(["x/y"]))]), '{"a":["x\\/y"]}'),
        ({"a": JSONArray([None])}, "{a=[null]}"),
    ],
)
def test_texts_are_those_of_java(value: Any, text: str) -> None:
    assert text_of_object(value) == text


def test_state_keeps_objects() -> None:
    made = HashMap((f"k{i}", i) for i in range(20))
    for i in range(18):
        made.take(f"k{i}")
    value = [
        made,
        JSONObject([(Long(1), JSONArray([Float(0.1), Decimal("1.50"), 2**70]))]),
        Opaque("org.json.JSONArray", "[1]"),
        HashMap([(True, None), (1, {"x": Long(2)})]),
    ]
    back = decode(encode(value))
    assert same(back[0], made) and list(back[0]) == list(made) and back[0].capacity == made.capacity
    assert type(back[1]) is JSONObject and type(entries(back[1])[0][0]) is Long
    inner = entries(back[1])[0][1]
    assert [type(part) for part in inner] == [Float, Decimal, int] and inner[2] == 2**70
    assert back[2] == value[2]
    assert same(back[3], value[3]) and type(back[3].find(1)["x"]) is Long


@pytest.mark.parametrize("of", [HashMap, JSONObject])
@pytest.mark.parametrize("copied", [copy, deepcopy])
@given(st.lists(st.integers(0, 99), max_size=30), st.integers(0, 30), st.lists(st.integers(0, 99)))
@example([*range(20, 45)], 24, [28])
def test_a_copy_iterates_as_its_map_does(copied: Any, of: Any, keys: list[int], gone: int, later: list[int]) -> None:
    made = of((key, None) for key in keys)
    for key in keys[:gone]:
        made.take(key)
    back = copied(made)
    assert type(back) is of and same(back, made)
    for key in later:
        made.put(key, None)
        back.put(key, None)
    assert list(back) == list(made) and back.capacity == made.capacity


def test_a_set_iterates_as_java_does_and_comes_back() -> None:
    made = HashSet([33, 17, 2, 1])
    assert list(made) == [33, 17, 1, 2]
    back = decode(encode(made))
    assert type(back) is HashSet and list(back) == list(made) and back == {1, 2, 17, 33}
