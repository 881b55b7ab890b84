"""Columns of state are the values they were made of, whole, in part, and packed."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.errors import StateError
from spdist.java.objects import HashMap, Long
from spdist.operators.core.codec import decode, encode
from spdist.operators.core.packed_columns import plain, unpacked
from spdist.operators.core.state_columns import (
    Column,
    HashMapColumn,
    ListColumn,
    MapColumn,
    NumberColumn,
    StructColumn,
    TextColumn,
    UnionColumn,
    ValueColumn,
    column_of,
    no_entries,
    nothing,
    numbers_of,
)

_numbers = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6)


def columns() -> dict[str, Column]:
    """A column of each form, of three values."""
    numbers = NumberColumn(numpy.array([1, 300, -70_000]))
    lengths = NumberColumn(numpy.array([2, 0, 1]))
    return {
        "values": ValueColumn([1, "a", None]),
        "numbers": numbers,
        "numbers with a null": NumberColumn(numpy.array([1.5, 0.0, 2.5]), numpy.array([False, True, False])),
        "bools": NumberColumn(numpy.array([True, False, True])),
        "texts": TextColumn(numpy.array([1, -1, 0]), ["a", "b"]),
        "records": StructColumn(tuple, [numbers, ValueColumn([1, "a", None])]),
        "runs": ListColumn(deque, lengths, numbers),
        "mappings": MapColumn(lengths, ValueColumn(["a", "b", "a"]), numbers),
        "maps": HashMapColumn(lengths, ValueColumn(["a", "b", "a"]), numbers, ValueColumn([16, 0, 64])),
        "mixed": UnionColumn(
            bytes([0, 1, 0]), [ValueColumn([1, None]), ListColumn(list, ValueColumn([2]), ValueColumn([3, 4]))]
        ),
        "empty lists": nothing(3),
        "empty dictionaries": no_entries(3),
    }


@pytest.mark.parametrize("name", columns())
def test_a_column_is_its_values_packed_and_in_part(name: str) -> None:
    column = columns()[name]
    values = column.values()
    assert len(values) == 3
    assert unpacked(column.packed()).values() == values
    assert column.at(numpy.array([2, 0])).values() == [values[2], values[0]]
    assert column.at(numpy.array([], numpy.int64)).values() == []
    # Within state it stands for the one value that it has.
    assert decode(encode({"state": StructColumn(list, [column]).at(numpy.array([1]))})) == {"state": [values[1]]}


def test_values_are_found_where_operators_expect_them() -> None:
    assert columns()["runs"].values() == [deque([1, 300]), deque(), deque([-70_000])]
    assert columns()["mappings"].values() == [{"a": 1, "b": 300}, {}, {"a": -70_000}]
    assert columns()["texts"].values() == ["b", None, "a"]
    assert plain(ValueColumn([{"a": 1}])) == {"a": 1} == plain({"a": 1})


@given(_numbers, st.booleans())
def test_whole_numbers_have_the_bytes_that_they_need(numbers: list[int], null: bool) -> None:
    nulls = numpy.arange(len(numbers)) % 2 == 0 if null else None
    expected = [None if null and place % 2 == 0 else number for place, number in enumerate(numbers)]
    column = NumberColumn(numpy.array(numbers, numpy.int64), nulls)
    assert unpacked(column.packed()).values() == expected
    _, kind, data, _ = column.packed()
    widest = max((number.bit_length() if number >= 0 else (~number).bit_length() for number in numbers), default=0)
    assert len(data) == len(numbers) * int(kind[2])
    assert int(kind[2]) == next(size for size in (1, 2, 4, 8) if widest < 8 * size)


def test_many_keys_are_few_columns() -> None:
    state = {f"key {number}": [number, deque([(number, ("a", 1.5))] * (number % 3)), None] for number in range(500)}
    column = column_of([state])
    assert isinstance(column, MapColumn)
    assert isinstance(column.held, StructColumn)
    _, events, _ = column.held.columns
    assert isinstance(events, ListColumn) and isinstance(events.held, StructColumn)
    assert plain(column) == state


@pytest.mark.parametrize(
    "parts",
    [
        [99, []],
        [1, "<i3", b"", None],
        [3, 7, []],
        [4, 0, [0, [5]], [0, [1]]],
        [5, [0, [1]], [0, ["a"]], [0, []]],
        [6, b"\x05", []],
        [7, [0, [1]], [0, ["a"]], [0, [1]], [0, []]],
        [6, b"\x00\x00", [[0, [1]]]],
        [2, [1, "<i1", b"\x02", None], ["a", "b"]],
        [2, [1, "<i1", b"\xfe", None], ["a", "b"]],
        [3, 0, [[0, [1]], [0, [1, 2]]]],
        [3, 0, []],
        [4, 0, [0, [2, -1]], [0, [1]]],
        [5, [0, [1]], [0, ["a"]], [0, [1, 2]]],
        [0, 7],
        [],
    ],
)
def test_damaged_columns_are_refused(parts: list[Any]) -> None:
    class Damaged(ValueColumn):
        def packed(self) -> list[Any]:
            return parts

    for columns in (False, True):
        with pytest.raises(StateError, match="damaged"):
            decode(encode([Damaged([])]), columns)


_values = st.recursive(
    st.none() | st.integers(-3, 300) | st.text(max_size=2),
    lambda held: st.lists(held, max_size=3) | st.lists(held, max_size=3).map(tuple),
    max_leaves=6,
)


@given(st.lists(_values, max_size=12), st.lists(st.integers(0, 11), max_size=6), st.booleans())
def test_parts_of_a_column_are_those_of_its_values(values: list[Any], places: list[int], packed: bool) -> None:
    column = column_of(values)
    column = unpacked(column.packed()) if packed else column
    assert len(column) == len(values)
    assert column.known().tolist() == [value is not None for value in values]
    taken = [values[place] for place in places if place < len(values)]
    assert column.at(numpy.array([place for place in places if place < len(values)], numpy.int64)).values() == taken


_keys = st.text(max_size=2) | st.integers(-3, 99) | st.sampled_from([0.0, -0.0, 1.0, Long(1)])


@given(st.lists(st.lists(st.tuples(_keys, _values), max_size=4), min_size=1, max_size=6), st.booleans())
def test_maps_of_java_keep_their_order_and_their_buckets(entries: list[list[tuple[Any, Any]]], packed: bool) -> None:
    maps = list(map(HashMap, entries))
    maps[0].capacity = 1024
    column = column_of(maps)
    column = unpacked(column.packed()) if packed else column
    assert isinstance(column, HashMapColumn)
    found = column.values()
    assert [(one.capacity, repr(one.history())) for one in found] == [
        (one.capacity, repr(one.history())) for one in maps
    ]
    keys, held = column.entries()
    expected = [entry for one in maps for entry in one.history()]
    assert repr(list(zip(keys.values(), held.values(), strict=True))) == repr(expected)
    assert repr(ValueColumn(maps).entries()[0].values()) == repr(keys.values())


@given(st.lists(st.lists(_values, max_size=3), max_size=12), st.booleans())
def test_what_lists_hold_is_a_column(lists: list[list[Any]], packed: bool) -> None:
    column = column_of(lists)
    column = unpacked(column.packed()) if packed else column
    assert column.sizes().tolist() == list(map(len, lists))
    assert column.items_held().values() == [value for one in lists for value in one]
    widths = set(map(len, lists))
    for width in range(4):
        if widths <= {width}:
            assert [one.values() for one in column.parts(width)] == [[one[n] for one in lists] for n in range(width)]
        else:
            with pytest.raises(ValueError, match="not of length"):
                column.parts(width)


@given(st.lists(st.dictionaries(st.text(max_size=2), _values, max_size=3), max_size=12))
def test_what_dictionaries_hold_is_two_columns(maps: list[dict[str, Any]]) -> None:
    column = column_of(maps)
    keys, held = column.entries()
    assert column.sizes().tolist() == list(map(len, maps))
    assert keys.values() == [key for one in maps for key in one]
    assert held.values() == [value for one in maps for value in one.values()]


def test_numbers_are_an_array_and_where_none_is() -> None:
    for column in (ValueColumn([1, None, 3]), NumberColumn(numpy.array([1, 0, 3]), numpy.array([False, True, False]))):
        numbers, nulls = numbers_of(column)
        assert (numbers.tolist(), nulls.tolist()) == ([1, 0, 3], [False, True, False])
    assert numbers_of(ValueColumn([True, False]))[0].tolist() == [True, False]
    for other in ([1, "a"], [2**70], [[1]]):
        with pytest.raises((TypeError, ValueError)):
            numbers_of(ValueColumn(other))


def test_what_is_around_columns_is_looked_through() -> None:
    state = {"a": [1, {"b": [(n, "x") for n in range(100)]}], "c": {n: [n] for n in range(100)}, "d": (1, [2])}
    kept = decode(encode(state), columns=True)
    assert isinstance(kept["c"], Column)
    assert plain(kept) == state == decode(encode(state))
