"""What people have becomes events: frames, tables, columns and rows; what does not fit is named."""

from __future__ import annotations

from collections import ChainMap
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from spdist.errors import MappingError, UndefinedNameError
from spdist.frames import StreamEvents, read_events, read_streams, to_events, to_frame, to_row
from spdist.language.types import Schema, Type

SCHEMA = Schema.of([("name", "string"), ("count", "int"), ("mean", "double"), ("late", "bool")])
EVENTS = [(1000, ("a", 1, 1.0, False)), (2000, ("b", 2, 0.5, True))]


def columns(**others: Any) -> dict[str, Any]:
    given = {"timestamp": [2000, 1000], "name": ["b", "a"], "count": [2, 1], "mean": [0.5, 1], "late": [True, False]}
    return {**given, **others}


def frame(**others: Any) -> pd.DataFrame:
    return pd.DataFrame(columns(**others))


TABLE = pa.table(columns())
FORMS = {
    "pandas": frame(),
    "pandas, Arrow underneath": TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas, nullable": frame().convert_dtypes(),
    "pandas, categories": frame().astype({"name": "category"}),
    "pandas, with an index of times": frame(timestamp=pd.to_datetime([2000, 1000], unit="ms")).set_index("timestamp"),
    "pandas, with an index of times without a name": frame()
    .set_index(pd.to_datetime([2000, 1000], unit="ms"))
    .iloc[:, 1:],
    "pandas, with several indexes": frame().set_index(["timestamp", "name"]),
    "polars": pl.DataFrame(columns()),
    "polars, lazy": pl.LazyFrame(columns()),
    "polars, categories": pl.DataFrame(columns()).with_columns(pl.col("name").cast(pl.Categorical)),
    "Arrow": TABLE,
    "Arrow, in chunks": pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
    "Arrow, large and packed": TABLE.set_column(1, "name", TABLE["name"].cast(pa.large_string()).dictionary_encode()),
    "a batch of Arrow": TABLE.to_batches()[0],
    "a reader of batches": None,
    "columns": columns(),
    "columns of numpy": {name: np.array(values) for name, values in columns().items()},
    "columns of pandas and polars": {"ts": pd.Series([2000, 1000]), **{n: pl.Series(v) for n, v in columns().items()}},
    "columns that are ranges and tuples": columns(timestamp=range(2000, 0, -1000), count=(2, 1)),
    "dictionaries": TABLE.to_pylist(),
    "dictionaries that come one by one": None,
    "mappings of other kinds": [ChainMap({"extra": 1}, row) for row in TABLE.to_pylist()],
    "pairs": EVENTS[::-1],
    "pairs with dictionaries": [(ts, dict(zip(SCHEMA.names, row, strict=True))) for ts, row in EVENTS],
    "pairs of both kinds": [EVENTS[1], [EVENTS[0][0], dict(zip(SCHEMA.names, EVENTS[0][1], strict=True))]],
    "pairs with lists": [[ts, list(row)] for ts, row in EVENTS],
    "events": StreamEvents(SCHEMA, [2000, 1000], [EVENTS[1][1], EVENTS[0][1]]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_events_in_the_order_of_time_with_pythons_own_types(form: str) -> None:
    given = FORMS[form]
    if form == "a reader of batches":
        given = TABLE.to_reader()
    elif form == "dictionaries that come one by one":
        given = iter(TABLE.to_pylist())
    events = to_events(given, SCHEMA)
    assert events == EVENTS
    assert [type(value) for value in (events[0][0], *events[0][1])] == [int, str, int, float, bool]


@pytest.mark.parametrize(
    "given", [[], {}, iter(()), pd.DataFrame(), TABLE.slice(0, 0), pl.DataFrame(columns()).head(0)]
)
def test_nothing_gives_no_events(given: Any) -> None:
    assert read_events(given, SCHEMA) == []


def test_what_is_missing_becomes_null() -> None:
    lacking = {"name": [None, "a"], "count": [float("nan"), 1], "mean": [pd.NA, 2], "late": [None, True]}
    events = to_events(frame(**lacking), SCHEMA)
    assert [row for _, row in events] == [("a", 1, 2.0, True), (None, None, None, None)]
    assert to_events([(1, (None, None, None, None))], SCHEMA) == [(1, (None, None, None, None))]


def test_not_a_number_is_a_value_outside_of_pandas() -> None:
    schema = Schema.of([("v", "double")])
    for given in ([(1, (float("nan"),))], pa.table({"ts": [1], "v": [float("nan")]})):
        ((_, (value,)),) = read_events(given, schema)
        assert value != value


def test_rows_of_one_time_keep_their_order() -> None:
    many = pd.DataFrame({"timestamp": [7] * 50 + [5] * 100, "v": range(150)})
    assert [row[0] for _, row in to_events(many, Schema.of([("v", "int")]))] == [*range(50, 150), *range(50)]


@pytest.mark.parametrize(
    ("kind", "given", "found"),
    [
        ("int", [1.0, -(2.0**31)], [1, -(2**31)]),
        ("int", [Decimal("5"), None], [5, None]),
        ("long", [2**63 - 1, np.int8(3)], [2**63 - 1, 3]),
        ("double", [2**53 + 1, True and 1], [2.0**53, 1.0]),
        ("double", [2**70, Decimal("0.5")], [2.0**70, 0.5]),
        ("float", [0.1, 1e300], [float(np.float32(0.1)), float("inf")]),
        ("float", [2**24 + 1, None], [2.0**24, None]),
        ("bool", [np.True_, None], [True, None]),
        ("object", [[1, "a"], {"b": object}], [[1, "a"], {"b": object}]),
    ],
)
def test_numbers_become_those_of_the_attribute(kind: str, given: list[Any], found: list[Any]) -> None:
    schema = Schema.of([("v", kind)])
    for form in ([(at, (value,)) for at, value in enumerate(given)], {"ts": range(len(given)), "v": given}):
        values = [value for _, (value,) in read_events(form, schema)]
        assert values == found
        assert list(map(type, values)) == list(map(type, found))


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("int", [1, 2**40], "row 1: 'v' is int, this is not: 1099511627776\nHint: .* 2147483647; a long may be larger"),
        ("int", [None, 1.5], r"row 1: 'v' is int, this is not: 1\.5"),
        ("int", [1, True], "row 1: 'v' is int, this is not: True"),
        ("int", [True, False], "row 0: 'v' is int, this is not: True"),
        ("int", ["x", "y"], "row 0: 'v' is int, this is not: 'x'"),
        ("long", [2**63], "row 0: 'v' is long"),
        ("long", [1e300], "row 0: 'v' is long"),
        ("double", [0.5, "0.5"], "row 1: 'v' is double"),
        ("string", ["a", 5], "row 1: 'v' is string, this is not: 5"),
        ("string", [5, 6], "row 0: 'v' is string, this is not: 5"),
        ("string", ["\ud800"], "'v' holds half a character"),
        ("bool", [1, 0], "row 0: 'v' is bool"),
        ("bool", ["true"], "row 0: 'v' is bool"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_row(kind: str, given: list[Any], message: str) -> None:
    schema = Schema.of([("v", kind)])
    rows = [(at, (value,)) for at, value in enumerate(given)]
    forms = (rows, {"ts": range(len(given)), "v": given}, [{"ts": at, "v": value} for at, (value,) in rows])
    for form in forms:
        with pytest.raises(MappingError, match=message):
            read_events(form, schema)


def test_columns_that_are_not_there_are_named() -> None:
    with pytest.raises(MappingError, match=r"there is no column 'zone'\nHint: there are: timestamp, name"):
        to_events(frame(), SCHEMA, time="zone")
    with pytest.raises(
        MappingError, match=r"no column 'count', 'mean'\nHint: Did you mean 'counts'\? there are: timest"
    ):
        to_events(frame().rename(columns={"count": "counts"}).drop(columns="mean"), SCHEMA)
    twice = pd.concat([frame(), frame()[["name"]]], axis=1)
    with pytest.raises(MappingError, match="several columns 'name'"):
        to_events(twice, SCHEMA)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"ts": 1, "v": 2}, {"ts": 1}], "row 1 has no 'v'"),
        ([{"ts": 1, "v": 2}, (1, (2,))], "row 1 has no 'ts'"),
        ([(1, (2,)), {"ts": 1, "v": 2}], "row 1: an event is a pair"),
        ([(1, (2,)), (1, (2, 3))], r"row 1: the stream is \(v int\), this does not fit: \(2, 3\)"),
        ([(1, {"w": 2})], "row 0: the stream is"),
        ([(1, "2")], "row 0: the stream is"),
        ([(1, 2)], "row 0: the stream is"),
        (["ab"], "row 0: an event is a pair"),
        ({"ts": [1, 2], "v": [1]}, "2 values in 'ts', but 1 in 'v'"),
        (5, "cannot be read from builtins.int"),
    ],
)
def test_what_has_no_form_is_refused(given: Any, message: str) -> None:
    with pytest.raises(MappingError, match=message):
        read_events(given, Schema.of([("v", "int")]))


def test_streams_are_named_in_errors() -> None:
    streams = {"Trades": Schema.of([("v", "int")])}
    with pytest.raises(MappingError, match="stream 'Trades': row 0: 'v' is int"):
        read_streams({"Trades": [(1, ("x",))]}, streams)
    with pytest.raises(MappingError, match="events are given by stream, not as DataFrame"):
        read_streams(frame(), streams)
    with pytest.raises(UndefinedNameError, match="no stream 'Trade'\nHint: Did you mean 'Trades'"):
        read_streams({"Trade": []}, streams)
    with pytest.raises(UndefinedNameError, match="no stream 'Trade'"):
        read_streams({"Trades": []}, streams, time={"Trade": "ts"})
    by_stream = read_streams({"Trades": {"at": [1], "ts": [2], "v": [3]}}, streams, time={"Trades": "at"})
    assert by_stream == {"Trades": [(1, (3,))]}


def test_numbers_of_numpy_are_numbers() -> None:
    schema = Schema((("a", Type.INT), ("b", Type.DOUBLE), ("c", Type.FLOAT)))
    row = to_row([np.int64(3), np.float32(0.5), np.int16(2)], schema, "S")
    assert row == (3, 0.5, 2.0)
    assert [type(value) for value in row] == [int, float, float]


def test_events_become_a_frame_indexed_by_time() -> None:
    made = to_frame([(0, ("a", 1)), (1500, ("b", None))], ["name", "count"])
    assert list(made.columns) == ["name", "count"]
    assert [str(at) for at in made.index] == ["1970-01-01 00:00:00+00:00", "1970-01-01 00:00:01.500000+00:00"]
    assert made["name"].tolist() == ["a", "b"]
    assert to_frame([], ["name"]).empty
    typed = to_frame([(0, ["a", None, 0.5, True])], SCHEMA)
    assert typed.dtypes.astype(str).to_dict() == {"name": "string", "count": "Int32", "mean": "float64", "late": "bool"}
    assert str(typed.index.dtype) == "datetime64[ms, UTC]"
    assert to_frame([], SCHEMA).dtypes.astype(str).tolist() == ["string", "int32", "float64", "bool"]


def test_there_and_back() -> None:
    assert to_events(to_frame(EVENTS, SCHEMA), SCHEMA) == EVENTS
    assert to_events(to_frame(EVENTS, SCHEMA).reset_index(), SCHEMA, time="time") == EVENTS
