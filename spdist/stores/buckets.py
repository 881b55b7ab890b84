"""The closed buckets of an aggregation in a database: one table for each duration, ``<Aggregation>_SECONDS`` and so on.

A row is one group of one bucket: ``AGG_TIMESTAMP`` and what the aggregation selects, for people and dashboards, and
what it is computed from, for us (``SPDIST_STATE``). Rows are replaced as a whole, so writing one twice changes nothing.

Source: io.siddhi.core.util.parser.AggregationParser (names of tables and columns), described in our own words.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    Select,
    String,
    Table,
    Text,
    bindparam,
    delete,
    insert,
    select,
)
from sqlalchemy.dialects.mysql import LONGBLOB, LONGTEXT

from spdist.errors import StoreError
from spdist.language.types import Schema, Type
from spdist.operators.base import Row
from spdist.operators.core import codec
from spdist.stores.columns import column_type, folded, sql_table, storable
from spdist.stores.database import Database, guarded

__all__ = ["SHARD", "StoredBuckets", "bucket_tables", "digest_of"]

_KEY, _STATE = "SPDIST_KEY", "SPDIST_STATE"
#: The column of tables that several nodes write, each its own rows.
SHARD = "SHARD_ID"


def bucket_tables(table: str, durations: Sequence[str]) -> list[str]:
    """Return the names of the tables of an aggregation, one for each duration; `table` is what they begin with."""
    return [f"{table}_{duration.upper()}S" for duration in durations]


def digest_of(key: Any) -> str:
    """Return the key of a group as the tables have it."""
    return hashlib.sha256(codec.encode(key)).hexdigest()


class StoredBuckets:
    """Where an aggregation keeps its closed buckets (`spdist.operators.tables.stores.BucketStore`).

    Parameters
    ----------
    id : str
        The aggregation's name.
    durations : sequence of str
        From the finest to the coarsest.
    schema : Schema
        The attributes of its rows: ``AGG_TIMESTAMP`` and what is selected.
    table : str
        What the tables' names begin with.
    database : Database
        Where they are; created there if they are missing.

    State
    -----
    In the database a row for each group of each closed bucket. Here, what changed since the last `flush`.
    """

    def __init__(self, id: str, durations: Sequence[str], schema: Schema, table: str, database: Database) -> None:
        self._baseline = Baseline(database, id)
        self._database = database
        self._names = [folded(name, database.dialect) for name in schema.names]
        self._time, self._key, self._state = (
            folded(name, database.dialect) for name in (schema.names[0], _KEY, _STATE)
        )
        self._tables = [self._table(name, schema) for name in bucket_tables(table, durations)]
        self._put: dict[tuple[int, int, str], tuple[Row, bytes]] = {}
        #: Of each duration, before when buckets are removed.
        self._removed: dict[int, int] = {}
        for each in self._tables:
            database.create(each)
        # After they are there: a table that was there before may be that of another kind.
        self._check([each for each in self._tables if folded(SHARD, database.dialect) in database.columns(each)])
        database.members.append(self)

    def _check(self, sharded: list[Table]) -> None:
        """Check that those of the tables have a column for shards that are to have one."""
        for table in sharded:
            message = f"the table {table.name} in {self._database.name} has the column {SHARD}: several nodes write it"
            hint = "Set siddhi.properties.partitionById: true, write '@PartitionById', or give it another table.name."
            raise StoreError(message, hint=hint)

    def _table(self, name: str, schema: Schema) -> Table:
        columns = self._columns(schema)
        return sql_table(name, columns, [[self._time, self._key]], dialect=self._database.dialect)

    def _columns(self, schema: Schema) -> list[Column[Any]]:
        text = Text().with_variant(LONGTEXT(collation="utf8mb4_bin"), "mysql", "mariadb")
        columns: list[Column[Any]] = [Column(self._time, BigInteger, nullable=False)]
        for column, kind in list(zip(self._names, schema.types, strict=True))[1:]:
            columns.append(Column(column, text if kind is Type.STRING else column_type(kind)))
        columns.append(Column(self._key, String(64), nullable=False))
        columns.append(Column(self._state, LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb"), nullable=False))
        return columns

    def load(self) -> list[dict[int, list[bytes]]]:
        """Return the states of the groups in each closed bucket, by start, for each duration.

        They are those of the moment when the log of inputs began: what batches of the log have changed since is theirs
        to change again.

        Raises
        ------
        StoreError
            The database cannot be read.
        """
        buckets: list[dict[int, list[bytes]]] = [{} for _ in self._tables]
        batch = self._database.batch
        if batch is not None and self._database.replaying:
            for content in self._baseline.found(batch.log):
                level, start, state = codec.decode(content)
                buckets[level].setdefault(start, []).append(state)
            return buckets
        kept: list[bytes] = []
        for level, table in enumerate(self._tables):
            for start, state in self._database.read(self._stored(table)):
                buckets[level].setdefault(start, []).append(bytes(state))
                # A replay from the beginning would find buckets that its own batches have changed since.
                kept.append(codec.encode([level, start, bytes(state)]))
        if batch is not None and kept:
            self._baseline.keep(batch.log, kept)
        return buckets

    def _stored(self, table: Table) -> Select[Any]:
        """Return the query for start and state of all that is there of ours."""
        return select(table.c[self._time], table.c[self._state]).order_by(table.c[self._time])

    def put(self, level: int, start: int, groups: Sequence[tuple[Any, Row, bytes]]) -> None:
        """Keep groups of a bucket: their key, the row that is read, and the state."""
        if self._skips():
            return
        self._keep(level, start, groups)
        self.changed()

    def _keep(self, level: int, start: int, groups: Sequence[tuple[Any, Row, bytes]]) -> None:
        for key, row, state in groups:
            self._put[level, start, digest_of(key)] = (row, state)

    def remove(self, level: int, before: int) -> None:
        """Remove the buckets that begin before a time."""
        if self._skips():
            return
        self._removed[level] = before
        for place in [place for place in self._put if place[0] == level and place[1] < before]:
            del self._put[place]
        self.changed()

    def _skips(self) -> bool:
        return guarded(lambda: self._database.replaying)

    def changed(self) -> None:
        """Take note that something has changed: outside of batches it is durable immediately."""
        guarded(self._database.changed)

    def flush(self) -> None:
        """Write what was kept back."""
        removed, self._removed = self._removed, {}
        put, self._put = self._put, {}
        for level, table in enumerate(self._tables):
            if level in removed:
                time = table.c[self._time] < bindparam("before", type_=BigInteger)
                self._database.write(delete(table).where(time), [{"before": removed[level]}])
            rows = [
                {**self._shown(row), self._time: start, self._key: digest, self._state: state}
                for (of, start, digest), (row, state) in put.items()
                if of == level
            ]
            if rows:
                self._replace(table, rows)

    def _replace(self, table: Table, rows: list[dict[str, Any]]) -> None:
        """Put rows in the place of those with the same bucket and group."""
        time, key = table.c[self._time], table.c[self._key]
        # Deleted and inserted: the table has no unique key, by which databases could replace a row.
        old = delete(table).where(time == bindparam("at", type_=BigInteger), key == bindparam("of", type_=String))
        self._database.write(old, [{"at": row[self._time], "of": row[self._key]} for row in rows])
        self._database.write(insert(table), rows)

    def _shown(self, row: Row) -> dict[str, Any]:
        """Return a row as parameters; values that the database does not hold are shown as null."""
        # MySQL has neither NaN nor infinity; the state has them, so only what people see is null.
        finite = self._database.dialect in ("mysql", "mariadb")

        def shown(value: Any) -> Any:
            if isinstance(value, str):
                return value if storable(value) else None
            return None if finite and isinstance(value, float) and not math.isfinite(value) else value

        return {name: shown(value) for name, value in zip(self._names, row, strict=True)}

    def settled(self, done: bool) -> None:
        """Forget what was not written."""
        self._put, self._removed = {}, {}


# What aggregations found in a database when their log of inputs began: a replay from the beginning starts from that.


class Baseline:
    """What one aggregation found, kept next to its buckets.

    Parameters
    ----------
    database : Database
        Where the buckets are.
    name : str
        Of the aggregation.

    State
    -----
    In the database, for each log of inputs, all buckets as they were when it began (``spdist_baseline``).
    """

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._table = sql_table(
            "spdist_baseline",
            [
                Column("log", String(200), primary_key=True),
                Column("name", String(200), primary_key=True),
                Column("number", Integer, primary_key=True, autoincrement=False),
                Column("content", LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb"), nullable=False),
            ],
            dialect=database.dialect,
        )

    def keep(self, log: str, contents: Sequence[bytes]) -> None:
        """Keep what was found when `log` began, in place of what was kept before, with the batch that has begun."""
        self._database.create(self._table)
        c = self._table.c
        self._database.write(delete(self._table).where(c.log == log, c.name == self._name), [{}])
        rows = [{"log": log, "name": self._name, "number": n, "content": content} for n, content in enumerate(contents)]
        self._database.write(insert(self._table), rows)

    def found(self, log: str) -> list[bytes]:
        """Return what was kept for `log`."""
        self._database.create(self._table)
        c = self._table.c
        query = select(c.content).where(c.log == log, c.name == self._name).order_by(c.number)
        return [bytes(row[0]) for row in self._database.read(query)]
