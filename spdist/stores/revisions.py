"""Revisions in a table of a database: the files of each, in parts that any database takes.

Source: org.wso2.carbon.stream.processor.core.persistence.DBPersistenceStore (a table with app, revision and content).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlalchemy import Column, Engine, Integer, LargeBinary, String, delete, insert, select
from sqlalchemy.dialects.mysql import LONGBLOB

from spdist.stores.columns import sql_table
from spdist.stores.database import Database

__all__ = ["RevisionTable"]

#: Of one row, in bytes: far below what databases take in one statement.
_PART = 512 * 1024


class RevisionTable:
    """A table with the files of revisions. A revision is there as a whole or not at all.

    Parameters
    ----------
    engine : Engine
        The database.
    name : str
        The table, created when it is first used.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self._database = Database(engine, f"the {engine.dialect.name} database of revisions")
        self._prepared = False
        self._table = sql_table(
            name,
            [
                Column("instance", String(200), primary_key=True),
                Column("revision", String(220), primary_key=True),
                Column("file", String(200), primary_key=True),
                Column("part", Integer, primary_key=True, autoincrement=False),
                Column("content", LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb"), nullable=False),
            ],
            dialect=self._database.dialect,
        )

    def save(self, instance: str, revision: str, files: Iterable[tuple[str, bytes]]) -> None:
        """Keep files, given by name and content, as a revision.

        Raises
        ------
        StoreError
            The database does not take them; none of them is there.
        """
        self._prepare()
        for name, content in files:
            # An empty file has one empty part: without a row it would not be there.
            parts = range(0, max(len(content), 1), _PART)
            rows = [
                {
                    "instance": instance,
                    "revision": revision,
                    "file": name,
                    "part": part,
                    "content": content[start : start + _PART],
                }
                for part, start in enumerate(parts)
            ]
            self._database.write(insert(self._table), rows)
        # Outside of batches this commits all that was written since the last call, and so the revision as a whole.
        self._database.changed()

    def revisions(self, instance: str) -> list[str]:
        """Return the names of the revisions of `instance`, in no order."""
        self._prepare()
        c = self._table.c
        return [row[0] for row in self._database.read(select(c.revision).where(c.instance == instance).distinct())]

    def files(self, instance: str, revision: str) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of the files of a revision."""
        self._prepare()
        c = self._table.c
        mine = (c.instance == instance) & (c.revision == revision)
        # File by file, so that not all of a revision is in memory.
        names = [row[0] for row in self._database.read(select(c.file).where(mine).distinct())]
        for name in names:
            parts = select(c.content).where(mine & (c.file == name)).order_by(c.part)
            yield name, b"".join(bytes(row[0]) for row in self._database.read(parts))

    def delete(self, instance: str, revision: str) -> None:
        """Delete a revision."""
        self._prepare()
        c = self._table.c
        gone = delete(self._table).where(c.instance == instance, c.revision == revision)
        self._database.write(gone, [{}])
        self._database.changed()

    def _prepare(self) -> None:
        if not self._prepared:
            self._database.create(self._table)
            self._prepared = True

    def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        self._database.close()
