"""Spark's types and SiddhiQL's: which column fits which attribute, and of which type a result's columns are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from spdist.language.types import Type

__all__ = ["EVENT_TIME", "arrow_type", "fits", "plain_values", "spark_type", "sql_name", "times_fit", "wire_type"]

_WHOLE = (spark.ByteType, spark.ShortType, spark.IntegerType)
#: The columns whose every value is one of the attribute's type, unchanged.
_FITTING: dict[Type, tuple[type[spark.DataType], ...]] = {
    Type.STRING: (spark.StringType, spark.CharType, spark.VarcharType),
    Type.INT: _WHOLE,
    Type.LONG: (*_WHOLE, spark.LongType),
    # A float holds whole numbers exactly up to 2^24, a double up to 2^53
    Type.FLOAT: (spark.ByteType, spark.ShortType, spark.FloatType),
    Type.DOUBLE: (*_WHOLE, spark.FloatType, spark.DoubleType),
    Type.BOOL: (spark.BooleanType,),
}
#: What an object may be made of.
_PLAIN = (spark.StringType, spark.BooleanType, spark.IntegerType, spark.LongType, spark.DoubleType)
#: The type of a result's column; an object is its text or its JSON.
_RESULTS: dict[Type, tuple[spark.DataType, Any]] = {
    Type.STRING: (spark.StringType(), pa.string()),
    Type.INT: (spark.IntegerType(), pa.int32()),
    Type.LONG: (spark.LongType(), pa.int64()),
    Type.FLOAT: (spark.FloatType(), pa.float32()),
    Type.DOUBLE: (spark.DoubleType(), pa.float64()),
    Type.BOOL: (spark.BooleanType(), pa.bool_()),
    Type.OBJECT: (spark.StringType(), pa.string()),
}
#: When an event was put out, in Arrow: Spark's timestamp.
EVENT_TIME = pa.timestamp("us", tz="UTC")
_TIMES = (spark.TimestampType, spark.TimestampNTZType, spark.DateType)


def fits(column: spark.DataType, kind: Type) -> bool:
    """Tell whether a column's values are those of an attribute, without loss."""
    if kind is not Type.OBJECT:
        return isinstance(column, _FITTING[kind])
    if isinstance(column, spark.ArrayType):
        return fits(column.elementType, kind)
    if isinstance(column, spark.MapType):
        return isinstance(column.keyType, _PLAIN) and fits(column.valueType, kind)
    if isinstance(column, spark.StructType):
        return all(fits(field.dataType, kind) for field in column)
    return isinstance(column, _PLAIN)


def times_fit(column: spark.DataType) -> bool | None:
    """Tell whether a column says when something was: as timestamps; None where numbers may."""
    if isinstance(column, (*_WHOLE, spark.LongType)):
        return None
    return isinstance(column, _TIMES)


def wire_type(column: spark.DataType, kind: Type) -> str:
    """Return the type, in Spark's words, that a column has on its way to the engine, which computes with 64 bits."""
    if kind is Type.OBJECT:
        return column.simpleString()
    return sql_name(Type.DOUBLE if kind is Type.FLOAT else kind)


def sql_name(kind: Type) -> str:
    """Return what Spark calls the type of an attribute."""
    return _RESULTS[kind][0].simpleString()


def spark_type(kind: Type) -> spark.DataType:
    """Return the type of a result's column."""
    return _RESULTS[kind][0]


def arrow_type(kind: Type) -> Any:
    """Return the same in Arrow."""
    return _RESULTS[kind][1]


def plain_values(column: Any) -> list[Any]:
    """Return the values of an Arrow array as Python's: a map, and a struct by its names, as a dictionary."""
    values: list[Any] = column.to_pylist()
    return [_plain(value, column.type) for value in values] if pa.types.is_nested(column.type) else values


def _plain(value: Any, kind: Any) -> Any:
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_map(kind):
        return {key: _plain(one, kind.item_type) for key, one in value}
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    return [_plain(one, kind.value_type) for one in value]
