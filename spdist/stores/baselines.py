"""What aggregations found in a database when their log of inputs began: a replay from the beginning starts from that.

Otherwise it would find what it has itself put there since, and count it twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Column, Integer, LargeBinary, String, delete, insert, select
from sqlalchemy.dialects.mysql import LONGBLOB

from spdist.stores.columns import sql_table
from spdist.stores.database import Database

__all__ = ["Baseline"]


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
