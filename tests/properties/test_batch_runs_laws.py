"""Batches of many events at once put out what they put out one event after the other, and leave the same behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.hosted import HostedApp
from spdist.extension import catalog
from spdist.language.checker import check
from spdist.language.parser import parse
from spdist.mapping.read_rows import ReadRows
from spdist.operators import batch_runs

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int32()), ("v", pa.float64()), ("w", pa.int64()), ("b", pa.bool_())])
TEXT = (
    "@app:playback define stream A (k string, n int, v float, w long, b bool); from A#window.{}({}) {} insert into O;"
)
SELECTIONS = [
    "select k, avg(v) as a, sum(w) as s group by k",
    "select sum(v) as s, count() as c, v",
    "select n, b, avg(w) as a, avg(n) as m, sum(n) as s, count() as c group by n, b",
    "select k, v, w group by k, n",
    "select w, k, count() as c, sum(v) as s group by k, b, n, w",
]
#: Those that go one by one.
OTHERS = [
    "select k, v",
    "select v, count() as c group by v",
    "select k, max(v) as m group by k",
    "select k, sum(v) + 1 as s group by k",
    "select k, count(v) as c group by k",
    "select k, sum(v) as s group by k having s > 1.0",
    "select k, sum(v) as s group by k order by s limit 1",
]
_whole, _real = st.integers(-3, 3), st.sampled_from([0.1, 0.25, -0.0, 3.7, 1e300, -1e300, 1e-9])
_row = st.tuples(st.sampled_from("xyz"), _whole, _real, _whole, st.booleans())
_odd = st.tuples(
    st.none() | st.sampled_from(["x", "null"]),
    st.none() | st.just(-(2**31)),
    st.none() | st.just(float("inf")),
    st.none() | st.sampled_from([2**62, -(2**63), 2**53]),
    st.none() | st.booleans(),
)
_parts = st.lists(st.lists(_row, max_size=20) | st.lists(_row | _odd, max_size=20), max_size=4)


class Watched:
    """An app of which all that comes out is kept."""

    def __init__(self, text: str) -> None:
        self.app = HostedApp(check(parse(text), catalog(), text))
        self.app.start(0)
        self.seen: list[Any] = []
        self.app.subscribe_each("O", lambda ts, row: self.seen.append([(ts, row)]), self._many)

    def _many(self, arrivals: Sequence[Any]) -> None:
        self.seen.append(list(arrivals))

    def deliver(self, times: list[int], rows: Sequence[Any]) -> None:
        self.app.deliver_each("A", iter(times), rows, (), lambda move: move)

    @property
    def outcome(self) -> str:
        """With numbers as they are written: a 0 is no -0.0."""
        return repr((self.seen, self.app.clock, self.app.snapshot()))


def columns(rows: list[Any]) -> Any:
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)],
        schema=SCHEMA,
    )


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([*SELECTIONS, *SELECTIONS, *OTHERS]), st.integers(1, 4), _parts, st.data())
def test_batches_at_once_give_what_single_events_give(
    selection: str, length: int, parts: list[list[Any]], data: st.DataObject
) -> None:
    text = TEXT.format("lengthBatch", length, selection)
    with patch.object(batch_runs, "FEWEST", 1):
        alone, together = Watched(text), Watched(text)
        for rows in filter(None, parts):
            times = data.draw(st.lists(st.integers(1000, 1040), min_size=len(rows), max_size=len(rows)))
            alone.deliver(times, rows)
            together.deliver(times, ReadRows(columns(rows), lambda: None))
    assert together.outcome == alone.outcome


def one_by_one() -> None:
    raise AssertionError("one by one")


ROWS = [("xyz"[n % 3], n % 5, n / 8, n, n % 2 == 0) for n in range(2500)]
TIMES = list(range(1000, 3500))


@pytest.mark.parametrize("selection", SELECTIONS)
def test_what_is_taken_at_once(selection: str) -> None:
    alone, together = (Watched(TEXT.format("lengthBatch", 200, selection)) for _ in range(2))
    for begin, end in ((0, 700), (700, 2500)):
        alone.deliver(TIMES[begin:end], ROWS[begin:end])
        together.deliver(TIMES[begin:end], ReadRows(columns(ROWS[begin:end]), one_by_one))
    assert together.outcome == alone.outcome
    assert len(together.seen) == 12


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        *((TEXT.format("lengthBatch", 200, selection), ROWS) for selection in OTHERS),
        (TEXT.format("lengthBatch", 90, SELECTIONS[0]), ROWS),  # too few each
        (TEXT.format("lengthBatch", 1500, SELECTIONS[0]), ROWS),  # only one
        (TEXT.format("lengthBatch", "200, true", SELECTIONS[0]), ROWS),
        (TEXT.format("timeBatch", 200, SELECTIONS[0]), ROWS),
        (TEXT.format("lengthBatch", 200, SELECTIONS[0]).replace("A#", "A[n > 1]#"), ROWS),
        (TEXT.format("lengthBatch", 200, SELECTIONS[0]).replace(" insert", " insert all events"), ROWS),
        (TEXT.format("lengthBatch", 200, SELECTIONS[0]) + " from O#window.time(90) select k insert into P;", ROWS),
        (TEXT.format("lengthBatch", 200, SELECTIONS[0]) + " from A#window.time(90) select k insert into P;", ROWS),
        (TEXT.format("lengthBatch", 200, SELECTIONS[0]), [*ROWS, ("x", 1, None, 1, True)]),
        (TEXT.format("lengthBatch", 200, SELECTIONS[0]), [*ROWS, ("x", 1, 0.5, 2**53, True)]),
    ],
)
def test_what_goes_one_by_one(text: str, rows: list[Any]) -> None:
    rows = [*rows, *ROWS[:300]]
    with pytest.raises(AssertionError, match="one by one"):
        Watched(text).deliver(list(range(len(rows))), ReadRows(columns(rows), one_by_one))


def test_a_batch_that_cannot_be_put_out_is_counted_and_those_after_it_come() -> None:
    text = TEXT.format("lengthBatch", 200, SELECTIONS[0])
    app = HostedApp(check(parse(text), catalog(), text))
    app.start(0)
    seen: list[Any] = []

    def many(arrivals: Sequence[Any]) -> None:
        seen.append(arrivals)
        if len(seen) == 3:
            raise ValueError("no")

    app.subscribe_each("O", lambda ts, row: None, many)
    app.deliver_each("A", iter(TIMES), ReadRows(columns(ROWS), one_by_one), (), lambda move: move)
    assert len(seen) == 12
    assert app.failures.count == len(seen[2]) == 3


def test_rows_are_made_when_somebody_looks() -> None:
    asked: list[int] = []
    rows = ReadRows(columns(ROWS[:10]), lambda: asked.append(1))
    assert rows[2:4] == ROWS[2:4]
    assert rows[8:99] == ROWS[8:10]
    assert rows[5:2] == []
    assert len(rows) == 10
    assert asked == []
    assert rows == ROWS[:10]
    assert list(rows) == [rows[number] for number in range(10)] == ROWS[:10]
    assert rows[::-3] == ROWS[:10][::-3]
    assert asked == [1]
