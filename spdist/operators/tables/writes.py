"""What queries do to tables: insert, delete, update, and update or insert, compiled once for each query.

The events of a chunk take effect one after the other, with one exception that is Siddhi's: ``update or insert`` first
lets all events of a chunk update what the table held before it; those that found nothing are then merged among
themselves, the later ones updating the rows of the earlier ones, and inserted last.

Source: io.siddhi.core.util.collection.operator.CollectionOperator and IndexOperator, described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.changes import change_scope
from spdist.language.types import Schema
from spdist.operators.base import Arrival, Row, VirtualClock
from spdist.operators.expressions.codegen import Bindings, Frame
from spdist.operators.expressions.expression import Reader
from spdist.operators.expressions.lookup import Finder, FindingPlan
from spdist.operators.expressions.readers import RowReader
from spdist.operators.tables.changes import TABLE, Changed, ChangeWriter
from spdist.operators.tables.stores import Store, TableStore, tables_of
from spdist.operators.tables.table import Table

__all__ = ["TableWriter", "table_writer"]


class TableWriter:
    """Writes the results of one query into a table.

    Parameters
    ----------
    table : TableStore
        The table.

    Attributes
    ----------
    receive : Callable[[int, Row], None]
        Receives one event, as a chunk of its own.
    receive_chunk : Callable[[Sequence[Arrival]], None]
        Receives the events of one chunk.
    """

    def __init__(self, table: TableStore) -> None:
        self.table = table

    def receive(self, timestamp: int, row: Row) -> None:
        """Receive one event: insert it."""
        self.table.insert(row)

    def only_observer(self) -> Callable[[int, Row], None] | None:
        """Return None: nobody watches a table (`spdist.operators.core.junction.DirectTarget`)."""
        return None

    def columns_receiver(self) -> None:
        """Return None: a table holds rows."""

    def receive_rows(self, timestamp: int, rows: list[Row]) -> None:
        """Receive the events of one chunk that all have the same timestamp, one after the other."""
        self.receive_chunk([(timestamp, row) for row in rows])

    def receive_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Receive the events of one chunk, one after the other."""
        for timestamp, row in arrivals:
            self.receive(timestamp, row)


class _Deleter(TableWriter):
    def __init__(self, table: TableStore, find: Finder) -> None:
        super().__init__(table)
        self._find = find

    def receive(self, timestamp: int, row: Row) -> None:
        """Receive one event: delete the rows that meet the condition."""
        found = self._find(timestamp, row)
        if found:
            self.table.delete(found)


class _Updater(TableWriter):
    def __init__(self, table: TableStore, find: Finder, changed: Changed) -> None:
        super().__init__(table)
        self.find = find
        self.changed = changed

    def receive(self, timestamp: int, row: Row) -> None:
        """Receive one event: change the rows that meet the condition."""
        self.update(timestamp, row)

    def update(self, timestamp: int, row: Row) -> bool:
        """Change the rows that meet the condition; tell whether there are any."""
        found = self.find(timestamp, row)
        if not found:
            return False
        changed = self.changed
        self.table.change(found, [changed(timestamp, row, held) for _, held in found])
        return True


class _KeyWriter(TableWriter):
    """Changes the row that has the key of an event; whether rows came before it in its chunk makes no difference."""

    def __init__(self, table: TableStore, change: Callable[[int, Row], None]) -> None:
        super().__init__(table)
        self.receive = change  # type: ignore[assignment, method-assign]


class _Upserter(TableWriter):
    def __init__(self, updater: _Updater, search: FindingPlan, clock: VirtualClock) -> None:
        super().__init__(updater.table)
        self._update = updater.update
        # Where the rows that a chunk inserts meet before they go into the table.
        self._fresh = Table(self.table.id, self.table.schema)
        self._merge = _Updater(self._fresh, search.bind(self._fresh, clock), updater.changed).update

    def receive(self, timestamp: int, row: Row) -> None:
        """Receive one event: change the rows that meet the condition, or insert it where there are none."""
        if not self._update(timestamp, row):
            self.table.insert(row)

    def receive_chunk(self, arrivals: Sequence[Arrival]) -> None:
        """Receive the events of one chunk."""
        fresh = self._fresh
        # A chunk that failed half-way may have left rows.
        fresh.clear()
        for timestamp, row in [arrival for arrival in arrivals if not self._update(*arrival)]:
            if not self._merge(timestamp, row):
                fresh.insert(row)
        for _, row in fresh.contents():
            self.table.insert(row)


def table_writer(
    title: str,
    output: ast.Output,
    event: Schema,
    table: TableStore,
    catalog: Catalog,
    clock: VirtualClock,
    seen: Store | None = None,
) -> TableWriter:
    """Compile what a query does to a table.

    Parameters
    ----------
    title : str
        The query's name.
    output : Output
        What it does: insert, delete, update.
    event : Schema
        What it selects.
    table : TableStore
        The table.
    catalog : Catalog
        Signatures, and the tables that ``in`` may name.
    clock : VirtualClock
        The app's time.
    seen : Store, optional
        The table as conditions look into it, where that is not the table itself.
    """
    if not isinstance(output, ast.Delete | ast.Update):
        return TableWriter(table)
    scope = change_scope(event, table.id, table.schema, tables_of(catalog))

    def outer(frame: Frame, _bindings: Bindings) -> Reader:
        return RowReader(scope, catalog, frame)

    search = FindingPlan(title, output.on, scope, TABLE, catalog, "ts, row", outer)
    if isinstance(output, ast.Delete):
        return _Deleter(table, search.bind(seen or table, clock))
    change = ChangeWriter(title, output, event, table.schema, scope, catalog)
    by_key = change.by_key(table, clock) if isinstance(table, Table) else None
    if by_key is not None:
        return _KeyWriter(table, by_key)
    updater = _Updater(table, search.bind(seen or table, clock), change.changed(clock))
    return _Upserter(updater, search, clock) if output.or_insert else updater
