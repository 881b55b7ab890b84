"""The columns of a table: SiddhiQL's types in a database, and values on their way in and out.

Types are those of WSO2's rdbms store where the database has them: VARCHAR(254), INTEGER, BIGINT, REAL, DOUBLE, BOOLEAN,
and bytes for objects, which hold our own format (`spdist.operators.core.codec`), not Java's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    REAL,
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
)
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.dialects.mysql import LONGBLOB, VARCHAR
from sqlalchemy.types import TypeEngine

from spdist.language.types import Schema, Type
from spdist.operators.base import Row
from spdist.operators.core import codec

__all__ = [
    "DEFAULT_LENGTH",
    "Columns",
    "column_type",
    "folded",
    "insertion",
    "sql_table",
    "storable",
    "upsert",
]

#: Of a string, in characters, where ``field.length`` says nothing else.
DEFAULT_LENGTH = 254

_RANGES = {Type.INT: 2**31, Type.LONG: 2**63}


def column_type(kind: Type, length: int = DEFAULT_LENGTH) -> Any:
    """Return the type of a column for an attribute of a type."""
    if kind is Type.STRING:
        # MySQL compares text without regard to case unless told otherwise; Siddhi's strings are exact.
        return String(length).with_variant(VARCHAR(length, collation="utf8mb4_bin"), "mysql", "mariadb")
    if kind is Type.FLOAT:
        # MySQL shows six digits of a FLOAT.
        return REAL().with_variant(Double(), "mysql", "mariadb")
    if kind is Type.OBJECT:
        return LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb")
    return {Type.INT: Integer(), Type.LONG: BigInteger(), Type.DOUBLE: Double(), Type.BOOL: Boolean()}[kind]


def value_type(kind: Type) -> Any:
    """Return the type of a value that is compared with an attribute: as wide as a SiddhiQL expression may be."""
    # A long may be compared with an int: as a parameter of the column's type it would be out of range, or cut.
    wide: dict[Type, TypeEngine[Any]] = {Type.INT: BigInteger(), Type.FLOAT: Double(), Type.STRING: String()}
    return wide.get(kind) or column_type(kind)


def sql_table(
    name: str,
    columns: Sequence[Column[Any]],
    indexes: Sequence[Sequence[str]] = (),
    *,
    dialect: str,
) -> Table:
    """Return a table of the database, with ``schema.name`` taken apart; `indexes` name their columns."""
    schema, _, bare = name.rpartition(".")
    bare, schema = folded(bare, dialect), folded(schema, dialect)
    table = Table(bare, MetaData(), *columns, schema=schema or None)
    for number, parts in enumerate(indexes):
        # Databases cut longer names, or refuse them: PostgreSQL has 63 bytes, MySQL 64 characters.
        Index(f"{bare}_index_{number}"[:60], *(table.c[part] for part in parts))
    return table


def insertion(table: Table, dialect: str) -> Any:
    """Return an insertion as the database has it that knows more than standard SQL; not for MySQL."""
    return (sqlite if dialect == "sqlite" else postgresql).insert(table)


def upsert(table: Table, key: Sequence[str], rest: Sequence[str], dialect: str) -> Any:
    """Return an insertion of rows where one that has the same values in the columns `key` gets those of `rest`."""
    if dialect in ("mysql", "mariadb"):
        new = mysql.insert(table)
        return new.on_duplicate_key_update({name: new.inserted[name] for name in rest})
    made = insertion(table, dialect)
    where_key = [table.c[name] for name in key]
    return made.on_conflict_do_update(index_elements=where_key, set_={name: made.excluded[name] for name in rest})


def folded(name: str, dialect: str) -> str:
    """Return a name as the database folds it where it is not quoted, so that others find it as they are used to."""
    return name.lower() if dialect == "postgresql" else name


class Columns:
    """The attributes of a stored table as columns.

    Parameters
    ----------
    schema : Schema
        The attributes.
    key : tuple of int
        Positions of the primary key's attributes.
    indexed : Sequence of int
        Positions of attributes with an index of their own.
    name : str
        The table's name in the database, with its schema if it has one: ``schema.name``.
    lengths : mapping of str to int
        Of strings, in characters, by attribute (``field.length``).
    nulls : bool
        Whether numbers, bools and objects may be null (``allow.null.values``).
    dialect : str
        SQLAlchemy's name of the database: ``sqlite``, ``postgresql``…

    Attributes
    ----------
    table : Table
        SQLAlchemy's.
    names : list of str
        Of the columns, in the order of the attributes.
    old : list of str
        Of the parameters for their values in a row that is replaced.
    """

    def __init__(
        self,
        schema: Schema,
        key: tuple[int, ...],
        indexed: Sequence[int],
        name: str,
        lengths: Mapping[str, int],
        nulls: bool,
        dialect: str,
    ) -> None:
        self.schema = schema
        self.names = [folded(attribute, dialect) for attribute in schema.names]
        if len(set(self.names)) < len(self.names):  # two that differ in case only
            self.names = list(schema.names)
        # Longer than the name of any attribute, so none of them: one name for both would be one parameter.
        self.old = [f"old_{max(self.names, key=len)}_{p}" for p in range(len(self.names))]
        sizes = [lengths.get(attribute, DEFAULT_LENGTH) for attribute in schema.names]
        columns: list[Column[Any]] = [
            Column(
                column,
                column_type(kind, size),
                primary_key=position in key,
                # Values are the app's: some databases number a whole key by themselves.
                autoincrement=False,
                nullable=position not in key,
            )
            for position, (column, kind, size) in enumerate(zip(self.names, schema.types, sizes, strict=True))
        ]
        self.table = sql_table(name, columns, [[self.names[p]] for p in indexed], dialect=dialect)
        self._takers = [
            _taker(attribute, kind, size, position not in key and (nulls or kind is Type.STRING), dialect)
            for position, ((attribute, kind), size) in enumerate(zip(schema, sizes, strict=True))
        ]
        self._objects = [position for position, kind in enumerate(schema.types) if kind is Type.OBJECT]
        self._floats = [position for position, kind in enumerate(schema.types) if kind is Type.FLOAT]

    def taken(self, row: Row) -> Row:
        """Return a row as the database gives it back.

        Raises
        ------
        ValueError, TypeError
            A value that the columns cannot hold.
        """
        return tuple([take(value) for take, value in zip(self._takers, row, strict=True)])

    def outgoing(self, row: Row) -> Row:
        """Return a row that was `taken` as parameters of a statement."""
        return _converted(row, self._objects, codec.encode) if self._objects else row

    def incoming(self, row: Sequence[Any]) -> Row:
        """Return a row of SiddhiQL from one of the database."""
        if self._floats:  # some databases send as many digits as tell floats apart
            row = _converted(row, self._floats, _single)
        return _converted(row, self._objects, lambda value: codec.decode(bytes(value))) if self._objects else tuple(row)


def _converted(row: Sequence[Any], positions: Sequence[int], convert: Callable[[Any], Any]) -> Row:
    values = list(row)
    for position in positions:
        if values[position] is not None:
            values[position] = convert(values[position])
    return tuple(values)


def _single(value: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded


def _taker(attribute: str, kind: Type, length: int, nulls: bool, dialect: str) -> Callable[[Any], Any]:
    """Return what checks a value on its way into a column, and rounds it as the column does."""

    def refused(value: Any, why: str) -> Exception:
        shown = repr(value)
        return ValueError(f"'{attribute}' ({kind}) cannot hold {shown if len(shown) < 60 else shown[:57] + '…'}: {why}")

    def take(value: Any) -> Any:
        if value is None:
            if not nulls:
                raise refused(value, "null is stored where allow.null.values is true, and never in a primary key")
            return None
        try:
            return convert(value)
        except (TypeError, OverflowError, UnicodeEncodeError) as error:
            raise refused(value, str(error)) from error

    def convert(value: Any) -> Any:
        if kind in _RANGES:
            # Checked here, as SQLite stores any value in any column; a bool is an int to Python.
            if isinstance(value, bool) or not isinstance(value, int) or not -_RANGES[kind] <= value < _RANGES[kind]:
                raise refused(value, "it is no such number")
            return int(value)
        if kind in (Type.FLOAT, Type.DOUBLE):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise refused(value, "it is no number")
            number = float(value)
            if number != number and dialect in ("sqlite", "mysql", "mariadb"):
                raise refused(value, f"{dialect} has no NaN")
            # Rounded as the column does, so that the batch sees what later ones read.
            return _single(number) if kind is Type.FLOAT else number
        if kind is Type.BOOL:
            if not isinstance(value, bool):
                raise refused(value, "it is no bool")
            return value
        if kind is Type.STRING:
            return text(value)
        # As it comes back from the database: what cannot be encoded is refused here and not at the end of the batch.
        return codec.decode(codec.encode(value))

    def text(value: Any) -> str:
        if not isinstance(value, str):
            raise refused(value, "it is no string")
        if len(value) > length:
            raise refused(value, f"it has {len(value)} characters, {length} are the most (see field.length)")
        if not storable(value):
            raise refused(value, "databases do not hold the character with the code 0, nor half a character")
        return value

    return take


def storable(value: str) -> bool:
    """Tell whether a database can hold a text: it has no zero character, and no half of a surrogate pair."""
    if "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
