"""Columns of state are the values they were made of, whole, in part, and packed."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.errors import StateError
from spdist.operators.core.codec import decode, encode
from spdist.operators.core.state_columns import (
    Column,
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
    plain,
    unpacked,
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
        [],
    ],
)
def test_damaged_columns_are_refused(parts: list[Any]) -> None:
    class Damaged(ValueColumn):
        def packed(self) -> list[Any]:
            return parts

    with pytest.raises(StateError, match="damaged"):
        decode(encode([Damaged([])]))
