"""Columns of Spark and attributes of a stream: which fit, and what is said where they do not."""

from __future__ import annotations

import pytest
from pyspark.sql import types as spark

from spdist.connectors.spark.columns import MatchedColumns, declared_columns, matched_columns
from spdist.errors import AppValidationError
from spdist.language.types import Schema
from spdist.transports.options import Options

READ = Options({}, "the @source of stream 'S'")
SCHEMA = Schema.of([("k", "string"), ("n", "long"), ("x", "float")])


TYPES = {
    "string": spark.StringType(),
    "int": spark.IntegerType(),
    "long": spark.LongType(),
    "float": spark.FloatType(),
    "double": spark.DoubleType(),
    "decimal": spark.DecimalType(10, 2),
    "date": spark.DateType(),
    "timestamp": spark.TimestampType(),
}


def columns(written: str) -> spark.StructType:
    """The columns of ``name type, name type``; Spark's own parser needs a JVM."""
    pairs = [one.split() for one in written.split(", ")]
    return spark.StructType([spark.StructField(name, TYPES[kind]) for name, kind in pairs])


def matched(written: str, time: str = "", schema: Schema = SCHEMA) -> MatchedColumns:
    return matched_columns(READ, schema, columns(written), time)


def test_names_compare_without_case_and_narrower_columns_fit() -> None:
    found = matched("more string, X float, K string, n int, at timestamp", "AT")
    assert (found.columns, found.types) == (("K", "n", "X"), ("string", "bigint", "double"))
    assert (found.time, found.counts, found.others) == ("at", False, ("more",))


def test_times_are_timestamps_or_ms_and_may_be_an_attribute() -> None:
    assert matched("k string, n long, x float", "n").counts
    assert not matched("k string, n long, x float, at date", "at").counts
    assert matched("k string, n long, x float").time == ""


@pytest.mark.parametrize(
    ("written", "time", "told", "hint"),
    [
        (
            "k string, n string, x float", "",
            "has the column 'n' of Spark's type string, the attribute 'n' is long",
            "Define it as 'n string', or write the column as bigint.",
        ),
        (
            "k string, n decimal, x float", "",
            "'n' of Spark's type decimal(10,2), the attribute 'n' is long",
            "No attribute has that type: write the column as bigint, or leave the attribute out.",
        ),
        ("k string, n long, x double", "", "'x' of Spark's type double, the attribute 'x' is float", "'x double'"),
        ("k string, num long, x float", "", "has no column for the attribute 'n long'", "It has: k string, num bigint"),
        ("k string, nn long, x float", "", "has no column for the attribute 'n long'", "Did you mean 'nn'?"),
        ("k string, n long, N long, x float", "", "the columns 'n' and 'N', which Spark does not tell", "Keep one"),
        ("k string, n long, x float", "at", "has no column 'at'", "It has: "),
        ("k string, n long, x float, at string", "at", "'at' of Spark's type string, which is no time", "timestamps"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_what_to_do(written: str, time: str, told: str, hint: str) -> None:
    with pytest.raises(AppValidationError) as failed:
        matched(written, time)
    assert told in failed.value.message
    assert hint in (failed.value.hint or "")


def test_all_that_is_wrong_is_said_together() -> None:
    with pytest.raises(AppValidationError) as failed:
        matched("k int, x string")
    for name in ("'k'", "'n long'", "'x'"):
        assert name in failed.value.message


def test_files_without_a_schema_get_that_of_the_stream() -> None:
    assert declared_columns(READ, SCHEMA, "at").simpleString() == "struct<k:string,n:bigint,x:float,at:timestamp>"
    assert declared_columns(READ, SCHEMA, "N").simpleString() == "struct<k:string,n:bigint,x:float>"
    with pytest.raises(AppValidationError, match="no columns for the attribute 'o' of type object"):
        declared_columns(READ, Schema.of([("o", "object")]), "")
