"""The coordination database: who leads, which managers are alive, which apps are deployed. All its SQL is here.

SQLite for the managers of one machine, PostgreSQL, MySQL or MariaDB for several. Two rules:

* time is the **database's**: every timestamp comes from its clock (`database_now`);
* cluster state is written only **under a term**: in the same transaction the leader row is locked and must still
  have the writer's term and node id, otherwise nothing is written (`StaleTermError`).

Tables are created when they are missing. They have our own names: WSO2's ``LEADER_STATUS_TABLE`` has no term, so
managers of both kinds must not meet in one table.

Source: RDBMS coordination strategy of WSO2 carbon-coordination 2.1 (what is stored; not how).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
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
    Text,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.dialects.mysql import LONGTEXT, VARCHAR
from sqlalchemy.exc import (
    DBAPIError,
    IntegrityError,
    ProgrammingError,
    SQLAlchemyError,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql.functions import FunctionElement

from spdist.cluster.election import LeaderRow
from spdist.cluster.messages import Deployment, Desired
from spdist.errors import ClusterError, StaleTermError, StoreUnavailableError
from spdist.stores.engines import WRITE, may_pass, open_engine

__all__ = ["CoordinationStore", "ManagerRow", "StoredDeployment"]

T = TypeVar("T")

#: Managers that did not report for this long are struck off the list.
_STRIKE_OFF_MS = 24 * 3600 * 1000

_LONGEST_NAME = 255
# MySQL compares text without regard to case unless told otherwise; our names are exact.
_NAME = String(_LONGEST_NAME).with_variant(VARCHAR(_LONGEST_NAME, collation="utf8mb4_bin"), "mysql", "mariadb")
_TEXT = Text().with_variant(LONGTEXT(collation="utf8mb4_bin"), "mysql", "mariadb")

_METADATA = MetaData()

_LEADER = Table(
    "spdist_leader",
    _METADATA,
    Column("group_id", _NAME, primary_key=True),
    Column("node_id", _NAME, nullable=False),
    Column("term", BigInteger, nullable=False),
    Column("last_heartbeat", BigInteger, nullable=False),
    Column("url", _TEXT, nullable=False),
)

_MANAGER = Table(
    "spdist_manager",
    _METADATA,
    Column("group_id", _NAME, primary_key=True),
    Column("node_id", _NAME, primary_key=True),
    Column("url", _TEXT, nullable=False),
    Column("last_heartbeat", BigInteger, nullable=False),
)

_DEPLOYMENT = Table(
    "spdist_deployment",
    _METADATA,
    Column("group_id", _NAME, primary_key=True),
    Column("name", _NAME, primary_key=True),
    Column("text", _TEXT, nullable=False),
    Column("version", Integer, nullable=False),
    Column("desired", String(16), nullable=False),
    Column("term", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
)


@dataclass(frozen=True, slots=True)
class ManagerRow:
    """A manager that is alive: its id, base URL, and last heartbeat (ms since epoch, the database's clock)."""

    node_id: str
    url: str
    last_heartbeat: int


@dataclass(frozen=True, slots=True)
class StoredDeployment:
    """A deployment as it is stored.

    Parameters
    ----------
    name, text, version, desired
        As in `spdist.cluster.messages.Deployment`.
    term : int
        Of the leader that wrote it.
    created_ms, updated_ms : int
        First and last time it was written: ms since epoch, the database's clock.
    """

    name: str
    text: str
    version: int
    desired: Desired
    term: int
    created_ms: int
    updated_ms: int


class CoordinationStore:
    """The rows of one group of managers. Safe to use from several threads; opening it asks nothing of the database.

    Parameters
    ----------
    url : str
        SQLAlchemy's, without password; ``sqlite:///file``, ``postgresql://…``, ``mysql://…`` or ``mariadb://…``.
    group_id : str
        ``cluster.config.groupId``; several groups may share a database.
    username, password : str
        Credentials, if any.
    timeout_ms : int
        How long a call may try, retries included, before `StoreUnavailableError`; a call that waits inside the
        database may take about twice as long. Choose it shorter than the lease: what comes later is too late.

    Raises
    ------
    ConfigError
        The URL names a database that cannot be used, or its driver is not installed.
    """

    def __init__(
        self, url: str, group_id: str, *, username: str = "", password: str = "", timeout_ms: int = 1_000
    ) -> None:
        self.group_id = group_id
        self._timeout_s = timeout_ms / 1000
        self._engine = open_engine(url, username, password, timeout_ms=timeout_ms, purpose="coordination")
        self._prepared = False
        self._preparing = threading.Lock()

    def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        self._engine.dispose()

    # -------------------------------------------------------------------------------------------------------- election
    def read_leader(self) -> tuple[LeaderRow | None, int]:
        """Return the leader row, None if there never was a leader, and the database's clock at that moment."""

        def work(connection: Connection) -> tuple[LeaderRow | None, int]:
            row = connection.execute(
                select(_LEADER, database_now().label("now")).where(_LEADER.c.group_id == self.group_id)
            ).one_or_none()
            if row is None:
                return None, connection.execute(select(database_now())).scalar_one()
            return LeaderRow(row.group_id, row.node_id, row.term, row.last_heartbeat, row.url), row.now

        return self._read(work)

    def renew(self, term: int, node_id: str) -> bool:
        """Set the heartbeat of a leadership to now; False if the row belongs to another by now."""
        change = update(_LEADER).where(self._led_by(term, node_id)).values(last_heartbeat=database_now())
        return self._write(lambda connection: connection.execute(change).rowcount == 1)

    def try_take(self, expected: LeaderRow | None, node_id: str, url: str) -> int | None:
        """Replace the leader row by one of the next term, if it still is exactly `expected`.

        Parameters
        ----------
        expected : LeaderRow, optional
            The row as it was read; None if there was none. A renewal in between changes the heartbeat, so it is
            noticed like a change of leader.
        node_id, url : str
            The new leader.

        Returns
        -------
        int, optional
            The new term; None if somebody was faster. After a connection broke down the swap may have succeeded
            without our knowing: that term is then used by nobody and expires.
        """
        row = {"node_id": node_id, "url": url, "last_heartbeat": database_now()}
        if expected is None:
            first = insert(_LEADER).values(group_id=self.group_id, term=1, **row)
            return 1 if self._write(lambda connection: _inserted(connection, first)) else None
        swap = (
            update(_LEADER)
            .where(self._led_by(expected.term, expected.node_id))
            .where(_LEADER.c.last_heartbeat == expected.last_heartbeat)
            .values(term=expected.term + 1, **row)
        )
        taken = self._write(lambda connection: connection.execute(swap).rowcount == 1)
        return expected.term + 1 if taken else None

    def resign(self, term: int, node_id: str) -> None:
        """Let others take over at once; call it after the last act of a leadership. Does nothing if that is over."""
        change = update(_LEADER).where(self._led_by(term, node_id)).values(last_heartbeat=0)
        self._write(lambda connection: connection.execute(change))

    def _led_by(self, term: int, node_id: str) -> Any:
        return (_LEADER.c.group_id == self.group_id) & (_LEADER.c.term == term) & (_LEADER.c.node_id == node_id)

    # --------------------------------------------------------------------------------------------------------- managers
    def heartbeat_manager(self, node_id: str, url: str) -> None:
        """Note that a manager is alive. Managers that have been silent for a day are struck off."""

        def work(connection: Connection) -> None:
            mine = (_MANAGER.c.group_id == self.group_id) & (_MANAGER.c.node_id == node_id)
            row = {"url": url, "last_heartbeat": database_now()}
            if connection.execute(update(_MANAGER).where(mine).values(**row)).rowcount == 0:
                connection.execute(insert(_MANAGER).values(group_id=self.group_id, node_id=node_id, **row))
                old = _MANAGER.c.last_heartbeat < database_now() - _STRIKE_OFF_MS
                connection.execute(delete(_MANAGER).where((_MANAGER.c.group_id == self.group_id) & old))

        self._write(work)

    def live_managers(self, max_age_ms: int) -> tuple[ManagerRow, ...]:
        """Return the managers whose heartbeat is not older than `max_age_ms`, by id."""
        query = (
            select(_MANAGER.c.node_id, _MANAGER.c.url, _MANAGER.c.last_heartbeat)
            .where(_MANAGER.c.group_id == self.group_id)
            .where(_MANAGER.c.last_heartbeat >= database_now() - max_age_ms)
            .order_by(_MANAGER.c.node_id)
        )
        return self._read(lambda connection: tuple(ManagerRow(*row) for row in connection.execute(query)))

    # ------------------------------------------------------------------------------------------------------ deployments
    def deployments(self) -> tuple[StoredDeployment, ...]:
        """Return all deployments, by name. A new leader reads them after it took its term."""
        c = _DEPLOYMENT.c
        query = (
            select(c.name, c.text, c.version, c.desired, c.term, c.created_ms, c.updated_ms)
            .where(c.group_id == self.group_id)
            .order_by(c.name)
        )
        return self._read(
            lambda connection: tuple(
                StoredDeployment(r.name, r.text, r.version, Desired(r.desired), r.term, r.created_ms, r.updated_ms)
                for r in connection.execute(query)
            )
        )

    def save_deployment(self, term: int, node_id: str, deployment: Deployment) -> None:
        """Write a version of an app (its name, text, version and what is desired). Durable on return.

        Raises
        ------
        StaleTermError
            The leadership is over; nothing was written.
        ClusterError
            The database refuses the row; nothing was written.
        StoreUnavailableError
            It is not known whether it was written: give up the term, so that the next leader reads what is there.
        """
        if len(deployment.name) > _LONGEST_NAME:
            raise ClusterError(
                f"the name of app {deployment.name[:40]}… has {len(deployment.name)} characters",
                hint=f"{_LONGEST_NAME} are the most",
            )

        def work(connection: Connection) -> None:
            self._fence(connection, term, node_id)
            mine = (_DEPLOYMENT.c.group_id == self.group_id) & (_DEPLOYMENT.c.name == deployment.name)
            # Asked once: PostgreSQL reads its clock each time that a statement names it.
            now = connection.scalar(select(database_now()))
            row = {
                "text": deployment.text,
                "version": deployment.version,
                "desired": deployment.desired.value,
                "term": term,
                "updated_ms": now,
            }
            if connection.execute(update(_DEPLOYMENT).where(mine).values(**row)).rowcount == 0:
                new = {"group_id": self.group_id, "name": deployment.name, "created_ms": now}
                connection.execute(insert(_DEPLOYMENT).values(**new, **row))

        self._write(work)

    def forget_deployment(self, term: int, node_id: str, name: str, version: int) -> None:
        """Delete the row of an undeployed app, unless it was deployed again since `version`.

        Raises
        ------
        StaleTermError
            The leadership is over; nothing was deleted.
        """
        c = _DEPLOYMENT.c
        row = delete(_DEPLOYMENT).where(
            (c.group_id == self.group_id)
            & (c.name == name)
            & (c.version == version)
            & (c.desired == Desired.REMOVED.value)
        )

        def work(connection: Connection) -> None:
            self._fence(connection, term, node_id)
            connection.execute(row)

        self._write(work)

    def _fence(self, connection: Connection, term: int, node_id: str) -> None:
        """Hold the leader row until the transaction ends, so that nobody takes over in between; raise if it changed."""
        query = select(_LEADER.c.term, _LEADER.c.node_id).where(_LEADER.c.group_id == self.group_id).with_for_update()
        row = connection.execute(query).one_or_none()
        if row is None or (row.term, row.node_id) != (term, node_id):
            now = "nobody leads" if row is None else f"{row.node_id} leads in term {row.term}"
            raise StaleTermError(f"manager {node_id} no longer leads in term {term}: {now}")

    # ----------------------------------------------------------------------------------------------------- transactions
    def _read(self, work: Callable[[Connection], T]) -> T:
        return self._transact(work, self._engine)

    def _write(self, work: Callable[[Connection], T]) -> T:
        return self._transact(work, self._engine.execution_options(**{WRITE: True}))

    def _transact(self, work: Callable[[Connection], T], engine: Engine) -> T:
        """Run `work` in one transaction, again while the database is only briefly out of reach."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(may_pass),
            stop=tenacity.stop_after_delay(self._timeout_s),
            wait=tenacity.wait_random_exponential(multiplier=0.02, max=0.5),
            reraise=True,
        )
        try:
            result: T = retrying(self._attempt, work, engine)
        except SQLAlchemyError as error:
            reason = str(error.orig if isinstance(error, DBAPIError) else error).strip()
            if may_pass(error):
                raise StoreUnavailableError(f"the coordination database did not answer: {reason}") from error
            raise ClusterError(f"the coordination database refused: {reason}") from error
        return result

    def _attempt(self, work: Callable[[Connection], T], engine: Engine) -> T:
        self._prepare()
        with engine.begin() as connection:
            return work(connection)

    def _prepare(self) -> None:
        """Create the tables that are missing; once for each store."""
        with self._preparing:
            if self._prepared:
                return
            try:
                self._create_tables()
            except (IntegrityError, ProgrammingError):
                # PostgreSQL's IF NOT EXISTS is not atomic: another manager created them at the same moment.
                self._create_tables()
            self._prepared = True

    def _create_tables(self) -> None:
        with self._engine.execution_options(**{WRITE: True}).begin() as connection:
            for table in _METADATA.sorted_tables:
                connection.execute(CreateTable(table, if_not_exists=True))


def _inserted(connection: Connection, row: Any) -> bool:
    """Insert a row in a transaction of its own; False if its key is taken."""
    try:
        connection.execute(row)
    except IntegrityError:
        connection.rollback()
        return False
    return True


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
