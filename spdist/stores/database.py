"""One database as the stores of one app use it: batches that are applied once, and reads that see them.

Rows of changes are kept by those who make them (`DatabaseWriter`) and written when somebody reads, or at the end of the
batch, many at a time. Everything that a batch writes is one transaction. With it goes a row that says up to which batch
of which log of inputs this database has been changed: a batch that is replayed after a failure finds its number there,
and changes nothing.

Outside of batches each change is a transaction of its own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

import tenacity
from sqlalchemy import (
    BigInteger,
    ClauseElement,
    Column,
    Connection,
    Engine,
    Executable,
    String,
    Table,
    insert,
    inspect,
    literal_column,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from spdist.errors import StoreError
from spdist.operators.core.junction import ObserverFailed
from spdist.operators.tables.stores import StoreBatch
from spdist.stores.columns import sql_table
from spdist.stores.engines import WRITE, may_pass

__all__ = ["Database", "DatabaseWriter", "guarded"]

T = TypeVar("T")

#: How long a connection is tried for, s.
_PATIENCE_S = 10.0
#: Log of inputs → the database object that works on it in this process; a second one takes its place.
_AT_WORK: WeakValueDictionary[tuple[str, str], Database] = WeakValueDictionary()
_ASSIGNING = threading.Lock()


class DatabaseWriter(Protocol):
    """Who changes a database: a table, or the buckets of an aggregation."""

    def flush(self) -> None:
        """Write what was kept back."""
        ...

    def settled(self, done: bool) -> None:
        """Take note that the transaction has ended: committed, or undone."""
        ...


class Database:
    """The connections of one app to one database, and the transaction of its batch.

    Parameters
    ----------
    engine : Engine
        SQLAlchemy's; it belongs to this object.
    name : str
        For errors: the place, without credentials.
    hidden : sequence of str
        Secrets of the node, which no error shows although a driver may say them.

    State
    -----
    In the database a row with the number of the last batch for each log of inputs (``spdist_applied``). Here one
    connection that writes, and one that reads.
    """

    def __init__(self, engine: Engine, name: str, hidden: Sequence[str] = ()) -> None:
        self.dialect: str = engine.dialect.name
        self.name = name
        self.members: list[DatabaseWriter] = []
        # The longest first: a secret that contains another one would else be left in part.
        self._hidden = sorted(filter(None, hidden), key=len, reverse=True)
        self._engine = engine
        self._writing: Connection | None = None
        self._reading: Connection | None = None
        self._batch: StoreBatch | None = None
        self._applied: int | None = None
        self._wrote = False
        self._broken = False
        self._prepared = False
        self._marks = sql_table(
            "spdist_applied",
            [Column("log", String(200), primary_key=True), Column("batch", BigInteger, nullable=False)],
            dialect=self.dialect,
        )

    # ------------------------------------------------------------------------------------------------------- batches
    @property
    def batch(self) -> StoreBatch | None:
        """The batch that has begun, if any."""
        return self._batch

    @property
    def replaying(self) -> bool:
        """Whether the batch that has begun was applied before: nothing is to be changed.

        Raises
        ------
        StoreError
            The database cannot be read.
        """
        if self._batch is None:
            return False
        if self._applied is None:  # asked for once in a batch, and only where something changes
            self._applied = self._last_applied(self._batch.log)
        return self._batch.number <= self._applied

    def begin(self, batch: StoreBatch) -> None:
        """Begin a batch; what was not committed of another is undone.

        It asks nothing of the database.
        """
        if self._batch is not None or self._broken:
            self._undo()
        with _ASSIGNING:
            place = (str(self._engine.url), batch.log)
            other = _AT_WORK.get(place)
            if other is not self:
                _AT_WORK[place] = self
        if other is not None and other is not self:
            # An earlier life of the same shard in this process, which ended with an error and holds locks.
            other.close()
        # Another process may have gone on with the shard meanwhile: asked for when something changes.
        self._batch, self._applied = batch, None

    def commit(self) -> None:
        """Write what is left of the batch, and make it durable together with its number.

        Raises
        ------
        StoreError
            The database did not take it, or another copy of the shard has applied the batch meanwhile; all of it is
            undone.
        """
        self._check()
        batch = self._batch
        if batch is None:
            return
        self.flush()
        if self._wrote:  # to apply again what changes nothing changes nothing
            self._mark(batch)
            with self._refusals("commit"):
                self._end(True)
        self._finish(True)

    def _mark(self, batch: StoreBatch) -> None:
        marks = self._marks
        mine = marks.c.log == batch.log
        values: dict[str, Any] = {"batch": batch.number}
        assert self._applied is not None
        # Only where the number is still the one that was read: the row is the fence against another copy.
        moved = update(marks).where(mine & (marks.c.batch == self._applied)).values(**values)
        new = insert(marks).values(log=batch.log, **values)
        with self._refusals("commit"):
            connection = self._connection()
            if self._applied < 0:  # the primary key refuses a second copy that begins, too
                connection.execute(new)
            elif connection.execute(moved).rowcount != 1:
                self._break()
                raise StoreError(
                    f"another copy of the shard has changed {self.name}", hint="this copy was replaced and must stop"
                )

    def _last_applied(self, log: str) -> int:
        if not self._prepared:
            self.create(self._marks)
            self._prepared = True
        found = self.read(select(self._marks.c.batch).where(self._marks.c.log == log))
        return int(found[0][0]) if found else -1

    def changed(self) -> None:
        """Take note that a member was changed: outside of a batch that is durable immediately."""
        self._check()
        if self._batch is None:
            self.flush()
            if self._wrote:
                with self._refusals("commit"):
                    self._end(True)
            self._finish(True)

    def flush(self) -> None:
        """Write what the members kept back."""
        for member in self.members:
            member.flush()

    def close(self) -> None:
        """Undo what was not committed, and close the connections; a later call opens new ones."""
        self._undo()
        self._close_reader()
        self._engine.dispose()

    def _close_reader(self) -> None:
        connection, self._reading = self._reading, None
        if connection is not None:
            with contextlib.suppress(SQLAlchemyError):
                connection.close()

    def _undo(self) -> None:
        with contextlib.suppress(SQLAlchemyError):
            self._end(False)
        self._broken = False
        self._finish(False)

    def _break(self) -> None:
        """Undo everything, and refuse to go on in the middle of a batch."""
        within = self._batch is not None
        self._undo()
        self._broken = within  # outside of a batch nothing would go on with half of it

    def _check(self) -> None:
        if self._broken:
            raise StoreError(f"{self.name} failed earlier in this batch", hint="the batch must be repeated")

    def _finish(self, done: bool) -> None:
        if self.dialect == "duckdb" and self._batch is not None:
            self._close_reader()  # between batches another process may open the file
        self._batch, self._applied, self._wrote = None, None, False
        for member in self.members:
            member.settled(done)

    def _end(self, commit: bool) -> None:
        connection, self._writing = self._writing, None
        if connection is not None:
            try:
                if commit:
                    connection.commit()
            finally:
                connection.close()  # undoes what was not committed

    # ----------------------------------------------------------------------------------------------------- statements
    def read(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        """Return the rows of a query, which sees what was written in this batch.

        Raises
        ------
        StoreError
            The database cannot be reached, or refuses the query.
        """
        self._check()
        with self._refusals("read"):
            if self._writing is not None:  # others do not see its transaction
                return self._writing.execute(statement, parameters).fetchall()
            for attempt in (1, 2):
                connection = self._reader()
                try:
                    rows = connection.execute(statement, parameters).fetchall()
                    connection.rollback()  # the next one sees what others have written meanwhile
                    return rows
                except DBAPIError as error:
                    connection.close()
                    self._reading = None
                    # A connection that stood idle may be gone; nothing of ours depended on it.
                    if attempt == 2 or not error.connection_invalidated:
                        raise
        raise AssertionError

    def write(self, statement: Executable, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute a change for many rows of parameters, within the batch's transaction.

        Raises
        ------
        StoreError
            The database cannot be reached, or refuses a row.
        """
        if rows:
            self._check()
            with self._refusals("write"):
                self._connection().execute(statement, list(rows))
            self._wrote = True

    def create(self, table: Table) -> None:
        """Create a table where there is none.

        Raises
        ------
        StoreError
            The database refuses.
        """
        with self._refusals("create the table"):
            for attempt in (1, 2):
                with self._connected() as connection:  # asking takes no lock
                    if inspect(connection).has_table(table.name, schema=table.schema):
                        return
                with self._connected().execution_options(**{WRITE: True}) as connection:
                    try:
                        table.create(connection)
                        connection.commit()
                        return
                    except DBAPIError:  # another one created it at the same moment
                        if attempt == 2:
                            raise

    def columns(self, table: Table) -> frozenset[str]:
        """Return the names of the columns that a table has in the database.

        Raises
        ------
        StoreError
            The database cannot be reached, or has no such table.
        """
        with self._refusals("describe the table"), self._connected() as connection:
            return frozenset(connection.execute(select(literal_column("*")).select_from(table).limit(0)).keys())

    def written(self, element: ClauseElement) -> str:
        """Return a part of a statement as this database writes it."""
        return str(element.compile(dialect=self._engine.dialect))

    def quoted(self, named: str | Table) -> str:
        """Return a name as this database writes it; that of a table with its schema."""
        preparer = self._engine.dialect.identifier_preparer
        return preparer.format_table(named) if isinstance(named, Table) else preparer.quote(named)

    def _connection(self) -> Connection:
        """Return the connection of the transaction that writes."""
        if self._writing is None:
            self._writing = self._connected().execution_options(**{WRITE: True})
        return self._writing

    def _connected(self) -> Connection:
        """Return a new connection; waits for a database out of reach, or a file that another process has open."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(may_pass),
            stop=tenacity.stop_after_delay(_PATIENCE_S),
            wait=tenacity.wait_random_exponential(multiplier=0.02, max=0.5),
            reraise=True,
        )
        connection: Connection = retrying(self._engine.connect)
        return connection

    def _reader(self) -> Connection:
        if self._reading is None:
            connection = self._connected()
            if self.dialect in ("postgresql", "mysql", "mariadb"):
                connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            self._reading = connection
        return self._reading

    @contextlib.contextmanager
    def _refusals(self, what: str) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            # Only what the driver says: a statement's parameters are the users' data.
            reason = str(error.orig if isinstance(error, DBAPIError) else error).strip().partition("\n")[0]
            self._break()
            shown = reduce(lambda text, one: text.replace(one, "***"), self._hidden, reason)
            # Where it shows less than the driver said, a traceback is not to show it either.
            raise StoreError(f"{self.name} did not {what}: {shown}") from (error if shown == reason else None)


def guarded(work: Callable[[], T]) -> T:
    """Do something with a database; its failure is no failure of the query, which would only cost the event."""
    try:
        return work()
    except StoreError as error:
        raise ObserverFailed(error) from error
