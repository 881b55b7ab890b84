"""Engines: from a database's URL to connections, with time-outs and what a dialect needs told. Opens nothing yet.

The coordination database and the stores of apps share this door to SQLAlchemy's engines and drivers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    IntegrityError,
    NoSuchModuleError,
    NotSupportedError,
    ProgrammingError,
    SQLAlchemyError,
)
from sqlalchemy.pool import NullPool

from spdist.config.datasources import DEFAULT_POOL, Pool
from spdist.errors import ConfigError

__all__ = ["WRITE", "may_pass", "open_engine"]

#: Execution option of a connection whose transactions will write.
WRITE = "spdist_write"

_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}
_PACKAGES = {"psycopg": "psycopg[binary]", "duckdb_engine": "duckdb-engine"}


def may_pass(error: BaseException) -> bool:
    """Return True unless the database has said clearly that it will never do this."""
    definite = (DataError, IntegrityError, NotSupportedError, ProgrammingError)
    return isinstance(error, SQLAlchemyError) and not isinstance(error, definite)


def open_engine(
    url: str,
    username: str = "",
    password: str = "",
    *,
    timeout_ms: int,
    purpose: str,
    embedded: bool = False,
    of_node: bool = True,
    pool: Pool = DEFAULT_POOL,
) -> Engine:
    """Return an engine for a database, with its time-outs set; connects to nothing yet.

    Parameters
    ----------
    url : str
        SQLAlchemy's, without password: ``sqlite:///file``, ``postgresql://…``, ``mysql://…``, ``mariadb://…``.
    username, password : str
        Credentials, if any.
    timeout_ms : int
        How long a connection, a lock or a statement may take, ms.
    purpose : str
        What the database is for, as errors name it: ``coordination``.
    embedded : bool
        Whether DuckDB may be used, a database of one process.
    of_node : bool
        Whether the node's own settings name the database; else the driver looks for no passwords of the node's user.
    pool : Pool
        How many connections there may be, and for how long; `timeout_ms` is the longest that one is waited for. DuckDB
        has no pool, and a connection to SQLite needs no test.

    Raises
    ------
    ConfigError
        The URL names a database that cannot be used, credentials that it has no use for, or a driver that is not
        installed.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigError(f"{url!r} is not a database URL", hint="for example sqlite:///cluster.db") from error
    parsed = parsed.set(drivername=_DRIVERS.get(parsed.drivername, parsed.drivername))
    dialect = parsed.get_backend_name()
    if dialect in ("sqlite", "duckdb") and (username or password or parsed.username or parsed.host):
        raise ConfigError(
            f"the {purpose} database is a file of {dialect}, which knows no users and no hosts",
            hint=f"leave out user name and password; write the URL like {dialect}:///name.db",
        )
    if username:
        parsed = parsed.set(username=username, password=password or None)
    wait_ms = min(timeout_ms, pool.wait_ms or timeout_ms)
    options: dict[str, Any] = {
        "pool_size": pool.kept,
        "max_overflow": pool.most - pool.kept,
        "pool_recycle": pool.recycle_ms / 1000 or -1,  # -1: never
        "pool_timeout": wait_ms / 1000,
        "pool_pre_ping": pool.tested and dialect != "sqlite",
    }
    # Drivers count whole seconds, and 0 means no limit.
    seconds, connecting = max(1, timeout_ms // 1000), max(1, wait_ms // 1000)
    if dialect in ("sqlite", "duckdb"):
        _check_file(parsed, purpose)
    if dialect == "sqlite":
        return _open_sqlite(parsed, timeout_ms, options)
    if dialect == "postgresql":
        settings = f"-c statement_timeout={timeout_ms} -c idle_in_transaction_session_timeout={pool.silent_ms}"
        options["connect_args"] = {
            "connect_timeout": connecting,
            "options": settings,
            # A server that is gone acknowledges nothing: without this the system sends again for minutes.
            "tcp_user_timeout": timeout_ms,
            **({} if of_node else {"passfile": os.devnull, "password": password}),
        }
    elif dialect in ("mysql", "mariadb"):
        options["connect_args"] = {
            "connect_timeout": connecting,
            "read_timeout": seconds,
            "write_timeout": seconds,
            # What MySQL takes for a comment; it has no such limit.
            "init_command": f"SET autocommit=0 /*M!100300 , idle_transaction_timeout={-(-pool.silent_ms // 1000)} */",
        }
    elif dialect == "duckdb" and embedded:
        # A process that has the file open shuts out all others; connections are closed as soon as they can be.
        # Names of tables that end like those of files would else be read as files.
        closed = {"config": {"enable_external_access": "false"}}
        options = {"poolclass": NullPool, "connect_args": closed}
    else:
        raise ConfigError(f"{dialect} cannot be used for {purpose}", hint="use SQLite, PostgreSQL, MySQL or MariaDB")
    try:
        return create_engine(parsed, **options)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        driver = parsed.get_driver_name()
        where = f"at {parsed.host}" if parsed.host else f"in {parsed.database}"
        raise ConfigError(
            f"the database {where} needs the driver {driver}, which is not installed",
            hint=f"pip install {_PACKAGES.get(driver, driver)}",
        ) from error


def _check_file(url: URL, purpose: str) -> None:
    if not url.database or url.database == ":memory:":
        raise ConfigError(
            f"a {purpose} database in memory cannot be shared by managers or processes, nor outlive them",
            hint=f"use a file: {url.get_backend_name()}:///name.db",
        )
    Path(url.database).parent.mkdir(parents=True, exist_ok=True)


def _open_sqlite(url: URL, timeout_ms: int, options: Mapping[str, Any]) -> Engine:
    connecting = {"timeout": timeout_ms / 1000, "check_same_thread": False}
    engine = create_engine(url, connect_args=connecting, **options)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")  # what was committed survives a power cut

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that will write takes the lock immediately: upgrading fails when somebody else wrote meanwhile.
        write = connection.get_execution_options().get(WRITE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine
