"""What a program puts out are the values that Arrow itself would give."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.language.types import Type
from spdist.program.machine import hash_tables
from spdist.program.running.values import TextTable, rows_of, values_of

_VALUES: dict[Any, st.SearchStrategy[Any]] = {
    pa.string(): st.text(max_size=20),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
}


@settings(deadline=None)
@given(st.sampled_from(list(_VALUES)), st.booleans(), st.data())
def test_rows_of_a_column_are_those_that_arrow_takes(arrow: Any, nulls: bool, data: st.DataObject) -> None:
    values = _VALUES[arrow] | st.none() if nulls else _VALUES[arrow]
    column = pa.array(data.draw(st.lists(values, min_size=1, max_size=20)), arrow)
    column = column.slice(data.draw(st.integers(0, len(column) - 1)))
    rows = numpy.array(data.draw(st.lists(st.integers(0, len(column) - 1), min_size=1)), numpy.int64)
    found = rows_of(column, rows, hash_tables)
    found.validate(full=True)
    assert found.equals(column.take(pa.array(rows)))


@pytest.mark.parametrize("type", [Type.INT, Type.LONG, Type.DOUBLE, Type.BOOL])
def test_values_are_a_column_of_their_own(type: Type) -> None:
    values = numpy.array([1, 0, 1] * 5).astype(float if type is Type.DOUBLE else int)
    nulls = numpy.array([0, 0, 0, 1, 0] * 3, numpy.uint8)
    plain, found = values_of(values, nulls * 0, type), values_of(values, nulls, type)
    expected = [None if null else value for value, null in zip(values.tolist(), nulls.tolist(), strict=True)]
    values[:] = 7
    for column in (plain, found):
        column.validate(full=True)
    assert plain.to_pylist() == [1, 0, 1] * 5
    assert found.to_pylist() == expected


def test_texts_by_number_may_be_null() -> None:
    table = TextTable(hash_tables, ())
    assert table.texts(numpy.zeros(2, numpy.int64), numpy.ones(2, numpy.uint8)).to_pylist() == [None, None]
    numbers = table.numbers(pa.array(["a", "a longer text", ""]))
    texts = table.texts(numbers[::-1], numpy.array([0, 1, 0]))
    texts.validate(full=True)
    assert texts.to_pylist() == ["", None, "a"]


@pytest.mark.parametrize("row", [-1, 3, 2**40])
def test_no_row_is_read_that_is_not_there(row: int) -> None:
    with pytest.raises(IndexError):
        rows_of(pa.array(["a", "b", "c"]), numpy.array([row]), hash_tables)
