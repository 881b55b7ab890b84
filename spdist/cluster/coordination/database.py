"""What the coordination database is asked through: its tables, its clock, and transactions within a time limit.

The tables are made, and made anew of those of an older spdist, by `spdist.cluster.migrations`. They have our own names:
WSO2's ``LEADER_STATUS_TABLE`` has no term, so managers of both kinds must not meet in one table.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import tenacity
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    select,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from spdist.cluster.migrations import NEWEST, found_version, statements, upgrade
from spdist.cluster.migrations.columns import NAME, NUMBER, TEXT
from spdist.config.datasources import DEFAULT_POOL, Pool
from spdist.errors import ClusterError, StoreUnavailableError
from spdist.stores.engines import WRITE, may_pass, open_engine
from spdist.stores.limits import Call, TimeLimit

__all__ = [
    "CORDON",
    "DEPLOYMENT",
    "JOURNAL",
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

#: How long tables may take to be changed, ms.
_UPGRADE_MS = 60_000

METADATA = MetaData()

LEADER = Table(
    "spdist_leader",
    METADATA,
    Column("group_id", NAME, primary_key=True),
    Column("node_id", NAME, nullable=False),
    Column("term", BigInteger, nullable=False),
    Column("last_heartbeat", BigInteger, nullable=False),
    Column("url", TEXT, nullable=False),
)

MANAGER = Table(
    "spdist_manager",
    METADATA,
    Column("group_id", NAME, primary_key=True),
    Column("node_id", NAME, primary_key=True),
    Column("url", TEXT, nullable=False),
    Column("last_heartbeat", BigInteger, nullable=False),
)

DEPLOYMENT = Table(
    "spdist_deployment",
    METADATA,
    Column("group_id", NAME, primary_key=True),
    Column("name", NAME, primary_key=True),
    Column("text", TEXT, nullable=False),
    Column("version", Integer, nullable=False),
    Column("desired", String(16), nullable=False),
    Column("term", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
)

ORIGIN = Table(
    "spdist_origin",
    METADATA,
    Column("group_id", NAME, primary_key=True),
    Column("name", NAME, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("origins", TEXT, nullable=False),
)

#: Under which term the rows of `WORKER` were written.
WORKER_LIST = Table(
    "spdist_worker_list",
    METADATA,
    Column("group_id", NAME, primary_key=True),
    Column("term", BigInteger, nullable=False),
)

WORKER = Table(
    "spdist_worker",
    METADATA,
    Column("group_id", NAME, primary_key=True),
    Column("node_id", NAME, primary_key=True),
    Column("incarnation", NAME, nullable=False),
    Column("registered_ms", BigInteger, nullable=False),
)

JOURNAL = Table(
    "spdist_journal",
    METADATA,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("group_id", NAME, nullable=False),
    Column("mark", String(64), nullable=False),
    Column("time_ms", BigInteger, nullable=False),
    Column("term", BigInteger),
    Column("node_id", TEXT, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("level", String(16), nullable=False),
    Column("app", NAME, nullable=False),
    Column("instance", TEXT, nullable=False),
    Column("worker", TEXT, nullable=False),
    Column("username", TEXT, nullable=False),
    Column("reason", TEXT, nullable=False),
    Column("message", TEXT, nullable=False),
    UniqueConstraint("mark", name="spdist_journal_mark"),
    UniqueConstraint("group_id", "time_ms", "id", name="spdist_journal_time"),
    UniqueConstraint("group_id", "app", "id", name="spdist_journal_app"),
)

# Apart from the list of workers, which each leader writes anew: a cordon holds for a worker that is away, too.
CORDON = Table(
    "spdist_cordon",
    METADATA,
    Column("group_id", NAME, primary_key=True),
    Column("node_id", NAME, primary_key=True),
    Column("drain", Integer, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
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
    pool : Pool
        As in `open_engine`.
    """

    def __init__(self, url: str, username: str, password: str, timeout_ms: int, pool: Pool = DEFAULT_POOL) -> None:
        self._timeout_s = timeout_ms / 1000
        self._limit = TimeLimit()
        # A connection that has gone stale costs one attempt of `_run`, a test would cost a query for each transaction
        pool = replace(pool, tested=False)
        self._open = partial(open_engine, url, username, password, purpose="coordination", pool=pool)
        # A manager that stands still within a transaction must not keep others from the leader's row.
        self._engine = self._open(timeout_ms=timeout_ms, pool=replace(pool, silent_ms=timeout_ms))
        self._prepared = False
        self._preparing = threading.Lock()

    def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        self._engine.dispose()

    def prepare(self) -> None:
        """See to it that the tables are those that this spdist knows; once for each store, before all else.

        Raises
        ------
        StoreUnavailableError
            The database did not answer in time.
        ClusterError
            They are those of a newer spdist, or older ones that this account may not change; says what to do.
        """
        with self._preparing:
            if self._prepared:
                return
            if self._ask(found_version, self._engine, self._timeout_s * _URGENT) != NEWEST:
                self.upgrade()
            self._prepared = True

    def upgrade(self) -> tuple[str, str]:
        """Change the tables as `migrations.upgrade` does and return the versions before and after; raises as `prepare`.

        The limits are not those of other calls: what is large takes longer than an election may.
        """
        engine = self._open(timeout_ms=_UPGRADE_MS)
        try:
            return self._run(lambda call: upgrade(engine, lambda one: _noted(call, one)), _UPGRADE_MS / 1000)
        finally:
            engine.dispose()

    def upgrade_statements(self) -> str:
        """Return the SQL of what `upgrade` would do."""
        return self._ask(statements, self._engine, self._timeout_s * _PATIENT)

    def now_ms(self) -> int:
        """Return the database's clock, whatever its tables are: ms since epoch; raises as `read` does."""
        return self._ask(lambda one: one.execute(select(database_now())).scalar_one(), self._engine, self._timeout_s)

    def read(self, work: Callable[[Connection], T], *, urgent: bool = False) -> T:
        """Return what `work` reads; `urgent` if what comes late is of no use.

        Raises
        ------
        StoreUnavailableError
            The database did not answer in time.
        ClusterError
            It refused, or its tables cannot be used; see `prepare`.
        """
        return self._transact(work, self._engine, urgent)

    def write(self, work: Callable[[Connection], T], *, urgent: bool = False) -> T:
        """Return what `work` returns, and make durable what it writes; raises as `read` does."""
        return self._transact(work, self._engine.execution_options(**{WRITE: True}), urgent)

    def _transact(self, work: Callable[[Connection], T], engine: Engine, urgent: bool) -> T:
        self.prepare()
        return self._ask(work, engine, self._timeout_s * (_URGENT if urgent else _PATIENT))

    def _ask(self, work: Callable[[Connection], T], engine: Engine, limit_s: float) -> T:
        """Run `work` in one transaction, again while the database is only briefly out of reach."""

        def attempt(call: Call) -> T:
            with engine.begin() as connection:
                # Before the work: a call that is given up is ended by cutting its connection
                _noted(call, connection)
                return work(connection)

        return self._run(attempt, limit_s)

    def _run(self, attempt: Callable[[Call], T], limit_s: float) -> T:
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(may_pass),
            # No attempt begins later; one that is under way may last until `limit_s`
            stop=tenacity.stop_after_delay(self._timeout_s),
            wait=tenacity.wait_random_exponential(multiplier=0.02, max=0.5),
            reraise=True,
        )
        try:
            return self._limit.run(lambda call: retrying(attempt, call), limit_s)
        except TimeoutError as error:
            raise StoreUnavailableError(f"the coordination database did not answer: {error}") from error
        except SQLAlchemyError as error:
            reason = str(error.orig if isinstance(error, DBAPIError) else error).strip()
            if may_pass(error):
                raise StoreUnavailableError(f"the coordination database did not answer: {reason}") from error
            raise ClusterError(f"the coordination database refused: {reason}") from error


def _noted(call: Call, connection: Connection) -> None:
    call.uses(connection.connection.dbapi_connection)


# ----------------------------------------------------------------------------------------- how the databases differ
class database_now(FunctionElement[int]):
    """The database's clock when the statement runs: ms since epoch.

    Not the start of the transaction (SQL's ``CURRENT_TIMESTAMP``), which may be long ago where a lock was waited for.
    """

    type = BigInteger()
    inherit_cache = True


@compiles(database_now, "sqlite")
def _sqlite_now(element: database_now, compiler: Any, **kwargs: Any) -> str:
    # Julian days since 1970-01-01, which is day 2440587.5, as ms
    return "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"


@compiles(database_now, "postgresql")
def _postgresql_now(element: database_now, compiler: Any, **kwargs: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"


@compiles(database_now, "mysql", "mariadb")
def _mysql_now(element: database_now, compiler: Any, **kwargs: Any) -> str:
    # SYSDATE, unlike NOW, is read when it is reached; UNIX_TIMESTAMP takes it in the session's time zone, as it is.
    return "CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)"
