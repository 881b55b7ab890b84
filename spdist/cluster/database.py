"""What the coordination database is asked through: its tables, its clock, and transactions within a time limit.

Tables are created when they are missing. They have our own names: WSO2's ``LEADER_STATUS_TABLE`` has no term, so
managers of both kinds must not meet in one table.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

import tenacity
from sqlalchemy import BigInteger, Column, Connection, Engine, Integer, MetaData, String, Table, Text
from sqlalchemy.dialects.mysql import LONGTEXT, VARCHAR
from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql.functions import FunctionElement

from spdist.cluster.members import LONGEST_ID
from spdist.errors import ClusterError, StoreUnavailableError
from spdist.stores.engines import WRITE, may_pass, open_engine
from spdist.stores.limits import Call, TimeLimit

__all__ = [
    "DEPLOYMENT",
    "LEADER",
    "MANAGER",
    "ORIGIN",
    "WORKER",
    "WORKER_LIST",
    "Transactions",
    "database_now",
]

T = TypeVar("T")

#: The limits on this side, in time limits of the database: it gives up sooner where it can, and says why.
_URGENT, _PATIENT = 1.5, 5.0

# MySQL compares text without regard to case unless told otherwise; our names are exact.
_NAME = String(LONGEST_ID).with_variant(VARCHAR(LONGEST_ID, collation="utf8mb4_bin"), "mysql", "mariadb")
_TEXT = Text().with_variant(LONGTEXT(collation="utf8mb4_bin"), "mysql", "mariadb")

METADATA = MetaData()

LEADER = Table(
    "spdist_leader",
    METADATA,
    Column("group_id", _NAME, primary_key=True),
    Column("node_id", _NAME, nullable=False),
    Column("term", BigInteger, nullable=False),
    Column("last_heartbeat", BigInteger, nullable=False),
    Column("url", _TEXT, nullable=False),
)

MANAGER = Table(
    "spdist_manager",
    METADATA,
    Column("group_id", _NAME, primary_key=True),
    Column("node_id", _NAME, primary_key=True),
    Column("url", _TEXT, nullable=False),
    Column("last_heartbeat", BigInteger, nullable=False),
)

DEPLOYMENT = Table(
    "spdist_deployment",
    METADATA,
    Column("group_id", _NAME, primary_key=True),
    Column("name", _NAME, primary_key=True),
    Column("text", _TEXT, nullable=False),
    Column("version", Integer, nullable=False),
    Column("desired", String(16), nullable=False),
    Column("term", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
)

# Beside the deployments, so that a database that an older version made can be used as it is.
ORIGIN = Table(
    "spdist_origin",
    METADATA,
    Column("group_id", _NAME, primary_key=True),
    Column("name", _NAME, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("origins", _TEXT, nullable=False),
)

#: Under which term the rows of `WORKER` were written.
WORKER_LIST = Table(
    "spdist_worker_list",
    METADATA,
    Column("group_id", _NAME, primary_key=True),
    Column("term", BigInteger, nullable=False),
)

WORKER = Table(
    "spdist_worker",
    METADATA,
    Column("group_id", _NAME, primary_key=True),
    Column("node_id", _NAME, primary_key=True),
    Column("incarnation", _NAME, nullable=False),
    Column("registered_ms", BigInteger, nullable=False),
)


class Transactions:
    """A database in which work is done in transactions, each repeated while the database is only briefly out of reach.

    Parameters
    ----------
    url, username, password : str
        As in `open_engine`.
    timeout_ms : int
        How long a transaction is tried again before `StoreUnavailableError`. Whatever the database does, an urgent one
        ends after half as long again, and another after five times as long: a slow disk is no reason to give up.
    """

    def __init__(self, url: str, username: str, password: str, timeout_ms: int) -> None:
        self._timeout_s = timeout_ms / 1000
        self._limit = TimeLimit()
        self._engine = open_engine(url, username, password, timeout_ms=timeout_ms, purpose="coordination", ping=False)
        self._prepared = False
        self._preparing = threading.Lock()

    def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        self._engine.dispose()

    def read(self, work: Callable[[Connection], T], *, urgent: bool = False) -> T:
        """Return what `work` reads; `urgent` if what comes late is of no use.

        Raises
        ------
        StoreUnavailableError
            The database did not answer in time.
        ClusterError
            It refused.
        """
        return self._transact(work, self._engine, urgent)

    def write(self, work: Callable[[Connection], T], *, urgent: bool = False) -> T:
        """Return what `work` returns, and make durable what it writes; raises as `read` does."""
        return self._transact(work, self._engine.execution_options(**{WRITE: True}), urgent)

    def _transact(self, work: Callable[[Connection], T], engine: Engine, urgent: bool) -> T:
        """Run `work` in one transaction, again while the database is only briefly out of reach."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(may_pass),
            stop=tenacity.stop_after_delay(self._timeout_s),
            wait=tenacity.wait_random_exponential(multiplier=0.02, max=0.5),
            reraise=True,
        )
        try:
            limit_s = self._timeout_s * (_URGENT if urgent else _PATIENT)
            return self._limit.run(lambda call: cast(T, retrying(self._attempt, work, engine, call)), limit_s)
        except TimeoutError as error:
            raise StoreUnavailableError(f"the coordination database did not answer: {error}") from error
        except SQLAlchemyError as error:
            reason = str(error.orig if isinstance(error, DBAPIError) else error).strip()
            if may_pass(error):
                raise StoreUnavailableError(f"the coordination database did not answer: {reason}") from error
            raise ClusterError(f"the coordination database refused: {reason}") from error

    def _attempt(self, work: Callable[[Connection], T], engine: Engine, call: Call) -> T:
        self._prepare(call)
        with engine.begin() as connection:
            call.uses(connection.connection.dbapi_connection)
            return work(connection)

    def _prepare(self, call: Call) -> None:
        """Create the tables that are missing; once for each store."""
        with self._preparing:
            if self._prepared:
                return
            try:
                _create_tables(self._engine, call)
            except (IntegrityError, ProgrammingError):
                # PostgreSQL's IF NOT EXISTS is not atomic: another manager created them at the same moment.
                _create_tables(self._engine, call)
            self._prepared = True


def _create_tables(engine: Engine, call: Call) -> None:
    with engine.execution_options(**{WRITE: True}).begin() as connection:
        call.uses(connection.connection.dbapi_connection)
        for table in METADATA.sorted_tables:
            connection.execute(CreateTable(table, if_not_exists=True))


# ----------------------------------------------------------------------------------------- how the databases differ
class database_now(FunctionElement[int]):
    """The database's clock when the statement runs: ms since epoch.

    Not the start of the transaction (SQL's ``CURRENT_TIMESTAMP``), which may be long ago where a lock was waited for.
    """

    type = BigInteger()
    inherit_cache = True


@compiles(database_now, "sqlite")
def _sqlite_now(element: database_now, compiler: Any, **kwargs: Any) -> str:
    return "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"


@compiles(database_now, "postgresql")
def _postgresql_now(element: database_now, compiler: Any, **kwargs: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"


@compiles(database_now, "mysql", "mariadb")
def _mysql_now(element: database_now, compiler: Any, **kwargs: Any) -> str:
    # SYSDATE, unlike NOW, is read when it is reached; UNIX_TIMESTAMP takes it in the session's time zone, as it is.
    return "CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)"
