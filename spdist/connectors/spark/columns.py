"""The columns of a Spark connector and the attributes of a stream: which is which, and what to do where none fits."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType, TimestampType

from spdist.engine.frames.spark_types import fits, spark_type, sql_name, times_fit, wire_type
from spdist.errors import AppValidationError
from spdist.language.types import Schema, Type
from spdist.transports.options import Options

__all__ = ["MatchedColumns", "declared_columns", "matched_columns"]


@dataclass(frozen=True, slots=True)
class MatchedColumns:
    """Which columns of a connector are the attributes of a stream.

    Parameters
    ----------
    schema : Schema
        The attributes.
    columns : tuple of str
        The column of each, as the connector spells it.
    types : tuple of str
        Of which type, in Spark's words, each is handed on.
    time : str
        The column that says when an event was; empty where none does.
    counts : bool
        Whether that holds ms instead of timestamps.
    others : tuple of str
        Columns that are no attributes.
    """

    schema: Schema
    columns: tuple[str, ...]
    types: tuple[str, ...]
    time: str
    counts: bool
    others: tuple[str, ...]

    def selected(self) -> list[Column]:
        """Return what is read of each row: its timestamp in ms where there is one, then the attributes in order."""
        values = [
            F.col(_quoted(column)).cast(kind).alias(name)
            for column, kind, name in zip(self.columns, self.types, _names(len(self.types)), strict=True)
        ]
        # A column of nulls, so that rows have the same form with and without times.
        if not self.time:
            return [F.lit(None).cast("bigint").alias("time"), *values]
        time = F.col(_quoted(self.time))
        ms = time.cast("bigint") if self.counts else F.unix_millis(time.cast("timestamp"))
        return [ms.alias("time"), *values]


def declared_columns(read: Options, schema: Schema, time: str) -> StructType:
    """Return the columns of files that do not tell them themselves: those of the stream's definition.

    Raises
    ------
    AppValidationError
        An attribute has a type that only the events of an app have.
    """
    for name, kind in schema:
        if kind is Type.OBJECT:
            hint = f"Define it as '{name} string'; json:toObject({name}) makes an object of it."
            raise read.wrong("format", f"has no columns for the attribute '{name}' of type object", hint)
    fields = [StructField(name, spark_type(kind)) for name, kind in schema]
    if time and time.lower() not in {name.lower() for name in schema.names}:
        fields.append(StructField(time, TimestampType()))
    return StructType(fields)


def matched_columns(read: Options, schema: Schema, frame: StructType, time: str) -> MatchedColumns:
    """Return which columns of `frame` are the attributes of `schema`; names compare as in Spark, without case.

    Parameters
    ----------
    read : Options
        Of the source, for messages.
    schema : Schema
        The stream's attributes.
    frame : StructType
        What the connector has.
    time : str
        The column with the time of events; empty for none.

    Raises
    ------
    AppValidationError
        A column is missing, there twice, or of a type that does not fit; names all that are wrong.
    """
    wrong: list[tuple[str, str, str]] = []
    columns, types = [], []
    for name, kind in schema:
        field = _found(frame, name, "format", f"no column for the attribute '{name} {kind}'", wrong)
        if field is None:
            continue
        said = field.dataType.simpleString()
        if not fits(field.dataType, kind):
            why = f"has the column '{field.name}' of Spark's type {said}, the attribute '{name}' is {kind}"
            wrong.append(("format", why, _instead(name, field.dataType, kind)))
            continue
        columns.append(field.name)
        types.append(wire_type(field.dataType, kind))
    at = _found(frame, time, "time", f"no column '{time}'", wrong) if time else None
    fitting = None if at is None else times_fit(at.dataType)
    if at is not None and fitting is False:
        why = f"has the column '{at.name}' of Spark's type {at.dataType.simpleString()}, which is no time"
        wrong.append(("time", why, "Name a column with timestamps, or with whole numbers of ms since 1970."))
    if wrong:
        raise _error(read, wrong)
    used = {*columns, *([] if at is None else [at.name])}
    others = tuple(name for name in frame.names if name not in used)
    return MatchedColumns(schema, tuple(columns), tuple(types), at.name if at else "", fitting is None, others)


def _found(
    frame: StructType, name: str, key: str, missing: str, wrong: list[tuple[str, str, str]]
) -> StructField | None:
    there = [field for field in frame if field.name.lower() == name.lower()]
    if len(there) == 1:
        return there[0]
    if there:
        both = " and ".join(f"'{field.name}'" for field in there)
        wrong.append((key, f"has the columns {both}, which Spark does not tell apart", "Keep one of them."))
        return None
    near = get_close_matches(name, frame.names, 1)
    known = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame)
    wrong.append((key, f"has {missing}", f"Did you mean '{near[0]}'? It has: {known}" if near else f"It has: {known}"))
    return None


def _instead(name: str, column: DataType, wanted: Type) -> str:
    """Return which definition of an attribute would fit a column, and which column the attribute."""
    kinds = [kind for kind in (Type.STRING, Type.BOOL, Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE, Type.OBJECT)
             if fits(column, kind)]  # fmt: skip
    if kinds:
        return f"Define it as '{name} {kinds[0]}', or write the column as {sql_name(wanted)}."
    return f"No attribute has that type: write the column as {sql_name(wanted)}, or leave the attribute out."


def _error(read: Options, wrong: list[tuple[str, str, str]]) -> AppValidationError:
    key = wrong[0][0]
    told = "; it ".join(why for _, why, _ in wrong)
    return read.wrong(key, told, " ".join(dict.fromkeys(hint for _, _, hint in wrong)))


def _quoted(name: str) -> str:
    # A dot in a name without backticks would mean a field of a struct.
    return f"`{name.replace('`', '``')}`"


def _names(count: int) -> list[str]:
    return [f"value_{number}" for number in range(count)]
