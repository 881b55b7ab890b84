"""The buckets of an aggregation that several nodes keep in one database: `spdist.stores.buckets` with a ``SHARD_ID``.

Each node writes the rows of its own shard only, those of open buckets too, and reads all. A shard belongs to one log of
inputs at a time (``spdist_shards``): who begins anew takes it over, and a node that still writes it stops.

Source: io.siddhi.core.util.parser.AggregationParser (``SHARD_ID`` in the primary key), described in our own words.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, Select, String, Table, bindparam, select
from sqlalchemy.schema import CreateColumn

from spdist.errors import StoreError
from spdist.language.types import Schema, Type
from spdist.operators.tables.stores import Changes
from spdist.stores.buckets import SHARD, StoredBuckets, digest_of
from spdist.stores.columns import column_type, folded, sql_table, upsert
from spdist.stores.database import Database, guarded

__all__ = ["ShardedBuckets"]

log = logging.getLogger(__name__)


class ShardedBuckets(StoredBuckets):
    """Where several nodes keep one aggregation (`spdist.operators.tables.stores.ShardStore`).

    Parameters
    ----------
    id, durations, schema, table, database
        See `StoredBuckets`.
    shard : str
        The name of this node's shard; where its state is that of another, it goes on as that.

    State
    -----
    In the database a row for each group of each bucket of each shard, and for each shard which log writes it.
    """

    def __init__(
        self, id: str, durations: Sequence[str], schema: Schema, table: str, database: Database, shard: str
    ) -> None:
        self.shard = shard
        self._id = id
        self._place = table
        self._shard = folded(SHARD, database.dialect)
        self._changes: Changes | None = None
        self._log = secrets.token_hex(16)
        self._claimed = False
        #: What was read in the batch since it last wrote: level, range and key → rows.
        self._known: dict[tuple[Any, ...], list[tuple[int, str, bytes]]] = {}
        # After the own fields, which `_table` and `_check` use: the base class calls both.
        super().__init__(id, durations, schema, table, database)
        self._owners = sql_table(
            "spdist_shards",
            [
                Column("name", String(200), primary_key=True),
                Column("shard", column_type(Type.STRING), primary_key=True),
                Column("log", String(200), nullable=False),
            ],
            dialect=database.dialect,
        )
        database.create(self._owners)

    # ----------------------------------------------------------------------------------------------------- the tables
    def _table(self, name: str, schema: Schema) -> Table:
        columns = self._columns(schema)
        columns.insert(1, Column(self._shard, column_type(Type.STRING), nullable=False))
        for column in columns:
            column.primary_key = column.name in self._keyed
        return sql_table(name, columns, dialect=self._database.dialect)

    @property
    def _keyed(self) -> tuple[str, str, str]:
        return self._time, self._shard, self._key

    def _check(self, sharded: list[Table]) -> None:
        if missing := [table for table in self._tables if table not in sharded]:
            names = ", ".join(table.name for table in missing)
            message = f"{names} in {self._database.name} have no column {SHARD}, which tells whose row it is"
            statements = "\n".join(map(self._adding, missing))
            hint = f"Add it; the rows that are there become those of this node, '{self.shard}':\n{statements}"
            raise StoreError(message, hint=hint)

    def _adding(self, table: Table) -> str:
        """Return the statements that add the column to a table; its rows become those of this node."""
        dialect = self._database.dialect
        quote, name = self._database.quoted, self._database.quoted(table)
        # Databases in files cannot change a key; DuckDB changes no table that has an index, nor adds NOT NULL.
        added = Column(self._shard, column_type(Type.STRING), server_default=self.shard, nullable=dialect == "duckdb")
        sql_table(table.name, [added], dialect=dialect)
        adding = f"ALTER TABLE {name} ADD COLUMN {self._database.written(CreateColumn(added))}"
        keyed = ", ".join(map(quote, self._keyed))
        if dialect not in ("sqlite", "duckdb"):
            return f"{adding}, ADD PRIMARY KEY ({keyed});"
        statements = [adding, f"CREATE UNIQUE INDEX {quote(f'{table.name}_key')} ON {name} ({keyed})"]
        if dialect == "duckdb":
            statements.insert(0, f"DROP INDEX {quote(f'{table.name}_index_0')}")
        return ";\n".join(statements) + ";"

    def _replace(self, table: Table, rows: list[dict[str, Any]]) -> None:
        mine = [{**row, self._shard: self.shard} for row in rows]
        self._database.write(self._upsert(table, self._keyed), mine)

    def _upsert(self, table: Table, key: Sequence[str]) -> Any:
        return upsert(table, key, [one.name for one in table.columns if one.name not in key], self._database.dialect)

    # ------------------------------------------------------------------------------------------------------ the shard
    def go_on(self, shard: str) -> None:
        """Write the shard that the state was of before; a name that was changed since then would count rows twice."""
        if shard != self.shard:
            log.warning(
                "aggregation '%s': the settings of this node name its shard '%s' now, and its state is of the shard "
                "'%s'; it goes on as '%s', since its rows would count twice under another name; a state that begins "
                "anew gets the new name",
                self._id, self.shard, shard, shard,
            )  # fmt: skip
            self.shard = shard

    def load(self) -> list[dict[int, list[bytes]]]:
        """Return the states of this shard's groups; see `StoredBuckets.load`."""
        batch, c = self._database.batch, self._owners.c
        if batch is not None:
            owned = select(c.shard).where(c.name == self._place, c.log == batch.log)
            # The log of inputs says whose state this is, whatever the settings name the node by now.
            for (shard,) in self._database.read(owned):
                self.go_on(shard)
        return super().load()

    def _stored(self, table: Table) -> Select[Any]:
        return super()._stored(table).where(table.c[self._shard] == self.shard)

    def _own(self) -> None:
        """Become who writes the shard, and see to it that nobody else has since then."""
        batch, c = self._database.batch, self._owners.c
        mine = self._log if batch is None else batch.log
        found = self._database.read(select(c.log).where(c.name == self._place, c.shard == self.shard))
        if not found or found[0][0] != mine:
            # Claimed before and now another's: two nodes have one name, or this one was replaced.
            if self._claimed:
                message = f"another node writes the shard '{self.shard}' of aggregation '{self._id}', too"
                raise StoreError(message, hint="Give each node a siddhi.properties.shardId of its own.")
            row = {"name": self._place, "shard": self.shard, "log": mine}
            self._database.write(self._upsert(self._owners, ("name", "shard")), [row])
        self._claimed = True

    # ---------------------------------------------------------------------------------------------- writing and reading
    def follow(self, changes: Changes) -> None:
        """Have `changes` asked for what is to be written."""
        self._changes = changes

    def flush(self) -> None:
        """Write what has changed."""
        changes = self._changes
        if changes is not None and changes.pending:
            if self._database.replaying:
                # The database has this batch already: the same rows are in it.
                changes.forget()
            else:
                self._own()
                for level, start, groups in changes.changes():
                    self._keep(level, start, groups)
        if self._put or self._removed:
            # What was read before is not what is there after this write.
            self._known.clear()
        super().flush()

    def settled(self, done: bool) -> None:
        """Forget what was not written."""
        super().settled(done)
        self._known.clear()
        # A claim that was undone with its transaction is to be made again.
        self._claimed = self._claimed and done

    def found(self, level: int, start: int, end: int, *key: Any) -> Iterable[tuple[int, str, bytes]]:
        """Return start, shard and state of the groups that were written; within a batch asked for once."""

        def rows() -> list[tuple[int, str, bytes]]:
            if self._removed:
                self._database.flush()
            if self._database.batch is None:
                return self._read(level, start, end, *key)
            asked = (level, start, end, *key)
            if asked not in self._known:
                self._known[asked] = self._read(*asked)
            return self._known[asked]

        return guarded(rows)

    def _read(self, level: int, start: int, end: int, *key: Any) -> list[tuple[int, str, bytes]]:
        # A query without bounds has some beyond those of a BIGINT.
        table, parameters = self._tables[level], {"first": max(start, -(2**63)), "end": min(end, 2**63 - 1)}
        time, group, shard = (table.c[name] for name in (self._time, self._key, self._shard))
        query = select(time, shard, table.c[self._state]).order_by(time, shard, group)
        query = query.where(time >= bindparam("first", type_=BigInteger), time < bindparam("end", type_=BigInteger))
        if key:
            query = query.where(group == digest_of(*key))
        return [(at, whose, bytes(state)) for at, whose, state in self._database.read(query, parameters)]
