"""The versions of the coordination database's tables, and how one is made of another; the only door to alembic.

A version is a module in `versions`. A manager compares what the database says with `NEWEST` before it asks anything
else of it, and upgrades it where it is older. Managers that start together wait for each other: one of them upgrades,
the others find it done. What was there before versions were kept counts as version ``""``.

To add a version: a module in `versions`, `NEWEST`, and the tables in `spdist.cluster.coordination.database`; a test
compares them.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, column, inspect, select, table, text
from sqlalchemy.exc import DBAPIError

from spdist.errors import ClusterError, StoreUnavailableError
from spdist.stores.engines import WRITE

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ["NEWEST", "VERSION_TABLE", "found_version", "statements", "upgrade"]

#: The version that this spdist works with.
NEWEST = "0004"
VERSION_TABLE = "spdist_schema"

_log = logging.getLogger("spdist.cluster.manager")
_LOCK = 0x7370_6469_7374  # PostgreSQL knows locks by number; one for each database
_LOCK_NAME = "CONCAT('spdist:', MD5(DATABASE()))"  # MySQL knows them by name, for the whole server
_LOCK_WAIT_S = 30
#: What drivers say where an account lacks a right: PostgreSQL's state, MySQL's numbers, SQLite's name.
_FORBIDDEN = {"42501", 1044, 1142, 1143, 1227, "SQLITE_READONLY", "SQLITE_READONLY_DIRECTORY"}


def found_version(connection: Connection) -> str:
    """Return the version of the tables that are there; empty where none is said.

    Raises
    ------
    ClusterError
        It is not known to this spdist.
    """
    if not inspect(connection).has_table(VERSION_TABLE):
        return ""
    found = connection.scalar(select(column("version_num")).select_from(table(VERSION_TABLE))) or ""
    if found and not (found.isdecimal() and int(found) <= int(NEWEST)):
        raise ClusterError(
            f"the coordination database has tables of version {found}, and this spdist knows them up to {NEWEST}: "
            "a newer spdist has upgraded them",
            hint="install the newest spdist that managers of this group had, or name another database",
        )
    return found


def upgrade(engine: Engine, using: Callable[[Connection], None] = lambda _: None) -> tuple[str, str]:
    """Make the tables those of `NEWEST` and return the versions before and after; nothing is lost by it.

    Parameters
    ----------
    engine : Engine
        Of a database that answers; its time limits must leave room for changing tables.
    using : callable, optional
        Is told the connection.

    Raises
    ------
    ClusterError
        The tables are those of a newer spdist, or the account may not change any; says what to do.
    StoreUnavailableError
        Another manager upgrades them and has not ended yet.
    """
    with engine.execution_options(**{WRITE: True}).connect() as connection:
        using(connection)
        try:
            with _alone(connection):
                # Asked again with the lock: another manager may have upgraded while this one waited
                before = found_version(connection)
                if before != NEWEST:
                    _run(connection)
                # Whoever is let in next must find the new version.
                connection.commit()
        except DBAPIError as error:
            if _reasons(error) & _FORBIDDEN:
                raise _not_allowed(engine, str(error.orig).strip()) from error
            raise
    if before != NEWEST:
        _log.info("the tables of the coordination database are those of version %s, were %s", NEWEST, before or "none")
    return before, NEWEST


def statements(connection: Connection) -> str:
    """Return the SQL of what `upgrade` would do, for somebody who may; empty where nothing is to be done."""
    from alembic import command

    before = found_version(connection)
    if before == NEWEST:
        return ""
    config, said = _config(), io.StringIO()
    config.attributes.update(dialect=connection.dialect.name, output=said)
    command.upgrade(config, f"{before}:{NEWEST}" if before else NEWEST, sql=True)
    return said.getvalue()


def _run(connection: Connection) -> None:
    from alembic import command  # takes a moment to load, and is seldom needed

    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, NEWEST)


def _config() -> Config:
    from alembic.config import Config

    logging.getLogger("alembic").setLevel(logging.WARNING)  # what it does is said here in one line
    config = Config()
    # configparser takes a single percent sign for the beginning of a name
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config


@contextmanager
def _alone(connection: Connection) -> Iterator[None]:
    """Keep other managers from upgrading at the same time; SQLite's transaction does so by itself."""
    kind = connection.dialect.name
    if kind == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    if kind not in ("mysql", "mariadb"):
        yield
        return
    # Not bound to the transaction, which each change of a table ends there.
    if connection.scalar(text(f"SELECT GET_LOCK({_LOCK_NAME}, :wait)"), {"wait": _LOCK_WAIT_S}) != 1:
        raise StoreUnavailableError("another manager upgrades the coordination database and has not ended yet")
    try:
        yield
    finally:
        connection.execute(text(f"SELECT RELEASE_LOCK({_LOCK_NAME})"))


def _reasons(error: DBAPIError) -> set[object]:
    """Return how the driver names what happened."""
    orig = error.orig
    first = orig.args[0] if orig is not None and orig.args else None
    return {getattr(orig, "sqlstate", None), getattr(orig, "sqlite_errorname", None), first}


def _not_allowed(engine: Engine, reason: str) -> ClusterError:
    account = f"the account {engine.url.username}" if engine.url.username else "this process"
    return ClusterError(
        f"the tables of the coordination database have to be changed to version {NEWEST}, and {account} may not: "
        f"{reason}",
        hint="run `python -m spdist database upgrade --conf FILE --username OWNER` with an account that may change "
        "tables, or give the SQL that `python -m spdist database upgrade --conf FILE --sql` prints to who has one",
    )
