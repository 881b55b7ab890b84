"""Rows as columns: made of rows, of others, put behind one another, and looked at in part."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow as pa
import pytest

from spdist.language.types import Schema, Type
from spdist.mapping.columns import ColumnarRows, all_rows
from spdist.transports.delivery import JsonTexts

KINDS = (Type.STRING, Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE, Type.BOOL)
NAMES = Schema.of(zip("abcdef", (kind.value for kind in KINDS), strict=True))
ROWS: list[Any] = [
    ("x", 1, 2**40, 0.5, 1e-9, True),
    ('"é\\', -(2**31), -(2**63), -0.0, 1e300, False),
    (None, None, None, None, None, None),
    ("", 0, 0, 3.25, 12345678.5, True),
]


def made(rows: list[Any]) -> ColumnarRows:
    found = ColumnarRows.of(rows, KINDS, range(6))
    assert found is not None
    return found


def test_rows_as_columns_are_the_same_rows() -> None:
    assert repr(list(made(ROWS))) == repr(ROWS)
    assert list(ColumnarRows.following([made(ROWS), made(ROWS[1:])])) == [*ROWS, *ROWS[1:]]
    assert list(made(ROWS)[1:3]) == ROWS[1:3]
    assert made(ROWS)[3] == ROWS[3]


def test_what_nobody_wants_is_null() -> None:
    found = ColumnarRows.of([("x", [1]), ("y", [2])], (Type.STRING, Type.OBJECT), {0})
    assert found is not None
    assert list(found) == [("x", None), ("y", None)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Type.OBJECT, "x"),
        (Type.STRING, "\ud800"),
        (Type.STRING, 1),
        (Type.INT, 2**31),
        (Type.LONG, 2**63),
        (Type.LONG, True),
        (Type.DOUBLE, 1),
        (Type.BOOL, 1),
    ],
)
def test_values_that_are_not_of_their_type_stay_where_they_are(kind: Type, value: Any) -> None:
    assert ColumnarRows.of([(None,), (value,)], (kind,), {0}) is None


@pytest.mark.parametrize("rows", [ROWS, ROWS[:2], ROWS[3:], [ROWS[0], ROWS[3]]])
def test_columns_are_written_as_rows_are(rows: list[Any]) -> None:
    bounds = numpy.arange(len(rows) + 1)
    assert list(JsonTexts(NAMES, made(rows), bounds)) == list(JsonTexts(NAMES, rows, bounds))
    twice = JsonTexts.following([JsonTexts(NAMES, made(rows), bounds)] * 2)
    assert list(twice) == list(JsonTexts(NAMES, rows, bounds)) * 2
    assert list(twice[1:]) == list(twice)[1:]


def test_rows_are_made_when_somebody_looks() -> None:
    asked: list[int] = []
    columns = [pa.array([row[place] for row in ROWS]) for place in range(6)]
    rows = ColumnarRows(pa.record_batch(columns, list("abcdef")), lambda: asked.append(1))
    assert rows[1:3] == ROWS[1:3]
    assert rows[3:99] == ROWS[3:]
    assert rows[3:1] == []
    assert len(rows) == 4
    assert asked == []
    assert rows == ROWS
    assert list(rows) == [rows[number] for number in range(4)] == ROWS
    assert rows[::-3] == ROWS[::-3]
    assert asked == [1]


def test_only_who_looks_at_rows_that_are_made_wants_the_next_ones_made() -> None:
    """Else a batch whose rows were made would have those of all later ones made, though nobody looks at any."""
    asked: list[int] = []
    rows = ColumnarRows(pa.record_batch([pa.array([row[1] for row in ROWS])], ["a"]), lambda: asked.append(1))
    rows.make()
    parts = (rows[1:], rows.at(numpy.array([3, 0])), all_rows([rows, rows]))
    again = [part.at(numpy.arange(2))[:1] for part in parts if isinstance(part, ColumnarRows)]
    assert len(again) == 3
    assert [part.column(0).to_pylist() for part in again] == [[ROWS[1][1]], [ROWS[3][1]], [ROWS[0][1]]]
    assert asked == []
    assert [part[0] is rows.single(place) for part, place in zip(again, (1, 3, 0), strict=True)] == [True] * 3
    assert asked == [1] * 3


def test_a_few_rows_become_columns_behind_others() -> None:
    # A timer behind a batch puts out a few rows; nobody should make rows of the whole batch for them.
    together = all_rows([ROWS[:1], made(ROWS), made(ROWS)])
    assert isinstance(together, ColumnarRows)
    assert list(together) == [ROWS[0], *ROWS, *ROWS]
    texts = [JsonTexts(NAMES, rows, numpy.arange(len(rows) + 1)) for rows in (made(ROWS), ROWS[:1])]
    assert isinstance(JsonTexts.following(texts)._rows, ColumnarRows)


@pytest.mark.parametrize(
    "parts",
    [
        [made(ROWS), [("x", 1, 2, 3, 0.5, True)]],  # 3 is no float: as one it would be written as 3.0
        [made(ROWS), [("\ud800", 1, 2, 0.5, 0.5, True)]],
        [ROWS, made(ROWS[:1]), ROWS],
    ],
    ids=["another type", "half a character", "most are rows"],
)
def test_rows_that_columns_would_change_stay_rows(parts: list[Any]) -> None:
    together = all_rows(parts)
    assert isinstance(together, list)
    assert repr(together) == repr([row for part in parts for row in part])


def test_rows_that_are_made_stay_the_same_objects_next_to_others() -> None:
    read = ColumnarRows.of([("x", 1), ("y", 2)], (Type.STRING, Type.INT), (0, 1))
    assert read is not None
    looked, others = [*read], [("z", 3)]
    together = all_rows([read, others])
    assert isinstance(together, ColumnarRows)
    assert [*map(id, together)] == [*map(id, [*looked, *others])]
